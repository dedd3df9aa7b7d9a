//! What takes one program to the next.
//!
//! Most changes of a cluster are pods that come and go: elements of sets that stay. Such a patch is told by
//! [`Patch::is_elements_only`], and goes to the kernel without a process being started for it.
//!
//! What comes, what changes and what goes are kept apart, because a kernel takes them one after the other ([`Patch::split`]).

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::program::{Chain, Elements, Name, Program, Set};

/// The difference between two programs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Patch {
    /// Counters that come.
    pub counters: BTreeSet<Name>,
    /// Sets that come, with what is in them.
    pub sets: BTreeMap<Name, Set>,
    /// Chains that come.
    pub chains: BTreeMap<Name, Chain>,
    /// Chains that were there and have other rules now.
    pub changed: BTreeMap<Name, Chain>,
    /// What leaves sets that stay, with the verdicts they had.
    pub leave: BTreeMap<Name, Elements>,
    /// What comes into sets that stay.
    pub join: BTreeMap<Name, Elements>,
    /// Chains that go.
    pub no_chains: BTreeSet<Name>,
    /// Sets that go.
    pub no_sets: BTreeSet<Name>,
    /// Counters that go.
    pub no_counters: BTreeSet<Name>,
}

/// A patch that does not fit a program. Not retryable: one of them is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Unfitting(pub String);

// === impl Patch ===

impl Patch {
    /// What takes one program to another.
    pub fn between(old: &Program, new: &Program) -> Patch {
        let mut patch = Patch {
            counters: new.counters.difference(&old.counters).cloned().collect(),
            no_counters: old.counters.difference(&new.counters).cloned().collect(),
            no_chains: old.chains.keys().filter(|name| !new.chains.contains_key(*name)).cloned().collect(),
            no_sets: old.sets.keys().filter(|name| !new.sets.contains_key(*name)).cloned().collect(),
            ..Patch::default()
        };
        for (name, chain) in &new.chains {
            match old.chains.get(name) {
                None => drop(patch.chains.insert(name.clone(), chain.clone())),
                Some(before) if before != chain => drop(patch.changed.insert(name.clone(), chain.clone())),
                Some(_) => {}
            }
        }
        for (name, set) in &new.sets {
            match old.sets.get(name) {
                None => drop(patch.sets.insert(name.clone(), set.clone())),
                Some(before) => patch.elements(name, &before.elements, &set.elements),
            }
        }
        patch
    }

    fn elements(&mut self, set: &Name, old: &Elements, new: &Elements) {
        for (key, verdict) in old {
            if new.get(key) != Some(verdict) {
                self.leave.entry(set.clone()).or_default().insert(key.clone(), verdict.clone());
            }
        }
        for (key, verdict) in new {
            if old.get(key) != Some(verdict) {
                self.join.entry(set.clone()).or_default().insert(key.clone(), verdict.clone());
            }
        }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.is_elements_only() && self.leave.is_empty() && self.join.is_empty()
    }

    /// Whether chains, sets and counters stay as they are.
    pub fn is_elements_only(&self) -> bool {
        self.counters.is_empty()
            && self.sets.is_empty()
            && self.chains.is_empty()
            && self.changed.is_empty()
            && self.no_chains.is_empty()
            && self.no_sets.is_empty()
            && self.no_counters.is_empty()
    }

    /// How many elements come and go in sets that stay.
    pub fn moves(&self) -> usize {
        self.leave.values().chain(self.join.values()).map(BTreeMap::len).sum()
    }

    /// What comes and nothing leads to yet; what changes, and with that leads to it; what nothing leads to any more. Each can be
    /// done for itself, one after the other, and only the second makes a difference to a packet.
    pub fn split(self) -> (Patch, Patch, Patch) {
        // Packets come to a base chain as soon as it is there.
        let (bases, chains) = self.chains.into_iter().partition(|(_, chain)| chain.hook.is_some());
        (
            Patch { counters: self.counters, sets: self.sets, chains, ..Patch::default() },
            Patch {
                chains: bases,
                changed: self.changed,
                leave: self.leave,
                join: self.join,
                ..Patch::default()
            },
            Patch {
                no_chains: self.no_chains,
                no_sets: self.no_sets,
                no_counters: self.no_counters,
                ..Patch::default()
            },
        )
    }

    /// What takes away again what comes with this.
    pub(crate) fn undone(self) -> Patch {
        Patch {
            no_chains: self.chains.into_keys().collect(),
            no_sets: self.sets.into_keys().collect(),
            no_counters: self.counters,
            ..Patch::default()
        }
    }

    /// Takes away what another does too.
    pub(crate) fn take_away(&mut self, goes: Patch) {
        self.no_chains.extend(goes.no_chains);
        self.no_sets.extend(goes.no_sets);
        self.no_counters.extend(goes.no_counters);
    }

    /// Whether something that this takes away comes with another.
    pub(crate) fn takes_what_comes_with(&self, other: &Patch) -> bool {
        other.chains.keys().any(|name| self.no_chains.contains(name))
            || other.sets.keys().any(|name| self.no_sets.contains(name))
            || !self.no_counters.is_disjoint(&other.counters)
    }
}

// === impl Program ===

impl Program {
    /// Takes a patch, all of it or, if it does not fit, nothing.
    pub fn follow(&mut self, patch: &Patch) -> Result<(), Unfitting> {
        let mut next = self.clone();
        next.take(patch)?;
        *self = next;
        Ok(())
    }

    fn take(&mut self, patch: &Patch) -> Result<(), Unfitting> {
        let wrong = |what: &str, name: &Name| Err(Unfitting(format!("{what} {name}")));
        for name in &patch.counters {
            if !self.counters.insert(name.clone()) {
                return wrong("there is already a counter", name);
            }
        }
        for (name, set) in &patch.sets {
            if self.sets.insert(name.clone(), set.clone()).is_some() {
                return wrong("there is already a set", name);
            }
        }
        for (name, chain) in &patch.chains {
            if self.chains.insert(name.clone(), chain.clone()).is_some() {
                return wrong("there is already a chain", name);
            }
        }
        for (name, chain) in &patch.changed {
            let Some(before) = self.chains.get_mut(name) else { return wrong("there is no chain", name) };
            *before = chain.clone();
        }
        for (name, elements) in &patch.leave {
            let Some(set) = self.sets.get_mut(name) else { return wrong("there is no set", name) };
            for (key, verdict) in elements {
                if set.elements.remove(key).as_ref() != Some(verdict) {
                    return wrong("an element that leaves is not in the set", name);
                }
            }
        }
        for (name, elements) in &patch.join {
            let Some(set) = self.sets.get_mut(name) else { return wrong("there is no set", name) };
            for (key, verdict) in elements {
                if set.elements.insert(key.clone(), verdict.clone()).is_some() {
                    return wrong("an element that joins is in the set already:", name);
                }
            }
        }
        for name in &patch.no_chains {
            if self.chains.remove(name).is_none() {
                return wrong("there is no chain", name);
            }
        }
        for name in &patch.no_sets {
            if self.sets.remove(name).is_none() {
                return wrong("there is no set", name);
            }
        }
        for name in &patch.no_counters {
            if !self.counters.remove(name) {
                return wrong("there is no counter", name);
            }
        }
        self.dangling().map_or(Ok(()), |what| Err(Unfitting(what)))
    }

    /// A name that something uses and nothing has, in words: the kernel refuses such a program.
    pub fn dangling(&self) -> Option<String> {
        for (name, chain) in &self.chains {
            for rule in &chain.rules {
                let sets = rule.sets().find(|set| !self.sets.contains_key(*set));
                let chains = rule.verdict.chain().filter(|to| !self.chains.contains_key(*to));
                let counters = rule.counter.as_ref().filter(|counter| !self.counters.contains(*counter));
                if let Some(missing) = sets.or(chains).or(counters) {
                    return Some(format!("chain {name} uses {missing}, which is not there"));
                }
            }
        }
        for (name, set) in &self.sets {
            let targets = set.elements.values().flatten().filter_map(|verdict| verdict.chain());
            if let Some(missing) = targets.into_iter().find(|to| !self.chains.contains_key(*to)) {
                return Some(format!("map {name} leads to {missing}, which is not there"));
            }
        }
        None
    }
}
