//! The live index under divan, on parts of the peers' scenarios: for comparing two states of the code.

#![allow(missing_docs)]

use std::sync::LazyLock;

use divan::{Bencher, black_box, counter::ItemsCount};
use palisade_bench::generate::{self, Size};
use palisade_bench::live;
use palisade_bench::measure::{flows, source, world};
use palisade_bench::scenario::{Scale, Scenario};
use palisade_bench::single::{Places, Sort};
use palisade_bench::text::Format;
use palisade_engine::Engine;
use palisade_model::event::Event;
use palisade_model::flow::Flow;
use palisade_model::options::Options;
use palisade_model::snapshot::Snapshot;

fn main() {
    divan::main();
}

/// A part of a scenario.
type Part = (Scenario, Scale);

const S1: Part = (Scenario::S1, Scale::part(25));
const S6: Part = (Scenario::S6, Scale::part(10));

/// How many places single events are tried at.
const PLACES: usize = 1000;

fn loading(bencher: Bencher<'_, '_>, (scenario, scale): Part) {
    let mut events: Vec<Event> = Vec::new();
    scenario.events(scale, &mut |chunk| events.extend(chunk));
    let count = ItemsCount::new(events.len());
    bencher.counter(count).with_inputs(|| events.clone()).bench_local_values(|events| {
        let mut engine = Engine::default();
        black_box(live::apply(&mut engine, events));
        engine
    });
}

#[divan::bench(sample_count = 20)]
fn load_s1(bencher: Bencher<'_, '_>) {
    loading(bencher, S1);
}

#[divan::bench(sample_count = 20)]
fn load_s6(bencher: Bencher<'_, '_>) {
    loading(bencher, S6);
}

/// An event and the one that takes it back, so that every pair finds the same index.
fn pairs(bencher: Bencher<'_, '_>, (scenario, scale): Part, sort: Sort) {
    let mut engine = live::load(scenario, scale);
    let places = Places::of(scenario, scale, PLACES);
    let mut next = 0;
    let events = || {
        next += 1;
        places.event(sort, next)
    };
    bencher
        .counter(ItemsCount::new(2_usize))
        .with_inputs(events)
        .bench_local_values(|pair| pair.map(|(event, undo)| (engine.apply(event), engine.apply(undo))));
}

#[divan::bench]
fn pod_comes_and_goes_s1(bencher: Bencher<'_, '_>) {
    pairs(bencher, S1, Sort::PodAdded);
}

#[divan::bench]
fn pod_comes_and_goes_s6(bencher: Bencher<'_, '_>) {
    pairs(bencher, S6, Sort::PodAdded);
}

#[divan::bench]
fn pod_relabelled_s6(bencher: Bencher<'_, '_>) {
    pairs(bencher, S6, Sort::PodRelabelled);
}

#[divan::bench]
fn policy_comes_and_goes_s1(bencher: Bencher<'_, '_>) {
    pairs(bencher, S1, Sort::PolicyAddedNewSelectors);
}

#[divan::bench]
fn policy_comes_and_goes_s6(bencher: Bencher<'_, '_>) {
    pairs(bencher, S6, Sort::PolicyAddedNewSelectors);
}

#[divan::bench]
fn namespace_relabelled_s6(bencher: Bencher<'_, '_>) {
    pairs(bencher, S6, Sort::NamespaceRelabelled);
}

/// The world that `verdict` of benches/core.rs asks about, and its flows.
static LIVE: LazyLock<(Engine, Vec<Flow>)> = LazyLock::new(|| {
    let objects = world(&source(Format::Json, &generate::world(Size::SMALL))).0.into_objects();
    let snapshot = Snapshot::new(objects.clone());
    let engine = Engine::of(&objects, &snapshot);
    let flows = flows(&snapshot, 1000).iter().filter_map(|flow| engine.flow(&snapshot, flow)).collect();
    (engine, flows)
});

#[divan::bench]
fn verdict(bencher: Bencher<'_, '_>) {
    let (engine, flows) = &*LIVE;
    let options = Options::default();
    let mut next = flows.iter().cycle();
    bencher
        .with_inputs(|| next.next())
        .bench_local_values(|flow| flow.map(|flow| engine.verdict(black_box(flow), &options)));
}
