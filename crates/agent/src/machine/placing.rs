//! Completes the objects with what was found on the machine: pods get addresses and a node, and the machine is a node.
//!
//! Objects are not changed where they are. Placing yields [`Overrides`]: the pods and nodes that are different from the written ones. A
//! value in a manifest takes precedence; where the machine disagrees, that is a note, because a rule for an address that no pod has is
//! easily missed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use palisade_model::cluster::{Machine, MachinePod, Node, Owner, Pod};
use palisade_model::label::Labels;
use palisade_nftables::compile::Wiring;
use palisade_nftables::program::Interface;
use smol_str::SmolStr;

use super::Placement;
use super::inside::Found;
use super::inventory::Inventory;
use crate::state::PodState;

/// The label that nodes carry with their name.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Pods and nodes that are different from the written ones, or not written at all, because of what this machine is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides {
    /// The pods.
    pub pods: Vec<Pod>,
    /// The nodes.
    pub nodes: Vec<Node>,
}

/// Identity of a pod: namespace, name, and whether it is an external entity.
type PodId = (SmolStr, SmolStr, bool);

/// An inventory with this machine in it.
pub(super) struct Placing<'i> {
    inventory: &'i dyn Inventory,
    pods: BTreeMap<PodId, Pod>,
    nodes: BTreeMap<SmolStr, Node>,
}

// === impl Placing ===

impl<'i> Placing<'i> {
    pub(super) fn new(inventory: &'i dyn Inventory) -> Self {
        Placing { inventory, pods: BTreeMap::new(), nodes: BTreeMap::new() }
    }

    /// Gives the pod of an entry its addresses and node; makes the pod if no manifest has it.
    pub(super) fn settle(
        &mut self,
        entry: &MachinePod,
        (node, machines): (&SmolStr, &[Machine]),
        found: &Found,
        placement: &mut Placement,
    ) {
        let who = format!("{}/{}", entry.namespace, entry.name);
        let mut pod = match self.pod(entry) {
            Some(pod) => pod.clone(),
            None => self.template(entry).unwrap_or_else(|| self.unwritten(entry, machines, placement)),
        };
        match &pod.node {
            Some(other) if other != node => {
                placement.notes.push(format!(
                    "{who}: its manifest says node {other}, the Machine says {node}: {other} counts"
                ));
                return self.put(pod);
            }
            _ => pod.node = Some(node.clone()),
        }
        if pod.addresses.is_empty() {
            pod.addresses = found.addresses.clone();
        } else if let Some(other) = found.addresses.iter().find(|address| !pod.addresses.contains(address)) {
            placement.notes.push(format!(
                "{who}: has {other}, which its manifest does not say: rules are for what it says"
            ));
        }
        self.put(pod);
    }

    /// Returns a pod for an entry that no manifest has a pod or a workload for.
    fn unwritten(&self, entry: &MachinePod, machines: &[Machine], placement: &mut Placement) -> Pod {
        let who = format!("{}/{}", entry.namespace, entry.name);
        let meant = self.meant(entry, machines);
        if meant.is_empty() {
            placement.notes.push(format!("{who}: no manifest of the pod, so it has no labels"));
        } else {
            let at = entry.at.as_ref().map(|at| format!("{at}: ")).unwrap_or_default();
            let meant = meant.join(", ");
            placement.errors.push(format!("{at}there is no pod {who}: did you mean {meant}?"));
        }
        Pod {
            namespace: entry.namespace.clone(),
            name: entry.name.clone(),
            ready: true,
            account: "default".into(),
            at: entry.at.clone(),
            ..Pod::default()
        }
    }

    /// Returns pods and workloads of similar names that are on no machine yet.
    fn meant(&self, entry: &MachinePod, machines: &[Machine]) -> Vec<String> {
        let entries = || machines.iter().flat_map(|machine| &machine.pods);
        let pods = self.pods().filter(|pod| pod.addresses.is_empty() && pod.node.is_none());
        let templates = self.inventory.workloads().map(|workload| &workload.template);
        let nowhere = pods.chain(templates).filter(|pod| !entries().any(|entry| is(pod, entry)));
        let names: Vec<String> = nowhere.map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect();
        let who = format!("{}/{}", entry.namespace, entry.name);
        let near = palisade_model::nearest::nearest(&who, names.iter().map(String::as_str));
        near.into_iter().map(ToOwned::to_owned).collect()
    }

    /// Returns the pod of a workload of this name.
    fn template(&self, entry: &MachinePod) -> Option<Pod> {
        let workload = self.inventory.workloads().find(|workload| is(&workload.template, entry))?;
        let owner = Some(Owner { kind: workload.kind.clone(), name: entry.name.clone() });
        Some(Pod { owner, stand_in: None, ..workload.template.clone() })
    }

    /// Lets the addresses of a pod come in by the interfaces that lead to it.
    pub(super) fn wire(&self, entry: &MachinePod, found: &Found, placement: &mut Placement) {
        let Some(pod) = self.pod(entry) else { return };
        if pod.host_network || pod.node.as_ref() != Some(&placement.node) {
            return;
        }
        for name in &found.interfaces {
            // Names come from the kernel, or were checked when they were read.
            if let Some(interface) = Interface::new(name) {
                let own = placement.wiring.entry(interface).or_default();
                own.extend(pod.addresses.iter().copied());
            }
        }
    }

    /// Makes this machine a node, if no manifest has one; gives it addresses, if it has none.
    pub(super) fn stand(&mut self, node: &SmolStr, global: &BTreeSet<IpAddr>) {
        let written = self.inventory.nodes().find(|known| known.name == *node);
        if written.is_none_or(|known| known.addresses.is_empty()) {
            let of_pods =
                self.pods().flat_map(|pod| &pod.addresses).filter(|address| global.contains(address));
            let of_pods: BTreeSet<IpAddr> = of_pods.copied().collect();
            let labels = || Labels::new([(HOSTNAME.into(), node.clone())]);
            let mut known = written.cloned().unwrap_or_else(|| Node {
                name: node.clone(),
                labels: labels(),
                addresses: Vec::new(),
                at: None,
            });
            known.addresses = global.difference(&of_pods).copied().collect();
            self.nodes.insert(node.clone(), known);
        }
        let known = self.nodes.get(node).or(written);
        let addresses = known.map(|known| known.addresses.clone()).unwrap_or_default();
        let bare =
            |pod: &&Pod| pod.host_network && pod.node.as_ref() == Some(node) && pod.addresses.is_empty();
        let host: Vec<Pod> = self.pods().filter(bare).cloned().collect();
        for pod in host {
            self.put(Pod { addresses: addresses.clone(), ..pod });
        }
    }

    /// Returns the node's pods, by name, with the interfaces that lead to them.
    pub(super) fn states(&self, node: &SmolStr, wiring: &Wiring) -> Vec<PodState> {
        let here = |pod: &&Pod| pod.node.as_ref() == Some(node) && !pod.terminated && !pod.host_network;
        let mut pods: Vec<PodState> = self
            .pods()
            .filter(here)
            .map(|pod| {
                let leads =
                    |own: &BTreeSet<IpAddr>| pod.addresses.iter().any(|address| own.contains(address));
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

    /// Returns what is different from the inventory.
    pub(super) fn overrides(self) -> Overrides {
        let written = |pod: &Pod| {
            let mut same = self.inventory.pod(&pod.namespace, &pod.name).into_iter();
            same.any(|written| written == pod)
        };
        Overrides {
            pods: self.pods.values().filter(|pod| !written(pod)).cloned().collect(),
            nodes: self
                .nodes
                .values()
                .filter(|node| !self.inventory.nodes().any(|one| one == *node))
                .cloned()
                .collect(),
        }
    }

    /// Iterates over all pods, each as it is on this machine.
    fn pods(&self) -> impl Iterator<Item = &Pod> {
        let written = self.inventory.pods().filter(|pod| !self.pods.contains_key(&id(pod)));
        self.pods.values().chain(written)
    }

    fn pod(&self, entry: &MachinePod) -> Option<&Pod> {
        let placed = |external| self.pods.get(&(entry.namespace.clone(), entry.name.clone(), external));
        placed(false).or_else(|| placed(true)).or_else(|| self.inventory.pod(&entry.namespace, &entry.name))
    }

    fn put(&mut self, pod: Pod) {
        self.pods.insert(id(&pod), pod);
    }
}

fn id(pod: &Pod) -> PodId {
    (pod.namespace.clone(), pod.name.clone(), pod.external)
}

fn is(pod: &Pod, entry: &MachinePod) -> bool {
    pod.namespace == entry.namespace && pod.name == entry.name
}

/// Returns the owners of all addresses that manifests name, or that this machine has itself.
pub(super) fn written(
    inventory: &dyn Inventory,
    machines: &[Machine],
    own: &BTreeSet<IpAddr>,
) -> BTreeMap<IpAddr, String> {
    let mut written = BTreeMap::new();
    written.extend(own.iter().map(|address| (*address, "this machine".to_owned())));
    for node in inventory.nodes() {
        written.extend(node.addresses.iter().map(|address| (*address, format!("node {}", node.name))));
    }
    for service in inventory.services() {
        let name = format!("service {}/{}", service.namespace, service.name);
        written.extend(service.addresses.iter().map(|address| (*address, name.clone())));
    }
    for pod in inventory.pods().filter(|pod| !pod.host_network && !pod.terminated) {
        let name = format!("{}/{}", pod.namespace, pod.name);
        written.extend(pod.addresses.iter().map(|address| (*address, name.clone())));
    }
    for entry in machines.iter().flat_map(|machine| &machine.pods) {
        let name = format!("{}/{}", entry.namespace, entry.name);
        written.extend(entry.addresses.iter().map(|address| (*address, name.clone())));
    }
    written
}
