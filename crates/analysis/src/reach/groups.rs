//! Groups of endpoints with the same attributes: pods of one namespace with the same selected labels; hosts; intervals of
//! outside addresses.
//!
//! Groups are of one address family: an endpoint with addresses of the other family only has none, and one without any
//! address (a template, a pod that has not started) has one in both.

mod selection_keys;

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
use selection_keys::{DestinationTable, SelectionKeys};

/// Hash map with a fast, seeded hash: keys are untrusted input.
pub(super) type FastMap<K, V> = HashMap<K, V, foldhash::quality::RandomState>;

/// Endpoints with the same attributes.
#[derive(Debug, Clone, Copy)]
pub struct EndpointGroup {
    /// Kind of the endpoints, with a sample.
    pub kind: GroupKind,
    /// Interval of their address; `None` for those without an address.
    pub interval: Option<u32>,
    /// Attributes that rules check on a destination.
    pub destination: DestinationId,
}

/// Kind of the endpoints of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GroupKind {
    /// Pods or external entities: indices of a sample and of its namespace.
    Pods(usize, usize),
    /// A node and pods in its network; `None` for an unknown node.
    Host(Option<usize>),
    /// Addresses outside of the cluster.
    Outside,
}

/// Attributes of a destination that traffic of rules depends on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination {
    /// Its named ports that some rule has.
    pub ports: Vec<(SmolStr, Protocol, u16)>,
    /// Whether it is a host, a multicast group or all systems.
    pub addressing: Addressing,
}

/// An interned destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DestinationId(pub u32);

/// All groups: pods by namespace, then hosts, then intervals of outside addresses in their order.
#[derive(Debug)]
pub struct EndpointGroups<'s> {
    /// The cluster and the options.
    pub context: Context<'s>,
    /// Address family of the groups.
    pub family: Family,
    list: Vec<EndpointGroup>,
    /// Groups of each namespace.
    namespaces: Vec<Range<u32>>,
    hosts: Range<u32>,
    outside: Range<u32>,
    /// Group of each pod.
    pods: Vec<Option<u32>>,
    /// Group of each node.
    nodes: Vec<Option<u32>>,
    /// Additional groups of endpoints with several addresses of the family, with the address of each.
    additional: FastMap<Who, Vec<(u32, IpAddr)>>,
    /// Groups with an address, sorted by its interval.
    addressed: Vec<(u32, u32)>,
    /// Those of `addressed` that address blocks match.
    in_blocks: Vec<(u32, u32)>,
    /// Groups of pods by label.
    labelled: FastMap<(&'s str, &'s str), Vec<u32>>,
    destinations: Vec<Destination>,
}

/// The interval found last: the next address is often in it.
#[derive(Debug, Default)]
struct IntervalCache(Option<(IpAddr, IpAddr, u32)>);

/// Attributes that distinguish groups of pods in a namespace.
#[derive(PartialEq, Eq, Hash)]
struct PodGroupKey<'s> {
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

// === impl EndpointGroups ===

impl<'s> EndpointGroups<'s> {
    /// Groups all endpoints with an address of the family, or without any.
    pub fn new(context: Context<'s>, family: Family, cuts: &Cuts) -> Self {
        let snapshot = context.snapshot;
        let asked = SelectionKeys::by(snapshot);
        let mut destinations = DestinationTable::default();
        let mut groups = EndpointGroups {
            context,
            family,
            list: Vec::new(),
            namespaces: Vec::with_capacity(snapshot.namespaces().len()),
            hosts: 0..0,
            outside: 0..0,
            pods: vec![None; snapshot.pods().len()],
            nodes: vec![None; snapshot.nodes().len()],
            additional: FastMap::default(),
            addressed: Vec::new(),
            in_blocks: Vec::new(),
            labelled: FastMap::default(),
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
            groups.list.push(EndpointGroup {
                kind: GroupKind::Outside,
                interval: Some(number(at)),
                destination,
            });
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

    /// Groups pods of the pod network, and returns those in their node's network.
    fn place_pods(
        &mut self,
        asked: &SelectionKeys<'s>,
        cuts: &Cuts,
        destinations: &mut DestinationTable,
    ) -> Vec<usize> {
        let snapshot = self.context.snapshot;
        let mut on_hosts = Vec::new();
        let mut known: FastMap<PodGroupKey<'s>, u32> = FastMap::default();
        let mut near = IntervalCache::default();
        for (namespace, record) in snapshot.namespaces().iter().enumerate() {
            let first = number(self.list.len());
            known.clear();
            // Pods of one workload are neighbours, and mostly equivalent.
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
                    && are_equivalent(pod, other)
                {
                    self.pods[at] = Some(place);
                    continue;
                }
                let mut place = |groups: &mut Self, interval: Option<u32>| {
                    let key = PodGroupKey {
                        labels: asked.labels(&pod.labels),
                        account: asked.accounts.then_some(&pod.account),
                        external: pod.external,
                        interval,
                        destination: destinations.id(asked.destination(pod)),
                    };
                    let group = EndpointGroup {
                        kind: GroupKind::Pods(at, namespace),
                        interval,
                        destination: key.destination,
                    };
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
                    self.additional.entry(Who::Pod(at)).or_default().push((group, address));
                }
            }
            self.namespaces.push(first..number(self.list.len()));
        }
        on_hosts
    }

    fn place_hosts(&mut self, pods: &[usize], cuts: &Cuts) {
        let snapshot = self.context.snapshot;
        let first = number(self.list.len());
        let mut near = IntervalCache::default();
        let mut known: FastMap<(Option<usize>, Option<u32>), u32> = FastMap::default();
        let mut place = |list: &mut Vec<EndpointGroup>, node: Option<usize>, interval: Option<u32>| {
            *known.entry((node, interval)).or_insert_with(|| {
                let destination = DestinationTable::PLAIN;
                list.push(EndpointGroup { kind: GroupKind::Host(node), interval, destination });
                number(list.len()) - 1
            })
        };
        for (at, node) in snapshot.nodes().iter().enumerate() {
            if let Some(interval) = self.interval(&node.addresses, cuts, &mut near) {
                self.nodes[at] = Some(place(&mut self.list, Some(at), interval));
            }
            for (interval, address) in self.further_intervals(&node.addresses, cuts) {
                let group = place(&mut self.list, Some(at), Some(interval));
                self.additional.entry(Who::Node(at)).or_default().push((group, address));
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

    /// Returns the interval of an endpoint's address; `None` if it has addresses of the other family only.
    fn interval(&self, addresses: &[IpAddr], cuts: &Cuts, near: &mut IntervalCache) -> Option<Option<u32>> {
        match addresses.iter().find(|address| Family::of(**address) == self.family) {
            Some(address) => Some(Some(near.interval_of(*address, cuts))),
            None if addresses.is_empty() => Some(None),
            None => None,
        }
    }

    /// Returns further intervals of an endpoint with several addresses of the family, with an address in each.
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

    /// Returns the additional groups of an endpoint with several addresses.
    pub fn additional(&self, who: Who) -> &[(u32, IpAddr)] {
        self.additional.get(&who).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the number of groups.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns a group.
    pub fn get(&self, group: u32) -> &EndpointGroup {
        &self.list[group as usize]
    }

    /// Returns all groups in order.
    pub fn iter(&self) -> impl Iterator<Item = &EndpointGroup> {
        self.list.iter()
    }

    /// Returns the groups of outside addresses.
    pub fn outside(&self) -> Range<u32> {
        self.outside.clone()
    }

    /// Returns the groups of hosts.
    pub fn hosts(&self) -> Range<u32> {
        self.hosts.clone()
    }

    /// Returns a pod's group.
    pub fn of_pod(&self, pod: usize) -> Option<u32> {
        self.pods[pod]
    }

    /// Returns a node's group.
    pub fn of_node(&self, node: usize) -> Option<u32> {
        self.nodes[node]
    }

    /// Returns the attributes of a destination.
    pub fn destination(&self, id: DestinationId) -> &Destination {
        &self.destinations[id.0 as usize]
    }

    /// Returns the groups of a namespace.
    pub fn of_namespace(&self, namespace: usize) -> Range<u32> {
        self.namespaces[namespace].clone()
    }

    /// Returns the groups with a label, in order.
    pub fn labelled(&self, label: (&'s str, &'s str)) -> &[u32] {
        self.labelled.get(&label).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the groups whose address is in these intervals, without the outside.
    pub fn addressed(&self, first: u32, last: u32) -> impl Iterator<Item = u32> {
        within(&self.addressed, first, last)
    }

    /// Returns those of [`EndpointGroups::addressed`] that address blocks match: hosts, external entities, and pods if the
    /// option is set.
    pub fn in_blocks(&self, first: u32, last: u32) -> impl Iterator<Item = u32> {
        within(&self.in_blocks, first, last)
    }

    /// Returns the namespace of a group of pods.
    pub fn namespace(&self, group: u32) -> Option<usize> {
        match self.get(group).kind {
            GroupKind::Pods(_, namespace) => Some(namespace),
            _ => None,
        }
    }

    /// Whether a group is pods of the pod network, and not external entities.
    fn is_pod(&self, group: u32) -> bool {
        matches!(self.get(group).kind, GroupKind::Pods(sample, _) if !Parties::pod(self.context.snapshot, sample).external)
    }
}

// === impl IntervalCache ===

impl IntervalCache {
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

/// Whether two pods of a namespace have the same attributes, except for their address.
fn are_equivalent(one: &Pod, other: &Pod) -> bool {
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
