//! Test whether two subjects have no endpoint in common, in any cluster.
//!
//! A sufficient test on selectors as they are written, for callers that compare many pairs; [`space`](crate::space) decides
//! the question exactly and costs more.

use palisade_model::cluster::NAMESPACE_NAME_LABEL;
use palisade_model::label::Selector;
use palisade_model::policy::{Namespaces, PodSet, Subject};

/// Returns whether no endpoint can be subject to both. `false` means only that this does not show in their selectors.
pub fn are_disjoint(a: &Subject, b: &Subject) -> bool {
    match (a, b) {
        (Subject::Pods(a), Subject::Pods(b)) => disjoint_pods(a, b),
        (Subject::Nodes(a), Subject::Nodes(b)) => a.is_disjoint(b),
        (Subject::Service(a), Subject::Service(b)) => a != b,
        (Subject::Group { .. }, _) | (_, Subject::Group { .. }) => false,
        _ => true,
    }
}

fn disjoint_pods(a: &PodSet, b: &PodSet) -> bool {
    let namespaces = match (&a.namespaces, &b.namespaces) {
        (Namespaces::Named(a), Namespaces::Named(b)) => a != b,
        (Namespaces::Matching(a), Namespaces::Matching(b)) => a.is_disjoint(b),
        (Namespaces::Named(name), Namespaces::Matching(selector))
        | (Namespaces::Matching(selector), Namespaces::Named(name)) => {
            selector.is_disjoint(&Selector::label(NAMESPACE_NAME_LABEL, name))
        }
        _ => false,
    };
    namespaces || a.pods.is_disjoint(&b.pods)
}
