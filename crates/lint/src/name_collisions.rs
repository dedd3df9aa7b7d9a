//! Lint for policies that Antrea of 2020 confused by their name.

use std::collections::BTreeSet;

use palisade_model::diagnostic::{Code, Diagnostic, Severity};
use palisade_model::policy::{Dialect, Placement};
use palisade_model::snapshot::Snapshot;

use super::about;

/// An Antrea NetworkPolicy of 2020 and a NetworkPolicy have one name.
pub static COLLISION: Code = Code {
    id: "L0113",
    severity: Severity::Warning,
    title: "an Antrea NetworkPolicy of 2020 has the name of a NetworkPolicy",
    explanation: "Antrea of that time kept both under one name, so that \"creating an Antrea NetworkPolicy with the same name as a K8s NetworkPolicy under the same Namespace creates a collision and causes unexpected behavior\" (its issue 1173). Palisade keeps them apart; the cluster may not. Give one of them another name.",
};

pub(super) fn check(snapshot: &Snapshot, found: &mut Vec<Diagnostic>) {
    let name = |object: &palisade_model::policy::Object| (object.namespace.clone(), object.name.clone());
    let union = snapshot.policies().iter().filter(|policy| policy.placement == Placement::Union);
    let taken: BTreeSet<_> = union
        .filter(|policy| policy.object.dialect == Dialect::NetworkPolicy)
        .map(|policy| name(&policy.object))
        .collect();
    for policy in snapshot.policies() {
        let object = &policy.object;
        if object.dialect == Dialect::Antrea2020 && taken.contains(&name(object)) {
            let message = format!("NetworkPolicy {} has this name too", object.full_name());
            found.push(about(&COLLISION, object, message).field("metadata.name"));
        }
    }
}
