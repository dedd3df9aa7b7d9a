//! Endpoints that nothing in any policy can tell apart by what they are: pods of one namespace with the same labels, as
//! far as selectors ask for them; hosts; intervals of outside addresses.
//!
//! One family of addresses at a time: an endpoint that has only addresses of the other family is not there, and one that
//! has none at all (a template, a pod that has not started) goes along with both.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::ops::Range;

use palisade_model::address::Family;
use palisade_model::cluster::Pod;
use palisade_model::flow::{Party, Who};
use palisade_model::group::Members;
use palisade_model::label::Labels;
use palisade_model::matching::{Context, Parties};
use palisade_model::policy::{Peer, Peers, PodSet, Subject, TrafficMatch, TrafficMatches};
use palisade_model::snapshot::Snapshot;
use palisade_model::traffic::Protocol;
use smol_str::SmolStr;

use super::cuts::Cuts;

/// Endpoints alike.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    /// Who they are.
    pub whose: Whose,
    /// The interval that their address is in; `None` for those without address.
    pub interval: Option<u32>,
    /// What a rule about where connections go asks about them.
    pub destination: DestinationId,
}

/// Who is in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Whose {
    /// Pods, or external entities: a sample, and the namespace, by their places.
    Pods(usize, usize),
    /// A node, and pods in its network; `None` where it is not known which.
    Host(Option<usize>),
    /// Addresses that are nobody's.
    Outside,
}

/// What traffic rules ask about a destination: named ports, multicast groups.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination {
    /// Its ports that some rule names.
    pub ports: Vec<(SmolStr, Protocol, u16)>,
    /// For multicast addresses: the group, where a rule names it.
    pub multicast: Option<Option<IpAddr>>,
}

/// An interned destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DestinationId(pub u32);

/// All groups: pods by namespace, then hosts, then intervals of outside addresses in their order.
#[derive(Debug)]
pub struct Groups<'s> {
    /// The cluster, with the options.
    pub context: Context<'s>,
    /// Which family.
    pub family: Family,
    list: Vec<Group>,
    /// For each namespace its groups.
    namespaces: Vec<Range<u32>>,
    hosts: Range<u32>,
    outside: Range<u32>,
    /// For each pod its group.
    pods: Vec<Option<u32>>,
    /// For each node its group.
    nodes: Vec<Option<u32>>,
    /// Those with an address, by its interval.
    addressed: Vec<(u32, u32)>,
    /// Groups of pods by a label.
    labelled: HashMap<(&'s str, &'s str), Vec<u32>>,
    destinations: Vec<Destination>,
}

/// What tells pods apart.
#[derive(PartialEq, Eq, Hash)]
struct PodKey<'s> {
    namespace: usize,
    labels: Vec<(&'s str, &'s str)>,
    account: Option<&'s str>,
    external: bool,
    interval: Option<u32>,
    destination: DestinationId,
}

/// What policies ask about pods.
#[derive(Default)]
struct Asked<'s> {
    keys: BTreeSet<&'s str>,
    accounts: bool,
    ports: BTreeSet<&'s str>,
}

// === impl Groups ===

impl<'s> Groups<'s> {
    /// Sorts everybody who has an address of the family, or none at all.
    pub fn new(context: Context<'s>, family: Family, cuts: &Cuts) -> Self {
        let snapshot = context.snapshot;
        let asked = Asked::by(snapshot);
        let mut destinations = Destinations::default();
        let mut groups = Groups {
            context,
            family,
            list: Vec::new(),
            namespaces: Vec::with_capacity(snapshot.namespaces().len()),
            hosts: 0..0,
            outside: 0..0,
            pods: vec![None; snapshot.pods().len()],
            nodes: vec![None; snapshot.nodes().len()],
            addressed: Vec::new(),
            labelled: HashMap::new(),
            destinations: Vec::new(),
        };
        groups.place_pods(&asked, cuts, &mut destinations);
        groups.place_hosts(cuts);
        let first = number(groups.list.len());
        for at in 0..cuts.len(family) {
            let (start, end) = cuts.interval(family, at);
            // A multicast group that a rule names is an interval of its own.
            let group = (start == end && cuts.groups().contains(&start)).then_some(start);
            let multicast = (!cuts.groups().is_empty() && start.is_multicast()).then_some(group);
            let destination = destinations.id(Destination { ports: Vec::new(), multicast });
            groups.list.push(Group { whose: Whose::Outside, interval: Some(number(at)), destination });
        }
        groups.outside = first..number(groups.list.len());
        groups.destinations = destinations.list;
        let inside = groups.list[..first as usize].iter().zip(0..);
        groups.addressed = inside.filter_map(|(group, at)| Some((group.interval?, at))).collect();
        groups.addressed.sort_unstable();
        groups
    }

    fn place_pods(&mut self, asked: &Asked<'s>, cuts: &Cuts, destinations: &mut Destinations) {
        let snapshot = self.context.snapshot;
        let mut known: HashMap<PodKey<'s>, u32> = HashMap::new();
        for (namespace, record) in snapshot.namespaces().iter().enumerate() {
            let first = number(self.list.len());
            known.clear();
            for at in snapshot.pods_in(&record.name) {
                let pod = &snapshot.pods()[at];
                if pod.terminated || pod.host_network {
                    continue;
                }
                let Some(interval) = self.interval(&pod.addresses, cuts) else { continue };
                let key = PodKey {
                    namespace,
                    labels: asked.labels(&pod.labels),
                    account: asked.accounts.then_some(&pod.account),
                    external: pod.external,
                    interval,
                    destination: destinations.id(asked.destination(pod)),
                };
                let group =
                    Group { whose: Whose::Pods(at, namespace), interval, destination: key.destination };
                let fresh = number(self.list.len());
                let place = *known.entry(key).or_insert_with_key(|key| {
                    for label in &key.labels {
                        self.labelled.entry(*label).or_default().push(fresh);
                    }
                    self.list.push(group);
                    fresh
                });
                self.pods[at] = Some(place);
            }
            self.namespaces.push(first..number(self.list.len()));
        }
    }

    fn place_hosts(&mut self, cuts: &Cuts) {
        let snapshot = self.context.snapshot;
        let first = number(self.list.len());
        let mut known: HashMap<(Option<usize>, Option<u32>), u32> = HashMap::new();
        let mut place = |list: &mut Vec<Group>, node: Option<usize>, interval: Option<u32>| {
            *known.entry((node, interval)).or_insert_with(|| {
                let destination = Destinations::PLAIN;
                list.push(Group { whose: Whose::Host(node), interval, destination });
                number(list.len()) - 1
            })
        };
        for (at, node) in snapshot.nodes().iter().enumerate() {
            if let Some(interval) = self.interval(&node.addresses, cuts) {
                self.nodes[at] = Some(place(&mut self.list, Some(at), interval));
            }
        }
        for (at, pod) in snapshot.pods().iter().enumerate() {
            if pod.host_network
                && !pod.terminated
                && let Some(interval) = self.interval(&pod.addresses, cuts)
            {
                let node = self.context.node_of(Party { who: Who::Pod(at), address: None });
                self.pods[at] = Some(place(&mut self.list, node, interval));
            }
        }
        self.hosts = first..number(self.list.len());
    }

    /// The interval of somebody's address; `None` for who is not there, in this family.
    fn interval(&self, addresses: &[IpAddr], cuts: &Cuts) -> Option<Option<u32>> {
        match addresses.iter().find(|address| Family::of(**address) == self.family) {
            Some(address) => Some(Some(number(cuts.interval_of(*address)))),
            None if addresses.is_empty() => Some(None),
            None => None,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// One of them.
    pub fn get(&self, group: u32) -> &Group {
        &self.list[group as usize]
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Group> {
        self.list.iter()
    }

    /// The outside.
    pub fn outside(&self) -> Range<u32> {
        self.outside.clone()
    }

    /// The hosts.
    pub fn hosts(&self) -> Range<u32> {
        self.hosts.clone()
    }

    /// A pod's group, where it is there.
    pub fn of_pod(&self, pod: usize) -> Option<u32> {
        self.pods[pod]
    }

    /// A node's group, where it is there.
    pub fn of_node(&self, node: usize) -> Option<u32> {
        self.nodes[node]
    }

    /// What rules ask about a destination.
    pub fn destination(&self, id: DestinationId) -> &Destination {
        &self.destinations[id.0 as usize]
    }

    /// The groups of a namespace.
    pub fn of_namespace(&self, namespace: usize) -> Range<u32> {
        self.namespaces[namespace].clone()
    }

    /// The groups with a label, in order.
    pub fn labelled(&self, label: (&'s str, &'s str)) -> &[u32] {
        self.labelled.get(&label).map(Vec::as_slice).unwrap_or_default()
    }

    /// Those whose address is in these intervals, without the outside.
    pub fn addressed(&self, first: u32, last: u32) -> impl Iterator<Item = u32> {
        let start = self.addressed.partition_point(|(interval, _)| *interval < first);
        self.addressed[start..].iter().take_while(move |(interval, _)| *interval <= last).map(|(_, at)| *at)
    }
}

pub(super) fn number(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

// === impl Destinations ===

#[derive(Debug)]
struct Destinations {
    list: Vec<Destination>,
    ids: HashMap<Destination, DestinationId>,
}

impl Default for Destinations {
    fn default() -> Self {
        let ids = HashMap::from([(Destination::default(), Destinations::PLAIN)]);
        Destinations { list: vec![Destination::default()], ids }
    }
}

impl Destinations {
    /// Nothing that any rule asks about.
    const PLAIN: DestinationId = DestinationId(0);

    fn id(&mut self, destination: Destination) -> DestinationId {
        if let Some(id) = self.ids.get(&destination) {
            return *id;
        }
        let id = DestinationId(number(self.list.len()));
        self.list.push(destination.clone());
        self.ids.insert(destination, id);
        id
    }
}

// === impl Asked ===

impl<'s> Asked<'s> {
    fn by(snapshot: &'s Snapshot) -> Self {
        let mut asked = Asked::default();
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
                            Peer::Group(group) => asked.members(snapshot.group(group).unwrap_or_default()),
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
                Subject::Group { group, .. } => self.members(snapshot.group(group).unwrap_or_default()),
                Subject::Nodes(_) | Subject::Service(_) => {}
            }
        }
    }

    fn members(&mut self, members: &'s [Members]) {
        for member in members {
            if let Members::Pods(set) = member {
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
            TrafficMatch::From(_, of) => self.traffic(of),
            _ => {}
        }
    }

    /// The labels that some selector asks for.
    fn labels(&self, labels: &'s Labels) -> Vec<(&'s str, &'s str)> {
        labels.iter().filter(|(key, _)| self.keys.contains(key)).collect()
    }

    /// What rules ask about the pod as a destination.
    fn destination(&self, pod: &Pod) -> Destination {
        if self.ports.is_empty() || pod.ports.is_empty() {
            return Destination::default();
        }
        let named = |port: &palisade_model::cluster::ContainerPort| {
            let name = port.name.as_ref().filter(|name| self.ports.contains(name.as_str()))?;
            // The first one of a name counts.
            (pod.named_port(name, port.protocol) == Some(port.number))
                .then(|| (name.clone(), port.protocol, port.number))
        };
        let mut ports: Vec<(SmolStr, Protocol, u16)> = pod.ports.iter().filter_map(named).collect();
        ports.sort();
        ports.dedup();
        Destination { ports, multicast: None }
    }
}

impl Groups<'_> {
    /// The namespace of a group of pods.
    pub fn namespace(&self, group: u32) -> Option<usize> {
        match self.get(group).whose {
            Whose::Pods(_, namespace) => Some(namespace),
            _ => None,
        }
    }

    /// Whether a group is external entities, which are no pods.
    pub fn is_external(&self, group: u32) -> bool {
        matches!(self.get(group).whose, Whose::Pods(sample, _) if Parties::pod(self.context.snapshot, sample).external)
    }
}
