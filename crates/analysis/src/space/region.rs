//! Conjunctions and disjunctions over what there is to ask about a pod.
//!
//! What a selector says is a [`Region`]: a set of values for each field, all of which must hold. What the negation of
//! one says is a [`Clause`]: any of them. Fields are independent of each other, which is what makes both easy.

use palisade_model::label::Selector;
use smol_str::SmolStr;

use super::values::Values;

/// Something about a pod that a selection can ask for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Field {
    /// Its service account.
    Account,
    /// A label of its own, by key.
    Label(SmolStr),
    /// A label of its namespace, by key. Only asked of namespaces to come: of the others all is known.
    Home(SmolStr),
}

/// Pods by their fields: each must have one of its values, and may be anything where none are given. Never empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Region(Vec<(Field, Values)>);

/// At least one of the fields has one of its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Clause(Vec<(Field, Values)>);

/// What a clause comes to in a region.
pub(super) enum Reduced<'c> {
    /// It holds for all of the region.
    Holds,
    /// It holds for none of it.
    Fails,
    /// It holds where this alone does.
    Unit(&'c Field, &'c Values),
    /// It holds where one of so many do, the first of which is this.
    Open(usize, &'c Field, &'c Values),
}

// === impl Region ===

impl Region {
    /// Those whose labels a selector matches; `None` when nobody's are. `field` says whose labels.
    pub(super) fn selected(selector: &Selector, field: impl Fn(SmolStr) -> Field) -> Option<Self> {
        let mut region = Region::default();
        for requirement in selector.requirements() {
            if !region.restrict(&field(requirement.key.clone()), &Values::of(requirement)) {
                return None;
            }
        }
        Some(region)
    }

    pub(super) fn get(&self, field: &Field) -> Option<&Values> {
        self.0.binary_search_by(|(own, _)| own.cmp(field)).ok().map(|at| &self.0[at].1)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(Field, Values)> {
        self.0.iter()
    }

    /// Allows a field these values only. When that leaves nothing, it says so and the region is of no use any more.
    #[must_use]
    pub(super) fn restrict(&mut self, field: &Field, values: &Values) -> bool {
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

    /// What is in both; `None` when nothing is.
    pub(super) fn meet(&self, other: &Region) -> Option<Region> {
        let mut both = self.clone();
        other.0.iter().all(|(field, values)| both.restrict(field, values)).then_some(both)
    }

    /// Whether nothing is in both.
    pub(super) fn misses(&self, other: &Region) -> bool {
        other.0.iter().any(|(field, values)| self.get(field).is_some_and(|own| own.misses(values)))
    }

    pub(super) fn is_within(&self, other: &Region) -> bool {
        let all = Values::only([]).complement();
        other.0.iter().all(|(field, values)| self.get(field).unwrap_or(&all).is_within(values))
    }

    /// That somebody is not in it.
    pub(super) fn negated(&self) -> Clause {
        Clause(self.0.iter().map(|(field, values)| (field.clone(), values.clone().complement())).collect())
    }
}

// === impl Clause ===

impl Clause {
    /// The same, or this.
    pub(super) fn or(&self, field: &Field, values: &Values) -> Clause {
        let mut literals = self.0.clone();
        match literals.binary_search_by(|(own, _)| own.cmp(field)) {
            Ok(at) => literals[at].1 = literals[at].1.clone().join(values.clone()),
            Err(at) => literals.insert(at, (field.clone(), values.clone())),
        }
        Clause(literals)
    }

    /// Its alternatives that hold for some of the region.
    pub(super) fn open<'c>(&'c self, region: &Region) -> impl Iterator<Item = &'c (Field, Values)> {
        self.0.iter().filter(|(field, values)| match region.get(field) {
            Some(own) => !own.misses(values),
            None => !values.is_empty(),
        })
    }

    pub(super) fn reduced(&self, region: &Region) -> Reduced<'_> {
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
