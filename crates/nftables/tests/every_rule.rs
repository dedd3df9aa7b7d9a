//! The compiled program says to every packet what the plain evaluator says to its connection, for every form of a rule there is:
//! one at a time in every stage, and several by chance.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod packets;

use palisade_engine::Engine;
use palisade_model::evaluate::evaluate;
use palisade_model::event::{Event, Item, Key};
use palisade_model::flow::{Flow, Who};
use palisade_model::matching::Context;
use palisade_model::options::Options;
use palisade_model::policy::{Direction, IcmpMatch, Policy, TrafficMatch, TrafficMatches};
use palisade_model::snapshot::Snapshot;
use palisade_model::trace::{Because, Side};
use palisade_model::traffic::{Protocol, Traffic};
use palisade_nftables::compile::compile;
use palisade_testing::cases::{About, Parts, cases, policy};
use palisade_testing::forms::{ACTIONS, placements};
use palisade_testing::random::Generator;
use palisade_testing::universe::{NODES, all_ends, all_traffic, items, objects, traffic};

use packets::{home, hook, one_way, packet, said};

/// The cluster, with policies that change.
struct World {
    engine: Engine,
    policies: Vec<Key>,
}

impl World {
    fn new() -> Self {
        let mut engine = Engine::default();
        for item in items(objects([])) {
            engine.apply(Event::Apply(item));
        }
        World { engine, policies: Vec::new() }
    }

    /// Holds the programs of these policies against the evaluator, at each end of each connection. Returns their count.
    fn agrees(&mut self, policies: &[Policy], flows: impl Fn(&Snapshot) -> Vec<Flow>) -> usize {
        let now: Vec<Item> = policies.iter().cloned().map(Item::Policy).collect();
        for key in std::mem::take(&mut self.policies) {
            self.engine.apply(Event::Delete(key));
        }
        self.policies = now.iter().map(Item::key).collect();
        now.into_iter().for_each(|item| drop(self.engine.apply(Event::Apply(item))));
        let view = self.engine.view();
        let programs = NODES.map(|node| compile(&view.part_of(node), node).program);
        let ways = Direction::BOTH.map(|way| programs.each_ref().map(|program| one_way(program, way)));
        let (snapshot, options) = (Snapshot::new(objects(policies.iter().cloned())), Options::default());
        let context = Context { snapshot: &snapshot, options };
        let mut checked = 0;
        for flow in flows(&snapshot) {
            // By its own address it does not leave its namespace.
            if flow.source.who == flow.destination.who && flow.via.is_none() {
                continue;
            }
            let Some(packet) = packet(&snapshot, &flow) else { continue };
            let plain = evaluate(&snapshot, &flow, &options);
            for (direction, side) in Direction::BOTH.into_iter().zip([&plain.egress, &plain.ingress]) {
                let (own, _) = Context::ends(&flow, direction);
                let Some(node) = home(&snapshot, own, &NODES) else { continue };
                let Some(hook) = hook(&context, &flow, direction, NODES[node]) else { continue };
                // What a service refuses from outside is not in the program of a node.
                let gated = direction == Direction::Ingress && context.entrance(&flow).is_some();
                if gated || is_conditional(side) {
                    continue;
                }
                let program = &ways[direction as usize][node];
                let walked = program.walk(hook, &packet).unwrap();
                assert_eq!(
                    walked.verdict,
                    said(side.verdict),
                    "{direction} at {} {hook:?}: {packet:?}\n{side:#?}\n{policies:#?}\n{program}",
                    NODES[node],
                );
                checked += 1;
            }
        }
        checked
    }
}

/// Whether conditions on layer 7 hold the kernel cannot decide: it denies what is allowed on condition.
fn is_conditional(side: &Side) -> bool {
    matches!(&side.because, Because::Rule(decision) if !decision.conditions.is_empty())
}

#[test]
fn one_rule_of_every_form_in_every_stage() {
    let (mut world, mut checked) = (World::new(), 0);
    for case in cases(2) {
        let policies: Vec<Policy> = case.background.iter().chain([&case.policy]).cloned().collect();
        checked += world.agrees(&policies, |snapshot| match case.about {
            About::Ends => all_ends(snapshot, traffic()[0]),
            About::Traffic => all_traffic(snapshot),
        });
    }
    assert!(checked > 300_000, "{checked}");
}

#[test]
fn several_policies_of_any_form() {
    let (mut world, mut random, mut checked) = (World::new(), Generator::new(5), 0);
    for _ in 0..300 {
        let policies = random.policies(8);
        let one = random.dice().one(&traffic());
        checked += world.agrees(&policies, |snapshot| {
            all_traffic(snapshot).into_iter().chain(all_ends(snapshot, one)).collect()
        });
    }
    assert!(checked > 100_000, "{checked}");
}

/// Rules by type, by code, by both and by neither before and behind each other: every list of two, and some of four.
#[test]
fn icmp_by_type_and_by_code_in_any_order() {
    let icmp = |kind, code| TrafficMatches::Of(vec![TrafficMatch::Icmp(IcmpMatch { kind, code })]);
    let matches: Vec<TrafficMatches> = [None, Some(3), Some(128)]
        .into_iter()
        .flat_map(|kind| [None, Some(0), Some(1)].map(|code| icmp(kind, code)))
        .collect();
    let mut lists: Vec<Vec<TrafficMatches>> = Vec::new();
    for one in &matches {
        lists.extend(matches.iter().map(|other| vec![one.clone(), other.clone()]));
    }
    let mut random = Generator::new(9);
    lists.extend((0..80).map(|_| (0..4).map(|_| random.dice().one(&matches)).collect()));
    let flows = |snapshot: &Snapshot| -> Vec<Flow> {
        let messages = [3, 8, 128].into_iter().flat_map(|kind| [0, 1, 2].map(|code| (kind, Some(code))));
        let traffic = messages.map(|icmp| Traffic { icmp: Some(icmp), ..Traffic::new(Protocol::Icmp, 0) });
        let [one, other] = ["a", "b"].map(|name| Who::Pod(snapshot.pod("x", name).unwrap()));
        let pair =
            |flow: &Flow| (flow.source.who, flow.destination.who) == (one, other) && flow.via.is_none();
        traffic.flat_map(|one| all_ends(snapshot, one)).filter(pair).collect()
    };
    let (mut world, mut checked) = (World::new(), 0);
    for (at, list) in lists.iter().enumerate() {
        let rules = (0..).zip(list).map(|(index, traffic)| {
            let parts = Parts { traffic: traffic.clone(), ..Parts::everything() };
            // Neighbouring rules never do the same.
            let action = ACTIONS[(at + 3 * index as usize) % 4];
            parts.rule(Direction::Ingress, index, action)
        });
        checked += world.agrees(&[policy("icmp", placements().remove(0), rules.collect())], flows);
    }
    assert!(checked > 5_000, "{checked}");
}
