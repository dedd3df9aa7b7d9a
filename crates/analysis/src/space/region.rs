//! Conjunctions and disjunctions over the fields of a pod.
//!
//! A selector is a [`PodRegion`]: a set of values for each field, all of which must hold. Its negation is a [`Clause`]: at
//! least one field has one of its values. Fields are independent, which makes both simple.

use palisade_model::label::Selector;
use smol_str::SmolStr;

use super::values::Values;

/// Field of a pod that selections constrain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum PodField {
    /// Its service account.
    Account,
    /// A label of its own, by key.
    Label(SmolStr),
    /// A label of its namespace, by key. Only for new namespaces: labels of existing ones are known.
    NamespaceLabel(SmolStr),
}

/// Pods whose fields each have one of their values; fields without values are unconstrained. Never empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PodRegion(Vec<(PodField, Values)>);

/// Pods of which at least one field has one of its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Clause(Vec<(PodField, Values)>);

/// A clause simplified for a region.
pub(super) enum Reduced<'c> {
    /// It holds for all of the region.
    Holds,
    /// It holds for none of it.
    Fails,
    /// It holds where this single alternative does.
    Unit(&'c PodField, &'c Values),
    /// It holds where one of several alternatives does; their number, and the first.
    Open(usize, &'c PodField, &'c Values),
}

// === impl PodRegion ===

impl PodRegion {
    /// Creates the region of labels that a selector matches; `None` when it matches none. `field` maps a key to its field.
    pub(super) fn selected(selector: &Selector, field: impl Fn(SmolStr) -> PodField) -> Option<Self> {
        let mut region = PodRegion::default();
        for requirement in selector.requirements() {
            if !region.restrict(&field(requirement.key.clone()), &Values::of(requirement)) {
                return None;
            }
        }
        Some(region)
    }

    pub(super) fn get(&self, field: &PodField) -> Option<&Values> {
        self.0.binary_search_by(|(own, _)| own.cmp(field)).ok().map(|at| &self.0[at].1)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(PodField, Values)> {
        self.0.iter()
    }

    /// Restricts a field to these values. Returns `false` if the region became empty; it must not be used then.
    #[must_use]
    pub(super) fn restrict(&mut self, field: &PodField, values: &Values) -> bool {
        match self.0.binary_search_by(|(own, _)| own.cmp(field)) {
            Ok(at) => {
                let own = &mut self.0[at].1;
                own.narrow(values);
                !own.is_empty()
            }
            Err(at) => {
                self.0.insert(at, (field.clone(), values.clone()));
                !values.is_empty()
            }
        }
    }

    /// Returns the intersection; `None` when it is empty.
    pub(super) fn meet(&self, other: &PodRegion) -> Option<PodRegion> {
        let mut both = self.clone();
        other.0.iter().all(|(field, values)| both.restrict(field, values)).then_some(both)
    }

    /// Whether the intersection is empty.
    pub(super) fn misses(&self, other: &PodRegion) -> bool {
        other.0.iter().any(|(field, values)| self.get(field).is_some_and(|own| own.misses(values)))
    }

    pub(super) fn is_within(&self, other: &PodRegion) -> bool {
        let all = Values::only([]).complement();
        other.0.iter().all(|(field, values)| self.get(field).unwrap_or(&all).is_within(values))
    }

    /// Returns the clause of pods outside of the region.
    pub(super) fn negated(&self) -> Clause {
        Clause(self.0.iter().map(|(field, values)| (field.clone(), values.clone().complement())).collect())
    }
}

// === impl Clause ===

impl Clause {
    /// Adds an alternative.
    pub(super) fn or(&self, field: &PodField, values: &Values) -> Clause {
        let mut literals = self.0.clone();
        match literals.binary_search_by(|(own, _)| own.cmp(field)) {
            Ok(at) => literals[at].1 = literals[at].1.clone().join(values.clone()),
            Err(at) => literals.insert(at, (field.clone(), values.clone())),
        }
        Clause(literals)
    }

    /// Simplifies the clause to alternatives that hold for some pod of the region.
    pub(super) fn open<'c>(&'c self, region: &PodRegion) -> impl Iterator<Item = &'c (PodField, Values)> {
        self.0.iter().filter(|(field, values)| match region.get(field) {
            Some(own) => !own.misses(values),
            None => !values.is_empty(),
        })
    }

    pub(super) fn reduced(&self, region: &PodRegion) -> Reduced<'_> {
        let (mut open, mut first) = (0, None);
        for (field, values) in &self.0 {
            match region.get(field) {
                Some(own) if own.is_within(values) => return Reduced::Holds,
                Some(own) if own.misses(values) => continue,
                _ => {}
            }
            open += 1;
            first = first.or(Some((field, values)));
        }
        match (open, first) {
            (1, Some((field, values))) => Reduced::Unit(field, values),
            (_, Some((field, values))) => Reduced::Open(open, field, values),
            (_, None) => Reduced::Fails,
        }
    }
}
