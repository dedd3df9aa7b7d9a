//! The index answers as the plain evaluator does, whatever happened before: any order of changes, duplicates, deletions
//! of what never was, references to what is not there.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod pool;
mod walk;
mod world;

use std::collections::BTreeMap;
use std::ops::Range;

use palisade_engine::selection::SetKind;
use palisade_engine::view::View;
use palisade_engine::{Delta, Engine};
use palisade_model::evaluate::evaluate;
use palisade_model::event::{Event, Item, Key};
use palisade_model::flow::{Flow, Party, Who};
use palisade_model::matching::Context;
use palisade_model::options::{HostNetworkPods, Options, SelfTraffic};
use palisade_model::policy::Direction;
use palisade_model::snapshot::Snapshot;
use palisade_model::trace::Verdict;
use palisade_model::traffic::{Protocol, Traffic};

use pool::{Dice, pool};
use walk::Walk;
use world::objects;

fn flows(snapshot: &Snapshot) -> Vec<Flow> {
    let traffic = [
        Traffic::new(Protocol::Tcp, 80),
        Traffic { source_port: Some(4000), ..Traffic::new(Protocol::Tcp, 81) },
        Traffic::new(Protocol::Udp, 53),
        Traffic::new(Protocol::Icmp, 0),
    ];
    world::flows(snapshot, &traffic)
}

fn agree(engine: &Engine, view: &View, state: &BTreeMap<Key, Item>, options: &Options) -> usize {
    let snapshot = Snapshot::new(objects(state));
    let walk = Walk::new(view);
    let flows = flows(&snapshot);
    for flow in &flows {
        let plain = evaluate(&snapshot, flow, options);
        let own = engine.flow(&snapshot, flow).expect("everybody is there");
        let indexed = engine.verdict(&own, options).expect("everybody is there");
        assert_eq!(indexed, plain.verdict, "{plain:#?}\n{:#?}", state.keys());
        let walked = walk.verdict(&snapshot, flow, options);
        assert_eq!(walked, plain.verdict, "{plain:#?}\n{view}");
    }
    flows.len()
}

/// What each node says about the connections of its own pods, from its part alone.
fn parts_agree(view: &View, parts: &[View], state: &BTreeMap<Key, Item>) {
    let snapshot = Snapshot::new(objects(state));
    let (whole, options) = (Walk::new(view), Options::default());
    for (node, part) in NODES.iter().zip(parts) {
        let walk = Walk::new(part);
        let lives = |party: Party| match party.who {
            Who::Pod(pod) => snapshot.pods()[pod].node.as_deref() == Some(node),
            Who::Node(at) => snapshot.nodes()[at].name == *node,
            Who::Outside => false,
        };
        for flow in flows(&snapshot) {
            for direction in Direction::BOTH {
                let (own, _) = Context::ends(&flow, direction);
                if lives(own) {
                    let here = walk.side(&snapshot, &flow, &options, direction);
                    assert_eq!(here, whole.side(&snapshot, &flow, &options, direction), "{node}\n{part}");
                }
            }
        }
    }
}

/// Nothing is in a part but what rules for its own members name.
fn nothing_else(part: &View, node: &str) {
    for (id, set) in part.sets() {
        let named = part.rules().values().any(|rule| rule.sets().any(|named| named == *id));
        assert!(named, "{node} has {} and no rule for it", set.selection);
    }
    for rule in part.rules().values() {
        let subject = &part.sets()[&rule.subject];
        let here = subject.members.iter().any(|member| member.is_on(node));
        let gate = subject.selection.kind() == SetKind::Service;
        assert!(here || gate, "{node} has {rule:?} for nobody");
    }
    for origin in part.policies().keys() {
        assert!(
            part.rules().values().any(|rule| rule.policy == *origin),
            "{node} has a policy without rules"
        );
    }
}

/// At no moment between does an end of a connection allow what it does not before and not after.
fn never_opens(
    before: &View,
    after: &View,
    delta: &Delta,
    old: &Snapshot,
    new: &Snapshot,
    options: &Options,
) {
    let allowed = |walk: &Walk<'_>, snapshot: &Snapshot, (flow, direction): &(Flow, Direction)| {
        walk.side(snapshot, flow, options, *direction) == Verdict::Allow
    };
    let (first, last) = (Walk::new(before), Walk::new(after));
    // Those who are there before and after, and what they say of each other.
    let ids = |snapshot: &Snapshot| -> Vec<Option<String>> {
        snapshot
            .pods()
            .iter()
            .map(|pod| Some(format!("{}/{}/{}", pod.namespace, pod.name, pod.external)))
            .collect()
    };
    let (old_ids, new_ids) = (ids(old), ids(new));
    if old_ids != new_ids
        || old.nodes().len() != new.nodes().len()
        || old.services().len() != new.services().len()
    {
        return;
    }
    let closed: Vec<(Flow, Direction)> = flows(old)
        .into_iter()
        .flat_map(|flow| Direction::BOTH.map(|direction| (flow, direction)))
        .filter(|side| !allowed(&first, old, side) && !allowed(&last, new, side))
        .collect();
    let mut copy = before.clone();
    for change in &delta.changes {
        copy.step(change).unwrap();
        let walk = Walk::new(&copy);
        for side in &closed {
            assert!(!allowed(&walk, old, side), "{side:?} is open after {change:?} of {delta:#?}");
        }
    }
}

const NODES: [&str; 3] = ["n0", "n1", "n2"];

/// Two tests, so that they run side by side; together they ask about more than half a million connections.
#[test]
fn after_any_history_the_index_says_what_the_plain_evaluator_says() {
    let checked = live_through(0..50);
    assert!(checked > 260_000, "{checked}");
}

#[test]
fn after_any_other_history_it_does_too() {
    let checked = live_through(50..100);
    assert!(checked > 260_000, "{checked}");
}

fn live_through(seeds: Range<u64>) -> usize {
    let pool = pool();
    let mut checked = 0;
    for seed in seeds {
        let mut dice = Dice(seed);
        let mut engine = Engine::default();
        let mut copy = engine.view();
        let mut parts: Vec<View> = NODES.iter().map(|node| copy.part_of(node)).collect();
        let mut state: BTreeMap<Key, Item> = BTreeMap::new();
        for step in 0..300 {
            let variants = &pool[dice.roll(pool.len())];
            let item = variants[dice.roll(variants.len())].clone();
            let key = item.key();
            let several = matches!(key, Key::Tier(_) | Key::Group(_) | Key::Service(..));
            let before = (copy.clone(), objects(&state));
            // Half of the deletions are of what is not there.
            let delta = if dice.roll(4) == 0 {
                state.remove(&key);
                engine.apply(Event::Delete(key))
            } else {
                state.insert(key, item.clone());
                engine.apply(Event::Apply(item.clone()))
            };
            for (part, own) in parts.iter_mut().zip(copy.follow_for(&delta, &NODES).unwrap()) {
                part.follow(&own).unwrap_or_else(|error| panic!("{error}: {own:#?}\n{delta:#?}"));
            }
            if dice.roll(8) == 0 && !delta.changes.is_empty() {
                // What comes again changes nothing.
                for item in state.values().cloned().collect::<Vec<_>>() {
                    let again = engine.apply(Event::Apply(item.clone()));
                    assert_eq!(again.changes, [], "{:?} again", item.key());
                }
            }
            assert_eq!(copy, engine.view(), "step {step} of seed {seed}: {delta:#?}");
            if dice.roll(3) == 0 && !several {
                let (old, new) = (Snapshot::new(before.1), Snapshot::new(objects(&state)));
                never_opens(&before.0, &copy, &delta, &old, &new, &Options::default());
            }
            for (node, part) in NODES.iter().zip(&parts) {
                assert_eq!(part, &copy.part_of(node), "{node} at step {step} of seed {seed}: {delta:#?}");
                nothing_else(part, node);
            }
            if step % 20 == 0 || step > 295 {
                let options = Options {
                    ip_block_matches_pods: dice.roll(2) == 0,
                    host_network_pods: [HostNetworkPods::Node, HostNetworkPods::Ignore][dice.roll(2)],
                    self_traffic: [SelfTraffic::Allow, SelfTraffic::Evaluate][dice.roll(2)],
                };
                checked += agree(&engine, &copy, &state, &options);
                parts_agree(&copy, &parts, &state);
                let mut fresh = Engine::default();
                for item in state.values().rev().cloned() {
                    fresh.apply(Event::Apply(item));
                }
                assert_eq!(copy.to_string(), fresh.view().to_string(), "the same from scratch");
                assert_eq!(View::try_from(&copy.as_delta()).unwrap(), copy);
            }
        }
        // Nothing is left of what is gone.
        for key in state.into_keys() {
            copy.follow(&engine.apply(Event::Delete(key))).unwrap();
        }
        assert_eq!(engine.view().to_string(), "");
        engine.tidy();
        assert!(engine.is_empty(), "something is left after seed {seed}: {engine:#?}");
    }
    checked
}
