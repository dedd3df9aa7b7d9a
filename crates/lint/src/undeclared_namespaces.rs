//! Lint for policies in namespaces that do not exist.

use std::collections::BTreeSet;

use palisade_model::diagnostic::{Code, Diagnostic, Severity};
use palisade_model::nearest::nearest;
use palisade_model::snapshot::Snapshot;

use super::about;

/// The policy's namespace does not exist.
pub static UNDECLARED: Code = Code {
    id: "L0106",
    severity: Severity::Warning,
    title: "a policy in a namespace that is not there",
    explanation: "The input has Namespace objects, and none of them, nor any pod, is of the policy's namespace. A namespaced policy is about its own namespace only, so this one protects nobody; often the name is misspelled. Not reported where the input has no Namespace objects at all.",
};

pub(super) fn check(snapshot: &Snapshot, found: &mut Vec<Diagnostic>) {
    let declared: BTreeSet<&str> =
        snapshot.namespaces().iter().filter(|ns| ns.at.is_some()).map(|ns| ns.name.as_str()).collect();
    if declared.is_empty() {
        return;
    }
    for policy in snapshot.policies() {
        let Some(namespace) = &policy.object.namespace else { continue };
        if declared.contains(namespace.as_str()) || !snapshot.pods_in(namespace).is_empty() {
            continue;
        }
        let message = format!("there is no namespace {namespace}: the policy is about nobody");
        let mut diagnostic = about(&UNDECLARED, &policy.object, message).field("metadata.namespace");
        let near = nearest(namespace, declared.iter().copied());
        diagnostic.help = near.first().map(|near| format!("did you mean {near}?"));
        found.push(diagnostic);
    }
}
