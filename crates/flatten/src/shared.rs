//! Conditions that lists share: peers that meet one condition and no other are found by the condition itself.
//!
//! A list distinguishes peers by their verdicts, and most of them meet one of its conditions and no other, or others only
//! because the one implies them. A data plane keeps one set for such a condition and all lists that name it: a hundred namespaces
//! that let in every pod of the cluster keep the pods once, and each of them only the few peers that meet more.

use std::cmp::Reverse;

use palisade_engine::delta::SetId;
use palisade_engine::selection::{Breadth, Selection};
use palisade_engine::view::View;

use crate::addresses::has_peer_addresses;
use crate::digest::Digest;
use crate::rule_list::{ConditionId, RuleList};

/// A condition of a list that is looked up by itself.
#[derive(Debug, Clone)]
pub struct SharedCondition {
    /// Digest of the sets of the condition.
    pub digest: Digest,
    /// The condition.
    pub condition: ConditionId,
    /// All conditions that its peers certainly meet, sorted, itself included.
    pub implied: Vec<ConditionId>,
}

/// Maximum number of conditions of a list that are looked up by themselves, one after the other.
const MOST: usize = 4;

/// Returns the conditions of a list to look up by themselves, those that imply more first.
pub fn shared_conditions(list: &RuleList, view: &View) -> Vec<SharedCondition> {
    let selection = |set: &SetId| view.sets().get(set).map(|set| &*set.selection);
    let is_met = |sets: &[SetId]| sets.iter().filter_map(selection).any(has_peer_addresses);
    let mut chosen: Vec<(ConditionId, &[SetId])> =
        list.conditions().filter(|(_, sets)| is_met(sets)).collect();
    // The pods of one namespace are few: if there are other conditions, the list distinguishes them in one lookup.
    let breadth = |sets: &[SetId]| sets.iter().filter_map(selection).map(Selection::breadth).max();
    if list.conditions().len() > 1 {
        chosen.retain(|(_, sets)| breadth(sets) > Some(Breadth::OneNamespace));
    }
    if chosen.len() > MOST {
        chosen.retain(|(_, sets)| breadth(sets) > Some(Breadth::SeveralNamespaces));
        chosen.sort_by_cached_key(|(_, sets)| (Reverse(breadth(sets)), Digest::of_sets(view, sets)));
        chosen.truncate(MOST);
    }
    let is_subset = |one: &SetId, of: &SetId| {
        selection(one).zip(selection(of)).is_some_and(|(one, of)| one.is_subset_of(of))
    };
    let implies = |some: &[SetId], others: &[SetId]| {
        some.iter().all(|one| others.contains(one) || others.iter().any(|other| is_subset(one, other)))
    };
    let mut shared: Vec<SharedCondition> = chosen
        .into_iter()
        .map(|(condition, sets)| {
            let implied = list.conditions().filter(|(_, other)| implies(sets, other)).map(|(other, _)| other);
            SharedCondition { digest: Digest::of_sets(view, sets), condition, implied: implied.collect() }
        })
        .collect();
    // A subset implies more than the set that holds it.
    shared.sort_by_key(|one| (Reverse(one.implied.len()), one.digest));
    shared
}
