//! The events of a world: what changed since they were last taken, without looking at anything else.
//!
//! ```text
//!   changed objects ──► items of each object ─────────────────┐
//!          │                                                  │
//!          ├──► DNS names: union of the objects that name one ├──► Batch ──► events
//!          ├──► tiers: built-in ones of the API in use        │
//!          ├──► Assembly: Thorium's documents together ───────┤
//!          └──► StandIns: templates of workloads without pods ┘
//! ```
//!
//! Most objects become items by themselves. For the others an index holds what their items depend on, so that a change
//! costs what it concerns and not the world; only Thorium's documents are assembled as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use palisade_model::event::{self, Event, Item};
use smol_str::{SmolStr, format_smolstr};

use super::assembly::{Assembly, undeclared};
use super::batch::Batch;
use super::stand_ins::StandIns;
use crate::antrea::TierIndex;
use crate::cluster::endpoints::ENDPOINTS;
use crate::object::{Key, Loaded, Lowered};
use crate::thorium::Reading;

/// What was emitted, as far as later events depend on it.
#[derive(Debug, Clone, Default)]
pub(super) struct Emitted {
    /// The objects that changed since, as they were; `None` for those that did not exist.
    changed: BTreeMap<Key, Option<Loaded>>,
    tier_index: TierIndex,
    tiers: BTreeMap<SmolStr, u8>,
    /// The objects that resolve a DNS name.
    names: BTreeMap<SmolStr, BTreeSet<Key>>,
    assembly: Assembly,
    stand_ins: StandIns,
}

// === impl Emitted ===

impl Emitted {
    /// Notes how an object was before it changed. Only the first change counts: that version is the emitted one.
    pub(super) fn note(&mut self, key: Key, before: Option<Loaded>) {
        self.changed.entry(key).or_insert(before);
    }

    /// Notes that Thorium's documents are to be read in another way.
    pub(super) fn reread(&mut self) {
        self.assembly.reread();
    }

    /// Emits everything: nothing was emitted before.
    pub(super) fn all(&mut self, objects: &BTreeMap<Key, Loaded>, reading: Reading) -> Vec<Event> {
        let changes = objects.iter().map(|(key, loaded)| (key.clone(), None, Some(loaded)));
        self.emit(changes, objects, reading)
    }

    /// Emits what changed.
    pub(super) fn changes(&mut self, objects: &BTreeMap<Key, Loaded>, reading: Reading) -> Vec<Event> {
        let changed = std::mem::take(&mut self.changed);
        let changes = changed.into_iter().map(|(key, before)| {
            let now = objects.get(&key);
            (key, before, now)
        });
        self.emit(changes, objects, reading)
    }

    fn emit<'o>(
        &mut self,
        changes: impl Iterator<Item = (Key, Option<Loaded>, Option<&'o Loaded>)>,
        objects: &'o BTreeMap<Key, Loaded>,
        reading: Reading,
    ) -> Vec<Event> {
        let mut batch = Batch::default();
        let (mut names, mut other_tiers) = (BTreeSet::new(), false);
        for (key, before, now) in changes {
            let (before, now) = (before.map(|loaded| loaded.lowered), now.map(|loaded| &loaded.lowered));
            other_tiers |= self.tier_index.update(&key, before.as_ref(), now);
            if let Some(before) = &before {
                self.withdraw(&key, before, &mut names, &mut batch);
            }
            if let Some(now) = now {
                self.declare(&key, now, &mut names, &mut batch);
            }
        }
        for name in names {
            self.emit_name(name, objects, &mut batch);
        }
        if other_tiers {
            self.emit_tiers(&mut batch);
        }
        self.assembly.settle(objects, reading, &mut self.stand_ins, &mut batch);
        let assembly = &self.assembly;
        let workload = |key: &Key| match objects.get(key).map(|loaded| &loaded.lowered) {
            Some(Lowered::Workload(workload)) => Some(workload),
            _ => assembly.workload(key),
        };
        self.stand_ins.settle(workload, &mut batch);
        batch.into_events()
    }

    /// Takes back what an object of this content was emitted as.
    fn withdraw(&mut self, key: &Key, before: &Lowered, names: &mut BTreeSet<SmolStr>, batch: &mut Batch) {
        items(key, before).into_iter().for_each(|item| batch.delete(item.key()));
        let assigned = self.assembly.forget(key, before);
        match before {
            Lowered::Namespace(namespace, _) if self.assembly.has_group(&namespace.name) => {
                batch.apply(undeclared(&namespace.name));
            }
            Lowered::Pod(pod) => self.stand_ins.count_pod(pod, assigned.as_ref(), false),
            Lowered::Workload(_) => self.stand_ins.withdraw(key),
            Lowered::Names(resolved) => {
                for name in resolved.keys().map(SmolStr::from) {
                    if let Some(objects) = self.names.get_mut(&name) {
                        objects.remove(key);
                    }
                    names.insert(name);
                }
            }
            _ => {}
        }
    }

    /// Emits what an object of this content is by itself, and notes what it contributes to others.
    fn declare(&mut self, key: &Key, now: &Lowered, names: &mut BTreeSet<SmolStr>, batch: &mut Batch) {
        items(key, now).into_iter().for_each(|item| batch.apply(item));
        self.assembly.note(key, now);
        match now {
            Lowered::Pod(pod) => self.stand_ins.count_pod(pod, None, true),
            Lowered::Workload(workload) => self.stand_ins.declare(key, workload),
            Lowered::Names(resolved) => {
                for name in resolved.keys().map(SmolStr::from) {
                    self.names.entry(name.clone()).or_default().insert(key.clone());
                    names.insert(name);
                }
            }
            _ => {}
        }
    }

    /// Emits a DNS name with the addresses that all objects give it.
    fn emit_name(&mut self, name: SmolStr, objects: &BTreeMap<Key, Loaded>, batch: &mut Batch) {
        let resolving = self.names.get(&name).filter(|objects| !objects.is_empty());
        let Some(resolving) = resolving else {
            self.names.remove(&name);
            batch.delete(event::Key::Name(name));
            return;
        };
        let addresses = |key: &Key| -> &[IpAddr] {
            match objects.get(key).map(|loaded| &loaded.lowered) {
                Some(Lowered::Names(names)) => names.get(&*name).map(Vec::as_slice).unwrap_or_default(),
                _ => &[],
            }
        };
        let all = resolving.iter().flat_map(addresses).copied().collect();
        batch.apply(Item::Name(name, all));
    }

    fn emit_tiers(&mut self, batch: &mut Batch) {
        let tiers = self.tier_index.tiers();
        for name in self.tiers.keys().filter(|name| !tiers.contains_key(*name)) {
            batch.delete(event::Key::Tier(name.clone()));
        }
        for (name, priority) in &tiers {
            if self.tiers.get(name) != Some(priority) {
                batch.apply(Item::Tier(name.clone(), *priority));
            }
        }
        self.tiers = tiers;
    }
}

/// Returns what an object is by itself. What depends on other objects is not among it.
fn items(key: &Key, lowered: &Lowered) -> Vec<Item> {
    match lowered {
        Lowered::Namespace(namespace, policy) => {
            let policy = policy.clone().map(Item::Policy);
            std::iter::once(Item::Namespace(namespace.clone())).chain(policy).collect()
        }
        Lowered::Pod(pod) => vec![Item::Pod(pod.clone())],
        Lowered::Node(node) => vec![Item::Node(node.clone())],
        Lowered::Service(service) => vec![Item::Service(service.clone())],
        Lowered::Endpoints(all) => {
            // An EndpointSlice and a subset of an Endpoints object never share a name: the kind comes first.
            let name = |index: usize| match &*key.kind {
                kind if kind == ENDPOINTS.kind => format_smolstr!("{kind}/{index}"),
                kind => format_smolstr!("{kind}/{}", key.name),
            };
            let item =
                |(index, endpoints): (usize, &_)| Item::Endpoints(name(index), Clone::clone(endpoints));
            all.iter().enumerate().map(item).collect()
        }
        Lowered::Policy(policy) => vec![Item::Policy(policy.clone())],
        Lowered::Group(group) => vec![Item::Group(group.clone())],
        // Entrances and machines are no concern of policies; the others depend on each other.
        Lowered::Entrance(_)
        | Lowered::Machine(_)
        | Lowered::Workload(_)
        | Lowered::Tier(_)
        | Lowered::Names(_)
        | Lowered::Thorium(_) => Vec::new(),
    }
}
