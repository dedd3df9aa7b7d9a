//! Labels and the selectors that pick by them.
//!
//! A selector is kept canonical (requirements sorted, duplicates gone), so that two selectors that were written
//! differently but say the same are equal, hash alike and can share whatever is computed for one of them.

mod relations;

use std::fmt;

use smol_str::SmolStr;

/// Up to as many are looked at one by one: quicker than a binary search over string compares.
const FEW: usize = 16;

/// The labels of an object, sorted by key.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Labels(Vec<(SmolStr, SmolStr)>);

/// All of these must hold; none of them holds for everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selector(Vec<Requirement>);

/// One condition on one key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    /// The label's key.
    pub key: SmolStr,
    /// What must hold for its value.
    pub operator: Operator,
}

/// The four operators of the Kubernetes API. Values are sorted and distinct.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// The key is there and its value is one of these.
    In(Vec<SmolStr>),
    /// The key is absent, or its value is none of these.
    NotIn(Vec<SmolStr>),
    /// The key is there.
    Exists,
    /// The key is absent.
    DoesNotExist,
}

// === impl Labels ===

impl Labels {
    /// From pairs in any order; the last one of a key counts.
    pub fn new(pairs: impl IntoIterator<Item = (SmolStr, SmolStr)>) -> Self {
        let mut pairs: Vec<(SmolStr, SmolStr)> = pairs.into_iter().collect();
        // A stable sort keeps the last one of a key last, and that one is kept.
        pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
        pairs.reverse();
        pairs.dedup_by(|(later, _), (kept, _)| later == kept);
        pairs.reverse();
        Labels(pairs)
    }

    /// Adds or replaces one.
    pub fn set(&mut self, key: SmolStr, value: SmolStr) {
        match self.0.binary_search_by(|(k, _)| k.cmp(&key)) {
            Ok(at) => self.0[at].1 = value,
            Err(at) => self.0.insert(at, (key, value)),
        }
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, key: &str) -> Option<&str> {
        // Pods have a handful of labels: walking them beats a binary search over string compares.
        if self.0.len() <= FEW {
            return self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
        }
        self.get_of_many(key)
    }

    // Apart, so that the short way stays small enough to be inlined.
    #[cold]
    fn get_of_many(&self, key: &str) -> Option<&str> {
        let found = self.0.binary_search_by(|(k, _)| k.as_str().cmp(key));
        found.ok().map(|at| self.0[at].1.as_str())
    }

    /// Whether a key is there, however many there are.
    pub fn has(&self, key: &str) -> bool {
        self.0.binary_search_by(|(k, _)| k.as_str().cmp(key)).is_ok()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// All of them, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

// === impl Selector ===

impl Selector {
    /// The selector that matches everything.
    pub fn everything() -> Self {
        Selector::default()
    }

    /// From requirements in any order.
    pub fn new(requirements: impl IntoIterator<Item = Requirement>) -> Self {
        let mut requirements: Vec<Requirement> = requirements.into_iter().collect();
        requirements.sort();
        requirements.dedup();
        Selector(requirements)
    }

    /// `key=value`, alone.
    pub fn label(key: &str, value: &str) -> Self {
        Selector::new([Requirement::equals(key, value)])
    }

    /// Whether it is the one that matches everything.
    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// Its requirements, sorted.
    pub fn requirements(&self) -> &[Requirement] {
        &self.0
    }

    /// A label that whatever matches has; `None` when it does not ask for a single one.
    pub fn required_label(&self) -> Option<(&str, &str)> {
        self.0.iter().find_map(|requirement| match &requirement.operator {
            Operator::In(values) if values.len() == 1 => Some((requirement.key.as_str(), values[0].as_str())),
            _ => None,
        })
    }

    /// Whether all requirements hold.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().all(|requirement| requirement.matches(labels))
    }

    /// The first requirement that does not hold.
    pub fn unmet(&self, labels: &Labels) -> Option<&Requirement> {
        self.0.iter().find(|requirement| !requirement.matches(labels))
    }
}

impl fmt::Display for Selector {
    /// As kubectl writes selectors: `app=web,tier in (a,b),!old`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

// === impl Requirement ===

impl Requirement {
    /// `key=value`.
    pub fn equals(key: &str, value: &str) -> Self {
        Requirement { key: key.into(), operator: Operator::In(vec![value.into()]) }
    }

    /// With the values sorted and distinct.
    pub fn new(key: impl Into<SmolStr>, operator: Operator) -> Self {
        let canonical = |mut values: Vec<SmolStr>| {
            values.sort();
            values.dedup();
            values
        };
        let operator = match operator {
            Operator::In(values) => Operator::In(canonical(values)),
            Operator::NotIn(values) => Operator::NotIn(canonical(values)),
            other => other,
        };
        Requirement { key: key.into(), operator }
    }

    /// Whether it holds.
    pub fn matches(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        match (&self.operator, value) {
            (Operator::In(values), Some(value)) => holds(values, value),
            (Operator::In(_), None) => false,
            (Operator::NotIn(values), Some(value)) => !holds(values, value),
            (Operator::NotIn(_), None) => true,
            (Operator::Exists, value) => value.is_some(),
            (Operator::DoesNotExist, value) => value.is_none(),
        }
    }
}

/// Whether a value is among those of a requirement, which are sorted.
#[inline]
fn holds(values: &[SmolStr], value: &str) -> bool {
    match values.len() {
        ..=FEW => values.iter().any(|own| own == value),
        _ => holds_of_many(values, value),
    }
}

#[cold]
fn holds_of_many(values: &[SmolStr], value: &str) -> bool {
    values.binary_search_by(|own| own.as_str().cmp(value)).is_ok()
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.operator {
            Operator::In(values) if values.len() == 1 => write!(f, "{}={}", self.key, values[0]),
            Operator::In(values) => write!(f, "{} in ({})", self.key, values.join(",")),
            Operator::NotIn(values) if values.len() == 1 => write!(f, "{}!={}", self.key, values[0]),
            Operator::NotIn(values) => write!(f, "{} notin ({})", self.key, values.join(",")),
            Operator::Exists => write!(f, "{}", self.key),
            Operator::DoesNotExist => write!(f, "!{}", self.key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> Labels {
        Labels::new(
            text.split_whitespace()
                .filter_map(|pair| pair.split_once('='))
                .map(|(k, v)| (k.into(), v.into())),
        )
    }

    fn values(list: &[&str]) -> Vec<SmolStr> {
        list.iter().map(|v| SmolStr::from(*v)).collect()
    }

    macro_rules! matches {
        ($($name:ident: $key:literal $operator:expr, $labels:literal => $want:literal;)*) => {$(
            #[test]
            fn $name() {
                assert_eq!(Requirement::new($key, $operator).matches(&labels($labels)), $want);
            }
        )*};
    }

    matches! {
        in_holds: "a" Operator::In(values(&["1", "2"])), "a=2" => true;
        in_other_value: "a" Operator::In(values(&["1"])), "a=2" => false;
        in_needs_the_key: "a" Operator::In(values(&["1"])), "b=1" => false;
        not_in_other_value: "a" Operator::NotIn(values(&["1"])), "a=2" => true;
        not_in_same_value: "a" Operator::NotIn(values(&["1"])), "a=1" => false;
        not_in_holds_without_the_key: "a" Operator::NotIn(values(&["1"])), "b=1" => true;
        exists: "a" Operator::Exists, "a=" => true;
        exists_needs_the_key: "a" Operator::Exists, "b=1" => false;
        does_not_exist: "a" Operator::DoesNotExist, "b=1" => true;
        does_not_exist_but_does: "a" Operator::DoesNotExist, "a=1" => false;
    }

    #[test]
    fn the_same_meaning_is_the_same_selector() {
        let one = Selector::new([Requirement::equals("b", "2"), Requirement::equals("a", "1")]);
        let other = Selector::new([
            Requirement::equals("a", "1"),
            Requirement::new("b", Operator::In(values(&["2", "2"]))),
            Requirement::equals("a", "1"),
        ]);
        assert_eq!(one, other);
        assert_eq!(one.to_string(), "a=1,b=2");
    }

    #[test]
    fn a_required_label_is_one_that_must_be_there() {
        let several = Requirement::new("a", Operator::In(values(&["1", "2"])));
        assert_eq!(Selector::new([several.clone()]).required_label(), None);
        assert_eq!(
            Selector::new([Requirement::new("a", Operator::NotIn(values(&["1"])))]).required_label(),
            None
        );
        let selector = Selector::new([several, Requirement::equals("b", "3")]);
        assert_eq!(selector.required_label(), Some(("b", "3")));
    }

    #[test]
    fn the_last_label_of_a_key_counts() {
        let labels =
            Labels::new([("a".into(), "1".into()), ("b".into(), "2".into()), ("a".into(), "3".into())]);
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("a", "3"), ("b", "2")]);
    }
}
