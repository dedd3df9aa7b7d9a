//! A NetworkPolicy of 2016 as written, and what a namespace says about isolation.

use smol_str::SmolStr;

use crate::decode::{IntOrString, fields};
use crate::meta::{LabelSelector, ObjectMeta};

fields! {
    /// The object.
    pub struct NetworkPolicy {
        "metadata" => metadata: ObjectMeta,
        "spec" => spec: NetworkPolicySpec,
        skip "apiVersion" "kind" "status"
    }

    /// Whom it selects and from whom they may receive.
    pub struct NetworkPolicySpec {
        "podSelector" => pod_selector: LabelSelector,
        "ingress" => ingress: Vec<NetworkPolicyIngressRule>,
    }

    /// One rule: ports AND from.
    pub struct NetworkPolicyIngressRule {
        "ports" => ports: Vec<NetworkPolicyPort>,
        "from" => from: Vec<NetworkPolicyPeer>,
    }

    /// A port by number or name, or all ports of a protocol.
    pub struct NetworkPolicyPort {
        "protocol" => protocol: SmolStr,
        "port" => port: IntOrString,
    }

    /// Exactly one of the two.
    pub struct NetworkPolicyPeer {
        "podSelector" => pod_selector: LabelSelector,
        "namespaceSelector" => namespace_selector: LabelSelector,
    }

    /// A namespace's spec, as the text shows it.
    pub struct NamespaceSpec {
        "networkPolicy" => network_policy: NamespaceNetworkPolicy,
        skip "finalizers"
    }

    /// What a namespace says about its pods: the annotation's JSON, or `spec.networkPolicy`.
    pub struct NamespaceNetworkPolicy {
        "ingress" => ingress: NamespaceIngressPolicy,
    }

    /// What it says about ingress.
    pub struct NamespaceIngressPolicy {
        "isolation" => isolation: SmolStr,
    }
}
