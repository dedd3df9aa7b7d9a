//! What becomes of the rules in a kernel in memory when the last pod of a node goes: that depends on where the objects come from.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod recording_kernel;

use std::collections::{BTreeMap, BTreeSet};

use std::sync::Arc;

use palisade_agent::Enforcement;
use palisade_agent::machine::network::{Link, Network, NetworkError};
use palisade_agent::node_view::NodeView;
use palisade_agent::source::{Change, EmptyNode};
use palisade_dialects::load::load;
use palisade_dialects::source::Limits;
use palisade_dialects::source::tree::Source;
use palisade_dialects::world::World;
use palisade_engine::view::View;
use palisade_nftables::program::Program;
use smol_str::SmolStr;

use recording_kernel::RecordingKernel;

const POLICY: &str = "\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: shop, name: db}
spec: {podSelector: {}, policyTypes: [Ingress, Egress]}
---
apiVersion: v1
kind: Node
metadata: {name: n1}
";
const POD: &str = "\
---
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: db}
spec: {nodeName: n1}
status: {podIP: 10.0.0.2}
";

/// A machine without an interface.
struct Bare;

impl Network for Bare {
    fn links(&self, _: Option<&str>) -> Result<Vec<Link>, NetworkError> {
        Ok(Vec::new())
    }

    fn name(&self) -> SmolStr {
        "n1".into()
    }
}

fn objects(text: &str) -> World {
    let (mut world, mut found) = (World::default(), Vec::new());
    load(&Arc::new(Source::new("world.yaml", text)), &Limits::default(), &mut world, &mut found);
    assert!(found.is_empty(), "{found:?}");
    world
}

fn applied(text: &str) -> Vec<Change> {
    objects(text).iter().cloned().map(Change::Apply).collect()
}

fn deleted(text: &str) -> Vec<Change> {
    objects(text).iter().map(|loaded| Change::Delete(loaded.key.clone())).collect()
}

/// The node's part after these changes, unless it cannot be meant.
fn placed(view: &mut NodeView<Bare>, changes: Vec<Change>) -> Option<View> {
    view.take(changes).ok().map(|_| view.part())
}

/// How many elements of the program's sets and maps name the pod's address.
fn about_the_pod(program: &Program) -> usize {
    let elements = program.sets.values().map(|set| format!("{:?}", set.elements));
    elements.filter(|text| text.contains("10.0.0.2")).count()
}

#[test]
fn the_last_pod_takes_its_rules_along_in_a_cluster_and_not_from_files() {
    for empty_node in [EmptyNode::Suspect, EmptyNode::Believed] {
        let mut view = NodeView::new(Bare, empty_node, Some("n1"));
        let part = placed(&mut view, applied(&format!("{POLICY}{POD}"))).unwrap();
        let (wiring, own) = (BTreeMap::new(), BTreeSet::new());
        let (mut force, done) =
            Enforcement::begin(part, "n1", wiring.clone(), own.clone(), RecordingKernel::default(), None);
        assert!(done.failed.is_none());
        let before = force.kernel().fake.program().cloned().unwrap();
        assert!(about_the_pod(&before) > 0, "{before}");
        if let Some(part) = placed(&mut view, deleted(POD)) {
            assert!(force.anew(part, "n1", wiring, own).failed.is_none());
        }
        let after = force.kernel().fake.program().cloned().unwrap();
        match empty_node {
            EmptyNode::Suspect => assert_eq!(after, before),
            EmptyNode::Believed => assert_eq!(about_the_pod(&after), 0, "{after}"),
        }
        // The pod comes back.
        let part = placed(&mut view, applied(POD)).unwrap();
        assert!(force.anew(part, "n1", BTreeMap::new(), BTreeSet::new()).failed.is_none());
        assert!(about_the_pod(force.kernel().fake.program().unwrap()) > 0, "{empty_node:?}");
    }
}
