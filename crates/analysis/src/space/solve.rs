//! Solver: searches a subregion in which every clause holds.
//!
//! Backtracking with two rules that solve nearly all queries of policies without branching. Unit propagation: a clause with
//! one alternative left restricts its field. Pure fields: where one value set satisfies all clauses of a field (most
//! selectors are of the form `app=web`, and another `app` is in none of them), it is chosen, since fields are independent.

use std::collections::BTreeMap;

use super::region::{Clause, PodField, PodRegion, Reduced};
use super::values::Values;

/// Budget of a search, in clauses evaluated: these take the time, not the branches.
#[derive(Debug, Clone, Copy)]
pub(super) struct SolverSteps(pub(super) u64);

/// The search exceeded its budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exhausted;

/// A branch that is not explored yet.
struct OpenChoice<'c> {
    region: PodRegion,
    clauses: Vec<&'c Clause>,
}

// === impl SolverSteps ===

impl SolverSteps {
    pub(super) fn take(&mut self, steps: usize) -> Result<(), Exhausted> {
        self.0 = self.0.checked_sub(steps as u64).ok_or(Exhausted)?;
        Ok(())
    }
}

/// Returns a subregion in which all clauses hold for every pod; `None` when no pod satisfies them.
pub(super) fn solve(
    region: PodRegion,
    clauses: Vec<&Clause>,
    steps: &mut SolverSteps,
) -> Result<Option<PodRegion>, Exhausted> {
    let mut others: Vec<OpenChoice<'_>> = Vec::new();
    let mut now = Some(OpenChoice { region, clauses });
    while let Some(OpenChoice { mut region, mut clauses }) = now.take().or_else(|| others.pop()) {
        if !propagate(&mut region, &mut clauses, steps)? {
            continue;
        }
        let Some((field, values)) = narrowest(&region, &clauses, steps)? else { return Ok(Some(region)) };
        // The two branches are disjoint; one is explored before the other.
        let mut without = region.clone();
        if without.restrict(field, &values.clone().complement()) {
            others.push(OpenChoice { region: without, clauses: clauses.clone() });
        }
        if region.restrict(field, values) {
            now = Some(OpenChoice { region, clauses });
        }
    }
    Ok(None)
}

/// Applies both rules until nothing changes. Returns whether the region may be non-empty.
fn propagate(
    region: &mut PodRegion,
    clauses: &mut Vec<&Clause>,
    steps: &mut SolverSteps,
) -> Result<bool, Exhausted> {
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

/// Restricts fields to values that satisfy all of their clauses, where there are such. Returns whether any was restricted.
fn please(region: &mut PodRegion, clauses: &[&Clause], steps: &mut SolverSteps) -> Result<bool, Exhausted> {
    steps.take(clauses.len())?;
    let mut pleasing: BTreeMap<&PodField, Values> = BTreeMap::new();
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

/// Returns an alternative of the clause with the fewest; `None` when there is no clause.
fn narrowest<'c>(
    region: &PodRegion,
    clauses: &[&'c Clause],
    steps: &mut SolverSteps,
) -> Result<Option<(&'c PodField, &'c Values)>, Exhausted> {
    steps.take(clauses.len())?;
    let open = clauses.iter().filter_map(|clause| match clause.reduced(region) {
        Reduced::Open(count, field, values) => Some((count, field, values)),
        _ => None,
    });
    Ok(open.min_by_key(|(count, ..)| *count).map(|(_, field, values)| (field, values)))
}
