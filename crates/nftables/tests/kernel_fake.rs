//! What the kernel in memory does beyond what every kernel does: it fails when told to, and others change it.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod kernel_rig;

use palisade_nftables::kernel::{Count, Counts, Fake, Kernel, KernelError};
use palisade_nftables::patch::Patch;
use palisade_nftables::program::Program;

use kernel_rig::{name, rich};

#[test]
fn it_fails_as_often_as_told_and_does_nothing_meanwhile() {
    let mut fake = Fake::new();
    fake.fail([KernelError::Busy("one".to_owned()), KernelError::Forbidden("two".to_owned())]);
    assert!(matches!(fake.replace(&rich(), &Counts::new()), Err(KernelError::Busy(_))));
    assert!(matches!(fake.read(), Err(KernelError::Forbidden(_))));
    assert_eq!(fake.read().unwrap(), None);
    fake.replace(&rich(), &Counts::new()).unwrap();
    fake.fail((0..2).map(|_| KernelError::Drifted("again".to_owned())));
    let patch = Patch::between(&rich(), &Program::default());
    assert!(fake.patch(&patch).is_err() && fake.patch(&patch).is_err());
    assert_eq!(fake.program(), Some(&rich()));
    fake.patch(&patch).unwrap();
    assert_eq!(fake.program(), Some(&Program::default()));
}

#[test]
fn others_change_it() {
    let mut fake = Fake::new();
    fake.replace(&rich(), &Counts::new()).unwrap();
    fake.count("denied", 3, 300);
    fake.count("no such counter", 1, 1);
    fake.disturb(|program| assert!(program.as_mut().unwrap().counters.remove("allowed")));
    assert!(fake.is_disturbed().unwrap() && !fake.is_disturbed().unwrap());
    assert_eq!(fake.counts().unwrap(), [(name("denied"), Count { packets: 3, bytes: 300 })].into());
    fake.disturb(|program| *program = None);
    assert!(fake.counts().unwrap().is_empty() && !fake.remove().unwrap());
}
