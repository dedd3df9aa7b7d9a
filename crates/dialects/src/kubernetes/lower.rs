//! A NetworkPolicy in the rule language. Lowering never fails: what cannot be read fails closed and says so.

use std::sync::Arc;

use palisade_model::address::Block;
use palisade_model::label::Selector;
use palisade_model::policy::{
    Dialect, Direction, Isolation, Namespaces, Peer, Peers, Placement, PodSet, Policy, Rule, Subject,
    TrafficMatch, TrafficMatches,
};
use palisade_model::traffic::{PortRange, Protocol};

use super::types::{IpBlock, NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicyRule};
use crate::apimachinery::cidr;
use crate::apimachinery::field::Path;
use crate::decode::{IntOrString, Reader};
use crate::meta::LabelSelector;
use crate::object::Header;

pub(super) fn lower(policy: &NetworkPolicy, header: &Header, reader: &Reader<'_>) -> Policy {
    let namespace = header.namespace.clone().unwrap_or_default();
    let spec = policy.spec.clone().unwrap_or_default();
    // Something in the spec that nobody understands may have narrowed any of its rules.
    let mut unreadable = policy.unreadable.clone().or_else(|| spec.unreadable.clone());
    let selector = spec.pod_selector.as_ref().map_or(Ok(Selector::everything()), LabelSelector::lower);
    let pods = selector.unwrap_or_else(|what| {
        unreadable.get_or_insert(what);
        Selector::everything()
    });
    let subjects: Arc<[Subject]> = Arc::new([PodSet::new(Namespaces::Named(namespace.clone()), pods).into()]);
    // A spec that is not there at all is about ingress; one that is there and no mapping may be about anything.
    let (ingress, egress) = match (&policy.spec, &policy.unreadable) {
        (None, Some(_)) => (true, true),
        _ => spec.types(),
    };

    let mut isolations = Vec::new();
    let mut rules = Vec::new();
    let lists = [
        (Direction::Ingress, ingress, &spec.ingress, "ingress"),
        (Direction::Egress, egress, &spec.egress, "egress"),
    ];
    for (direction, speaks, list, name) in lists {
        if !speaks {
            continue;
        }
        isolations.push(Isolation { subjects: Arc::clone(&subjects), direction });
        let path = Path::new("spec");
        let path = path.child(name);
        for (index, rule) in list.iter().flatten().enumerate() {
            let meant = match unreadable.clone().or_else(|| rule_unreadable(rule, direction)) {
                Some(what) => (Peers::Of(vec![Peer::Unknown(what)]), TrafficMatches::Any),
                None => (peers(rule, direction, &namespace), ports(&rule.ports)),
            };
            rules.push(Rule::allow(
                direction,
                index,
                &subjects,
                meant,
                Some(reader.locate(&path.index(index))),
            ));
        }
    }
    Policy {
        object: header.origin(Dialect::NetworkPolicy),
        placement: Placement::Union,
        isolations,
        rules,
        unreadable,
    }
}

fn rule_unreadable(rule: &NetworkPolicyRule, direction: Direction) -> Option<String> {
    let (_, misplaced) = rule.peers(direction == Direction::Ingress);
    rule.unreadable.clone().or_else(|| misplaced.map(|field| format!("unknown field {field}")))
}

/// `from`, `to`: absent and empty are both everybody.
fn peers(rule: &NetworkPolicyRule, direction: Direction, namespace: &str) -> Peers {
    match rule.peers(direction == Direction::Ingress).0.as_deref() {
        None | Some([]) => Peers::Any,
        Some(peers) => Peers::Of(peers.iter().map(|one| peer(one, namespace)).collect()),
    }
}

fn peer(peer: &NetworkPolicyPeer, namespace: &str) -> Peer {
    if let Some(what) = &peer.unreadable {
        return Peer::Unknown(what.clone());
    }
    match (&peer.ip_block, &peer.pod_selector, &peer.namespace_selector) {
        (Some(block), None, None) => ip_block(block).unwrap_or_else(Peer::Unknown),
        (Some(_), _, _) => Peer::Unknown("ipBlock together with a selector".to_owned()),
        (None, None, None) => Peer::Unknown("a peer without any field".to_owned()),
        (None, pods, namespaces) => pods_peer(pods.as_ref(), namespaces.as_ref(), namespace),
    }
}

/// Pods: of the policy's own namespace unless namespaces are selected.
pub(crate) fn pods_peer(pods: Option<&LabelSelector>, namespaces: Option<&LabelSelector>, own: &str) -> Peer {
    let lowered = || -> Result<PodSet, String> {
        let pods = pods.map_or(Ok(Selector::everything()), LabelSelector::lower)?;
        let namespaces = match namespaces {
            Some(selector) => Namespaces::Matching(selector.lower()?),
            None => Namespaces::Named(own.into()),
        };
        Ok(PodSet::new(namespaces, pods))
    };
    lowered().map_or_else(Peer::Unknown, Peer::Pods)
}

fn ip_block(block: &IpBlock) -> Result<Peer, String> {
    if let Some(what) = &block.unreadable {
        return Err(what.clone());
    }
    let text = block.cidr.as_deref().unwrap_or("");
    let network = |text: &str| cidr::network(text).ok_or_else(|| format!("{text:?} is no CIDR"));
    let except = block.except.iter().flatten().map(|text| network(text)).collect::<Result<Vec<_>, _>>()?;
    Ok(Peer::Addresses(Block::new(network(text)?, except)))
}

/// `ports`: absent and empty are both any traffic.
fn ports(ports: &Option<Vec<NetworkPolicyPort>>) -> TrafficMatches {
    match ports.as_deref() {
        None | Some([]) => TrafficMatches::Any,
        Some(ports) => TrafficMatches::Of(ports.iter().map(port).collect()),
    }
}

/// One entry of `ports`: TCP unless said otherwise, all ports unless one is named.
pub(crate) fn port(port: &NetworkPolicyPort) -> TrafficMatch {
    if let Some(what) = &port.unreadable {
        return TrafficMatch::Unknown(what.clone());
    }
    let name = port.protocol.as_deref().unwrap_or("TCP");
    let Some(protocol) = Protocol::from_kubernetes(name) else {
        return TrafficMatch::Unknown(format!("protocol {name:?}"));
    };
    match (&port.port, port.end_port) {
        (None, None) => TrafficMatch::Ports(protocol, PortRange::ALL),
        (Some(IntOrString::String(name)), None) => TrafficMatch::Named(Some(protocol), name.clone()),
        (Some(IntOrString::Int(first)), last) => {
            let last = last.unwrap_or(*first);
            match (u16::try_from(*first), u16::try_from(last)) {
                (Ok(first), Ok(last)) if 0 < first && first <= last => {
                    TrafficMatch::Ports(protocol, PortRange { first, last })
                }
                _ => TrafficMatch::Unknown(format!("ports {first} to {last}")),
            }
        }
        (_, Some(end)) => TrafficMatch::Unknown(format!("endPort {end} without a port number")),
    }
}
