//! Egress that is closed so far that names cannot be looked up.

use std::collections::BTreeSet;

use palisade_model::diagnostic::{Code, Diagnostic, Location, Severity};
use palisade_model::matching::Context;
use palisade_model::options::Options;
use palisade_model::policy::{
    Action, Direction, Namespaces, Peers, PodSet, Policy, Rule, Subject, TrafficMatch, TrafficMatches,
};
use palisade_model::snapshot::Snapshot;
use palisade_model::traffic::Protocol;

use super::{about, pods_under};

/// The code.
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
        subjects.iter().flat_map(|subject| pods_under(&context, subject)).collect()
    };
    let mut may_look_up = vec![false; snapshot.pods().len()];
    for pod in openers.iter().flat_map(|rule| selected(&rule.subjects)) {
        may_look_up[pod] = true;
    }
    let mut said: BTreeSet<(&str, &Location)> = BTreeSet::new();
    for policy in snapshot.policies() {
        let isolations = policy.isolations.iter();
        // That a policy which cannot be read closes everything is not what its author meant.
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
            // Nobody to ask: what is written for the same namespace must do.
            None if selected.is_empty() && !openers.iter().any(|rule| same_namespace(rule, policy)) => {
                "whoever it selects may not send to DNS: no rule allows udp/53".to_owned()
            }
            None => continue,
        };
        let help =
            "allow udp/53 and tcp/53 to the cluster's DNS; `palisade check --explain L0104` shows the rule";
        // A policy that is written once and holds in many namespaces is one mistake.
        if let Some(at) = &policy.object.at
            && !said.insert((&policy.object.name, at))
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

/// Whether the rule lets somebody send to UDP port 53 somewhere.
fn opens_dns(rule: &Rule) -> bool {
    let somebody = !matches!(&rule.peers, Peers::Of(peers) if peers.is_empty());
    let traffic = match &rule.traffic {
        TrafficMatches::Any => true,
        TrafficMatches::Of(matches) => matches.iter().any(|one| match one {
            TrafficMatch::Ports(protocol, range) => *protocol == Protocol::Udp && range.contains(53),
            // A name may well be DNS: cluster DNS pods call their port dns.
            TrafficMatch::Named(protocol, name) => {
                protocol.is_none_or(|protocol| protocol == Protocol::Udp) && name.contains("dns")
            }
            // From some source ports is not enough for a resolver.
            TrafficMatch::From(..)
            | TrafficMatch::Icmp(..)
            | TrafficMatch::Igmp(..)
            | TrafficMatch::Unknown(_) => false,
        }),
    };
    somebody && traffic && rule.unknown().is_none()
}
