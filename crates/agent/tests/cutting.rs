//! Whenever the program in the kernel may be another than connections were opened under, those it denies are cut.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod recording_kernel;
#[path = "../../engine/tests/written/mod.rs"]
mod written;

use std::collections::{BTreeMap, BTreeSet};

use palisade_agent::{Done, Enforcement, Remembered, Wrote};
use palisade_nftables::kernel::{Connection, Fake, Kernel, KernelError};
use palisade_nftables::program::{SCTP, TCP, Value, Verdict};

use written::Followed;

/// Begins to enforce what a source has come to.
fn begin(source: &Followed, kernel: Fake, remembered: Option<&Remembered>) -> (Enforcement<Fake>, Done) {
    let part = source.view.part_of("n1");
    Enforcement::begin(part, "n1", BTreeMap::new(), BTreeSet::new(), kernel, remembered)
}

/// A pod db, and policies for it: from whom, over what.
fn world(rules: &[(&str, &str)]) -> String {
    let mut text = String::from(
        "{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: db, labels: {app: db}}, spec: {nodeName: n1}, status: {podIP: \
         10.0.0.2}}\n",
    );
    for (at, (from, ports)) in rules.iter().enumerate() {
        text.push_str(&format!(
            "---\n{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{namespace: shop, name: p{at}}}, spec: \
             {{podSelector: {{}}, ingress: [{{from: [{{ipBlock: {{cidr: {from}}}}}], ports: [{ports}]}}]}}}}\n"
        ));
    }
    text
}

fn connection(protocol: u8, from: &str, port: u16) -> Connection {
    recording_kernel::connection(protocol, from, "10.0.0.2", port)
}

const ALLOWED: &str = "10.9.0.0/16";

fn known(force: &mut Enforcement<Fake>) -> BTreeSet<Connection> {
    force.kernel().connections().unwrap().into_iter().collect()
}

#[test]
fn when_a_table_is_taken_over() {
    let mut source = Followed::default();
    source.take(&world(&[(ALLOWED, "{port: 80}")]), "n1");
    let (mut force, _) = begin(&source, Fake::new(), None);
    force.settle();
    let remembered = force.remembered().unwrap();
    let mut kernel = std::mem::take(force.kernel());
    let (denied, allowed) = (connection(TCP, "10.8.0.1", 80), connection(TCP, "10.9.0.1", 80));
    kernel.connect(denied);
    kernel.connect(allowed);
    // Its enforcer was killed before it had cut.
    let (mut next, done) = begin(&source, kernel, Some(&remembered));
    assert_eq!((done.wrote, done.cut), (Wrote::Nothing, 1));
    assert_eq!(known(&mut next), BTreeSet::from([allowed]));
}

#[test]
fn a_table_is_taken_over_only_if_it_is_all_there() {
    let mut source = Followed::default();
    source.take(&world(&[(ALLOWED, "{port: 80}")]), "n1");
    let wrong: [fn(&mut Remembered, &mut Fake); 4] = [
        |remembered, _| remembered.program.push('x'),
        |remembered, _| remembered.structure.push('x'),
        // More in a set that should have nothing in it, and less in one that should have something.
        |_, kernel| {
            kernel.disturb(|program| {
                let sets = &mut program.as_mut().unwrap().sets;
                let key = vec![(
                    Value::Address("10.7.0.1".parse().unwrap()),
                    Value::Address("10.7.0.1".parse().unwrap()),
                )];
                let verdict = Some(Verdict::Accept);
                sets.get_mut("from_pod6").unwrap().elements.clear();
                sets.get_mut("to_pod4").unwrap().elements.insert(key, verdict);
            });
        },
        |_, kernel| {
            kernel.disturb(|program| {
                program.as_mut().unwrap().sets.get_mut("to_pod4").unwrap().elements.clear();
            });
        },
    ];
    for change in wrong {
        let (mut force, _) = begin(&source, Fake::new(), None);
        force.settle();
        let mut remembered = force.remembered().unwrap();
        let mut kernel = std::mem::take(force.kernel());
        change(&mut remembered, &mut kernel);
        let (mut next, done) = begin(&source, kernel, Some(&remembered));
        assert_eq!(done.wrote, Wrote::Replace);
        assert_eq!(next.kernel().program(), Some(force.live().program()));
    }
}

#[test]
fn when_a_table_is_repaired() {
    let mut source = Followed::default();
    source.take(&world(&[(ALLOWED, "{port: 80}")]), "n1");
    let (mut force, _) = begin(&source, Fake::new(), None);
    force.settle();
    force.repair();
    force.kernel().disturb(|program| *program = None);
    // While there was no table.
    force.kernel().connect(connection(TCP, "10.8.0.1", 80));
    let (done, repaired) = force.repair();
    assert!(repaired.is_some());
    assert_eq!((done.wrote, done.cut), (Wrote::Replace, 1));
}

#[test]
fn when_a_change_gets_there_only_as_a_whole() {
    let mut source = Followed::default();
    source.take(&world(&[("10.8.0.0/15", "{port: 80}")]), "n1");
    let (mut force, _) = begin(&source, Fake::new(), None);
    force.repair();
    force.kernel().connect(connection(TCP, "10.8.0.1", 80));
    let deltas = source.take(&world(&[(ALLOWED, "{port: 80}")]), "n1");
    force.kernel().fail([KernelError::Refused("not like this".to_owned())]);
    let done = force.follow(&deltas).unwrap();
    assert_eq!((done.wrote, done.cut), (Wrote::Replace, 1));
    // And when it has to wait.
    force.kernel().connect(connection(TCP, "10.9.0.1", 80));
    let deltas = source.take(&world(&[(ALLOWED, "{port: 81}")]), "n1");
    force.kernel().fail([KernelError::Forbidden("not now".to_owned())]);
    let done = force.follow(&deltas).unwrap();
    assert!(done.failed.is_some() && done.cut == 0, "{done:?}");
    std::thread::sleep(std::time::Duration::from_millis(520));
    let (done, _) = force.repair();
    assert_eq!((done.wrote, done.cut), (Wrote::Replace, 1));
}

/// Somebody of a kind that nobody was of: the chain has one rule more, and no set that was there has another element.
#[test]
fn when_a_chain_that_came_with_one_change_is_another_with_the_next() {
    let drop_bad = "---\n{apiVersion: crd.antrea.io/v1beta1, kind: ClusterNetworkPolicy, metadata: {name: bad}, spec: {priority: 1, appliedTo: \
                    [{podSelector: {matchLabels: {app: db}}}], ingress: [{action: Drop, from: [{podSelector: {matchLabels: {app: bad}}}]}]}}\n";
    let bad = "---\n{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: bad, labels: {app: bad}}, spec: {nodeName: n2}, status: \
               {podIP: 10.9.0.5}}\n";
    let policies = format!("{}{drop_bad}", world(&[(ALLOWED, "{port: 80}")]));
    let mut source = Followed::default();
    source.take(&world(&[]), "n1");
    let (mut force, _) = begin(&source, Fake::new(), None);
    let deltas = source.take(&policies, "n1");
    force.follow(&deltas).unwrap();
    force.repair();
    let (denied, allowed) = (connection(TCP, "10.9.0.5", 80), connection(TCP, "10.9.0.6", 80));
    force.kernel().connect(denied);
    force.kernel().connect(allowed);
    let deltas = source.take(&format!("{policies}{bad}"), "n1");
    let done = force.follow(&deltas).unwrap();
    assert_eq!(done.cut, 1);
    assert_eq!(known(&mut force), BTreeSet::from([allowed]));
}

#[test]
fn of_every_protocol_with_ports() {
    let mut source = Followed::default();
    source.take(&world(&[(ALLOWED, "{protocol: SCTP, port: 80}")]), "n1");
    let (mut force, _) = begin(&source, Fake::new(), None);
    let (kept, cut) = (connection(SCTP, "10.9.0.1", 80), connection(SCTP, "10.9.0.1", 81));
    force.kernel().connect(kept);
    force.kernel().connect(cut);
    let deltas = source.take(&world(&[(ALLOWED, "{protocol: SCTP, port: 80}, {port: 99}")]), "n1");
    assert_eq!(force.follow(&deltas).unwrap().cut, 1);
    assert_eq!(known(&mut force), BTreeSet::from([kept]));
}
