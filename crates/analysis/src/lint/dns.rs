//! Egress that is closed so far that names cannot be looked up.

use std::collections::BTreeMap;

use palisade_model::diagnostic::{Code, Diagnostic, Severity};
use palisade_model::matching::Context;
use palisade_model::options::Options;
use palisade_model::policy::{Action, Direction, Namespaces, Peers, Rule, TrafficMatch, TrafficMatches};
use palisade_model::snapshot::Snapshot;
use palisade_model::traffic::Protocol;

use super::{Pods, about};

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
    let rules = snapshot.policies().iter().flat_map(|policy| &policy.rules).filter(egress);
    let openers = Openers::of(rules);
    let pods = Pods::of(snapshot);
    for policy in snapshot.policies() {
        let Some(isolation) =
            policy.isolations.iter().find(|isolation| isolation.direction == Direction::Egress)
        else {
            continue;
        };
        let selected: Vec<usize> = pods.within(&context, &isolation.subjects).collect();
        let cut_off = selected.iter().find(|pod| {
            let namespace = snapshot.pods()[**pod].namespace.as_str();
            !openers.of_namespace(namespace).any(|rule| context.applies(&rule.subjects, **pod))
        });
        let message = match cut_off {
            Some(pod) => {
                let pod = &snapshot.pods()[*pod];
                format!("{}/{} may not send to DNS: no rule allows udp/53", pod.namespace, pod.name)
            }
            // Nobody to ask: what is written for the same namespace must do.
            None if selected.is_empty()
                && openers
                    .of_namespace(policy.object.namespace.as_deref().unwrap_or_default())
                    .next()
                    .is_none() =>
            {
                "whoever it selects may not send to DNS: no rule allows udp/53".to_owned()
            }
            None => continue,
        };
        let help =
            "allow udp/53 and tcp/53 to the cluster's DNS; `palisade check --explain L0104` shows the rule";
        found.push(about(&NO_DNS, &policy.object, message).field("spec.egress").help(help));
    }
}

/// Rules that open DNS, by the namespace they are for; those for several under none.
struct Openers<'s>(BTreeMap<Option<&'s str>, Vec<&'s Rule>>);

impl<'s> Openers<'s> {
    fn of(rules: impl Iterator<Item = &'s Rule>) -> Self {
        let mut openers: BTreeMap<Option<&str>, Vec<&Rule>> = BTreeMap::new();
        for rule in rules {
            for set in rule.subjects.iter() {
                let namespace = match &set.namespaces {
                    Namespaces::Named(name) => Some(name.as_str()),
                    _ => None,
                };
                openers.entry(namespace).or_default().push(rule);
            }
        }
        Openers(openers)
    }

    /// Those that may be for a pod of this namespace.
    fn of_namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Rule> {
        [Some(namespace), None].into_iter().filter_map(|key| self.0.get(&key)).flatten().copied()
    }
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
            TrafficMatch::Unknown(_) => false,
        }),
    };
    somebody && traffic
}
