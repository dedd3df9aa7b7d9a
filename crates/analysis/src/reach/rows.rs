//! Rows: the cells of a program for all classes at the other end, as runs of equal cells.
//!
//! Peer sets are intervals of classes, so that one sweep over their boundaries visits every combination of rules that
//! matches some class; the cell of a combination is cached.

mod interval_ledger;
mod sweep;
mod undecided;

use palisade_model::pipeline::{self, Ledger, Only, Rest};
use palisade_model::policy::Action;
use palisade_model::traffic::Protocol;

use super::cells::{Cell, CellId, Cells};
use super::groups::DestinationId;
use super::members::Spans;
use super::programs::{ProgramRule, RuleProgram, RuleTraffic};
use super::traffics::{TrafficId, Traffics};
use interval_ledger::IntervalLedger;
use undecided::UndecidedTraffic;

/// Cells of one side for all classes, in runs: the first class of each run, and its cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassRow {
    runs: Box<[(u32, CellId)]>,
    known: bool,
}

/// Work to look up the traffic of a rule at a destination.
const DESTINATION_LOOKUP_WORK: u64 = 150;
/// Work of a rule of a combination, besides that for its traffic.
const MATCH_WORK: u64 = 40;
/// Combinations of rules with at most this many intervals of traffic are decided with interned sets: the same few recur in
/// every row, and operations on them are cached.
const MAX_INTERNED_INTERVALS: usize = 16;

/// What decided about some traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decider {
    /// A rule, by its index in the program, and its action.
    Rule(usize, Action),
    /// No rule allowed it, and the endpoint is isolated.
    Isolation,
    /// No rule matched it: allowed by default.
    Nobody,
}

/// Everything needed to run programs.
pub(super) struct RowRunner<'r> {
    pub cells: &'r mut Cells,
    /// Peer sets as intervals of classes.
    pub peers: &'r [Spans],
    /// Destination of each class.
    pub destinations: &'r [DestinationId],
    /// Returns the traffic of a rule at a destination.
    pub carried: &'r dyn Fn(&ProgramRule, DestinationId, &mut Traffics) -> TrafficId,
}

// === impl ClassRow ===

impl ClassRow {
    /// Returns the cell of a class.
    pub fn at(&self, class: u32) -> CellId {
        let after = self.runs.partition_point(|(first, _)| *first <= class);
        self.runs[after.saturating_sub(1)].1
    }

    /// Returns the runs: the first class, and the cell of all up to the next run.
    pub fn runs(&self) -> &[(u32, CellId)] {
        &self.runs
    }

    /// Whether it was computed. A row beyond the limit denies everything.
    pub fn is_known(&self) -> bool {
        self.known
    }

    /// Creates a row that was not computed because of a limit.
    fn unknown() -> Self {
        ClassRow { runs: [(0, CellId::NOTHING)].into(), known: false }
    }
}

// === impl RowRunner ===

impl RowRunner<'_> {
    /// Returns the rules of a program that match a class, in order.
    pub fn active(&self, program: &RuleProgram, class: u32) -> Vec<u32> {
        let names = |held: &ProgramRule| {
            let spans = &self.peers[held.peers.0 as usize];
            let after = spans.partition_point(|(first, _)| *first <= class);
            after > 0 && class <= spans[after - 1].1
        };
        (0..).zip(&program.rules).filter(|(_, held)| names(held)).map(|(at, _)| at).collect()
    }

    /// Runs the pipeline for all traffic to a destination, with the rules that match the peer.
    pub fn cell(&mut self, program: &RuleProgram, active: &[u32], destination: DestinationId) -> CellId {
        let intervals = |rule: &u32| usize::from(program.rules[*rule as usize].intervals);
        if active.iter().map(intervals).sum::<usize>() <= MAX_INTERNED_INTERVALS {
            return self.run(program, active, destination, |_, _| {});
        }
        self.cells.work().take(MATCH_WORK * (active.len() as u64 + 1));
        let undecided = UndecidedTraffic::new(self.cells.traffics.set(Traffics::ALL));
        let mut ledger = IntervalLedger::new(self, program, destination, undecided);
        pipeline::decide(&mut ledger, program.stages(active));
        let (allow, reject) = ledger.finish();
        self.cells.intern(Cell { allow, reject })
    }

    /// Runs the pipeline as [`cell`](RowRunner::cell) does, and reports which rule decided which traffic.
    pub fn run(
        &mut self,
        program: &RuleProgram,
        active: &[u32],
        destination: DestinationId,
        decided: impl FnMut(Decider, TrafficId),
    ) -> CellId {
        self.cells.work().take(MATCH_WORK * (active.len() as u64 + 1));
        let mut ledger = InternedLedger {
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
        let InternedLedger { allow, reject, .. } = ledger;
        self.cells.intern(Cell { allow, reject })
    }

    /// Returns the traffic of a rule, to a destination.
    fn about(&mut self, held: &ProgramRule, destination: DestinationId) -> TrafficId {
        match held.carried {
            RuleTraffic::Always(traffic) => traffic,
            RuleTraffic::ByDestination => {
                self.cells.work().take(DESTINATION_LOOKUP_WORK);
                (self.carried)(held, destination, &mut self.cells.traffics)
            }
        }
    }
}

/// Ledger of interned sets: the same few recur in every row, and operations on them are cached.
struct InternedLedger<'l, 'r, F> {
    runner: &'l mut RowRunner<'r>,
    program: &'l RuleProgram,
    destination: DestinationId,
    undecided: TrafficId,
    passed: TrafficId,
    allow: TrafficId,
    reject: TrafficId,
    decided: F,
}

// === impl InternedLedger ===

impl<F: FnMut(Decider, TrafficId)> InternedLedger<'_, '_, F> {
    /// Returns the undecided traffic that a rule matches.
    fn hit(&mut self, rule: u32) -> TrafficId {
        let about = self.runner.about(&self.program.rules[rule as usize], self.destination);
        self.runner.cells.traffics.intersection(about, self.undecided)
    }
}

impl<F: FnMut(Decider, TrafficId)> Ledger<u32> for InternedLedger<'_, '_, F> {
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
