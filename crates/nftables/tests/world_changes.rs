//! Whole worlds that change at once, several times before the program follows: what `palisade enforce` does when a folder is saved.
//! The walked program agrees with the plain evaluator after each change, for both families of addresses.
//!
//! `agreement.rs` changes one object of many at a time, and has no addresses of IPv6. Here worlds are small and change a lot: sets
//! are removed and return under other numbers, lists are released and compiled again, addresses change hands.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod choices;
mod packets;
mod walked;
#[path = "../../engine/tests/written/mod.rs"]
mod written;

use palisade_engine::view::View;
use palisade_model::snapshot::Snapshot;
use palisade_nftables::compile::{Compiler, Wiring, compile};
use palisade_testing::dice::Dice;

use choices::{Choices, NODES, names, text};
use walked::{agree, objects};
use written::Followed;

/// A third of the steps return to an earlier world: sets and lists that return must be complete.
#[test]
fn worlds_that_change_all_at_once() {
    let names = names();
    let (mut checked, mut denied, mut patched) = (0, 0, 0);
    let seeds: u64 = std::env::var("WORLD_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(120);
    for seed in 0..seeds {
        let mut dice = Dice(seed * 1000);
        let mut choices = Choices::default();
        for name in &names {
            choices.0.insert(name.clone(), dice.roll(60));
        }
        // Half of the worlds have one policy with one rule, and only who is who changes, a little at a time: then sets become empty
        // without a chain being made again, and are found so by the list that comes next.
        let small = seed % 2 == 1;
        if small {
            for number in 0..3 {
                choices.0.insert(format!("there of policy {number}"), 1);
                choices.0.insert(format!("there of antrea {number}"), usize::from(number > 0));
                for way in ["ingress", "egress"] {
                    for rule in 0..3 {
                        choices.0.insert(format!("{way} {rule} of antrea {number}"), usize::from(rule > 0));
                        choices.0.insert(format!("{way} {rule} peers of antrea {number}"), 0);
                        choices.0.insert(format!("{way} {rule} action of antrea {number}"), 0);
                    }
                }
            }
        }
        let names: Vec<String> =
            names.iter().filter(|name| !small || !name.contains(" of ")).cloned().collect();
        let mut earlier = vec![choices.clone()];
        let mut source = Followed::default();
        let mut compilers = NODES.map(|node| Compiler::new(View::default(), node, Wiring::new()));
        let mut copies = compilers.each_ref().map(|compiler| compiler.program().clone());
        for step in 0..if small { 40 } else { 12 } {
            let mut waiting: [Vec<_>; 2] = Default::default();
            let mut snapshot = None;
            for _ in 0..=dice.roll(3) {
                if dice.roll(3) == 0 {
                    choices = earlier[dice.roll(earlier.len())].clone();
                }
                for _ in 0..if small { dice.roll(4) } else { dice.roll(9) } {
                    choices.0.insert(names[dice.roll(names.len())].clone(), dice.roll(60));
                }
                // Whether policies are there at all is what makes sets come and go.
                if !small && dice.roll(3) == 0 {
                    let which = format!("there of {} {}", dice.one(&["policy", "antrea"]), dice.roll(3));
                    choices.0.insert(which, dice.roll(2));
                }
                earlier.push(choices.clone());
                let objects = objects(&text(&choices));
                let now = Snapshot::new(objects.clone());
                for (waits, parts) in waiting.iter_mut().zip(source.relist(&objects, &now, NODES)) {
                    waits.extend(parts);
                }
                snapshot = Some(now);
            }
            for ((compiler, copy), waits) in compilers.iter_mut().zip(&mut copies).zip(&waiting) {
                let patch = compiler.follow(waits).unwrap().patch;
                patched += usize::from(!patch.is_empty());
                copy.follow(&patch).unwrap();
                assert_eq!(copy, compiler.program());
            }
            let what = format!("seed {seed} step {step}");
            let (asked, refused) = agree(&snapshot.unwrap(), copies.each_ref(), &what);
            checked += asked;
            denied += refused;
            if step % if small { 20 } else { 6 } == 5 {
                for ((compiler, copy), node) in compilers.iter_mut().zip(&mut copies).zip(NODES) {
                    copy.follow(&compiler.tidy().patch).unwrap();
                    assert_eq!(*copy, compile(&source.view.part_of(node), node).program, "{what}");
                }
            }
        }
    }
    // It is about something: most steps change the program, and both verdicts are common.
    assert!(patched > usize::try_from(seeds).unwrap() * 10, "{patched}");
    assert!(denied * 50 > checked && denied * 10 < checked * 9, "{denied} of {checked}");
}
