//! Rules that allow what the other side refuses.
//!
//! A connection needs both ends: the egress of its source and the ingress of its destination. Looked at is every pair of
//! classes that the rule is about, so that what is said is exact for the pods there are.

use std::collections::BTreeSet;

use palisade_analysis::reach::decisions::Meeting;
use palisade_analysis::reach::traffics::{TrafficId, Traffics};
use palisade_analysis::reach::{Decider, RuleAt};
use palisade_model::diagnostic::{Code, Diagnostic, Severity};
use palisade_model::policy::{Action, Direction};

use super::about_rule;
use super::decisions::Decisions;

/// The code.
pub static REFUSED: Code = Code {
    id: "L0129",
    severity: Severity::Note,
    title: "a rule for connections that the other side refuses",
    explanation: "A connection is let through when the egress of its source and the ingress of its destination both allow it. This rule allows some, and for the pods there are the other end refuses every one of them: no connection ever uses the rule. The message names a connection, and what refuses it at the other end: a rule, or the policies that isolate the pod and do not allow it. Allow it there too, or remove the rule.",
};

/// Pairs of classes that are looked at, in all.
const MOST_PAIRS: usize = 4_000_000;

/// What of a rule nobody can use.
struct Useless {
    family: usize,
    direction: Direction,
    meeting: Meeting,
    about: TrafficId,
}

pub(super) fn check(decisions: &mut Decisions<'_>, found: &mut Vec<Diagnostic>) {
    let mut left = MOST_PAIRS;
    let allows = |at: &RuleAt| {
        decisions.rule(*at).1.action == Action::Allow
            && decisions.is_plain(*at)
            && decisions.is_by_itself(*at)
            && !decisions.reported.contains(at)
    };
    let all =
        decisions.rules.iter().filter(|(at, facts)| facts.decisive.is_some() && facts.is_met && allows(at));
    let all: Vec<(RuleAt, Vec<u32>)> = all.map(|(at, facts)| (*at, facts.met.clone())).collect();
    for (at, places) in all {
        let Some(useless) = useless(decisions, at, places, &mut left) else { continue };
        let Some(flow) = decisions.flow_of(useless.direction, &useless.meeting, useless.about) else {
            continue;
        };
        let (side, by, places) = refuser(decisions, &useless);
        let (policy, rule) = decisions.rule(at);
        let message = format!(
            "all that the rule allows is refused at the other end, for the pods there are: {flow} by {side} {by}",
        );
        let help = format!("refused at {places}; allow it there too, or remove the rule");
        found.push(about_rule(&REFUSED, policy, rule, "", message).help(help));
    }
    decisions.exceeded |= left == 0;
}

/// What a rule allows, where the other side refuses all of it; `None` where it lets some of it through, or nobody looked.
fn useless(decisions: &mut Decisions<'_>, at: RuleAt, places: Vec<u32>, left: &mut usize) -> Option<Useless> {
    let mut first = None;
    for place in places {
        if !decisions.affords(place) {
            return None;
        }
        let (_, decided) = decisions.decide(place, |_| false);
        let allowed = |(decider, rule, _): &&(Decider, Option<RuleAt>, TrafficId)| {
            *rule == Some(at) && matches!(decider, Decider::Rule(_, Action::Allow))
        };
        let Some((_, _, about)) = decided.iter().find(allowed).copied() else { continue };
        let met = &decisions.met[place as usize];
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
        for meeting in reach.meetings(&met.combination, &decisions.ends[family]) {
            *left = left.saturating_sub(1);
            if *left == 0 {
                return None;
            }
            let through = decisions.cells.get(reach.other_side(direction, &meeting)).allow;
            if decisions.cells.traffics.intersection(through, about) != Traffics::EMPTY {
                return None;
            }
            first = first.or(Some(Useless { family, direction, meeting, about }));
        }
    }
    first
}

/// Which side refuses, who, and where that is written.
fn refuser(decisions: &mut Decisions<'_>, useless: &Useless) -> (String, String, String) {
    let Useless { family, direction, meeting, about } = useless;
    let other = match direction {
        Direction::Egress => Direction::Ingress,
        Direction::Ingress => Direction::Egress,
    };
    let reach = &decisions.reach[*family];
    let side = format!("the {other} of {},", decisions.snapshot.describe(meeting.other.1));
    let reasons = reach.reasons(other, meeting.other.0, meeting.own.0, &mut decisions.cells);
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
            let (name, place) = decisions.names(&BTreeSet::from([rule]));
            (side, name, place)
        }
        None => {
            let by = reach.isolated_by(other, meeting.other.0);
            let (names, places) = decisions.names_of_policies(&by);
            (side, format!("isolated by {names}"), places)
        }
    }
}
