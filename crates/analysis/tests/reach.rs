//! What is worked out for all connections at once is what the plain evaluator says about each of them.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod judge;
#[path = "../../engine/tests/pool/mod.rs"]
mod pool;
#[path = "../../engine/tests/universe/mod.rs"]
mod universe;
#[path = "../../engine/tests/walk/mod.rs"]
mod walk;
#[path = "../../engine/tests/world/mod.rs"]
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;

use palisade_model::address::Block;
use palisade_model::cluster::{Node, Pod};
use palisade_model::label::Labels;
use palisade_model::policy::{
    Action, Direction, Isolation, Peer, Peers, Placement, TrafficMatch, TrafficMatches,
};
use palisade_model::snapshot::Snapshot;
use palisade_model::traffic::{PortRange, Protocol};

use judge::{Ask, agrees};
use pool::{Dice, pool, some};
use universe::{cluster, everybody, peers, policy, rule, subjects, tier, traffic};
use world::{State, objects, options};

const ACTIONS: [Action; 4] = [Action::Allow, Action::Deny, Action::Reject, Action::Pass];

fn state(items: impl IntoIterator<Item = palisade_engine::Item>) -> State {
    items.into_iter().map(|item| (item.key(), item)).collect()
}

#[test]
fn every_peer_with_every_traffic_in_either_direction() {
    let mut asked = 0;
    let ends =
        || peers().into_iter().flat_map(|peers| traffic().into_iter().map(move |t| (peers.clone(), t)));
    let all = ends().flat_map(|end| Direction::BOTH.map(|direction| (end.clone(), direction)));
    for (at, ((peers, traffic), direction)) in all.enumerate() {
        // Stages, actions and options take turns.
        let (stage, action) = (at % 6, ACTIONS[at / 6 % 4]);
        let mut state = state(cluster());
        let mut put = |item: palisade_engine::Item| drop(state.insert(item.key(), item));
        let subjects = everybody();
        let end = (peers, traffic);
        match [10, 251, 253, 254, 0].get(stage) {
            Some(number) => {
                let rules = vec![rule(direction, &subjects, action, end)];
                put(policy("p", tier(*number, 5.0), Vec::new(), rules));
            }
            None => {
                let isolation = Isolation { subjects: Arc::clone(&subjects), direction };
                let rules = vec![rule(direction, &subjects, Action::Allow, end)];
                put(policy("p", Placement::Union, vec![isolation], rules));
            }
        }
        // Behind it everything is refused, so that one sees what it lets through.
        let all = (Peers::Any, TrafficMatches::Any);
        put(policy(
            "end",
            tier(254, 1000.0),
            Vec::new(),
            vec![rule(direction, &subjects, Action::Deny, all)],
        ));
        asked += agrees(&Snapshot::new(objects(&state)), &options(at), Ask::Fast);
    }
    assert!(asked > 500_000, "{asked}");
}

#[test]
fn whoever_has_several_addresses_is_asked_about_by_each() {
    let address = |text: &str| text.parse().unwrap();
    let several = ["192.0.2.9", "203.0.113.5", "10.0.0.200", "2001:db8::9", "2001:db8:1::9"].map(address);
    let blocks = ["203.0.113.0/24", "10.0.0.192/26", "2001:db8:1::/48"];
    let mut asked = 0;
    for (at, block) in blocks.into_iter().enumerate() {
        for (action, direction) in ACTIONS.into_iter().flat_map(|action| Direction::BOTH.map(|d| (action, d)))
        {
            let mut state = state(cluster());
            let block = Block::new(block.parse().unwrap(), []);
            let peers = Peers::Of(vec![Peer::Addresses(block)]);
            let rules = vec![rule(direction, &everybody(), action, (peers, TrafficMatches::Any))];
            let item = policy("p", tier(10, 5.0), Vec::new(), rules);
            state.insert(item.key(), item);
            let mut objects = objects(&state);
            let name = "several".into();
            objects.nodes.push(Node {
                name,
                labels: Labels::default(),
                addresses: several.to_vec(),
                at: None,
            });
            let entity = Pod {
                namespace: "x".into(),
                name: "several".into(),
                addresses: several.iter().rev().copied().collect(),
                external: true,
                ..Pod::default()
            };
            objects.pods.push(entity);
            asked += agrees(&Snapshot::new(objects), &options(at), Ask::Plainly);
        }
    }
    assert!(asked > 9_000, "{asked}");
}

/// Numbers that look random and that everybody can work out (splitmix64), as they once stood for sets of peers.
fn known_number(at: u64) -> u128 {
    let mixed = |seed: u64| {
        let mut z = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    u128::from(mixed(2 * at)) << 64 | u128::from(mixed(2 * at + 1))
}

/// Some of the first numbers that come to nothing together, by their bits.
fn chosen() -> [u128; 2] {
    let mut basis: BTreeMap<u32, (u128, [u128; 2])> = BTreeMap::new();
    for at in 0..200 {
        let (mut rest, mut of) = (known_number(at), [0; 2]);
        of[usize::from(at >= 128)] = 1 << (at % 128);
        while let Some((known, others)) = basis.get(&rest.leading_zeros()).filter(|_| rest != 0) {
            rest ^= known;
            of = [of[0] ^ others[0], of[1] ^ others[1]];
        }
        if rest == 0 {
            return of;
        }
        basis.insert(rest.leading_zeros(), (rest, of));
    }
    panic!("a hundred and twenty-nine numbers of 128 bits depend on each other")
}

#[test]
fn whoever_chooses_policies_cannot_make_different_sets_alike() {
    let chosen = chosen();
    let mut state = state(cluster());
    let block = |text: &str| Peer::Addresses(Block::new(text.parse().unwrap(), []));
    let rules = (0..200_u64).map(|at| {
        let own = block(&format!("198.51.0.{at}/32"));
        let meant = chosen[usize::from(at >= 128)] >> (at % 128) & 1 == 1;
        let also = meant.then(|| block("203.0.113.7/32"));
        let peers = Peers::Of(std::iter::once(own).chain(also).collect());
        let port = 1000 + u16::try_from(at).unwrap();
        let ports = PortRange { first: port, last: port };
        let traffic = TrafficMatches::Of(vec![TrafficMatch::Ports(Protocol::Tcp, ports)]);
        rule(Direction::Egress, &everybody(), Action::Allow, (peers, traffic))
    });
    let isolation = Isolation { subjects: everybody(), direction: Direction::Egress };
    let item = policy("p", Placement::Union, vec![isolation], rules.collect());
    state.insert(item.key(), item);
    let mut objects = objects(&state);
    objects.pods.truncate(1);
    objects.nodes.clear();
    agrees(&Snapshot::new(objects), &options(0), Ask::Fast);
}

#[test]
fn every_subject_in_every_stage() {
    let all = (Peers::Any, TrafficMatches::Any);
    for (at, subjects) in subjects().into_iter().enumerate() {
        for (number, action) in [(10, ACTIONS[at % 4]), (254, Action::Reject), (0, Action::Pass)] {
            let mut state = state(cluster());
            for direction in Direction::BOTH {
                let rules = vec![rule(direction, &subjects, action, all.clone())];
                let item = policy(direction.as_str(), tier(number, 5.0), Vec::new(), rules);
                state.insert(item.key(), item);
            }
            agrees(&Snapshot::new(objects(&state)), &options(at), Ask::Plainly);
        }
    }
}

#[test]
fn random_worlds_of_all_dialects() {
    let pool = pool();
    let mut asked = 0;
    for seed in 0..200 {
        let mut dice = Dice(seed);
        let state = some(&pool, 4, &mut dice);
        asked += agrees(&Snapshot::new(objects(&state)), &options(dice.roll(8)), Ask::Fast);
    }
    assert!(asked > 500_000, "{asked}");
}
