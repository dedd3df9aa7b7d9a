//! The objects that Thorium's documents make together, kept to emit only what is different when a part changes.
//!
//! A document means nothing alone, so there is no smaller unit than the whole instance: it is assembled again whenever one
//! of its parts, a pod of a tool, or a pod of the services around it changes. No other object leads to an assembly.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use palisade_model::cluster::{Namespace, Owner, Pod, Workload};
use palisade_model::event::{self, Item, PolicyKey};
use palisade_model::label::Labels;
use palisade_model::policy::Policy;
use palisade_model::snapshot::Objects;
use smol_str::SmolStr;

use super::batch::Batch;
use super::certain;
use super::stand_ins::StandIns;
use crate::cluster::namespace::NAMESPACE;
use crate::object::{Key, Loaded, Lowered};
use crate::thorium::{self, Part, Reading};

/// Thorium's parts, and what they became when they were last assembled.
#[derive(Debug, Clone, Default)]
pub(super) struct Assembly {
    parts: BTreeMap<Key, Arc<Part>>,
    /// Pods and workloads that an assembly looks at.
    related: BTreeSet<Key>,
    /// Whether something that an assembly depends on changed since.
    stale: bool,
    outcome: Outcome,
}

/// What an instance adds to the objects of a world.
#[derive(Debug, Clone, Default)]
struct Outcome {
    /// Groups; each is a namespace, unless an object declares it.
    groups: BTreeSet<SmolStr>,
    /// Images, and the services around them.
    workloads: BTreeMap<Key, Workload>,
    policies: BTreeMap<PolicyKey, Policy>,
    /// Owners of pods that name none: the images they run.
    owners: BTreeMap<Key, Owner>,
}

// === impl Assembly ===

impl Assembly {
    /// Notes that an object exists with this content.
    pub(super) fn note(&mut self, key: &Key, lowered: &Lowered) {
        let pod = match lowered {
            Lowered::Thorium(part) => {
                self.parts.insert(key.clone(), Arc::clone(part));
                self.stale = true;
                return;
            }
            Lowered::Pod(pod) => pod,
            Lowered::Workload(workload) => &workload.template,
            _ => return,
        };
        if thorium::is_related(&pod.labels) {
            self.related.insert(key.clone());
            self.stale |= !self.parts.is_empty();
        }
    }

    /// Notes that an object with this content does not exist any more. Returns the owner that was assigned to it, which
    /// the next assembly may assign again.
    pub(super) fn forget(&mut self, key: &Key, lowered: &Lowered) -> Option<Owner> {
        match lowered {
            Lowered::Thorium(_) => {
                self.parts.remove(key);
                self.stale = true;
            }
            Lowered::Pod(_) | Lowered::Workload(_) if self.related.remove(key) => {
                self.stale |= !self.parts.is_empty();
            }
            _ => {}
        }
        self.outcome.owners.remove(key)
    }

    /// Notes that documents are to be read in another way.
    pub(super) fn reread(&mut self) {
        self.stale |= !self.parts.is_empty();
    }

    /// Whether a namespace of this name exists without an object that declares it.
    pub(super) fn has_group(&self, name: &SmolStr) -> bool {
        self.outcome.groups.contains(name)
    }

    /// Returns a workload that exists only because of Thorium.
    pub(super) fn workload(&self, key: &Key) -> Option<&Workload> {
        self.outcome.workloads.get(key)
    }

    /// Assembles the instance again if it is stale, and emits what is different.
    pub(super) fn settle(
        &mut self,
        objects: &BTreeMap<Key, Loaded>,
        reading: Reading,
        stand_ins: &mut StandIns,
        batch: &mut Batch,
    ) {
        if !std::mem::take(&mut self.stale) {
            return;
        }
        let now = self.assemble(objects, reading);
        let before = std::mem::take(&mut self.outcome);
        for name in before.groups.symmetric_difference(&now.groups).filter(|name| !is_declared(objects, name))
        {
            match now.groups.contains(name) {
                true => batch.apply(undeclared(name)),
                false => batch.delete(event::Key::Namespace(name.clone())),
            }
        }
        for key in before.policies.keys().filter(|key| !now.policies.contains_key(*key)) {
            batch.delete(event::Key::Policy(key.clone()));
        }
        for (key, policy) in &now.policies {
            if before.policies.get(key) != Some(policy) {
                batch.apply(Item::Policy(policy.clone()));
            }
        }
        for (key, workload) in &before.workloads {
            if now.workloads.get(key) != Some(workload) {
                stand_ins.withdraw(key);
            }
        }
        for (key, workload) in &now.workloads {
            if before.workloads.get(key) != Some(workload) {
                stand_ins.declare(key, workload);
            }
        }
        let pods: BTreeSet<&Key> = before.owners.keys().chain(now.owners.keys()).collect();
        for key in pods {
            let (was, is) = (before.owners.get(key), now.owners.get(key));
            if let Some(Lowered::Pod(pod)) = objects.get(key).map(|loaded| &loaded.lowered)
                && was != is
            {
                stand_ins.count_pod(pod, was, false);
                stand_ins.count_pod(pod, is, true);
                let owner = pod.owner.clone().or_else(|| is.cloned());
                batch.apply(Item::Pod(Pod { owner, ..pod.clone() }));
            }
        }
        self.outcome = now;
    }

    fn assemble(&self, objects: &BTreeMap<Key, Loaded>, reading: Reading) -> Outcome {
        let parts = certain(self.parts.values().cloned().collect());
        if parts.is_empty() {
            return Outcome::default();
        }
        let (mut related, mut keys) = (Objects::default(), Vec::new());
        for (key, loaded) in self.related.iter().filter_map(|key| objects.get_key_value(key)) {
            match &loaded.lowered {
                Lowered::Pod(pod) => {
                    related.pods.push(pod.clone());
                    keys.push((key, pod));
                }
                Lowered::Workload(workload) => related.workloads.push(workload.clone()),
                _ => {}
            }
        }
        let declared = related.workloads.len();
        // What is wrong with the documents is for `World::review`.
        thorium::extend(&parts, reading, &mut related);
        let owners = keys.into_iter().zip(&related.pods).filter_map(|((key, pod), now)| {
            let assigned = now.owner.clone().filter(|_| pod.owner.is_none())?;
            Some((key.clone(), assigned))
        });
        let workloads = related.workloads.into_iter().skip(declared);
        Outcome {
            groups: related.namespaces.into_iter().map(|namespace| namespace.name).collect(),
            workloads: workloads.map(|workload| (key_of(&workload), workload)).collect(),
            policies: related
                .policies
                .into_iter()
                .map(|policy| (PolicyKey::from(&policy.object), policy))
                .collect(),
            owners: owners.collect(),
        }
    }
}

/// Returns a namespace that exists though no object declares it.
pub(super) fn undeclared(name: &SmolStr) -> Item {
    Item::Namespace(Namespace { name: name.clone(), labels: Labels::default(), at: None })
}

fn is_declared(objects: &BTreeMap<Key, Loaded>, namespace: &SmolStr) -> bool {
    objects.contains_key(&Key {
        group: SmolStr::default(),
        kind: SmolStr::new_static(NAMESPACE.kind),
        namespace: None,
        name: namespace.clone(),
    })
}

/// Returns an identity for a workload that no object declares. Its kind is none that objects have.
fn key_of(workload: &Workload) -> Key {
    Key {
        group: SmolStr::default(),
        kind: workload.kind.clone(),
        namespace: Some(workload.template.namespace.clone()),
        name: workload.template.name.clone(),
    }
}
