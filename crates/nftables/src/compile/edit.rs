//! Changes to a program, noted down: what they come to is a patch.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use crate::patch::Patch;
use crate::program::{Chain, Elements, Key, Name, Program, Set, Verdict};

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
        let bases = program.chains.iter().filter(|(name, chain)| chain.hook.is_some() || kept.contains(name));
        let mut open: Vec<&Name> = bases.map(|(name, _)| name).collect();
        let mut chains: BTreeSet<&Name> = open.iter().copied().collect();
        let (mut sets, mut counters) = (BTreeSet::new(), BTreeSet::new());
        while let Some(chain) = open.pop().and_then(|name| program.chains.get(name)) {
            for rule in &chain.rules {
                counters.extend(&rule.counter);
                let mut lead = |to| {
                    if chains.insert(to) {
                        open.push(to);
                    }
                };
                rule.verdict.chain().into_iter().for_each(&mut lead);
                for set in rule.sets() {
                    if sets.insert(set) {
                        let elements =
                            program.sets.get(set).into_iter().flat_map(|set| set.elements.values());
                        elements.flatten().filter_map(Verdict::chain).for_each(&mut lead);
                    }
                }
            }
        }
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
