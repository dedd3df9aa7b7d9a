//! Random worlds of all dialects that change from moment to moment, on one machine: packets do what the plain evaluator says.
//! Needs root, `ip` and `nft`; fails and says so without them.
//!
//! `LAB_WORLDS` says how many worlds, where more are wanted than every run can wait for.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_macros)]

#[path = "../../engine/tests/pool/mod.rs"]
mod pool;
#[path = "../../engine/tests/walk/mod.rs"]
mod walk;
#[path = "../../engine/tests/world/mod.rs"]
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use palisade_lab::world::LabWorld;
use palisade_lab::{Lab, Measured};
use palisade_model::evaluate::evaluate;
use palisade_model::event::{Item, Key};
use palisade_model::flow::Flow;
use palisade_model::options::Options;
use palisade_model::trace::Verdict;

use pool::{Dice, pool};

/// How many flows of each world are sent.
const FLOWS: usize = 400;

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn packets_do_what_the_plain_evaluator_says() {
    let worlds = std::env::var("LAB_WORLDS").ok().and_then(|text| text.parse().ok()).unwrap_or(8);
    let mut lab = match Lab::new(Arc::new(AtomicBool::new(false))) {
        Ok(lab) => lab,
        Err(error) => panic!("this test sends real packets, and cannot here: {error}"),
    };
    let pool = pool();
    let outside: BTreeSet<IpAddr> =
        ["203.0.113.7", "192.0.2.1"].iter().map(|text| text.parse().unwrap()).collect();
    let mut dice = Dice(7);
    let mut state: BTreeMap<Key, Item> = BTreeMap::new();
    let mut sent: BTreeMap<Verdict, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for at in 0..worlds {
        for _ in 0..if at == 0 { 150 } else { 25 } {
            let variants = &pool[dice.roll(pool.len())];
            let item = variants[dice.roll(variants.len())].clone();
            let key = item.key();
            if dice.roll(5) == 0 {
                state.remove(&key);
            } else {
                state.insert(key, item);
            }
        }
        let placed = LabWorld::new(world::objects(&state));
        let mut flows: Vec<Flow> = world::flows(&placed.given, &world::traffic());
        let step = (flows.len() / FLOWS).max(1);
        let first = dice.roll(step);
        flows = flows.into_iter().skip(first).step_by(step).collect();
        lab.update(&placed, &outside).unwrap();
        let measured = lab.measure(&placed, &flows, &mut |_| {}).unwrap();
        for (flow, measured) in flows.iter().zip(measured) {
            let measured = match measured {
                Measured::Verdict(measured) => measured,
                Measured::NotSent(_) => continue,
                Measured::Failed(why) => {
                    wrong.push(format!("world {at}: {:?} could not be sent: {why}", placed.flow(flow)));
                    continue;
                }
            };
            let here = placed.flow(flow);
            let evaluation = evaluate(&placed.snapshot, &here, &Options::default());
            *sent.entry(evaluation.verdict).or_default() += 1;
            if measured != evaluation.verdict {
                let (from, to) =
                    (placed.snapshot.describe(here.source), placed.snapshot.describe(here.destination));
                let by: Vec<String> = evaluation.decided_by().map(ToString::to_string).collect();
                wrong.push(format!(
                    "world {at}: {from} -> {to} {} {here:?}: predicted {} by {by:?}, measured {}",
                    here.traffic,
                    evaluation.verdict.as_str(),
                    measured.as_str()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {sent:?}:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
    println!("{sent:?}");
    for verdict in [Verdict::Allow, Verdict::Deny, Verdict::Reject] {
        assert!(sent.get(&verdict).copied().unwrap_or(0) > 20, "{sent:?}");
    }
}
