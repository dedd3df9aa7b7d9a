//! The questions every evaluation is made of: is this pod in that set, this party that peer, this traffic that match?
//!
//! Three answers, not two: what cannot be read is [`Match::Unknown`], and what an unknown means depends on the rule's
//! action (it fails closed), which only the evaluator knows.

use crate::flow::{Flow, Party, Who};
use crate::options::{HostNetworkPods, Options};
use crate::policy::{Direction, Namespaces, Peer, Peers, PodSet, Rule, TrafficMatch, TrafficMatches};
use crate::snapshot::Snapshot;
use crate::traffic::Traffic;

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

/// Somebody to evaluate policies for: a snapshot with the options in force.
#[derive(Debug, Clone, Copy)]
pub struct Context<'s> {
    /// The cluster.
    pub snapshot: &'s Snapshot,
    /// The points left open.
    pub options: Options,
}

impl Context<'_> {
    /// Whether a rule matches a connection, seen from its subject. A rule that holds anything unknown is unknown for
    /// every connection: what cannot be read may have widened it or narrowed it.
    pub fn rule(&self, rule: &Rule, subject: usize, peer: Party, flow: &Flow) -> Match {
        match rule.unknown() {
            Some(_) => Match::Unknown,
            None if self.readable_rule(rule, subject, peer, flow) => Match::Yes,
            None => Match::No,
        }
    }

    /// The same for a rule that is known to hold nothing unknown.
    pub fn readable_rule(&self, rule: &Rule, subject: usize, peer: Party, flow: &Flow) -> bool {
        // Comparing ports is far cheaper than comparing labels, and rules out most rules.
        self.traffics(&rule.traffic, flow) && self.peers(&rule.peers, peer, subject)
    }

    /// Whether any of the subjects holds the pod.
    pub fn applies(&self, subjects: &[PodSet], pod: usize) -> bool {
        subjects.iter().any(|set| self.holds(set, pod, pod))
    }

    /// Whether the pod is in the set. `subject` is the pod that relative namespaces are relative to.
    pub fn holds(&self, set: &PodSet, pod: usize, subject: usize) -> bool {
        let living = &self.snapshot.pods()[pod];
        // Host-network pods are their node: no selector finds them. The terminated are nowhere.
        !living.host_network
            && !living.terminated
            && self.namespace(&set.namespaces, pod, subject)
            && set.pods.matches(&living.labels)
    }

    /// Whether the pod's namespace is among these.
    fn namespace(&self, namespaces: &Namespaces, pod: usize, subject: usize) -> bool {
        let own = self.snapshot.namespace_of(pod);
        let subjects = self.snapshot.namespace_of(subject);
        match namespaces {
            Namespaces::Named(name) => own.name == *name,
            Namespaces::Matching(selector) => selector.matches(&own.labels),
            Namespaces::Own => own.name == subjects.name,
            // "To be selected a Namespace must have all of the labels defined, and they must all have the same value
            // as the subject. If empty then nothing is selected."
            Namespaces::SameLabels(keys) => {
                let same =
                    |key| own.labels.get(key).is_some_and(|value| subjects.labels.get(key) == Some(value));
                !keys.is_empty() && keys.iter().all(|key| same(key.as_str()))
            }
            // "… all of the labels, and at least one of them must have different values than the subject."
            Namespaces::NotSameLabels(keys) => {
                let all = keys.iter().all(|key| own.labels.get(key).is_some());
                all && keys.iter().any(|key| own.labels.get(key) != subjects.labels.get(key))
            }
        }
    }

    /// Whether the other end is one of the peers.
    pub fn peers(&self, peers: &Peers, party: Party, subject: usize) -> bool {
        match peers {
            Peers::Any => true,
            Peers::Of(peers) => peers.iter().any(|peer| self.peer(peer, party, subject)),
        }
    }

    /// Whether the other end is this peer.
    pub fn peer(&self, peer: &Peer, party: Party, subject: usize) -> bool {
        match peer {
            Peer::Pods(set) => matches!(party.who, Who::Pod(pod) if self.holds(set, pod, subject)),
            Peer::Addresses(block) => {
                let covered = self.options.ip_block_matches_pods || !self.is_pod(party);
                covered && party.address.is_some_and(|address| block.contains(address))
            }
            Peer::Nodes(selector) => {
                self.node_of(party).is_some_and(|node| selector.matches(&self.snapshot.nodes()[node].labels))
            }
            Peer::Names(names) => party.address.is_some_and(|address| {
                self.snapshot.names_of(address).any(|known| names.iter().any(|name| name.matches(known)))
            }),
            Peer::Unknown(_) => false,
        }
    }

    /// Whether the connection's traffic is one of these.
    pub fn traffics(&self, matches: &TrafficMatches, flow: &Flow) -> bool {
        match matches {
            TrafficMatches::Any => true,
            TrafficMatches::Of(matches) => {
                matches.iter().any(|one| self.traffic(one, flow.traffic, flow.destination))
            }
        }
    }

    /// Whether the traffic is this. A port's name means the destination pod's port of that name.
    pub fn traffic(&self, wanted: &TrafficMatch, traffic: Traffic, destination: Party) -> bool {
        match wanted {
            TrafficMatch::Ports(protocol, range) => {
                *protocol == traffic.protocol && range.contains(traffic.port)
            }
            TrafficMatch::Named(protocol, name) => {
                protocol.is_none_or(|protocol| protocol == traffic.protocol)
                    && traffic.protocol.has_ports()
                    && self.named_port(destination, name, traffic) == Some(traffic.port)
            }
            TrafficMatch::Unknown(_) => false,
        }
    }

    /// What a port's name stands for at the destination. Only pods in the pod network name their ports.
    pub fn named_port(&self, destination: Party, name: &str, traffic: Traffic) -> Option<u16> {
        match destination.who {
            Who::Pod(pod) if !self.snapshot.pods()[pod].host_network => {
                self.snapshot.pods()[pod].named_port(name, traffic.protocol)
            }
            _ => None,
        }
    }

    /// Whether the party is a pod of the pod network.
    pub fn is_pod(&self, party: Party) -> bool {
        matches!(party.who, Who::Pod(pod) if !self.snapshot.pods()[pod].host_network)
    }

    /// The node that the party is, itself or as a host-network pod.
    pub fn node_of(&self, party: Party) -> Option<usize> {
        match party.who {
            Who::Node(node) => Some(node),
            Who::Pod(pod) => {
                let pod = &self.snapshot.pods()[pod];
                let counts = pod.host_network && self.options.host_network_pods == HostNetworkPods::Node;
                if counts { pod.node.as_ref().and_then(|name| self.snapshot.node(name)) } else { None }
            }
            Who::Outside => None,
        }
    }

    /// Whether the party is the node that the pod runs on. The node need not be declared to be known by name.
    pub fn is_own_node(&self, party: Party, pod: usize) -> bool {
        let home = self.snapshot.pods()[pod].node.as_ref();
        match party.who {
            Who::Node(node) => home == Some(&self.snapshot.nodes()[node].name),
            Who::Pod(other) => {
                let other = &self.snapshot.pods()[other];
                let counts = other.host_network && self.options.host_network_pods == HostNetworkPods::Node;
                counts && home.is_some() && other.node.as_ref() == home
            }
            // Without the Node itself, the pod's status still tells the address of its node.
            Who::Outside => {
                let hosts = &self.snapshot.pods()[pod].host_addresses;
                party.address.is_some_and(|address| hosts.contains(&address))
            }
        }
    }

    /// The other end of a connection, seen from one direction's subject.
    pub fn ends(flow: &Flow, direction: Direction) -> (Party, Party) {
        match direction {
            Direction::Egress => (flow.source, flow.destination),
            Direction::Ingress => (flow.destination, flow.source),
        }
    }
}
