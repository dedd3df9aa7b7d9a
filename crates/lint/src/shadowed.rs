//! Rules that never decide anything, because others always come first.

use std::collections::BTreeSet;

use palisade_analysis::reach::traffics::Traffics;
use palisade_analysis::reach::{Decider, RuleAt};
use palisade_model::diagnostic::{Code, Diagnostic, Severity};
use palisade_model::policy::{Action, Placement};
use palisade_model::snapshot::Stage;

use super::about_rule;
use super::decisions::{Decisions, are_opposite};
use super::forever::Forever;

/// Dead.
pub static SHADOWED: Code = Code {
    id: "L0118",
    severity: Severity::Warning,
    title: "a rule that never decides anything",
    explanation: "The rule applies to pods and is about connections of theirs, and for every one of them a rule that comes earlier decides: one before it in its policy, of a policy with precedence, of an earlier tier. Taking the rule out changes nothing. The message names the rules that come first, and says for whom that was found: for the pods there are (a new pod or label may change it), or for all pods there could be, whatever their labels and addresses, in the namespaces there are, with the labels that these have now, and in namespaces to come with any. Move the rule before those, narrow them, or remove it.\n\nA baseline rule that only NetworkPolicies come before is not reported: it is there for pods that have none.",
};

/// Dead, and the opposite happens.
pub static CONTRADICTED: Code = Code {
    id: "L0119",
    severity: Severity::Warning,
    title: "a rule whose opposite always happens",
    explanation: "Everything the rule allows is refused, or everything it refuses is allowed, by rules that come earlier in the pipeline: the tiers of admins (AdminNetworkPolicy, ClusterNetworkPolicy, Antrea) come before NetworkPolicies, and these before the baseline. Whoever wrote the rule believes something else about the cluster than what holds. The message names the rules that decide, and a connection. Agree with who wrote them, or remove the rule.",
};

/// Who comes before a rule.
#[derive(Default)]
struct Takers {
    rules: BTreeSet<RuleAt>,
    actions: BTreeSet<Action>,
    /// Whether NetworkPolicies decide about some of it, or nobody looked.
    policies: bool,
}

pub(super) fn check(decisions: &mut Decisions<'_>, found: &mut Vec<Diagnostic>) {
    let mut forever = Forever::new(decisions);
    let policies = decisions.snapshot.policies();
    let all = (0..)
        .zip(policies)
        .flat_map(|(policy, written)| (0..written.rules.len()).map(move |rule| RuleAt { policy, rule }));
    for at in all.collect::<Vec<RuleAt>>() {
        let facts = decisions.rules.get(&at);
        let (is_met, decides) =
            facts.map_or((false, false), |facts| (facts.is_met, facts.decisive.is_some()));
        if decides || !decisions.is_plain(at) || !decisions.is_by_itself(at) {
            continue;
        }
        let (takers, example) = match is_met {
            true => takers(decisions, at),
            false => (Takers::default(), None),
        };
        if is_met && (takers.policies || !takers.rules.iter().all(|taker| decisions.is_read(*taker))) {
            continue;
        }
        let ever = forever.takers(decisions, at);
        match (is_met && !takers.rules.is_empty(), ever) {
            (true, ever) => {
                decisions.idle.insert(at);
                found.push(report(decisions, at, &takers, ever.is_some(), example));
            }
            (false, Some(rules)) if !is_met => {
                let actions = rules.iter().map(|taker| decisions.rule(*taker).1.action).collect();
                decisions.idle.insert(at);
                let takers = Takers { rules, actions, policies: false };
                found.push(report(decisions, at, &takers, true, None));
            }
            _ => {}
        }
    }
    decisions.reported.extend(decisions.idle.iter().copied());
    decisions.exceeded |= forever.exceeded;
}

/// Who decides about what a rule is about, and a connection of it.
fn takers(decisions: &mut Decisions<'_>, at: RuleAt) -> (Takers, Option<String>) {
    let mut takers = Takers::default();
    let mut example = None;
    let places = decisions.rules.get(&at).map(|facts| facts.met.clone()).unwrap_or_default();
    for place in places {
        if !decisions.affords(place) {
            takers.policies = true;
            break;
        }
        let about = decisions.about(place, at);
        let (_, decided) = decisions.decide(place, |_| false);
        let mut left = about;
        for (decider, rule, part) in decided {
            let taken = decisions.cells.traffics.intersection(part, left);
            if taken == Traffics::EMPTY {
                continue;
            }
            match (decider, rule) {
                (Decider::Rule(_, action), Some(rule)) => {
                    // Whoever only passes it on has not taken it from the stages behind.
                    let passed_on = action == Action::Pass && decisions.stage(at) != decisions.stage(rule);
                    takers.policies |= decisions.stage(rule) == Some(Stage::NetworkPolicy);
                    if !passed_on {
                        takers.rules.insert(rule);
                        takers.actions.insert(action);
                        left = decisions.cells.traffics.difference(left, taken);
                    }
                }
                // Either NetworkPolicies, or a rule that opens nothing because nothing is closed.
                _ => takers.policies = true,
            }
        }
        if example.is_none() {
            example = decisions.flow(place, about, false);
        }
    }
    (takers, example)
}

fn report(
    decisions: &Decisions<'_>,
    at: RuleAt,
    takers: &Takers,
    ever: bool,
    example: Option<String>,
) -> Diagnostic {
    let (policy, rule) = decisions.rule(at);
    let action = rule.action;
    let (names, places) = decisions.names(&takers.rules);
    let scope = if ever { "whatever pods there are" } else { "for the pods there are" };
    let first = if takers.rules.len() == 1 { "comes" } else { "come" };
    let opposite =
        !takers.actions.is_empty() && takers.actions.iter().all(|taker| are_opposite(action, *taker));
    let example = example.map(|flow| format!(", e.g. {flow}")).unwrap_or_default();
    let (code, message) = match (opposite, action) {
        (true, Action::Allow) => {
            (&CONTRADICTED, format!("all that the rule allows is refused by {names}{example}, {scope}"))
        }
        (true, _) => {
            (&CONTRADICTED, format!("all that the rule refuses is allowed by {names}{example}, {scope}"))
        }
        (false, _) => {
            (&SHADOWED, format!("the rule never decides anything, {scope}: {names} {first} first{example}"))
        }
    };
    let what = match policy.placement {
        Placement::Tier { .. } => "move the rule before that, or remove it",
        Placement::Union => "admin policies come before NetworkPolicies: change those, or remove the rule",
    };
    about_rule(code, policy, rule, "", message).help(format!("decided at {places}; {what}"))
}
