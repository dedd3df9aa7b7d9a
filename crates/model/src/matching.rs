//! The questions every evaluation is made of: is this pod in that set, this party that peer, this traffic that match?
//!
//! Three answers, not two: what cannot be read is [`Match::Unknown`], and what an unknown means depends on the rule's
//! action (it fails closed), which only the evaluator knows.

use std::net::IpAddr;

use smol_str::SmolStr;

use crate::address::{Block, Family};
use crate::cluster::{ContainerPort, Namespace, Node, Pod, named_port};
use crate::flow::{Flow, Party, Who};
use crate::group::Members;
use crate::label::Selector;
use crate::options::{HostNetworkPods, Options};
use crate::policy::{
    Direction, Namespaces, Peer, Peers, PodSet, PortMatch, Rule, ServiceName, Subject, TrafficMatch,
    TrafficMatches,
};
use crate::snapshot::Snapshot;
use crate::traffic::{PortRange, Protocol, Traffic};

/// Whether something matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// It does.
    Yes,
    /// It does not.
    No,
    /// Nobody can say.
    Unknown,
}

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

impl<'s> Context<'s> {
    /// What in a rule nobody can read: something as it is written, or a group that it names.
    pub fn unknown<'r>(&self, rule: &'r Rule) -> Option<&'r str>
    where
        's: 'r,
    {
        let broken = |peer: &'r Peer| match peer {
            Peer::Group(group) => self.snapshot.group(group).err(),
            _ => None,
        };
        let unreadable = |subject: &'r Subject| match subject {
            Subject::Group { group, .. } => self.snapshot.group(group).err(),
            _ => None,
        };
        rule.unknown()
            .or_else(|| match &rule.peers {
                Peers::Any => None,
                Peers::Of(peers) => peers.iter().find_map(broken),
            })
            .or_else(|| rule.subjects.iter().find_map(unreadable))
    }

    /// Whether a rule matches a connection, seen from its subject. A rule that holds anything unknown is unknown for
    /// every connection: what cannot be read may have widened it or narrowed it.
    pub fn rule(&self, rule: &Rule, subject: Endpoint, peer: Party, flow: &Flow) -> Match {
        match self.unknown(rule) {
            Some(_) => Match::Unknown,
            None if self.readable_rule(rule, subject, peer, flow) => Match::Yes,
            None => Match::No,
        }
    }

    /// The same for a rule that is known to hold nothing unknown.
    pub fn readable_rule(&self, rule: &Rule, subject: Endpoint, peer: Party, flow: &Flow) -> bool {
        // Comparing ports is far cheaper than comparing labels, and rules out most rules.
        self.traffics(&rule.traffic, flow) && self.peers(&rule.peers, peer, subject, flow)
    }

    /// Whether any of the subjects holds the endpoint.
    pub fn applies(&self, subjects: &[Subject], endpoint: Endpoint) -> bool {
        subjects.iter().any(|subject| match subject {
            Subject::Pods(set) => matches!(endpoint, Endpoint::Pod(pod) if self.holds(set, pod, endpoint)),
            Subject::Nodes(selector) => self.is_labelled(selector, endpoint),
            Subject::Service(name) => matches!(endpoint, Endpoint::Service(at) if self.is_called(at, name)),
            Subject::Group { group, within } => match self.snapshot.group(group) {
                Ok(members) => {
                    members.iter().any(|member| self.is_member(member, within.as_deref(), endpoint))
                }
                // Whoever it could have meant: rules that apply to it fail closed.
                Err(_) => match endpoint {
                    Endpoint::Pod(pod) => {
                        let own = &self.snapshot.namespace_of(pod).name;
                        within.as_ref().is_none_or(|namespace| own == namespace)
                    }
                    Endpoint::Node(_) => within.is_none(),
                    Endpoint::Service(_) => false,
                },
            },
        })
    }

    /// Whether the endpoint is a member, and in that namespace. Addresses are never whom a policy applies to.
    fn is_member(&self, member: &Members, within: Option<&str>, endpoint: Endpoint) -> bool {
        match (member, endpoint) {
            (Members::Pods(set), Endpoint::Pod(pod)) => {
                within.is_none_or(|namespace| self.snapshot.namespace_of(pod).name == namespace)
                    && self.holds(set, pod, endpoint)
            }
            (Members::Nodes(selector), _) => within.is_none() && self.is_labelled(selector, endpoint),
            _ => false,
        }
    }

    fn is_labelled(&self, selector: &Selector, endpoint: Endpoint) -> bool {
        matches!(endpoint, Endpoint::Node(node) if selector.matches(&self.snapshot.nodes()[node].labels))
    }

    /// Whether this is the Service of that name, and one that connections can go through.
    fn is_called(&self, service: usize, name: &ServiceName) -> bool {
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

    /// Whether the other end is one of the peers.
    pub fn peers(&self, peers: &Peers, party: Party, subject: Endpoint, flow: &Flow) -> bool {
        match peers {
            Peers::Any => true,
            Peers::Of(peers) => peers.iter().any(|peer| self.peer(peer, party, subject, flow)),
        }
    }

    /// Whether the other end is this peer.
    pub fn peer(&self, peer: &Peer, party: Party, subject: Endpoint, flow: &Flow) -> bool {
        match peer {
            Peer::Pods(set) => self.is_among(set, party, subject),
            Peer::Addresses(block) => self.is_in(std::slice::from_ref(block), party),
            Peer::Nodes(selector) => self.is_node(selector, party),
            Peer::Names(names) => party.address.is_some_and(|address| self.snapshot.is_named(address, names)),
            Peer::Service(name) => flow.via.is_some_and(|via| self.is_called(via, name)),
            Peer::Group(group) => self.snapshot.group(group).is_ok_and(|members| {
                members.iter().any(|member| match member {
                    Members::Pods(set) => self.is_among(set, party, subject),
                    Members::Nodes(selector) => self.is_node(selector, party),
                    Members::Addresses(blocks) => self.is_in(blocks, party),
                    _ => false,
                })
            }),
            Peer::Unknown(_) => false,
        }
    }

    fn is_among(&self, set: &PodSet, party: Party, subject: Endpoint) -> bool {
        matches!(party.who, Who::Pod(pod) if self.holds(set, pod, subject))
    }

    fn is_in(&self, blocks: &[Block], party: Party) -> bool {
        let covered = self.options.ip_block_matches_pods || !self.is_pod(party);
        covered && party.address.is_some_and(|address| blocks.iter().any(|block| block.contains(address)))
    }

    fn is_node(&self, selector: &Selector, party: Party) -> bool {
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

    /// Whether the connection's traffic is one of these.
    pub fn traffics(&self, matches: &TrafficMatches, flow: &Flow) -> bool {
        match matches {
            TrafficMatches::Any => true,
            TrafficMatches::Of(matches) => matches.iter().any(|one| self.traffic(one, flow)),
        }
    }

    /// Whether the traffic is this. A port's name means the destination pod's port of that name.
    pub fn traffic(&self, wanted: &TrafficMatch, flow: &Flow) -> bool {
        let traffic = flow.traffic;
        match wanted {
            TrafficMatch::Ports(protocol, range) => is_to_port(*protocol, *range, traffic),
            TrafficMatch::Named(protocol, name) => self.is_to_name(*protocol, name, flow),
            // A connection comes from some ephemeral port: a question that names none is matched by a rule for all of them.
            TrafficMatch::From(range, port) => {
                let asked = traffic.source_port.map_or(PortRange::EPHEMERAL, PortRange::single);
                range.contains(asked.first)
                    && range.contains(asked.last)
                    && match &**port {
                        PortMatch::Numbers(protocol, range) => is_to_port(*protocol, *range, traffic),
                        PortMatch::Named(protocol, name) => self.is_to_name(*protocol, name, flow),
                    }
            }
            TrafficMatch::Icmp(wanted) => {
                let (kind, code) = icmp(flow);
                traffic.protocol == Protocol::Icmp && wanted.contains(kind, code)
            }
            TrafficMatch::Igmp(kind, group) => {
                traffic.protocol == Protocol::Igmp
                    && kind.is_none_or(|kind| traffic.icmp.is_some_and(|(asked, _)| asked == kind))
                    && group.is_none_or(|group| match flow.destination.address {
                        Some(address) if address.is_multicast() => address == group,
                        // Asked about who receives it, it may be about any group.
                        _ => true,
                    })
            }
            TrafficMatch::Unknown(_) => false,
        }
    }

    /// Whether the connection goes to the port that has this name at its destination.
    fn is_to_name(&self, protocol: Option<Protocol>, name: &str, flow: &Flow) -> bool {
        let traffic = flow.traffic;
        protocol.is_none_or(|protocol| protocol == traffic.protocol)
            && traffic.protocol.has_ports()
            && self.named_port(flow.destination, name, traffic) == Some(traffic.port)
    }

    /// What a port's name stands for at the destination. Only pods in the pod network name their ports.
    pub fn named_port(&self, destination: Party, name: &str, traffic: Traffic) -> Option<u16> {
        match destination.who {
            Who::Pod(pod) if !self.snapshot.pod(pod).host_network => {
                named_port(self.snapshot.pod(pod).ports, name, traffic.protocol)
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

/// Whether the connection goes to one of these ports.
fn is_to_port(protocol: Protocol, range: PortRange, traffic: Traffic) -> bool {
    protocol == traffic.protocol && protocol.has_ports() && range.contains(traffic.port)
}

/// Type and code of an ICMP question. One that names no type is about a ping, and one that names no code about code 0.
fn icmp(flow: &Flow) -> (u8, u8) {
    let six = flow.destination.address.or(flow.source.address).map(Family::of) == Some(Family::V6);
    let ping = if six { 128 } else { 8 };
    flow.traffic.icmp.map_or((ping, 0), |(kind, code)| (kind, code.unwrap_or(0)))
}
