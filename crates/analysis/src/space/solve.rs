//! The search: a part of a region for which every clause holds.
//!
//! Backtracking with two rules that make nearly every question that policies raise one of no search at all. A clause
//! with one alternative left is taken at its word. And where all clauses that speak about a field can be pleased by the
//! same value of it (most selectors are of the form `app=web`, and some other `app` is in none of them), that value
//! loses nothing, since no other field depends on it.

use std::collections::BTreeMap;

use super::region::{Clause, Field, Reduced, Region};
use super::values::Values;

/// How much looking is left. What is counted is clauses looked at, not choices made: that is what takes the time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Steps(pub(super) u64);

/// There was more to look at than was allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exhausted;

/// A choice that is not made yet: where to go on when nothing came of the other one.
struct Other<'c> {
    region: Region,
    clauses: Vec<&'c Clause>,
}

// === impl Steps ===

impl Steps {
    pub(super) fn take(&mut self, steps: usize) -> Result<(), Exhausted> {
        self.0 = self.0.checked_sub(steps as u64).ok_or(Exhausted)?;
        Ok(())
    }
}

/// A part of the region in which all clauses hold, for every pod of it; `None` when there is no such pod.
pub(super) fn solve(
    region: Region,
    clauses: Vec<&Clause>,
    steps: &mut Steps,
) -> Result<Option<Region>, Exhausted> {
    let mut others: Vec<Other<'_>> = Vec::new();
    let mut now = Some(Other { region, clauses });
    while let Some(Other { mut region, mut clauses }) = now.take().or_else(|| others.pop()) {
        if !propagate(&mut region, &mut clauses, steps)? {
            continue;
        }
        let Some((field, values)) = narrowest(&region, &clauses, steps)? else { return Ok(Some(region)) };
        // The one is tried before the other, and the two have nothing in common.
        let mut without = region.clone();
        if without.restrict(field, &values.clone().complement()) {
            others.push(Other { region: without, clauses: clauses.clone() });
        }
        if region.restrict(field, values) {
            now = Some(Other { region, clauses });
        }
    }
    Ok(None)
}

/// Follows both rules until they say nothing new. Whether there may still be somebody.
fn propagate(region: &mut Region, clauses: &mut Vec<&Clause>, steps: &mut Steps) -> Result<bool, Exhausted> {
    loop {
        let mut narrowed = false;
        let mut left = Vec::with_capacity(clauses.len());
        steps.take(clauses.len())?;
        for clause in clauses.drain(..) {
            match clause.reduced(region) {
                Reduced::Holds => {}
                Reduced::Fails => return Ok(false),
                Reduced::Unit(field, values) => {
                    narrowed = true;
                    if !region.restrict(field, values) {
                        return Ok(false);
                    }
                }
                Reduced::Open(..) => left.push(clause),
            }
        }
        *clauses = left;
        if !narrowed && !please(region, clauses, steps)? {
            return Ok(true);
        }
    }
}

/// Gives fields the values that please all clauses which speak about them, if there are such. Whether any got some.
fn please(region: &mut Region, clauses: &[&Clause], steps: &mut Steps) -> Result<bool, Exhausted> {
    steps.take(clauses.len())?;
    let mut pleasing: BTreeMap<&Field, Values> = BTreeMap::new();
    for clause in clauses {
        for (field, values) in clause.open(region) {
            match pleasing.get_mut(field) {
                Some(all) => all.narrow(values),
                None => {
                    let own = region.get(field).map_or_else(|| values.clone(), |own| own.meet(values));
                    pleasing.insert(field, own);
                }
            }
        }
    }
    let mut pleased = false;
    for (field, values) in pleasing.iter().filter(|(_, values)| !values.is_empty()) {
        pleased |= region.restrict(field, values);
    }
    Ok(pleased)
}

/// An alternative of the clause with the fewest; `None` when there is no clause.
fn narrowest<'c>(
    region: &Region,
    clauses: &[&'c Clause],
    steps: &mut Steps,
) -> Result<Option<(&'c Field, &'c Values)>, Exhausted> {
    steps.take(clauses.len())?;
    let open = clauses.iter().filter_map(|clause| match clause.reduced(region) {
        Reduced::Open(count, field, values) => Some((count, field, values)),
        _ => None,
    });
    Ok(open.min_by_key(|(count, ..)| *count).map(|(_, field, values)| (field, values)))
}
