//! The definitions of `crd.antrea.io/v1beta1`, of ExternalEntity, and of the API of 2020, as tables.
//!
//! A position has the fields that are listed for it and no other: the API server drops the rest, here it is an unknown
//! field. What Antrea's webhook asks for is in [`super::webhook`].

use super::codes;
use crate::apimachinery::field::Path;
use crate::apimachinery::selector::Options;
use crate::definition::check;
use crate::definition::findings::{Codes, Findings};
use crate::definition::schema::{
    Format, Pattern, Schema, TEXT, TEXTS, format, integer, integer_or_text, labels, list, number, object,
    one_number_of, one_of, pattern, truth,
};
use crate::source::tree::Node;

/// The codes for what a definition asks.
pub static CODES: Codes = Codes {
    required: &codes::REQUIRED,
    range: &codes::RANGE,
    supported: &codes::SUPPORTED,
    items: &codes::ITEMS,
    one_of: &codes::ONE_OF,
    form: &codes::FORM,
    null_label: &codes::NULL_LABEL,
    selector: &codes::SELECTOR,
    metadata: &codes::METADATA,
};

/// Tier, in both versions.
pub static TIER: Schema = object(&[("spec", &TIER_SPEC)]).required(&["spec"]);

static TIER_SPEC: Schema =
    object(&[("priority", &TIER_PRIORITY), ("description", &TEXT)]).required(&["priority"]);
static TIER_PRIORITY: Schema = integer(0, 255);

/// ClusterNetworkPolicy.
pub static CLUSTER_POLICY: Schema = object(&[("spec", &CLUSTER_SPEC)]).required(&["spec"]);

static CLUSTER_SPEC: Schema = object(&[
    ("tier", &TEXT),
    ("priority", &PRIORITY),
    ("appliedTo", &CLUSTER_APPLIED_TO),
    ("ingress", &CLUSTER_INGRESS),
    ("egress", &CLUSTER_EGRESS),
])
.required(&["priority"]);

/// NetworkPolicy.
pub static POLICY: Schema = object(&[("spec", &SPEC)]).required(&["spec"]);

static SPEC: Schema = object(&[
    ("tier", &TEXT),
    ("priority", &PRIORITY),
    ("appliedTo", &APPLIED_TO),
    ("ingress", &INGRESS),
    ("egress", &EGRESS),
])
.required(&["priority"]);

static PRIORITY: Schema = number(1.0, 10000.0);

static CLUSTER_APPLIED_TO: Schema = any_number_of(&CLUSTER_APPLIED_TO_ENTRY);
static CLUSTER_APPLIED_TO_ENTRY: Schema = object(&[
    ("podSelector", &SELECTOR),
    ("namespaceSelector", &SELECTOR),
    ("group", &TEXT),
    ("serviceAccount", &NAMESPACED_NAME),
    ("service", &NAMESPACED_NAME),
    ("nodeSelector", &SELECTOR),
]);

static CLUSTER_INGRESS_APPLIED_TO: Schema = any_number_of(&CLUSTER_INGRESS_APPLIED_TO_ENTRY);
static CLUSTER_INGRESS_APPLIED_TO_ENTRY: Schema = object(&[
    ("podSelector", &SELECTOR),
    ("namespaceSelector", &SELECTOR),
    ("group", &TEXT),
    ("serviceAccount", &NAMESPACED_NAME),
    ("service", &NAMESPACED_NAME),
]);

static CLUSTER_EGRESS_APPLIED_TO: Schema = any_number_of(&CLUSTER_EGRESS_APPLIED_TO_ENTRY);
static CLUSTER_EGRESS_APPLIED_TO_ENTRY: Schema = object(&[
    ("podSelector", &SELECTOR),
    ("namespaceSelector", &SELECTOR),
    ("group", &TEXT),
    ("serviceAccount", &NAMESPACED_NAME),
]);

static APPLIED_TO: Schema = any_number_of(&APPLIED_TO_ENTRY);
static APPLIED_TO_ENTRY: Schema =
    object(&[("podSelector", &SELECTOR), ("externalEntitySelector", &SELECTOR), ("group", &TEXT)]);

static RULE_APPLIED_TO: Schema = any_number_of(&RULE_APPLIED_TO_ENTRY);
static RULE_APPLIED_TO_ENTRY: Schema = object(&[("podSelector", &SELECTOR), ("group", &TEXT)]);

static CLUSTER_INGRESS: Schema = any_number_of(&CLUSTER_INGRESS_RULE);
static CLUSTER_INGRESS_RULE: Schema = object(&[
    ("action", &ACTION),
    ("ports", &PORTS),
    ("protocols", &INGRESS_PROTOCOLS),
    ("l7Protocols", &L7_PROTOCOLS),
    ("from", &CLUSTER_FROM),
    ("name", &TEXT),
    ("enableLogging", &TRUTH),
    ("logLabel", &LOG_LABEL),
    ("appliedTo", &CLUSTER_INGRESS_APPLIED_TO),
])
.required(&["action"]);

static CLUSTER_EGRESS: Schema = any_number_of(&CLUSTER_EGRESS_RULE);
static CLUSTER_EGRESS_RULE: Schema = object(&[
    ("action", &ACTION),
    ("ports", &PORTS),
    ("protocols", &EGRESS_PROTOCOLS),
    ("l7Protocols", &L7_PROTOCOLS),
    ("to", &CLUSTER_TO),
    ("toServices", &CLUSTER_TO_SERVICES),
    ("name", &TEXT),
    ("enableLogging", &TRUTH),
    ("logLabel", &LOG_LABEL),
    ("appliedTo", &CLUSTER_EGRESS_APPLIED_TO),
])
.required(&["action"]);

static INGRESS: Schema = any_number_of(&INGRESS_RULE);
static INGRESS_RULE: Schema = object(&[
    ("action", &ACTION),
    ("ports", &PORTS),
    ("protocols", &INGRESS_PROTOCOLS),
    ("l7Protocols", &L7_PROTOCOLS),
    ("from", &FROM),
    ("name", &TEXT),
    ("enableLogging", &TRUTH),
    ("logLabel", &LOG_LABEL),
    ("appliedTo", &RULE_APPLIED_TO),
])
.required(&["action"]);

static EGRESS: Schema = any_number_of(&EGRESS_RULE);
static EGRESS_RULE: Schema = object(&[
    ("action", &ACTION),
    ("ports", &PORTS),
    ("protocols", &EGRESS_PROTOCOLS),
    ("l7Protocols", &L7_PROTOCOLS),
    ("to", &TO),
    ("toServices", &TO_SERVICES),
    ("name", &TEXT),
    ("enableLogging", &TRUTH),
    ("logLabel", &LOG_LABEL),
    ("appliedTo", &RULE_APPLIED_TO),
])
.required(&["action"]);

static ACTION: Schema = one_of(&["Allow", "Drop", "Reject", "Pass"]);

static CLUSTER_FROM: Schema = any_number_of(&CLUSTER_FROM_PEER);
static CLUSTER_FROM_PEER: Schema = object(&[
    ("podSelector", &SELECTOR),
    ("namespaceSelector", &SELECTOR),
    ("namespaces", &NAMESPACES),
    ("ipBlock", &IP_BLOCK),
    ("group", &TEXT),
    ("serviceAccount", &NAMESPACED_NAME),
    ("nodeSelector", &SELECTOR),
    ("scope", &SCOPE),
]);

static CLUSTER_TO: Schema = any_number_of(&CLUSTER_TO_PEER);
static CLUSTER_TO_PEER: Schema = object(&[
    ("podSelector", &SELECTOR),
    ("namespaceSelector", &SELECTOR),
    ("namespaces", &NAMESPACES),
    ("ipBlock", &IP_BLOCK),
    ("group", &TEXT),
    ("fqdn", &TEXT),
    ("serviceAccount", &NAMESPACED_NAME),
    ("nodeSelector", &SELECTOR),
]);

static FROM: Schema = any_number_of(&FROM_PEER);
static FROM_PEER: Schema = object(&[
    ("podSelector", &SELECTOR),
    ("namespaceSelector", &SELECTOR),
    ("externalEntitySelector", &SELECTOR),
    ("ipBlock", &IP_BLOCK),
    ("nodeSelector", &SELECTOR),
    ("group", &TEXT),
    ("scope", &SCOPE),
]);

static TO: Schema = any_number_of(&TO_PEER);
static TO_PEER: Schema = object(&[
    ("podSelector", &SELECTOR),
    ("namespaceSelector", &SELECTOR),
    ("externalEntitySelector", &SELECTOR),
    ("ipBlock", &IP_BLOCK),
    ("fqdn", &TEXT),
    ("nodeSelector", &SELECTOR),
    ("group", &TEXT),
]);

static CLUSTER_TO_SERVICES: Schema = any_number_of(&CLUSTER_TO_SERVICE);
static CLUSTER_TO_SERVICE: Schema =
    object(&[("name", &TEXT), ("namespace", &TEXT), ("scope", &SCOPE)]).required(&["name", "namespace"]);

static TO_SERVICES: Schema = any_number_of(&TO_SERVICE);
static TO_SERVICE: Schema =
    object(&[("name", &TEXT), ("namespace", &TEXT), ("scope", &SCOPE)]).required(&["name"]);

static SCOPE: Schema = one_of(&["Cluster", "ClusterSet"]);

static NAMESPACES: Schema = object(&[("match", &MATCH), ("sameLabels", &TEXTS)]).properties(1, 1);
static MATCH: Schema = one_of(&["Self"]);

static NAMESPACED_NAME: Schema =
    object(&[("name", &TEXT), ("namespace", &TEXT)]).required(&["name", "namespace"]);

static IP_BLOCK: Schema = object(&[("cidr", &CIDR), ("except", &CIDRS)]);
static CIDR: Schema = format(Format::Cidr);
/// Each is a CIDR, which the webhook says with the words `invalid except`.
static CIDRS: Schema = any_number_of(&TEXT);

static PORTS: Schema = any_number_of(&PORT);
static PORT: Schema = object(&[
    ("protocol", &PROTOCOL),
    ("port", &PORT_NAME_OR_NUMBER),
    ("endPort", &ANY_INTEGER),
    ("sourcePort", &ANY_INTEGER),
    ("sourceEndPort", &ANY_INTEGER),
]);
static PROTOCOL: Schema = one_of(&["TCP", "UDP", "SCTP"]);
static PORT_NAME_OR_NUMBER: Schema = integer_or_text();
static ANY_INTEGER: Schema = integer(i64::MIN, i64::MAX);
static TRUTH: Schema = truth();

static INGRESS_PROTOCOLS: Schema = any_number_of(&INGRESS_PROTOCOL);
static INGRESS_PROTOCOL: Schema =
    object(&[("icmp", &ICMP), ("igmp", &INGRESS_IGMP)]).alternatives(&["icmp", "igmp"]);
static EGRESS_PROTOCOLS: Schema = any_number_of(&EGRESS_PROTOCOL);
static EGRESS_PROTOCOL: Schema =
    object(&[("icmp", &ICMP), ("igmp", &EGRESS_IGMP)]).alternatives(&["icmp", "igmp"]);

static ICMP: Schema = object(&[("icmpType", &BYTE), ("icmpCode", &BYTE)]);
static BYTE: Schema = integer(0, 255);
static INGRESS_IGMP: Schema = object(&[("igmpType", &IGMP_QUERY), ("groupAddress", &ADDRESS)]);
static EGRESS_IGMP: Schema = object(&[("igmpType", &IGMP_REPORT), ("groupAddress", &ADDRESS)]);
static IGMP_QUERY: Schema = one_number_of(&[0x11]);
static IGMP_REPORT: Schema = one_number_of(&[0x12, 0x16, 0x22]);
static ADDRESS: Schema = format(Format::Address);

static L7_PROTOCOLS: Schema = any_number_of(&L7_PROTOCOL);
static L7_PROTOCOL: Schema = object(&[("http", &HTTP), ("tls", &TLS)]).alternatives(&["http", "tls"]);
static HTTP: Schema = object(&[("host", &TEXT), ("method", &METHOD), ("path", &TEXT)]);
static METHOD: Schema =
    one_of(&["GET", "POST", "PUT", "HEAD", "DELETE", "TRACE", "OPTIONS", "CONNECT", "PATCH"]);
static TLS: Schema = object(&[("sni", &TEXT)]);

static LOG_LABEL: Schema =
    pattern(Pattern { text: "^(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?$", matches: is_label_value });

/// ClusterGroup.
pub static CLUSTER_GROUP: Schema = object(&[("spec", &CLUSTER_GROUP_SPEC)]);
static CLUSTER_GROUP_SPEC: Schema = object(&[
    ("podSelector", &SELECTOR),
    ("namespaceSelector", &SELECTOR),
    ("externalEntitySelector", &SELECTOR),
    ("nodeSelector", &SELECTOR),
    ("ipBlocks", &IP_BLOCKS),
    ("serviceReference", &SERVICE_REFERENCE),
    ("childGroups", &TEXTS),
]);

/// Group.
pub static GROUP: Schema = object(&[("spec", &GROUP_SPEC)]);
static GROUP_SPEC: Schema = object(&[
    ("podSelector", &SELECTOR),
    ("namespaceSelector", &SELECTOR),
    ("externalEntitySelector", &SELECTOR),
    ("ipBlocks", &IP_BLOCKS),
    ("serviceReference", &SERVICE_REFERENCE),
    ("childGroups", &TEXTS),
]);

static IP_BLOCKS: Schema = any_number_of(&IP_BLOCK);
static SERVICE_REFERENCE: Schema = object(&[("name", &TEXT), ("namespace", &TEXT)]);

/// ExternalEntity.
pub static EXTERNAL_ENTITY: Schema = object(&[("spec", &EXTERNAL_ENTITY_SPEC)]);
static EXTERNAL_ENTITY_SPEC: Schema =
    object(&[("endpoints", &ENDPOINTS), ("ports", &ENTITY_PORTS), ("externalNode", &TEXT)]);
static ENDPOINTS: Schema = any_number_of(&ENDPOINT);
static ENDPOINT: Schema = object(&[("ip", &ADDRESS), ("name", &TEXT)]);
static ENTITY_PORTS: Schema = any_number_of(&ENTITY_PORT);
static ENTITY_PORT: Schema =
    object(&[("protocol", &PROTOCOL), ("port", &ENTITY_PORT_NUMBER), ("name", &TEXT)]);
/// The definition takes a text as well, which nobody can read: Antrea has a number there.
static ENTITY_PORT_NUMBER: Schema = integer(1, 65535);

/// ClusterNetworkPolicy of 2020.
pub static CLUSTER_POLICY_2020: Schema = object(&[("spec", &CLUSTER_SPEC_2020)]).required(&["spec"]);
static CLUSTER_SPEC_2020: Schema = object(&[
    ("tier", &TEXT),
    ("priority", &PRIORITY),
    ("appliedTo", &CLUSTER_APPLIED_TO_2020),
    ("ingress", &INGRESS_2020),
    ("egress", &EGRESS_2020),
])
.required(&["priority", "appliedTo"]);
static CLUSTER_APPLIED_TO_2020: Schema = any_number_of(&CLUSTER_APPLIED_TO_ENTRY_2020);
static CLUSTER_APPLIED_TO_ENTRY_2020: Schema =
    object(&[("podSelector", &SELECTOR), ("namespaceSelector", &SELECTOR)]);

/// NetworkPolicy of 2020.
pub static POLICY_2020: Schema = object(&[("spec", &SPEC_2020)]).required(&["spec"]);
static SPEC_2020: Schema = object(&[
    ("tier", &TEXT),
    ("priority", &PRIORITY),
    ("appliedTo", &APPLIED_TO_2020),
    ("ingress", &INGRESS_2020),
    ("egress", &EGRESS_2020),
])
.required(&["priority", "appliedTo"]);
static APPLIED_TO_2020: Schema = any_number_of(&APPLIED_TO_ENTRY_2020);
static APPLIED_TO_ENTRY_2020: Schema = object(&[("podSelector", &SELECTOR)]);

static INGRESS_2020: Schema = any_number_of(&INGRESS_RULE_2020);
static INGRESS_RULE_2020: Schema = object(&[
    ("action", &ACTION_2020),
    ("ports", &PORTS_2020),
    ("from", &PEERS_2020),
    ("name", &TEXT),
    ("enableLogging", &TRUTH),
])
.required(&["action"]);
static EGRESS_2020: Schema = any_number_of(&EGRESS_RULE_2020);
static EGRESS_RULE_2020: Schema = object(&[
    ("action", &ACTION_2020),
    ("ports", &PORTS_2020),
    ("to", &PEERS_2020),
    ("name", &TEXT),
    ("enableLogging", &TRUTH),
])
.required(&["action"]);
static ACTION_2020: Schema = one_of(&["Allow", "Drop"]);
static PORTS_2020: Schema = any_number_of(&PORT_2020);
static PORT_2020: Schema = object(&[("protocol", &PROTOCOL), ("port", &PORT_NAME_OR_NUMBER)]);
static PEERS_2020: Schema = any_number_of(&PEER_2020);
static PEER_2020: Schema =
    object(&[("podSelector", &SELECTOR), ("namespaceSelector", &SELECTOR), ("ipBlock", &IP_BLOCK_2020)]);
static IP_BLOCK_2020: Schema = object(&[("cidr", &CIDR)]);

static SELECTOR: Schema = object(&[("matchLabels", &LABELS), ("matchExpressions", &EXPRESSIONS)]);
static LABELS: Schema = labels();
static EXPRESSIONS: Schema = any_number_of(&EXPRESSION);
/// The definition requires neither key nor operator. A requirement without them says nothing.
static EXPRESSION: Schema = object(&[("key", &TEXT), ("operator", &OPERATOR), ("values", &VALUES)])
    .required(&["key", "operator"])
    .beyond(requirement);
static OPERATOR: Schema = one_of(OPERATORS);
const OPERATORS: &[&str] = &["In", "NotIn", "Exists", "DoesNotExist"];
static VALUES: Schema = any_number_of(&LABEL_VALUE);
static LABEL_VALUE: Schema =
    pattern(Pattern { text: "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$", matches: is_label_value });

const fn any_number_of(of: &'static Schema) -> Schema {
    list(of, 0, usize::MAX)
}

/// Checks a requirement as far as the definition does not, which knows the operators and the form of values.
fn requirement(node: &Node<'_>, path: &Path<'_>, findings: &mut Findings<'_, '_>) {
    if node.get("operator").and_then(Node::as_str).is_some_and(|operator| OPERATORS.contains(&operator)) {
        check::requirement(node, path, Options { allow_invalid_values: true }, findings);
    }
}

/// What a value of a label may be. The definitions' pattern does not mind the length, we do.
fn is_label_value(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    bytes.len() <= 63 && ends(bytes.first()) && ends(bytes.last()) && bytes.iter().all(inner)
}
