//! Sets of label values, with absence as one more value.
//!
//! A requirement allows a few values, or all but a few: such sets are closed under all operations of the solver. Unlisted
//! values are equivalent.

use palisade_model::label::{Operator, Requirement};
use palisade_model::names;
use smol_str::{SmolStr, format_smolstr};

/// Set of values; `None` is an absent label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Values {
    /// Sorted and distinct.
    listed: Vec<Option<SmolStr>>,
    /// Whether the set is the complement of the list.
    others: bool,
}

// === impl Values ===

impl Values {
    pub(super) fn only(listed: impl IntoIterator<Item = Option<SmolStr>>) -> Self {
        let mut listed: Vec<_> = listed.into_iter().collect();
        listed.sort();
        listed.dedup();
        Values { listed, others: false }
    }

    /// Creates the set of all present values.
    pub(super) fn present() -> Self {
        Values { listed: vec![None], others: true }
    }

    /// Creates the set of values that a requirement allows. Values that an API server refuses are excluded: no object has
    /// them.
    pub(super) fn of(requirement: &Requirement) -> Self {
        let carried = |values: &[SmolStr]| -> Values {
            let valid = values.iter().filter(|value| names::is_label_value(value));
            Values::only(valid.cloned().map(Some))
        };
        let possible = names::is_label_key(&requirement.key);
        match &requirement.operator {
            Operator::In(_) | Operator::Exists if !possible => Values::only([]),
            Operator::NotIn(_) | Operator::DoesNotExist if !possible => Values::only([]).complement(),
            Operator::In(values) => carried(values),
            Operator::NotIn(values) => carried(values).complement(),
            Operator::Exists => Values::present(),
            Operator::DoesNotExist => Values::only([None]),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.others && self.listed.is_empty()
    }

    pub(super) fn has(&self, value: Option<&str>) -> bool {
        let found = self.listed.binary_search_by(|listed| listed.as_deref().cmp(&value)).is_ok();
        found != self.others
    }

    pub(super) fn complement(mut self) -> Self {
        self.others = !self.others;
        self
    }

    /// Intersects in place, because lists of exceptions grow one by one to a thousand and more.
    pub(super) fn narrow(&mut self, other: &Values) {
        match (self.others, other.others) {
            (false, _) => self.listed.retain(|value| other.has(value.as_deref())),
            (true, false) => *self = other.keeping(|value| self.has(value)),
            (true, true) => {
                for value in &other.listed {
                    if let Err(at) = self.listed.binary_search(value) {
                        self.listed.insert(at, value.clone());
                    }
                }
            }
        }
    }

    /// Returns the intersection.
    pub(super) fn meet(&self, other: &Values) -> Values {
        let mut both = self.clone();
        both.narrow(other);
        both
    }

    /// Returns the union.
    pub(super) fn join(self, other: Values) -> Values {
        self.complement().meet(&other.complement()).complement()
    }

    pub(super) fn misses(&self, other: &Values) -> bool {
        match (self.others, other.others) {
            (false, _) => !self.listed.iter().any(|value| other.has(value.as_deref())),
            (true, false) => !other.listed.iter().any(|value| self.has(value.as_deref())),
            (true, true) => false,
        }
    }

    pub(super) fn is_within(&self, other: &Values) -> bool {
        match (self.others, other.others) {
            (false, _) => self.listed.iter().all(|value| other.has(value.as_deref())),
            (true, false) => false,
            (true, true) => !other.listed.iter().any(|value| self.has(value.as_deref())),
        }
    }

    /// Removes listed values that are not accepted; a complement stays as it is.
    pub(super) fn listing(mut self, will_do: impl Fn(&str) -> bool) -> Values {
        self.listed.retain(|value| value.as_deref().is_none_or(&will_do));
        self
    }

    /// Returns the simplest value: absent, else the first that is listed, else an unlisted one that is accepted. The inner
    /// `None` is absence, the outer one an empty set.
    pub(super) fn simplest(&self, will_do: impl Fn(&str) -> bool) -> Option<Option<SmolStr>> {
        if !self.others {
            return self.listed.first().cloned();
        }
        if self.has(None) {
            return Some(None);
        }
        fresh().find(|value| self.has(Some(value)) && will_do(value)).map(Some)
    }

    /// Returns the simplest present value.
    pub(super) fn simplest_present(&self, will_do: impl Fn(&str) -> bool) -> Option<SmolStr> {
        self.meet(&Values::present()).simplest(will_do).flatten()
    }

    fn keeping(&self, keep: impl Fn(Option<&str>) -> bool) -> Values {
        let listed = self.listed.iter().filter(|value| keep(value.as_deref())).cloned().collect();
        Values { listed, others: self.others }
    }
}

/// Values for witnesses: valid in labels and in names of namespaces.
fn fresh() -> impl Iterator<Item = SmolStr> {
    let numbered = (1_usize..).map(|number| format_smolstr!("other-{number}"));
    std::iter::once(SmolStr::new_static("other")).chain(numbered)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Values> {
        let universe = [None, Some("1".into()), Some("2".into()), Some("3".into())];
        let chosen =
            |mask: usize| (0..4).filter(move |at| mask >> at & 1 == 1).map(|at| universe[at].clone());
        let few: Vec<Values> = (0..16).map(|mask| Values::only(chosen(mask))).collect();
        few.iter().cloned().chain(few.iter().cloned().map(Values::complement)).collect()
    }

    #[test]
    fn sets_of_values_are_sets() {
        // 4 is listed by none of them: it is what all others are like.
        let points = [None, Some("1"), Some("2"), Some("3"), Some("4")];
        for a in all() {
            assert_eq!(a.is_empty(), points.iter().all(|point| !a.has(*point)));
            assert_eq!(a.simplest(|_| true).is_none(), a.is_empty());
            assert!(a.simplest(|_| true).is_none_or(|value| a.has(value.as_deref())));
            for b in all() {
                for point in points {
                    let (in_a, in_b) = (a.has(point), b.has(point));
                    assert_eq!(a.meet(&b).has(point), in_a && in_b);
                    assert_eq!(a.clone().join(b.clone()).has(point), in_a || in_b);
                }
                assert_eq!(a.misses(&b), a.meet(&b).is_empty());
                assert_eq!(a.is_within(&b), points.iter().all(|point| !a.has(*point) || b.has(*point)));
            }
        }
    }

    #[test]
    fn a_new_value_is_none_that_was_named() {
        let others = Values::only([None, Some("other".into()), Some("other-1".into())]).complement();
        assert_eq!(others.simplest(|_| true), Some(Some("other-2".into())));
        assert_eq!(others.simplest(|value| value != "other-2"), Some(Some("other-3".into())));
    }

    #[test]
    fn what_no_object_can_carry_is_no_value() {
        let bad = Requirement::new("app", Operator::In(vec!["no value".into(), "ok".into()]));
        assert_eq!(Values::of(&bad), Values::only([Some("ok".into())]));
        assert!(Values::of(&Requirement::new("no key", Operator::Exists)).is_empty());
        // Nobody has it, so that not even the negation asks for it.
        let absent = Values::of(&Requirement::new("no key", Operator::DoesNotExist));
        assert!(absent.has(None) && absent.complement().is_empty());
    }
}
