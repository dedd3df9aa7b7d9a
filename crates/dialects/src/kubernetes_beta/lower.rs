//! A NetworkPolicy of 2016 in the rule language: rules of the union stage, and no isolation.

use std::sync::Arc;

use palisade_model::label::Selector;
use palisade_model::policy::{
    Dialect, Direction, Namespaces, Peer, Peers, Placement, PodSet, Policy, Rule, Subject, TrafficMatch,
    TrafficMatches,
};

use super::types::{NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer};
use crate::apimachinery::field::Path;
use crate::decode::Reader;
use crate::kubernetes::{pods_peer, port};
use crate::meta::LabelSelector;
use crate::object::Header;

pub(super) fn lower(policy: &NetworkPolicy, header: &Header, reader: &Reader<'_>) -> Policy {
    let namespace = header.namespace.clone().unwrap_or_default();
    let spec = policy.spec.clone().unwrap_or_default();
    let selector = spec.pod_selector.as_ref().map_or(Ok(Selector::everything()), LabelSelector::lower);
    let unreadable = policy.unreadable.clone().or(spec.unreadable).or(selector.clone().err());
    let pods = selector.unwrap_or_default();
    let subjects: Arc<[Subject]> = Arc::new([PodSet::new(Namespaces::Named(namespace.clone()), pods).into()]);
    let path = Path::new("spec");
    let path = path.child("ingress");
    let rule = |(index, rule): (usize, &NetworkPolicyIngressRule)| {
        let meant = match unreadable.clone().or_else(|| rule.unreadable.clone()) {
            Some(what) => (Peers::Of(vec![Peer::Unknown(what)]), TrafficMatches::Any),
            None => (peers(rule, &namespace), traffic(rule)),
        };
        Rule::allow(Direction::Ingress, index, &subjects, meant, Some(reader.locate(&path.index(index))))
    };
    let rules = spec.ingress.iter().flatten().enumerate().map(rule).collect();
    Policy {
        object: header.origin(Dialect::NetworkPolicy2016),
        placement: Placement::Union,
        isolations: Vec::new(),
        rules,
        unreadable,
    }
}

/// "If this field is not provided, this rule matches all sources. If this field is empty, this rule matches no sources."
fn peers(rule: &NetworkPolicyIngressRule, namespace: &str) -> Peers {
    match &rule.from {
        None => Peers::Any,
        Some(from) => Peers::Of(from.iter().map(|one| peer(one, namespace)).collect()),
    }
}

fn peer(peer: &NetworkPolicyPeer, namespace: &str) -> Peer {
    if let Some(what) = &peer.unreadable {
        return Peer::Unknown(what.clone());
    }
    match (&peer.pod_selector, &peer.namespace_selector) {
        (Some(_), Some(_)) => Peer::Unknown("two selectors in one peer".to_owned()),
        (None, None) => Peer::Unknown("a peer without any field".to_owned()),
        (pods, namespaces) => pods_peer(pods.as_ref(), namespaces.as_ref(), namespace),
    }
}

/// "If this field is not provided, this rule matches all ports. If this field is empty, this rule matches no ports."
fn traffic(rule: &NetworkPolicyIngressRule) -> TrafficMatches {
    match &rule.ports {
        None => TrafficMatches::Any,
        // "The protocol (TCP or UDP)": of any other it cannot be said what was meant.
        Some(ports) => TrafficMatches::Of(
            ports
                .iter()
                .map(|one| match one.protocol.as_deref() {
                    Some("SCTP") => TrafficMatch::Unknown("protocol SCTP".to_owned()),
                    _ => port(&one.as_v1()),
                })
                .collect(),
        ),
    }
}
