//! Lint for restricted egress that does not allow DNS.

use std::collections::BTreeSet;

use palisade_model::diagnostic::{Code, Diagnostic, Location, Severity};
use palisade_model::matching::Context;
use palisade_model::options::Options;
use palisade_model::policy::{
    Action, Direction, Namespaces, Peers, PodSet, Policy, Rule, Subject, TrafficMatch, TrafficMatches,
};
use palisade_model::snapshot::Snapshot;
use palisade_model::traffic::Protocol;

use super::{about, pods_of_subject};

/// Pods isolated for egress that may not send to DNS.
pub static NO_DNS: Code = Code {
    id: "L0104",
    severity: Severity::Warning,
    title: "egress is restricted and DNS is not allowed",
    explanation: "The policy isolates pods for egress, and no rule that applies to them allows UDP port 53 to anybody. Their lookups fail, and with them every connection by name, even those that are allowed. Add a rule for the cluster's DNS:\n\n```yaml\negress:\n- to:\n  - namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}\n    podSelector: {matchLabels: {k8s-app: kube-dns}}\n  ports: [{protocol: UDP, port: 53}, {protocol: TCP, port: 53}]\n```",
};

pub(super) fn check(snapshot: &Snapshot, found: &mut Vec<Diagnostic>) {
    let context = Context { snapshot, options: Options::default() };
    let egress =
        |rule: &&Rule| rule.direction == Direction::Egress && rule.action == Action::Allow && opens_dns(rule);
    let openers: Vec<&Rule> =
        snapshot.policies().iter().flat_map(|policy| &policy.rules).filter(egress).collect();
    let selected = |subjects: &[Subject]| -> Vec<usize> {
        subjects.iter().flat_map(|subject| pods_of_subject(&context, subject)).collect()
    };
    let mut may_look_up = vec![false; snapshot.pods().len()];
    for pod in openers.iter().flat_map(|rule| selected(&rule.subjects)) {
        may_look_up[pod] = true;
    }
    let mut reported: BTreeSet<(&str, &Location)> = BTreeSet::new();
    for policy in snapshot.policies() {
        let isolations = policy.isolations.iter();
        // A policy with unparsable parts isolates because it fails closed: no mistake about DNS.
        let Some(isolation) = isolations
            .filter(|_| policy.unreadable.is_none())
            .find(|isolation| isolation.direction == Direction::Egress)
        else {
            continue;
        };
        let selected = selected(&isolation.subjects);
        let cut_off = selected.iter().find(|pod| !may_look_up[**pod]);
        let message = match cut_off {
            Some(pod) => {
                let pod = &snapshot.pods()[*pod];
                format!("{}/{} may not send to DNS: no rule allows udp/53", pod.namespace, pod.name)
            }
            // Without pods: rules of the same namespace have to do.
            None if selected.is_empty() && !openers.iter().any(|rule| same_namespace(rule, policy)) => {
                "whoever it selects may not send to DNS: no rule allows udp/53".to_owned()
            }
            None => continue,
        };
        let help =
            "allow udp/53 and tcp/53 to the cluster's DNS; `palisade check --explain L0104` shows the rule";
        // A policy that is written once and lowered for many namespaces is one mistake.
        if let Some(at) = &policy.object.at
            && !reported.insert((&policy.object.name, at))
        {
            continue;
        }
        found.push(about(&NO_DNS, &policy.object, message).field("spec.egress").help(help));
    }
}

fn same_namespace(rule: &Rule, policy: &Policy) -> bool {
    rule.subjects.iter().any(|subject| match subject {
        Subject::Pods(PodSet { namespaces: Namespaces::Named(name), .. }) => {
            policy.object.namespace.as_ref() == Some(name)
        }
        _ => true,
    })
}

/// Whether a rule allows UDP port 53 to some peer.
fn opens_dns(rule: &Rule) -> bool {
    let has_peers = !matches!(&rule.peers, Peers::Of(peers) if peers.is_empty());
    let traffic = match &rule.traffic {
        TrafficMatches::Any => true,
        TrafficMatches::Of(matches) => matches.iter().any(|one| match one {
            TrafficMatch::Ports(protocol, range) => *protocol == Protocol::Udp && range.contains(53),
            // Cluster DNS pods name their port `dns`.
            TrafficMatch::Named(protocol, name) => {
                protocol.is_none_or(|protocol| protocol == Protocol::Udp) && name.contains("dns")
            }
            // Resolvers use any source port.
            TrafficMatch::From(..)
            | TrafficMatch::Icmp(..)
            | TrafficMatch::Igmp(..)
            | TrafficMatch::Unknown(_) => false,
        }),
    };
    has_peers && traffic && rule.unknown().is_none()
}
