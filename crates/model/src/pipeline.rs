//! The decision procedure: what the rules of one endpoint do with traffic in one direction, stage by stage.
//!
//! ```text
//!   traffic ──► tiers 0–251 ──► NetworkPolicy ──────────────► tiers 253– ──► allowed
//!               first match     isolated: any allow allows,   first match
//!               decides         the rest is denied            decides
//!                  │ Pass ─────────▲                             │ Pass ───────▲
//! ```
//!
//! There is one procedure for a single connection and for sets of traffic. [`decide`] has the stages and their order; a
//! [`Ledger`] keeps which part of the traffic is undecided and what was decided about the rest. Fast verdicts and the engine
//! use the ledger of a single connection ([`verdict`]), `flatten` and `analysis` have their own for sets; `evaluate` is written
//! independently and judges them all.

use crate::policy::{Action, Rule};
use crate::trace::Verdict;

/// Traffic on its way through the pipeline: the part that is undecided, and what was decided about the rest.
pub trait Ledger<R> {
    /// Decides the undecided traffic that a rule matches, or only the part of it that is carried over TCP.
    fn assign(&mut self, rule: R, only: Only, action: Action);

    /// Allows the undecided traffic that a rule of the NetworkPolicy stage matches. A ledger that names every rule that allows
    /// a connection may leave it undecided until [`Ledger::assign_rest`].
    fn allow(&mut self, rule: R) {
        self.assign(rule, Only::All, Action::Allow);
    }

    /// Decides all undecided traffic.
    fn assign_rest(&mut self, rest: Rest);

    /// Makes passed traffic undecided again.
    fn reopen_passed(&mut self);

    /// Returns whether no traffic is undecided.
    fn is_decided(&self) -> bool;
}

/// What becomes of the traffic that a rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// Allowed; final.
    Allow,
    /// Allowed if it is carried over TCP, else dropped: the rule has conditions on HTTP or TLS, which nothing else can meet.
    AllowTcp,
    /// Dropped silently; final.
    Deny,
    /// Refused with an answer; final.
    Reject,
    /// Leaves the tiers of this stage.
    Pass,
}

/// A part of the traffic that a rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Only {
    /// All of it.
    All,
    /// What is carried over TCP.
    Tcp,
}

/// What decides about traffic that no rule decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rest {
    /// The endpoint is isolated: the traffic is denied.
    Isolated,
    /// Nothing isolates the endpoint: the traffic is allowed.
    Default,
}

/// The rules that apply to one endpoint in one direction, each stage in the order of evaluation.
#[derive(Debug, Clone)]
pub struct Stages<Tiers, Allows, Baseline> {
    /// Rules of the tiers before the NetworkPolicy stage.
    pub tiers: Tiers,
    /// Whether some policy isolates the endpoint.
    pub isolated: bool,
    /// Rules of the NetworkPolicy stage. They only allow, and are used only if the endpoint is isolated.
    pub allows: Allows,
    /// Rules of the tiers behind the NetworkPolicy stage.
    pub baseline: Baseline,
}

/// Decides about the traffic of a ledger. Rules behind the last one that can still decide are not looked at.
pub fn decide<R: Copy>(
    ledger: &mut impl Ledger<R>,
    stages: Stages<
        impl IntoIterator<Item = (R, Effect)>,
        impl IntoIterator<Item = R>,
        impl IntoIterator<Item = (R, Effect)>,
    >,
) {
    first_match(ledger, stages.tiers);
    if ledger.is_decided() {
        return;
    }
    if stages.isolated {
        for rule in stages.allows {
            ledger.allow(rule);
            if ledger.is_decided() {
                return;
            }
        }
        ledger.assign_rest(Rest::Isolated);
        return;
    }
    first_match(ledger, stages.baseline);
    if !ledger.is_decided() {
        ledger.assign_rest(Rest::Default);
    }
}

/// The first rule that matches decides. Passed traffic is undecided again behind the stage.
fn first_match<R: Copy>(ledger: &mut impl Ledger<R>, rules: impl IntoIterator<Item = (R, Effect)>) {
    for (rule, effect) in rules {
        match effect {
            Effect::Allow => ledger.assign(rule, Only::All, Action::Allow),
            Effect::AllowTcp => {
                ledger.assign(rule, Only::Tcp, Action::Allow);
                ledger.assign(rule, Only::All, Action::Deny);
            }
            Effect::Deny => ledger.assign(rule, Only::All, Action::Deny),
            Effect::Reject => ledger.assign(rule, Only::All, Action::Reject),
            Effect::Pass => ledger.assign(rule, Only::All, Action::Pass),
        }
        if ledger.is_decided() {
            break;
        }
    }
    ledger.reopen_passed();
}

/// Returns the verdict about one connection. `matches` says whether a rule matches it.
pub fn verdict<R: Copy>(
    is_tcp: bool,
    stages: Stages<
        impl IntoIterator<Item = (R, Effect)>,
        impl IntoIterator<Item = R>,
        impl IntoIterator<Item = (R, Effect)>,
    >,
    matches: impl FnMut(&R) -> bool,
) -> Verdict {
    let mut connection = Connection { is_tcp, matches, decided: None };
    decide(&mut connection, stages);
    match connection.decided {
        Some(Action::Allow) => Verdict::Allow,
        Some(Action::Reject) => Verdict::Reject,
        // Nothing is left undecided or passed behind the last stage.
        Some(Action::Deny | Action::Pass) | None => Verdict::Deny,
    }
}

/// A single connection.
struct Connection<F> {
    is_tcp: bool,
    matches: F,
    decided: Option<Action>,
}

// === impl Effect ===

impl Effect {
    /// Returns the effect of a rule that can be read and has a rank.
    pub fn of(rule: &Rule) -> Self {
        match rule.action {
            Action::Allow if !rule.layer7.is_empty() => Effect::AllowTcp,
            Action::Allow => Effect::Allow,
            Action::Deny => Effect::Deny,
            Action::Reject => Effect::Reject,
            Action::Pass => Effect::Pass,
        }
    }
}

// === impl Rest ===

impl Rest {
    /// Returns what becomes of the traffic.
    pub fn action(self) -> Action {
        match self {
            Rest::Isolated => Action::Deny,
            Rest::Default => Action::Allow,
        }
    }
}

// === impl Connection ===

impl<R, F: FnMut(&R) -> bool> Ledger<R> for Connection<F> {
    fn assign(&mut self, rule: R, only: Only, action: Action) {
        let covered = only == Only::All || self.is_tcp;
        if self.decided.is_none() && covered && (self.matches)(&rule) {
            self.decided = Some(action);
        }
    }

    fn assign_rest(&mut self, rest: Rest) {
        self.decided = Some(rest.action());
    }

    fn reopen_passed(&mut self) {
        self.decided = self.decided.filter(|action| *action != Action::Pass);
    }

    fn is_decided(&self) -> bool {
        self.decided.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight connections as bits, the upper four carried over TCP; a rule is the set of those it matches.
    struct Bits {
        undecided: u8,
        passed: u8,
        allow: u8,
        reject: u8,
    }

    impl Ledger<u8> for Bits {
        fn assign(&mut self, rule: u8, only: Only, action: Action) {
            let part = rule & self.undecided & if only == Only::Tcp { 0xf0 } else { 0xff };
            self.undecided &= !part;
            match action {
                Action::Allow => self.allow |= part,
                Action::Deny => {}
                Action::Reject => self.reject |= part,
                Action::Pass => self.passed |= part,
            }
        }

        fn assign_rest(&mut self, rest: Rest) {
            self.assign(0xff, Only::All, rest.action());
        }

        fn reopen_passed(&mut self) {
            self.undecided |= std::mem::take(&mut self.passed);
        }

        fn is_decided(&self) -> bool {
            self.undecided == 0
        }
    }

    type Matched = (u8, Effect);

    const EFFECTS: [Effect; 5] =
        [Effect::Allow, Effect::AllowTcp, Effect::Deny, Effect::Reject, Effect::Pass];

    fn stages<'r>(
        tiers: &'r [Matched],
        isolated: bool,
        allows: &'r [u8],
        baseline: &'r [Matched],
    ) -> Stages<
        impl Iterator<Item = (u8, Effect)> + 'r,
        impl Iterator<Item = u8> + 'r,
        impl Iterator<Item = (u8, Effect)> + 'r,
    > {
        let copied = |rules: &'r [Matched]| rules.iter().copied();
        Stages { tiers: copied(tiers), isolated, allows: allows.iter().copied(), baseline: copied(baseline) }
    }

    /// Every pipeline of up to two rules a stage: each connection of a set gets what it gets alone.
    #[test]
    fn a_set_of_traffic_is_decided_as_its_connections_are() {
        let rules: Vec<Matched> =
            [0x3c, 0x81].into_iter().flat_map(|set| EFFECTS.map(|effect| (set, effect))).collect();
        let lists: Vec<Vec<Matched>> = rules
            .iter()
            .flat_map(|one| rules.iter().map(|other| vec![*one, *other]).chain([vec![*one]]))
            .chain([vec![]])
            .collect();
        for tiers in &lists {
            for baseline in &lists {
                for (isolated, allows) in
                    [(false, &[][..]), (true, &[]), (true, &[0x18][..]), (true, &[0x18, 0x38])]
                {
                    let stages = || stages(tiers, isolated, allows, baseline);
                    let mut whole = Bits { undecided: 0xff, passed: 0, allow: 0, reject: 0 };
                    decide(&mut whole, stages());
                    assert_eq!((whole.undecided, whole.passed), (0, 0));
                    for bit in 0..8 {
                        let is_in = |set: u8| set >> bit & 1 == 1;
                        let expected = match (is_in(whole.allow), is_in(whole.reject)) {
                            (true, _) => Verdict::Allow,
                            (_, true) => Verdict::Reject,
                            _ => Verdict::Deny,
                        };
                        let alone = verdict(bit >= 4, stages(), |set| is_in(*set));
                        assert_eq!(alone, expected, "{tiers:?} {isolated} {baseline:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn rules_behind_the_decision_are_not_asked() {
        let asked = |rules: &[Matched], isolated, allows: &[u8]| {
            let mut asked = 0;
            verdict(true, stages(rules, isolated, allows, &[]), |set| {
                asked += 1;
                *set == 1
            });
            asked
        };
        assert_eq!(asked(&[(0, Effect::Deny), (1, Effect::Allow), (1, Effect::Deny)], false, &[]), 2);
        assert_eq!(asked(&[(1, Effect::Pass), (1, Effect::Deny)], true, &[0, 1, 1]), 3);
        assert_eq!(asked(&[], false, &[1, 1]), 0);
    }
}
