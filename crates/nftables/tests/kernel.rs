//! The real kernel takes what is compiled. It needs root and `nft`, so that `cargo test` leaves it out; `make test` installs
//! what is missing and runs it (`make kernel`).

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../engine/tests/pool/mod.rs"]
mod pool;

use std::io::Write;
use std::process::{Command, Stdio};

use palisade_engine::Engine;
use palisade_model::event::Event;
use palisade_nftables::compile::compile;

use pool::{Dice, pool};

/// What nft says to a transaction, in a network of its own that goes with it.
fn load(text: &str) -> Result<(), String> {
    let mut nft = Command::new("unshare")
        .args(["--net", "nft", "-f", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot run unshare and nft: {error}"))?;
    nft.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = nft.wait_with_output().unwrap();
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

#[test]
#[ignore = "needs root and nft: make kernel"]
fn the_kernel_takes_the_program() {
    let pool = pool();
    for seed in 0..12 {
        let mut dice = Dice(seed);
        let mut engine = Engine::default();
        for _ in 0..200 {
            let variants = &pool[dice.roll(pool.len())];
            engine.apply(Event::Apply(variants[dice.roll(variants.len())].clone()));
        }
        for node in ["n0", "n1"] {
            let text = compile(&engine.view().part_of(node), node).program.replace();
            if let Err(error) = load(&text) {
                panic!("{error}\n{text}");
            }
        }
    }
}
