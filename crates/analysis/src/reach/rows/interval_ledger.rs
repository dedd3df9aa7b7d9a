//! Traffic in intervals that are not interned, for programs of hundreds of rules: see [`super::undecided`].

use palisade_model::pipeline::{Ledger, Only, Rest};
use palisade_model::policy::Action;
use palisade_model::traffic::Protocol;
use palisade_model::traffic_set::TrafficSet;

use super::undecided::UndecidedTraffic;
use super::{RowRunner, RuleProgram};
use crate::reach::groups::DestinationId;
use crate::reach::traffics::TrafficId;

/// Work to sort an interval that was decided.
const INTERVAL_WORK: u64 = 40;

/// The ledger of one program. Lists hold intervals in any order, each once unless said otherwise.
pub(super) struct IntervalLedger<'l, 'r> {
    runner: &'l mut RowRunner<'r>,
    program: &'l RuleProgram,
    destination: DestinationId,
    undecided: UndecidedTraffic,
    allow: Vec<(u32, u32)>,
    reject: Vec<(u32, u32)>,
    passed: Vec<(u32, u32)>,
    /// What rules of the NetworkPolicy stage match, decided or not; it may overlap. Taken at once when the stage ends.
    allowing: Vec<(u32, u32)>,
    /// Work that was done and not accounted for yet.
    steps: u64,
}

// === impl IntervalLedger ===

impl<'l, 'r> IntervalLedger<'l, 'r> {
    pub(super) fn new(
        runner: &'l mut RowRunner<'r>,
        program: &'l RuleProgram,
        destination: DestinationId,
        undecided: UndecidedTraffic,
    ) -> Self {
        IntervalLedger {
            runner,
            program,
            destination,
            undecided,
            allow: Vec::new(),
            reject: Vec::new(),
            passed: Vec::new(),
            allowing: Vec::new(),
            steps: 0,
        }
    }

    /// Interns what is allowed and what is refused with an answer.
    pub(super) fn finish(self) -> (TrafficId, TrafficId) {
        let IntervalLedger { runner, allow, reject, steps, .. } = self;
        runner.cells.work().take(steps + INTERVAL_WORK * (allow.len() + reject.len()) as u64);
        let mut intern = |part| runner.cells.traffics.intern(TrafficSet::from_intervals(part));
        (intern(allow), intern(reject))
    }

    fn about(&mut self, rule: u32) -> TrafficId {
        self.runner.about(&self.program.rules[rule as usize], self.destination)
    }
}

impl Ledger<u32> for IntervalLedger<'_, '_> {
    fn assign(&mut self, rule: u32, only: Only, action: Action) {
        let about = self.about(rule);
        let traffics = &self.runner.cells.traffics;
        let mut denied = Vec::new();
        let hit = match action {
            Action::Allow => &mut self.allow,
            Action::Deny => &mut denied,
            Action::Reject => &mut self.reject,
            Action::Pass => &mut self.passed,
        };
        self.steps += match only {
            Only::All => self.undecided.take(traffics.set(about).intervals(), hit),
            Only::Tcp => {
                let tcp = traffics.set(about).intersection(&traffics.space().protocol(Protocol::Tcp));
                self.undecided.take(tcp.intervals(), hit)
            }
        };
    }

    fn allow(&mut self, rule: u32) {
        let about = self.about(rule);
        self.allowing.extend_from_slice(self.runner.cells.traffics.set(about).intervals());
    }

    fn assign_rest(&mut self, rest: Rest) {
        match rest {
            Rest::Isolated => {
                let allowing = std::mem::take(&mut self.allowing);
                self.steps += INTERVAL_WORK * allowing.len() as u64;
                let allowing = TrafficSet::from_intervals(allowing);
                self.steps += self.undecided.take(allowing.intervals(), &mut self.allow);
            }
            Rest::Default => self.allow.extend_from_slice(self.undecided.pieces()),
        }
        self.undecided = UndecidedTraffic::none();
    }

    fn reopen_passed(&mut self) {
        let mut passed = std::mem::take(&mut self.passed);
        if !passed.is_empty() {
            self.steps += INTERVAL_WORK * passed.len() as u64;
            passed.extend_from_slice(self.undecided.pieces());
            self.undecided = UndecidedTraffic::new(&TrafficSet::from_intervals(passed));
        }
    }

    fn is_decided(&self) -> bool {
        self.undecided.is_empty()
    }
}
