//! AdminNetworkPolicy and BaselineAdminNetworkPolicy as written.
//!
//! Peers have two shapes. Up to v0.1.1 of the API namespaces were `{namespaceSelector: …}`, `{sameLabels: […]}` or
//! `{notSameLabels: […]}`, and pods had such `namespaces`; since then `namespaces` is the selector itself. The
//! version's name is the same, so both are read, into types that hold the keys of both.

use crate::decode::fields;
use crate::definition::selector::{LabelSelector, LabelSelectorRequirement};
use crate::definition::typed::{LabelMap, List, Object, Text, Texts, Whole, broken};
use crate::meta::ObjectMeta;

fields! {
    /// The object.
    pub struct AdminNetworkPolicy {
        "metadata" => metadata: ObjectMeta,
        "spec" => spec: Object<AdminNetworkPolicySpec>,
        skip "apiVersion" "kind" "status"
    }

    /// Whom it applies to, when, and what they may do.
    pub struct AdminNetworkPolicySpec {
        "priority" => priority: Whole,
        "subject" => subject: Object<Subject>,
        "ingress" => ingress: List<IngressRule>,
        "egress" => egress: List<EgressRule>,
    }

    /// The object.
    pub struct BaselineAdminNetworkPolicy {
        "metadata" => metadata: ObjectMeta,
        "spec" => spec: Object<BaselineAdminNetworkPolicySpec>,
        skip "apiVersion" "kind" "status"
    }

    /// Whom it applies to and what they may do when nobody else says anything.
    pub struct BaselineAdminNetworkPolicySpec {
        "subject" => subject: Object<Subject>,
        "ingress" => ingress: List<IngressRule>,
        "egress" => egress: List<BaselineEgressRule>,
    }

    /// Pods, by namespace or by both.
    pub struct Subject {
        "namespaces" => namespaces: Object<NamespacesPeer>,
        "pods" => pods: Object<PodsPeer>,
    }

    /// A rule for what comes in.
    pub struct IngressRule {
        "name" => name: Text,
        "action" => action: Text,
        "from" => from: List<IngressPeer>,
        "ports" => ports: List<Port>,
    }

    /// A rule for what goes out.
    pub struct EgressRule {
        "name" => name: Text,
        "action" => action: Text,
        "to" => to: List<EgressPeer>,
        "ports" => ports: List<Port>,
    }

    /// The same in a baseline.
    pub struct BaselineEgressRule {
        "name" => name: Text,
        "action" => action: Text,
        "to" => to: List<BaselineEgressPeer>,
        "ports" => ports: List<Port>,
    }

    /// Who comes in.
    pub struct IngressPeer {
        "namespaces" => namespaces: Object<NamespacesPeer>,
        "pods" => pods: Object<PodsPeer>,
    }

    /// Where it goes out to.
    pub struct EgressPeer {
        "namespaces" => namespaces: Object<NamespacesPeer>,
        "pods" => pods: Object<PodsPeer>,
        "networks" => networks: Texts,
        "nodes" => nodes: Object<LabelSelector>,
        "domainNames" => domain_names: Texts,
    }

    /// The same in a baseline, which knows no DNS names.
    pub struct BaselineEgressPeer {
        "namespaces" => namespaces: Object<NamespacesPeer>,
        "pods" => pods: Object<PodsPeer>,
        "networks" => networks: Texts,
        "nodes" => nodes: Object<LabelSelector>,
    }

    /// Namespaces, in both shapes.
    pub struct NamespacesPeer {
        "matchLabels" => match_labels: LabelMap,
        "matchExpressions" => match_expressions: List<LabelSelectorRequirement>,
        "namespaceSelector" => namespace_selector: Object<LabelSelector>,
        "sameLabels" => same_labels: Texts,
        "notSameLabels" => not_same_labels: Texts,
    }

    /// Pods of namespaces, in both shapes.
    pub struct PodsPeer {
        "namespaceSelector" => namespace_selector: Object<LabelSelector>,
        "podSelector" => pod_selector: Object<LabelSelector>,
        "namespaces" => namespaces: Object<NamespacesPeer>,
    }

    /// A port, ports, or the name of one.
    pub struct Port {
        "portNumber" => port_number: Object<PortNumber>,
        "portRange" => port_range: Object<PortRange>,
        "namedPort" => named_port: Text,
    }

    /// One port.
    pub struct PortNumber {
        "protocol" => protocol: Text,
        "port" => port: Whole,
    }

    /// Ports, both ends included.
    pub struct PortRange {
        "protocol" => protocol: Text,
        "start" => start: Whole,
        "end" => end: Whole,
    }
}

broken! {
    AdminNetworkPolicySpec BaselineAdminNetworkPolicySpec Subject IngressRule EgressRule BaselineEgressRule IngressPeer
    EgressPeer BaselineEgressPeer NamespacesPeer PodsPeer Port PortNumber PortRange
}
