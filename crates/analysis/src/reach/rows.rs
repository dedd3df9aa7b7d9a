//! What a program says about everybody at the other end, as runs of classes that get the same.
//!
//! Peers are intervals of classes, so that one sweep over their ends meets every combination of rules that some class
//! is named by, once; what a combination comes to is remembered.

mod in_place;
mod sweep;
mod undecided;

use palisade_model::pipeline::{self, Ledger, Only, Rest};
use palisade_model::policy::Action;
use palisade_model::traffic::Protocol;

use super::cells::{Cell, CellId, Cells};
use super::groups::DestinationId;
use super::members::Spans;
use super::programs::{Carried, Held, Program};
use super::traffics::{TrafficId, Traffics};
use in_place::InPlace;
use undecided::Undecided;

/// For every class, in runs: the first class of each run, and what all of it gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    runs: Box<[(u32, CellId)]>,
    known: bool,
}

/// Steps to look up what a rule is about at a destination.
const BY_DESTINATION: u64 = 150;
/// Steps to ask a rule of a combination, beside what its traffic takes.
const ASKED: u64 = 40;
/// Combinations of rules with at most this many intervals of traffic are combined as interned sets: the same few come back
/// in every row, and combining them is remembered.
const FEW: usize = 16;

/// Who decided about some traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decider {
    /// This rule of the program; what it does.
    Rule(usize, Action),
    /// Nobody allowed it, and the endpoint is isolated.
    Isolation,
    /// Nobody had anything to say: it is let through.
    Nobody,
}

/// What is needed to run programs.
pub(super) struct Runner<'r> {
    pub cells: &'r mut Cells,
    /// Peer sets as intervals of classes.
    pub peers: &'r [Spans],
    /// For each class what rules ask about it as a destination.
    pub destinations: &'r [DestinationId],
    /// What a rule is about, for a destination: by program rule.
    pub carried: &'r dyn Fn(&Held, DestinationId, &mut Traffics) -> TrafficId,
}

// === impl Row ===

impl Row {
    /// What a class gets.
    pub fn at(&self, class: u32) -> CellId {
        let after = self.runs.partition_point(|(first, _)| *first <= class);
        self.runs[after.saturating_sub(1)].1
    }

    /// The runs: the first class, and what all up to the next run get.
    pub fn runs(&self) -> &[(u32, CellId)] {
        &self.runs
    }

    /// Whether what it says is so. A row that would have been too much work says that nobody gets anything.
    pub fn is_known(&self) -> bool {
        self.known
    }

    /// A row that would have been too much work.
    fn unknown() -> Self {
        Row { runs: [(0, CellId::NOTHING)].into(), known: false }
    }
}

// === impl Runner ===

impl Runner<'_> {
    /// The rules of a program that are about a class.
    pub fn active(&self, program: &Program, class: u32) -> Vec<u32> {
        let names = |held: &Held| {
            let spans = &self.peers[held.peers.0 as usize];
            let after = spans.partition_point(|(first, _)| *first <= class);
            after > 0 && class <= spans[after - 1].1
        };
        (0..).zip(&program.rules).filter(|(_, held)| names(held)).map(|(at, _)| at).collect()
    }

    /// Runs the pipeline for all traffic at once: the rules that are about the peer, in order, to a destination.
    pub fn cell(&mut self, program: &Program, active: &[u32], destination: DestinationId) -> CellId {
        let intervals = |rule: &u32| usize::from(program.rules[*rule as usize].intervals);
        if active.iter().map(intervals).sum::<usize>() <= FEW {
            return self.run(program, active, destination, |_, _| {});
        }
        self.cells.work().take(ASKED * (active.len() as u64 + 1));
        let undecided = Undecided::new(self.cells.traffics.set(Traffics::ALL));
        let mut ledger = InPlace::new(self, program, destination, undecided);
        pipeline::decide(&mut ledger, program.stages(active));
        let (allow, reject) = ledger.finish();
        self.cells.intern(Cell { allow, reject })
    }

    /// Runs the pipeline as [`cell`](Runner::cell) does, and reports which rule decided which traffic.
    pub fn run(
        &mut self,
        program: &Program,
        active: &[u32],
        destination: DestinationId,
        decided: impl FnMut(Decider, TrafficId),
    ) -> CellId {
        self.cells.work().take(ASKED * (active.len() as u64 + 1));
        let mut ledger = Interned {
            runner: self,
            program,
            destination,
            undecided: Traffics::ALL,
            passed: Traffics::EMPTY,
            allow: Traffics::EMPTY,
            reject: Traffics::EMPTY,
            decided,
        };
        pipeline::decide(&mut ledger, program.stages(active));
        let Interned { allow, reject, .. } = ledger;
        self.cells.intern(Cell { allow, reject })
    }

    /// Returns the traffic of a rule, to a destination.
    fn about(&mut self, held: &Held, destination: DestinationId) -> TrafficId {
        match held.carried {
            Carried::Always(traffic) => traffic,
            Carried::ByDestination => {
                self.cells.work().take(BY_DESTINATION);
                (self.carried)(held, destination, &mut self.cells.traffics)
            }
        }
    }
}

/// Traffic in interned sets: the same few come back in every row, and combining them is remembered.
struct Interned<'l, 'r, F> {
    runner: &'l mut Runner<'r>,
    program: &'l Program,
    destination: DestinationId,
    undecided: TrafficId,
    passed: TrafficId,
    allow: TrafficId,
    reject: TrafficId,
    decided: F,
}

// === impl Interned ===

impl<F: FnMut(Decider, TrafficId)> Interned<'_, '_, F> {
    /// Returns the undecided traffic that a rule matches.
    fn hit(&mut self, rule: u32) -> TrafficId {
        let about = self.runner.about(&self.program.rules[rule as usize], self.destination);
        self.runner.cells.traffics.intersection(about, self.undecided)
    }
}

impl<F: FnMut(Decider, TrafficId)> Ledger<u32> for Interned<'_, '_, F> {
    fn assign(&mut self, rule: u32, only: Only, action: Action) {
        let mut hit = self.hit(rule);
        let traffics = &mut self.runner.cells.traffics;
        if only == Only::Tcp && hit != Traffics::EMPTY {
            let tcp = traffics.intern(traffics.space().protocol(Protocol::Tcp));
            hit = traffics.intersection(hit, tcp);
        }
        if hit == Traffics::EMPTY {
            return;
        }
        self.undecided = traffics.difference(self.undecided, hit);
        match action {
            Action::Allow => self.allow = traffics.union(self.allow, hit),
            Action::Deny => {}
            Action::Reject => self.reject = traffics.union(self.reject, hit),
            Action::Pass => self.passed = traffics.union(self.passed, hit),
        }
        (self.decided)(Decider::Rule(rule as usize, action), hit);
    }

    /// Every rule that allows some traffic is reported, so that what it allows stays undecided for the next.
    fn allow(&mut self, rule: u32) {
        let hit = self.hit(rule);
        if hit != Traffics::EMPTY {
            self.allow = self.runner.cells.traffics.union(self.allow, hit);
            (self.decided)(Decider::Rule(rule as usize, Action::Allow), hit);
        }
    }

    fn assign_rest(&mut self, rest: Rest) {
        let traffics = &mut self.runner.cells.traffics;
        let (decider, rest) = match rest {
            Rest::Isolated => (Decider::Isolation, traffics.difference(self.undecided, self.allow)),
            Rest::Default => {
                self.allow = traffics.union(self.allow, self.undecided);
                (Decider::Nobody, self.undecided)
            }
        };
        self.undecided = Traffics::EMPTY;
        if rest != Traffics::EMPTY {
            (self.decided)(decider, rest);
        }
    }

    fn reopen_passed(&mut self) {
        let passed = std::mem::replace(&mut self.passed, Traffics::EMPTY);
        self.undecided = self.runner.cells.traffics.union(self.undecided, passed);
    }

    fn is_decided(&self) -> bool {
        self.undecided == Traffics::EMPTY
    }
}
