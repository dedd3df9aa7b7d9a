//! AdminNetworkPolicy and BaselineAdminNetworkPolicy in the rule language.

use palisade_model::policy::{
    Action, Dialect, Namespaces, Peer, PodSet, Policy, Priority, Tier, TrafficMatch,
};
use palisade_model::traffic::Protocol;

use super::types::{
    AdminNetworkPolicy, BaselineAdminNetworkPolicy, BaselineEgressPeer, BaselineEgressRule, EgressPeer,
    EgressRule, IngressPeer, IngressRule, NamespacesPeer, PodsPeer, Port, Subject,
};
use crate::admin::lower::{self, Draft, RuleDraft, draft, one_of, one_peer};
use crate::decode::Reader;
use crate::definition::selector::LabelSelector;
use crate::definition::typed::Text;
use crate::object::Header;

/// The words for actions.
type Words = &'static [(&'static str, Action)];

const ADMIN: Words = &[("Allow", Action::Allow), ("Deny", Action::Deny), ("Pass", Action::Pass)];
const BASELINE: Words = &[("Allow", Action::Allow), ("Deny", Action::Deny)];

pub(super) fn admin(policy: &AdminNetworkPolicy, header: &Header, reader: &Reader<'_>) -> Policy {
    let spec = policy.spec.as_deref().cloned().unwrap_or_default();
    let draft = Draft {
        unreadable: policy.unreadable.clone().or(spec.unreadable),
        tier: Tier::Fixed(251, "admin"),
        priority: lower::priority(spec.priority.as_ref()),
        subject: subject(spec.subject.as_deref()),
        ingress: spec
            .ingress
            .iter()
            .flat_map(|rules| rules.iter())
            .map(|rule| ingress(rule, ADMIN))
            .collect(),
        egress: spec.egress.iter().flat_map(|rules| rules.iter()).map(|rule| egress(rule)).collect(),
    };
    draft.finish(Dialect::AdminNetworkPolicy, header, reader)
}

pub(super) fn baseline(policy: &BaselineAdminNetworkPolicy, header: &Header, reader: &Reader<'_>) -> Policy {
    let spec = policy.spec.as_deref().cloned().unwrap_or_default();
    let draft = Draft {
        unreadable: policy.unreadable.clone().or(spec.unreadable),
        tier: Tier::Fixed(254, "baseline"),
        // It has none. There is one in a cluster, and it stands before every ClusterNetworkPolicy of the same tier.
        priority: Ok(Priority(-1.0)),
        subject: subject(spec.subject.as_deref()),
        ingress: spec
            .ingress
            .iter()
            .flat_map(|rules| rules.iter())
            .map(|rule| ingress(rule, BASELINE))
            .collect(),
        egress: spec.egress.iter().flat_map(|rules| rules.iter()).map(|rule| baseline_egress(rule)).collect(),
    };
    draft.finish(Dialect::AdminNetworkPolicy, header, reader)
}

fn ingress(rule: &IngressRule, words: Words) -> RuleDraft {
    draft!(rule, words, from: ingress_peer, ports: port)
}

fn egress(rule: &EgressRule) -> RuleDraft {
    draft!(rule, ADMIN, to: egress_peer, ports: port)
}

fn baseline_egress(rule: &BaselineEgressRule) -> RuleDraft {
    draft!(rule, BASELINE, to: baseline_egress_peer, ports: port)
}

fn subject(subject: Option<&Subject>) -> Result<PodSet, String> {
    let subject = subject.ok_or("no subject")?;
    let set = one_of(
        "a subject",
        &subject.unreadable,
        [
            subject.namespaces.as_ref().map(|namespaces| namespaces.lower().map(lower::all_pods)),
            subject.pods.as_ref().map(|pods| pods.lower()),
        ],
    )??;
    match set.namespaces {
        // Relative to the subject, which is what is being said here.
        Namespaces::SameLabels(_) | Namespaces::NotSameLabels(_) => {
            Err("labels relative to the subject in the subject".to_owned())
        }
        _ => Ok(set),
    }
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

fn baseline_egress_peer(peer: &BaselineEgressPeer) -> Vec<Peer> {
    let alternatives = [
        peer.namespaces.as_deref().map(namespaces),
        peer.pods.as_deref().map(pods),
        peer.networks.as_ref().map(lower::networks),
        peer.nodes.as_deref().map(lower::nodes),
    ];
    one_peer(&peer.unreadable, alternatives)
}

fn namespaces(written: &NamespacesPeer) -> Vec<Peer> {
    lower::pods(written.lower().map(lower::all_pods))
}

fn pods(written: &PodsPeer) -> Vec<Peer> {
    lower::pods(written.lower())
}

fn port(port: &Port) -> Result<TrafficMatch, String> {
    let number = port.port_number.as_ref().map(|number| match &number.unreadable {
        Some(why) => Err(why.clone()),
        None => {
            let port = number.port.as_ref();
            lower::ports(protocol(number.protocol.as_ref())?, port, port)
        }
    });
    let range = port.port_range.as_ref().map(|range| match &range.unreadable {
        Some(why) => Err(why.clone()),
        None => lower::ports(protocol(range.protocol.as_ref())?, range.start.as_ref(), range.end.as_ref()),
    });
    let named = port.named_port.as_ref().map(|name| Ok(TrafficMatch::Named(None, name.0.clone())));
    one_of("a port", &port.unreadable, [number, range, named])?
}

fn protocol(written: Option<&Text>) -> Result<Protocol, String> {
    let name = written.map_or("TCP", |text| text.as_str());
    Protocol::from_kubernetes(name).ok_or_else(|| format!("protocol {name:?}"))
}

// === impl NamespacesPeer ===

impl NamespacesPeer {
    /// Which namespaces, in either shape.
    fn lower(&self) -> Result<Namespaces, String> {
        let new = self.is_new();
        if !new && !self.is_old() {
            // `{}`, or something of which nothing could be read.
            return match &self.unreadable {
                None => Ok(Namespaces::Matching(palisade_model::label::Selector::everything())),
                Some(why) => Err(why.clone()),
            };
        }
        let selector = LabelSelector {
            match_labels: self.match_labels.clone(),
            match_expressions: self.match_expressions.clone(),
            unreadable: None,
        };
        let alternatives = [
            new.then(|| selector.lower().map(Namespaces::Matching)),
            self.namespace_selector.as_ref().map(|selector| selector.lower().map(Namespaces::Matching)),
            self.same_labels.as_ref().map(|keys| Ok(Namespaces::SameLabels(keys.0.clone()))),
            self.not_same_labels.as_ref().map(|keys| Ok(Namespaces::NotSameLabels(keys.0.clone()))),
        ];
        one_of("namespaces", &self.unreadable, alternatives)?
    }

    /// Whether something of the new shape is there, the selector itself.
    fn is_new(&self) -> bool {
        self.match_labels.is_some() || self.match_expressions.is_some()
    }

    /// Whether something of the old shape is there.
    fn is_old(&self) -> bool {
        self.namespace_selector.is_some() || self.same_labels.is_some() || self.not_same_labels.is_some()
    }
}

// === impl PodsPeer ===

impl PodsPeer {
    /// Which pods, in either shape. Both shapes require both of their fields; a selector that is missing is the empty one.
    fn lower(&self) -> Result<PodSet, String> {
        if let Some(why) = &self.unreadable {
            return Err(why.clone());
        }
        let namespaces = match (self.namespace_selector.as_deref(), self.namespaces.as_deref()) {
            (new, None) => Namespaces::Matching(lower::selector(new, "namespaceSelector")?),
            (None, Some(old)) if old.is_new() => return Err("matchLabels below pods.namespaces".to_owned()),
            (None, Some(old)) => old.lower()?,
            (Some(_), Some(_)) => return Err("namespaces and namespaceSelector".to_owned()),
        };
        let pods = lower::selector(self.pod_selector.as_deref(), "podSelector")?;
        Ok(PodSet::new(namespaces, pods))
    }
}
