//! A program under change, which records what each object was before: the difference is a patch.

use std::collections::BTreeMap;
use std::mem;
use std::net::IpAddr;

use crate::guard::Reachable;
use crate::patch::Patch;
use crate::program::{Chain, Elements, Key, Name, Program, Set, Value, Verdict};
use crate::walk::END;

/// A program under change. The previous state of an object is recorded when it is first changed, so that an object that is changed
/// back is no part of the patch.
#[derive(Debug, Default)]
pub(crate) struct Edit {
    program: Program,
    /// Changed chains as they were before; `None` for new ones.
    chains: BTreeMap<Name, Option<Chain>>,
    /// Sets that were added or removed: whether they existed before.
    sets: BTreeMap<Name, bool>,
    /// Counters that were added or removed: whether they existed before.
    counters: BTreeMap<Name, bool>,
    /// Changed elements of sets that existed before, as they were.
    elements: BTreeMap<Name, BTreeMap<Key, Option<Option<Verdict>>>>,
}

/// An element that was added, removed, or leads elsewhere now.
pub(crate) struct Changed<'a> {
    pub(crate) set: &'a Name,
    pub(crate) key: &'a Key,
    pub(crate) before: Option<&'a Option<Verdict>>,
    pub(crate) now: Option<&'a Option<Verdict>>,
}

// === impl Edit ===

impl Edit {
    pub(crate) fn program(&self) -> &Program {
        &self.program
    }

    /// Adds or replaces a chain.
    pub(crate) fn chain(&mut self, name: Name, chain: Chain) {
        if self.program.chains.get(&name) == Some(&chain) {
            return;
        }
        let before = self.program.chains.insert(name.clone(), chain);
        self.chains.entry(name).or_insert(before);
    }

    /// Adds a counter, unless it exists.
    pub(crate) fn counter(&mut self, name: &Name) {
        if self.program.counters.insert(name.clone()) {
            self.counters.entry(name.clone()).or_insert(false);
        }
    }

    /// Adds a set, unless it exists.
    pub(crate) fn set(&mut self, name: &Name, new: impl FnOnce() -> Set) {
        if !self.program.sets.contains_key(name) {
            self.program.sets.insert(name.clone(), new());
            self.sets.entry(name.clone()).or_insert(false);
        }
    }

    /// Replaces the elements of a set that exists.
    pub(crate) fn fill(&mut self, name: &Name, elements: Elements) {
        let Some(set) = self.program.sets.get(name) else { return };
        let removed: Vec<Key> =
            set.elements.keys().filter(|key| !elements.contains_key(*key)).cloned().collect();
        for key in removed {
            self.take(name, &key);
        }
        for (key, verdict) in elements {
            self.put(name, key, verdict);
        }
    }

    /// Adds or replaces an element of a set that exists.
    pub(crate) fn put(&mut self, name: &Name, key: Key, verdict: Option<Verdict>) {
        let Some(set) = self.program.sets.get_mut(name) else { return };
        if set.elements.get(&key) == Some(&verdict) {
            return;
        }
        let before = set.elements.insert(key.clone(), verdict);
        self.note(name, key, before);
    }

    /// Removes an element.
    pub(crate) fn take(&mut self, name: &Name, key: &Key) {
        let Some(set) = self.program.sets.get_mut(name) else { return };
        if let Some(before) = set.elements.remove(key) {
            self.note(name, key.clone(), Some(before));
        }
    }

    /// Records what an element was before its first change.
    fn note(&mut self, name: &Name, key: Key, before: Option<Option<Verdict>>) {
        if self.sets.get(name) != Some(&false) {
            self.elements.entry(name.clone()).or_default().entry(key).or_insert(before);
        }
    }

    fn remove_set(&mut self, name: &Name) {
        let Some(set) = self.program.sets.remove(name) else { return };
        if *self.sets.entry(name.clone()).or_insert(true) {
            for (key, verdict) in set.elements {
                self.note(name, key, Some(verdict));
            }
        }
    }

    /// Removes what no base chain leads to, except for these chains.
    pub(crate) fn collect(&mut self, kept: &[Name]) {
        let program = &self.program;
        let Reachable { chains, sets, counters } = program.reachable(kept);
        let no_chains: Vec<Name> =
            program.chains.keys().filter(|name| !chains.contains(name)).cloned().collect();
        let no_sets: Vec<Name> = program.sets.keys().filter(|name| !sets.contains(name)).cloned().collect();
        let no_counters: Vec<Name> =
            program.counters.iter().filter(|name| !counters.contains(name)).cloned().collect();
        for name in no_chains {
            let before = self.program.chains.remove(&name);
            self.chains.entry(name).or_insert(before);
        }
        for name in no_sets {
            self.remove_set(&name);
        }
        for name in no_counters {
            self.program.counters.remove(&name);
            self.counters.entry(name).or_insert(true);
        }
    }

    /// Returns a chain as it was before this change.
    pub(crate) fn chain_before(&self, name: &Name) -> Option<&Chain> {
        match self.chains.get(name) {
            Some(before) => before.as_ref(),
            None => self.program.chains.get(name),
        }
    }

    /// Returns the chains that existed before and have other rules now, as they were.
    pub(crate) fn changed_chains(&self) -> impl Iterator<Item = (&Name, &Chain)> {
        let before = self.chains.iter().filter_map(|(name, before)| Some((name, before.as_ref()?)));
        before.filter(|(name, before)| self.program.chains.get(*name).is_some_and(|now| now != *before))
    }

    /// Returns the changed elements of sets that existed before and exist now.
    pub(crate) fn changed_elements(&self) -> impl Iterator<Item = Changed<'_>> {
        self.elements.iter().flat_map(|(name, keys)| {
            let set = self.program.sets.get(name);
            keys.iter().filter_map(move |(key, before)| {
                let changed =
                    Changed { set: name, key, before: before.as_ref(), now: set?.elements.get(key) };
                (changed.before != changed.now).then_some(changed)
            })
        })
    }

    /// Returns the addresses of changed elements.
    pub(crate) fn moved_addresses(&self) -> impl Iterator<Item = IpAddr> {
        let keys = self.elements.values().flat_map(BTreeMap::keys);
        keys.filter_map(|key| match key.as_slice() {
            [(Value::Address(first), Value::Address(last))] if first == last => Some(*first),
            _ => None,
        })
    }

    /// Returns the element that held an address before this change, and the one that holds it now. A set that is removed still
    /// has its elements for a packet that looks into it.
    pub(crate) fn held(
        &self,
        name: &Name,
        address: IpAddr,
    ) -> (Option<&Option<Verdict>>, Option<&Option<Verdict>>) {
        let key = vec![(Value::Address(address), Value::Address(address))];
        let noted = self.elements.get(name);
        let set = self.program.sets.get(name);
        if let Some(before) = noted.and_then(|keys| keys.get(&key)) {
            let before = before.as_ref();
            return (before, set.map_or(before, |set| set.elements.get(&key)));
        }
        let found = match set {
            // Ranges of one field do not overlap: only the last that begins before the address can hold it.
            Some(set) if set.interval => {
                let before = set.elements.range(..=vec![(Value::Address(address), END)]).next_back();
                before.filter(|(key, _)| holds(key, address))
            }
            Some(set) => set.elements.get_key_value(&key),
            None => None,
        };
        let found = found.map(|(_, verdict)| verdict);
        let was = || {
            let keys = noted.into_iter().flatten();
            keys.filter(|(key, _)| holds(key, address)).find_map(|(_, before)| before.as_ref())
        };
        let found = if set.is_none() { was() } else { found };
        (found, found)
    }

    /// Returns what has changed since the last patch.
    pub(crate) fn patch(&mut self) -> Patch {
        let mut patch = Patch::default();
        for (name, before) in mem::take(&mut self.chains) {
            match (before, self.program.chains.get(&name)) {
                (None, Some(now)) => drop(patch.chains.insert(name, now.clone())),
                (Some(before), Some(now)) if before != *now => {
                    patch.changed.insert(name, now.clone());
                }
                (Some(_), None) => drop(patch.no_chains.insert(name)),
                _ => {}
            }
        }
        let sets = mem::take(&mut self.sets);
        for (name, before) in &sets {
            match (before, self.program.sets.get(name)) {
                (false, Some(set)) => drop(patch.sets.insert(name.clone(), set.clone())),
                (true, None) => drop(patch.no_sets.insert(name.clone())),
                _ => {}
            }
        }
        for (name, before) in mem::take(&mut self.counters) {
            match (before, self.program.counters.contains(&name)) {
                (false, true) => drop(patch.counters.insert(name)),
                (true, false) => drop(patch.no_counters.insert(name)),
                _ => {}
            }
        }
        for (name, keys) in mem::take(&mut self.elements) {
            let Some(set) = self.program.sets.get(&name) else { continue };
            for (key, before) in keys {
                let now = set.elements.get(&key);
                if before.as_ref() == now {
                    continue;
                }
                if let Some(now) = now {
                    patch.join.entry(name.clone()).or_default().insert(key.clone(), now.clone());
                }
                if let Some(before) = before {
                    patch.leave.entry(name.clone()).or_default().insert(key, before);
                }
            }
        }
        patch
    }
}

fn holds(key: &Key, address: IpAddr) -> bool {
    let address = Value::Address(address);
    matches!(key.as_slice(), [(first, last)] if *first <= address && address <= *last)
}
