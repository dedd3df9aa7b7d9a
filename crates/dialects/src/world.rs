//! The objects of a world by identity, applied and deleted one by one as an API server would, and the events of that.

use std::collections::BTreeMap;
use std::sync::Arc;

use palisade_model::cluster::Machine;
use palisade_model::diagnostic::Diagnostic;
use palisade_model::event::Event;
use palisade_model::snapshot::Objects;
use smol_str::SmolStr;

use self::emit::Emitted;
use crate::antrea;
use crate::object::{Key, Loaded, Lowered};
use crate::thorium;

mod assembly;
mod batch;
mod emit;
mod stand_ins;

/// A set of objects, and the events that lead from one set to the next.
///
/// ```text
///   apply, delete, reset ──────► events of this change
///   insert, add, remove … ─► events() ─► events of all changes since the last call
/// ```
///
/// Nothing is derived before events are first asked for: a world that is only loaded and turned into a snapshot keeps no
/// indices.
#[derive(Debug, Clone, Default)]
pub struct World {
    objects: BTreeMap<Key, Loaded>,
    thorium: thorium::Reading,
    /// `None` until events are first taken: then every object is new.
    emitted: Option<Box<Emitted>>,
}

/// Begins the group of a document of Thorium that another one has the identity of.
const TWIN: &str = "twin-";

impl World {
    /// Creates the object or replaces the one with the same identity, and returns what that changes: as
    /// [`World::insert`] followed by [`World::events`].
    pub fn apply(&mut self, loaded: Loaded) -> Vec<Event> {
        self.insert(loaded);
        self.events()
    }

    /// Deletes objects and returns what that changes: as [`World::remove`] followed by [`World::events`].
    pub fn delete(
        &mut self,
        group: Option<&str>,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Vec<Event> {
        self.remove(group, kind, namespace, name);
        self.events()
    }

    /// Returns the events since the last call; the first time, one for everything that exists.
    ///
    /// Takes time in the number of objects that changed, and in the size of the Thorium instance if one of its parts
    /// changed. Several changes between two calls are one batch: each object occurs once, in its final state.
    pub fn events(&mut self) -> Vec<Event> {
        match &mut self.emitted {
            Some(emitted) => emitted.changes(&self.objects, self.thorium),
            None => {
                let mut emitted = Box::<Emitted>::default();
                let events = emitted.all(&self.objects, self.thorium);
                self.emitted = Some(emitted);
                events
            }
        }
    }

    /// Creates the object, or replaces the one with the same identity.
    pub fn insert(&mut self, loaded: Loaded) {
        if is_document(&loaded) {
            let Key { kind, namespace, name, .. } = &loaded.key;
            let first = Key { group: TWIN.into(), kind: "".into(), namespace: None, name: "".into() };
            let twins = self.objects.range(first..).map(|(key, _)| key);
            let twins = twins.take_while(|key| key.group.starts_with(TWIN));
            let same = |key: &&Key| key.kind == *kind && key.name == *name && key.namespace == *namespace;
            for twin in twins.filter(same).cloned().collect::<Vec<Key>>() {
                self.remove_key(&twin);
            }
        }
        self.put(loaded);
    }

    /// Creates the object, or adds it beside one with the same identity: Thorium's documents have none of their own, and
    /// two of one name are two. Any other object is replaced; see [`World::replaced_by`].
    pub fn add(&mut self, mut loaded: Loaded) {
        if is_document(&loaded) {
            let mut number = self.objects.len();
            while self.objects.contains_key(&loaded.key) {
                loaded.key.group = smol_str::format_smolstr!("{TWIN}{number:09}");
                number += 1;
            }
        }
        self.put(loaded);
    }

    /// Removes every object of that kind, namespace and name, in one API group or in all. Returns whether there was one.
    pub fn remove(&mut self, group: Option<&str>, kind: &str, namespace: Option<&str>, name: &str) -> bool {
        let groups = match group {
            Some(group) => vec![group.into()],
            None => self.groups(),
        };
        let mut there = false;
        for group in groups {
            let mut key = Key { group, kind: kind.into(), namespace: None, name: name.into() };
            there |= self.remove_key(&key);
            if namespace.is_some() {
                key.namespace = namespace.map(Into::into);
                there |= self.remove_key(&key);
            }
        }
        there
    }

    /// Removes an object by its identity. Returns whether it existed.
    pub fn remove_key(&mut self, key: &Key) -> bool {
        let Some((key, gone)) = self.objects.remove_entry(key) else { return false };
        if let Some(emitted) = &mut self.emitted {
            emitted.note(key, Some(gone));
        }
        true
    }

    /// Returns an object by its identity.
    pub fn get(&self, key: &Key) -> Option<&Loaded> {
        self.objects.get(key)
    }

    /// Returns the object that [`World::add`] would replace with this one.
    pub fn replaced_by(&self, loaded: &Loaded) -> Option<&Loaded> {
        if is_document(loaded) { None } else { self.get(&loaded.key) }
    }

    /// Sets how Thorium's documents are read, those that are here already among them.
    pub fn read_thorium_as(&mut self, reading: impl Into<thorium::Reading>) {
        let reading = reading.into();
        if let Some(emitted) = self.emitted.as_mut().filter(|_| self.thorium != reading) {
            emitted.reread();
        }
        self.thorium = reading;
    }

    /// Returns how Thorium's documents are read.
    pub fn thorium_reading(&self) -> thorium::Reading {
        self.thorium
    }

    /// Makes the world hold exactly these objects, of equal ones the last, and returns what that changes. For a source
    /// that lists everything, as a folder does; objects that are equal to those here cause no events and are not copied.
    pub fn reset<'l>(&mut self, objects: impl IntoIterator<Item = &'l Loaded>) -> Vec<Event> {
        let listed: BTreeMap<&Key, &Loaded> =
            objects.into_iter().map(|loaded| (&loaded.key, loaded)).collect();
        let gone: Vec<Key> = self.objects.keys().filter(|key| !listed.contains_key(key)).cloned().collect();
        for key in &gone {
            self.remove_key(key);
        }
        for (key, loaded) in listed {
            if self.get(key) != Some(loaded) {
                self.put(loaded.clone());
            }
        }
        self.events()
    }

    fn put(&mut self, loaded: Loaded) {
        // A source may list what it listed before.
        if self.emitted.is_some() && self.get(&loaded.key) == Some(&loaded) {
            return;
        }
        let key = loaded.key.clone();
        let before = self.objects.insert(key.clone(), loaded);
        if let Some(emitted) = &mut self.emitted {
            emitted.note(key, before);
        }
    }

    /// Returns the API groups that there are objects of, by jumping from one to the next.
    fn groups(&self) -> Vec<SmolStr> {
        let mut groups: Vec<SmolStr> = Vec::new();
        let mut next = self.objects.keys().next();
        while let Some(key) = next {
            groups.push(key.group.clone());
            // The least text that is greater.
            let group = smol_str::format_smolstr!("{}\0", key.group);
            let after = Key { group, kind: "".into(), namespace: None, name: "".into() };
            next = self.objects.range(after..).next().map(|(key, _)| key);
        }
        groups
    }

    /// All objects, by identity.
    pub fn iter(&self) -> impl Iterator<Item = &Loaded> + Clone {
        self.objects.values()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// What a snapshot is made of.
    pub fn objects(&self) -> Objects {
        let mut objects = Objects { tiers: antrea::tiers(self), ..Objects::default() };
        for loaded in self.objects.values().cloned() {
            gather(loaded, &mut objects);
        }
        self.put_together(&mut objects);
        objects
    }

    /// What a snapshot is made of, when nobody needs the world any more.
    pub fn into_objects(mut self) -> Objects {
        let mut objects = Objects { tiers: antrea::tiers(&self), ..Objects::default() };
        let (thorium, others): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.objects)
            .into_iter()
            .partition(|(_, loaded)| matches!(loaded.lowered, Lowered::Thorium(_)));
        self.objects = thorium;
        for loaded in others.into_values() {
            gather(loaded, &mut objects);
        }
        self.put_together(&mut objects);
        objects
    }

    /// What is wrong between objects that were read one by one.
    pub fn review(&self) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        antrea::world::check(self, &mut found);
        if self.thorium_parts().is_empty() {
            return found;
        }
        let mut objects = Objects::default();
        for loaded in self.objects.values().filter(|loaded| !matches!(loaded.lowered, Lowered::Policy(_))) {
            gather(loaded.clone(), &mut objects);
        }
        found.extend(self.put_together(&mut objects));
        found
    }

    /// References to objects that are not there and may come later. Unlike what [`World::review`] finds, nothing of it
    /// keeps the objects from being evaluated and enforced as they are.
    pub fn dangling(&self) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        antrea::world::missing_children(self, &mut found);
        found
    }

    /// The Thorium instance that the documents describe, if there are any.
    pub fn thorium_instance(&self) -> Option<thorium::instance::Instance> {
        let parts = self.thorium_parts();
        if parts.is_empty() {
            return None;
        }
        let mut objects = Objects::default();
        let pods = |loaded: &&Loaded| matches!(loaded.lowered, Lowered::Pod(_) | Lowered::Workload(_));
        for loaded in self.objects.values().filter(pods) {
            gather(loaded.clone(), &mut objects);
        }
        Some(thorium::instance_of(&parts, self.thorium, &objects).0)
    }

    /// The machines that manifests describe.
    pub fn machines(&self) -> Vec<Machine> {
        let machine = |loaded: &Loaded| match &loaded.lowered {
            Lowered::Machine(machine) => Some(machine.clone()),
            _ => None,
        };
        self.objects.values().filter_map(machine).collect()
    }

    /// Thorium's documents.
    pub fn thorium_parts(&self) -> Vec<Arc<thorium::Part>> {
        let part = |loaded: &Loaded| match &loaded.lowered {
            Lowered::Thorium(part) => Some(Arc::clone(part)),
            _ => None,
        };
        certain(self.objects.values().filter_map(part).collect())
    }

    /// Adds what only all documents together make.
    fn put_together(&self, objects: &mut Objects) -> Vec<Diagnostic> {
        match self.thorium_parts() {
            parts if parts.is_empty() => Vec::new(),
            parts => thorium::extend(&parts, self.thorium, objects),
        }
    }
}

/// Returns Thorium's documents, or none if all of them only could be Thorium's.
fn certain(parts: Vec<Arc<thorium::Part>>) -> Vec<Arc<thorium::Part>> {
    if parts.iter().any(|part| part.is_certain()) { parts } else { Vec::new() }
}

/// Whether this is a document of Thorium, whose name is no identity.
fn is_document(loaded: &Loaded) -> bool {
    matches!(loaded.lowered, Lowered::Thorium(_)) && loaded.key.group.is_empty()
}

fn gather(loaded: Loaded, objects: &mut Objects) {
    match loaded.lowered {
        Lowered::Namespace(namespace, policy) => {
            objects.namespaces.push(namespace);
            objects.policies.extend(policy);
        }
        Lowered::Pod(pod) => objects.pods.push(pod),
        Lowered::Workload(workload) => objects.workloads.push(workload),
        Lowered::Node(node) => objects.nodes.push(node),
        Lowered::Service(service) => objects.services.push(service),
        Lowered::Endpoints(endpoints) => objects.endpoints.extend(endpoints),
        Lowered::Entrance(entrance) => objects.entrances.push(entrance),
        Lowered::Policy(policy) => objects.policies.push(policy),
        // They are in the tiers already, together with those that nobody has to write.
        Lowered::Tier(_) => {}
        Lowered::Group(group) => objects.groups.push(group),
        Lowered::Names(names) => {
            for (name, addresses) in names {
                objects.names.entry(name).or_default().extend(addresses);
            }
        }
        // Policies know nodes; machines are for whoever enforces on one.
        Lowered::Machine(_) => {}
        // Put together when everything else is there.
        Lowered::Thorium(_) => {}
    }
}
