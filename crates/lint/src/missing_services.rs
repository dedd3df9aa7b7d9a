//! Lint for Services of policies that do not exist, or have no cluster address.

use std::collections::{BTreeMap, BTreeSet};

use palisade_model::diagnostic::{Code, Diagnostic, Severity};
use palisade_model::nearest::nearest;
use palisade_model::policy::{Peer, Peers, ServiceName, Subject};
use palisade_model::snapshot::Snapshot;

use super::about_rule;

/// The Service does not exist.
pub static MISSING_SERVICE: Code = Code {
    id: "L0114",
    severity: Severity::Warning,
    title: "a policy names a Service that does not exist",
    explanation: "`toServices` and `appliedTo` a `service` name a Service by namespace and name. There is none, so the rule matches nothing, or applies to nobody. Not reported when no Service of that namespace is among the input.",
};

/// The Service has no cluster address: no connection goes through it.
pub static NO_CLUSTER_ADDRESS: Code = Code {
    id: "L0130",
    severity: Severity::Warning,
    title: "a policy names a Service that has no cluster address",
    explanation: "`toServices` and `appliedTo` a `service` match connections to the address of a Service. A headless Service (`clusterIP: None`) and one of type `ExternalName` have none: their names stand for other addresses, and a connection goes there directly. The rule never matches, or applies to nothing; a Drop drops nothing. Name the pods with `podSelector`, or an outside name with `fqdn`.",
};

/// Maximum number of suggestions.
const MAX_GUESSES: usize = 50;

pub(super) fn check(snapshot: &Snapshot, found: &mut Vec<Diagnostic>) {
    let known: BTreeSet<(&str, &str)> =
        snapshot.services().iter().map(|service| (&*service.namespace, &*service.name)).collect();
    let namespaces: BTreeSet<&str> = known.iter().map(|(namespace, _)| *namespace).collect();
    let missing = |name: &ServiceName| {
        namespaces.contains(&*name.namespace) && !known.contains(&(&*name.namespace, &*name.name))
    };
    let unreachable = snapshot.services().iter().filter(|service| !service.has_cluster_address());
    let without_address: BTreeMap<(&str, &str), &str> = unreachable
        .map(|service| {
            let kind = if service.is_external_name() { "an ExternalName" } else { "headless" };
            ((&*service.namespace, &*service.name), kind)
        })
        .collect();
    let mut guesses = 0;
    let mut help = |name: &ServiceName| {
        guesses += 1;
        let here = known.iter().filter(|(namespace, _)| *namespace == name.namespace);
        let near = nearest(&name.name, here.map(|(_, name)| *name).filter(|_| guesses <= MAX_GUESSES));
        near.first().map(|near| format!("did you mean {near}?"))
    };
    for policy in snapshot.policies() {
        for rule in &policy.rules {
            let peers: &[Peer] = match &rule.peers {
                Peers::Any => &[],
                Peers::Of(peers) => peers,
            };
            let named = peers.iter().filter_map(|peer| match peer {
                Peer::Service(name) => Some((name, ".toServices", "this matches nothing")),
                _ => None,
            });
            let applied = rule.subjects.iter().filter_map(|subject| match subject {
                Subject::Service(name) => Some((name, "", "the rule applies to nobody")),
                _ => None,
            });
            for (name, part, effect) in named.chain(applied) {
                if missing(name) {
                    let message = format!("there is no Service {name}: {effect}");
                    let mut diagnostic = about_rule(&MISSING_SERVICE, policy, rule, part, message);
                    diagnostic.help = help(name);
                    found.push(diagnostic);
                } else if let Some(kind) = without_address.get(&(&*name.namespace, &*name.name)) {
                    let message = format!("Service {name} is {kind} and has no cluster address: {effect}");
                    found.push(about_rule(&NO_CLUSTER_ADDRESS, policy, rule, part, message));
                }
            }
        }
    }
}
