//! A small universe, gone through from end to end: every form of a rule, in every stage, with every action, in both
//! directions, against every connection there can be. One index lives through all of it, so that it is changed and never
//! made anew; what it says is compared with the plain evaluator each time.
//!
//! Four tests, so that they run side by side. Together they ask about more than four million connections.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod universe;
mod walk;
mod world;

use std::sync::Arc;

use palisade_engine::delta::Does;
use palisade_engine::{Item, Key};
use palisade_model::policy::{
    Action, Direction, Isolation, Peers, Placement, PodSet, Subject, TrafficMatches,
};
use palisade_model::traffic::{Protocol, Traffic};

use universe::{
    cluster, everybody, namespace, peers, pod, policy, relative_peers, rule, subjects, tier, traffic,
};
use world::{UNION, World, options};

const ACTIONS: [Action; 4] = [Action::Allow, Action::Deny, Action::Reject, Action::Pass];
/// One of Antrea's kind, the last before NetworkPolicies, those behind them, and one that is not there.
const TIERS: [u8; 5] = [10, 251, 253, 254, 0];
const ANYTHING: (Peers, TrafficMatches) = (Peers::Any, TrafficMatches::Any);

/// Connections of every kind that the rules tell apart.
fn all_traffic() -> Vec<Traffic> {
    vec![
        Traffic::new(Protocol::Tcp, 80),
        Traffic { source_port: Some(4000), ..Traffic::new(Protocol::Tcp, 81) },
        Traffic::new(Protocol::Tcp, 5353),
        Traffic::new(Protocol::Udp, 53),
        Traffic::new(Protocol::Icmp, 0),
    ]
}

fn key(name: &str) -> Key {
    policy(name, Placement::Union, Vec::new(), Vec::new()).key()
}

/// A policy for everybody in both directions.
fn general(
    name: &str,
    place: Placement,
    action: Action,
    to: &Arc<[Subject]>,
    end: &(Peers, TrafficMatches),
) -> Item {
    let rules = Direction::BOTH.map(|direction| rule(direction, to, action, end.clone()));
    policy(name, place, Vec::new(), rules.into())
}

/// Puts something behind a rule, so that one sees whether it matches: where it lets go or passes, what comes later refuses.
fn set_behind(world: &mut World, number: u8, action: Action) {
    let lets_go = matches!(action, Action::Allow | Action::Pass);
    let before = lets_go && (1..=251).contains(&number);
    for (name, wanted, place, action) in [
        ("refuse", before, tier(251, 1000.0), Action::Reject),
        ("end", lets_go && number > 0, tier(254, 1000.0), Action::Deny),
    ] {
        if wanted == world.state.contains_key(&key(name)) {
            continue;
        }
        if wanted {
            world.put(general(name, place, action, &everybody(), &ANYTHING));
        } else {
            world.remove(&key(name));
        }
    }
}

#[test]
fn every_peer_with_every_traffic_in_either_direction() {
    let mut world = World::of(cluster());
    let (all, subjects) = (all_traffic(), everybody());
    let mut at = 0;
    for peers in peers() {
        for traffic in traffic() {
            for direction in Direction::BOTH {
                // Stages and actions take turns: six and four, against twenty-five and fourteen and two.
                let (stage, action) = (at % 6, ACTIONS[at / 6 % 4]);
                let end = (peers.clone(), traffic.clone());
                match TIERS.get(stage) {
                    Some(number) => {
                        set_behind(&mut world, *number, action);
                        let rules = vec![rule(direction, &subjects, action, end)];
                        world.put(policy("p", tier(*number, 5.0), Vec::new(), rules));
                    }
                    None => {
                        set_behind(&mut world, 0, Action::Allow);
                        let isolation = Isolation { subjects: Arc::clone(&subjects), direction };
                        let rules = vec![rule(direction, &subjects, Action::Allow, end)];
                        world.put(policy("p", Placement::Union, vec![isolation], rules));
                    }
                }
                world.agrees(&all, &options(at / 24), at % 7 == 0);
                at += 1;
            }
        }
    }
    let acts = |tier: u8| ACTIONS.map(|action| (tier, Does::Act(action)));
    world.has_decided([10, 251, 253, 254].into_iter().flat_map(acts));
    world.has_decided([(UNION, Does::Isolate), (UNION, Does::Act(Action::Allow))]);
    world.has_decided([Action::Deny, Action::Reject].map(|action| (world::NOWHERE, Does::Act(action))));
    world.clear();
    assert!(world.checked > 600_000, "{}", world.checked);
}

/// The alternatives of a stage: nothing, or each action with each of these ends.
fn alternatives(name: &str, number: u8, ends: &[(Peers, TrafficMatches)]) -> Vec<Option<Item>> {
    let mut all = vec![None];
    for end in ends {
        let one = |action| Some(general(name, tier(number, 5.0), action, &everybody(), end));
        all.extend(ACTIONS.map(one));
    }
    all
}

/// The alternatives of the NetworkPolicy stage: isolation in no, either and both directions; with and without rules.
fn unions(ends: &[(Peers, TrafficMatches)]) -> Vec<Option<Item>> {
    let to: Arc<[Subject]> = Arc::new([PodSet::everything().into()]);
    let mut all = vec![None];
    for isolated in 0..4 {
        let directions = Direction::BOTH.into_iter().enumerate().filter(|(at, _)| isolated >> at & 1 == 1);
        let isolations: Vec<Isolation> =
            directions.map(|(_, direction)| Isolation { subjects: Arc::clone(&to), direction }).collect();
        let rules = |end: &(Peers, TrafficMatches)| {
            Direction::BOTH.map(|way| rule(way, &to, Action::Allow, end.clone()))
        };
        all.push(Some(policy("union", Placement::Union, isolations.clone(), Vec::new())));
        all.extend(
            ends.iter()
                .map(|end| Some(policy("union", Placement::Union, isolations.clone(), rules(end).into()))),
        );
    }
    all
}

#[test]
fn every_stage_before_every_other() {
    let mut world = World::of(cluster());
    let all = [Traffic::new(Protocol::Tcp, 80), Traffic::new(Protocol::Udp, 53)];
    let (peers, traffic) = (peers(), traffic());
    let (own, web, red) = ((peers[0].clone(), traffic[0].clone()), traffic[4].clone(), peers[10].clone());
    let named = (Peers::Any, web);
    let red = (red, TrafficMatches::Any);
    let stages = [
        ("tier", alternatives("tier", 10, std::slice::from_ref(&named))),
        ("last", alternatives("last", 251, std::slice::from_ref(&own))),
        ("union", unions(std::slice::from_ref(&red))),
        ("after", alternatives("after", 253, std::slice::from_ref(&own))),
        ("base", alternatives("base", 254, &[ANYTHING])),
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
    let acts = |tier: u8| ACTIONS.map(|action| (tier, Does::Act(action)));
    world.has_decided([10, 251, 253, 254].into_iter().flat_map(acts));
    world.has_decided([(UNION, Does::Isolate), (UNION, Does::Act(Action::Allow))]);
    world.clear();
    assert!(world.checked > 1_000_000, "{}", world.checked);
}

#[test]
fn every_subject_with_every_action_in_every_tier() {
    let mut world = World::of(cluster());
    let all = all_traffic();
    let (peers, traffic) = (peers(), traffic());
    let ends = [ANYTHING, (peers[0].clone(), traffic[4].clone()), (peers[14].clone(), traffic[5].clone())];
    let mut at = 0;
    for subjects in subjects() {
        for end in &ends {
            for number in TIERS {
                let action = ACTIONS[at % 4];
                set_behind(&mut world, number, action);
                world.put(general("p", tier(number, 5.0), action, &subjects, end));
                world.agrees(&all, &options(at / 4), at % 7 == 0);
                at += 1;
            }
            set_behind(&mut world, 0, Action::Allow);
            for direction in Direction::BOTH {
                let isolation = Isolation { subjects: Arc::clone(&subjects), direction };
                let rules = vec![rule(direction, &subjects, Action::Allow, end.clone())];
                world.put(policy("p", Placement::Union, vec![isolation], rules));
                world.agrees(&all, &options(at / 4), at % 7 == 0);
                at += 1;
            }
        }
    }
    let acts = |tier: u8| ACTIONS.map(|action| (tier, Does::Act(action)));
    world.has_decided([10, 251, 253, 254].into_iter().flat_map(acts));
    world.clear();
    assert!(world.checked > 300_000, "{}", world.checked);
}

#[test]
fn labels_that_change_under_the_rules() {
    let mut world = World::of(cluster());
    let all = [Traffic::new(Protocol::Tcp, 80), Traffic::new(Protocol::Tcp, 81)];
    let sets: [&[(&str, &str)]; 4] =
        [&[], &[("team", "red")], &[("team", "blue"), ("zone", "a")], &[("team", "red"), ("zone", "a")]];
    let (subjects, named) = (everybody(), traffic()[4].clone());
    let mut forms = relative_peers();
    forms.extend(peers().drain(10..12));
    let mut at = 0;
    for (form, peers) in forms.into_iter().enumerate() {
        for (turn, carried) in [TrafficMatches::Any, named.clone()].into_iter().enumerate() {
            let turn = 2 * form + turn;
            let end = (peers.clone(), carried);
            world.put(general("p", tier(TIERS[turn % 4], 5.0), Action::Deny, &subjects, &end));
            for x in sets {
                world.put(namespace("x", x));
                for y in sets {
                    world.put(namespace("y", y));
                    for app in ["b", "a"] {
                        world.put(Item::Pod(pod(
                            "x",
                            "a",
                            app,
                            Some("10.0.0.1"),
                            if app == "a" { 80 } else { 81 },
                        )));
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
    world.has_decided([10, 251, 253, 254].map(|tier| (tier, Does::Act(Action::Deny))));
    world.clear();
    assert!(world.checked > 300_000, "{}", world.checked);
}
