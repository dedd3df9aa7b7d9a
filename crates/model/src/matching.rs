//! Membership of endpoints: whether a pod is in a set, whether the other end of a connection is a peer, which node an endpoint
//! is.
//!
//! Facts about endpoints only: what a rule does with them is decided by [`crate::pipeline`], and by [`crate::evaluate`], which
//! judges it.

use std::net::IpAddr;

use smol_str::SmolStr;

use crate::address::{Block, Family};
use crate::cluster::{ContainerPort, Namespace, Node, Pod, named_port};
use crate::flow::{Flow, Party, Who};
use crate::label::Selector;
use crate::options::{HostNetworkPods, Options};
use crate::policy::{
    Direction, DomainName, Namespaces, Peer, Peers, PodSet, ServiceName, Subject, TrafficMatches,
};
use crate::resolve::{self, GroupMember, ResolvedPeer};
use crate::snapshot::Snapshot;
use crate::traffic::Protocol;
use crate::traffic_set::{Addressing, Point, Receiver};

/// Somebody that policies can apply to, by its place in the snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// A pod of the pod network, or an external entity.
    Pod(usize),
    /// A node.
    Node(usize),
    /// A service, for what comes through it from outside.
    Service(usize),
}

/// What is asked about the ends of a connection, by places that mean nothing elsewhere. A [`Snapshot`] knows it, and so
/// does whatever keeps a cluster up to date: there is one code that says who is exempt, who is a node and what a
/// connection carries.
pub trait Parties {
    /// A pod.
    fn pod(&self, at: usize) -> PodFacts<'_>;
    /// A node.
    fn node(&self, at: usize) -> &Node;
    /// The place of a node.
    fn node_named(&self, name: &str) -> Option<usize>;
}

/// What is asked about a pod.
#[derive(Debug, Clone, Copy)]
pub struct PodFacts<'s> {
    /// The node it runs on.
    pub node: Option<&'s SmolStr>,
    /// The addresses of that node, as far as the pod's own status tells them.
    pub host_addresses: &'s [IpAddr],
    /// The ports its containers declare, in order.
    pub ports: &'s [ContainerPort],
    /// Whether it lives in its node's network.
    pub host_network: bool,
    /// Whether it is no pod but an external entity.
    pub external: bool,
    /// Whether it is no pod but the template of a workload.
    pub stand_in: bool,
}

/// Somebody to evaluate policies for: a snapshot with the options in force.
#[derive(Debug)]
pub struct Context<'s, C = Snapshot> {
    /// The cluster.
    pub snapshot: &'s C,
    /// The points left open.
    pub options: Options,
}

impl<C> Clone for Context<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Context<'_, C> {}

impl Context<'_> {
    /// Returns whether any of the subjects selects the endpoint.
    pub fn applies(&self, subjects: &[Subject], endpoint: Endpoint) -> bool {
        subjects.iter().any(|subject| match subject {
            Subject::Pods(set) => self.is_pod_in(set, endpoint),
            Subject::Nodes(selector) => self.is_labelled(selector, endpoint),
            Subject::Service(name) => self.is_service(name, endpoint),
            Subject::Group { group, within } => match self.snapshot.group(group) {
                Ok(members) => members.iter().any(|member| match member {
                    GroupMember::Pods(set) => {
                        self.is_within(within.as_deref(), endpoint) && self.is_pod_in(set, endpoint)
                    }
                    GroupMember::Nodes(selector) => within.is_none() && self.is_labelled(selector, endpoint),
                    // Addresses are never the subject of a policy.
                    GroupMember::Addresses(_) => false,
                }),
                // Every endpoint it could have meant: rules that apply to it fail closed.
                Err(_) => self.is_within(within.as_deref(), endpoint),
            },
        })
    }

    /// Returns whether a pod is in the set.
    pub(crate) fn is_pod_in(&self, set: &PodSet, endpoint: Endpoint) -> bool {
        matches!(endpoint, Endpoint::Pod(pod) if self.holds(set, pod, endpoint))
    }

    pub(crate) fn is_service(&self, name: &ServiceName, endpoint: Endpoint) -> bool {
        matches!(endpoint, Endpoint::Service(at) if self.is_called(at, name))
    }

    /// Returns whether a namespaced policy can apply to the endpoint: pods of its namespace. A cluster-wide one can apply to
    /// nodes as well.
    pub(crate) fn is_within(&self, namespace: Option<&str>, endpoint: Endpoint) -> bool {
        match endpoint {
            Endpoint::Pod(pod) => {
                namespace.is_none_or(|namespace| self.snapshot.namespace_of(pod).name == namespace)
            }
            Endpoint::Node(_) => namespace.is_none(),
            Endpoint::Service(_) => false,
        }
    }

    pub(crate) fn is_labelled(&self, selector: &Selector, endpoint: Endpoint) -> bool {
        matches!(endpoint, Endpoint::Node(node) if selector.matches(&self.snapshot.nodes()[node].labels))
    }

    /// Whether this is the Service of that name, and one that connections can go through.
    pub(crate) fn is_called(&self, service: usize, name: &ServiceName) -> bool {
        let service = &self.snapshot.services()[service];
        service.namespace == name.namespace && service.name == name.name && service.has_cluster_address()
    }

    /// Whether the pod is in the set. `subject` is whom relative namespaces are relative to.
    pub fn holds(&self, set: &PodSet, pod: usize, subject: Endpoint) -> bool {
        let living = &self.snapshot.pods()[pod];
        // Host-network pods are their node: no selector finds them. The terminated are nowhere.
        !living.host_network
            && !living.terminated
            && living.external == set.external
            && self.namespace(&set.namespaces, pod, subject)
            && set.pods.matches(&living.labels)
            && set.account.as_ref().is_none_or(|account| living.account == *account)
    }

    /// Whether the pod's namespace is among these.
    fn namespace(&self, namespaces: &Namespaces, pod: usize, subject: Endpoint) -> bool {
        let subjects = match subject {
            Endpoint::Pod(subject) => Some(self.snapshot.namespace_of(subject)),
            Endpoint::Node(_) | Endpoint::Service(_) => None,
        };
        namespaces.hold(self.snapshot.namespace_of(pod), subjects)
    }

    /// Returns whether the other end is one of the peers.
    pub fn peers(&self, peers: &Peers, party: Party, subject: Endpoint, flow: &Flow) -> bool {
        match peers {
            Peers::Any => true,
            Peers::Of(peers) => peers.iter().any(|peer| self.peer(peer, party, subject, flow)),
        }
    }

    /// Returns whether the other end is this peer.
    pub fn peer(&self, peer: &Peer, party: Party, subject: Endpoint, flow: &Flow) -> bool {
        let resolved = resolve::peer(peer, &self.snapshot).ok().flatten();
        resolved.is_some_and(|peer| self.resolved_peer(peer, party, subject, flow))
    }

    /// Returns whether the other end is this peer of a resolved rule.
    pub fn resolved_peer(
        &self,
        peer: ResolvedPeer<'_>,
        party: Party,
        subject: Endpoint,
        flow: &Flow,
    ) -> bool {
        match peer {
            ResolvedPeer::Pods(set) => self.is_among(set, party, subject),
            ResolvedPeer::Addresses(blocks) => self.is_in(blocks, party),
            ResolvedPeer::Nodes(selector) => self.is_node(selector, party),
            ResolvedPeer::Names(names) => self.is_named(names, party),
            ResolvedPeer::Service(name) => self.is_through(name, flow),
            ResolvedPeer::Group(members) => {
                members.iter().any(|member| self.resolved_peer(member.into(), party, subject, flow))
            }
        }
    }

    pub(crate) fn is_named(&self, names: &[DomainName], party: Party) -> bool {
        party.address.is_some_and(|address| self.snapshot.is_named(address, names))
    }

    pub(crate) fn is_through(&self, service: &ServiceName, flow: &Flow) -> bool {
        flow.via.is_some_and(|via| self.is_called(via, service))
    }

    pub(crate) fn is_among(&self, set: &PodSet, party: Party, subject: Endpoint) -> bool {
        matches!(party.who, Who::Pod(pod) if self.holds(set, pod, subject))
    }

    pub(crate) fn is_in(&self, blocks: &[Block], party: Party) -> bool {
        let covered = self.options.ip_block_matches_pods || !self.is_pod(party);
        covered && party.address.is_some_and(|address| blocks.iter().any(|block| block.contains(address)))
    }

    pub(crate) fn is_node(&self, selector: &Selector, party: Party) -> bool {
        self.node_of(party).is_some_and(|node| selector.matches(&self.snapshot.nodes()[node].labels))
    }
}

/// What does not depend on policies.
impl<C: Parties> Context<'_, C> {
    /// The service that a connection comes in through from outside.
    pub fn entrance(&self, flow: &Flow) -> Option<usize> {
        let via = flow.via?;
        let inside = self.is_pod(flow.source) || self.node_of(flow.source).is_some();
        (!inside).then_some(via)
    }

    /// Returns the traffic of a connection, as rules are compared with it.
    #[inline]
    pub fn carried<'a>(&'a self, flow: &'a Flow) -> CarriedTraffic<'a, C> {
        // The family matters to ICMP alone.
        let is_ipv6 = flow.traffic.protocol == Protocol::Icmp && family(flow) == Some(Family::V6);
        CarriedTraffic { point: Point::new(flow.traffic, is_ipv6), context: self, flow }
    }

    /// Returns whether the traffic of a connection is among these. For many rules, make a [`Context::carried`] once.
    pub fn carries(&self, matches: &TrafficMatches, flow: &Flow) -> bool {
        self.carried(flow).is_among(matches)
    }

    /// What a port's name stands for at the destination. Only pods in the pod network name their ports.
    pub fn named_port(&self, destination: Party, name: &str, protocol: Protocol) -> Option<u16> {
        match destination.who {
            Who::Pod(pod) if !self.snapshot.pod(pod).host_network => {
                named_port(self.snapshot.pod(pod).ports, name, protocol)
            }
            _ => None,
        }
    }

    /// Whether the party is a pod of the pod network.
    pub fn is_pod(&self, party: Party) -> bool {
        matches!(party.who, Who::Pod(pod) if {
            let pod = self.snapshot.pod(pod);
            !pod.host_network && !pod.external
        })
    }

    /// The node that the party is, itself or as a host-network pod.
    pub fn node_of(&self, party: Party) -> Option<usize> {
        match party.who {
            Who::Node(node) => Some(node),
            Who::Pod(pod) => {
                let pod = self.snapshot.pod(pod);
                let counts = pod.host_network && self.options.host_network_pods == HostNetworkPods::Node;
                if counts { pod.node.and_then(|name| self.snapshot.node_named(name)) } else { None }
            }
            Who::Outside => None,
        }
    }

    /// Whether the party is the node that the pod runs on. The node need not be declared to be known by name.
    pub fn is_own_node(&self, party: Party, pod: usize) -> bool {
        let home = self.snapshot.pod(pod).node;
        match party.who {
            Who::Node(node) => home == Some(&self.snapshot.node(node).name),
            Who::Pod(other) => {
                let other = self.snapshot.pod(other);
                let counts = other.host_network && self.options.host_network_pods == HostNetworkPods::Node;
                counts && home.is_some() && other.node == home
            }
            // Without the Node itself, the pod's status still tells the address of its node.
            Who::Outside => {
                let hosts = self.snapshot.pod(pod).host_addresses;
                party.address.is_some_and(|address| hosts.contains(&address))
            }
        }
    }
}

// === impl Namespaces ===

impl Namespaces {
    /// Whether a namespace is among these. `subjects` is the one that relative namespaces are relative to.
    pub fn hold(&self, own: &Namespace, subjects: Option<&Namespace>) -> bool {
        match (self, subjects) {
            (Namespaces::Named(name), _) => own.name == *name,
            (Namespaces::Matching(selector), _) => selector.matches(&own.labels),
            // Nodes have no namespace for others to be the same as, and services are for addresses.
            (_, None) => false,
            (Namespaces::Own, Some(subjects)) => own.name == subjects.name,
            // "To be selected a Namespace must have all of the labels defined, and they must all have the same value
            // as the subject. If empty then nothing is selected."
            (Namespaces::SameLabels(keys), Some(subjects)) => {
                let same =
                    |key| own.labels.get(key).is_some_and(|value| subjects.labels.get(key) == Some(value));
                !keys.is_empty() && keys.iter().all(|key| same(key.as_str()))
            }
            // "… all of the labels, and at least one of them must have different values than the subject."
            (Namespaces::NotSameLabels(keys), Some(subjects)) => {
                let all = keys.iter().all(|key| own.labels.get(key).is_some());
                all && keys.iter().any(|key| own.labels.get(key) != subjects.labels.get(key))
            }
        }
    }
}

// === impl PodFacts ===

impl<'s> From<&'s Pod> for PodFacts<'s> {
    fn from(pod: &'s Pod) -> Self {
        PodFacts {
            node: pod.node.as_ref(),
            host_addresses: &pod.host_addresses,
            ports: &pod.ports,
            host_network: pod.host_network,
            external: pod.external,
            stand_in: pod.stand_in.is_some(),
        }
    }
}

impl Context<'_> {
    /// The other end of a connection, seen from one direction's subject.
    pub fn ends(flow: &Flow, direction: Direction) -> (Party, Party) {
        match direction {
            Direction::Egress => (flow.source, flow.destination),
            Direction::Ingress => (flow.destination, flow.source),
        }
    }
}

/// The traffic of a connection, with its receiver.
#[derive(Debug)]
pub struct CarriedTraffic<'a, C = Snapshot> {
    point: Point,
    context: &'a Context<'a, C>,
    flow: &'a Flow,
}

// === impl CarriedTraffic ===

impl<C: Parties> CarriedTraffic<'_, C> {
    /// Returns whether it is among these.
    #[inline]
    pub fn is_among(&self, matches: &TrafficMatches) -> bool {
        matches.covers(self.point, self)
    }
}

impl<C: Parties> Receiver for CarriedTraffic<'_, C> {
    fn port_named(&self, name: &str, protocol: Protocol) -> Option<u16> {
        self.context.named_port(self.flow.destination, name, protocol)
    }

    fn addressing(&self) -> Addressing {
        match self.flow.destination.address {
            Some(address) if address.is_multicast() => Addressing::Group(address),
            _ => Addressing::Host,
        }
    }
}

/// The address family of a connection, if either end has an address.
pub(crate) fn family(flow: &Flow) -> Option<Family> {
    flow.destination.address.or(flow.source.address).map(Family::of)
}
