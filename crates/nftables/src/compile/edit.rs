//! Changes to a program, noted down: what they come to is a patch.

use std::collections::BTreeMap;
use std::mem;
use std::net::IpAddr;

use crate::guard::Reachable;
use crate::patch::Patch;
use crate::program::{Chain, Elements, Key, Name, Program, Set, Value, Verdict};
use crate::walk::END;

/// A program that is being changed. What was before is noted at the first touch, so that what is changed back is no change.
#[derive(Debug, Default)]
pub(crate) struct Edit {
    program: Program,
    chains: BTreeMap<Name, Option<Chain>>,
    /// Whether it was there.
    sets: BTreeMap<Name, bool>,
    counters: BTreeMap<Name, bool>,
    /// What was there for a key, of sets that were there.
    elements: BTreeMap<Name, BTreeMap<Key, Option<Option<Verdict>>>>,
}

/// An element that is not what it was.
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

    pub(crate) fn chain(&mut self, name: Name, chain: Chain) {
        if self.program.chains.get(&name) == Some(&chain) {
            return;
        }
        let before = self.program.chains.insert(name.clone(), chain);
        self.chains.entry(name).or_insert(before);
    }

    pub(crate) fn counter(&mut self, name: &Name) {
        if self.program.counters.insert(name.clone()) {
            self.counters.entry(name.clone()).or_insert(false);
        }
    }

    /// A set of this sort, with nothing in it if it is new.
    pub(crate) fn set(&mut self, name: &Name, sort: impl FnOnce() -> Set) {
        if !self.program.sets.contains_key(name) {
            self.program.sets.insert(name.clone(), sort());
            self.sets.entry(name.clone()).or_insert(false);
        }
    }

    /// Makes a set that is there hold exactly this.
    pub(crate) fn fill(&mut self, name: &Name, elements: Elements) {
        let Some(set) = self.program.sets.get(name) else { return };
        let gone: Vec<Key> =
            set.elements.keys().filter(|key| !elements.contains_key(*key)).cloned().collect();
        for key in gone {
            self.take(name, &key);
        }
        for (key, verdict) in elements {
            self.put(name, key, verdict);
        }
    }

    /// Puts an element into a set that is there.
    pub(crate) fn put(&mut self, name: &Name, key: Key, verdict: Option<Verdict>) {
        let Some(set) = self.program.sets.get_mut(name) else { return };
        if set.elements.get(&key) == Some(&verdict) {
            return;
        }
        let before = set.elements.insert(key.clone(), verdict);
        self.note(name, key, before);
    }

    /// Takes one out.
    pub(crate) fn take(&mut self, name: &Name, key: &Key) {
        let Some(set) = self.program.sets.get_mut(name) else { return };
        if let Some(before) = set.elements.remove(key) {
            self.note(name, key.clone(), Some(before));
        }
    }

    fn note(&mut self, name: &Name, key: Key, before: Option<Option<Verdict>>) {
        if self.sets.get(name) != Some(&false) {
            self.elements.entry(name.clone()).or_default().entry(key).or_insert(before);
        }
    }

    fn no_set(&mut self, name: &Name) {
        let Some(set) = self.program.sets.remove(name) else { return };
        if *self.sets.entry(name.clone()).or_insert(true) {
            for (key, verdict) in set.elements {
                self.note(name, key, Some(verdict));
            }
        }
    }

    /// Takes away whatever no base chain leads to, but for these chains.
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
            self.no_set(&name);
        }
        for name in no_counters {
            self.program.counters.remove(&name);
            self.counters.entry(name).or_insert(true);
        }
    }

    /// The chain as it was before this change.
    pub(crate) fn chain_before(&self, name: &Name) -> Option<&Chain> {
        match self.chains.get(name) {
            Some(before) => before.as_ref(),
            None => self.program.chains.get(name),
        }
    }

    /// Chains that were there and have other rules now, as they were.
    pub(crate) fn changed_chains(&self) -> impl Iterator<Item = (&Name, &Chain)> {
        let before = self.chains.iter().filter_map(|(name, before)| Some((name, before.as_ref()?)));
        before.filter(|(name, before)| self.program.chains.get(*name).is_some_and(|now| now != *before))
    }

    /// Elements of sets that stay which are others now: what was there before, and what is now.
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

    /// The addresses that are in other sets now, or in sets that are gone.
    pub(crate) fn moved_addresses(&self) -> impl Iterator<Item = IpAddr> {
        let keys = self.elements.values().flat_map(BTreeMap::keys);
        keys.filter_map(|key| match key.as_slice() {
            [(Value::Address(first), Value::Address(last))] if first == last => Some(*first),
            _ => None,
        })
    }

    /// The element that held an address before this change, and the one that does now. A set that has been taken away is still
    /// there for a packet that looks into it, with what was in it.
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

    /// What has changed since this was last asked.
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
