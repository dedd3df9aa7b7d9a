//! What a program says about everybody at the other end, as runs of classes that get the same.
//!
//! Peers are intervals of classes, so that one sweep over their ends meets every combination of rules that some class
//! is named by, once; what a combination comes to is remembered.

mod sweep;
mod undecided;

use palisade_model::policy::Action;
use palisade_model::traffic::Protocol;

use super::cells::{Cell, CellId, Cells};
use super::groups::DestinationId;
use super::members::Spans;
use super::programs::{Carried, Effect, Held, Program};
use super::traffic_set::{TrafficId, TrafficSet, Traffics};
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
/// Steps to put an interval that was decided in order.
const SORTED: u64 = 40;
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

    /// Whether all rules of a program together have few intervals of traffic.
    pub fn is_small(&self, program: &Program) -> bool {
        self.intervals(program.rules.iter()) <= FEW
    }

    fn intervals<'h>(&self, rules: impl Iterator<Item = &'h Held>) -> usize {
        let of = |held: &Held| match held.carried {
            Carried::Always(traffic) => self.cells.traffics.set(traffic).pieces().len(),
            Carried::ByDestination => 1,
        };
        rules.map(of).sum()
    }

    /// The pipeline, for all traffic at once: the rules that are about the peer, in order, to a destination. `small` is what
    /// [`is_small`](Runner::is_small) says of the program.
    pub fn cell(
        &mut self,
        program: &Program,
        small: bool,
        active: &[u32],
        destination: DestinationId,
    ) -> CellId {
        let rules = active.iter().map(|rule| &program.rules[*rule as usize]);
        if small || self.intervals(rules) <= FEW {
            return self.run(program, active, destination, |_, _| {});
        }
        self.cells.work().take(ASKED * (active.len() as u64 + 1));
        let at = |rule: &u32| *rule as usize;
        let tiers = active.partition_point(|rule| at(rule) < program.tiers);
        let union = active.partition_point(|rule| at(rule) < program.union);
        let mut state = Parts::new(self.cells.traffics.set(Traffics::ALL));
        self.first_match_in_place(program, &active[..tiers], destination, &mut state);
        if program.isolated {
            let mut about = Vec::new();
            for rule in &active[tiers..union] {
                let traffic = self.about(&program.rules[at(rule)], destination);
                about.extend_from_slice(self.cells.traffics.set(traffic).pieces());
            }
            state.steps += SORTED * about.len() as u64;
            let about = TrafficSet::of(about);
            state.steps += state.undecided.take(about.pieces(), &mut state.allow);
        } else {
            self.first_match_in_place(program, &active[union..], destination, &mut state);
            state.allow.extend_from_slice(state.undecided.pieces());
        }
        let Parts { allow, reject, steps, .. } = state;
        self.cells.work().take(steps + SORTED * (allow.len() + reject.len()) as u64);
        let [allow, reject] = [allow, reject].map(|part| self.cells.traffics.intern(TrafficSet::of(part)));
        self.cells.intern(Cell { allow, reject })
    }

    /// What [`first_match`](Runner::first_match) does, without interning what is left behind each rule.
    fn first_match_in_place(
        &mut self,
        program: &Program,
        rules: &[u32],
        destination: DestinationId,
        state: &mut Parts,
    ) {
        let (mut passed, mut other) = (Vec::new(), Vec::new());
        for rule in rules {
            if state.undecided.is_empty() {
                break;
            }
            let held = &program.rules[*rule as usize];
            let about = self.about(held, destination);
            let about = self.cells.traffics.set(about);
            let hit = match held.effect {
                Effect::Act(Action::Allow) => &mut state.allow,
                Effect::Act(Action::Reject) => &mut state.reject,
                Effect::Act(Action::Pass) => &mut passed,
                Effect::Act(Action::Deny) | Effect::AllowTcp => &mut other,
            };
            state.steps += state.undecided.take(about.pieces(), hit);
            if held.effect == Effect::AllowTcp {
                let tcp = self.cells.traffics.line().of(Protocol::Tcp);
                state.steps += SORTED * other.len() as u64;
                let allowed = TrafficSet::of(std::mem::take(&mut other)).and(&tcp);
                state.allow.extend_from_slice(allowed.pieces());
            }
            other.clear();
        }
        state.steps += SORTED * passed.len() as u64;
        if !passed.is_empty() {
            passed.extend_from_slice(state.undecided.pieces());
            state.undecided = Undecided::new(&TrafficSet::of(passed));
        }
    }

    /// The pipeline as [`cell`](Runner::cell) runs it, rule by rule: reports which rule decided which traffic.
    pub fn run(
        &mut self,
        program: &Program,
        active: &[u32],
        destination: DestinationId,
        mut decided: impl FnMut(Decider, TrafficId),
    ) -> CellId {
        self.cells.work().take(ASKED * (active.len() as u64 + 1));
        let mut state = State { undecided: Traffics::ALL, allow: Traffics::EMPTY, reject: Traffics::EMPTY };
        let at = |rule: &u32| *rule as usize;
        let tiers = active.partition_point(|rule| at(rule) < program.tiers);
        let union = active.partition_point(|rule| at(rule) < program.union);
        self.first_match(program, &active[..tiers], destination, &mut state, &mut decided);
        if program.isolated {
            for rule in &active[tiers..union] {
                let held = &program.rules[at(rule)];
                let hit = self.hit(held, destination, state.undecided);
                if hit != Traffics::EMPTY {
                    decided(Decider::Rule(at(rule), Action::Allow), hit);
                    state.allow = self.cells.traffics.or(state.allow, hit);
                }
            }
            let denied = self.cells.traffics.minus(state.undecided, state.allow);
            if denied != Traffics::EMPTY {
                decided(Decider::Isolation, denied);
            }
        } else {
            self.first_match(program, &active[union..], destination, &mut state, &mut decided);
            if state.undecided != Traffics::EMPTY {
                decided(Decider::Nobody, state.undecided);
            }
            state.allow = self.cells.traffics.or(state.allow, state.undecided);
        }
        self.cells.intern(Cell { allow: state.allow, reject: state.reject })
    }

    /// The first rule that matches decides; what is passed is undecided afterwards, as is what nobody matched.
    fn first_match(
        &mut self,
        program: &Program,
        rules: &[u32],
        destination: DestinationId,
        state: &mut State,
        decided: &mut impl FnMut(Decider, TrafficId),
    ) {
        let mut passed = Traffics::EMPTY;
        for rule in rules {
            let at = *rule as usize;
            let held = &program.rules[at];
            let hit = self.hit(held, destination, state.undecided);
            if hit == Traffics::EMPTY {
                continue;
            }
            let traffics = &mut self.cells.traffics;
            state.undecided = traffics.minus(state.undecided, hit);
            match held.effect {
                Effect::Act(action) => {
                    decided(Decider::Rule(at, action), hit);
                    match action {
                        Action::Allow => state.allow = traffics.or(state.allow, hit),
                        Action::Deny => {}
                        Action::Reject => state.reject = traffics.or(state.reject, hit),
                        Action::Pass => passed = traffics.or(passed, hit),
                    }
                }
                Effect::AllowTcp => {
                    let tcp = traffics.line().of(Protocol::Tcp);
                    let tcp = traffics.intern(tcp);
                    let (allowed, denied) = (traffics.and(hit, tcp), traffics.minus(hit, tcp));
                    for (action, part) in [(Action::Allow, allowed), (Action::Deny, denied)] {
                        if part != Traffics::EMPTY {
                            decided(Decider::Rule(at, action), part);
                        }
                    }
                    state.allow = traffics.or(state.allow, allowed);
                }
            }
        }
        state.undecided = self.cells.traffics.or(state.undecided, passed);
    }

    fn hit(&mut self, held: &Held, destination: DestinationId, undecided: TrafficId) -> TrafficId {
        let about = self.about(held, destination);
        self.cells.traffics.and(about, undecided)
    }

    /// The traffic of a rule, to a destination.
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

/// How far a pipeline has come, in intervals that are not interned.
struct Parts {
    undecided: Undecided,
    /// Intervals in any order; none is in it twice.
    allow: Vec<(u32, u32)>,
    reject: Vec<(u32, u32)>,
    /// Work that was done and not accounted for yet.
    steps: u64,
}

// === impl Parts ===

impl Parts {
    fn new(all: &TrafficSet) -> Self {
        Parts { undecided: Undecided::new(all), allow: Vec::new(), reject: Vec::new(), steps: 0 }
    }
}

/// How far a pipeline has come.
struct State {
    undecided: TrafficId,
    allow: TrafficId,
    reject: TrafficId,
}
