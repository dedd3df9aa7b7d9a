//! Subsets of a space: pods in all of some predicates and in none of others.
//!
//! A [`PodSubset`] is the intersection of its positive predicates (cheap to narrow and to compare) and a list of the negative
//! ones that still matter. Only [`Problem::find`] searches.

use std::collections::{BTreeMap, BTreeSet};

use palisade_model::cluster::NAMESPACE_NAME_LABEL;

use super::bits::BitSet;
use super::predicate::Predicate;
use super::region::{Clause, PodField, PodRegion, Reduced};
use super::solve::{Exhausted, SolverSteps, solve};
use super::values::Values;
use super::witness::Witness;
use super::{NamespaceIndex, Space};

/// Predicates that are combined, by index.
pub(super) struct Problem<'p> {
    space: &'p Space,
    predicates: Vec<&'p Predicate>,
    /// Existing namespaces, one for all that no predicate distinguishes.
    namespaces_in: Vec<NamespaceIndex>,
    /// For each predicate the namespaces among those that it holds.
    members_of: Vec<BitSet>,
}

/// Pods that are in all of some predicates and in none of others.
#[derive(Debug, Clone)]
pub(super) struct PodSubset {
    namespaces_in: BitSet,
    pods: PodRegion,
    new_namespaces: Option<PodRegion>,
    /// Indices of its positive predicates that are more than a region.
    demanding: Vec<usize>,
    /// Indices of its negative predicates that the regions do not imply.
    none_of: Vec<usize>,
}

// === impl Problem ===

impl<'p> Problem<'p> {
    pub(super) fn new(space: &'p Space, predicates: Vec<&'p Predicate>) -> Self {
        let kinds = kinds(space.namespaces.len(), &predicates);
        // The first namespace of each kind represents it.
        let mut seen = BitSet::none(kinds.len());
        let mut namespaces_in: Vec<NamespaceIndex> = Vec::new();
        for (at, kind) in kinds.into_iter().enumerate() {
            if !seen.has(kind) {
                seen.insert(kind);
                namespaces_in.push(NamespaceIndex(at));
            }
        }
        let members_of = |predicate: &&Predicate| {
            let mut bits = BitSet::none(namespaces_in.len());
            let held = namespaces_in
                .iter()
                .enumerate()
                .filter(|(_, NamespaceIndex(at))| predicate.namespaces_in.has(*at));
            held.for_each(|(at, _)| bits.insert(at));
            bits
        };
        let members_of = predicates.iter().map(members_of).collect();
        Problem { space, predicates, namespaces_in, members_of }
    }

    pub(super) fn predicate(&self, at: usize) -> &'p Predicate {
        self.predicates[at]
    }

    pub(super) fn len(&self) -> usize {
        self.predicates.len()
    }

    /// Returns the subset of all pods.
    pub(super) fn all_pods(&self) -> PodSubset {
        let mut new_namespaces = PodRegion::default();
        let named = new_namespaces
            .restrict(&PodField::NamespaceLabel(NAMESPACE_NAME_LABEL.into()), &Values::present());
        PodSubset {
            namespaces_in: BitSet::all(self.namespaces_in.len()),
            pods: PodRegion::default(),
            new_namespaces: Some(new_namespaces).filter(|_| named),
            demanding: Vec::new(),
            none_of: Vec::new(),
        }
    }

    /// Intersects a subset with a predicate. `None` when it is empty without a search.
    pub(super) fn intersect(&self, part: &PodSubset, at: usize) -> Option<PodSubset> {
        let predicate = self.predicates[at];
        let mut inner = part.clone();
        inner.namespaces_in.keep(&self.members_of[at]);
        match part.pods.meet(&predicate.pods) {
            Some(pods) if !inner.namespaces_in.is_empty() => inner.pods = pods,
            _ => inner.namespaces_in.clear(),
        }
        let new_namespaces = part.new_namespaces.as_ref().zip(predicate.new_namespaces.as_ref());
        inner.new_namespaces = new_namespaces.and_then(|(own, asked)| own.meet(&asked.region));
        if inner.new_namespaces.is_none() && inner.namespaces_in.is_empty() {
            return None;
        }
        if predicate.new_namespaces.as_ref().is_some_and(|asked| asked.demanded.is_some()) {
            inner.demanding.push(at);
        }
        inner.none_of = part.none_of.iter().copied().filter(|at| self.meets(&inner, *at)).collect();
        Some(inner)
    }

    /// Removes the pods of a predicate from a subset.
    pub(super) fn exclude(&self, part: &mut PodSubset, at: usize) {
        let predicate = self.predicates[at];
        // A unit clause narrows the region, so that it needs no search later.
        let is_everywhere = part.namespaces_in.is_within(&self.members_of[at]);
        let some_left = match predicate.refuted.reduced(&part.pods) {
            Reduced::Unit(field, values) if is_everywhere => part.pods.restrict(field, values),
            Reduced::Fails => {
                part.namespaces_in.remove(&self.members_of[at]);
                true
            }
            _ => true,
        };
        if !some_left {
            part.namespaces_in.clear();
        }
        let mut refuted = predicate.new_namespaces.iter().flat_map(|asked| &asked.refuted);
        part.new_namespaces = part.new_namespaces.take().and_then(|own| {
            refuted.try_fold(own, |mut own, clause| match clause.reduced(&own) {
                Reduced::Fails => None,
                Reduced::Unit(field, values) => own.restrict(field, values).then_some(own),
                _ => Some(own),
            })
        });
        if self.meets(part, at) {
            part.none_of.push(at);
        }
    }

    /// Whether a subset may intersect a predicate; `false` is certain.
    pub(super) fn meets(&self, part: &PodSubset, at: usize) -> bool {
        let predicate = self.predicates[at];
        let new_namespaces = part.new_namespaces.as_ref().zip(predicate.new_namespaces.as_ref());
        part.namespaces_in.meets(&self.members_of[at]) && !part.pods.misses(&predicate.pods)
            || new_namespaces.is_some_and(|(own, asked)| !own.misses(&asked.region))
    }

    /// Whether a subset is contained in a predicate without a search; `true` is certain.
    pub(super) fn is_within(&self, part: &PodSubset, at: usize) -> bool {
        let predicate = self.predicates[at];
        let members_of = part.namespaces_in.is_empty()
            || part.namespaces_in.is_within(&self.members_of[at]) && part.pods.is_within(&predicate.pods);
        members_of
            && part
                .new_namespaces
                .as_ref()
                .is_none_or(|own| predicate.new_namespaces.as_ref().is_some_and(|asked| asked.covers(own)))
    }

    /// Searches for a pod of a subset: in a new namespace first, which needs no search of each existing one.
    pub(super) fn find(
        &self,
        part: &PodSubset,
        steps: &mut SolverSteps,
    ) -> Result<Option<Witness>, Exhausted> {
        match self.find_to_come(part, steps)? {
            Some(witness) => Ok(Some(witness)),
            None => self.find_at_home(part, steps),
        }
    }

    fn find_to_come(&self, part: &PodSubset, steps: &mut SolverSteps) -> Result<Option<Witness>, Exhausted> {
        let Some(region) = &part.new_namespaces else { return Ok(None) };
        let asked = |at: &usize| self.predicates[*at].new_namespaces.as_ref();
        let demanded = part.demanding.iter().filter_map(asked).flat_map(|asked| asked.demanded.iter());
        let against = part.none_of.iter().filter_map(asked).filter(|asked| !region.misses(&asked.region));
        let clauses: Vec<&Clause> = demanded.chain(against.flat_map(|asked| asked.refuted.iter())).collect();
        let solved = solve(region.clone(), clauses, steps)?;
        Ok(solved.map(|region| Witness::of(self.space, &region, None)))
    }

    fn find_at_home(&self, part: &PodSubset, steps: &mut SolverSteps) -> Result<Option<Witness>, Exhausted> {
        let against: Vec<usize> = part
            .none_of
            .iter()
            .copied()
            .filter(|at| {
                part.namespaces_in.meets(&self.members_of[*at])
                    && !part.pods.misses(&self.predicates[*at].pods)
            })
            .collect();
        let solve_without = |without: &[usize], steps: &mut SolverSteps| {
            let clauses = without.iter().map(|at| &self.predicates[*at].refuted).collect();
            solve(part.pods.clone(), clauses, steps)
        };
        let mut failed: BTreeSet<Vec<usize>> = BTreeSet::new();
        // Predicates that hold in every namespace are the usual reason for an empty subset: they are checked once.
        if part.namespaces_in.len() > 1 {
            let everywhere = |at: &usize| part.namespaces_in.is_within(&self.members_of[*at]);
            let everywhere: Vec<usize> = against.iter().copied().filter(everywhere).collect();
            if solve_without(&everywhere, steps)?.is_none() {
                return Ok(None);
            }
        }
        for home in part.namespaces_in.iter() {
            steps.take(against.len())?;
            let here: Vec<usize> =
                against.iter().copied().filter(|at| self.members_of[*at].has(home)).collect();
            if failed.contains(&here) {
                continue;
            }
            match solve_without(&here, steps)? {
                Some(region) => {
                    return Ok(Some(Witness::of(self.space, &region, Some(self.namespaces_in[home]))));
                }
                None => failed.insert(here),
            };
        }
        Ok(None)
    }
}

/// A number for each namespace, the same for those that no predicate tells apart.
fn kinds(count: usize, predicates: &[&Predicate]) -> Vec<usize> {
    let mut kinds = vec![0; count];
    let mut sizes = vec![count];
    for predicate in predicates {
        let mut held: BTreeMap<usize, usize> = BTreeMap::new();
        predicate.namespaces_in.iter().for_each(|at| *held.entry(kinds[at]).or_default() += 1);
        // Only a kind that is held in part splits.
        let mut split: BTreeMap<usize, usize> = BTreeMap::new();
        for (kind, some) in held {
            if some < sizes[kind] {
                split.insert(kind, sizes.len());
                sizes[kind] -= some;
                sizes.push(some);
            }
        }
        if !split.is_empty() {
            for at in predicate.namespaces_in.iter() {
                kinds[at] = split.get(&kinds[at]).copied().unwrap_or(kinds[at]);
            }
        }
    }
    kinds
}
