//! Which pods are on this machine, and how it reaches them.
//!
//! ```text
//!   Pod objects (status.podIPs, spec.nodeName) ──────┐
//!   Machine objects (addresses, interfaces) ─────────┼─► Placement, and the objects that differ because of it
//!   links and addresses, here and in namespaces ─────┘
//! ```
//!
//! [`network`] reads the machine's interfaces, [`inside`] finds pods in network namespaces, [`placing`] completes the objects of an
//! [`inventory`], [`continuity`] refuses placements that cannot be meant.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use palisade_model::cluster::{Machine, Node};
use palisade_nftables::compile::Wiring;
use smol_str::SmolStr;

use self::inside::Inside;
use self::inventory::Inventory;
use self::network::{Link, Network, NetworkError, Scope};
use self::placing::{Placing, written};
use crate::source::EmptyNode;
use crate::state::PodState;

pub use self::placing::Overrides;

pub mod continuity;
mod inside;
pub mod inventory;
pub mod network;
mod placing;
mod rtnetlink;

/// Finds pods on this machine, and remembers where they were.
#[derive(Debug)]
pub struct Finder<N> {
    network: N,
    empty_node: EmptyNode,
    /// The name of the node, if it was given.
    asked: Option<SmolStr>,
    /// The machine's interfaces, when they were last read.
    links: Option<Vec<Link>>,
    /// The interfaces in network namespaces.
    inside: BTreeMap<SmolStr, Inside>,
    /// The pods that addresses in network namespaces belong to: a later claimant does not get them.
    owners: BTreeMap<IpAddr, SmolStr>,
    /// The pods when they were last found.
    known: BTreeMap<String, PodState>,
}

/// Where this machine's pods are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placement {
    /// The node that this machine is.
    pub node: SmolStr,
    /// Which interfaces lead to pods.
    pub wiring: Wiring,
    /// The machine's own addresses.
    pub own: BTreeSet<IpAddr>,
    /// Its pods.
    pub pods: Vec<PodState>,
    /// Warnings, e.g. an interface that does not exist yet.
    pub notes: Vec<String>,
    /// What is not enforced: those of the notes that mean a gap.
    pub gaps: Vec<String>,
    /// Contradictions: nothing of the change is enforced.
    pub errors: Vec<String>,
}

// === impl Finder ===

impl<N: Network> Finder<N> {
    /// Finds pods by this network; the node is the one that is asked for, if one is.
    pub fn new(network: N, empty_node: EmptyNode, asked: Option<&str>) -> Self {
        Finder {
            network,
            empty_node,
            asked: asked.map(Into::into),
            links: None,
            inside: BTreeMap::new(),
            owners: BTreeMap::new(),
            known: BTreeMap::new(),
        }
    }

    /// Takes over the pods that an earlier enforcer found.
    pub fn remember(&mut self, pods: &[PodState]) {
        self.known = pods.iter().map(|pod| (pod.pod.clone(), pod.clone())).collect();
    }

    /// Reads the machine's interfaces again. Returns whether anything changed: a reason to place its pods again.
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

    /// Returns whether there are network namespaces to look into: the kernel reports no changes in them.
    pub fn has_namespaces(&self) -> bool {
        !self.inside.is_empty()
    }

    /// Places this machine among the objects: its node, and the addresses of its pods. Interfaces that were read before are not read
    /// again: that is what [`Finder::look`] is for. Fails only if the machine's own interfaces cannot be read.
    pub fn place(
        &mut self,
        inventory: &dyn Inventory,
        machines: &[Machine],
    ) -> Result<(Placement, Overrides), NetworkError> {
        let links = match self.links.take() {
            Some(links) => links,
            None => self.network.links(None)?,
        };
        let placed = self.place_by(&links, inventory, machines);
        self.links = Some(links);
        Ok(placed)
    }

    fn place_by(
        &mut self,
        links: &[Link],
        inventory: &dyn Inventory,
        machines: &[Machine],
    ) -> (Placement, Overrides) {
        let addresses = |scope: Option<Scope>| -> BTreeSet<IpAddr> {
            let all = links.iter().flat_map(|link| &link.addresses);
            all.filter(|(_, own)| scope.is_none_or(|scope| *own == scope))
                .map(|(address, _)| *address)
                .collect()
        };
        let (own, global) = (addresses(None), addresses(Some(Scope::Global)));
        let node = self.node(inventory, machines, &own);
        let mut taken: Option<BTreeMap<IpAddr, String>> = None;
        let mut placement = Placement { node: node.clone(), own, ..Placement::default() };
        let mut owners: BTreeMap<IpAddr, SmolStr> = BTreeMap::new();
        let mut placing = Placing::new(inventory);
        for machine in machines {
            let here = machine.name == node;
            for entry in &machine.pods {
                let mut found = self.found(entry, here, links, &mut placement);
                if entry.addresses.is_empty() && !found.addresses.is_empty() {
                    // Only addresses from network namespaces can be somebody else's, and few machines have any.
                    let own = &placement.own;
                    let taken = taken.get_or_insert_with(|| written(inventory, machines, own));
                    self.claim(entry, &mut found, taken, machines, &mut owners, &mut placement.notes);
                }
                placing.settle(entry, (&machine.name, machines), &found, &mut placement);
                if here {
                    placing.wire(entry, &found, &mut placement);
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
        placing.stand(&node, &global);
        placement.pods = placing.states(&node, &placement.wiring);
        self.remember(&placement.pods);
        if placement.pods.is_empty() && self.empty_node == EmptyNode::Suspect {
            placement
                .notes
                .push(format!("no pod is on node {node}: only rules about the node itself are in force"));
        }
        (placement, placing.overrides())
    }

    /// Returns the node that this machine is: the one that was asked for; the node with an address of this machine; a Machine of this
    /// name, or the only one there is; else the name of the machine.
    fn node(&self, inventory: &dyn Inventory, machines: &[Machine], own: &BTreeSet<IpAddr>) -> SmolStr {
        if let Some(asked) = &self.asked {
            return asked.clone();
        }
        let ours = |node: &&Node| node.addresses.iter().any(|address| own.contains(address));
        if let Some(node) = inventory.nodes().find(ours) {
            return node.name.clone();
        }
        let name = self.network.name();
        let known = inventory.nodes().any(|node| node.name == name);
        match machines {
            [only] if !known => only.name.clone(),
            _ => name,
        }
    }
}

#[cfg(test)]
mod tests;
