//! What runs in a cluster, as far as policies can see it: namespaces, pods, nodes, services.
//!
//! These are plain records, one per object, that know nothing of each other. [`crate::snapshot::Snapshot`] puts them
//! together.

use std::net::IpAddr;

use smol_str::{SmolStr, format_smolstr};

use crate::diagnostic::Location;
use crate::label::{Labels, Selector};
use crate::traffic::Protocol;

/// The label that every namespace carries, with its own name as value.
pub const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// A namespace.
#[derive(Debug, Clone, PartialEq)]
pub struct Namespace {
    /// Its name.
    pub name: SmolStr,
    /// Its labels.
    pub labels: Labels,
    /// Where it is written.
    pub at: Option<Location>,
}

/// A pod, what stands for the pods of a workload's template, or an external entity: a machine outside the cluster that
/// policies can select.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: SmolStr,
    /// Its name; for a stand-in the workload's.
    pub name: SmolStr,
    /// Its labels.
    pub labels: Labels,
    /// Its addresses, the primary one first. A pod that has not started has none.
    pub addresses: Vec<IpAddr>,
    /// The node it runs on.
    pub node: Option<SmolStr>,
    /// The addresses of that node, as far as the pod's own status tells them.
    pub host_addresses: Vec<IpAddr>,
    /// Whether it lives in its node's network.
    pub host_network: bool,
    /// Succeeded or Failed: its address may be another pod's by now.
    pub terminated: bool,
    /// Whether it may receive traffic of its services.
    pub ready: bool,
    /// The ports its containers declare, in order.
    pub ports: Vec<ContainerPort>,
    /// The service account it runs under.
    pub account: SmolStr,
    /// Whether it is no pod but an external entity: selectors of pods do not find it.
    pub external: bool,
    /// The controller that made it.
    pub owner: Option<Owner>,
    /// Set when this is no pod but the template of a workload of this kind.
    pub stand_in: Option<SmolStr>,
    /// Where it is written.
    pub at: Option<Location>,
}

/// A port that a container declares.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ContainerPort {
    /// Its name, if it has one.
    pub name: Option<SmolStr>,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its number.
    pub number: u16,
}

/// The controller of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// Its kind.
    pub kind: SmolStr,
    /// Its name.
    pub name: SmolStr,
}

/// A Deployment, StatefulSet, Job and so on, with the pod its template describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Its kind.
    pub kind: SmolStr,
    /// The controller that made it, as a Deployment makes ReplicaSets.
    pub owner: Option<Owner>,
    /// The pod of its template, under the workload's own name.
    pub template: Pod,
}

/// A node.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its name.
    pub name: SmolStr,
    /// Its labels.
    pub labels: Labels,
    /// Its addresses, internal ones first.
    pub addresses: Vec<IpAddr>,
    /// Where it is written.
    pub at: Option<Location>,
}

/// A machine that enforces: which pods are on it, and how it reaches them. From a manifest of Palisade's own.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// The name of the node that it is.
    pub name: SmolStr,
    /// The pods on it.
    pub pods: Vec<MachinePod>,
    /// Where it is written.
    pub at: Option<Location>,
}

/// A pod on a machine: either its addresses are written, or it is a network namespace that has some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachinePod {
    /// Its namespace.
    pub namespace: SmolStr,
    /// Its name.
    pub name: SmolStr,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// The machine's interface that leads to it.
    pub interface: Option<SmolStr>,
    /// The name of the network namespace that it is.
    pub network_namespace: Option<SmolStr>,
    /// Where it is written.
    pub at: Option<Location>,
}

/// A service.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Service {
    /// Its namespace.
    pub namespace: SmolStr,
    /// Its name.
    pub name: SmolStr,
    /// What its DNS name resolves to, and which pods are behind it.
    pub kind: ServiceKind,
    /// Its cluster addresses, as far as they are written; see [`Service::has_cluster_address`].
    pub addresses: Vec<IpAddr>,
    /// The addresses it is reached by from outside: `externalIPs`, and those of its load balancer. Empty, as `addresses`
    /// is, for a Service without a cluster address: kube-proxy skips it.
    pub external_addresses: Vec<IpAddr>,
    /// Its ports.
    pub ports: Vec<ServicePort>,
    /// Whether pods that are not ready get traffic, too.
    pub publish_not_ready: bool,
    /// Where it is written.
    pub at: Option<Location>,
}

/// What the DNS name of a service resolves to.
///
/// The selector is part of it because one kind has none: the API ignores the selector of an ExternalName Service, and a
/// field of its own would be read by code that forgets to ask for the kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServiceKind {
    /// Its cluster address: connections go through the service, which translates address and port.
    ClusterAddress {
        /// The pods behind it; `None` when its endpoints are maintained by another controller.
        selector: Option<Selector>,
    },
    /// The addresses of its endpoints (`clusterIP: None`): clients connect to the pods, and nothing is translated.
    Headless {
        /// The pods behind it; `None` when its endpoints are maintained by another controller.
        selector: Option<Selector>,
    },
    /// Another DNS name (`type: ExternalName`): it has no address and no endpoints. Empty where the manifest names none.
    ExternalName(SmolStr),
}

/// A port of a service.
#[derive(Debug, Clone, PartialEq)]
pub struct ServicePort {
    /// Its name; empty when the service has one port.
    pub name: SmolStr,
    /// Its protocol.
    pub protocol: Protocol,
    /// The port clients use.
    pub port: u16,
    /// The port on every node that leads to it.
    pub node_port: Option<u16>,
    /// The port on the pods.
    pub target: TargetPort,
}

/// The port behind a service's port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TargetPort {
    /// A number.
    Number(u16),
    /// The name of a container's port.
    Name(SmolStr),
}

/// Addresses behind a service, from an Endpoints object or an EndpointSlice.
#[derive(Debug, Clone, PartialEq)]
pub struct Endpoints {
    /// Their namespace.
    pub namespace: SmolStr,
    /// The service they are behind.
    pub service: SmolStr,
    /// The ports they serve: name, protocol, number.
    pub ports: Vec<(SmolStr, Protocol, u16)>,
    /// The addresses that are ready.
    pub ready: Vec<IpAddr>,
}

// === impl Pod ===

impl Pod {
    /// The variant of external entities, beside the kinds of workloads that templates have.
    pub const EXTERNAL_ENTITY: &'static str = "ExternalEntity";

    /// Returns what distinguishes this endpoint from a pod of the same namespace and name: the kind of the workload whose
    /// template it is, or [`Pod::EXTERNAL_ENTITY`]; `None` for a pod. A Deployment, an ExternalEntity and a pod may share a
    /// name, so it is part of the identity.
    pub fn variant(&self) -> Option<SmolStr> {
        self.stand_in.clone().or_else(|| self.external.then(|| SmolStr::new_static(Pod::EXTERNAL_ENTITY)))
    }

    /// The number of the port with this name and protocol: the first one, as the kubelet and kube-proxy take it.
    pub fn named_port(&self, name: &str, protocol: Protocol) -> Option<u16> {
        named_port(&self.ports, name, protocol)
    }

    /// The name of the workload it belongs to: its controller, or for a ReplicaSet made by a Deployment the Deployment.
    pub fn workload(&self) -> Option<Owner> {
        let owner = self.owner.as_ref()?;
        if owner.kind == "ReplicaSet"
            && let Some(hash) = self.labels.get("pod-template-hash")
            && let Some(name) = owner.name.strip_suffix(hash).and_then(|head| head.strip_suffix('-'))
        {
            return Some(Owner { kind: "Deployment".into(), name: name.into() });
        }
        Some(owner.clone())
    }
}

// === impl Service ===

impl Service {
    /// Whether connections can go through it: it has an address of its own, or gets one when it is created. The name of a
    /// headless Service stands for its pods, that of an ExternalName for something else: a connection to either is one to
    /// the endpoint itself, and nothing on the way knows the Service.
    pub fn has_cluster_address(&self) -> bool {
        matches!(self.kind, ServiceKind::ClusterAddress { .. })
    }

    /// Whether its name resolves to the addresses of its endpoints.
    pub fn is_headless(&self) -> bool {
        matches!(self.kind, ServiceKind::Headless { .. })
    }

    /// Whether its name is an alias of another DNS name.
    pub fn is_external_name(&self) -> bool {
        matches!(self.kind, ServiceKind::ExternalName(_))
    }

    /// The pods behind it, if it selects them.
    pub fn selector(&self) -> Option<&Selector> {
        match &self.kind {
            ServiceKind::ClusterAddress { selector } | ServiceKind::Headless { selector } => {
                selector.as_ref()
            }
            ServiceKind::ExternalName(_) => None,
        }
    }

    /// The name that the cluster's DNS knows it by.
    pub fn dns_name(&self) -> SmolStr {
        format_smolstr!("{}.{}.svc.cluster.local", self.name, self.namespace)
    }

    /// Whether a pod of its namespace that lives, with these labels, gets its traffic.
    pub fn is_served_by(&self, ready: bool, labels: &Labels) -> bool {
        (ready || self.publish_not_ready) && self.selector().is_some_and(|selector| selector.matches(labels))
    }
}

// === impl ServiceKind ===

impl Default for ServiceKind {
    fn default() -> Self {
        ServiceKind::ClusterAddress { selector: None }
    }
}

/// The number of the first port with this name and protocol.
pub fn named_port(ports: &[ContainerPort], name: &str, protocol: Protocol) -> Option<u16> {
    ports
        .iter()
        .find(|port| port.protocol == protocol && port.name.as_deref() == Some(name))
        .map(|port| port.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_set_of_a_deployment_is_the_deployment() {
        let mut pod = Pod {
            owner: Some(Owner { kind: "ReplicaSet".into(), name: "web-6f7c9".into() }),
            labels: Labels::new([("pod-template-hash".into(), "6f7c9".into())]),
            ..Pod::default()
        };
        assert_eq!(pod.workload(), Some(Owner { kind: "Deployment".into(), name: "web".into() }));
        pod.labels = Labels::default();
        assert_eq!(pod.workload().map(|owner| owner.kind), Some("ReplicaSet".into()));
    }

    #[test]
    fn a_named_port_needs_name_and_protocol() {
        let port = |name: &str, protocol, number| ContainerPort { name: Some(name.into()), protocol, number };
        let pod = Pod {
            ports: vec![port("dns", Protocol::Udp, 53), port("dns", Protocol::Tcp, 5353)],
            ..Pod::default()
        };
        assert_eq!(pod.named_port("dns", Protocol::Tcp), Some(5353));
        assert_eq!(pod.named_port("dns", Protocol::Sctp), None);
        assert_eq!(pod.named_port("web", Protocol::Tcp), None);
    }
}
