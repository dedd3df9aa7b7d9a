//! The objects of a world by identity: applied, replaced and deleted one by one, as an API server would.

use std::collections::BTreeMap;
use std::sync::Arc;

use palisade_model::cluster::Machine;
use palisade_model::diagnostic::Diagnostic;
use palisade_model::snapshot::Objects;

use crate::antrea;
use crate::object::{Key, Loaded, Lowered};
use crate::thorium;

/// A set of objects.
#[derive(Debug, Clone, Default)]
pub struct World {
    objects: BTreeMap<Key, Loaded>,
    /// How Thorium's documents are read.
    pub thorium: thorium::Reading,
}

/// Begins the group of a document of Thorium that another one has the identity of.
const TWIN: &str = "twin-";

impl World {
    /// Creates the object, or replaces the one with the same identity, which is handed back.
    pub fn apply(&mut self, loaded: Loaded) -> Option<Loaded> {
        if matches!(loaded.lowered, Lowered::Thorium(_)) && loaded.key.group.is_empty() {
            let Key { kind, namespace, name, .. } = &loaded.key;
            let twin = |key: &Key| key.group.starts_with(TWIN) && key.kind == *kind && key.name == *name;
            self.objects.retain(|key, _| !(twin(key) && key.namespace == *namespace));
        }
        self.objects.insert(loaded.key.clone(), loaded)
    }

    /// Creates the object, or adds it beside one with the same identity: Thorium's documents have none of their own, and
    /// two of one name are two. Any other object is replaced, and handed back.
    pub fn add(&mut self, mut loaded: Loaded) -> Option<Loaded> {
        if matches!(loaded.lowered, Lowered::Thorium(_)) && loaded.key.group.is_empty() {
            let mut number = self.objects.len();
            while self.objects.contains_key(&loaded.key) {
                loaded.key.group = smol_str::format_smolstr!("{TWIN}{number:09}");
                number += 1;
            }
        }
        self.objects.insert(loaded.key.clone(), loaded)
    }

    /// Removes every object of that kind, namespace and name, in one API group or in all; says whether there was one.
    pub fn delete(&mut self, group: Option<&str>, kind: &str, namespace: Option<&str>, name: &str) -> bool {
        let before = self.objects.len();
        self.objects.retain(|key, _| {
            !(key.kind == kind
                && key.name == name
                && group.is_none_or(|group| key.group == group)
                && (key.namespace.is_none() || key.namespace.as_deref() == namespace))
        });
        self.objects.len() < before
    }

    /// All objects, by identity.
    pub fn iter(&self) -> impl Iterator<Item = &Loaded> {
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
        let parts: Vec<Arc<thorium::Part>> = self.objects.values().filter_map(part).collect();
        // What could be Thorium's is not when nothing else is.
        if parts.iter().any(|part| part.is_certain()) { parts } else { Vec::new() }
    }

    /// Adds what only all documents together make.
    fn put_together(&self, objects: &mut Objects) -> Vec<Diagnostic> {
        match self.thorium_parts() {
            parts if parts.is_empty() => Vec::new(),
            parts => thorium::extend(&parts, self.thorium, objects),
        }
    }
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
