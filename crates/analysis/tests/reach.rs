//! What is worked out for all connections at once is what the plain evaluator says about each of them.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod judge;
#[path = "../../engine/tests/pool/mod.rs"]
mod pool;
#[path = "../../engine/tests/walk/mod.rs"]
mod walk;
#[path = "../../engine/tests/world/mod.rs"]
mod world;

use std::collections::BTreeMap;

use palisade_analysis::reach::Reach;
use palisade_analysis::reach::cells::{CellId, Cells};
use palisade_analysis::reach::cuts::Cuts;
use palisade_model::address::{Block, Family};
use palisade_model::cluster::{Node, Pod};
use palisade_model::evaluate::evaluate;
use palisade_model::flow::{Flow, Party, Who};
use palisade_model::label::Labels;
use palisade_model::options::Options;
use palisade_model::policy::{
    Action, Direction, Peer, Peers, Placement, PodSet, Priority, Tier, TrafficMatch, TrafficMatches,
};
use palisade_model::snapshot::Snapshot;
use palisade_model::trace::Verdict;
use palisade_model::traffic::{PortRange, Protocol};
use palisade_testing::cases::{About, Parts, cases, isolation, policy};
use palisade_testing::forms::{self, ACTIONS};
use palisade_testing::random::Generator;
use palisade_testing::universe::{all_ends, all_traffic, objects, options, traffic};

use judge::{Ask, agrees};
use pool::{Dice, pool, some};

fn tier(number: u8) -> Placement {
    Placement::Tier { tier: Tier::Fixed(number, "fixed"), priority: Priority(5.0) }
}

/// What the sets of traffic say about one connection.
fn verdict(reach: &Reach<'_>, cuts: &Cuts, cells: &mut Cells, flow: &Flow) -> Verdict {
    let class = |party: Party| match party.who {
        Who::Outside => {
            let address = party.address.unwrap();
            let mut all = reach.outside().enumerate();
            let holds = |interval| {
                let (first, last) = cuts.interval(reach.family(), interval);
                first <= address && address <= last
            };
            all.find(|(interval, _)| holds(*interval)).unwrap().1
        }
        who => reach.classes_of(who).find(|(_, address)| *address == party.address).unwrap().0,
    };
    let (from, to) = (flow.source.who, flow.destination.who);
    let (source, destination) = (class(flow.source), class(flow.destination));
    let near = from != Who::Outside && to != Who::Outside;
    let cell = match near {
        true if reach.is_itself(from, to) => CellId::ALL,
        true if reach.is_own_node(from, to) => reach.side(Direction::Egress, source, destination),
        _ => reach.cell(source, destination, cells),
    };
    let place = cells.traffics.space().offset(flow.traffic, reach.family() == Family::V6);
    let cell = cells.get(cell);
    let holds = |set| cells.traffics.set(set).contains(place);
    match (holds(cell.allow), holds(cell.reject)) {
        (true, false) => Verdict::Allow,
        (false, true) => Verdict::Reject,
        (false, false) => Verdict::Deny,
        (true, true) => panic!("allowed and rejected: {flow:?}"),
    }
}

/// Compares these connections, but for those through services, which sets of traffic are not about. Returns their count.
fn agrees_on(snapshot: &Snapshot, flows: &[Flow], options: &Options) -> usize {
    let cuts = Cuts::of([snapshot]);
    let mut cells = Cells::new(cuts.space().clone());
    let reach =
        [Family::V4, Family::V6].map(|family| Reach::new(snapshot, options, family, &cuts, &mut cells));
    let mut asked = 0;
    for flow in flows {
        let outside = flow.source.who == Who::Outside && flow.destination.who == Who::Outside;
        if flow.via.is_some() || outside {
            continue;
        }
        let six = flow.source.address.or(flow.destination.address).is_some_and(|address| address.is_ipv6());
        let said = verdict(&reach[usize::from(six)], &cuts, &mut cells, flow);
        let plain = evaluate(snapshot, flow, options);
        assert_eq!(said, plain.verdict, "{plain:#?}\n{:#?}", snapshot.policies());
        asked += 1;
    }
    asked
}

#[test]
fn one_rule_of_every_form_in_every_stage() {
    let mut asked = 0;
    for (at, case) in cases(2).into_iter().enumerate() {
        let snapshot = Snapshot::new(objects(case.background.into_iter().chain([case.policy])));
        let flows = match case.about {
            About::Ends => all_ends(&snapshot, traffic()[0]),
            About::Traffic => all_traffic(&snapshot),
        };
        asked += agrees_on(&snapshot, &flows, &options(at));
    }
    assert!(asked > 300_000, "{asked}");
}

#[test]
fn several_policies_of_any_form() {
    let (mut random, mut asked) = (Generator::new(13), 0);
    for at in 0..250 {
        let snapshot = Snapshot::new(objects(random.policies(8)));
        let one = random.dice().one(&traffic());
        let flows: Vec<Flow> = all_traffic(&snapshot).into_iter().chain(all_ends(&snapshot, one)).collect();
        asked += agrees_on(&snapshot, &flows, &options(at));
    }
    assert!(asked > 100_000, "{asked}");
}

/// So many rules about one pair that what is left behind each is not interned.
#[test]
fn many_policies_of_any_form() {
    let (mut random, mut asked) = (Generator::new(29), 0);
    for at in 0..30 {
        let snapshot = Snapshot::new(objects(random.policies(80)));
        let one = random.dice().one(&traffic());
        let flows: Vec<Flow> = all_traffic(&snapshot).into_iter().chain(all_ends(&snapshot, one)).collect();
        asked += agrees_on(&snapshot, &flows, &options(at));
    }
    assert!(asked > 10_000, "{asked}");
}

/// Every place where a match of traffic begins or ends, between two pods and the addresses outside.
#[test]
fn every_form_of_traffic_at_all_of_its_edges() {
    let mut asked = 0;
    for (at, traffic) in forms::traffic().into_iter().enumerate() {
        let subjects = vec![PodSet::everything().into()];
        let parts = Parts { subjects, traffic, ..Parts::everything() };
        let rule = parts.rule(Direction::BOTH[at % 2], 0, ACTIONS[1 + at % 2]);
        let mut objects = objects([policy("p", tier(10), vec![rule])]);
        objects.pods.retain(|pod| pod.namespace == "x" && (pod.name == "a" || pod.name == "b"));
        objects.pods.truncate(1 + at % 2);
        objects.nodes.clear();
        objects.names.clear();
        asked += agrees(&Snapshot::new(objects), &options(at), Ask::Fast);
    }
    assert!(asked > 8_000, "{asked}");
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
            let block = Block::new(block.parse().unwrap(), []);
            let parts = Parts { peers: Peers::Of(vec![Peer::Addresses(block)]), ..Parts::everything() };
            let mut objects = objects([policy("p", tier(10), vec![parts.rule(direction, 0, action)])]);
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
    let block = |text: &str| Peer::Addresses(Block::new(text.parse().unwrap(), []));
    let rules = (0..200_u64).map(|at| {
        let own = block(&format!("198.51.0.{at}/32"));
        let meant = chosen[usize::from(at >= 128)] >> (at % 128) & 1 == 1;
        let also = meant.then(|| block("203.0.113.7/32"));
        let peers = Peers::Of(std::iter::once(own).chain(also).collect());
        let port = 1000 + u16::try_from(at).unwrap();
        let ports = PortRange { first: port, last: port };
        let traffic = TrafficMatches::Of(vec![TrafficMatch::Ports(Protocol::Tcp, ports)]);
        let index = u32::try_from(at).unwrap();
        Parts { peers, traffic, ..Parts::everything() }.rule(Direction::Egress, index, Action::Allow)
    });
    let isolated = isolation("isolated", forms::everybody(), Direction::Egress);
    let mut objects = objects([policy("p", Placement::Union, rules.collect()), isolated]);
    objects.pods.truncate(1);
    objects.nodes.clear();
    agrees(&Snapshot::new(objects), &options(0), Ask::Fast);
}

#[test]
fn random_worlds_of_all_dialects() {
    let pool = pool();
    let mut asked = 0;
    for seed in 0..200 {
        let mut dice = Dice(seed);
        let state = some(&pool, 4, &mut dice);
        asked += agrees(&Snapshot::new(world::objects(&state)), &options(dice.roll(8)), Ask::Fast);
    }
    assert!(asked > 500_000, "{asked}");
}
