//! A small fixed set of everything that has to stay fast, for counting its instructions: `scripts/instructions`.
//!
//! Times depend on the machine and on what else runs there, so a test cannot ask for them. The number of instructions
//! does not, or hardly: the seeds of hash tables move it by half a percent at most. What is counted is what happens in
//! [`measured`], and nothing of how the input is made.

use std::hint::black_box;
use std::ops::ControlFlow;

use clap::ValueEnum;
use palisade_analysis::map::{Level, Map, RowFilter};
use palisade_analysis::reach::Reach;
use palisade_analysis::reach::cells::Cells;
use palisade_analysis::reach::cuts::Cuts;
use palisade_engine::Engine;
use palisade_model::address::Family;
use palisade_model::event::Event;
use palisade_model::flow::Flow;
use palisade_model::options::Options;
use palisade_model::snapshot::Snapshot;
use palisade_model::trace::Verdict;
use palisade_model::verdicts::Verdicts;

use crate::generate::{self, Size};
use crate::live::{apply, load};
use crate::map;
use crate::measure::{flows, source, world};
use crate::scenario::{Scale, Scenario};
use crate::single::{Places, Sort};
use crate::text::Format;

/// Something whose instructions are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Case {
    /// A hundredth of S1, loaded.
    LoadS1,
    /// A tenth of S3, loaded.
    LoadS3,
    /// A tenth of S4, loaded.
    LoadS4,
    /// A fiftieth of S6, loaded.
    LoadS6,
    /// Pods that come, go and change on a fiftieth of S6.
    PodEvents,
    /// Policies that come and go there.
    PolicyEvents,
    /// Namespaces there that change.
    NamespaceEvents,
    /// Pods, policies and namespaces on a hundredth of S1.
    EventsS1,
    /// A small world from JSON.
    ReadJson,
    /// The same from YAML.
    ReadYaml,
    /// From such a world to the index for verdicts.
    Index,
    /// Verdicts in it.
    Verdicts,
    /// The same from the live index.
    LiveVerdicts,
    /// A cluster with the policies of a real one: from its snapshot to every pair of classes.
    Map,
    /// The rows of its map.
    MapRows,
}

const WORLD: Size = Size { namespaces: 5, nodes: 3, pods: 250, policies: 250 };
const CLUSTER: map::Size = map::Size::new(2_000, 500);
/// How many events of each sort there are.
const EVENTS: usize = 100;
/// How many verdicts are asked for.
const FLOWS: usize = 20_000;
const S1: Scale = Scale::part(100);
const S6: Scale = Scale::part(50);

/// Here instructions count. Nothing that this calls may have such a name again: the counting would stop there.
#[inline(never)]
fn measured<T>(run: impl FnOnce() -> T) -> T {
    black_box(run())
}

// === impl Case ===

impl Case {
    /// Does it once. What it returns says that it did something.
    pub fn run(self) -> usize {
        match self {
            Case::LoadS1 => loading(Scenario::S1, S1),
            Case::LoadS3 => loading(Scenario::S3, Scale::part(10)),
            Case::LoadS4 => loading(Scenario::S4, Scale::part(10)),
            Case::LoadS6 => loading(Scenario::S6, S6),
            Case::PodEvents => {
                events(Scenario::S6, S6, &[Sort::PodAdded, Sort::PodRemoved, Sort::PodRelabelled])
            }
            Case::PolicyEvents => {
                let sorts = [Sort::PolicyAdded, Sort::PolicyAddedNewSelectors, Sort::PolicyRemoved];
                events(Scenario::S6, S6, &sorts)
            }
            Case::NamespaceEvents => events(Scenario::S6, S6, &[Sort::NamespaceRelabelled]),
            Case::EventsS1 => events(Scenario::S1, S1, &Sort::ALL),
            Case::ReadJson => reading(Format::Json),
            Case::ReadYaml => reading(Format::Yaml),
            Case::Index => {
                let (objects, options) = (small_world().into_objects(), Options::default());
                measured(|| {
                    let snapshot = Snapshot::new(objects);
                    black_box(Verdicts::new(&snapshot, &options));
                    snapshot.pods().len()
                })
            }
            Case::Verdicts => {
                let (snapshot, options) = (Snapshot::new(small_world().into_objects()), Options::default());
                let (verdicts, flows) = (Verdicts::new(&snapshot, &options), flows(&snapshot, FLOWS));
                asking(&flows, |flow| verdicts.verdict(flow))
            }
            Case::LiveVerdicts => {
                let (objects, options) = (small_world().into_objects(), Options::default());
                let snapshot = Snapshot::new(objects.clone());
                let engine = Engine::of(&objects, &snapshot);
                let flows = flows(&snapshot, FLOWS);
                let flows: Vec<Flow> = flows.iter().filter_map(|flow| engine.flow(&snapshot, flow)).collect();
                asking(&flows, |flow| engine.verdict(flow, &options).unwrap_or(Verdict::Deny))
            }
            Case::Map => {
                let (snapshot, options) =
                    (Snapshot::new(map::cluster::objects(CLUSTER, 1)), Options::default());
                measured(|| {
                    let cuts = Cuts::of([&snapshot]);
                    let mut cells = Cells::new(cuts.space().clone());
                    let reach = Reach::new(&snapshot, &options, Family::V4, &cuts, &mut cells);
                    black_box(map::touch(&reach, &mut cells));
                    cells.len()
                })
            }
            Case::MapRows => {
                let (snapshot, options) =
                    (Snapshot::new(map::cluster::objects(CLUSTER, 1)), Options::default());
                let cuts = Cuts::of([&snapshot]);
                let mut cells = Cells::new(cuts.space().clone());
                let map = Map::new(&snapshot, &options, Level::Workloads, &cuts, &mut cells);
                let select = RowFilter { families: vec![Family::V4], ..RowFilter::default() };
                measured(|| {
                    let mut rows = 0;
                    let _ = map.rows(&select, &cuts, &mut cells, |_, row| {
                        black_box(row);
                        rows += 1;
                        ControlFlow::Continue(())
                    });
                    rows
                })
            }
        }
    }
}

fn loading(scenario: Scenario, scale: Scale) -> usize {
    let (mut engine, mut deltas) = (Engine::default(), 0);
    scenario.events(scale, &mut |chunk| deltas += measured(|| apply(&mut engine, chunk)));
    deltas
}

/// What takes an event back is an event as well, of some sort or other: it counts too.
fn events(scenario: Scenario, scale: Scale, sorts: &[Sort]) -> usize {
    let mut engine = load(scenario, scale);
    let places = Places::of(scenario, scale, EVENTS);
    let each = sorts.iter().flat_map(|sort| (0..EVENTS).filter_map(|at| places.event(*sort, at)));
    let events: Vec<Event> = each.flat_map(|(event, undo)| [event, undo]).collect();
    measured(|| apply(&mut engine, events))
}

fn small_world() -> palisade_dialects::world::World {
    world(&source(Format::Json, &generate::world(WORLD))).0
}

fn reading(format: Format) -> usize {
    let source = source(format, &generate::world(WORLD));
    measured(|| world(&source).0.len())
}

fn asking(flows: &[Flow], ask: impl Fn(&Flow) -> Verdict) -> usize {
    measured(|| flows.iter().filter(|flow| ask(flow) == Verdict::Allow).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_does_something() {
        for case in Case::value_variants() {
            assert!(case.run() > 0, "{case:?}");
        }
        assert_eq!(Case::Verdicts.run(), Case::LiveVerdicts.run());
    }
}
