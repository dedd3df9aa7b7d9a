//! What a workload is said to do with pods that do not exist yet is what it does with them once they exist.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../engine/tests/pool/mod.rs"]
mod pool;
#[path = "../../engine/tests/walk/mod.rs"]
mod walk;
#[path = "../../engine/tests/world/mod.rs"]
mod world;

use palisade_analysis::exposure::Exposure;
use palisade_analysis::map::{Level, Map};
use palisade_analysis::reach::cells::Cells;
use palisade_analysis::reach::cuts::Cuts;
use palisade_analysis::reach::traffics::{TrafficId, Traffics};
use palisade_analysis::space::{Predicate, Space};
use palisade_model::address::Family;
use palisade_model::cluster::{Owner, Pod};
use palisade_model::flow::Who;
use palisade_model::label::{Operator, Requirement, Selector};
use palisade_model::options::Options;
use palisade_model::policy::{Direction, Namespaces, PodSet};
use palisade_model::snapshot::Snapshot;

use pool::{Dice, pool, some};
use world::objects;

/// Pods of many sorts, by what the pool's policies could ask for: labels, namespaces there are and new ones.
fn newcomers(space: &Space) -> Vec<palisade_analysis::space::Witness> {
    let label = |key: &str, value: &str| Selector::label(key, value);
    let not = |key: &str| Selector::new([Requirement::new(key, Operator::DoesNotExist)]);
    let pods = [label("app", "a"), label("app", "b"), label("app", "c"), not("app"), label("role", "x")];
    let homes = [
        Namespaces::Named("x".into()),
        Namespaces::Named("y".into()),
        Namespaces::Matching(label("team", "red")),
        Namespaces::Matching(label("team", "blue")),
        Namespaces::Matching(not("team")),
    ];
    let mut found = Vec::new();
    for pods in &pods {
        for homes in &homes {
            let predicate: Predicate = space.predicate(&PodSet::new(homes.clone(), pods.clone()), None);
            found.extend(space.find(&[&predicate], &[]).witness().cloned());
        }
    }
    found
}

#[test]
fn newcomers_get_what_was_said() {
    let (mut asked, mut told) = (0, 0);
    for seed in 0..40 {
        let mut dice = Dice(7000 + seed);
        let state = some(&pool(), 4, &mut dice);
        let before = objects(&state);
        let snapshot = Snapshot::new(before.clone());
        let options = Options { ip_block_matches_pods: false, ..Options::default() };
        let cuts = Cuts::of([&snapshot]);
        let mut cells = Cells::new(cuts.space().clone());
        let map = Map::new(&snapshot, &options, Level::Pods, &cuts, &mut cells);
        let mut exposure = Exposure::new(&map);
        let space = Space::new(&snapshot);
        for witness in newcomers(&space) {
            let mut objects = before.clone();
            // A namespace that nobody declared is there by its pods: it keeps the labels that it has, none.
            if witness.is_namespace_new() {
                objects.namespaces.push(witness.namespace.clone());
            }
            objects.pods.push(witness.pod("newcomer"));
            let after = Snapshot::new(objects);
            let new = (0..after.pods().len()).find(|at| after.pods()[*at].name == "newcomer").unwrap();
            let reach = palisade_analysis::reach::Reach::new(&after, &options, Family::V4, &cuts, &mut cells);
            for (at, workload) in map.workloads.iter().enumerate() {
                let old = &snapshot.pods()[workload.pods[0]];
                let place = after.pods().iter().position(|pod| {
                    (&pod.namespace, &pod.name, pod.external) == (&old.namespace, &old.name, old.external)
                });
                let place = place.unwrap();
                if old.host_network || old.external || reach.class(Who::Pod(place)).is_none() {
                    continue;
                }
                for direction in Direction::BOTH {
                    let exposed = exposure.of(at, direction, &[Family::V4], &cuts, &mut cells);
                    let pods = exposed.pods.expect("the pool has few selections");
                    let (own, peer) = (reach.of_pod(place).unwrap(), reach.of_pod(new).unwrap());
                    let cell = reach.side(direction, own, peer);
                    let allowed = cells.get(cell).allow;
                    // Someone in the list gets exactly that.
                    assert!(
                        pods.iter().any(|said| said.allowed == allowed && said.uniform),
                        "seed {seed}: {} {direction} {witness}: {pods:?}, not {allowed:?}",
                        workload.name
                    );
                    told += pods.len();
                    asked += 1;
                }
            }
        }
    }
    assert!(asked > 5_000 && told > asked, "{asked} {told}");
}

/// Pods of one namespace as one workload, whatever their labels: what is told is what some of them do, and whether all do.
#[test]
fn a_workload_of_pods_that_differ_does_what_some_of_them_do() {
    let (mut asked, mut mixed) = (0, 0);
    for seed in 0..40 {
        let mut dice = Dice(9100 + seed);
        let state = some(&pool(), 4, &mut dice);
        let mut before = objects(&state);
        for pod in before.pods.iter_mut().filter(|pod| pod.stand_in.is_none() && !pod.external) {
            pod.owner = Some(Owner { kind: "ReplicaSet".into(), name: "all".into() });
        }
        let snapshot = Snapshot::new(before.clone());
        let options = Options { ip_block_matches_pods: false, ..Options::default() };
        let cuts = Cuts::of([&snapshot]);
        let mut cells = Cells::new(cuts.space().clone());
        let map = Map::new(&snapshot, &options, Level::Workloads, &cuts, &mut cells);
        let mut exposure = Exposure::new(&map);
        for witness in newcomers(&Space::new(&snapshot)) {
            let mut objects = before.clone();
            if witness.is_namespace_new() {
                objects.namespaces.push(witness.namespace.clone());
            }
            objects.pods.push(witness.pod("newcomer"));
            let after = Snapshot::new(objects);
            let place = |name: &str, namespace: &str| {
                let named = |pod: &Pod| pod.name == name && pod.namespace == namespace && !pod.external;
                after.pods().iter().position(named).unwrap()
            };
            let new = place("newcomer", &witness.namespace.name);
            let reach = palisade_analysis::reach::Reach::new(&after, &options, Family::V4, &cuts, &mut cells);
            for (at, workload) in map.workloads.iter().enumerate() {
                let pods = workload.pods.iter().map(|pod| &snapshot.pods()[*pod]);
                let classes: Option<Vec<u32>> = pods
                    .map(|pod| {
                        if pod.external || pod.host_network {
                            None
                        } else {
                            reach.of_pod(place(&pod.name, &pod.namespace))
                        }
                    })
                    .collect();
                let Some(classes) = classes else { continue };
                for direction in Direction::BOTH {
                    let each = classes.iter().map(|own| {
                        let cell = reach.side(direction, *own, reach.of_pod(new).unwrap());
                        cells.get(cell).allow
                    });
                    let each: Vec<TrafficId> = each.collect();
                    let some =
                        each.iter().fold(Traffics::EMPTY, |some, own| cells.traffics.union(some, *own));
                    let uniform = each.iter().all(|own| *own == some);
                    let told = exposure.of(at, direction, &[Family::V4], &cuts, &mut cells).pods.unwrap();
                    assert!(
                        told.iter().any(|said| (said.allowed, said.uniform) == (some, uniform)),
                        "seed {seed}: {} {direction} {witness}: {told:?}, not {some:?} {uniform}",
                        workload.name
                    );
                    asked += 1;
                    mixed += usize::from(!uniform);
                }
            }
        }
    }
    assert!(asked > 1_000 && mixed > 100, "{asked} {mixed}");
}

#[test]
fn addresses_get_what_the_map_says_and_who_differs_is_told() {
    let mut mixed = 0;
    for seed in 0..40 {
        let mut dice = Dice(9500 + seed);
        let state = some(&pool(), 4, &mut dice);
        let mut objects = objects(&state);
        for pod in objects.pods.iter_mut().filter(|pod| pod.stand_in.is_none() && !pod.external) {
            pod.owner = Some(Owner { kind: "ReplicaSet".into(), name: "all".into() });
        }
        let snapshot = Snapshot::new(objects);
        let options = Options::default();
        let cuts = Cuts::of([&snapshot]);
        let mut cells = Cells::new(cuts.space().clone());
        let map = Map::new(&snapshot, &options, Level::Workloads, &cuts, &mut cells);
        let mut exposure = Exposure::new(&map);
        for at in 0..map.workloads.len() {
            for (direction, family) in Direction::BOTH
                .into_iter()
                .flat_map(|way| [Family::V4, Family::V6].map(|family| (way, family)))
            {
                let told = exposure.of(at, direction, &[family], &cuts, &mut cells).outside;
                let reach = &map.reach[family as usize];
                for interval in 0..cuts.len(family) {
                    let (first, last) = cuts.interval(family, interval);
                    let outside = reach.of_address(first, &cuts);
                    let classes = map.kinds().classes(at, family);
                    let each: Vec<TrafficId> = classes
                        .iter()
                        .map(|own| cells.get(reach.side(direction, *own, outside)).allow)
                        .collect();
                    let some =
                        each.iter().fold(Traffics::EMPTY, |some, own| cells.traffics.union(some, *own));
                    let said = told.iter().find(|said| said.first <= first && last <= said.last);
                    assert_eq!(said.map_or(Traffics::EMPTY, |said| said.allowed), some, "seed {seed}");
                    let uniform = each.iter().all(|own| *own == some);
                    assert_eq!(said.is_none_or(|said| said.uniform), uniform, "seed {seed}");
                    mixed += usize::from(!uniform);
                }
            }
        }
    }
    assert!(mixed > 100, "{mixed}");
}
