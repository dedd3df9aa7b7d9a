//! A NetworkPolicy as text: YAML or JSON that every reader takes for the same object.

pub mod rules;

use smol_str::SmolStr;

use super::types::{
    IpBlock, NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicyRule, NetworkPolicySpec,
};
use crate::decode::{IntOrString, MetaMap, StringMap};
use crate::meta::{LabelSelector, LabelSelectorRequirement, ObjectMeta};
use crate::written;
pub use crate::written::Written;

/// The objects as YAML documents.
pub fn yaml(objects: &[NetworkPolicy]) -> String {
    written::yaml(&objects.iter().map(NetworkPolicy::written).collect::<Vec<_>>())
}

/// The objects as one JSON list.
pub fn json(objects: &[NetworkPolicy]) -> String {
    written::json(&objects.iter().map(NetworkPolicy::written).collect::<Vec<_>>())
}

type Fields = Vec<(String, Written)>;

fn field(fields: &mut Fields, key: &str, value: Option<Written>) {
    fields.extend(value.map(|value| (key.to_owned(), value)));
}

fn text(text: &Option<SmolStr>) -> Option<Written> {
    text.as_ref().map(|text| Written::Text(text.to_string()))
}

fn list<T>(items: &Option<Vec<T>>, write: impl Fn(&T) -> Written) -> Option<Written> {
    items.as_ref().map(|items| Written::List(items.iter().map(write).collect()))
}

fn map(map: &StringMap) -> Written {
    Written::Map(map.iter().map(|(k, v)| (k.to_string(), Written::Text(v.to_string()))).collect())
}

impl NetworkPolicy {
    /// The object as it is written.
    pub fn written(&self) -> Written {
        let mut fields = Fields::new();
        field(&mut fields, "apiVersion", Some(Written::Text("networking.k8s.io/v1".to_owned())));
        field(&mut fields, "kind", Some(Written::Text("NetworkPolicy".to_owned())));
        field(&mut fields, "metadata", self.metadata.as_ref().map(metadata));
        field(&mut fields, "spec", self.spec.as_ref().map(NetworkPolicySpec::written));
        Written::Map(fields)
    }
}

fn metadata(meta: &ObjectMeta) -> Written {
    let mut fields = Fields::new();
    let written = |map_: &Option<MetaMap>| map_.as_ref().map(|map_| map(&map_.0));
    field(&mut fields, "name", text(&meta.name));
    field(&mut fields, "namespace", text(&meta.namespace));
    field(&mut fields, "labels", written(&meta.labels));
    field(&mut fields, "annotations", written(&meta.annotations));
    Written::Map(fields)
}

impl NetworkPolicySpec {
    /// The spec as it is written.
    pub fn written(&self) -> Written {
        let mut fields = Fields::new();
        field(&mut fields, "podSelector", self.pod_selector.as_ref().map(selector));
        field(&mut fields, "policyTypes", list(&self.policy_types, |t| Written::Text(t.to_string())));
        field(&mut fields, "ingress", list(&self.ingress, rule));
        field(&mut fields, "egress", list(&self.egress, rule));
        Written::Map(fields)
    }
}

fn rule(rule: &NetworkPolicyRule) -> Written {
    let mut fields = Fields::new();
    field(&mut fields, "from", list(&rule.from, peer));
    field(&mut fields, "to", list(&rule.to, peer));
    field(&mut fields, "ports", list(&rule.ports, port));
    Written::Map(fields)
}

fn peer(peer: &NetworkPolicyPeer) -> Written {
    let mut fields = Fields::new();
    field(&mut fields, "namespaceSelector", peer.namespace_selector.as_ref().map(selector));
    field(&mut fields, "podSelector", peer.pod_selector.as_ref().map(selector));
    field(&mut fields, "ipBlock", peer.ip_block.as_ref().map(ip_block));
    Written::Map(fields)
}

fn ip_block(block: &IpBlock) -> Written {
    let mut fields = Fields::new();
    field(&mut fields, "cidr", text(&block.cidr));
    field(&mut fields, "except", list(&block.except, |t| Written::Text(t.to_string())));
    Written::Map(fields)
}

fn port(port: &NetworkPolicyPort) -> Written {
    let mut fields = Fields::new();
    let number = port.port.as_ref().map(|port| match port {
        IntOrString::Int(number) => Written::Number(*number),
        IntOrString::String(name) => Written::Text(name.to_string()),
    });
    field(&mut fields, "protocol", text(&port.protocol));
    field(&mut fields, "port", number);
    field(&mut fields, "endPort", port.end_port.map(Written::Number));
    Written::Map(fields)
}

fn selector(selector: &LabelSelector) -> Written {
    let mut fields = Fields::new();
    field(&mut fields, "matchLabels", selector.match_labels.as_ref().map(map));
    field(&mut fields, "matchExpressions", list(&selector.match_expressions, requirement));
    Written::Map(fields)
}

fn requirement(requirement: &LabelSelectorRequirement) -> Written {
    let mut fields = Fields::new();
    field(&mut fields, "key", text(&requirement.key));
    field(&mut fields, "operator", text(&requirement.operator));
    field(&mut fields, "values", list(&requirement.values, |t| Written::Text(t.to_string())));
    Written::Map(fields)
}
