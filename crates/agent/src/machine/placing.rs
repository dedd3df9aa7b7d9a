//! What was found on the machine, put into the objects: pods get their places, and the machine is a node.
//!
//! What a manifest says counts. Where the machine says otherwise it is noted, because a rule for an address that nobody has is easily missed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use palisade_model::cluster::{Machine, MachinePod, Node, Owner, Pod};
use palisade_model::label::Labels;
use palisade_model::snapshot::Objects;
use palisade_nftables::compile::Wiring;
use palisade_nftables::program::Interface;
use smol_str::SmolStr;

use super::Place;
use super::inside::Found;
use crate::state::PodState;

/// The label that nodes carry with their name.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Gives a pod its place; makes it if no manifest has it.
pub(super) fn settle(
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
pub(super) fn wire(objects: &Objects, entry: &MachinePod, found: &Found, place: &mut Place) {
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
pub(super) fn written(
    objects: &Objects,
    machines: &[Machine],
    own: &BTreeSet<IpAddr>,
) -> BTreeMap<IpAddr, String> {
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
pub(super) fn stand(objects: &mut Objects, node: &SmolStr, global: &BTreeSet<IpAddr>) {
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

/// The node's pods, by name, with the interfaces that lead to them.
pub(super) fn pods(objects: &Objects, node: &SmolStr, wiring: &Wiring) -> Vec<PodState> {
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
