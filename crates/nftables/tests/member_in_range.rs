//! A member of a set is distinguished from a range of addresses that holds it.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod packets;
mod walked;
#[path = "../../engine/tests/written/mod.rs"]
mod written;

use std::fmt::Write;

use palisade_engine::Engine;
use palisade_model::snapshot::Snapshot;
use palisade_nftables::compile::compile;

use walked::{agree, objects};

/// A member that gets what all other addresses get, in a range that gets more.
#[test]
fn a_member_that_may_do_what_anybody_may_is_not_taken_for_its_range() {
    let mut text = "{apiVersion: v1, kind: Namespace, metadata: {name: x}}\n---\n\
        {apiVersion: crd.antrea.io/v1beta1, kind: ClusterNetworkPolicy, metadata: {name: base}, spec: {priority: 5, tier: baseline, \
        appliedTo: [{podSelector: {matchLabels: {app: db}}}], ingress: [{action: Drop}]}}\n---\n\
        {apiVersion: crd.antrea.io/v1beta1, kind: NetworkPolicy, metadata: {name: own, namespace: x}, spec: {priority: 5, \
        appliedTo: [{podSelector: {matchLabels: {app: db}}}], ingress: [{action: Pass, from: [{podSelector: {matchLabels: {app: a}}}]}, \
        {action: Allow, from: [{ipBlock: {cidr: 10.0.0.0/24}}]}]}}\n"
        .to_owned();
    for (name, number) in [("a", 1), ("other", 2), ("db", 9)] {
        let _ = write!(
            text,
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: x, labels: {{app: {name}}}}}, spec: {{nodeName: n0, \
             containers: [{{name: c, image: i}}]}}, status: {{podIP: 10.0.0.{number}}}}}\n"
        );
    }
    let objects = objects(&text);
    let snapshot = Snapshot::new(objects.clone());
    let view = Engine::of(&objects, &snapshot).view();
    let program = |node: &str| compile(&view.part_of(node), node).program;
    let (here, there) = (program("n0"), program("n1"));
    let (_, denied) = agree(&snapshot, [&here, &there], "from scratch");
    assert!(denied > 0);
}
