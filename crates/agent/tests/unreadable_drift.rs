//! Enforcing over a kernel in memory: what happens when it does not answer at the wrong moment.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod recording_kernel;
#[path = "../../engine/tests/written/mod.rs"]
mod written;

use std::collections::{BTreeMap, BTreeSet};

use palisade_agent::Enforcement;
use palisade_nftables::kernel::KernelError;

use recording_kernel::RecordingKernel;

const WORLD: &str = "\
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: db, labels: {app: db}}
spec: {nodeName: n1}
status: {podIP: 10.0.0.2}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: shop, name: db}
spec: {podSelector: {}, policyTypes: [Ingress, Egress]}
";

fn begun() -> Enforcement<RecordingKernel> {
    let part = written::part(WORLD, "n1");
    let (mut force, done) =
        Enforcement::begin(part, "n1", BTreeMap::new(), BTreeSet::new(), RecordingKernel::default(), None);
    assert!(done.failed.is_none());
    force.settle();
    assert!(force.remembered().is_some());
    force
}

/// Somebody changes the table, and just then it cannot be read: that is not forgotten.
#[test]
fn drift_that_cannot_be_read_at_first_is_repaired_later() {
    let busy = || KernelError::Busy("our table changes faster than it can be read".to_owned());
    let no_room = || KernelError::System {
        what: "cannot read elements".to_owned(),
        source: std::io::Error::from_raw_os_error(105),
    };
    // What is in the table is not ours; no room, for longer than is waited for at once.
    let errors: [Vec<KernelError>; 3] = [
        vec![KernelError::Drifted("set strange is none of ours".to_owned())],
        (0..8).map(|_| busy()).collect(),
        (0..8).map(|_| no_room()).collect(),
    ];
    for errors in errors {
        let what = errors[0].to_string();
        let mut force = begun();
        force.kernel().fake.disturb(|program| {
            program.as_mut().unwrap().chains.get_mut("forward").unwrap().rules.clear();
        });
        force.kernel().unreadable.extend(errors);
        for _ in 0..20 {
            force.repair();
            std::thread::sleep(std::time::Duration::from_millis(60));
        }
        let now = force.kernel().fake.program().unwrap().clone();
        assert_eq!(now, *force.live().program(), "{what}: the table stays as somebody left it");
    }
}
