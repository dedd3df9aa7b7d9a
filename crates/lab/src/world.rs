//! The objects of manifests, completed with what a cluster would have added: addresses, nodes, and pods for templates.
//!
//! - A pod without an address gets one of each family from [`PODS4`] and [`PODS6`], a node from [`NODES4`] and [`NODES6`].
//! - A Service that gets a cluster address when it is created, and has none in its manifest, gets one of each family from [`SERVICES4`]
//!   and [`SERVICES6`].
//! - A pod without a node is on one of the lab's own, `lab`; a pod of its node's network that does not say which has
//!   a node to itself, so that nobody becomes anybody's own node by this.
//! - A template that stands for pods becomes one pod, of the same name.
//!
//! Policies can tell such a pod from what the manifests say (a block can hold its new address). [`LabWorld::differs`] knows
//! where that matters.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use palisade_model::address::Family;
use palisade_model::cluster::{Node, Owner, Pod, Service};
use palisade_model::evaluate::evaluate;
use palisade_model::flow::{Flow, Party, Who};
use palisade_model::options::Options;
use palisade_model::snapshot::{Objects, Snapshot};
use palisade_model::trace::Verdict;
use smol_str::{SmolStr, format_smolstr};

/// Where pods get their addresses: shared address space, which manifests hardly use.
pub const PODS4: Ipv4Addr = Ipv4Addr::new(100, 80, 0, 0);
/// The same of IPv6: a unique local range.
pub const PODS6: Ipv6Addr = Ipv6Addr::new(0xfd70, 0x616c, 0, 1, 0, 0, 0, 0);
/// Where nodes get theirs.
pub const NODES4: Ipv4Addr = Ipv4Addr::new(100, 96, 0, 0);
/// The same of IPv6.
pub const NODES6: Ipv6Addr = Ipv6Addr::new(0xfd70, 0x616c, 0, 2, 0, 0, 0, 0);

/// Where services get their cluster addresses.
pub const SERVICES4: Ipv4Addr = Ipv4Addr::new(100, 112, 0, 0);
/// The same of IPv6.
pub const SERVICES6: Ipv6Addr = Ipv6Addr::new(0xfd70, 0x616c, 0, 3, 0, 0, 0, 0);

/// The node of pods that have none.
const NODE: &str = "lab";

/// Objects that can be built: every pod has a node and an address, every node and service an address.
#[derive(Debug)]
pub struct LabWorld {
    /// As the manifests say.
    pub given: Snapshot,
    /// With everything that was added. Pods, nodes and services have the same indices as in `given`; added nodes come last.
    pub snapshot: Snapshot,
    /// The objects of that.
    pub objects: Objects,
    /// What was added, in words.
    pub notes: Vec<String>,
    /// Addresses of every node there is, also of those that no Node object declares: the first ones to be reached by.
    pub nodes: BTreeMap<SmolStr, Vec<IpAddr>>,
    /// Addresses that several claim.
    pub shared: BTreeSet<IpAddr>,
}

// === impl LabWorld ===

impl LabWorld {
    /// Completes the objects.
    pub fn new(objects: Objects) -> LabWorld {
        let given = Snapshot::new(objects.clone());
        let mut taken = Taken::of(&given, &objects);
        let mut notes = Vec::new();
        let mut names: BTreeSet<(SmolStr, SmolStr)> = BTreeSet::new();
        let (mut addressed, mut housed, mut stood_in) = (0, 0, 0);
        // In the snapshot's order, so that everybody keeps the place.
        let mut pods: Vec<Pod> = Vec::with_capacity(given.pods().len());
        for pod in given.pods() {
            let mut pod = pod.clone();
            let first = names.insert((pod.namespace.clone(), pod.name.clone()));
            if let Some(kind) = pod.stand_in.clone().filter(|_| first) {
                pod.owner = Some(Owner { kind, name: pod.name.clone() });
                pod.stand_in = None;
                stood_in += 1;
            }
            if !pod.terminated && !pod.external && pod.stand_in.is_none() {
                if pod.node.is_none() {
                    pod.node = Some(match pod.host_network {
                        true => format_smolstr!("{NODE}-{}-{}", pod.namespace, pod.name),
                        false => NODE.into(),
                    });
                    housed += 1;
                }
                if pod.addresses.is_empty() && !pod.host_network {
                    pod.addresses = taken.fresh(PODS4, PODS6);
                    addressed += 1;
                }
            }
            pods.push(pod);
        }
        for (count, what) in [
            (stood_in, "a template became one pod"),
            (addressed, "without an address, which the lab gave"),
            (housed, "without a node, which the lab gave"),
        ] {
            if count > 0 {
                notes.push(format!("{count} × {what}"));
            }
        }
        let mut objects = Objects { pods, ..objects };
        let nodes = house(&mut objects, &mut taken);
        let unaddressed =
            |service: &&mut Service| service.has_cluster_address() && service.addresses.is_empty();
        for service in objects.services.iter_mut().filter(unaddressed) {
            service.addresses = taken.fresh(SERVICES4, SERVICES6);
        }
        let snapshot = Snapshot::new(objects.clone());
        let shared = shared(&snapshot, &nodes);
        LabWorld { given, snapshot, objects, notes, nodes, shared }
    }

    /// A flow of the manifests' world, between the same two, with the addresses they have here.
    pub fn flow(&self, flow: &Flow) -> Flow {
        let placed = self.snapshot.flow(
            (flow.source.who, flow.source.address),
            (flow.destination.who, flow.destination.address),
            flow.traffic,
        );
        Flow { via: flow.via, ..placed }
    }

    /// Whether what was added makes another verdict of it.
    pub fn differs(&self, flow: &Flow, options: &Options) -> bool {
        let before = evaluate(&self.given, flow, options).verdict;
        before != self.verdict(&self.flow(flow), options)
    }

    /// What becomes of a flow of this world.
    pub fn verdict(&self, flow: &Flow, options: &Options) -> Verdict {
        evaluate(&self.snapshot, flow, options).verdict
    }

    /// The node whose network a party is in, or whose pod it is; nobody's for the outside.
    pub fn node_of(&self, party: Party) -> Option<&SmolStr> {
        match party.who {
            Who::Pod(pod) => self.snapshot.pods()[pod].node.as_ref().filter(|_| !self.is_outside(party)),
            Who::Node(node) => Some(&self.snapshot.nodes()[node].name),
            Who::Outside => None,
        }
    }

    /// Whether it is outside of the cluster: nobody we know, or an external entity.
    pub fn is_outside(&self, party: Party) -> bool {
        match party.who {
            Who::Pod(pod) => self.snapshot.pods()[pod].external,
            Who::Node(_) => false,
            Who::Outside => true,
        }
    }
}

/// Gives every node that pods are on an address of each family, and adds to pods of its network what they need.
fn house(objects: &mut Objects, taken: &mut Taken) -> BTreeMap<SmolStr, Vec<IpAddr>> {
    let mut nodes: BTreeMap<SmolStr, Vec<IpAddr>> = BTreeMap::new();
    for Node { name, addresses, .. } in &objects.nodes {
        nodes.entry(name.clone()).or_default().extend(addresses.iter().copied());
    }
    for pod in objects.pods.iter().filter(|pod| !pod.terminated && !pod.external) {
        let Some(node) = &pod.node else { continue };
        let own = nodes.entry(node.clone()).or_default();
        let more = pod.host_addresses.iter().chain(pod.addresses.iter().filter(|_| pod.host_network));
        own.extend(more.copied());
    }
    for addresses in nodes.values_mut() {
        let fresh = taken.fresh(NODES4, NODES6);
        addresses.extend(fresh);
        let mut seen = BTreeSet::new();
        addresses.retain(|address| seen.insert(*address));
    }
    for pod in objects.pods.iter_mut().filter(|pod| pod.host_network && pod.addresses.is_empty()) {
        if let Some(addresses) = pod.node.as_ref().and_then(|node| nodes.get(node)) {
            pod.addresses = one_of_each(addresses);
        }
    }
    for node in objects.nodes.iter_mut().filter(|node| node.addresses.is_empty()) {
        node.addresses = nodes.get(&node.name).map(|own| one_of_each(own)).unwrap_or_default();
    }
    nodes
}

fn one_of_each(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let first = |family| addresses.iter().find(|address| Family::of(**address) == family).copied();
    [first(Family::V4), first(Family::V6)].into_iter().flatten().collect()
}

/// The addresses that more than one claims.
fn shared(snapshot: &Snapshot, nodes: &BTreeMap<SmolStr, Vec<IpAddr>>) -> BTreeSet<IpAddr> {
    let mut seen = BTreeSet::new();
    let mut shared = BTreeSet::new();
    let pods = snapshot.pods().iter().filter(|pod| !pod.terminated && !pod.host_network);
    let services = snapshot.services().iter().flat_map(|s| s.addresses.iter().chain(&s.external_addresses));
    let all = pods.flat_map(|pod| &pod.addresses).chain(nodes.values().flatten()).chain(services);
    for address in all {
        if !seen.insert(*address) {
            shared.insert(*address);
        }
    }
    shared
}

/// Addresses that are somebody's, and how far the lab's own ranges are used.
struct Taken {
    all: BTreeSet<IpAddr>,
    next: u32,
}

// === impl Taken ===

impl Taken {
    fn of(snapshot: &Snapshot, objects: &Objects) -> Taken {
        let mut all: BTreeSet<IpAddr> = BTreeSet::new();
        for pod in snapshot.pods() {
            all.extend(pod.addresses.iter().chain(&pod.host_addresses).copied());
        }
        all.extend(snapshot.nodes().iter().flat_map(|node| node.addresses.iter().copied()));
        for service in snapshot.services() {
            all.extend(service.addresses.iter().chain(&service.external_addresses).copied());
        }
        all.extend(objects.names.values().flatten().copied());
        all.extend(objects.endpoints.iter().flat_map(|endpoints| endpoints.ready.iter().copied()));
        Taken { all, next: 0 }
    }

    /// One address of each family, the next that are free.
    fn fresh(&mut self, four: Ipv4Addr, six: Ipv6Addr) -> Vec<IpAddr> {
        loop {
            self.next += 1;
            let four = Ipv4Addr::from(u32::from(four) + self.next);
            let six = Ipv6Addr::from(u128::from(six) + u128::from(self.next));
            let both = [IpAddr::from(four), IpAddr::from(six)];
            if both.iter().all(|address| !self.all.contains(address)) {
                self.all.extend(both);
                return both.to_vec();
            }
        }
    }
}
