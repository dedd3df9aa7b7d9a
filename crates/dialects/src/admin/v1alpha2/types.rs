//! A ClusterNetworkPolicy as written.

use crate::decode::fields;
use crate::definition::selector::LabelSelector;
use crate::definition::typed::{List, Object, Text, Texts, Whole, broken};
use crate::meta::ObjectMeta;

fields! {
    /// The object.
    pub struct ClusterNetworkPolicy {
        "metadata" => metadata: ObjectMeta,
        "spec" => spec: Object<ClusterNetworkPolicySpec>,
        skip "apiVersion" "kind" "status"
    }

    /// Whom it applies to, when, and what they may do.
    pub struct ClusterNetworkPolicySpec {
        "tier" => tier: Text,
        "priority" => priority: Whole,
        "subject" => subject: Object<Subject>,
        "ingress" => ingress: List<IngressRule>,
        "egress" => egress: List<EgressRule>,
    }

    /// Pods, by namespace or by both.
    pub struct Subject {
        "namespaces" => namespaces: Object<LabelSelector>,
        "pods" => pods: Object<NamespacedPod>,
    }

    /// Pods of namespaces; of all namespaces when none are selected.
    pub struct NamespacedPod {
        "namespaceSelector" => namespace_selector: Object<LabelSelector>,
        "podSelector" => pod_selector: Object<LabelSelector>,
    }

    /// A rule for what comes in.
    pub struct IngressRule {
        "name" => name: Text,
        "action" => action: Text,
        "from" => from: List<IngressPeer>,
        "protocols" => protocols: List<Protocol>,
    }

    /// A rule for what goes out.
    pub struct EgressRule {
        "name" => name: Text,
        "action" => action: Text,
        "to" => to: List<EgressPeer>,
        "protocols" => protocols: List<Protocol>,
    }

    /// Who comes in.
    pub struct IngressPeer {
        "namespaces" => namespaces: Object<LabelSelector>,
        "pods" => pods: Object<NamespacedPod>,
    }

    /// Where it goes out to.
    pub struct EgressPeer {
        "namespaces" => namespaces: Object<LabelSelector>,
        "pods" => pods: Object<NamespacedPod>,
        "networks" => networks: Texts,
        "nodes" => nodes: Object<LabelSelector>,
        "domainNames" => domain_names: Texts,
    }

    /// A protocol with its ports, or the name of a port.
    pub struct Protocol {
        "tcp" => tcp: Object<ProtocolPorts>,
        "udp" => udp: Object<ProtocolPorts>,
        "sctp" => sctp: Object<ProtocolPorts>,
        "destinationNamedPort" => destination_named_port: Text,
    }

    /// The ports of a protocol.
    pub struct ProtocolPorts {
        "destinationPort" => destination_port: Object<Port>,
    }

    /// A port or a range.
    pub struct Port {
        "number" => number: Whole,
        "range" => range: Object<PortRange>,
    }

    /// Ports, both ends included.
    pub struct PortRange {
        "start" => start: Whole,
        "end" => end: Whole,
    }
}

broken! {
    ClusterNetworkPolicySpec Subject NamespacedPod IngressRule EgressRule IngressPeer EgressPeer Protocol ProtocolPorts
    Port PortRange
}
