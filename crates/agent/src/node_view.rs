//! This node's part of the view, computed from objects in this process.
//!
//! ```text
//!   changed objects ──► PlacedWorld ──events──► Engine ──deltas──► View ──► this node's part
//!                          ▲ pods and nodes that the machine completes
//!   interfaces ──► Finder ─┘
//! ```
//!
//! A change costs what it concerns: one object is one event. Placing reads pods, workloads, nodes, services and machines, so it is done
//! again when one of those changed, or the machine did.

use std::collections::BTreeSet;

use palisade_dialects::object::Lowered;
use palisade_dialects::thorium::Reading;
use palisade_engine::Engine;
use palisade_engine::delta::Delta;
use palisade_engine::view::View;
use palisade_model::cluster::Machine;
use palisade_model::event::{Event, Item, Key as EventKey, PolicyKey};
use palisade_model::snapshot::Objects;
use smol_str::SmolStr;
use thiserror::Error;

use self::placed_world::PlacedWorld;
use crate::machine::continuity::{Continuity, Discontinuity};
use crate::machine::inventory::Inventory;
use crate::machine::network::{Network, NetworkError};
use crate::machine::{Finder, Placement};
use crate::source::{Change, EmptyNode, Step};
use crate::state::State;

mod placed_world;

/// The objects, this machine among them, and what they mean for it.
#[derive(Debug)]
pub struct NodeView<N> {
    finder: Finder<N>,
    world: PlacedWorld,
    engine: Engine,
    view: View,
    policies: BTreeSet<PolicyKey>,
    placement: Placement,
    /// Whether the placement is of the objects as they are now.
    is_placed: bool,
    /// Whether there was an update.
    begun: bool,
    /// The node that was asked for.
    asked: Option<SmolStr>,
    continuity: Continuity,
}

/// Why objects are not enforced on this machine. What was enforced stays; retryable when the objects or the machine change.
#[derive(Debug, Error)]
pub enum PlacementError {
    /// The node that was asked for is not among those that objects name.
    #[error("there is no node {asked}: there are {}", known.join(", "))]
    UnknownNode {
        /// The node that was asked for.
        asked: SmolStr,
        /// The nodes that there are.
        known: Vec<SmolStr>,
    },
    /// The machine's interfaces cannot be read.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The machine cannot have become that.
    #[error(transparent)]
    Discontinuity(#[from] Discontinuity),
    /// A Machine object contradicts the others.
    #[error("{0}")]
    Contradiction(String),
}

// === impl NodeView ===

impl<N: Network> NodeView<N> {
    /// Begins without objects. The machine is this node, if one is given.
    pub fn new(network: N, empty_node: EmptyNode, node: Option<&str>) -> Self {
        NodeView {
            finder: Finder::new(network, empty_node, node),
            world: PlacedWorld::default(),
            engine: Engine::default(),
            view: View::default(),
            policies: BTreeSet::new(),
            placement: Placement::default(),
            is_placed: false,
            begun: false,
            asked: node.map(Into::into),
            continuity: Continuity::new(empty_node),
        }
    }

    /// Sets how Thorium's documents are read.
    pub fn read_thorium_as(&mut self, reading: impl Into<Reading>) {
        self.world.read_thorium_as(reading.into());
    }

    /// Collects the objects that change from now on, for [`NodeView::take_changes`].
    pub fn collect_changes(&mut self) {
        self.world.collect_changes();
    }

    /// Takes over what an earlier enforcer wrote down.
    pub fn restore(&mut self, state: &State) {
        self.finder.remember(&state.pods);
        // A node that is given explicitly may be another one.
        if self.asked.as_deref().is_none_or(|asked| asked == state.node) {
            self.continuity.remember(&state.node, &state.pods);
        }
    }

    /// Takes changed objects, and the machine as it was last looked at. If the machine cannot be placed among them, nothing changes for
    /// the node; the objects are taken with the next call that succeeds.
    pub fn take(&mut self, changes: Vec<Change>) -> Result<Step, PlacementError> {
        for change in changes {
            self.is_placed &= !match &change {
                Change::Apply(loaded) => decides_placement(&loaded.lowered),
                Change::Delete(key) => {
                    self.world.written(key).is_some_and(|was| decides_placement(&was.lowered))
                }
            };
            self.world.take(change);
        }
        let node = self.placement.node.clone();
        if !self.is_placed {
            self.place()?;
        }
        let events = self.world.events();
        let mut deltas = Vec::new();
        for event in events {
            self.count(&event);
            let delta = self.engine.apply(event);
            if !delta.changes.is_empty() {
                deltas.push(delta);
            }
        }
        self.engine.tidy();
        let same_node = std::mem::replace(&mut self.begun, true) && self.placement.node == node;
        Ok(self.follow(&deltas, same_node))
    }

    /// Places the machine among the objects.
    fn place(&mut self) -> Result<(), PlacementError> {
        let machines = self.world.machines();
        // What Thorium's documents make is no object by itself.
        let assembled = self.world.has_thorium().then(|| self.world.written_objects());
        let inventory: &dyn Inventory = match &assembled {
            Some(objects) => objects,
            None => &self.world,
        };
        check_node(self.asked.as_ref(), inventory, &machines)?;
        let (placement, overrides) = self.finder.place(inventory, &machines)?;
        self.continuity.check(&placement)?;
        if let Some(error) = placement.errors.first() {
            return Err(PlacementError::Contradiction(error.clone()));
        }
        self.continuity.remember(&placement.node, &placement.pods);
        self.world.place(overrides);
        self.placement = placement;
        self.is_placed = true;
        Ok(())
    }

    /// Returns what deltas of the whole view mean for this node.
    fn follow(&mut self, deltas: &[Delta], same_node: bool) -> Step {
        let node = self.placement.node.as_str();
        let mut parts = Vec::with_capacity(deltas.len());
        let followed = same_node
            && deltas.iter().all(|delta| match self.view.follow_for(delta, &[node]) {
                Ok(part) => {
                    parts.extend(part);
                    true
                }
                Err(_) => false,
            });
        if followed {
            return Step::Deltas(parts);
        }
        self.view = self.engine.view();
        Step::Whole(Box::new(self.part()))
    }

    fn count(&mut self, event: &Event) {
        match event {
            Event::Apply(Item::Policy(policy)) => drop(self.policies.insert(PolicyKey::from(&policy.object))),
            Event::Delete(EventKey::Policy(key)) => drop(self.policies.remove(key)),
            _ => {}
        }
    }

    /// Reads the machine's interfaces again. Returns whether they changed; then [`NodeView::take`] places its pods again.
    pub fn look_at_machine(&mut self) -> Result<bool, NetworkError> {
        let changed = self.finder.look()?;
        self.is_placed &= !changed;
        Ok(changed)
    }

    /// Returns whether there are network namespaces to look into: the kernel reports no changes in them.
    pub fn has_namespaces(&self) -> bool {
        self.finder.has_namespaces()
    }

    /// Returns whether there was an update.
    pub fn is_begun(&self) -> bool {
        self.begun
    }

    /// Returns this node's part of the view.
    pub fn part(&self) -> View {
        self.view.part_of(&self.placement.node)
    }

    /// Returns where this node's pods are.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Returns the number of policies.
    pub fn policies(&self) -> usize {
        self.policies.len()
    }

    /// Returns a copy of all objects, with this machine among them.
    pub fn objects(&self) -> Objects {
        self.world.objects()
    }

    /// Returns the objects that changed in updates since the last call, if they are collected.
    pub fn take_changes(&mut self) -> Vec<Change> {
        self.world.take_changes()
    }
}

/// Returns whether placing reads objects of this kind.
fn decides_placement(lowered: &Lowered) -> bool {
    match lowered {
        Lowered::Pod(_)
        | Lowered::Workload(_)
        | Lowered::Node(_)
        | Lowered::Service(_)
        | Lowered::Machine(_)
        | Lowered::Thorium(_) => true,
        Lowered::Namespace(..)
        | Lowered::Endpoints(_)
        | Lowered::Entrance(_)
        | Lowered::Policy(_)
        | Lowered::Tier(_)
        | Lowered::Group(_)
        | Lowered::Names(_) => false,
    }
}

/// Refuses a node that was asked for and that no object names, if objects name any.
fn check_node(
    asked: Option<&SmolStr>,
    inventory: &dyn Inventory,
    machines: &[Machine],
) -> Result<(), PlacementError> {
    let Some(asked) = asked else { return Ok(()) };
    let nodes = inventory.nodes().map(|node| &node.name);
    let machines = machines.iter().map(|machine| &machine.name);
    let pods = inventory.pods().filter_map(|pod| pod.node.as_ref());
    let known: BTreeSet<&SmolStr> = nodes.chain(machines).chain(pods).collect();
    if known.is_empty() || known.contains(asked) {
        return Ok(());
    }
    let known = known.into_iter().cloned().collect();
    Err(PlacementError::UnknownNode { asked: asked.clone(), known })
}

#[cfg(test)]
mod tests;
