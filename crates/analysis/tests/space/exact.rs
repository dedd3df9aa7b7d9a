//! Every answer is that of the universe written out.

use palisade_analysis::space::{Claim, SearchResult, Space};
use palisade_model::cluster::{NAMESPACE_NAME_LABEL, Namespace};
use palisade_model::label::{Operator, Requirement, Selector};
use palisade_model::policy::{Namespaces, PodSet};
use palisade_model::snapshot::{Objects, Snapshot};

use crate::universe::{Dice, Held, Universe, every_requirement, labels, namespace};

/// No set names the last of them.
const VALUES: [&str; 3] = ["1", "2", "3"];

fn anywhere(pods: Selector) -> PodSet {
    PodSet::new(Namespaces::Matching(Selector::everything()), pods)
}

fn requirements(keys: &[&str]) -> Vec<Requirement> {
    keys.iter().flat_map(|key| every_requirement(key, &VALUES[..2])).collect()
}

/// Every selector of up to two requirements.
fn selectors(keys: &[&str]) -> Vec<Selector> {
    let all = requirements(keys);
    let one = all.iter().map(|one| Selector::new([one.clone()]));
    let two = all.iter().enumerate().flat_map(|(at, one)| {
        all[at + 1..].iter().map(move |other| Selector::new([one.clone(), other.clone()]))
    });
    std::iter::once(Selector::everything()).chain(one).chain(two).collect()
}

/// Asks about every pair: who is in the one and not in the other, and who is in both.
fn agree_on_pairs(universe: &Universe, sets: &[PodSet]) -> usize {
    let held: Vec<Held> = sets.iter().map(|set| universe.held(set)).collect();
    let predicates: Vec<_> = sets.iter().map(|set| universe.predicate(set)).collect();
    let mut found = 0;
    for (a, (set, one)) in sets.iter().zip(&predicates).enumerate() {
        for (b, (other_set, other)) in sets.iter().zip(&predicates).enumerate() {
            let (all, none) = ([one], [other]);
            let want = held[a].exceeds(&held[b]);
            match universe.space.find(&all, &none) {
                SearchResult::Found(witness) => {
                    assert!(want, "{witness} in {set} and not in {other_set}");
                    // Adding it to a cluster takes a while: not for every pair.
                    if (a + b) % 7 == 0 {
                        universe.check(&witness, &[set], &[other_set]);
                    }
                    found += 1;
                }
                SearchResult::Empty => assert!(!want, "nobody in {set} and not in {other_set}"),
                SearchResult::Unknown => panic!("{set}, {other_set}"),
            }
            if a < b {
                let disjoint = universe.space.disjoint(one, other);
                assert_eq!(disjoint.holds(), !held[a].meets(&held[b]), "{set}, {other_set}");
            }
        }
    }
    found
}

#[test]
fn for_every_pair_of_small_selectors() {
    let universe = Universe::new(&[namespace("x", "")], &["a", "b", "c"], &VALUES);
    let sets: Vec<PodSet> = selectors(&["a", "b", "c"]).into_iter().map(anywhere).collect();
    assert!(sets.len() > 400, "{}", sets.len());
    assert!(agree_on_pairs(&universe, &sets) > 50_000);
}

/// Two namespaces that exist, of which x is the subject's.
fn existing() -> Vec<Namespace> {
    vec![namespace("x", "a=1,b=2"), namespace("y", "a=2")]
}

/// Sets of namespaces of every form.
fn namespaces() -> Vec<Namespaces> {
    let keys = |list: &[&str]| list.iter().map(|key| (*key).into()).collect::<Vec<_>>();
    let name = every_requirement(NAMESPACE_NAME_LABEL, &["x", "new"]);
    let names = |list: &[&str]| {
        Requirement::new(NAMESPACE_NAME_LABEL, Operator::NotIn(list.iter().map(|n| (*n).into()).collect()))
    };
    let mut all: Vec<Namespaces> = ["x", "y", "new"].map(|name| Namespaces::Named(name.into())).to_vec();
    all.push(Namespaces::Own);
    for list in
        [&[][..], &["a"], &["b"], &["a", "b"], &["a", "a"], &["c"], &["a", "c"], &[NAMESPACE_NAME_LABEL]]
    {
        all.push(Namespaces::SameLabels(keys(list)));
        all.push(Namespaces::NotSameLabels(keys(list)));
    }
    all.push(Namespaces::Matching(Selector::everything()));
    all.push(Namespaces::Matching(Selector::new([names(&["x"]), Requirement::equals("a", "2")])));
    let one = requirements(&["a", "b"]).into_iter().chain(name);
    all.extend(one.map(|requirement| Namespaces::Matching(Selector::new([requirement]))));
    all
}

#[test]
fn for_every_pair_of_namespaces() {
    let universe = Universe::new(&existing(), &["a", "b", "c"], &VALUES);
    let mut sets = Vec::new();
    for namespaces in namespaces() {
        for pods in ["", "1", "2"] {
            let pods = if pods.is_empty() { Selector::everything() } else { Selector::label("a", pods) };
            sets.push(PodSet::new(namespaces.clone(), pods));
        }
        let account = Some("robot".into());
        sets.push(PodSet { account, ..PodSet::new(namespaces.clone(), Selector::everything()) });
    }
    assert!(agree_on_pairs(&universe, &sets) > 10_000);
}

/// A set of any form.
fn any_set(dice: &mut Dice, namespaces: &[Namespaces], requirements: &[Requirement]) -> PodSet {
    let namespaces = match dice.roll(3) {
        0 => Namespaces::Matching(Selector::new((0..dice.roll(3)).map(|_| dice.one(requirements)))),
        1 => Namespaces::Matching(Selector::everything()),
        _ => dice.one(namespaces),
    };
    let count = dice.roll(4);
    let pods = Selector::new((0..count).map(|_| dice.one(requirements)));
    let account = (dice.roll(5) == 0).then(|| "robot".into());
    PodSet { account, ..PodSet::new(namespaces, pods) }
}

#[test]
fn for_random_sets_of_all_forms() {
    let universe = Universe::new(&existing(), &["a", "b", "c"], &VALUES);
    let (namespaces, requirements) = (namespaces(), requirements(&["a", "b", "c"]));
    let mut dice = Dice(3);
    let (mut somebody, mut signatures) = (0, 0);
    for round in 0..600 {
        let count = 2 + dice.roll(7);
        let sets: Vec<PodSet> = (0..count).map(|_| any_set(&mut dice, &namespaces, &requirements)).collect();
        let held: Vec<Held> = sets.iter().map(|set| universe.held(set)).collect();
        let want = universe.combinations(&held);
        let predicates: Vec<_> = sets.iter().map(|set| universe.predicate(set)).collect();
        let predicates: Vec<_> = predicates.iter().collect();

        let found = universe.space.signatures(&predicates, 1 << 10).unwrap();
        let mut got: Vec<u64> = found.iter().map(|s| s.members.iter().map(|at| 1 << at).sum()).collect();
        // Who is in the first set comes first.
        let turned: Vec<u64> = got.iter().map(|members| members.reverse_bits()).collect();
        assert!(turned.is_sorted_by(|a, b| a > b), "{turned:?}");
        got.sort_unstable();
        assert_eq!(got, want, "round {round}: {sets:#?}");
        for signature in &found {
            let (all, none): (Vec<_>, Vec<_>) = (0..count).partition(|at| signature.members.has(*at));
            let pick = |places: &[usize]| places.iter().map(|at| &sets[*at]).collect::<Vec<_>>();
            universe.check(&signature.witness, &pick(&all), &pick(&none));
        }
        signatures += found.len();

        let split = dice.roll(count);
        let (all, none) = predicates.split_at(split);
        let (yes, no) = ((1_u64 << split) - 1, ((1_u64 << count) - 1) & !((1_u64 << split) - 1));
        let exists = want.iter().any(|members| members & yes == yes && members & no == 0);
        match universe.space.find(all, none) {
            SearchResult::Found(witness) => {
                assert!(exists, "round {round}: {sets:#?}");
                let (all, none): (Vec<&PodSet>, Vec<&PodSet>) =
                    (sets[..split].iter().collect(), sets[split..].iter().collect());
                universe.check(&witness, &all, &none);
                somebody += 1;
            }
            SearchResult::Empty => assert!(!exists, "round {round}: {sets:#?}"),
            SearchResult::Unknown => panic!("round {round}: {sets:#?}"),
        }
    }
    assert!(somebody > 150 && signatures > 4_000, "{somebody} {signatures}");
}

fn space() -> Space {
    Space::new(&Snapshot::new(Objects { namespaces: existing(), ..Objects::default() }))
}

#[test]
fn containment_comes_with_a_pod_where_it_fails() {
    let space = space();
    let predicate = |key: &str, value: &str| space.predicate(&anywhere(Selector::label(key, value)), None);
    let web = predicate("app", "web");
    let both = Selector::new([Requirement::equals("app", "web"), Requirement::equals("tier", "front")]);
    let front_web = space.predicate(&anywhere(both), None);
    assert!(space.contains(&web, &front_web).holds());
    match space.contains(&front_web, &web) {
        Claim::Fails(witness) => assert_eq!(witness.labels, labels("app=web")),
        other => panic!("{other:?}"),
    }
    assert!(space.same(&web, &predicate("app", "web")).holds());
    assert!(space.same(&web, &front_web).fails());
    assert!(space.disjoint(&web, &predicate("app", "db")).holds());
    assert!(space.disjoint(&web, &predicate("tier", "back")).fails());
}

#[test]
fn a_namespace_that_exists_has_the_labels_it_has() {
    let space = space();
    let here = space.predicate(&PodSet::all_of("x"), None);
    let matching = |key: &str, value: &str| {
        let namespaces = Namespaces::Matching(Selector::label(key, value));
        space.predicate(&PodSet::new(namespaces, Selector::everything()), None)
    };
    assert!(space.contains(&matching("a", "1"), &here).holds());
    assert!(space.disjoint(&matching("a", "2"), &here).holds());
    // One to come may have any, but it has a name that is valid, and no other's.
    let named = |name: &str| space.predicate(&PodSet::all_of(name), None);
    assert!(space.find(&[&named("z"), &matching("a", "7")], &[]).witness().is_some());
    assert!(space.find(&[&named("not.a.name")], &[]).witness().is_none());
    let nameless = Requirement::new(NAMESPACE_NAME_LABEL, Operator::DoesNotExist);
    let nameless = PodSet::new(Namespaces::Matching(Selector::new([nameless])), Selector::everything());
    assert!(space.find(&[&space.predicate(&nameless, None)], &[]).witness().is_none());
}

#[test]
fn a_subject_in_a_namespace_to_come_has_it_to_itself() {
    let space = space();
    let new = Namespaces::Matching(Selector::label("a", "new"));
    let subjects = space.predicate(&PodSet::new(new, Selector::everything()), None);
    let SearchResult::Found(subject) = space.find(&[&subjects], &[]) else { panic!() };
    assert_eq!(subject.to_string(), "a pod without labels of a new namespace other with a=new");
    let space = space.and(subject.namespace.clone());
    let place = space.namespace("other");
    assert!(place.is_some());
    let set = |namespaces| space.predicate(&PodSet::new(namespaces, Selector::everything()), place);
    let (own, same) = (set(Namespaces::Own), set(Namespaces::SameLabels(vec!["a".into()])));
    assert!(space.contains(&same, &own).holds());
    // Another namespace may come to have the same label.
    match space.contains(&own, &same) {
        Claim::Fails(witness) => assert_eq!(witness.namespace.name, "other-1"),
        other => panic!("{other:?}"),
    }
    let other = set(Namespaces::NotSameLabels(vec!["a".into()]));
    assert!(space.disjoint(&same, &other).holds());
    assert!(space.find(&[&other], &[]).witness().is_some());
}

#[test]
fn a_predicate_within_a_namespace_is_no_other_ones() {
    let space = space();
    let all = space.predicate(&PodSet::everything(), None);
    for name in ["x", "z"] {
        let within = all.clone().within(&space, name);
        assert!(space.same(&within, &space.predicate(&PodSet::all_of(name), None)).holds());
        assert_eq!(within.to_string(), format!("any pod, in namespace {name}"));
    }
    let other = space.predicate(&PodSet::all_of("y"), None).within(&space, "x");
    assert!(space.find(&[&other], &[]).witness().is_none());
}

#[test]
fn pods_and_external_entities_are_different_spaces() {
    let snapshot = Snapshot::new(Objects { namespaces: existing(), ..Objects::default() });
    let (pods, external) = (PodSet::everything(), PodSet { external: true, ..PodSet::everything() });
    for (space, own, other) in
        [(Space::new(&snapshot), &pods, &external), (Space::external(&snapshot), &external, &pods)]
    {
        let (own, other) = (space.predicate(own, None), space.predicate(other, None));
        let SearchResult::Found(witness) = space.find(&[&own], &[&other]) else { panic!() };
        assert_eq!(witness.external, own.set().external);
        assert!(matches!(space.find(&[&other], &[]), SearchResult::Empty));
    }
}
