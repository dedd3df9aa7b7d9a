//! Antrea's policies and tiers of today (`crd.antrea.io/v1beta1`), written from the rule language.

use palisade_model::label::Selector;
use palisade_model::policy::{Action, DomainName, Namespaces, PodSet, Rule};
use smol_str::SmolStr;

use super::GROUP;
pub use crate::kubernetes::write::rules::ip_block;
use crate::kubernetes::write::rules::{namespaces, peers_field, selector};
use crate::written::Written;

/// Returns a Tier.
pub fn tier(name: &str, priority: u8) -> Written {
    let spec = Written::map([("priority", Some(Written::Number(i64::from(priority))))]);
    object("Tier", Written::map([("name", Some(Written::text(name)))]), spec)
}

/// Returns a policy: a ClusterNetworkPolicy or, for one namespace, a NetworkPolicy. Rules that are none are not written.
pub fn policy(
    kind: &str,
    metadata: Written,
    (tier, priority): (&str, f64),
    applied_to: Vec<Written>,
    (ingress, egress): (Vec<Written>, Vec<Written>),
) -> Written {
    let number = match priority.fract() == 0.0 {
        true => Written::Number(priority as i64),
        false => Written::Bare(priority.to_string()),
    };
    let spec = Written::map([
        ("tier", Some(Written::text(tier))),
        ("priority", Some(number)),
        ("appliedTo", Some(Written::List(applied_to))),
        ("ingress", (!ingress.is_empty()).then_some(Written::List(ingress))),
        ("egress", (!egress.is_empty()).then_some(Written::List(egress))),
    ]);
    object(kind, metadata, spec)
}

fn object(kind: &str, metadata: Written, spec: Written) -> Written {
    Written::map([
        ("apiVersion", Some(Written::text(format!("{GROUP}/v1beta1")))),
        ("kind", Some(Written::text(kind))),
        ("metadata", Some(metadata)),
        ("spec", Some(spec)),
    ])
}

/// Returns `rule` with this action, these peers and these ports; without a list it matches every peer, or all traffic.
pub fn rule(
    rule: &Rule,
    action: Action,
    peers: Option<Vec<Written>>,
    ports: Option<Vec<Written>>,
) -> Written {
    let action = match action {
        Action::Allow => "Allow",
        Action::Deny => "Drop",
        Action::Reject => "Reject",
        Action::Pass => "Pass",
    };
    let label = rule.log.clone().filter(|label| !label.is_empty());
    Written::map([
        ("name", rule.name.as_ref().map(|name| Written::text(name.as_str()))),
        ("action", Some(Written::text(action))),
        (peers_field(rule.direction), peers.map(Written::List)),
        ("ports", ports.map(Written::List)),
        ("enableLogging", rule.log.as_ref().map(|_| Written::Bare("true".to_owned()))),
        ("logLabel", label.map(|label| Written::text(label.as_str()))),
    ])
}

/// Returns a rule that drops all traffic with every peer.
pub fn drop_all() -> Written {
    Written::map([("action", Some(Written::text("Drop")))])
}

/// Returns pods, as a subject and as a peer of a policy of namespace `home`. Without namespaces they are those of the policy's
/// own, or of all.
pub fn pods(set: &PodSet, home: Option<&SmolStr>) -> Written {
    let labels = (!set.pods.is_everything()).then(|| selector(&set.pods));
    let relative = match &set.namespaces {
        Namespaces::Own => Some(("match", Written::text("Self"))),
        Namespaces::SameLabels(keys) => {
            let keys = keys.iter().map(|key| Written::text(key.as_str())).collect();
            Some(("sameLabels", Written::List(keys)))
        }
        _ => None,
    };
    if let Some((field, value)) = relative {
        let namespaces = Written::map([(field, Some(value))]);
        return Written::map([("namespaces", Some(namespaces)), ("podSelector", labels)]);
    }
    if matches!((&set.namespaces, home), (Namespaces::Named(name), Some(home)) if name == home) {
        return Written::map([("podSelector", Some(selector(&set.pods)))]);
    }
    let namespaces = selector(&namespaces(&set.namespaces));
    Written::map([("namespaceSelector", Some(namespaces)), ("podSelector", labels)])
}

/// Returns the peer of nodes.
pub fn nodes(labels: &Selector) -> Written {
    Written::map([("nodeSelector", Some(selector(labels)))])
}

/// Returns the peer of a DNS name, or of a pattern of names; `None` where no text there stands for it.
pub fn fqdn(name: &DomainName) -> Option<Written> {
    let text = name.to_string();
    text.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'*'))
        .then(|| Written::map([("fqdn", Some(Written::text(text)))]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_an_underscore_cannot_be_written() {
        assert_eq!(fqdn(&DomainName::new("a_b.example.com")), None);
    }
}
