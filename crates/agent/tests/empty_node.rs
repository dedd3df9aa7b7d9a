//! What becomes of the rules in a kernel in memory when the last pod of a node goes: that depends on where the objects come from.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod heard;
#[path = "../../engine/tests/written/mod.rs"]
mod written;

use std::collections::{BTreeMap, BTreeSet};

use palisade_agent::machine::Finder;
use palisade_agent::machine::continuity::Continuity;
use palisade_agent::machine::network::{Link, Network, NetworkError};
use palisade_agent::{Enforcement, Source};
use palisade_engine::Engine;
use palisade_engine::view::View;
use palisade_model::snapshot::Snapshot;
use palisade_nftables::program::Program;
use smol_str::SmolStr;

use heard::Heard;

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

/// The node's part of a world, unless it cannot be meant.
fn placed(finder: &mut Finder<Bare>, continuity: &mut Continuity, text: &str) -> Option<View> {
    let mut objects = written::objects(text);
    let place = finder.place(&mut objects, &[]).unwrap();
    continuity.check(&place).ok()?;
    continuity.remember(&place.node, &place.pods);
    Some(Engine::of(&objects, &Snapshot::new(objects.clone())).view().part_of(&place.node))
}

/// How many elements of the program's sets and maps name the pod's address.
fn about_the_pod(program: &Program) -> usize {
    let elements = program.sets.values().map(|set| format!("{:?}", set.elements));
    elements.filter(|text| text.contains("10.0.0.2")).count()
}

#[test]
fn the_last_pod_takes_its_rules_along_in_a_cluster_and_not_from_files() {
    for source in [Source::Files, Source::Cluster] {
        let mut finder = Finder::new(Bare, source, Some("n1"));
        let mut continuity = Continuity::new(source);
        let part = placed(&mut finder, &mut continuity, &format!("{POLICY}{POD}")).unwrap();
        let (wiring, own) = (BTreeMap::new(), BTreeSet::new());
        let (mut force, done) =
            Enforcement::begin(part, "n1", wiring.clone(), own.clone(), Heard::default(), None);
        assert!(done.failed.is_none());
        let before = force.kernel().fake.program().cloned().unwrap();
        assert!(about_the_pod(&before) > 0, "{before}");
        if let Some(part) = placed(&mut finder, &mut continuity, POLICY) {
            assert!(force.anew(part, "n1", wiring, own).failed.is_none());
        }
        let after = force.kernel().fake.program().cloned().unwrap();
        match source {
            Source::Files => assert_eq!(after, before),
            Source::Cluster => assert_eq!(about_the_pod(&after), 0, "{after}"),
        }
        // The pod comes back.
        let part = placed(&mut finder, &mut continuity, &format!("{POLICY}{POD}")).unwrap();
        assert!(force.anew(part, "n1", BTreeMap::new(), BTreeSet::new()).failed.is_none());
        assert!(about_the_pod(force.kernel().fake.program().unwrap()) > 0, "{source:?}");
    }
}
