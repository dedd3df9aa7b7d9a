//! Many predicates: the search is as long as the answer, counted in steps so that no machine is too slow for it.

use palisade_analysis::space::{Predicate, SearchResult, Space, TooMany};
use palisade_model::label::{Operator, Requirement, Selector};
use palisade_model::policy::{Namespaces, PodSet};
use palisade_model::snapshot::{Objects, Snapshot};

use crate::universe::namespace;

const MANY: usize = 1_000;

fn anywhere(requirements: impl IntoIterator<Item = Requirement>) -> PodSet {
    PodSet::new(Namespaces::Matching(Selector::everything()), Selector::new(requirements))
}

fn is(key: &str, value: usize) -> Requirement {
    Requirement::equals(key, &value.to_string())
}

fn is_none_of(key: &str, values: impl IntoIterator<Item = usize>) -> Requirement {
    Requirement::new(key, Operator::NotIn(values.into_iter().map(|value| value.to_string().into()).collect()))
}

fn space(namespaces: usize) -> Space {
    let namespaces = (0..namespaces).map(|at| namespace(&format!("n{at}"), &format!("at={at}"))).collect();
    Space::new(&Snapshot::new(Objects { namespaces, ..Objects::default() }))
}

fn signatures(space: &Space, sets: &[PodSet]) -> Result<usize, TooMany> {
    let predicates: Vec<Predicate> = sets.iter().map(|set| space.predicate(set, None)).collect();
    let predicates: Vec<&Predicate> = predicates.iter().collect();
    space.signatures(&predicates, 10_000).map(|found| found.len())
}

#[test]
fn a_thousand_disjoint_sets_need_no_search() {
    let sets: Vec<PodSet> = (0..MANY).map(|at| anywhere([is("app", at)])).collect();
    assert_eq!(signatures(&space(10).bounded(MANY as u64), &sets), Ok(MANY + 1));
}

#[test]
fn a_thousand_namespaces_need_little() {
    // Each with a set for all of it and one for some of it, and two that are everywhere.
    let of = |at: usize, pods| PodSet::new(Namespaces::Named(format!("n{at}").into()), pods);
    let mut sets: Vec<PodSet> = vec![anywhere([is("app", 1)]), anywhere([is("tier", 1)])];
    sets.extend(
        (0..MANY).flat_map(|at| [of(at, Selector::everything()), of(at, Selector::label("app", "1"))]),
    );
    // In each namespace: app=1 or not, tier=1 or not; and the same in one to come.
    assert_eq!(signatures(&space(MANY).bounded(20 * MANY as u64), &sets), Ok(4 * MANY + 4));
}

#[test]
fn nested_sets_are_one_more_each() {
    let sets: Vec<PodSet> = (0..300).map(|at| anywhere([is_none_of("app", 0..at)])).collect();
    assert_eq!(signatures(&space(3), &sets), Ok(300));
}

#[test]
fn independent_sets_are_too_many() {
    let sets: Vec<PodSet> = (0..40).map(|at| anywhere([is(&format!("k{at}"), 1)])).collect();
    assert_eq!(signatures(&space(3), &sets), Err(TooMany::Signatures));
    assert_eq!(signatures(&space(3), &sets[..10]), Ok(1 << 10));
}

/// Eight pigeons and seven holes: no two keys have the same of seven values, and each key has one of them. That cannot
/// be, and a solver that only looks at clauses takes long to see it.
#[test]
fn what_takes_too_long_is_unknown() {
    let key = |pigeon: usize| format!("pigeon-{pigeon}");
    let holes = 7;
    let space = space(1);
    let housed: Vec<Requirement> = (0..=holes)
        .map(|pigeon| {
            let values = (0..holes).map(|hole| hole.to_string().into()).collect();
            Requirement::new(key(pigeon), Operator::In(values))
        })
        .collect();
    let all = space.predicate(&anywhere(housed), None);
    let mut none = Vec::new();
    for hole in 0..holes {
        for one in 0..=holes {
            for other in 0..one {
                none.push(space.predicate(&anywhere([is(&key(one), hole), is(&key(other), hole)]), None));
            }
        }
    }
    let none: Vec<&Predicate> = none.iter().collect();
    assert!(matches!(space.clone().bounded(1_000).find(&[&all], &none), SearchResult::Unknown));
    assert!(matches!(space.find(&[&all], &none), SearchResult::Empty));
}
