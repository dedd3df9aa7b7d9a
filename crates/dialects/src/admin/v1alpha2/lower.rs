//! A ClusterNetworkPolicy in the rule language.

use palisade_model::policy::{Action, Dialect, Namespaces, Peer, PodSet, Policy, Tier, TrafficMatch};
use palisade_model::traffic::{PortRange, Protocol};

use super::types::{
    self, ClusterNetworkPolicy, EgressPeer, EgressRule, IngressPeer, IngressRule, NamespacedPod,
    ProtocolPorts, Subject,
};
use crate::admin::lower::{self, Draft, RuleDraft, draft, one_of, one_peer};
use crate::decode::Reader;
use crate::definition::selector::LabelSelector;
use crate::object::Header;

const ACTIONS: &[(&str, Action)] =
    &[("Accept", Action::Allow), ("Deny", Action::Deny), ("Pass", Action::Pass)];

/// Before AdminNetworkPolicy, which is at 251.
const ADMIN: Tier = Tier::Fixed(220, "admin");
const BASELINE: Tier = Tier::Fixed(254, "baseline");

pub(super) fn cluster(policy: &ClusterNetworkPolicy, header: &Header, reader: &Reader<'_>) -> Policy {
    let spec = policy.spec.as_deref().cloned().unwrap_or_default();
    let priority = lower::priority(spec.priority.as_ref());
    let (tier, priority) = match spec.tier.as_ref().map(|tier| tier.as_str()) {
        Some("Admin") => (ADMIN, priority),
        Some("Baseline") => (BASELINE, priority),
        // It comes first then, wherever it belongs.
        Some(other) => (ADMIN, Err(format!("tier {other:?}"))),
        None => (ADMIN, Err("no tier".to_owned())),
    };
    let draft = Draft {
        unreadable: policy.unreadable.clone().or(spec.unreadable),
        tier,
        priority,
        subject: subject(spec.subject.as_deref()),
        ingress: spec.ingress.iter().flat_map(|rules| rules.iter()).map(|rule| ingress(rule)).collect(),
        egress: spec.egress.iter().flat_map(|rules| rules.iter()).map(|rule| egress(rule)).collect(),
    };
    draft.finish(Dialect::ClusterNetworkPolicy, header, reader)
}

fn ingress(rule: &IngressRule) -> RuleDraft {
    draft!(rule, ACTIONS, from: ingress_peer, protocols: protocol)
}

fn egress(rule: &EgressRule) -> RuleDraft {
    draft!(rule, ACTIONS, to: egress_peer, protocols: protocol)
}

fn subject(subject: Option<&Subject>) -> Result<PodSet, String> {
    let subject = subject.ok_or("no subject")?;
    let alternatives =
        [subject.namespaces.as_deref().map(all_of), subject.pods.as_ref().map(|pods| pods.lower())];
    one_of("a subject", &subject.unreadable, alternatives)?
}

fn ingress_peer(peer: &IngressPeer) -> Vec<Peer> {
    let alternatives = [peer.namespaces.as_deref().map(namespaces), peer.pods.as_deref().map(pods)];
    one_peer(&peer.unreadable, alternatives)
}

fn egress_peer(peer: &EgressPeer) -> Vec<Peer> {
    let alternatives = [
        peer.namespaces.as_deref().map(namespaces),
        peer.pods.as_deref().map(pods),
        peer.networks.as_ref().map(lower::networks),
        peer.nodes.as_deref().map(lower::nodes),
        peer.domain_names.as_ref().map(lower::domain_names),
    ];
    one_peer(&peer.unreadable, alternatives)
}

/// All pods of the namespaces selected.
fn all_of(selector: &LabelSelector) -> Result<PodSet, String> {
    selector.lower().map(Namespaces::Matching).map(lower::all_pods)
}

fn namespaces(selector: &LabelSelector) -> Vec<Peer> {
    lower::pods(all_of(selector))
}

fn pods(pods: &NamespacedPod) -> Vec<Peer> {
    lower::pods(pods.lower())
}

fn protocol(entry: &types::Protocol) -> Result<TrafficMatch, String> {
    let alternatives = [
        entry.tcp.as_ref().map(|ports| ports.lower(Protocol::Tcp)),
        entry.udp.as_ref().map(|ports| ports.lower(Protocol::Udp)),
        entry.sctp.as_ref().map(|ports| ports.lower(Protocol::Sctp)),
        entry.destination_named_port.as_ref().map(|name| Ok(TrafficMatch::Named(None, name.0.clone()))),
    ];
    one_of("a protocol", &entry.unreadable, alternatives)?
}

// === impl NamespacedPod ===

impl NamespacedPod {
    fn lower(&self) -> Result<PodSet, String> {
        if let Some(why) = &self.unreadable {
            return Err(why.clone());
        }
        let namespaces = lower::selector(self.namespace_selector.as_deref(), "namespaceSelector")?;
        let pods = lower::selector(self.pod_selector.as_deref(), "podSelector")?;
        Ok(PodSet::new(Namespaces::Matching(namespaces), pods))
    }
}

// === impl ProtocolPorts ===

impl ProtocolPorts {
    /// The ports of a protocol; all of them when none is said, as the API's text has it (its definition refuses that).
    fn lower(&self, protocol: Protocol) -> Result<TrafficMatch, String> {
        if let Some(why) = &self.unreadable {
            return Err(why.clone());
        }
        let Some(port) = &self.destination_port else {
            return Ok(TrafficMatch::Ports(protocol, PortRange::ALL));
        };
        let number = port.number.as_ref().map(|number| lower::ports(protocol, Some(number), Some(number)));
        let range = port.range.as_ref().map(|range| match &range.unreadable {
            Some(why) => Err(why.clone()),
            None => lower::ports(protocol, range.start.as_ref(), range.end.as_ref()),
        });
        one_of("a destinationPort", &port.unreadable, [number, range])?
    }
}
