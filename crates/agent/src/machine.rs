//! Which pods are on this machine, and how it reaches them.
//!
//! ```text
//!   Pod manifests (status.podIPs, spec.nodeName) ─┐
//!   Machine manifests (addresses, interfaces) ────┼─► the objects with this machine in them, and its wiring
//!   `ip -j address`, here and in namespaces ──────┘
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use palisade_model::cluster::{Machine, MachinePod, Node, Owner, Pod};
use palisade_model::label::Labels;
use palisade_model::snapshot::Objects;
use palisade_nftables::compile::live::Wiring;
use palisade_nftables::program::Interface;
use smol_str::SmolStr;

use self::network::{Link, Network, NetworkError};
use crate::state::PodState;

pub mod network;

/// Finds pods on this machine, and remembers where they were.
#[derive(Debug)]
pub struct Finder<N> {
    network: N,
    /// The name of the node, if somebody said it.
    asked: Option<SmolStr>,
    /// The machine's interfaces, when they were last read.
    links: Option<Vec<Link>>,
    /// Those in network namespaces.
    inside: BTreeMap<SmolStr, Inside>,
    /// Whose the addresses are that were found in network namespaces: who comes later does not get them.
    owners: BTreeMap<IpAddr, SmolStr>,
    /// Where pods were when they were last found.
    known: BTreeMap<String, PodState>,
}

/// What is known of a network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Inside {
    /// Its interfaces.
    Links(Vec<Link>),
    /// There is none of that name.
    Nothing,
    /// It cannot be read, and why; and what was read last: for a moment it has not lost its addresses.
    Unreadable(String, Option<Vec<Link>>),
}

/// Where everything is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The node that this machine is.
    pub node: SmolStr,
    /// Which interfaces lead to pods.
    pub wiring: Wiring,
    /// The machine's own addresses.
    pub own: BTreeSet<IpAddr>,
    /// Its pods.
    pub pods: Vec<PodState>,
    /// What is odd, in words.
    pub notes: Vec<String>,
    /// What is not in force because of it.
    pub troubles: Vec<String>,
    /// What cannot be meant.
    pub errors: Vec<String>,
}

/// What a network namespace has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Found {
    addresses: Vec<IpAddr>,
    /// Interfaces of this machine that lead there.
    interfaces: Vec<SmolStr>,
}

/// The label that nodes carry with their name.
const HOSTNAME: &str = "kubernetes.io/hostname";

// === impl Finder ===

impl<N: Network> Finder<N> {
    /// Finds by this network; the node is the one that is asked for, if one is.
    pub fn new(network: N, asked: Option<&str>) -> Self {
        Finder {
            network,
            asked: asked.map(Into::into),
            links: None,
            inside: BTreeMap::new(),
            owners: BTreeMap::new(),
            known: BTreeMap::new(),
        }
    }

    /// Takes over from one who found pods before.
    pub fn remember(&mut self, pods: &[PodState]) {
        self.known = pods.iter().map(|pod| (pod.pod.clone(), pod.clone())).collect();
    }

    /// Looks at the machine again. Says whether anything is another than it was: a reason to place everything anew.
    pub fn look(&mut self) -> Result<bool, NetworkError> {
        let links = self.network.links(None)?;
        let mut changed = self.links.as_ref() != Some(&links);
        self.links = Some(links);
        for (name, was) in &mut self.inside {
            let now = Inside::read(&self.network, name, Some(was));
            changed |= now != *was;
            *was = now;
        }
        Ok(changed)
    }

    /// Whether there is more to look at than the machine's own interfaces: what happens in a network namespace, nobody tells.
    pub fn has_namespaces(&self) -> bool {
        !self.inside.is_empty()
    }

    /// Puts this machine into the objects: its node, and the addresses of its pods. What was read before is not read again: that is
    /// what [`Finder::look`] is for. Fails only if the machine's own interfaces cannot be read.
    pub fn place(&mut self, objects: &mut Objects, machines: &[Machine]) -> Result<Place, NetworkError> {
        let links = match self.links.take() {
            Some(links) => links,
            None => self.network.links(None)?,
        };
        let place = self.place_by(&links, objects, machines);
        self.links = Some(links);
        Ok(place)
    }

    fn place_by(&mut self, links: &[Link], objects: &mut Objects, machines: &[Machine]) -> Place {
        let addresses = |scope: Option<&str>| -> BTreeSet<IpAddr> {
            let all = links.iter().flat_map(|link| &link.addresses);
            all.filter(|(_, own)| scope.is_none_or(|scope| own == scope))
                .map(|(address, _)| *address)
                .collect()
        };
        let (own, global) = (addresses(None), addresses(Some("global")));
        let node = self.node(objects, machines, &own);
        let written = written(objects, machines, &own);
        let mut place = Place { node: node.clone(), own, ..Place::default() };
        let mut owners: BTreeMap<IpAddr, SmolStr> = BTreeMap::new();
        for machine in machines {
            let here = machine.name == node;
            for entry in &machine.pods {
                let mut found = self.found(entry, here, links, &mut place);
                if entry.addresses.is_empty() {
                    self.claim(entry, &mut found, &written, machines, &mut owners, &mut place.notes);
                }
                settle(objects, entry, (&machine.name, machines), &found, &mut place);
                if here {
                    wire(objects, entry, &found, &mut place);
                }
            }
        }
        let namespaces: BTreeSet<&SmolStr> = machines
            .iter()
            .flat_map(|machine| &machine.pods)
            .filter_map(|pod| pod.network_namespace.as_ref())
            .collect();
        self.inside.retain(|name, _| namespaces.contains(name));
        self.owners = owners;
        stand(objects, &node, &global);
        place.pods = pods(objects, &node, &place.wiring);
        self.remember(&place.pods);
        if place.pods.is_empty() {
            place
                .notes
                .push(format!("no pod is on node {node}: only rules about the node itself are in force"));
        }
        place
    }

    /// Which node this machine is: what somebody says; the node with an address of ours; a Machine of our name, or the only one
    /// there is; else our name.
    fn node(&self, objects: &Objects, machines: &[Machine], own: &BTreeSet<IpAddr>) -> SmolStr {
        if let Some(asked) = &self.asked {
            return asked.clone();
        }
        let ours = |node: &&Node| node.addresses.iter().any(|address| own.contains(address));
        if let Some(node) = objects.nodes.iter().find(ours) {
            return node.name.clone();
        }
        let name = self.network.name();
        let known = objects.nodes.iter().any(|node| node.name == name);
        match machines {
            [only] if !known => only.name.clone(),
            _ => name,
        }
    }

    /// Where a pod of a machine is.
    fn found(&mut self, pod: &MachinePod, here: bool, links: &[Link], place: &mut Place) -> Found {
        let who = format!("{}/{}", pod.namespace, pod.name);
        let is_there = |name: &str| links.iter().any(|link| link.name == name);
        if let Some(interface) = pod.interface.as_ref().filter(|name| here && !is_there(name)) {
            place.notes.push(format!("{who}: there is no interface {interface} yet"));
        }
        let Some(name) = &pod.network_namespace else {
            let interfaces = pod.interface.iter().cloned().collect();
            return Found { addresses: pod.addresses.clone(), interfaces };
        };
        if !here {
            return Found { addresses: pod.addresses.clone(), interfaces: Vec::new() };
        }
        let network = &self.network;
        let inside = self.inside.entry(name.clone()).or_insert_with(|| Inside::read(network, name, None));
        let mut found = match inside.links() {
            Some(inside) => Found::of(inside, links, pod.interface.as_ref()),
            // What cannot be looked into, or has lost its name while its interface is there, has not lost its addresses.
            None => match self.known.get(&who) {
                Some(known)
                    if !matches!(inside, Inside::Nothing)
                        || known.interface.as_deref().is_some_and(is_there) =>
                {
                    let interfaces = known.interface.iter().map(SmolStr::from).collect();
                    Found { addresses: known.addresses.clone(), interfaces }
                }
                _ => Found::default(),
            },
        };
        let bridge = inside.links().into_iter().flatten().find_map(|link| {
            let near = links.iter().find(|near| {
                link.peer == Some(near.index) && near.peer == Some(link.index) && near.bridge.is_some()
            });
            near.and_then(|near| near.bridge.clone())
        });
        if let Some(bridge) = bridge.filter(|_| !self.network.sees_bridged()) {
            let trouble = format!(
                "{who}: it is behind the bridge {bridge}, and the kernel does not show bridged packets to nftables: between pods of \
                 that bridge no rule is in force (modprobe br_netfilter; sysctl net.bridge.bridge-nf-call-iptables=1 \
                 net.bridge.bridge-nf-call-ip6tables=1)"
            );
            place.notes.push(trouble.clone());
            place.troubles.push(trouble);
        }
        let kept = inside.links().is_none() && !found.addresses.is_empty();
        let notes = &mut place.notes;
        if !pod.addresses.is_empty() {
            found.addresses.clone_from(&pod.addresses);
        }
        match inside {
            Inside::Links(_) if found.addresses.is_empty() => {
                notes.push(format!("{who}: network namespace {name} has no address yet"));
            }
            Inside::Links(_) => {}
            Inside::Nothing if kept => {
                notes.push(format!(
                    "{who}: network namespace {name} has lost its name, and its interface is there: the addresses it had are kept"
                ));
            }
            Inside::Nothing => {
                notes.push(format!("{who}: there is no network namespace {name} yet, so it has no address"));
            }
            Inside::Unreadable(why, _) if !found.addresses.is_empty() => {
                notes.push(format!("{who}: {why}; the addresses it had are kept"));
            }
            Inside::Unreadable(why, _) => {
                let trouble =
                    format!("{who}: {why}; nobody knows its address, so no rule is in force for it");
                notes.push(trouble.clone());
                place.troubles.push(trouble);
            }
        }
        found
    }

    /// Leaves a pod only those of the addresses in its network namespace that are nobody else's: whoever is in there may give itself any.
    fn claim(
        &self,
        entry: &MachinePod,
        found: &mut Found,
        written: &BTreeMap<IpAddr, String>,
        machines: &[Machine],
        owners: &mut BTreeMap<IpAddr, SmolStr>,
        notes: &mut Vec<String>,
    ) {
        let who: SmolStr = format!("{}/{}", entry.namespace, entry.name).into();
        let has_still = |owner: &str, address: IpAddr| {
            let entries = machines.iter().flat_map(|machine| &machine.pods);
            let mut own = entries.filter(|pod| format!("{}/{}", pod.namespace, pod.name) == owner);
            own.any(|pod| {
                let inside = pod.network_namespace.as_ref().and_then(|name| self.inside.get(name)?.links());
                inside.is_some_and(|links| Found::of(links, &[], None).addresses.contains(&address))
            })
        };
        found.addresses.retain(|address| {
            let before = self.owners.get(address).filter(|owner| has_still(owner, *address));
            let owner = written.get(address).map(String::as_str).or(before.map(SmolStr::as_str));
            match owner.or(owners.get(address).map(SmolStr::as_str)).filter(|owner| *owner != who) {
                Some(owner) => {
                    notes.push(format!(
                        "{who}: its network namespace has {address}, which is {owner}'s: it does not get it, and what comes \
                         from there with it is forged"
                    ));
                    false
                }
                None => {
                    owners.insert(*address, who.clone());
                    true
                }
            }
        });
    }
}

// === impl Inside ===

impl Inside {
    fn read(network: &impl Network, name: &str, before: Option<&Inside>) -> Inside {
        match network.links(Some(name)) {
            Ok(links) => Inside::Links(links),
            Err(NetworkError::NoNamespace(_)) => Inside::Nothing,
            Err(error) => {
                let before = before.and_then(Inside::links).map(<[Link]>::to_vec);
                Inside::Unreadable(error.to_string(), before)
            }
        }
    }

    /// What is known of its interfaces.
    fn links(&self) -> Option<&[Link]> {
        match self {
            Inside::Links(links) | Inside::Unreadable(_, Some(links)) => Some(links),
            _ => None,
        }
    }
}

// === impl Found ===

impl Found {
    /// From the links inside of a namespace and those of this machine.
    fn of(inside: &[Link], here: &[Link], named: Option<&SmolStr>) -> Found {
        let mut found = Found::default();
        found.interfaces.extend(named.cloned());
        for link in inside.iter().filter(|link| !link.loopback) {
            let global = link.addresses.iter().filter(|(_, scope)| scope == "global");
            found.addresses.extend(global.map(|(address, _)| *address));
            // The two ends of a veth pair name each other.
            let other = here.iter().find(|other| {
                link.peer == Some(other.index) && other.peer == Some(link.index) && other.bridge.is_none()
            });
            if named.is_none() {
                found.interfaces.extend(other.map(|other| other.name.clone()));
            }
        }
        found
    }
}

/// Gives a pod its place; makes it if no manifest has it.
fn settle(
    objects: &mut Objects,
    entry: &MachinePod,
    (node, machines): (&SmolStr, &[Machine]),
    found: &Found,
    place: &mut Place,
) {
    let notes = &mut place.notes;
    let who = format!("{}/{}", entry.namespace, entry.name);
    let at = objects.pods.iter().position(|pod| is(pod, entry));
    let pod = match at {
        Some(at) => &mut objects.pods[at],
        None => {
            let made = template(objects, entry).unwrap_or_else(|| {
                let meant = meant(objects, entry, machines);
                if meant.is_empty() {
                    notes.push(format!("{who}: no manifest of the pod, so it has no labels"));
                } else {
                    let at = entry.at.as_ref().map(|at| format!("{at}: ")).unwrap_or_default();
                    let meant = meant.join(", ");
                    place.errors.push(format!("{at}there is no pod {who}: did you mean {meant}?"));
                }
                Pod {
                    namespace: entry.namespace.clone(),
                    name: entry.name.clone(),
                    ready: true,
                    account: "default".into(),
                    at: entry.at.clone(),
                    ..Pod::default()
                }
            });
            objects.pods.push(made);
            let last = objects.pods.len() - 1;
            &mut objects.pods[last]
        }
    };
    match &pod.node {
        Some(other) if other != node => {
            notes.push(format!(
                "{who}: its manifest says node {other}, the Machine says {node}: {other} counts"
            ));
            return;
        }
        _ => pod.node = Some(node.clone()),
    }
    if pod.addresses.is_empty() {
        pod.addresses = found.addresses.clone();
    } else if let Some(other) = found.addresses.iter().find(|address| !pod.addresses.contains(address)) {
        notes
            .push(format!("{who}: has {other}, which its manifest does not say: rules are for what it says"));
    }
}

/// Pods and workloads whose names are nearly that, and who are nowhere yet.
fn meant(objects: &Objects, entry: &MachinePod, machines: &[Machine]) -> Vec<String> {
    let entries = || machines.iter().flat_map(|machine| &machine.pods);
    let pods = objects.pods.iter().filter(|pod| pod.addresses.is_empty() && pod.node.is_none());
    let templates = objects.workloads.iter().map(|workload| &workload.template);
    let nowhere = pods.chain(templates).filter(|pod| !entries().any(|entry| is(pod, entry)));
    let names: Vec<String> = nowhere.map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect();
    let who = format!("{}/{}", entry.namespace, entry.name);
    let near = palisade_model::nearest::nearest(&who, names.iter().map(String::as_str));
    near.into_iter().map(ToOwned::to_owned).collect()
}

/// The pod of a workload of this name.
fn template(objects: &Objects, entry: &MachinePod) -> Option<Pod> {
    let own = |pod: &Pod| is(pod, entry);
    let workload = objects.workloads.iter().find(|workload| own(&workload.template))?;
    let owner = Some(Owner { kind: workload.kind.clone(), name: entry.name.clone() });
    Some(Pod { owner, stand_in: None, ..workload.template.clone() })
}

fn is(pod: &Pod, entry: &MachinePod) -> bool {
    pod.namespace == entry.namespace && pod.name == entry.name
}

/// Which addresses may come by the interfaces that lead to a pod: its own.
fn wire(objects: &Objects, entry: &MachinePod, found: &Found, place: &mut Place) {
    let Some(pod) = objects.pods.iter().find(|pod| is(pod, entry)) else { return };
    if pod.host_network || pod.node.as_ref() != Some(&place.node) {
        return;
    }
    for name in &found.interfaces {
        // Names come from the kernel, or were checked when they were read.
        if let Some(interface) = Interface::new(name) {
            let own = place.wiring.entry(interface).or_default();
            own.extend(pod.addresses.iter().copied());
        }
    }
}

/// Whose addresses are that somebody wrote down, or that this machine has itself.
fn written(objects: &Objects, machines: &[Machine], own: &BTreeSet<IpAddr>) -> BTreeMap<IpAddr, String> {
    let mut written = BTreeMap::new();
    written.extend(own.iter().map(|address| (*address, "this machine".to_owned())));
    for node in &objects.nodes {
        written.extend(node.addresses.iter().map(|address| (*address, format!("node {}", node.name))));
    }
    for service in &objects.services {
        let name = format!("service {}/{}", service.namespace, service.name);
        written.extend(service.addresses.iter().map(|address| (*address, name.clone())));
    }
    for pod in objects.pods.iter().filter(|pod| !pod.host_network && !pod.terminated) {
        let name = format!("{}/{}", pod.namespace, pod.name);
        written.extend(pod.addresses.iter().map(|address| (*address, name.clone())));
    }
    for entry in machines.iter().flat_map(|machine| &machine.pods) {
        let name = format!("{}/{}", entry.namespace, entry.name);
        written.extend(entry.addresses.iter().map(|address| (*address, name.clone())));
    }
    written
}

/// A node for this machine, if no manifest has one; and addresses, if it has none.
fn stand(objects: &mut Objects, node: &SmolStr, global: &BTreeSet<IpAddr>) {
    let pods: BTreeSet<IpAddr> = objects.pods.iter().flat_map(|pod| pod.addresses.iter().copied()).collect();
    let own = || global.iter().filter(|address| !pods.contains(address)).copied().collect::<Vec<IpAddr>>();
    match objects.nodes.iter_mut().find(|known| known.name == *node) {
        Some(known) if known.addresses.is_empty() => known.addresses = own(),
        Some(_) => {}
        None => {
            let labels = Labels::new([(HOSTNAME.into(), node.clone())]);
            objects.nodes.push(Node { name: node.clone(), labels, addresses: own(), at: None });
        }
    }
    let addresses =
        objects.nodes.iter().find(|known| known.name == *node).map(|known| known.addresses.clone());
    for pod in objects.pods.iter_mut().filter(|pod| pod.host_network && pod.node.as_ref() == Some(node)) {
        if pod.addresses.is_empty() {
            pod.addresses = addresses.clone().unwrap_or_default();
        }
    }
}

fn pods(objects: &Objects, node: &SmolStr, wiring: &Wiring) -> Vec<PodState> {
    let here = |pod: &&Pod| pod.node.as_ref() == Some(node) && !pod.terminated && !pod.host_network;
    let mut pods: Vec<PodState> = objects
        .pods
        .iter()
        .filter(here)
        .map(|pod| {
            let leads = |own: &BTreeSet<IpAddr>| pod.addresses.iter().any(|address| own.contains(address));
            let interface = wiring.iter().find(|(_, own)| leads(own)).map(|(name, _)| name.to_string());
            PodState {
                pod: format!("{}/{}", pod.namespace, pod.name),
                addresses: pod.addresses.clone(),
                interface,
            }
        })
        .collect();
    pods.sort_by(|one, other| one.pod.cmp(&other.pod));
    pods
}

#[cfg(test)]
mod tests;
