//! The steps from text to verdict under divan, over a world of a tenth the size: for comparing two states of the code.

#![allow(missing_docs)]

use std::sync::LazyLock;

use divan::{Bencher, black_box, counter::BytesCount};
use palisade_bench::generate::{self, Size};
use palisade_bench::measure::{flows, source, trees, world};
use palisade_bench::text::Format;
use palisade_dialects::source::Source;
use palisade_model::evaluate::evaluate;
use palisade_model::flow::Flow;
use palisade_model::options::Options;
use palisade_model::snapshot::Snapshot;
use palisade_model::verdicts::Verdicts;

fn main() {
    divan::main();
}

static OBJECTS: LazyLock<Vec<serde_json::Value>> = LazyLock::new(|| generate::world(Size::SMALL));
static SNAPSHOT: LazyLock<Snapshot> =
    LazyLock::new(|| Snapshot::new(world(&source(Format::Json, &OBJECTS)).0.into_objects()));
static FLOWS: LazyLock<Vec<Flow>> = LazyLock::new(|| flows(&SNAPSHOT, 1000));

fn reading<O>(bencher: Bencher<'_, '_>, format: Format, read: fn(&Source) -> O) {
    let source = source(format, &OBJECTS);
    bencher.counter(BytesCount::of_str(source.text())).bench_local(|| read(black_box(&source)));
}

#[divan::bench(args = Format::ALL)]
fn tree(bencher: Bencher<'_, '_>, format: Format) {
    reading(bencher, format, trees);
}

#[divan::bench(args = Format::ALL)]
fn load(bencher: Bencher<'_, '_>, format: Format) {
    reading(bencher, format, world);
}

#[divan::bench]
fn snapshot(bencher: Bencher<'_, '_>) {
    let source = source(Format::Json, &OBJECTS);
    bencher.with_inputs(|| world(&source).0.into_objects()).bench_local_values(Snapshot::new);
}

#[divan::bench]
fn verdicts(bencher: Bencher<'_, '_>) {
    bencher.bench_local(|| Verdicts::new(black_box(&SNAPSHOT), &Options::default()));
}

/// The next of the flows, over and over.
fn next_flow() -> impl FnMut() -> &'static Flow {
    let mut flows = FLOWS.iter().cycle();
    // A cycle over something ends only if that is empty.
    move || flows.next().unwrap_or(&FLOWS[0])
}

#[divan::bench]
fn verdict(bencher: Bencher<'_, '_>) {
    let verdicts = Verdicts::new(&SNAPSHOT, &Options::default());
    bencher.with_inputs(next_flow()).bench_local_values(|flow| verdicts.verdict(black_box(flow)));
}

#[divan::bench]
fn evaluate_with_trace(bencher: Bencher<'_, '_>) {
    let options = Options::default();
    bencher
        .with_inputs(next_flow())
        .bench_local_values(|flow| evaluate(&SNAPSHOT, black_box(flow), &options));
}
