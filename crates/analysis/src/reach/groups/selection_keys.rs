//! Attributes of pods and destinations that policies select by: no others distinguish endpoints.

use std::collections::BTreeSet;

use palisade_model::cluster::{ContainerPort, Pod};
use palisade_model::group::GroupName;
use palisade_model::label::Labels;
use palisade_model::policy::{Peer, Peers, PodSet, PortMatch, Subject, TrafficMatch, TrafficMatches};
use palisade_model::resolve::GroupMember;
use palisade_model::snapshot::Snapshot;
use palisade_model::traffic::Protocol;
use smol_str::SmolStr;

use super::{Destination, DestinationId, FastMap, number};

/// Attributes that policies select pods by.
#[derive(Default)]
pub(super) struct SelectionKeys<'s> {
    keys: BTreeSet<&'s str>,
    /// Whether some policy selects service accounts.
    pub accounts: bool,
    ports: BTreeSet<&'s str>,
    /// Groups whose members are included already.
    groups: BTreeSet<&'s GroupName>,
}

/// Interned destinations.
#[derive(Debug)]
pub(super) struct DestinationTable {
    pub list: Vec<Destination>,
    ids: FastMap<Destination, DestinationId>,
}

// === impl SelectionKeys ===

impl<'s> SelectionKeys<'s> {
    pub(super) fn by(snapshot: &'s Snapshot) -> Self {
        let mut asked = SelectionKeys::default();
        for policy in snapshot.policies() {
            for isolation in &policy.isolations {
                asked.subjects(snapshot, &isolation.subjects);
            }
            for rule in &policy.rules {
                asked.subjects(snapshot, &rule.subjects);
                if let Peers::Of(peers) = &rule.peers {
                    for peer in peers {
                        match peer {
                            Peer::Pods(set) => asked.set(set),
                            Peer::Group(group) => asked.group(snapshot, group),
                            _ => {}
                        }
                    }
                }
                if let TrafficMatches::Of(matches) = &rule.traffic {
                    matches.iter().for_each(|one| asked.traffic(one));
                }
            }
        }
        asked
    }

    fn subjects(&mut self, snapshot: &'s Snapshot, subjects: &'s [Subject]) {
        for subject in subjects {
            match subject {
                Subject::Pods(set) => self.set(set),
                Subject::Group { group, .. } => self.group(snapshot, group),
                Subject::Nodes(_) | Subject::Service(_) => {}
            }
        }
    }

    fn group(&mut self, snapshot: &'s Snapshot, group: &'s GroupName) {
        if !self.groups.insert(group) {
            return;
        }
        for member in snapshot.group(group).unwrap_or_default() {
            if let GroupMember::Pods(set) = member {
                self.set(set);
            }
        }
    }

    fn set(&mut self, set: &'s PodSet) {
        self.keys.extend(set.pods.requirements().iter().map(|requirement| requirement.key.as_str()));
        self.accounts |= set.account.is_some();
    }

    fn traffic(&mut self, one: &'s TrafficMatch) {
        match one {
            TrafficMatch::Named(_, name) => {
                self.ports.insert(name);
            }
            TrafficMatch::From(_, port) => match &**port {
                PortMatch::Named(_, name) => {
                    self.ports.insert(name);
                }
                PortMatch::Numbers(..) => {}
            },
            TrafficMatch::Ports(..)
            | TrafficMatch::Icmp(_)
            | TrafficMatch::Igmp(..)
            | TrafficMatch::Unknown(_) => {}
        }
    }

    /// Returns the labels whose key some selector has.
    pub(super) fn labels(&self, labels: &'s Labels) -> Vec<(&'s str, &'s str)> {
        labels.iter().filter(|(key, _)| self.keys.contains(key)).collect()
    }

    /// Returns the attributes of a pod as a destination.
    pub(super) fn destination(&self, pod: &Pod) -> Destination {
        if self.ports.is_empty() || pod.ports.is_empty() {
            return Destination::default();
        }
        let named = |port: &ContainerPort| {
            let name = port.name.as_ref().filter(|name| self.ports.contains(name.as_str()))?;
            // The first port of a name counts.
            (pod.named_port(name, port.protocol) == Some(port.number))
                .then(|| (name.clone(), port.protocol, port.number))
        };
        let mut ports: Vec<(SmolStr, Protocol, u16)> = pod.ports.iter().filter_map(named).collect();
        ports.sort();
        ports.dedup();
        Destination { ports, ..Destination::default() }
    }
}

// === impl DestinationTable ===

impl Default for DestinationTable {
    fn default() -> Self {
        let ids = FastMap::from_iter([(Destination::default(), DestinationTable::PLAIN)]);
        DestinationTable { list: vec![Destination::default()], ids }
    }
}

impl DestinationTable {
    /// A destination without attributes.
    pub(super) const PLAIN: DestinationId = DestinationId(0);

    pub(super) fn id(&mut self, destination: Destination) -> DestinationId {
        if let Some(id) = self.ids.get(&destination) {
            return *id;
        }
        let id = DestinationId(number(self.list.len()));
        self.list.push(destination.clone());
        self.ids.insert(destination, id);
        id
    }
}
