//! A small universe, gone through from end to end: every form of a rule, in every stage, with every action, in both
//! directions, against every connection there can be. One index lives through all of it, so that it is changed and never
//! made anew; what it says is compared with the plain evaluator each time, and so is a view that follows its deltas.
//!
//! Four tests, so that they run side by side.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod walk;
mod world;

use palisade_model::cluster::{Namespace, Pod};
use palisade_model::event::{Item, Key};
use palisade_model::flow::Flow;
use palisade_model::label::Selector;
use palisade_model::policy::{
    Action, Direction, Isolation, Namespaces, Peer, Peers, Placement, PodSet, Policy, Priority, Subject,
    Tier, TrafficMatch, TrafficMatches,
};
use palisade_model::snapshot::Snapshot;
use palisade_model::traffic::{Protocol, Traffic};
use palisade_testing::cases::{About, Parts, cases, policy};
use palisade_testing::forms::{ACTIONS, blocks};
use palisade_testing::random::Generator;
use palisade_testing::universe::{all_ends, all_traffic, items, labels, objects, options, traffic};

use world::{UNION, World};

fn cluster() -> World {
    World::of(items(objects([])))
}

fn key(name: &str) -> Key {
    Item::Policy(policy(name, Placement::Union, Vec::new())).key()
}

fn tier(number: u8) -> Placement {
    let tier = if number == 10 { Tier::Named("mine".into()) } else { Tier::Fixed(number, "fixed") };
    Placement::Tier { tier, priority: Priority(5.0) }
}

/// A policy for everybody in both directions.
fn general(name: &str, placement: Placement, action: Action, parts: &Parts) -> Policy {
    let rules = Direction::BOTH.map(|direction| parts.clone().rule(direction, 0, action));
    policy(name, placement, rules.into())
}

/// Puts these policies there, and takes away those of before that are not among them.
fn replace(world: &mut World, before: &mut Vec<Key>, policies: impl IntoIterator<Item = Policy>) {
    let policies: Vec<Item> = policies.into_iter().map(Item::Policy).collect();
    let now: Vec<Key> = policies.iter().map(Item::key).collect();
    for key in before.iter().filter(|key| !now.contains(key)) {
        world.remove(key);
    }
    policies.into_iter().for_each(|item| drop(world.put(item)));
    *before = now;
}

#[test]
fn every_form_of_a_rule_in_every_stage() {
    let mut world = cluster();
    let mut before = Vec::new();
    for (at, case) in cases(2).into_iter().enumerate() {
        replace(&mut world, &mut before, case.background.into_iter().chain([case.policy]));
        let flows = |snapshot: &Snapshot| match case.about {
            About::Ends => all_ends(snapshot, traffic()[0]),
            About::Traffic => all_traffic(snapshot),
        };
        world.agrees_on(flows, &options(at / 3), at % 3 == 0);
    }
    let acts = |tier: u8| ACTIONS.map(|action| (tier, Some(action)));
    world.has_decided([10, 251, 253, 254].into_iter().flat_map(acts));
    world.has_decided([(UNION, None), (UNION, Some(Action::Allow))]);
    world.has_decided([Action::Deny, Action::Reject].map(|action| (world::NOWHERE, Some(action))));
    world.clear();
    assert!(world.checked > 400_000, "{}", world.checked);
}

#[test]
fn several_policies_of_any_form() {
    let mut world = cluster();
    let (mut random, mut before) = (Generator::new(3), Vec::new());
    for at in 0..200 {
        let policies = random.policies(8);
        let one = random.dice().one(&traffic());
        replace(&mut world, &mut before, policies);
        let flows = |snapshot: &Snapshot| -> Vec<Flow> {
            all_traffic(snapshot).into_iter().chain(all_ends(snapshot, one)).collect()
        };
        world.agrees_on(flows, &options(at / 3), at % 3 == 0);
    }
    world.clear();
    assert!(world.checked > 120_000, "{}", world.checked);
}

/// Pods of these namespaces.
fn of(namespaces: Namespaces) -> Peers {
    Peers::Of(vec![Peer::Pods(PodSet::new(namespaces, Selector::everything()))])
}

/// Peers that depend on whom the rule applies to.
fn relative_peers() -> Vec<Peers> {
    let keys = |keys: &[&str]| keys.iter().map(|key| (*key).into()).collect::<Vec<_>>();
    let several = Peers::Of(vec![
        Peer::Pods(PodSet::new(Namespaces::NotSameLabels(keys(&["zone"])), Selector::everything())),
        Peer::Pods(PodSet::new(Namespaces::Own, Selector::label("app", "b"))),
        Peer::Addresses(blocks().remove(1)),
        Peer::Nodes(Selector::label("app", "a")),
    ]);
    vec![
        of(Namespaces::Own),
        of(Namespaces::SameLabels(keys(&["team"]))),
        of(Namespaces::SameLabels(keys(&["zone", "team"]))),
        of(Namespaces::NotSameLabels(keys(&["team"]))),
        of(Namespaces::NotSameLabels(keys(&["team", "zone"]))),
        several,
    ]
}

fn named_port() -> TrafficMatches {
    TrafficMatches::Of(vec![TrafficMatch::Named(None, "web".into())])
}

/// The alternatives of a stage: nothing, or each action.
fn alternatives(name: &str, number: u8, parts: &Parts) -> Vec<Option<Item>> {
    let one = |action| Some(Item::Policy(general(name, tier(number), action, parts)));
    std::iter::once(None).chain(ACTIONS.map(one)).collect()
}

/// The alternatives of the NetworkPolicy stage: isolation in no, either and both directions; with and without rules.
fn unions(parts: &Parts) -> Vec<Option<Item>> {
    let mut all = vec![None];
    for isolated in 0..4 {
        let directions = Direction::BOTH.into_iter().enumerate().filter(|(at, _)| isolated >> at & 1 == 1);
        let subjects = || -> std::sync::Arc<[Subject]> { std::sync::Arc::new([PodSet::everything().into()]) };
        let isolations: Vec<Isolation> =
            directions.map(|(_, direction)| Isolation { subjects: subjects(), direction }).collect();
        let with_rules = general("union", Placement::Union, Action::Allow, parts);
        for policy in [policy("union", Placement::Union, Vec::new()), with_rules] {
            all.push(Some(Item::Policy(Policy { isolations: isolations.clone(), ..policy })));
        }
    }
    all
}

#[test]
fn every_stage_before_every_other() {
    let mut world = cluster();
    // Fewer ends: there are thousands of worlds.
    for name in ["x/vm", "x/host", "z/new", "v/a", "w/done"] {
        let (namespace, name) = name.split_once('/').unwrap();
        let kind = (name == "vm").then(|| "ExternalEntity".into());
        world.remove(&Key::Pod(namespace.into(), name.into(), kind));
    }
    let all = [Traffic::new(Protocol::Tcp, 80), Traffic::new(Protocol::Udp, 53)];
    let everything = Parts::everything;
    let own = Parts { peers: of(Namespaces::Own), ..everything() };
    let named = Parts { traffic: named_port(), ..everything() };
    let red = Parts {
        subjects: vec![PodSet::everything().into()],
        peers: of(Namespaces::Matching(Selector::label("team", "red"))),
        ..everything()
    };
    let stages = [
        ("tier", alternatives("tier", 10, &named)),
        ("last", alternatives("last", 251, &own)),
        ("union", unions(&red)),
        ("after", alternatives("after", 253, &own)),
        ("base", alternatives("base", 254, &everything())),
    ];
    let worlds: usize = stages.iter().map(|(_, all)| all.len()).product();
    let mut before = [0; 5];
    for at in 0..worlds {
        // The last stage turns fastest; where a stage stays as it is, nothing happens to it.
        let mut rest = at;
        for (stage, (name, all)) in stages.iter().enumerate().rev() {
            let now = rest % all.len();
            rest /= all.len();
            if now == before[stage] {
                continue;
            }
            before[stage] = now;
            match &all[now] {
                Some(item) => drop(world.put(item.clone())),
                None => drop(world.remove(&key(name))),
            }
        }
        world.agrees(&all, &options(0), at % 29 == 0);
    }
    let acts = |tier: u8| ACTIONS.map(|action| (tier, Some(action)));
    world.has_decided([10, 251, 253, 254].into_iter().flat_map(acts));
    world.has_decided([(UNION, None), (UNION, Some(Action::Allow))]);
    world.clear();
    assert!(world.checked > 1_000_000, "{}", world.checked);
}

#[test]
fn labels_that_change_under_the_rules() {
    let mut world = cluster();
    let all = [Traffic::new(Protocol::Tcp, 80), Traffic::new(Protocol::Tcp, 81)];
    let sets: [&[(&str, &str)]; 4] =
        [&[], &[("team", "red")], &[("team", "blue"), ("zone", "a")], &[("team", "red"), ("zone", "a")]];
    let namespace = |name: &str, pairs: &[(&str, &str)]| {
        Item::Namespace(Namespace { name: name.into(), labels: labels(pairs), at: None })
    };
    let pod = objects([]).pods.into_iter().find(|pod| (&*pod.namespace, &*pod.name) == ("x", "a")).unwrap();
    let mut forms = relative_peers();
    forms.push(of(Namespaces::Matching(Selector::label("team", "red"))));
    let mut at = 0;
    for (form, peers) in forms.into_iter().enumerate() {
        for (turn, carried) in [TrafficMatches::Any, named_port()].into_iter().enumerate() {
            let turn = 2 * form + turn;
            let parts = Parts { peers: peers.clone(), traffic: carried, ..Parts::everything() };
            let number = [10, 251, 253, 254][turn % 4];
            world.put(Item::Policy(general("p", tier(number), Action::Deny, &parts)));
            for x in sets {
                world.put(namespace("x", x));
                for y in sets {
                    world.put(namespace("y", y));
                    for app in ["b", "a"] {
                        let mut pod = Pod { labels: labels(&[("app", app)]), ..pod.clone() };
                        pod.ports[0].number = if app == "a" { 80 } else { 81 };
                        world.put(Item::Pod(pod));
                        world.agrees(&all, &options(at), at % 7 == 0);
                        at += 1;
                    }
                }
                // Between, the namespace is known by its pods only.
                world.remove(&namespace("y", &[]).key());
                world.agrees(&all, &options(at), at % 7 == 0);
                at += 1;
            }
        }
    }
    world.has_decided([10, 251, 253, 254].map(|tier| (tier, Some(Action::Deny))));
    world.clear();
    assert!(world.checked > 300_000, "{}", world.checked);
}
