//! Selectors that contradict themselves, with the requirements that do.

use std::fmt;

use palisade_model::label::{Requirement, Selector};

use super::values::Values;

/// Minimal set of requirements of one selector that cannot all hold, usually two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clash<'s>(pub Vec<&'s Requirement>);

// === impl Clash ===

impl fmt::Display for Clash<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [] => Ok(()),
            [one] => write!(f, "no label can be {one}"),
            [one, other] => write!(f, "{one} and {other} cannot both hold"),
            [many @ .., last] => {
                let many: Vec<String> = many.iter().map(ToString::to_string).collect();
                write!(f, "{} and {last} cannot all hold", many.join(", "))
            }
        }
    }
}

/// Returns the requirements that contradict each other; `None` when some labels match the selector.
pub fn never_matches(selector: &Selector) -> Option<Clash<'_>> {
    // Requirements are sorted by key, and those of different keys are independent.
    let mut keys = selector.requirements().chunk_by(|a, b| a.key == b.key);
    keys.find_map(|requirements| {
        let all: Vec<&Requirement> = requirements.iter().collect();
        impossible(&all).then(|| Clash(fewest(&all)))
    })
}

fn impossible(requirements: &[&Requirement]) -> bool {
    let all = Values::only([]).complement();
    requirements.iter().fold(all, |left, requirement| left.meet(&Values::of(requirement))).is_empty()
}

/// Returns one impossible requirement, else two, else a minimal set.
fn fewest<'s>(all: &[&'s Requirement]) -> Vec<&'s Requirement> {
    if let Some(one) = all.iter().find(|one| impossible(&[one])) {
        return vec![one];
    }
    let pairs = all.iter().enumerate().flat_map(|(at, a)| all[at + 1..].iter().map(|b| vec![*a, *b]));
    pairs.into_iter().find(|pair| impossible(pair)).unwrap_or_else(|| {
        let mut kept = all.to_vec();
        for one in all {
            let without: Vec<&Requirement> = kept.iter().copied().filter(|kept| kept != one).collect();
            if impossible(&without) {
                kept = without;
            }
        }
        kept
    })
}

#[cfg(test)]
mod tests {
    use palisade_model::label::Operator;
    use smol_str::SmolStr;

    use super::*;

    fn values(list: &str) -> Vec<SmolStr> {
        list.split_whitespace().map(SmolStr::from).collect()
    }

    fn is(key: &str, list: &str) -> Requirement {
        Requirement::new(key, Operator::In(values(list)))
    }

    fn is_not(key: &str, list: &str) -> Requirement {
        Requirement::new(key, Operator::NotIn(values(list)))
    }

    #[test]
    fn the_fewest_that_clash_are_named() {
        let there = |key: &str| Requirement::new(key, Operator::Exists);
        let gone = |key: &str| Requirement::new(key, Operator::DoesNotExist);
        let cases = [
            (vec![is("a", "1"), is("b", "2")], None),
            (vec![is("b", "1"), is("a", "1"), is("a", "2")], Some("a=1 and a=2 cannot both hold")),
            (vec![there("a"), gone("a")], Some("a and !a cannot both hold")),
            (vec![is("a", "")], Some("no label can be a in ()")),
            (vec![is("a", "1 2"), is_not("a", "1")], None),
            (vec![is_not("a", "1 2"), is_not("a", "3"), gone("a")], None),
            (vec![is_not("a", "1 2"), there("a")], None),
            (
                vec![is("a", "1 2"), is_not("a", "1"), is_not("a", "2"), there("a"), is_not("a", "5")],
                Some("a in (1,2), a!=1 and a!=2 cannot all hold"),
            ),
            (
                vec![is("a", "1 2"), is("a", "2 3"), is("a", "1 3")],
                Some("a in (1,2), a in (1,3) and a in (2,3) cannot all hold"),
            ),
        ];
        for (requirements, want) in cases {
            let selector = Selector::new(requirements);
            assert_eq!(never_matches(&selector).map(|clash| clash.to_string()).as_deref(), want);
        }
    }
}
