//! What is described is what is meant, in few words.

use palisade_analysis::space::{Predicate, Signature, Space, describe, describe_groups};
use palisade_model::label::{Requirement, Selector};
use palisade_model::policy::{Namespaces, PodSet};
use palisade_model::snapshot::{Objects, Snapshot};

use crate::universe::{Dice, namespace};

fn selector(text: &str) -> Selector {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    Selector::new(pairs.map(|(key, value)| Requirement::equals(key, value)))
}

fn pods(namespaces: &str, text: &str) -> PodSet {
    PodSet::new(Namespaces::Matching(selector(namespaces)), selector(text))
}

fn space() -> Space {
    let namespaces = vec![namespace("shop", "team=a"), namespace("bank", "")];
    Space::new(&Snapshot::new(Objects { namespaces, ..Objects::default() }))
}

/// The descriptions of the groups that `group` makes of the signatures of some sets.
fn groups<G: Ord + Clone>(sets: &[PodSet], group: impl Fn(&Signature) -> G) -> Vec<(G, String)> {
    let space = space();
    let predicates: Vec<Predicate> = sets.iter().map(|set| space.predicate(set, None)).collect();
    let predicates: Vec<&Predicate> = predicates.iter().collect();
    let signatures = space.signatures(&predicates, 1_000).unwrap();
    let described = describe_groups(&predicates, &signatures, |at| group(&signatures[at]));
    described.into_iter().map(|(group, words)| (group, words.to_string())).collect()
}

fn is_allowed(signature: &Signature) -> bool {
    signature.members.has(0)
}

#[test]
fn one_set_and_all_others() {
    let sets = [pods("team=a", "app=web"), pods("", "app=web")];
    let want = [
        (true, "pods with app=web of namespaces with team=a".to_owned()),
        (false, "any other pod".to_owned()),
    ];
    assert_eq!(groups(&sets, is_allowed), want);
    assert_eq!(groups(&sets, |_| ()), [((), "any pod".to_owned())]);
}

#[test]
fn what_follows_is_not_said_and_what_matters_is_excepted() {
    let sets = [pods("", "app=web"), pods("team=a", "app=web"), pods("", "old=1"), pods("", "app=db")];
    // By what a pod is in: 0 where nothing matters.
    let group = |signature: &Signature| match signature.members.iter().collect::<Vec<_>>().as_slice() {
        [0] => 1,
        [0, 1] => 2,
        [0, 1, 2] | [0, 2] => 3,
        [2] | [2, 3] => 4,
        _ => 5,
    };
    let words: Vec<String> = groups(&sets, group).into_iter().map(|(_, words)| words).collect();
    assert_eq!(
        words,
        [
            "pods with app=web anywhere, except pods with app=web of namespaces with team=a and pods with old=1 anywhere",
            "pods with app=web of namespaces with team=a, except pods with old=1 anywhere",
            "pods with app=web anywhere that are also pods with old=1 anywhere",
            "pods with old=1 anywhere, except pods with app=web anywhere",
            "any other pod",
        ]
    );
}

#[test]
fn alternatives_are_as_many_as_needed() {
    let sets = [pods("", "app=web"), pods("", "app=db"), PodSet::all_of("shop"), PodSet::all_of("bank")];
    let group = |signature: &Signature| signature.members.has(0) || signature.members.has(3);
    assert_eq!(groups(&sets, group)[0].1, "pods with app=web anywhere; pods of namespace bank");
}

#[test]
fn descriptions_are_exact() {
    let space = space();
    let mut dice = Dice(5);
    let values = ["", "app=web", "app=db", "tier=1", "app=web,tier=1", "tier=2"];
    for _ in 0..200 {
        let count = 1 + dice.roll(6);
        let sets: Vec<PodSet> = (0..count)
            .map(|_| match dice.roll(3) {
                0 => PodSet::new(Namespaces::Named("shop".into()), selector(dice.one(&values))),
                1 => pods("team=a", dice.one(&values)),
                _ => pods("", dice.one(&values)),
            })
            .collect();
        let predicates: Vec<Predicate> = sets.iter().map(|set| space.predicate(set, None)).collect();
        let predicates: Vec<&Predicate> = predicates.iter().collect();
        let signatures = space.signatures(&predicates, 1_000).unwrap();
        let chosen: Vec<usize> = (0..signatures.len()).filter(|_| dice.roll(2) == 0).collect();
        let terms = describe(&predicates, &signatures, &chosen);
        for (at, signature) in signatures.iter().enumerate() {
            let holds = |predicate: &&Predicate| space.holds(predicate, &signature.witness);
            let told =
                terms.iter().any(|term| term.within.iter().all(holds) && !term.except.iter().any(holds));
            assert_eq!(told, chosen.contains(&at), "{sets:#?}");
        }
        // No term is there for nothing.
        assert!(terms.len() <= chosen.len());
    }
}
