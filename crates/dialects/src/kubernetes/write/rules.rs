//! A NetworkPolicy, and its parts, written from the rule language. Antrea writes address blocks and ports in the same way.

use palisade_model::address::Block;
use palisade_model::cluster::NAMESPACE_NAME_LABEL;
use palisade_model::label::{Operator, Selector};
use palisade_model::policy::{Direction, Namespaces, TrafficMatch};
use palisade_model::traffic::PortRange;
use smol_str::SmolStr;

use crate::written::Written;

/// Returns a NetworkPolicy for the pods that a selector matches. A direction without rules is isolated when it is among `types`.
pub fn network_policy(
    metadata: Written,
    pods: &Selector,
    types: &[Direction],
    ingress: Option<Vec<Written>>,
    egress: Option<Vec<Written>>,
) -> Written {
    let types = types.iter().map(|direction| match direction {
        Direction::Ingress => Written::text("Ingress"),
        Direction::Egress => Written::text("Egress"),
    });
    let spec = Written::map([
        ("podSelector", Some(selector(pods))),
        ("policyTypes", Some(Written::List(types.collect()))),
        ("ingress", ingress.map(Written::List)),
        ("egress", egress.map(Written::List)),
    ]);
    Written::map([
        ("apiVersion", Some(Written::text("networking.k8s.io/v1"))),
        ("kind", Some(Written::text("NetworkPolicy"))),
        ("metadata", Some(metadata)),
        ("spec", Some(spec)),
    ])
}

/// Returns a rule. Without a list of peers it matches every peer, without one of ports all traffic.
pub fn rule(direction: Direction, peers: Option<Vec<Written>>, ports: Option<Vec<Written>>) -> Written {
    Written::map([(peers_field(direction), peers.map(Written::List)), ("ports", ports.map(Written::List))])
}

/// Returns the peer of pods; without a selector of namespaces those of the policy's own, without one of pods all of them.
pub fn pods(namespaces: Option<&Selector>, pods: Option<&Selector>) -> Written {
    Written::map([("namespaceSelector", namespaces.map(selector)), ("podSelector", pods.map(selector))])
}

/// Returns the field that holds the peers of a rule, in every dialect of Kubernetes objects.
pub(crate) fn peers_field(direction: Direction) -> &'static str {
    match direction {
        Direction::Ingress => "from",
        Direction::Egress => "to",
    }
}

/// Returns the selector of some namespaces. Relative ones are not selected by labels: callers refuse them before.
pub fn namespaces(namespaces: &Namespaces) -> Selector {
    match namespaces {
        Namespaces::Named(name) => Selector::label(NAMESPACE_NAME_LABEL, name),
        Namespaces::Matching(selector) => selector.clone(),
        _ => Selector::everything(),
    }
}

/// Returns a selector, with `matchLabels` where that suffices.
pub fn selector(selector: &Selector) -> Written {
    let mut labels: Vec<(String, Written)> = Vec::new();
    let mut expressions = Vec::new();
    for requirement in selector.requirements() {
        let key = requirement.key.to_string();
        let (operator, values) = match &requirement.operator {
            Operator::In(values) => match values.as_slice() {
                [value] if !labels.iter().any(|(known, _)| *known == key) => {
                    labels.push((key, Written::text(value.as_str())));
                    continue;
                }
                values => ("In", Some(values)),
            },
            Operator::NotIn(values) => ("NotIn", Some(values.as_slice())),
            Operator::Exists => ("Exists", None),
            Operator::DoesNotExist => ("DoesNotExist", None),
        };
        let texts = |values: &[SmolStr]| {
            Written::List(values.iter().map(|value| Written::text(value.as_str())).collect())
        };
        expressions.push(Written::map([
            ("key", Some(Written::Text(key))),
            ("operator", Some(Written::text(operator))),
            ("values", values.map(texts)),
        ]));
    }
    Written::map([
        ("matchLabels", (!labels.is_empty()).then_some(Written::Map(labels))),
        ("matchExpressions", (!expressions.is_empty()).then_some(Written::List(expressions))),
    ])
}

/// Returns the peer of an address block.
pub fn ip_block(block: &Block) -> Written {
    let except: Vec<Written> = block.except().iter().map(|net| Written::text(net.to_string())).collect();
    let block = Written::map([
        ("cidr", Some(Written::text(block.cidr().to_string()))),
        ("except", (!except.is_empty()).then_some(Written::List(except))),
    ]);
    Written::map([("ipBlock", Some(block))])
}

/// Returns an entry of `ports`; one without a port is every port of its protocol. `None` for traffic that has no entry there.
pub fn port(one: &TrafficMatch) -> Option<Written> {
    let (protocol, port, end) = match one {
        TrafficMatch::Ports(protocol, PortRange::ALL) => (protocol, None, None),
        TrafficMatch::Ports(protocol, PortRange { first, last }) => {
            let end = (first != last).then(|| Written::Number(i64::from(*last)));
            (protocol, Some(Written::Number(i64::from(*first))), end)
        }
        TrafficMatch::Named(Some(protocol), name) => (protocol, Some(Written::text(name.as_str())), None),
        _ => return None,
    };
    let protocol = Written::text(protocol.as_kubernetes());
    Some(Written::map([("protocol", Some(protocol)), ("port", port), ("endPort", end)]))
}

#[cfg(test)]
mod tests {
    use palisade_model::label::Requirement;

    use super::*;

    #[test]
    fn a_key_with_two_values_holds_for_nobody() {
        let both = Selector::new([Requirement::equals("a", "1"), Requirement::equals("a", "2")]);
        let Written::Map(fields) = selector(&both) else { panic!() };
        assert_eq!(
            fields.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(),
            ["matchLabels", "matchExpressions"]
        );
    }
}
