//! Antrea's objects as written, in all versions.
//!
//! The versions and kinds share their types: a rule has the same fields wherever it stands, and the API of 2020 has some of
//! them. Which field exists in which position is in the definitions ([`super::crd`]), and the reader holds every
//! object to its definition: a field that is not there in this position is an unknown field, however well it is known
//! elsewhere.

use crate::decode::fields;
use crate::definition::selector::LabelSelector;
use crate::definition::typed::{List, Number, NumberOrText, Object, Text, Texts, Truth, Whole, broken};
use crate::meta::ObjectMeta;

fields! {
    /// A tier.
    pub struct Tier {
        "metadata" => metadata: ObjectMeta,
        "spec" => spec: Object<TierSpec>,
        skip "apiVersion" "kind" "status"
    }

    /// Where it stands.
    pub struct TierSpec {
        "priority" => priority: Whole,
        "description" => description: Text,
    }

    /// A ClusterNetworkPolicy or a NetworkPolicy.
    pub struct Policy {
        "metadata" => metadata: ObjectMeta,
        "spec" => spec: Object<PolicySpec>,
        skip "apiVersion" "kind" "status"
    }

    /// Where it stands, whom it applies to, and what they may do.
    pub struct PolicySpec {
        "tier" => tier: Text,
        "priority" => priority: Number,
        "appliedTo" => applied_to: List<AppliedTo>,
        "ingress" => ingress: List<Rule>,
        "egress" => egress: List<Rule>,
    }

    /// Whom a policy or a rule applies to: one alternative.
    pub struct AppliedTo {
        "podSelector" => pod_selector: Object<LabelSelector>,
        "namespaceSelector" => namespace_selector: Object<LabelSelector>,
        "externalEntitySelector" => external_entity_selector: Object<LabelSelector>,
        "group" => group: Text,
        "serviceAccount" => service_account: Object<NamespacedName>,
        "service" => service: Object<NamespacedName>,
        "nodeSelector" => node_selector: Object<LabelSelector>,
    }

    /// A rule of either direction: `from` is for ingress, `to` and `toServices` for egress.
    pub struct Rule {
        "action" => action: Text,
        "ports" => ports: List<Port>,
        "protocols" => protocols: List<Protocol>,
        "l7Protocols" => l7_protocols: List<L7Protocol>,
        "from" => from: List<Peer>,
        "to" => to: List<Peer>,
        "toServices" => to_services: List<PeerService>,
        "name" => name: Text,
        "enableLogging" => enable_logging: Truth,
        "logLabel" => log_label: Text,
        "appliedTo" => applied_to: List<AppliedTo>,
    }

    /// The other end: one alternative.
    pub struct Peer {
        "ipBlock" => ip_block: Object<IpBlock>,
        "podSelector" => pod_selector: Object<LabelSelector>,
        "namespaceSelector" => namespace_selector: Object<LabelSelector>,
        "namespaces" => namespaces: Object<PeerNamespaces>,
        "externalEntitySelector" => external_entity_selector: Object<LabelSelector>,
        "group" => group: Text,
        "fqdn" => fqdn: Text,
        "serviceAccount" => service_account: Object<NamespacedName>,
        "nodeSelector" => node_selector: Object<LabelSelector>,
        "scope" => scope: Text,
    }

    /// Namespaces, seen from the subject's.
    pub struct PeerNamespaces {
        "match" => matching: Text,
        "sameLabels" => same_labels: Texts,
    }

    /// Addresses.
    pub struct IpBlock {
        "cidr" => cidr: Text,
        "except" => except: Texts,
    }

    /// An object in a namespace.
    pub struct NamespacedName {
        "name" => name: Text,
        "namespace" => namespace: Text,
    }

    /// A service that a rule is about, by the address that clients use.
    pub struct PeerService {
        "name" => name: Text,
        "namespace" => namespace: Text,
        "scope" => scope: Text,
    }

    /// Ports of a protocol, at both ends.
    pub struct Port {
        "protocol" => protocol: Text,
        "port" => port: NumberOrText,
        "endPort" => end_port: Whole,
        "sourcePort" => source_port: Whole,
        "sourceEndPort" => source_end_port: Whole,
    }

    /// A protocol without ports.
    pub struct Protocol {
        "icmp" => icmp: Object<Icmp>,
        "igmp" => igmp: Object<Igmp>,
    }

    /// ICMP messages.
    pub struct Icmp {
        "icmpType" => icmp_type: Whole,
        "icmpCode" => icmp_code: Whole,
    }

    /// IGMP messages.
    pub struct Igmp {
        "igmpType" => igmp_type: Whole,
        "groupAddress" => group_address: Text,
    }

    /// What a connection must look like inside.
    pub struct L7Protocol {
        "http" => http: Object<Http>,
        "tls" => tls: Object<Tls>,
    }

    /// An HTTP request.
    pub struct Http {
        "host" => host: Text,
        "method" => method: Text,
        "path" => path: Text,
    }

    /// A TLS handshake.
    pub struct Tls {
        "sni" => sni: Text,
    }

    /// A ClusterGroup or a Group.
    pub struct Group {
        "metadata" => metadata: ObjectMeta,
        "spec" => spec: Object<GroupSpec>,
        skip "apiVersion" "kind" "status"
    }

    /// Who is in it.
    pub struct GroupSpec {
        "podSelector" => pod_selector: Object<LabelSelector>,
        "namespaceSelector" => namespace_selector: Object<LabelSelector>,
        "externalEntitySelector" => external_entity_selector: Object<LabelSelector>,
        "nodeSelector" => node_selector: Object<LabelSelector>,
        "ipBlocks" => ip_blocks: List<IpBlock>,
        "serviceReference" => service_reference: Object<NamespacedName>,
        "childGroups" => child_groups: Texts,
    }

    /// Something outside of the cluster that policies can name.
    pub struct ExternalEntity {
        "metadata" => metadata: ObjectMeta,
        "spec" => spec: Object<ExternalEntitySpec>,
        skip "apiVersion" "kind" "status"
    }

    /// Where it is.
    pub struct ExternalEntitySpec {
        "endpoints" => endpoints: List<ExternalEndpoint>,
        "ports" => ports: List<NamedPort>,
        "externalNode" => external_node: Text,
    }

    /// One of its addresses.
    pub struct ExternalEndpoint {
        "ip" => ip: Text,
        "name" => name: Text,
    }

    /// One of its ports.
    pub struct NamedPort {
        "protocol" => protocol: Text,
        "port" => port: Whole,
        "name" => name: Text,
    }
}

broken! {
    TierSpec PolicySpec AppliedTo Rule Peer PeerNamespaces IpBlock NamespacedName PeerService Port Protocol Icmp Igmp
    L7Protocol Http Tls GroupSpec ExternalEntitySpec ExternalEndpoint NamedPort
}
