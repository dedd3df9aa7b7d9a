//! The decision procedure: what the rules of one endpoint do with traffic in one direction, stage by stage.
//!
//! ```text
//!   traffic ──► tiers 0–251 ──► NetworkPolicy ──────────────► tiers 253– ──► allowed
//!               first match     isolated: any allow allows,   first match
//!               decides         the rest is denied            decides
//!                  │ Pass ─────────▲                             │ Pass ───────▲
//! ```
//!
//! There is one procedure for a single connection and for sets of traffic: [`decide`] works over a [`TrafficAlgebra`], and a
//! single connection is the algebra of one element ([`Connection`]). Fast verdicts, the engine, `flatten` and `analysis`
//! use it; `evaluate` is written independently and judges it.

use crate::policy::{Action, Rule};
use crate::trace::Verdict;

/// Operations on traffic that the procedure needs. Implementations may intern sets and charge for work, hence `&mut self`.
pub trait TrafficAlgebra {
    /// Some traffic.
    type Set: Copy;

    /// Whether every rule that allows traffic in the NetworkPolicy stage is reported, or only those that are needed to allow
    /// all of it: a caller that asks for a verdict needs one, a caller that names the causes needs all.
    const REPORTS_EVERY_ALLOW: bool;

    /// Returns the set without elements.
    fn empty(&self) -> Self::Set;
    /// Returns whether a set has no elements.
    fn is_empty(&self, set: Self::Set) -> bool;
    /// Returns the elements of both.
    fn intersection(&mut self, one: Self::Set, other: Self::Set) -> Self::Set;
    /// Returns the elements of either.
    fn union(&mut self, one: Self::Set, other: Self::Set) -> Self::Set;
    /// Returns the elements of `one` that `other` does not have.
    fn difference(&mut self, one: Self::Set, other: Self::Set) -> Self::Set;
    /// Returns the elements that are carried over TCP.
    fn tcp(&mut self, set: Self::Set) -> Self::Set;
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

/// What decided about some traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Decider<R> {
    /// A rule that matches, with the action it took: one with [`Effect::AllowTcp`] allows a part and denies the rest.
    Rule(R, Action),
    /// The endpoint is isolated, and no rule allows the traffic.
    Isolation,
    /// No rule matches, and nothing isolates the endpoint: the traffic is allowed.
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

/// The traffic that is allowed and the traffic that is refused with an answer; the rest is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision<S> {
    /// Allowed traffic.
    pub allow: S,
    /// Traffic that is refused with an answer.
    pub reject: S,
}

/// The algebra of a single connection, which a set either holds or not. `is_tcp` says whether it is carried over TCP.
#[derive(Debug, Clone, Copy)]
pub struct Connection {
    /// Whether the connection is carried over TCP.
    pub is_tcp: bool,
}

/// Decides about `traffic`. `matched` returns the traffic that a rule matches; it is not called for rules behind the last one
/// that can still decide. `emit` gets each part of the traffic with what decided about it, in order of evaluation; parts of
/// the NetworkPolicy stage may overlap ([`TrafficAlgebra::REPORTS_EVERY_ALLOW`]).
pub fn decide<A, R: Copy>(
    algebra: &mut A,
    traffic: A::Set,
    stages: Stages<
        impl IntoIterator<Item = (R, Effect)>,
        impl IntoIterator<Item = R>,
        impl IntoIterator<Item = (R, Effect)>,
    >,
    mut matched: impl FnMut(&mut A, &R) -> A::Set,
    mut emit: impl FnMut(&mut A, Decider<R>, A::Set),
) -> Decision<A::Set>
where
    A: TrafficAlgebra,
{
    let mut run = Run { undecided: traffic, allow: algebra.empty(), reject: algebra.empty() };
    run.first_match(algebra, stages.tiers, &mut matched, &mut emit);
    if algebra.is_empty(run.undecided) {
        return run.decision();
    }
    if stages.isolated {
        run.any_allow(algebra, stages.allows, &mut matched, &mut emit);
        return run.decision();
    }
    run.first_match(algebra, stages.baseline, &mut matched, &mut emit);
    if !algebra.is_empty(run.undecided) {
        emit(algebra, Decider::Default, run.undecided);
        run.allow = algebra.union(run.allow, run.undecided);
    }
    run.decision()
}

/// Returns the verdict about one connection. `matches` says whether a rule matches it.
pub fn verdict<R: Copy>(
    is_tcp: bool,
    stages: Stages<
        impl IntoIterator<Item = (R, Effect)>,
        impl IntoIterator<Item = R>,
        impl IntoIterator<Item = (R, Effect)>,
    >,
    mut matches: impl FnMut(&R) -> bool,
) -> Verdict {
    let matched = |_: &mut Connection, rule: &R| matches(rule);
    decide(&mut Connection { is_tcp }, true, stages, matched, |_, _, _| {}).verdict()
}

/// How far the procedure has come.
struct Run<S> {
    undecided: S,
    allow: S,
    reject: S,
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

// === impl Decision ===

impl Decision<bool> {
    /// Returns the verdict about a single connection.
    pub fn verdict(self) -> Verdict {
        match self {
            Decision { allow: true, .. } => Verdict::Allow,
            Decision { reject: true, .. } => Verdict::Reject,
            Decision { .. } => Verdict::Deny,
        }
    }
}

// === impl Run ===

impl<S: Copy> Run<S> {
    fn decision(self) -> Decision<S> {
        Decision { allow: self.allow, reject: self.reject }
    }

    /// The first rule that matches decides. Passed traffic is undecided again behind the stage.
    fn first_match<A: TrafficAlgebra<Set = S>, R: Copy>(
        &mut self,
        algebra: &mut A,
        rules: impl IntoIterator<Item = (R, Effect)>,
        matched: &mut impl FnMut(&mut A, &R) -> S,
        emit: &mut impl FnMut(&mut A, Decider<R>, S),
    ) {
        let mut passed = algebra.empty();
        for (rule, effect) in rules {
            let matching = matched(algebra, &rule);
            let part = algebra.intersection(matching, self.undecided);
            if algebra.is_empty(part) {
                continue;
            }
            self.undecided = algebra.difference(self.undecided, part);
            match effect {
                Effect::Allow => {
                    self.allow = algebra.union(self.allow, part);
                    emit(algebra, Decider::Rule(rule, Action::Allow), part);
                }
                Effect::AllowTcp => {
                    let allowed = algebra.tcp(part);
                    let denied = algebra.difference(part, allowed);
                    self.allow = algebra.union(self.allow, allowed);
                    for (action, part) in [(Action::Allow, allowed), (Action::Deny, denied)] {
                        if !algebra.is_empty(part) {
                            emit(algebra, Decider::Rule(rule, action), part);
                        }
                    }
                }
                Effect::Deny => emit(algebra, Decider::Rule(rule, Action::Deny), part),
                Effect::Reject => {
                    self.reject = algebra.union(self.reject, part);
                    emit(algebra, Decider::Rule(rule, Action::Reject), part);
                }
                Effect::Pass => {
                    passed = algebra.union(passed, part);
                    emit(algebra, Decider::Rule(rule, Action::Pass), part);
                }
            }
            if algebra.is_empty(self.undecided) {
                break;
            }
        }
        self.undecided = algebra.union(self.undecided, passed);
    }

    /// What any rule allows is allowed, the rest is denied.
    fn any_allow<A: TrafficAlgebra<Set = S>, R: Copy>(
        &mut self,
        algebra: &mut A,
        rules: impl IntoIterator<Item = R>,
        matched: &mut impl FnMut(&mut A, &R) -> S,
        emit: &mut impl FnMut(&mut A, Decider<R>, S),
    ) {
        let mut denied = self.undecided;
        for rule in rules {
            let matching = matched(algebra, &rule);
            let reported = if A::REPORTS_EVERY_ALLOW { self.undecided } else { denied };
            let part = algebra.intersection(matching, reported);
            if algebra.is_empty(part) {
                continue;
            }
            emit(algebra, Decider::Rule(rule, Action::Allow), part);
            self.allow = algebra.union(self.allow, part);
            denied = algebra.difference(denied, part);
            if algebra.is_empty(denied) && !A::REPORTS_EVERY_ALLOW {
                break;
            }
        }
        if !algebra.is_empty(denied) {
            emit(algebra, Decider::Isolation, denied);
        }
    }
}

// === impl Connection ===

impl TrafficAlgebra for Connection {
    type Set = bool;

    const REPORTS_EVERY_ALLOW: bool = false;

    fn empty(&self) -> bool {
        false
    }

    fn is_empty(&self, set: bool) -> bool {
        !set
    }

    fn intersection(&mut self, one: bool, other: bool) -> bool {
        one && other
    }

    fn union(&mut self, one: bool, other: bool) -> bool {
        one || other
    }

    fn difference(&mut self, one: bool, other: bool) -> bool {
        one && !other
    }

    fn tcp(&mut self, set: bool) -> bool {
        set && self.is_tcp
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight connections as bits; the upper four are carried over TCP.
    struct Bits;

    impl TrafficAlgebra for Bits {
        type Set = u8;

        const REPORTS_EVERY_ALLOW: bool = true;

        fn empty(&self) -> u8 {
            0
        }

        fn is_empty(&self, set: u8) -> bool {
            set == 0
        }

        fn intersection(&mut self, one: u8, other: u8) -> u8 {
            one & other
        }

        fn union(&mut self, one: u8, other: u8) -> u8 {
            one | other
        }

        fn difference(&mut self, one: u8, other: u8) -> u8 {
            one & !other
        }

        fn tcp(&mut self, set: u8) -> u8 {
            set & 0xf0
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

    /// Every pipeline of up to two rules a stage: each connection of a set gets what it gets alone, and the reported parts
    /// cover the traffic.
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
                    let mut covered = 0;
                    let stages = || stages(tiers, isolated, allows, baseline);
                    let whole = decide(
                        &mut Bits,
                        0xff,
                        stages(),
                        |_, set| *set,
                        |_, decider, part| {
                            if !matches!(decider, Decider::Rule(_, Action::Pass)) {
                                covered |= part;
                            }
                        },
                    );
                    assert_eq!(covered, 0xff);
                    for bit in 0..8 {
                        let alone = verdict(bit >= 4, stages(), |set| set >> bit & 1 == 1);
                        let (allow, reject) = (whole.allow >> bit & 1 == 1, whole.reject >> bit & 1 == 1);
                        assert_eq!(
                            alone,
                            Decision { allow, reject }.verdict(),
                            "{tiers:?} {isolated} {baseline:?}"
                        );
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
