//! Lint for unreachable rules: those whose connections are all decided by earlier rules.

use std::collections::BTreeSet;

use palisade_analysis::reach::traffics::Traffics;
use palisade_analysis::reach::{Decider, RuleAt};
use palisade_model::diagnostic::{Code, Diagnostic, Severity};
use palisade_model::policy::{Action, Placement};
use palisade_model::snapshot::Stage;

use super::about_rule;
use super::rule_decisions::{Decisions, are_opposite};
use super::unreachable_in_space::UnreachabilityProver;

/// A rule that never decides.
pub static SHADOWED: Code = Code {
    id: "L0118",
    severity: Severity::Warning,
    title: "a rule that never decides anything",
    explanation: "The rule applies to pods and is about connections of theirs, and for every one of them a rule that comes earlier decides: one before it in its policy, of a policy with precedence, of an earlier tier. Taking the rule out changes nothing. The message names the rules that come first, and says for whom that was found: for the pods there are (a new pod or label may change it), or for all pods there could be, whatever their labels and addresses, in the namespaces there are, with the labels that these have now, and in namespaces to come with any. Move the rule before those, narrow them, or remove it.\n\nA baseline rule that only NetworkPolicies come before is not reported: it is there for pods that have none.",
};

/// A rule that never decides, because earlier rules do the opposite.
pub static CONTRADICTED: Code = Code {
    id: "L0119",
    severity: Severity::Warning,
    title: "a rule whose opposite always happens",
    explanation: "Everything the rule allows is refused, or everything it refuses is allowed, by rules that come earlier in the pipeline: the tiers of admins (AdminNetworkPolicy, ClusterNetworkPolicy, Antrea) come before NetworkPolicies, and these before the baseline. Whoever wrote the rule believes something else about the cluster than what holds. The message names the rules that decide, and a connection. Agree with who wrote them, or remove the rule.",
};

/// Rules that decide all connections of an unreachable one.
#[derive(Default)]
struct ShadowingRules {
    rules: BTreeSet<RuleAt>,
    actions: BTreeSet<Action>,
    /// Whether NetworkPolicies decide some connections, or the budget did not cover all.
    policies: bool,
}

pub(super) fn check(decisions: &mut Decisions<'_>, found: &mut Vec<Diagnostic>) {
    let mut prover = UnreachabilityProver::new(decisions);
    let policies = decisions.snapshot.policies();
    let all = (0..)
        .zip(policies)
        .flat_map(|(policy, written)| (0..written.rules.len()).map(move |rule| RuleAt { policy, rule }));
    for at in all.collect::<Vec<RuleAt>>() {
        let facts = decisions.rules.get(&at);
        let (has_distinct_ends, decides) =
            facts.map_or((false, false), |facts| (facts.has_distinct_ends, facts.deciding.is_some()));
        if decides || !decisions.is_fully_modelled(at) || !decisions.is_standalone(at) {
            continue;
        }
        let (shadowing, example) = match has_distinct_ends {
            true => shadowing(decisions, at),
            false => (ShadowingRules::default(), None),
        };
        if has_distinct_ends
            && (shadowing.policies || !shadowing.rules.iter().all(|rule| decisions.is_resolved(*rule)))
        {
            continue;
        }
        let ever = prover.shadowed_by(decisions, at);
        match (has_distinct_ends && !shadowing.rules.is_empty(), ever) {
            (true, ever) => {
                decisions.unreachable.insert(at);
                found.push(report(decisions, at, &shadowing, ever.is_some(), example));
            }
            (false, Some(rules)) if !has_distinct_ends => {
                let actions = rules.iter().map(|rule| decisions.rule(*rule).1.action).collect();
                decisions.unreachable.insert(at);
                let shadowing = ShadowingRules { rules, actions, policies: false };
                found.push(report(decisions, at, &shadowing, true, None));
            }
            _ => {}
        }
    }
    decisions.reported.extend(decisions.unreachable.iter().copied());
    decisions.exceeded |= prover.exceeded;
}

/// Returns the rules that decide the connections of a rule, and an example.
fn shadowing(decisions: &mut Decisions<'_>, at: RuleAt) -> (ShadowingRules, Option<String>) {
    let mut shadowing = ShadowingRules::default();
    let mut example = None;
    let places = decisions.rules.get(&at).map(|facts| facts.combinations.clone()).unwrap_or_default();
    for combination in places {
        if !decisions.affords(combination) {
            shadowing.policies = true;
            break;
        }
        let about = decisions.matched_traffic(combination, at);
        let (_, decided) = decisions.decide(combination, |_| false);
        let mut left = about;
        for (decider, rule, part) in decided {
            let taken = decisions.cells.traffics.intersection(part, left);
            if taken == Traffics::EMPTY {
                continue;
            }
            match (decider, rule) {
                (Decider::Rule(_, action), Some(rule)) => {
                    // A rule that passes leaves the connection to later stages.
                    let passed_on = action == Action::Pass && decisions.stage(at) != decisions.stage(rule);
                    shadowing.policies |= decisions.stage(rule) == Some(Stage::NetworkPolicy);
                    if !passed_on {
                        shadowing.rules.insert(rule);
                        shadowing.actions.insert(action);
                        left = decisions.cells.traffics.difference(left, taken);
                    }
                }
                // NetworkPolicies, or an allowing one of pods that are not isolated.
                _ => shadowing.policies = true,
            }
        }
        if example.is_none() {
            example = decisions.flow(combination, about, false);
        }
    }
    (shadowing, example)
}

fn report(
    decisions: &Decisions<'_>,
    at: RuleAt,
    shadowing: &ShadowingRules,
    ever: bool,
    example: Option<String>,
) -> Diagnostic {
    let (policy, rule) = decisions.rule(at);
    let action = rule.action;
    let (names, places) = decisions.names(&shadowing.rules);
    let scope = if ever { "whatever pods there are" } else { "for the pods there are" };
    let first = if shadowing.rules.len() == 1 { "comes" } else { "come" };
    let opposite =
        !shadowing.actions.is_empty() && shadowing.actions.iter().all(|rule| are_opposite(action, *rule));
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
