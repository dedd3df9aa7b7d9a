//! Lint for Pass rules without a later rule that decides.

use palisade_analysis::reach::traffics::Traffics;
use palisade_analysis::reach::{Decider, RuleAt};
use palisade_model::diagnostic::{Code, Diagnostic, Severity};
use palisade_model::policy::Action;
use palisade_model::snapshot::Stage;

use super::about_rule;
use super::rule_decisions::{Decisions, RuleUsage};

/// A Pass rule whose connections no later stage decides.
pub static LEADS_NOWHERE: Code = Code {
    id: "L0125",
    severity: Severity::Warning,
    title: "a Pass rule that leads nowhere",
    explanation: "Pass leaves a decision to what comes behind the tiers: the NetworkPolicies of the namespace, or else the baseline. For every connection that this rule passes there is neither: no NetworkPolicy isolates the pod, and no baseline rule is about it. So this side allows all of it, and nobody decided that; the connection that is named as an example is one that the other side allows, too. A pod behind a NetworkPolicy, now or later, would get another answer. Write Allow if that is what is meant; else add the NetworkPolicies, or a baseline rule, that the rule counts on.",
};

pub(super) fn check(decisions: &mut Decisions<'_>, found: &mut Vec<Diagnostic>) {
    let passes = |at: &RuleAt, facts: &RuleUsage| {
        facts.deciding.is_some()
            && facts.has_distinct_ends
            && decisions.rule(*at).1.action == Action::Pass
            && decisions.is_fully_modelled(*at)
            && decisions.is_standalone(*at)
    };
    let all = decisions.rules.iter().filter(|(at, facts)| passes(at, facts));
    let all: Vec<(RuleAt, Vec<u32>)> = all.map(|(at, facts)| (*at, facts.combinations.clone())).collect();
    for (at, combinations) in all {
        let mut example = None;
        let leads_somewhere = combinations.into_iter().any(|combination| {
            if !decisions.affords(combination) {
                return true;
            }
            let (_, decided) = decisions.decide(combination, |_| false);
            let own = decided.iter().position(|(_, rule, _)| *rule == Some(at));
            let Some(own) = own else { return false };
            let passed = decided[own].2;
            if example.is_none() {
                example = decisions.open_flow(combination, passed);
            }
            decided[own + 1..].iter().any(|(decider, rule, part)| {
                let behind = match (decider, rule) {
                    (Decider::Isolation, _) => true,
                    (Decider::Nobody, _) | (_, None) => false,
                    (_, Some(rule)) => decisions.stage(*rule).is_none_or(|stage| stage > Stage::Tiers),
                };
                // Passed traffic leaves the stage of the rule.
                let same = rule.is_some_and(|rule| decisions.stage(rule) == decisions.stage(at));
                behind && !same && decisions.cells.traffics.intersection(*part, passed) != Traffics::EMPTY
            })
        });
        if leads_somewhere {
            continue;
        }
        let (policy, rule) = decisions.rule(at);
        let example = example.map(|flow| format!(", e.g. {flow}")).unwrap_or_default();
        let message = format!(
            "the rule passes, and no NetworkPolicy or baseline rule is behind it: all of its {} is allowed{example}",
            rule.direction
        );
        let help = "write Allow if that is meant, or add what the rule counts on: NetworkPolicies for these pods, or a baseline rule";
        found.push(about_rule(&LEADS_NOWHERE, policy, rule, "", message).help(help));
        decisions.reported.insert(at);
    }
}
