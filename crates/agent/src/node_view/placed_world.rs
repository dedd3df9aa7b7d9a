//! Objects as they were written, and as they are once the machine is placed among them.

use std::collections::{BTreeMap, BTreeSet};

use palisade_dialects::object::{Key, Loaded, Lowered};
use palisade_dialects::thorium::Reading;
use palisade_dialects::world::World;
use palisade_model::cluster::{Machine, Node, Pod, Service, Workload};
use palisade_model::event::Event;
use palisade_model::snapshot::Objects;

use crate::machine::Overrides;
use crate::machine::inventory::Inventory;
use crate::source::Change;

/// A world in which pods and nodes of this machine are complete. As an [`Inventory`] it shows the objects as they were written.
#[derive(Debug, Default)]
pub(super) struct PlacedWorld {
    /// The objects with this machine in them.
    world: World,
    /// Those that the machine overrides, as they were written; `None` for those that were not.
    written: BTreeMap<Key, Option<Loaded>>,
    /// Machine objects and Thorium's documents among all objects.
    machines: BTreeSet<Key>,
    thorium: BTreeSet<Key>,
    /// Objects that changed; `None` if they are not collected.
    changed: Option<BTreeSet<Key>>,
}

// === impl PlacedWorld ===

impl PlacedWorld {
    pub(super) fn read_thorium_as(&mut self, reading: Reading) {
        self.world.read_thorium_as(reading);
    }

    pub(super) fn collect_changes(&mut self) {
        self.changed.get_or_insert_default();
    }

    /// Takes a change of a written object.
    pub(super) fn take(&mut self, change: Change) {
        let (key, loaded) = match change {
            Change::Apply(loaded) => (loaded.key.clone(), Some(loaded)),
            Change::Delete(key) => (key, None),
        };
        let is = |of: fn(&Lowered) -> bool| loaded.as_ref().is_some_and(|loaded| of(&loaded.lowered));
        let is_machine = is(|lowered| matches!(lowered, Lowered::Machine(_)));
        let is_thorium = is(|lowered| matches!(lowered, Lowered::Thorium(_)));
        set(&mut self.machines, &key, is_machine);
        set(&mut self.thorium, &key, is_thorium);
        match self.written.get_mut(&key) {
            Some(written) => *written = loaded,
            None => self.put(&key, loaded),
        }
    }

    /// Overrides these objects, and no others.
    pub(super) fn place(&mut self, overrides: Overrides) {
        let pods = overrides.pods.into_iter().map(Loaded::from);
        let placed: Vec<Loaded> = pods.chain(overrides.nodes.into_iter().map(Loaded::from)).collect();
        let keys: BTreeSet<&Key> = placed.iter().map(|loaded| &loaded.key).collect();
        let over: Vec<Key> = self.written.keys().filter(|key| !keys.contains(key)).cloned().collect();
        for key in over {
            if let Some(written) = self.written.remove(&key) {
                self.put(&key, written);
            }
        }
        for loaded in placed {
            let key = loaded.key.clone();
            if !self.written.contains_key(&key) {
                self.written.insert(key.clone(), self.world.get(&key).cloned());
            }
            self.put(&key, Some(loaded));
        }
    }

    fn put(&mut self, key: &Key, loaded: Option<Loaded>) {
        if self.world.get(key) == loaded.as_ref() {
            return;
        }
        if let Some(changed) = &mut self.changed {
            changed.insert(key.clone());
        }
        let change = loaded.map_or_else(|| Change::Delete(key.clone()), Change::Apply);
        change.apply_to(&mut self.world);
    }

    /// Returns the events since the last call.
    pub(super) fn events(&mut self) -> Vec<Event> {
        self.world.events()
    }

    /// Returns an object as it was written.
    pub(super) fn written(&self, key: &Key) -> Option<&Loaded> {
        match self.written.get(key) {
            Some(written) => written.as_ref(),
            None => self.world.get(key),
        }
    }

    pub(super) fn machines(&self) -> Vec<Machine> {
        let machine = |key: &Key| match &self.world.get(key)?.lowered {
            Lowered::Machine(machine) => Some(machine.clone()),
            _ => None,
        };
        self.machines.iter().filter_map(machine).collect()
    }

    pub(super) fn has_thorium(&self) -> bool {
        !self.thorium.is_empty()
    }

    /// Returns a copy of all objects, as placed.
    pub(super) fn objects(&self) -> Objects {
        self.world.objects()
    }

    /// Returns a copy of all objects, as written.
    pub(super) fn written_objects(&self) -> Objects {
        let mut world = self.world.clone();
        for (key, written) in &self.written {
            match written {
                Some(written) => world.insert(written.clone()),
                None => drop(world.remove_key(key)),
            }
        }
        world.objects()
    }

    /// Returns the objects that changed since the last call, as they are now.
    pub(super) fn take_changes(&mut self) -> Vec<Change> {
        let Some(changed) = &mut self.changed else { return Vec::new() };
        let now = |key: Key| match self.world.get(&key) {
            Some(loaded) => Change::Apply(loaded.clone()),
            None => Change::Delete(key),
        };
        std::mem::take(changed).into_iter().map(now).collect()
    }

    /// Iterates over the objects as placed.
    #[cfg(test)]
    pub(super) fn placed(&self) -> impl Iterator<Item = &Loaded> {
        self.world.iter()
    }

    /// Iterates over the objects as they were written.
    fn iter(&self) -> impl Iterator<Item = &Loaded> {
        let placed = self.world.iter().filter(|loaded| !self.written.contains_key(&loaded.key));
        self.written.values().flatten().chain(placed)
    }
}

impl Inventory for PlacedWorld {
    fn pods(&self) -> Box<dyn Iterator<Item = &Pod> + '_> {
        Box::new(self.iter().filter_map(|loaded| match &loaded.lowered {
            Lowered::Pod(pod) => Some(pod),
            _ => None,
        }))
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<&Pod> {
        let key = Key {
            group: "".into(),
            kind: "Pod".into(),
            namespace: Some(namespace.into()),
            name: name.into(),
        };
        match self.written(&key).map(|loaded| &loaded.lowered) {
            Some(Lowered::Pod(pod)) => Some(pod),
            // An external entity is a pod of another kind of object.
            _ => self.pods().find(|pod| pod.namespace == namespace && pod.name == name),
        }
    }

    fn workloads(&self) -> Box<dyn Iterator<Item = &Workload> + '_> {
        Box::new(self.iter().filter_map(|loaded| match &loaded.lowered {
            Lowered::Workload(workload) => Some(workload),
            _ => None,
        }))
    }

    fn nodes(&self) -> Box<dyn Iterator<Item = &Node> + '_> {
        Box::new(self.iter().filter_map(|loaded| match &loaded.lowered {
            Lowered::Node(node) => Some(node),
            _ => None,
        }))
    }

    fn services(&self) -> Box<dyn Iterator<Item = &Service> + '_> {
        Box::new(self.iter().filter_map(|loaded| match &loaded.lowered {
            Lowered::Service(service) => Some(service),
            _ => None,
        }))
    }
}

fn set(keys: &mut BTreeSet<Key>, key: &Key, is: bool) {
    if is {
        keys.insert(key.clone());
    } else {
        keys.remove(key);
    }
}
