//! Everybody whom one condition means, as one set in the kernel that all lists share which ask for it.
//!
//! A list tells peers apart by what they may do, and most of them fulfil one of its conditions and no other, or others only
//! because the one is part of them. These are found by the condition itself: so a hundred namespaces that let in every pod of
//! the cluster keep them once, and each only the few for whom more holds.

use std::collections::BTreeSet;

use palisade_engine::delta::SetId;
use palisade_engine::selection::{Breadth, Selection};
use palisade_engine::view::View;
use palisade_model::address::Family;

use super::classify::address_key;
use super::decide::{Condition, List};
use super::index::tells_peers;
use super::names::hashed;
use crate::program::{Elements, Name};

/// More conditions of a list than this are not looked up one after the other.
const FEW: usize = 4;

/// Everybody in any of some sets.
#[derive(Debug)]
pub(crate) struct Everybody {
    pub(crate) sets: Vec<SetId>,
    /// The families that chains have rules for.
    pub(crate) shown: BTreeSet<Family>,
    /// The lists that ask for them.
    pub(crate) lists: BTreeSet<Name>,
}

/// A condition of a list that is looked up by itself.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    /// The name of whom it means.
    pub(crate) name: Name,
    pub(crate) condition: Condition,
    /// What else certainly holds for them, sorted, itself included.
    pub(crate) fulfilled: Vec<Condition>,
}

// === impl Everybody ===

impl Everybody {
    /// The name of the set in the kernel.
    pub(crate) fn set(name: &Name, family: Family) -> Name {
        hashed("s", &format!("{name} {family:?}"))
    }

    /// Whom a rule asks for, in words.
    pub(crate) fn words(&self, view: &View) -> String {
        let sets = self.sets.iter().filter_map(|set| view.sets().get(set));
        let mut words: Vec<String> =
            sets.filter(|set| tells_peers(&set.selection)).map(|set| set.selection.to_string()).collect();
        words.sort();
        words.join(", or ")
    }

    /// Who they are.
    pub(crate) fn members(&self, view: &View, family: Family) -> Elements {
        let sets =
            self.sets.iter().filter_map(|set| view.sets().get(set)).filter(|set| tells_peers(&set.selection));
        let members = sets.flat_map(|set| &set.members).flat_map(|member| &member.addresses);
        let own = members.filter(|address| Family::of(**address) == family);
        own.map(|address| (address_key(*address), None)).collect()
    }
}

/// The conditions of a list to look up by themselves: what means fewer comes first.
pub(crate) fn layers(list: &List, view: &View, mut name: impl FnMut(&[SetId]) -> Name) -> Vec<Layer> {
    let selection = |set: &SetId| view.sets().get(set).map(|set| &*set.selection);
    let is_met = |sets: &&Vec<SetId>| sets.iter().filter_map(selection).any(tells_peers);
    let numbered = list.conditions.iter().enumerate().filter(|(_, sets)| is_met(sets));
    let mut chosen: Vec<(Condition, &Vec<SetId>)> = numbered.collect();
    // Those of one namespace are few: if there are others, they are told apart by the list itself, in one lookup.
    let breadth = |sets: &[SetId]| sets.iter().filter_map(selection).map(Selection::breadth).max();
    if list.conditions.len() > 1 {
        chosen.retain(|(_, sets)| breadth(sets) > Some(Breadth::OneNamespace));
    }
    if chosen.len() > FEW {
        chosen.retain(|(_, sets)| breadth(sets) > Some(Breadth::SeveralNamespaces));
        chosen.sort_by_key(|(_, sets)| (std::cmp::Reverse(breadth(sets)), name(sets)));
        chosen.truncate(FEW);
    }
    let part = |some: &[SetId], of: &[SetId]| {
        some.iter().all(|one| {
            of.contains(one)
                || of
                    .iter()
                    .filter_map(selection)
                    .any(|of| selection(one).is_some_and(|one| one.is_subset_of(of)))
        })
    };
    let mut layers: Vec<Layer> = chosen
        .into_iter()
        .map(|(condition, sets)| {
            let all = list.conditions.iter().enumerate();
            let fulfilled = all.filter(|(_, other)| part(sets, other)).map(|(other, _)| other).collect();
            Layer { name: name(sets), condition, fulfilled }
        })
        .collect();
    // Whoever is part of another fulfils more.
    layers.sort_by(|one, other| {
        let by_parts = other.fulfilled.len().cmp(&one.fulfilled.len());
        by_parts.then_with(|| one.name.cmp(&other.name))
    });
    layers
}
