//! Which pods are on this machine, and how it reaches them.
//!
//! ```text
//!   Pod manifests (status.podIPs, spec.nodeName) ─┐
//!   Machine manifests (addresses, interfaces) ────┼─► the objects with this machine in them, and its wiring
//!   `ip -j address`, here and in namespaces ──────┘
//! ```
//!
//! [`network`] asks the machine, [`inside`] finds pods in network namespaces, [`placing`] puts them into the objects,
//! [`continuity`] refuses what cannot be meant.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use palisade_model::cluster::{Machine, Node};
use palisade_model::snapshot::Objects;
use palisade_nftables::compile::Wiring;
use smol_str::SmolStr;

use self::inside::Inside;
use self::network::{Link, Network, NetworkError};
use self::placing::{pods, settle, stand, wire, written};
use crate::source::Source;
use crate::state::PodState;

pub mod continuity;
mod inside;
pub mod network;
mod placing;

/// Finds pods on this machine, and remembers where they were.
#[derive(Debug)]
pub struct Finder<N> {
    network: N,
    /// Where the objects come from.
    source: Source,
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

// === impl Finder ===

impl<N: Network> Finder<N> {
    /// Finds by this network what a source lists; the node is the one that is asked for, if one is.
    pub fn new(network: N, source: Source, asked: Option<&str>) -> Self {
        Finder {
            network,
            source,
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
        // Of a cluster's nodes, some have no pods.
        if place.pods.is_empty() && !self.source.lists_empty_nodes() {
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
}

#[cfg(test)]
mod tests;
