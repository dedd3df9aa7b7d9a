//! Endpoints that nothing in any policy can tell apart by what they are: pods of one namespace with the same labels, as
//! far as selectors ask for them; hosts; intervals of outside addresses.
//!
//! One family of addresses at a time: an endpoint that has only addresses of the other family is not there, and one that
//! has none at all (a template, a pod that has not started) goes along with both.

mod asked;

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::ops::Range;

use palisade_model::address::Family;
use palisade_model::cluster::Pod;
use palisade_model::flow::{Party, Who};
use palisade_model::matching::{Context, Parties};
use palisade_model::traffic::Protocol;
use palisade_model::traffic_set::{Addressing, Receiver};
use smol_str::SmolStr;

use super::cuts::Cuts;
use asked::{Asked, Destinations};

/// With hashes that are quick, and seeded: objects are written by others.
pub(super) type Table<K, V> = HashMap<K, V, foldhash::quality::RandomState>;

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
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination {
    /// Its ports that some rule names.
    pub ports: Vec<(SmolStr, Protocol, u16)>,
    /// Where connections to it are addressed to.
    pub addressing: Addressing,
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
    /// What somebody with several addresses of the family is by those after the first, with the addresses.
    further: Table<Who, Vec<(u32, IpAddr)>>,
    /// Those with an address, by its interval.
    addressed: Vec<(u32, u32)>,
    /// Of those, whom address blocks mean.
    in_blocks: Vec<(u32, u32)>,
    /// Groups of pods by a label.
    labelled: Table<(&'s str, &'s str), Vec<u32>>,
    destinations: Vec<Destination>,
}

/// The interval that was found last: the next address is often in it too.
#[derive(Debug, Default)]
struct Near(Option<(IpAddr, IpAddr, u32)>);

/// What tells pods of a namespace apart.
#[derive(PartialEq, Eq, Hash)]
struct PodKey<'s> {
    labels: Vec<(&'s str, &'s str)>,
    account: Option<&'s str>,
    external: bool,
    interval: Option<u32>,
    destination: DestinationId,
}

// === impl Destination ===

impl Default for Destination {
    fn default() -> Self {
        Destination { ports: Vec::new(), addressing: Addressing::Host }
    }
}

impl Receiver for Destination {
    fn port_named(&self, name: &str, protocol: Protocol) -> Option<u16> {
        let is_meant = |(own, of, _): &&(SmolStr, Protocol, u16)| own == name && *of == protocol;
        self.ports.iter().find(is_meant).map(|(.., number)| *number)
    }

    fn addressing(&self) -> Addressing {
        self.addressing
    }
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
            further: Table::default(),
            addressed: Vec::new(),
            in_blocks: Vec::new(),
            labelled: Table::default(),
            destinations: Vec::new(),
        };
        let on_hosts = groups.place_pods(&asked, cuts, &mut destinations);
        groups.place_hosts(&on_hosts, cuts);
        let first = number(groups.list.len());
        for at in 0..cuts.len(family) {
            let (start, end) = cuts.interval(family, at);
            // A multicast group that a rule names is an interval of its own.
            let is_named = start == end && cuts.groups().contains(&start);
            let addressing = match start.is_multicast() && !cuts.groups().is_empty() {
                true if is_named => Addressing::Group(start),
                true => Addressing::OtherGroup,
                false => Addressing::Host,
            };
            let destination = destinations.id(Destination { ports: Vec::new(), addressing });
            groups.list.push(Group { whose: Whose::Outside, interval: Some(number(at)), destination });
        }
        groups.outside = first..number(groups.list.len());
        groups.destinations = destinations.list;
        let inside = groups.list[..first as usize].iter().zip(0..);
        groups.addressed = inside.filter_map(|(group, at)| Some((group.interval?, at))).collect();
        groups.addressed.sort_unstable();
        let pods = context.options.ip_block_matches_pods;
        let meant = |(_, at): &&(u32, u32)| pods || !groups.is_pod(*at);
        groups.in_blocks = groups.addressed.iter().filter(meant).copied().collect();
        groups
    }

    /// Pods of the pod network. Says which ones are in their node's.
    fn place_pods(&mut self, asked: &Asked<'s>, cuts: &Cuts, destinations: &mut Destinations) -> Vec<usize> {
        let snapshot = self.context.snapshot;
        let mut on_hosts = Vec::new();
        let mut known: Table<PodKey<'s>, u32> = Table::default();
        let mut near = Near::default();
        for (namespace, record) in snapshot.namespaces().iter().enumerate() {
            let first = number(self.list.len());
            known.clear();
            // Pods of one workload follow each other, and are alike.
            let mut before: Option<(&Pod, u32)> = None;
            for at in snapshot.pods_in(&record.name) {
                let pod = &snapshot.pods()[at];
                if pod.terminated {
                    continue;
                }
                if pod.host_network {
                    on_hosts.push(at);
                    continue;
                }
                let Some(interval) = self.interval(&pod.addresses, cuts, &mut near) else { continue };
                if let Some((other, place)) = before
                    && pod.addresses.len() < 2
                    && self.list[place as usize].interval == interval
                    && are_alike(pod, other)
                {
                    self.pods[at] = Some(place);
                    continue;
                }
                let mut place = |groups: &mut Self, interval: Option<u32>| {
                    let key = PodKey {
                        labels: asked.labels(&pod.labels),
                        account: asked.accounts.then_some(&pod.account),
                        external: pod.external,
                        interval,
                        destination: destinations.id(asked.destination(pod)),
                    };
                    let group =
                        Group { whose: Whose::Pods(at, namespace), interval, destination: key.destination };
                    let fresh = number(groups.list.len());
                    *known.entry(key).or_insert_with_key(|key| {
                        for label in &key.labels {
                            groups.labelled.entry(*label).or_default().push(fresh);
                        }
                        groups.list.push(group);
                        fresh
                    })
                };
                let own = place(self, interval);
                self.pods[at] = Some(own);
                before = Some((pod, own));
                for (interval, address) in self.further_intervals(&pod.addresses, cuts) {
                    let group = place(self, Some(interval));
                    self.further.entry(Who::Pod(at)).or_default().push((group, address));
                }
            }
            self.namespaces.push(first..number(self.list.len()));
        }
        on_hosts
    }

    fn place_hosts(&mut self, pods: &[usize], cuts: &Cuts) {
        let snapshot = self.context.snapshot;
        let first = number(self.list.len());
        let mut near = Near::default();
        let mut known: Table<(Option<usize>, Option<u32>), u32> = Table::default();
        let mut place = |list: &mut Vec<Group>, node: Option<usize>, interval: Option<u32>| {
            *known.entry((node, interval)).or_insert_with(|| {
                let destination = Destinations::PLAIN;
                list.push(Group { whose: Whose::Host(node), interval, destination });
                number(list.len()) - 1
            })
        };
        for (at, node) in snapshot.nodes().iter().enumerate() {
            if let Some(interval) = self.interval(&node.addresses, cuts, &mut near) {
                self.nodes[at] = Some(place(&mut self.list, Some(at), interval));
            }
            for (interval, address) in self.further_intervals(&node.addresses, cuts) {
                let group = place(&mut self.list, Some(at), Some(interval));
                self.further.entry(Who::Node(at)).or_default().push((group, address));
            }
        }
        for at in pods {
            if let Some(interval) = self.interval(&snapshot.pods()[*at].addresses, cuts, &mut near) {
                let node = self.context.node_of(Party { who: Who::Pod(*at), address: None });
                self.pods[*at] = Some(place(&mut self.list, node, interval));
            }
        }
        self.hosts = first..number(self.list.len());
    }

    /// The interval of somebody's address; `None` for who is not there, in this family.
    fn interval(&self, addresses: &[IpAddr], cuts: &Cuts, near: &mut Near) -> Option<Option<u32>> {
        match addresses.iter().find(|address| Family::of(**address) == self.family) {
            Some(address) => Some(Some(near.interval_of(*address, cuts))),
            None if addresses.is_empty() => Some(None),
            None => None,
        }
    }

    /// The other intervals that somebody with several addresses of the family is in, with an address in each.
    fn further_intervals(&self, addresses: &[IpAddr], cuts: &Cuts) -> Vec<(u32, IpAddr)> {
        if addresses.len() < 2 {
            return Vec::new();
        }
        let own = addresses.iter().filter(|address| Family::of(**address) == self.family);
        let (mut found, mut known): (Vec<(u32, IpAddr)>, _) = (Vec::new(), BTreeSet::new());
        for address in own {
            let interval = number(cuts.interval_of(*address));
            if known.insert(interval) {
                found.push((interval, *address));
            }
        }
        found.drain(..found.len().min(1));
        found
    }

    /// What somebody with several addresses is by those after the first.
    pub fn further(&self, who: Who) -> &[(u32, IpAddr)] {
        self.further.get(&who).map(Vec::as_slice).unwrap_or_default()
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
        within(&self.addressed, first, last)
    }

    /// Those of them that address blocks mean: hosts and external entities, and pods where the option says so.
    pub fn in_blocks(&self, first: u32, last: u32) -> impl Iterator<Item = u32> {
        within(&self.in_blocks, first, last)
    }

    /// The namespace of a group of pods.
    pub fn namespace(&self, group: u32) -> Option<usize> {
        match self.get(group).whose {
            Whose::Pods(_, namespace) => Some(namespace),
            _ => None,
        }
    }

    /// Whether a group is pods of the pod network, and not external entities.
    fn is_pod(&self, group: u32) -> bool {
        matches!(self.get(group).whose, Whose::Pods(sample, _) if !Parties::pod(self.context.snapshot, sample).external)
    }
}

// === impl Near ===

impl Near {
    fn interval_of(&mut self, address: IpAddr, cuts: &Cuts) -> u32 {
        if let Some((first, last, at)) = self.0
            && first <= address
            && address <= last
        {
            return at;
        }
        let at = cuts.interval_of(address);
        let (first, last) = cuts.interval(Family::of(address), at);
        self.0 = Some((first, last, number(at)));
        number(at)
    }
}

/// Whether nothing that a policy can ask tells two pods of a namespace apart, but for their address.
fn are_alike(one: &Pod, other: &Pod) -> bool {
    one.labels == other.labels
        && one.ports == other.ports
        && one.account == other.account
        && one.external == other.external
}

fn within(list: &[(u32, u32)], first: u32, last: u32) -> impl Iterator<Item = u32> {
    let start = list.partition_point(|(interval, _)| *interval < first);
    list[start..].iter().take_while(move |(interval, _)| *interval <= last).map(|(_, at)| *at)
}

pub(super) fn number(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
