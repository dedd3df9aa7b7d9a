//! The definition of ClusterNetworkPolicy, network-policy-api v0.2.0, experimental channel.
//!
//! Experimental, because it is the larger one: `nodes` and `domainNames` are unknown in the standard channel.

use crate::admin::check;
use crate::admin::crd::{
    DOMAIN_NAMES, NETWORKS, PORT, PRIORITY, RULE_NAME, SELECTOR, TEXT, begins_before_it_ends,
};
use crate::codes;
use crate::definition::schema::{Rule, Schema, items, list, object, one_of, written};
use crate::source::tree::Node;

/// ClusterNetworkPolicy.
pub static CLUSTER: Schema = object(&[("spec", &SPEC)]).required(&["spec"]);

static SPEC: Schema = object(&[
    ("tier", &TIER),
    ("priority", &PRIORITY),
    ("subject", &SUBJECT),
    ("ingress", &INGRESS),
    ("egress", &EGRESS),
])
.required(&["tier", "priority", "subject"]);

static TIER: Schema = one_of(&["Admin", "Baseline"]);
static INGRESS: Schema = list(&INGRESS_RULE, 0, 25);
static EGRESS: Schema = list(&EGRESS_RULE, 0, 25);
static ACTION: Schema = one_of(&["Accept", "Deny", "Pass"]);

static SUBJECT: Schema = object(&[("namespaces", &SELECTOR), ("pods", &PODS)]).properties(1, 1);

static PODS: Schema =
    object(&[("namespaceSelector", &SELECTOR), ("podSelector", &SELECTOR)]).required(&["podSelector"]);

static INGRESS_RULE: Schema =
    object(&[("name", &RULE_NAME), ("action", &ACTION), ("from", &INGRESS_PEERS), ("protocols", &PROTOCOLS)])
        .required(&["action", "from"]);

static EGRESS_RULE: Schema = object(&[
    ("name", &RULE_NAME),
    ("action", &ACTION),
    ("to", &EGRESS_PEERS),
    ("protocols", &PROTOCOLS),
])
.required(&["action", "to"])
.beyond(check::domain_names)
.rule(Rule {
    holds: |rule| !(names_a_port(rule) && has_outside_peer(rule)),
    message: "networks/nodes/domainNames peer cannot be set with namedPorts since there are no namedPorts \
                      for networks/nodes/domainNames",
    code: &codes::ADMIN_RULE,
    below: &[],
});

static INGRESS_PEERS: Schema = list(&INGRESS_PEER, 1, 25);
static EGRESS_PEERS: Schema = list(&EGRESS_PEER, 1, 25);

static INGRESS_PEER: Schema = object(&[("namespaces", &SELECTOR), ("pods", &PODS)]).properties(1, 1);

static EGRESS_PEER: Schema = object(&[
    ("namespaces", &SELECTOR),
    ("pods", &PODS),
    ("networks", &NETWORKS),
    ("nodes", &SELECTOR),
    ("domainNames", &DOMAIN_NAMES),
])
.properties(1, 1);

static PROTOCOLS: Schema = list(&PROTOCOL, 1, 25);

static PROTOCOL: Schema = object(&[
    ("tcp", &PROTOCOL_PORTS),
    ("udp", &PROTOCOL_PORTS),
    ("sctp", &PROTOCOL_PORTS),
    ("destinationNamedPort", &TEXT),
])
.properties(1, 1);

static PROTOCOL_PORTS: Schema =
    object(&[("destinationPort", &DESTINATION_PORT)]).properties(1, usize::MAX).beyond(check::protocol_ports);

static DESTINATION_PORT: Schema = object(&[("number", &PORT), ("range", &RANGE)]).properties(1, 1);

static RANGE: Schema = object(&[("start", &PORT), ("end", &PORT)]).required(&["start", "end"]).rule(Rule {
    holds: begins_before_it_ends,
    message: "Start port must be less than End port",
    code: &codes::ADMIN_RULE,
    below: &[],
});

fn names_a_port(rule: &Node<'_>) -> bool {
    items(rule, "protocols").iter().any(|protocol| written(protocol, "destinationNamedPort").is_some())
}

fn has_outside_peer(rule: &Node<'_>) -> bool {
    let outside = ["networks", "nodes", "domainNames"];
    items(rule, "to").iter().any(|peer| outside.iter().any(|field| written(peer, field).is_some()))
}
