//! Pod sets that compare labels of their namespace with the subject's. They depend on the values of these labels only:
//! groups are indexed by them once, for all namespaces.

use std::collections::BTreeSet;
use std::rc::Rc;

use palisade_model::policy::{Namespaces, PodSet};
use palisade_model::resolve::{Resolution, ResolvedPeer};
use palisade_model::snapshot::Snapshot;
use smol_str::SmolStr;

use super::{MembershipLookup, SharedSpans, spans};
use crate::reach::groups::FastMap;

/// Groups of a set by the values of the labels in their namespace, where it has all of them.
#[derive(Debug, Default)]
pub(super) struct ByValues<'s> {
    of: FastMap<Vec<&'s str>, SharedSpans>,
    /// All of those groups.
    all: SharedSpans,
    /// Cache of all groups without those of some values.
    others: FastMap<Vec<&'s str>, SharedSpans>,
}

// === impl MembershipLookup ===

impl<'s> MembershipLookup<'_, 's> {
    /// Returns the groups of pods in such a set, for a subject's namespace.
    pub(super) fn of_values(&mut self, set: &'s PodSet, namespace: usize) -> SharedSpans {
        let (keys, same): (&'s [SmolStr], bool) = match &set.namespaces {
            Namespaces::SameLabels(keys) => (keys, true),
            Namespaces::NotSameLabels(keys) => (keys, false),
            _ => return Rc::new([]),
        };
        if !self.by_values.contains_key(set) {
            let sorted = self.by_values(set, keys);
            self.by_values.insert(set, sorted);
        }
        let own = self.values(keys, namespace);
        let Some(sorted) = self.by_values.get_mut(set) else { return Rc::new([]) };
        match (own, same) {
            (None, true) => Rc::new([]),
            // A namespace without a label differs from all that have it.
            (None, false) => Rc::clone(&sorted.all),
            (Some(own), true) => sorted.of.get(&own).map_or_else(|| Rc::new([]), Rc::clone),
            (Some(own), false) => {
                let (all, of) = (&sorted.all, &sorted.of);
                let others = sorted.others.entry(own);
                let others = others.or_insert_with_key(|own| match of.get(own) {
                    Some(without) => minus(all, without),
                    None => Rc::clone(all),
                });
                Rc::clone(others)
            }
        }
    }

    fn by_values(&self, set: &'s PodSet, keys: &'s [SmolStr]) -> ByValues<'s> {
        // A namespace with all of the labels has the same values as itself.
        let same = PodSet { namespaces: Namespaces::SameLabels(keys.to_vec()), ..set.clone() };
        let mut of: FastMap<Vec<&'s str>, Vec<(u32, u32)>> = FastMap::default();
        let (mut order, mut all) = (Vec::new(), Vec::new());
        for namespace in 0..self.groups.context.snapshot.namespaces().len() {
            let Some(values) = self.values(keys, namespace) else { continue };
            let inside = self.groups.of_namespace(namespace);
            let held = inside.filter(|at| self.is_in(&same, *at, Some(namespace))).map(|at| (at, at));
            let held: Vec<(u32, u32)> = held.collect();
            all.extend_from_slice(&held);
            let known = of.entry(values.clone()).or_insert_with(|| {
                order.push(values);
                Vec::new()
            });
            known.extend(held);
        }
        let mut sorted = ByValues { all: spans(all).into(), ..ByValues::default() };
        for values in order {
            if let Some(held) = of.remove(&values) {
                sorted.of.insert(values, spans(held).into());
            }
        }
        sorted
    }

    /// The values of labels in a namespace; `None` where it lacks one.
    fn values(&self, keys: &[SmolStr], namespace: usize) -> Option<Vec<&'s str>> {
        let labels = &self.groups.context.snapshot.namespaces()[namespace].labels;
        keys.iter().map(|key| labels.get(key)).collect()
    }
}

/// For each namespace the first one that has the same values for every label that anything relative asks for.
pub(super) fn representative(snapshot: &Snapshot, resolution: &Resolution<'_>) -> Vec<usize> {
    let mut keys: BTreeSet<&str> = BTreeSet::new();
    for rule in resolution.rules() {
        rule.rule.peers.for_each(|peer| {
            if let ResolvedPeer::Pods(set) = peer
                && let Namespaces::SameLabels(asked) | Namespaces::NotSameLabels(asked) = &set.namespaces
            {
                keys.extend(asked.iter().map(SmolStr::as_str));
            }
        });
    }
    let mut known: FastMap<Vec<Option<&str>>, usize> = FastMap::default();
    let mut first = Vec::with_capacity(snapshot.namespaces().len());
    for (at, namespace) in snapshot.namespaces().iter().enumerate() {
        let values = keys.iter().map(|key| namespace.labels.get(key)).collect();
        first.push(*known.entry(values).or_insert(at));
    }
    first
}

/// Those of the first who are not among the second, all of whom are among the first.
fn minus(all: &[(u32, u32)], without: &[(u32, u32)]) -> SharedSpans {
    let mut left = Vec::with_capacity(all.len() + without.len());
    let mut holes = without.iter().peekable();
    for (first, last) in all {
        let mut start = *first;
        while let Some(hole) = holes.next_if(|hole| hole.0 <= *last) {
            if start < hole.0 {
                left.push((start, hole.0 - 1));
            }
            start = hole.1 + 1;
        }
        if start <= *last {
            left.push((start, *last));
        }
    }
    left.into()
}
