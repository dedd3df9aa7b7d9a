//! The compiled program says to every packet what the plain evaluator says to its connection: on random worlds of all
//! dialects, on each node of them, for each end of each connection.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod packets;
#[path = "../../engine/tests/pool/mod.rs"]
mod pool;
#[path = "../../engine/tests/walk/mod.rs"]
mod walk;
#[path = "../../engine/tests/world/mod.rs"]
mod world;

use std::collections::BTreeMap;
use std::net::IpAddr;

use palisade_engine::Engine;
use palisade_engine::delta::Delta;
use palisade_engine::selection::SetKind;
use palisade_engine::view::View;
use palisade_model::evaluate::evaluate;
use palisade_model::event::{Event, Item, Key};
use palisade_model::flow::Party;
use palisade_model::matching::Context;
use palisade_model::options::Options;
use palisade_model::policy::Direction;
use palisade_model::snapshot::Snapshot;
use palisade_model::trace::{Because, Side};
use palisade_nftables::compile::compile;
use palisade_nftables::compile::{Compiler, Wiring};
use palisade_nftables::patch::Patch;
use palisade_nftables::program::Program;

use packets::{home, hook, one_way, packet, said};
use pool::{Dice, pool};
use world::objects;

const NODES: [&str; 3] = ["n0", "n1", "n2"];

/// A node's program that follows every delta, and a copy that follows the patches alone.
struct Follower {
    live: Compiler,
    copy: Program,
    waiting: Vec<Delta>,
}

impl Follower {
    fn new(node: &str) -> Self {
        let live = Compiler::new(View::default(), node, Wiring::new());
        let copy = live.program().clone();
        Follower { live, copy, waiting: Vec::new() }
    }

    /// Takes what waits, all at once.
    fn follow(&mut self) {
        let patch = self.live.follow(&std::mem::take(&mut self.waiting)).unwrap().patch;
        self.take(&patch);
    }

    fn tidy(&mut self) {
        let patch = self.live.tidy().patch;
        self.take(&patch);
    }

    fn take(&mut self, patch: &Patch) {
        self.copy.follow(patch).unwrap();
        assert_eq!(self.copy, *self.live.program());
    }
}

/// How many parties have an address.
fn claims(snapshot: &Snapshot) -> BTreeMap<IpAddr, usize> {
    let mut claims: BTreeMap<IpAddr, usize> = BTreeMap::new();
    for pod in snapshot.pods().iter().filter(|pod| !pod.terminated && !pod.host_network) {
        for address in &pod.addresses {
            *claims.entry(*address).or_default() += 1;
        }
    }
    for node in snapshot.nodes() {
        for address in &node.addresses {
            *claims.entry(*address).or_default() += 1;
        }
    }
    claims
}

fn agree(view: &View, whole: &[Program; 3], state: &BTreeMap<Key, Item>) -> usize {
    let snapshot = Snapshot::new(objects(state));
    let ways = [Direction::Egress, Direction::Ingress]
        .map(|way| whole.each_ref().map(|program| one_way(program, way)));
    let options = Options::default();
    let context = Context { snapshot: &snapshot, options };
    let claims = claims(&snapshot);
    let alone =
        |party: Party| party.address.is_none_or(|address| claims.get(&address).copied().unwrap_or(0) < 2);
    let gates =
        view.rules().values().any(|rule| view.sets()[&rule.subject].selection.kind() == SetKind::Service);
    let conditional =
        |side: &Side| matches!(&side.because, Because::Rule(decision) if !decision.conditions.is_empty());
    let mut checked = 0;
    for flow in world::flows(&snapshot, &world::traffic()) {
        // By its own address it does not leave its namespace.
        let itself = flow.source.who == flow.destination.who && flow.via.is_none();
        if itself || !alone(flow.source) || !alone(flow.destination) {
            continue;
        }
        let Some(packet) = packet(&snapshot, &flow) else { continue };
        let plain = evaluate(&snapshot, &flow, &options);
        let sides = [(Direction::Egress, &plain.egress), (Direction::Ingress, &plain.ingress)];
        for ((direction, side), programs) in sides.into_iter().zip(&ways) {
            let (own, _) = Context::ends(&flow, direction);
            let Some(node) = home(&snapshot, own, &NODES) else { continue };
            let gated = gates && direction == Direction::Ingress && context.entrance(&flow).is_some();
            let Some(hook) = hook(&context, &flow, direction, NODES[node]) else { continue };
            if gated || conditional(side) {
                continue;
            }
            let walked = programs[node].walk(hook, &packet).unwrap();
            assert_eq!(
                walked.verdict,
                said(side.verdict),
                "{direction} at {} {hook:?}: {packet:?}\n{side:#?}\n{:#?}",
                NODES[node],
                programs[node]
            );
            checked += 1;
        }
    }
    checked
}

#[test]
fn the_program_says_what_the_plain_evaluator_says_while_it_follows() {
    let pool = pool();
    let mut checked = 0;
    for seed in 0..40 {
        let mut dice = Dice(seed);
        let mut engine = Engine::default();
        let mut view = View::default();
        let mut followers = NODES.map(Follower::new);
        let mut state: BTreeMap<Key, Item> = BTreeMap::new();
        for step in 0..200 {
            let variants = &pool[dice.roll(pool.len())];
            let item = variants[dice.roll(variants.len())].clone();
            let key = item.key();
            let delta = if dice.roll(5) == 0 {
                state.remove(&key);
                engine.apply(Event::Delete(key))
            } else {
                state.insert(key, item.clone());
                engine.apply(Event::Apply(item))
            };
            let parts = view.follow_for(&delta, &NODES).unwrap();
            let at_once = step % 10 != 9 && dice.roll(3) != 0;
            let mut several = false;
            for (follower, part) in followers.iter_mut().zip(parts) {
                follower.waiting.push(part);
                several = follower.waiting.len() > 1;
                if !at_once {
                    follower.follow();
                }
            }
            if step % 10 == 9 || several && !at_once {
                checked += agree(&view, &followers.each_ref().map(|follower| follower.copy.clone()), &state);
            }
            if step % 50 == 49 {
                for (follower, node) in followers.iter_mut().zip(NODES) {
                    follower.tidy();
                    let scratch = compile(&view.part_of(node), node).program;
                    assert_eq!(Patch::between(&follower.copy, &scratch), Patch::default());
                    assert_eq!(follower.copy, scratch);
                }
            }
        }
        // The same from scratch, to the byte.
        let mut fresh = Engine::default();
        for item in state.values().rev().cloned() {
            fresh.apply(Event::Apply(item));
        }
        for node in NODES {
            let program = |engine: &Engine| compile(&engine.view().part_of(node), node);
            assert_eq!(program(&engine), program(&fresh));
        }
    }
    assert!(checked > 300_000, "{checked}");
}
