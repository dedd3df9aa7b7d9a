//! Lint for allowing rules whose connections the other side refuses.
//!
//! A connection needs the egress of its source and the ingress of its destination. Every pair of classes that the rule
//! matches is checked, so that the finding is exact for the existing pods.

use std::collections::BTreeSet;

use palisade_analysis::reach::combinations::EndpointPair;
use palisade_analysis::reach::traffics::{TrafficId, Traffics};
use palisade_analysis::reach::{Decider, RuleAt};
use palisade_model::diagnostic::{Code, Diagnostic, Severity};
use palisade_model::policy::{Action, Direction};

use super::about_rule;
use super::rule_decisions::Decisions;

/// A rule that allows only connections that the other side refuses.
pub static REFUSED: Code = Code {
    id: "L0129",
    severity: Severity::Note,
    title: "a rule for connections that the other side refuses",
    explanation: "A connection is let through when the egress of its source and the ingress of its destination both allow it. This rule allows some, and for the pods there are the other end refuses every one of them: no connection ever uses the rule. The message names a connection, and what refuses it at the other end: a rule, or the policies that isolate the pod and do not allow it. Allow it there too, or remove the rule.",
};

/// Maximum number of pairs of classes that are checked, in all.
const MAX_PAIRS: usize = 4_000_000;

/// Connections that a rule allows and the other side refuses.
struct RefusedConnections {
    family: usize,
    direction: Direction,
    pair: EndpointPair,
    about: TrafficId,
}

pub(super) fn check(decisions: &mut Decisions<'_>, found: &mut Vec<Diagnostic>) {
    let mut left = MAX_PAIRS;
    let allows = |at: &RuleAt| {
        decisions.rule(*at).1.action == Action::Allow
            && decisions.is_fully_modelled(*at)
            && decisions.is_standalone(*at)
            && !decisions.reported.contains(at)
    };
    let all = decisions
        .rules
        .iter()
        .filter(|(at, facts)| facts.deciding.is_some() && facts.has_distinct_ends && allows(at));
    let all: Vec<(RuleAt, Vec<u32>)> = all.map(|(at, facts)| (*at, facts.combinations.clone())).collect();
    for (at, places) in all {
        let Some(refused) = refused(decisions, at, places, &mut left) else { continue };
        let Some(flow) = decisions.flow_of(refused.direction, &refused.pair, refused.about) else {
            continue;
        };
        let (side, by, places) = refuser(decisions, &refused);
        let (policy, rule) = decisions.rule(at);
        let message = format!(
            "all that the rule allows is refused at the other end, for the pods there are: {flow} by {side} {by}",
        );
        let help = format!("refused at {places}; allow it there too, or remove the rule");
        found.push(about_rule(&REFUSED, policy, rule, "", message).help(help));
    }
    decisions.exceeded |= left == 0;
}

/// Returns connections that a rule allows, where the other side refuses all; `None` where it allows some, or a limit was
/// reached.
fn refused(
    decisions: &mut Decisions<'_>,
    at: RuleAt,
    places: Vec<u32>,
    left: &mut usize,
) -> Option<RefusedConnections> {
    let mut first = None;
    for combination in places {
        if !decisions.affords(combination) {
            return None;
        }
        let (_, decided) = decisions.decide(combination, |_| false);
        let allowed = |(decider, rule, _): &&(Decider, Option<RuleAt>, TrafficId)| {
            *rule == Some(at) && matches!(decider, Decider::Rule(_, Action::Allow))
        };
        let Some((_, _, about)) = decided.iter().find(allowed).copied() else { continue };
        let met = &decisions.combinations[combination as usize];
        let (family, direction) = (met.family as usize, met.combination.direction);
        let reach = &decisions.reach[family];
        let other = if direction == Direction::Egress { Direction::Ingress } else { Direction::Egress };
        let itself = reach.at_both_ends(&met.combination, &decisions.ends[family]);
        for class in itself.filter(|_| !decisions.snapshot.services().is_empty()) {
            *left = left.saturating_sub(1);
            let through = decisions.cells.get(reach.side(other, class, class)).allow;
            if *left == 0 || decisions.cells.traffics.intersection(through, about) != Traffics::EMPTY {
                return None;
            }
        }
        for pair in reach.endpoint_pairs(&met.combination, &decisions.ends[family]) {
            *left = left.saturating_sub(1);
            if *left == 0 {
                return None;
            }
            let through = decisions.cells.get(reach.other_side(direction, &pair)).allow;
            if decisions.cells.traffics.intersection(through, about) != Traffics::EMPTY {
                return None;
            }
            first = first.or(Some(RefusedConnections { family, direction, pair, about }));
        }
    }
    first
}

/// Returns the side that refuses, the rule or the policies that do so, and their locations.
fn refuser(decisions: &mut Decisions<'_>, refused: &RefusedConnections) -> (String, String, String) {
    let RefusedConnections { family, direction, pair, about } = refused;
    let other = match direction {
        Direction::Egress => Direction::Ingress,
        Direction::Ingress => Direction::Egress,
    };
    let reach = &decisions.reach[*family];
    let side = format!("the {other} of {},", decisions.snapshot.describe(pair.other.1));
    let reasons = reach.reasons(other, pair.other.0, pair.own.0, &mut decisions.cells);
    let shown = decisions.cells.traffics.space().sample(decisions.cells.traffics.set(*about));
    let is_about = |part: TrafficId| {
        let both = decisions.cells.traffics.set(part).intersection(decisions.cells.traffics.set(*about));
        decisions.cells.traffics.space().sample(&both) == shown
    };
    let refuses = reasons.iter().find(|reason| {
        let refuses = match reason.decider {
            Decider::Rule(_, action) => matches!(action, Action::Deny | Action::Reject),
            Decider::Isolation => true,
            Decider::Nobody => false,
        };
        refuses && is_about(reason.about)
    });
    match refuses.and_then(|reason| reason.rule) {
        Some(rule) => {
            let (name, combination) = decisions.names(&BTreeSet::from([rule]));
            (side, name, combination)
        }
        None => {
            let by = reach.isolated_by(other, pair.other.0);
            let (names, places) = decisions.names_of_policies(&by);
            (side, format!("isolated by {names}"), places)
        }
    }
}
