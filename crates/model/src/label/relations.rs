//! How two selectors relate, for every set of labels there could be: one implies the other, or both cannot match.
//!
//! Sound and not complete: requirements are compared one with one, key by key. A relation that takes several requirements at
//! once is not found; `analysis::space` finds those.

use smol_str::SmolStr;

use super::{Operator, Requirement, Selector};

// === impl Selector ===

impl Selector {
    /// Returns whether everything that this selector matches the other matches, too.
    pub fn implies(&self, other: &Selector) -> bool {
        let is_implied = |wanted: &Requirement| self.requirements().iter().any(|own| own.implies(wanted));
        other.requirements().iter().all(is_implied)
    }

    /// Returns whether nothing matches both.
    pub fn is_disjoint(&self, other: &Selector) -> bool {
        self.requirements().iter().any(|one| other.requirements().iter().any(|two| one.contradicts(two)))
    }
}

// === impl Requirement ===

impl Requirement {
    fn implies(&self, other: &Requirement) -> bool {
        if self.key != other.key {
            return false;
        }
        match (&self.operator, &other.operator) {
            (Operator::In(own), Operator::In(wanted)) => is_subset(own, wanted),
            (Operator::In(own), Operator::NotIn(excluded)) => are_disjoint(own, excluded),
            (Operator::In(_), Operator::Exists) => true,
            (Operator::In(own), Operator::DoesNotExist) => own.is_empty(),
            (Operator::NotIn(own), Operator::NotIn(excluded)) => is_subset(excluded, own),
            (Operator::NotIn(_), Operator::In(_) | Operator::Exists | Operator::DoesNotExist) => false,
            (Operator::Exists, Operator::Exists) => true,
            (Operator::Exists, Operator::NotIn(excluded)) => excluded.is_empty(),
            (Operator::Exists, Operator::In(_) | Operator::DoesNotExist) => false,
            (Operator::DoesNotExist, Operator::DoesNotExist | Operator::NotIn(_)) => true,
            (Operator::DoesNotExist, Operator::In(_) | Operator::Exists) => false,
        }
    }

    fn contradicts(&self, other: &Requirement) -> bool {
        if self.key != other.key {
            return false;
        }
        match (&self.operator, &other.operator) {
            (Operator::In(one), Operator::In(other)) => are_disjoint(one, other),
            (Operator::In(one), Operator::NotIn(excluded))
            | (Operator::NotIn(excluded), Operator::In(one)) => is_subset(one, excluded),
            (Operator::In(_) | Operator::Exists, Operator::DoesNotExist)
            | (Operator::DoesNotExist, Operator::In(_) | Operator::Exists) => true,
            (Operator::In(one), Operator::Exists) | (Operator::Exists, Operator::In(one)) => one.is_empty(),
            (Operator::NotIn(_), _) | (_, Operator::NotIn(_)) => false,
            (Operator::Exists, Operator::Exists) | (Operator::DoesNotExist, Operator::DoesNotExist) => false,
        }
    }
}

/// Values of requirements are sorted.
fn is_subset(some: &[SmolStr], of: &[SmolStr]) -> bool {
    some.iter().all(|value| of.binary_search(value).is_ok())
}

fn are_disjoint(one: &[SmolStr], other: &[SmolStr]) -> bool {
    !one.iter().any(|value| other.binary_search(value).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label::Labels;

    /// Every requirement on one key over two values, and every value a pod can have for it.
    #[test]
    fn relations_of_requirements_hold_for_every_value() {
        let lists = [vec![], vec!["a"], vec!["b"], vec!["a", "b"]]
            .map(|list| -> Vec<SmolStr> { list.into_iter().map(SmolStr::new_static).collect() });
        let operators =
            lists.iter().flat_map(|list| [Operator::In(list.clone()), Operator::NotIn(list.clone())]);
        let operators = operators.chain([Operator::Exists, Operator::DoesNotExist]);
        let selectors: Vec<Selector> =
            operators.map(|operator| Selector::new([Requirement::new("k", operator)])).collect();
        let labels = [None, Some("a"), Some("b"), Some("c")]
            .map(|value| Labels::new(value.map(|value| ("k".into(), value.into()))));
        for one in &selectors {
            for other in &selectors {
                let implies = labels.iter().all(|labels| !one.matches(labels) || other.matches(labels));
                let disjoint = !labels.iter().any(|labels| one.matches(labels) && other.matches(labels));
                // What matches nothing implies everything, which takes one requirement to know and is not looked for.
                let matches_nothing = !labels.iter().any(|labels| one.matches(labels));
                assert!(!one.implies(other) || implies, "{one} implies {other}");
                assert!(!one.is_disjoint(other) || disjoint, "{one} is disjoint from {other}");
                let needless = matches_nothing || other.matches(&labels[0]) && implies && !one.implies(other);
                assert!(one.implies(other) == implies || needless, "{one}, {other}");
            }
        }
        assert!(selectors[0].implies(&selectors[0]));
    }

    #[test]
    fn a_narrower_selector_implies_a_wider_one() {
        let web = Selector::label("app", "web");
        let web_of_shop =
            Selector::new([Requirement::equals("app", "web"), Requirement::equals("in", "shop")]);
        assert!(web_of_shop.implies(&web) && !web.implies(&web_of_shop));
        assert!(web.implies(&Selector::everything()) && !Selector::everything().implies(&web));
        assert!(web.is_disjoint(&Selector::label("app", "db")));
        assert!(!web.is_disjoint(&Selector::label("in", "shop")));
    }
}
