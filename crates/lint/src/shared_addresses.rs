//! Lint for addresses that two pods have.

use std::collections::BTreeMap;
use std::net::IpAddr;

use palisade_model::diagnostic::{Code, Diagnostic, Severity, Subject};
use palisade_model::snapshot::Snapshot;

use super::pods;

/// Two pods have one address.
pub static SHARED_ADDRESS: Code = Code {
    id: "L0109",
    severity: Severity::Warning,
    title: "two pods have the same address",
    explanation: "Two living pods in the pod network claim one address, which cannot be in one cluster at one moment: the input is put together from different times or clusters, or an address was copied by hand. Questions by that address are answered for the first pod by namespace and name.",
};

pub(super) fn check(snapshot: &Snapshot, found: &mut Vec<Diagnostic>) {
    let mut first: BTreeMap<IpAddr, usize> = BTreeMap::new();
    for index in pods(snapshot) {
        let pod = &snapshot.pods()[index];
        for address in &pod.addresses {
            let holder = *first.entry(*address).or_insert(index);
            if holder != index {
                let holder = &snapshot.pods()[holder];
                let message =
                    format!("{address} is also the address of {}/{}", holder.namespace, holder.name);
                let subject = Subject {
                    kind: "Pod".into(),
                    namespace: Some(pod.namespace.clone()),
                    name: pod.name.clone(),
                };
                let diagnostic =
                    Diagnostic::new(&SHARED_ADDRESS, message).about(subject).field("status.podIPs");
                found.push(diagnostic.at(pod.at.clone()));
            }
        }
    }
}
