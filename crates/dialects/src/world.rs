//! The objects of a world by identity: applied, replaced and deleted one by one, as an API server would.

use std::collections::BTreeMap;

use palisade_model::snapshot::Objects;

use crate::antrea;
use crate::object::{Key, Loaded, Lowered};

/// A set of objects.
#[derive(Debug, Clone, Default)]
pub struct World {
    objects: BTreeMap<Key, Loaded>,
}

impl World {
    /// Creates the object, or replaces the one with the same identity, which is handed back.
    pub fn apply(&mut self, loaded: Loaded) -> Option<Loaded> {
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
        objects
    }

    /// What a snapshot is made of, when nobody needs the world any more.
    pub fn into_objects(self) -> Objects {
        let mut objects = Objects { tiers: antrea::tiers(&self), ..Objects::default() };
        for loaded in self.objects.into_values() {
            gather(loaded, &mut objects);
        }
        objects
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
        Lowered::Policy(policy) => objects.policies.push(policy),
        // They are in the tiers already, together with those that nobody has to write.
        Lowered::Tier(_) => {}
        Lowered::Group(group) => objects.groups.push(group),
        Lowered::Names(names) => {
            for (name, addresses) in names {
                objects.names.entry(name).or_default().extend(addresses);
            }
        }
    }
}
