//! Lint for policies of tiers without rules, which have no effect.

use palisade_model::diagnostic::{Code, Diagnostic, Severity};
use palisade_model::policy::Placement;
use palisade_model::snapshot::Snapshot;

use super::about;

/// A policy of a tier without rules.
pub static NO_RULES: Code = Code {
    id: "L0128",
    severity: Severity::Note,
    title: "a policy without rules that does nothing",
    explanation: "A NetworkPolicy without rules isolates the pods it selects: that is a default deny, and no finding. An AdminNetworkPolicy, a ClusterNetworkPolicy or a policy of Antrea is only its rules: without any it decides nothing, whatever its subject. Whoever expects a default deny of it has none. Write a rule that denies, or remove the policy.",
};

pub(super) fn check(snapshot: &Snapshot, found: &mut Vec<Diagnostic>) {
    let idle = snapshot.policies().iter().filter(|policy| {
        matches!(policy.placement, Placement::Tier { .. })
            && policy.rules.is_empty()
            && policy.unreadable.is_none()
    });
    for policy in idle {
        let message = "the policy has no rules, and so does nothing".to_owned();
        let help =
            "only a NetworkPolicy isolates without rules; add a rule that denies, or remove the policy";
        found.push(about(&NO_RULES, &policy.object, message).field("spec").help(help));
    }
}
