//! The definitions of AdminNetworkPolicy and BaselineAdminNetworkPolicy, network-policy-api v0.1.7, experimental channel.
//!
//! Experimental, because it is the larger one: `nodes`, `domainNames` and `namedPort` are unknown in the standard channel,
//! and a rule that is refused there for that reason is still a rule here.

use super::legacy;
use crate::admin::check;
use crate::admin::crd::{
    DOMAIN_NAMES, EXPRESSIONS, LABELS, NETWORKS, PORT, PRIORITY, RULE_NAME, SELECTOR, TEXT,
};
use crate::codes;
use crate::definition::schema::{Fields, Rule, Schema, items, list, object, one_of, text, written};
use crate::source::tree::Node;

/// AdminNetworkPolicy.
pub static ADMIN: Schema = object(&[("spec", &ADMIN_SPEC)]).required(&["spec"]);

static ADMIN_SPEC: Schema = object(&[
    ("priority", &PRIORITY),
    ("subject", &SUBJECT),
    ("ingress", &ADMIN_INGRESS),
    ("egress", &ADMIN_EGRESS),
])
.required(&["priority", "subject"]);

static ADMIN_INGRESS: Schema = list(&ADMIN_INGRESS_RULE, 0, 100);
static ADMIN_EGRESS: Schema = list(&ADMIN_EGRESS_RULE, 0, 100);
static ADMIN_ACTION: Schema = one_of(&["Allow", "Deny", "Pass"]);

static ADMIN_INGRESS_RULE: Schema =
    object(&[("name", &RULE_NAME), ("action", &ADMIN_ACTION), ("from", &INGRESS_PEERS), ("ports", &PORTS)])
        .required(&["action", "from"]);

static ADMIN_EGRESS_RULE: Schema = object(&[
    ("name", &RULE_NAME),
    ("action", &ADMIN_ACTION),
    ("to", &ADMIN_EGRESS_PEERS),
    ("ports", &PORTS),
])
.required(&["action", "to"])
.beyond(check::domain_names)
.rule(Rule {
    holds: |rule| !(names_a_port(rule) && has_peer(rule, &["networks", "nodes", "domainNames"])),
    message: "networks/nodes/domainNames peer cannot be set with namedPorts since there are no namedPorts \
                      for networks/nodes/domainNames",
    code: &codes::ADMIN_RULE,
    below: &[],
});

static ADMIN_EGRESS_PEERS: Schema = list(&ADMIN_EGRESS_PEER, 1, 100);

static ADMIN_EGRESS_PEER: Schema = object(&[
    ("namespaces", &NAMESPACES),
    ("pods", &PODS),
    ("networks", &NETWORKS),
    ("nodes", &SELECTOR),
    ("domainNames", &DOMAIN_NAMES),
])
.properties(1, 1);

/// BaselineAdminNetworkPolicy.
pub static BASELINE: Schema = object(&[("spec", &BASELINE_SPEC)]).required(&["spec"]).rule(Rule {
    holds: |policy| {
        let name = policy.get("metadata").and_then(|meta| meta.get("name")).and_then(Node::as_str);
        name.is_none_or(|name| name == "default")
    },
    message: "Only one baseline admin network policy with metadata.name=\"default\" can be created in the cluster",
    code: &codes::ADMIN_SINGLETON,
    below: &["metadata", "name"],
});

static BASELINE_SPEC: Schema =
    object(&[("subject", &SUBJECT), ("ingress", &BASELINE_INGRESS), ("egress", &BASELINE_EGRESS)])
        .required(&["subject"]);

static BASELINE_INGRESS: Schema = list(&BASELINE_INGRESS_RULE, 0, 100);
static BASELINE_EGRESS: Schema = list(&BASELINE_EGRESS_RULE, 0, 100);
static BASELINE_ACTION: Schema = one_of(&["Allow", "Deny"]);

static BASELINE_INGRESS_RULE: Schema = object(&[
    ("name", &RULE_NAME),
    ("action", &BASELINE_ACTION),
    ("from", &INGRESS_PEERS),
    ("ports", &PORTS),
])
.required(&["action", "from"]);

static BASELINE_EGRESS_RULE: Schema = object(&[
    ("name", &RULE_NAME),
    ("action", &BASELINE_ACTION),
    ("to", &BASELINE_EGRESS_PEERS),
    ("ports", &PORTS),
])
.required(&["action", "to"])
.rule(Rule {
    holds: |rule| !(names_a_port(rule) && has_peer(rule, &["networks", "nodes"])),
    message: "networks/nodes peer cannot be set with namedPorts since there are no namedPorts for networks/nodes",
    code: &codes::ADMIN_RULE,
    below: &[],
});

static BASELINE_EGRESS_PEERS: Schema = list(&BASELINE_EGRESS_PEER, 1, 100);

static BASELINE_EGRESS_PEER: Schema =
    object(&[("namespaces", &NAMESPACES), ("pods", &PODS), ("networks", &NETWORKS), ("nodes", &SELECTOR)])
        .properties(1, 1);

static SUBJECT: Schema =
    object(&[("namespaces", &SUBJECT_NAMESPACES), ("pods", &SUBJECT_PODS)]).properties(1, 1);

static INGRESS_PEERS: Schema = list(&INGRESS_PEER, 1, 100);

static INGRESS_PEER: Schema = object(&[("namespaces", &NAMESPACES), ("pods", &PODS)]).properties(1, 1);

static NAMESPACES: Schema = object(NAMESPACES_FIELDS).beyond(legacy::namespaces);
static SUBJECT_NAMESPACES: Schema = object(NAMESPACES_FIELDS).beyond(legacy::subject_namespaces);
static OLD_NAMESPACES: Schema = object(NAMESPACES_FIELDS);

/// The definition has `matchLabels` and `matchExpressions`; the rest is of v0.1.1.
static NAMESPACES_FIELDS: Fields = &[
    ("matchLabels", &LABELS),
    ("matchExpressions", &EXPRESSIONS),
    ("namespaceSelector", &SELECTOR),
    ("sameLabels", &LABEL_KEYS),
    ("notSameLabels", &LABEL_KEYS),
];

static LABEL_KEYS: Schema = list(&TEXT, 0, 100);

/// `namespaceSelector` is required too, unless there is `namespaces`, which was required in v0.1.1.
static PODS: Schema = object(PODS_FIELDS).required(&["podSelector"]).beyond(legacy::pods);
static SUBJECT_PODS: Schema = object(PODS_FIELDS).required(&["podSelector"]).beyond(legacy::subject_pods);

static PODS_FIELDS: Fields =
    &[("namespaceSelector", &SELECTOR), ("podSelector", &SELECTOR), ("namespaces", &OLD_NAMESPACES)];

static PORTS: Schema = list(&PORT_ENTRY, 1, 100);

static PORT_ENTRY: Schema =
    object(&[("portNumber", &PORT_NUMBER), ("portRange", &PORT_RANGE), ("namedPort", &TEXT)])
        .properties(1, 1);

static PORT_NUMBER: Schema = object(&[("protocol", &PROTOCOL), ("port", &PORT)]).required(&["port"]);

static PORT_RANGE: Schema = object(&[("protocol", &PROTOCOL), ("start", &PORT), ("end", &PORT)])
    .required(&["start", "end"])
    .beyond(check::port_range);

static PROTOCOL: Schema = text(usize::MAX).beyond(check::protocol);

fn names_a_port(rule: &Node<'_>) -> bool {
    items(rule, "ports").iter().any(|port| written(port, "namedPort").is_some())
}

fn has_peer(rule: &Node<'_>, fields: &[&str]) -> bool {
    items(rule, "to").iter().any(|peer| fields.iter().any(|field| written(peer, field).is_some()))
}
