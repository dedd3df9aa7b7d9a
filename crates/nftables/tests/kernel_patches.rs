//! Programs that follow a cluster, in the real kernel: patched from one to the next it is what it would be if each were put there as a
//! whole. The kernel in memory comes along, and must agree.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_macros)]

mod kernel_rig;
#[path = "../../engine/tests/pool/mod.rs"]
mod pool;

use palisade_engine::Engine;
use palisade_engine::view::View;
use palisade_model::event::Event;
use palisade_nftables::compile::{Compiler, Wiring};
use palisade_nftables::kernel::{Counts, Fake, Kernel, Linux};

use kernel_rig::Network;
use pool::{Dice, pool};

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn patched_is_replaced() {
    let pool = pool();
    let mut light = 0;
    for seed in 0..6 {
        Network::new().inside(|| {
            let mut dice = Dice(seed);
            let mut engine = Engine::default();
            let mut view = View::default();
            let mut live = Compiler::new(View::default(), "n0", Wiring::new());
            let mut program = live.program().clone();
            let (mut patched, mut fake) = (Linux::new(), Fake::new());
            patched.replace(&program, &Counts::new()).unwrap();
            fake.replace(&program, &Counts::new()).unwrap();
            for step in 0..40 {
                let mut deltas = Vec::new();
                for _ in 0..1 + dice.roll(8) {
                    let variants = &pool[dice.roll(pool.len())];
                    let delta = engine.apply(Event::Apply(variants[dice.roll(variants.len())].clone()));
                    deltas.extend(view.follow_for(&delta, &["n0"]).unwrap());
                }
                let mut change = live.follow(&deltas).unwrap();
                if change.patch.is_empty() {
                    change = live.tidy();
                }
                let patch = &change.patch;
                light += usize::from(patch.is_elements_only() && !patch.is_empty());
                if let Err(error) = patched.transition(&change) {
                    panic!("seed {seed}, step {step}: {error}\n{}", patch.text());
                }
                fake.transition(&change).unwrap();
                program.follow(&change.patch).unwrap();
                let read = patched.read().unwrap().unwrap();
                assert!(read.elements == fake.read().unwrap().unwrap().elements, "seed {seed}, step {step}");
                if step % 10 == 9 {
                    let replaced = Network::new().inside(|| {
                        let mut linux = Linux::new();
                        linux.replace(&program, &Counts::new()).unwrap();
                        linux.read().unwrap().unwrap()
                    });
                    assert!(
                        read == replaced,
                        "seed {seed}, step {step}:\n{}\n{}",
                        read.structure,
                        replaced.structure
                    );
                }
            }
            assert!(!patched.is_disturbed().unwrap());
        });
    }
    println!("{light} patches of 240 were of elements only");
}
