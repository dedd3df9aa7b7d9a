//! Which workloads are represented by a pod of their template, kept while pods and workloads change one by one.
//!
//! A workload has a stand-in while it has no living pods, none of the workloads it owns has any, and its own owner is not
//! declared. That is the rule of `palisade_model::snapshot`, which applies it to all objects at once; here every change
//! costs the workloads it concerns: the pod's owners, and the owners of these.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use palisade_model::cluster::{Owner, Pod, Workload};
use palisade_model::event::{self, Item};
use smol_str::SmolStr;

use super::batch::Batch;
use crate::object::Key;

/// Living pods and declared workloads by who owns them.
#[derive(Debug, Clone, Default)]
pub(super) struct StandIns {
    entries: HashMap<WorkloadId, Entry>,
    /// Workloads whose stand-in may have appeared or disappeared since the last [`StandIns::settle`].
    touched: BTreeSet<WorkloadId>,
    /// Objects declared since then: their templates may be different.
    declared: BTreeSet<Key>,
}

/// A workload as owner references name it: without an API group, so that several objects may share it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct WorkloadId {
    namespace: SmolStr,
    kind: SmolStr,
    name: SmolStr,
}

/// What is known about a workload, declared or only named as an owner.
#[derive(Debug, Clone, Default)]
struct Entry {
    /// Number of living pods that belong to it.
    living: usize,
    /// Number of objects in `children` that have living pods.
    staffed_children: usize,
    /// The declared workloads that name it as their owner.
    children: BTreeSet<Key>,
    /// The objects of this identity with their owners. More than one only where two API groups have the kind.
    objects: BTreeMap<Key, Option<WorkloadId>>,
    /// The object whose template was emitted.
    standing: Option<Key>,
}

// === impl StandIns ===

impl StandIns {
    /// Counts a pod for its owners, or no longer. `assigned` is an owner that the pod does not name itself.
    pub(super) fn count_pod(&mut self, pod: &Pod, assigned: Option<&Owner>, exists: bool) {
        if pod.terminated {
            return;
        }
        let owners: BTreeSet<WorkloadId> = match &pod.owner {
            None => assigned.map(|owner| WorkloadId::of(&pod.namespace, owner)).into_iter().collect(),
            Some(owner) => {
                let all = [Some(owner.clone()), pod.workload()];
                all.iter().flatten().map(|owner| WorkloadId::of(&pod.namespace, owner)).collect()
            }
        };
        for id in owners {
            let entry = self.entries.entry(id.clone()).or_default();
            let before = entry.living;
            entry.living = if exists { before + 1 } else { before.saturating_sub(1) };
            if (before == 0) != (entry.living == 0) {
                for owner in entry.objects.values().flatten().cloned().collect::<Vec<_>>() {
                    self.count_staffed_child(owner, exists);
                }
                self.touched.insert(id);
            }
        }
    }

    /// Notes a workload; one that was noted before is to be withdrawn first.
    pub(super) fn declare(&mut self, key: &Key, workload: &Workload) {
        let id = WorkloadId::from(key);
        let owner = workload.owner.as_ref().map(|owner| WorkloadId::of(&id.namespace, owner));
        let entry = self.entries.entry(id.clone()).or_default();
        let (known, staffed) = (!entry.objects.is_empty(), entry.living > 0);
        entry.objects.insert(key.clone(), owner.clone());
        if !known {
            self.touched.extend(entry.children.iter().map(WorkloadId::from));
        }
        if let Some(owner) = owner {
            self.entries.entry(owner.clone()).or_default().children.insert(key.clone());
            if staffed {
                self.count_staffed_child(owner, true);
            }
        }
        self.declared.insert(key.clone());
        self.touched.insert(id);
    }

    /// Removes a workload that was declared.
    pub(super) fn withdraw(&mut self, key: &Key) {
        let id = WorkloadId::from(key);
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let Some(owner) = entry.objects.remove(key) else { return };
        let (known, staffed) = (!entry.objects.is_empty(), entry.living > 0);
        if !known {
            self.touched.extend(entry.children.iter().map(WorkloadId::from));
        }
        if let Some(owner) = owner {
            if let Some(parent) = self.entries.get_mut(&owner) {
                parent.children.remove(key);
            }
            if staffed {
                self.count_staffed_child(owner.clone(), false);
            }
            // It may be left with nothing to remember.
            self.touched.insert(owner);
        }
        self.declared.remove(key);
        self.touched.insert(id);
    }

    /// Emits the stand-ins that appeared, changed or disappeared. `find` returns a declared workload.
    pub(super) fn settle<'w>(&mut self, find: impl Fn(&Key) -> Option<&'w Workload>, batch: &mut Batch) {
        let declared = std::mem::take(&mut self.declared);
        for id in std::mem::take(&mut self.touched) {
            let wanted = self.wanted(&id);
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            match &wanted {
                Some(key) if entry.standing.as_ref() != Some(key) || declared.contains(key) => {
                    if let Some(workload) = find(key) {
                        let stand_in = Some(workload.kind.clone());
                        batch.apply(Item::Pod(Pod { stand_in, ..workload.template.clone() }));
                    }
                }
                None if entry.standing.is_some() => {
                    let WorkloadId { namespace, kind, name } = id.clone();
                    batch.delete(event::Key::Pod(namespace, name, Some(kind)));
                }
                _ => {}
            }
            entry.standing = wanted;
            if entry.is_idle() {
                self.entries.remove(&id);
            }
        }
    }

    /// Returns the object whose template represents the workload: the last of those that need a stand-in.
    fn wanted(&self, id: &WorkloadId) -> Option<Key> {
        let entry = self.entries.get(id)?;
        if entry.living + entry.staffed_children > 0 {
            return None;
        }
        let is_declared =
            |id: &WorkloadId| self.entries.get(id).is_some_and(|entry| !entry.objects.is_empty());
        let mut objects = entry.objects.iter().rev();
        let needs = |(_, owner): &(&Key, &Option<WorkloadId>)| !owner.as_ref().is_some_and(is_declared);
        objects.find(needs).map(|(key, _)| key.clone())
    }

    fn count_staffed_child(&mut self, owner: WorkloadId, more: bool) {
        let entry = self.entries.entry(owner.clone()).or_default();
        let children = entry.staffed_children;
        entry.staffed_children = if more { children + 1 } else { children.saturating_sub(1) };
        self.touched.insert(owner);
    }
}

// === impl Entry ===

impl Entry {
    fn is_idle(&self) -> bool {
        self.living + self.staffed_children == 0
            && self.children.is_empty()
            && self.objects.is_empty()
            && self.standing.is_none()
    }
}

// === impl WorkloadId ===

impl WorkloadId {
    fn of(namespace: &SmolStr, owner: &Owner) -> WorkloadId {
        WorkloadId { namespace: namespace.clone(), kind: owner.kind.clone(), name: owner.name.clone() }
    }
}

impl From<&Key> for WorkloadId {
    fn from(key: &Key) -> Self {
        WorkloadId {
            namespace: key.namespace.clone().unwrap_or_default(),
            kind: key.kind.clone(),
            name: key.name.clone(),
        }
    }
}
