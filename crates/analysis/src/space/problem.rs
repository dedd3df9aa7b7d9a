//! Some predicates of a space and the pods that are in some of them and in none of others.
//!
//! A [`Part`] is kept as what its positive predicates come to (cheap to narrow, cheap to compare with one more) and a
//! list of the negative ones that still matter. Only [`Problem::find`] searches.

use std::collections::{BTreeMap, BTreeSet};

use palisade_model::cluster::NAMESPACE_NAME_LABEL;

use super::bits::Bits;
use super::predicate::Predicate;
use super::region::{Clause, Field, Reduced, Region};
use super::solve::{Exhausted, Steps, solve};
use super::values::Values;
use super::witness::Witness;
use super::{Place, Space};

/// Predicates that are asked about together, by their place in a list.
pub(super) struct Problem<'p> {
    space: &'p Space,
    predicates: Vec<&'p Predicate>,
    /// The namespaces that exist, one for all that no predicate tells apart.
    homes: Vec<Place>,
    /// For each predicate its namespaces among those.
    at_home: Vec<Bits>,
}

/// The pods that are in some of the predicates and in none of others.
#[derive(Debug, Clone)]
pub(super) struct Part {
    homes: Bits,
    pods: Region,
    to_come: Option<Region>,
    /// The predicates it is in that are more than a region.
    demanding: Vec<usize>,
    /// The predicates it is not in, as far as that is not plain.
    none_of: Vec<usize>,
}

// === impl Problem ===

impl<'p> Problem<'p> {
    pub(super) fn new(space: &'p Space, predicates: Vec<&'p Predicate>) -> Self {
        let kinds = kinds(space.namespaces.len(), &predicates);
        // The first of each kind stands for it.
        let mut seen = Bits::none(kinds.len());
        let mut homes: Vec<Place> = Vec::new();
        for (at, kind) in kinds.into_iter().enumerate() {
            if !seen.has(kind) {
                seen.insert(kind);
                homes.push(Place(at));
            }
        }
        let at_home = |predicate: &&Predicate| {
            let mut bits = Bits::none(homes.len());
            let held = homes.iter().enumerate().filter(|(_, Place(at))| predicate.homes.has(*at));
            held.for_each(|(at, _)| bits.insert(at));
            bits
        };
        let at_home = predicates.iter().map(at_home).collect();
        Problem { space, predicates, homes, at_home }
    }

    pub(super) fn predicate(&self, at: usize) -> &'p Predicate {
        self.predicates[at]
    }

    pub(super) fn len(&self) -> usize {
        self.predicates.len()
    }

    /// All pods.
    pub(super) fn everybody(&self) -> Part {
        let mut to_come = Region::default();
        let named = to_come.restrict(&Field::Home(NAMESPACE_NAME_LABEL.into()), &Values::present());
        Part {
            homes: Bits::all(self.homes.len()),
            pods: Region::default(),
            to_come: Some(to_come).filter(|_| named),
            demanding: Vec::new(),
            none_of: Vec::new(),
        }
    }

    /// Those of a part that are in a predicate, too. `None` when it is plain that nobody is.
    pub(super) fn inside(&self, part: &Part, at: usize) -> Option<Part> {
        let predicate = self.predicates[at];
        let mut inner = part.clone();
        inner.homes.keep(&self.at_home[at]);
        match part.pods.meet(&predicate.pods) {
            Some(pods) if !inner.homes.is_empty() => inner.pods = pods,
            _ => inner.homes.clear(),
        }
        let to_come = part.to_come.as_ref().zip(predicate.to_come.as_ref());
        inner.to_come = to_come.and_then(|(own, asked)| own.meet(&asked.region));
        if inner.to_come.is_none() && inner.homes.is_empty() {
            return None;
        }
        if predicate.to_come.as_ref().is_some_and(|asked| asked.demanded.is_some()) {
            inner.demanding.push(at);
        }
        inner.none_of = part.none_of.iter().copied().filter(|at| self.meets(&inner, *at)).collect();
        Some(inner)
    }

    /// Leaves out of a part who is in a predicate.
    pub(super) fn leave_out(&self, part: &mut Part, at: usize) {
        let predicate = self.predicates[at];
        // What says one thing only narrows the part, so that it is plain from now on and not searched for again.
        let is_everywhere = part.homes.is_within(&self.at_home[at]);
        let some_left = match predicate.refuted.reduced(&part.pods) {
            Reduced::Unit(field, values) if is_everywhere => part.pods.restrict(field, values),
            Reduced::Fails => {
                part.homes.remove(&self.at_home[at]);
                true
            }
            _ => true,
        };
        if !some_left {
            part.homes.clear();
        }
        let mut refuted = predicate.to_come.iter().flat_map(|asked| &asked.refuted);
        part.to_come = part.to_come.take().and_then(|own| {
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

    /// Whether some of a part may be in a predicate. If not, none is.
    pub(super) fn meets(&self, part: &Part, at: usize) -> bool {
        let predicate = self.predicates[at];
        let to_come = part.to_come.as_ref().zip(predicate.to_come.as_ref());
        part.homes.meets(&self.at_home[at]) && !part.pods.misses(&predicate.pods)
            || to_come.is_some_and(|(own, asked)| !own.misses(&asked.region))
    }

    /// Whether it is plain that all of a part are in a predicate.
    pub(super) fn is_within(&self, part: &Part, at: usize) -> bool {
        let predicate = self.predicates[at];
        let at_home = part.homes.is_empty()
            || part.homes.is_within(&self.at_home[at]) && part.pods.is_within(&predicate.pods);
        at_home
            && part
                .to_come
                .as_ref()
                .is_none_or(|own| predicate.to_come.as_ref().is_some_and(|asked| asked.covers(own)))
    }

    /// Somebody of a part. In a namespace to come if there is one: that needs no look at each one that exists.
    pub(super) fn find(&self, part: &Part, steps: &mut Steps) -> Result<Option<Witness>, Exhausted> {
        match self.find_to_come(part, steps)? {
            Some(witness) => Ok(Some(witness)),
            None => self.find_at_home(part, steps),
        }
    }

    fn find_to_come(&self, part: &Part, steps: &mut Steps) -> Result<Option<Witness>, Exhausted> {
        let Some(region) = &part.to_come else { return Ok(None) };
        let asked = |at: &usize| self.predicates[*at].to_come.as_ref();
        let demanded = part.demanding.iter().filter_map(asked).flat_map(|asked| asked.demanded.iter());
        let against = part.none_of.iter().filter_map(asked).filter(|asked| !region.misses(&asked.region));
        let clauses: Vec<&Clause> = demanded.chain(against.flat_map(|asked| asked.refuted.iter())).collect();
        let solved = solve(region.clone(), clauses, steps)?;
        Ok(solved.map(|region| Witness::of(self.space, &region, None)))
    }

    fn find_at_home(&self, part: &Part, steps: &mut Steps) -> Result<Option<Witness>, Exhausted> {
        let against: Vec<usize> = part
            .none_of
            .iter()
            .copied()
            .filter(|at| {
                part.homes.meets(&self.at_home[*at]) && !part.pods.misses(&self.predicates[*at].pods)
            })
            .collect();
        let solve_without = |without: &[usize], steps: &mut Steps| {
            let clauses = without.iter().map(|at| &self.predicates[*at].refuted).collect();
            solve(part.pods.clone(), clauses, steps)
        };
        let mut failed: BTreeSet<Vec<usize>> = BTreeSet::new();
        // What speaks against pods in every namespace is most often why there is none, and asked once.
        if part.homes.len() > 1 {
            let everywhere = |at: &usize| part.homes.is_within(&self.at_home[*at]);
            let everywhere: Vec<usize> = against.iter().copied().filter(everywhere).collect();
            if solve_without(&everywhere, steps)?.is_none() {
                return Ok(None);
            }
        }
        for home in part.homes.iter() {
            steps.take(against.len())?;
            let here: Vec<usize> = against.iter().copied().filter(|at| self.at_home[*at].has(home)).collect();
            if failed.contains(&here) {
                continue;
            }
            match solve_without(&here, steps)? {
                Some(region) => return Ok(Some(Witness::of(self.space, &region, Some(self.homes[home])))),
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
        predicate.homes.iter().for_each(|at| *held.entry(kinds[at]).or_default() += 1);
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
            for at in predicate.homes.iter() {
                kinds[at] = split.get(&kinds[at]).copied().unwrap_or(kinds[at]);
            }
        }
    }
    kinds
}
