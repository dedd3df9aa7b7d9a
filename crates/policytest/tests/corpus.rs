//! Replays the fuzzers' corpus (`fuzz/corpus`) on stable: what once was interesting stays right.

#![allow(clippy::expect_used, clippy::panic, reason = "a panic here is a failing test")]

mod fuzz_targets;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// No file of the corpus may take longer, even where the machine is busy.
const LONGEST: Duration = Duration::from_secs(10);

fn replay(target: &str, run: fn(&[u8])) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<PathBuf> =
        fs::read_dir(&folder).expect("a corpus").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    for file in files {
        let data = fs::read(&file).expect("readable");
        let (start, name) = (Instant::now(), file.display());
        // A failing assertion says nothing about the file it came from.
        let result = std::panic::catch_unwind(|| run(&data));
        assert!(result.is_ok(), "{name} fails; `cargo +nightly fuzz run {target} {name}` runs it alone");
        assert!(start.elapsed() < LONGEST, "{name} took {:?}", start.elapsed());
    }
}

macro_rules! replay {
    ($($target:ident)*) => { $(
        #[test]
        fn $target() {
            replay(stringify!($target), fuzz_targets::$target);
        }
    )* };
}

replay! { load json network_policy beta_network_policy admin antrea flow policy_test thorium wire }
