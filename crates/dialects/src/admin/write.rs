//! AdminNetworkPolicy, BaselineAdminNetworkPolicy (v1alpha1) and ClusterNetworkPolicy (v1alpha2), written from the rule language.
//!
//! The two versions write subjects and peers in the same way; they differ in the word for Allow and in traffic ([`Version`]).

use palisade_model::label::Selector;
use palisade_model::policy::{Action, Direction, DomainName, PodSet, TrafficMatch};
use palisade_model::traffic::PortRange;

use super::GROUP;
use crate::kubernetes::write::rules::{namespaces, peers_field, selector};
use crate::written::Written;

/// A version of the API, by how it writes a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// AdminNetworkPolicy and BaselineAdminNetworkPolicy.
    V1Alpha1,
    /// ClusterNetworkPolicy.
    V1Alpha2,
}

/// Largest number of characters in the name of a rule.
const LONGEST_NAME: usize = 100;

/// The rules of a policy for ingress and for egress; a list that is empty is not written.
pub type Rules = (Vec<Written>, Vec<Written>);

// === impl Version ===

impl Version {
    /// Returns a rule; without traffic it matches all of it. Traffic that the version has no words for is not written: callers
    /// refuse it before. So they do with [`Action::Reject`], which is written as Deny.
    pub fn rule(
        self,
        name: Option<&str>,
        action: Action,
        direction: Direction,
        peers: &[Written],
        traffic: Option<&[TrafficMatch]>,
    ) -> Written {
        let (allow, field, entry): (_, _, fn(&TrafficMatch) -> Option<Written>) = match self {
            Version::V1Alpha1 => ("Allow", "ports", port),
            Version::V1Alpha2 => ("Accept", "protocols", protocol),
        };
        let action = match action {
            Action::Allow => allow,
            Action::Deny | Action::Reject => "Deny",
            Action::Pass => "Pass",
        };
        let name = name.map(|name| name.chars().take(LONGEST_NAME).collect::<String>());
        let traffic = traffic.map(|all| all.iter().filter_map(entry).collect());
        Written::map([
            ("name", name.map(Written::Text)),
            ("action", Some(Written::text(action))),
            (peers_field(direction), Some(Written::List(peers.to_vec()))),
            (field, traffic.map(Written::List)),
        ])
    }
}

/// Returns an AdminNetworkPolicy.
pub fn admin_network_policy(
    metadata: Written,
    priority: i64,
    subject: Option<Written>,
    rules: Rules,
) -> Written {
    let first = [("priority", Some(Written::Number(priority)))];
    object("v1alpha1", "AdminNetworkPolicy", metadata, first, subject, rules)
}

/// Returns a BaselineAdminNetworkPolicy.
pub fn baseline_admin_network_policy(metadata: Written, subject: Option<Written>, rules: Rules) -> Written {
    object("v1alpha1", "BaselineAdminNetworkPolicy", metadata, [], subject, rules)
}

/// Returns a ClusterNetworkPolicy in a tier: `Admin` or `Baseline`.
pub fn cluster_network_policy(
    metadata: Written,
    tier: &str,
    priority: i64,
    subject: Option<Written>,
    rules: Rules,
) -> Written {
    let first = [("tier", Some(Written::text(tier))), ("priority", Some(Written::Number(priority)))];
    object("v1alpha2", "ClusterNetworkPolicy", metadata, first, subject, rules)
}

fn object<const N: usize>(
    version: &str,
    kind: &str,
    metadata: Written,
    first: [(&str, Option<Written>); N],
    subject: Option<Written>,
    (ingress, egress): Rules,
) -> Written {
    let list = |rules: Vec<Written>| (!rules.is_empty()).then_some(Written::List(rules));
    let rest = [("subject", subject), ("ingress", list(ingress)), ("egress", list(egress))];
    Written::map([
        ("apiVersion", Some(Written::text(format!("{GROUP}/{version}")))),
        ("kind", Some(Written::text(kind))),
        ("metadata", Some(metadata)),
        ("spec", Some(Written::map(first.into_iter().chain(rest)))),
    ])
}

/// Returns a rule that denies all traffic with every peer. Ingress rules have none: their peers are pods only.
pub fn deny_all(direction: Direction) -> Option<Written> {
    let to = match direction {
        Direction::Ingress => return None,
        Direction::Egress => everything(),
    };
    Some(Written::map([("action", Some(Written::text("Deny"))), ("to", Some(Written::List(to.into())))]))
}

/// Returns the peers that hold every endpoint: every pod, also one without an address, and every address.
pub fn everything() -> [Written; 2] {
    let every_pod = Written::map([("namespaces", Some(Written::Map(Vec::new())))]);
    [every_pod, networks(&["0.0.0.0/0".to_owned(), "::/0".to_owned()])]
}

/// Returns pods, as a subject and as a peer. Only namespaces that are selected by labels can be written.
pub fn pods(set: &PodSet) -> Written {
    let namespaces = selector(&namespaces(&set.namespaces));
    if set.pods == Selector::everything() {
        return Written::map([("namespaces", Some(namespaces))]);
    }
    let both =
        Written::map([("namespaceSelector", Some(namespaces)), ("podSelector", Some(selector(&set.pods)))]);
    Written::map([("pods", Some(both))])
}

/// Returns the peer of nodes.
pub fn nodes(labels: &Selector) -> Written {
    Written::map([("nodes", Some(selector(labels)))])
}

/// Returns the peer of address blocks.
pub fn networks(blocks: &[String]) -> Written {
    Written::map([("networks", Some(Written::List(blocks.iter().map(Written::text).collect())))])
}

/// Returns the peer of DNS names.
pub fn domain_names(names: &[String]) -> Written {
    Written::map([("domainNames", Some(Written::List(names.iter().map(Written::text).collect())))])
}

/// Returns a DNS name as `domainNames` holds it; `None` where no text there stands for it.
pub fn domain_name(name: &DomainName) -> Option<String> {
    let text = match name {
        DomainName::Exact(name) => name.to_string(),
        DomainName::Below(parent) => format!("*.{parent}"),
        // One star in front, for whole labels: the same names, since no name begins with a dot.
        DomainName::Form(form) => {
            form.strip_prefix("*.").filter(|rest| !rest.contains('*')).map(|rest| format!("*.{rest}"))?
        }
    };
    let bare = text.strip_prefix("*.").unwrap_or(&text);
    let label = |label: &str| {
        let bytes = label.as_bytes();
        let inner = bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        let ends = [bytes.first(), bytes.last()];
        inner && ends.iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
    };
    (bare.contains('.') && bare.split('.').all(label)).then_some(text)
}

fn port(one: &TrafficMatch) -> Option<Written> {
    let (protocol, PortRange { first, last }) = match one {
        TrafficMatch::Named(_, name) => {
            return Some(Written::map([("namedPort", Some(Written::text(name.as_str())))]));
        }
        TrafficMatch::Ports(protocol, range) => (Written::text(protocol.as_kubernetes()), range),
        _ => return None,
    };
    let number = |port: u16| Some(Written::Number(i64::from(port)));
    Some(match first == last {
        true => {
            let port = Written::map([("protocol", Some(protocol)), ("port", number(*first))]);
            Written::map([("portNumber", Some(port))])
        }
        false => {
            let range = Written::map([
                ("protocol", Some(protocol)),
                ("start", number((*first).max(1))),
                ("end", number(*last)),
            ]);
            Written::map([("portRange", Some(range))])
        }
    })
}

fn protocol(one: &TrafficMatch) -> Option<Written> {
    let (word, PortRange { first, last }) = match one {
        TrafficMatch::Named(_, name) => {
            return Some(Written::map([("destinationNamedPort", Some(Written::text(name.as_str())))]));
        }
        TrafficMatch::Ports(protocol, range) => (protocol.to_string(), range),
        _ => return None,
    };
    let number = |port: u16| Some(Written::Number(i64::from(port)));
    let port = match first == last {
        true => Written::map([("number", number(*first))]),
        // Nothing listens on port 0, and the definition does not have it.
        false => {
            let range = Written::map([("start", number((*first).max(1))), ("end", number(*last))]);
            Written::map([("range", Some(range))])
        }
    };
    let ports = Written::map([("destinationPort", Some(port))]);
    Some(Written::map([(word.as_str(), Some(ports))]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_can_be_written() {
        let written = |name: DomainName| domain_name(&name);
        assert_eq!(written(DomainName::form("*.example.com")).as_deref(), Some("*.example.com"));
        assert_eq!(written(DomainName::form("api.example.com")).as_deref(), Some("api.example.com"));
        assert_eq!(written(DomainName::form("*example.com")), None);
        assert_eq!(written(DomainName::form("localhost")), None);
    }
}
