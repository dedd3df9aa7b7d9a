//! Why a row of a map says what it says: every part of the traffic has somebody who decided about it.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use palisade_analysis::map::reasons::{DecidedBy, TrafficReason};
use palisade_analysis::map::{Level, Map, MapPeer};
use palisade_analysis::reach::cells::Cells;
use palisade_analysis::reach::cuts::Cuts;
use palisade_analysis::reach::traffics::Traffics;
use palisade_dialects::load::load;
use palisade_dialects::source::Limits;
use palisade_dialects::source::tree::Source;
use palisade_dialects::world::World;
use palisade_model::options::Options;
use palisade_model::snapshot::Snapshot;

const WORLD: &str = "\
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop, labels: {app: web}}, status: {podIP: 10.0.0.1}}
---
{apiVersion: v1, kind: Pod, metadata: {name: db, namespace: shop, labels: {app: db}}, status: {podIP: 10.0.0.2}}
---
{apiVersion: v1, kind: Pod, metadata: {name: agent, namespace: shop}, spec: {hostNetwork: true, nodeName: n1}, status: {podIP: 192.0.2.1}}
---
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {addresses: [{type: InternalIP, address: 192.0.2.1}]}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
  ingress:
  - from: [{podSelector: {matchLabels: {app: web}}}]
    ports: [{port: 5432}]
  - from: [{ipBlock: {cidr: 198.51.100.0/24}}]
    ports: [{port: 443}]
";

/// What is said about a row, a line each.
fn said(source: MapPeer, destination: MapPeer) -> Vec<String> {
    let text = Source::new("w.yaml", WORLD);
    let (mut world, mut found) = (World::default(), Vec::new());
    load(&text, &Limits::default(), &mut world, &mut found);
    assert!(found.is_empty(), "{found:?}");
    let snapshot = Snapshot::new(world.into_objects());
    let cuts = Cuts::of([&snapshot]);
    let mut cells = Cells::new(cuts.space().clone());
    let map = Map::new(&snapshot, &Options::default(), Level::Workloads, &cuts, &mut cells);
    let line = |why: &TrafficReason<'_>| {
        let who = match &why.decided {
            DecidedBy::Rule { policy, rule, action } => {
                let line = rule.at.as_ref().unwrap().line;
                format!("{action} by {} rule {} line {line}", policy.object, rule.index)
            }
            DecidedBy::Isolated { by } => format!("isolated by {}", by[0].object),
            other => format!("{other:?}"),
        };
        format!("{} {}: {who}", why.direction, why.part)
    };
    map.why(source, destination, Traffics::ALL, &cuts, &mut cells).iter().map(line).collect()
}

/// Workloads by name: agent, db, web.
const AGENT: MapPeer = MapPeer::Workload(0);
const DB: MapPeer = MapPeer::Workload(1);
const WEB: MapPeer = MapPeer::Workload(2);

#[test]
fn a_rule_and_the_isolation_behind_it() {
    assert_eq!(
        said(WEB, DB),
        [
            "egress all: Nobody",
            "ingress tcp/5432: Allow by NetworkPolicy shop/db rule 0 line 15",
            "ingress all but tcp/5432: isolated by NetworkPolicy shop/db",
        ]
    );
}

#[test]
fn the_outside_has_no_side_of_its_own() {
    let range = MapPeer::Range("198.51.100.0".parse().unwrap(), "198.51.100.255".parse().unwrap());
    assert_eq!(
        said(range, DB),
        [
            "egress all: Outside",
            "ingress tcp/443: Allow by NetworkPolicy shop/db rule 1 line 17",
            "ingress all but tcp/443: isolated by NetworkPolicy shop/db",
        ]
    );
}

#[test]
fn a_range_that_policies_cut_has_the_reasons_of_all_of_it() {
    let all = MapPeer::Range("0.0.0.0".parse().unwrap(), "255.255.255.255".parse().unwrap());
    assert_eq!(
        said(all, DB),
        [
            "egress all: Outside",
            "ingress all: isolated by NetworkPolicy shop/db",
            "ingress tcp/443: Allow by NetworkPolicy shop/db rule 1 line 17",
        ]
    );
}

#[test]
fn a_pod_in_its_nodes_network_is_its_node() {
    assert_eq!(said(AGENT, WEB), ["egress all: Host", "ingress all: Nobody"]);
}

#[test]
fn nobody_is_cut_off_from_itself() {
    assert_eq!(said(DB, DB), ["egress all: Itself", "ingress all: Itself"]);
}
