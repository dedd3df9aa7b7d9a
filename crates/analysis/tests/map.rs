//! Rows of a map say what some pods of two workloads may do, as the plain evaluator has it for each pair of pods; and a
//! diff is what is in one map and not in the other.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod judge;
#[path = "../../engine/tests/pool/mod.rs"]
mod pool;
#[path = "../../engine/tests/walk/mod.rs"]
mod walk;
#[path = "../../engine/tests/world/mod.rs"]
mod world;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use palisade_analysis::diff::{self, Diff};
use palisade_analysis::map::{Level, Map, MapPeer, PairTraffic, RowFilter, Workload, WorkloadName};
use palisade_analysis::reach::cells::Cells;
use palisade_analysis::reach::cuts::Cuts;
use palisade_analysis::reach::traffics::TrafficId;
use palisade_model::address::Family;
use palisade_model::cluster::Owner;
use palisade_model::flow::Who;
use palisade_model::options::Options;
use palisade_model::snapshot::{Objects, Snapshot};
use palisade_model::trace::Verdict;
use palisade_model::verdicts::Verdicts;

use judge::places;
use pool::{Dice, pool, some};
use world::{objects, options};

/// Some of the pool's objects, each in one of its versions; pods with the same roll are of one workload.
fn some_world(dice: &mut Dice) -> Objects {
    let state = some(&pool(), 4, dice);
    let mut objects = objects(&state);
    for pod in objects.pods.iter_mut().filter(|pod| !pod.external) {
        let owner = |name: &str| Some(Owner { kind: "ReplicaSet".into(), name: name.into() });
        pod.owner = match dice.roll(4) {
            0 => None,
            1 => owner("left"),
            _ => owner("right"),
        };
    }
    objects
}

const EVERYTHING: [Family; 2] = [Family::V4, Family::V6];

type Rows = BTreeMap<(String, String), (Option<TrafficId>, Option<TrafficId>)>;

fn rows(map: &Map<'_>, cuts: &Cuts, cells: &mut Cells) -> Vec<(MapPeer, MapPeer, PairTraffic)> {
    let mut rows = Vec::new();
    let select = RowFilter { families: EVERYTHING.to_vec(), ..RowFilter::default() };
    let end = map.rows(&select, cuts, cells, |_, row| {
        rows.push((row.source, row.destination, row.entry));
        ControlFlow::Continue(())
    });
    assert!(end.is_continue());
    rows
}

/// What the evaluator says: whether some pod of the one may reach some other pod of the other.
fn plain(
    snapshot: &Snapshot,
    verdicts: &Verdicts<'_>,
    from: &Workload,
    to: &Workload,
    traffic: palisade_model::traffic::Traffic,
) -> bool {
    let alone = from.name == to.name && from.name.kind != "ReplicaSet" && from.pods.len() == 1;
    from.pods.iter().any(|source| {
        to.pods.iter().any(|destination| {
            let (source, destination) = (Who::Pod(*source), Who::Pod(*destination));
            if source == destination && !alone {
                return false;
            }
            let flow = snapshot.flow((source, None), (destination, None), traffic);
            let apart = match (flow.source.address, flow.destination.address) {
                (Some(one), Some(other)) => Family::of(one) != Family::of(other),
                _ => false,
            };
            !apart && verdicts.verdict(&flow) == Verdict::Allow
        })
    })
}

#[test]
fn a_row_is_what_some_pods_may_do() {
    let (mut asked, mut mixed) = (0, 0);
    for seed in 0..400 {
        let mut dice = Dice(1000 + seed);
        let snapshot = Snapshot::new(some_world(&mut dice));
        let options = options(dice.roll(8));
        let cuts = Cuts::of([&snapshot]);
        let mut cells = Cells::new(cuts.space().clone());
        let level = [Level::Workloads, Level::Pods][dice.roll(2)];
        let map = Map::new(&snapshot, &options, level, &cuts, &mut cells);
        let verdicts = Verdicts::new(&snapshot, &options);
        let told: BTreeMap<(MapPeer, MapPeer), PairTraffic> =
            rows(&map, &cuts, &mut cells).into_iter().map(|(from, to, entry)| ((from, to), entry)).collect();
        let places = places(&cells);
        for (from, source) in map.workloads.iter().enumerate() {
            mixed += usize::from(map.kinds().is_mixed(from));
            for (to, destination) in map.workloads.iter().enumerate() {
                // A workload could have more pods than it has: what two alike would send each other is told, too.
                let more = from == to && source.name.kind == "ReplicaSet";
                let entry = told.get(&(MapPeer::Workload(from), MapPeer::Workload(to))).copied();
                let allowed = cells.traffics.set(entry.unwrap_or(PairTraffic::NOTHING).allowed);
                for place in &places {
                    let traffic = cells.traffics.space().traffic(*place);
                    if matches!(traffic.icmp, Some((133..=137, _))) {
                        continue;
                    }
                    let some = plain(&snapshot, &verdicts, source, destination, traffic);
                    assert_eq!(
                        allowed.contains(*place),
                        some || (more && allowed.contains(*place)),
                        "seed {seed}: {} -> {} {traffic}\n{source:?}\n{destination:?}",
                        source.name,
                        destination.name,
                    );
                    asked += 1;
                }
            }
        }
    }
    assert!(asked > 100_000 && mixed > 50, "{asked} {mixed}");
}

#[test]
fn ranges_of_one_workload_never_overlap_and_say_what_reach_says() {
    for seed in 0..60 {
        let mut dice = Dice(2000 + seed);
        let snapshot = Snapshot::new(some_world(&mut dice));
        let cuts = Cuts::of([&snapshot]);
        let mut cells = Cells::new(cuts.space().clone());
        let map = Map::new(&snapshot, &Options::default(), Level::Pods, &cuts, &mut cells);
        let mut ranges: BTreeMap<(usize, bool), Vec<_>> = BTreeMap::new();
        for (source, destination, _) in rows(&map, &cuts, &mut cells) {
            match (source, destination) {
                (MapPeer::Workload(at), MapPeer::Range(first, last)) => {
                    ranges.entry((at, true)).or_default().push((first, last));
                }
                (MapPeer::Range(first, last), MapPeer::Workload(at)) => {
                    ranges.entry((at, false)).or_default().push((first, last));
                }
                _ => {}
            }
        }
        for mut list in ranges.into_values() {
            list.sort_unstable();
            assert!(list.windows(2).all(|pair| pair[0].1 < pair[1].0), "{list:?}");
            assert!(list.iter().all(|(first, last)| first <= last && first.is_ipv4() == last.is_ipv4()));
        }
    }
}

/// The rows of a map by the names of both ends. Ranges are cut at every boundary, so that they can be compared.
fn by_name(map: &Map<'_>, cuts: &Cuts, cells: &mut Cells, after: bool, all: &mut Rows) {
    let mut add = |source: String, destination: String, entry: PairTraffic| {
        let slot = all.entry((source, destination)).or_default();
        *(if after { &mut slot.1 } else { &mut slot.0 }) = Some(entry.allowed);
    };
    let name = |at: usize| format!("{:?}", map.workloads[at].name);
    let pieces = |first: std::net::IpAddr, last: std::net::IpAddr| {
        let (from, to) = (cuts.interval_of(first), cuts.interval_of(last));
        (from..=to).map(move |at| format!("{} {at}", first.is_ipv4()))
    };
    for (source, destination, entry) in rows(map, cuts, cells) {
        match (source, destination) {
            (MapPeer::Workload(from), MapPeer::Workload(to)) => add(name(from), name(to), entry),
            (MapPeer::Workload(from), MapPeer::Range(first, last)) => {
                pieces(first, last).for_each(|range| add(name(from), range, entry));
            }
            (MapPeer::Range(first, last), MapPeer::Workload(to)) => {
                pieces(first, last).for_each(|range| add(range, name(to), entry));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_diff_is_what_differs_between_two_maps() {
    let mut differences = 0;
    for seed in 0..60 {
        let mut dice = Dice(3000 + seed);
        let before = Snapshot::new(some_world(&mut dice));
        // Every other time little changes: the same world with one more roll of the dice for one object.
        let after = match seed % 2 {
            0 => Snapshot::new(some_world(&mut dice)),
            _ => {
                let mut objects = some_world(&mut Dice(3000 + seed));
                objects.policies.pop();
                Snapshot::new(objects)
            }
        };
        let cuts = Cuts::of([&before, &after]);
        let mut cells = Cells::new(cuts.space().clone());
        let options = options(dice.roll(8));
        let diff = Diff::new(&before, &after, &options, Level::Workloads, &cuts, &mut cells);
        let mut wanted = Rows::new();
        by_name(&diff.before, &cuts, &mut cells, false, &mut wanted);
        by_name(&diff.after, &cuts, &mut cells, true, &mut wanted);
        wanted.retain(|_, (before, after)| before != after);
        let mut told = Rows::new();
        let select = diff::ChangeFilter { families: EVERYTHING.to_vec(), ..diff::ChangeFilter::default() };
        let end = diff.changes(&select, &cuts, &mut cells, |_, change| {
            // Nodes, and pods that are not like the others, are no rows of a map.
            let spot = |peer| matches!(peer, diff::DiffPeer::Outlier(_));
            if spot(change.source) || spot(change.destination) {
                return ControlFlow::Continue(());
            }
            let name = |at: usize| -> WorkloadName { diff.name(at).clone() };
            let sides = |peer: diff::DiffPeer| -> Vec<String> {
                match peer {
                    diff::DiffPeer::Workload(at) => vec![format!("{:?}", name(at))],
                    diff::DiffPeer::Range(first, last) => {
                        let (from, to) = (cuts.interval_of(first), cuts.interval_of(last));
                        (from..=to).map(|at| format!("{} {at}", first.is_ipv4())).collect()
                    }
                    other => panic!("{other:?}"),
                }
            };
            let side = |entry: PairTraffic| (!entry.is_nothing()).then_some(entry.allowed);
            for source in sides(change.source) {
                for destination in sides(change.destination) {
                    let row = (side(change.before), side(change.after));
                    assert!(told.insert((source.clone(), destination), row).is_none());
                }
            }
            ControlFlow::Continue(())
        });
        assert!(end.is_continue());
        told.retain(|_, (before, after)| before != after);
        assert_eq!(told, wanted, "seed {seed}");
        differences += told.len();
    }
    assert!(differences > 1000, "{differences}");
}
