//! Every step from text to verdict, timed one by one, so that one sees where the time goes.
//!
//! Times are the thread's time on the CPU, not the clock's: nothing measured here waits for anything, and on a machine
//! that others use too the clock mostly tells how busy they are.

use std::fmt::Write;
use std::hint::black_box;
use std::time::Duration;

use palisade_dialects::load::load;
use palisade_dialects::source::{Limits, Source, documents};
use palisade_dialects::world::World;
use palisade_model::evaluate::evaluate;
use palisade_model::flow::{Flow, Party, Who};
use palisade_model::options::Options;
use palisade_model::snapshot::Snapshot;
use palisade_model::trace::Verdict;
use palisade_model::traffic::{Protocol, Traffic};
use palisade_model::verdicts::Verdicts;
use serde::Serialize;

use crate::generate::{self, Size};
use crate::random::Random;
use crate::text::Format;

/// How many verdicts are asked for.
pub const VERDICTS: usize = 1_000_000;
/// How many evaluations with trace are asked for.
pub const EVALUATIONS: usize = 1_000;

/// The figures of one run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The world.
    pub size: Size,
    /// How often each step was measured; the best counts, because everything else on the machine only adds to it.
    pub runs: usize,
    /// Reading, for each format.
    pub texts: Vec<TextFigures>,
    /// From a world to its snapshot.
    pub snapshot_seconds: f64,
    /// From a snapshot to its index.
    pub verdicts_seconds: f64,
    /// Verdicts without trace.
    pub verdict: CallFigures,
    /// Evaluations with trace.
    pub evaluate: CallFigures,
    /// The most memory the process ever held: mostly the largest text, its tree and what the generator made it of.
    pub peak_bytes: Option<u64>,
}

/// Reading one text.
#[derive(Debug, Serialize)]
pub struct TextFigures {
    /// How it is written.
    pub format: Format,
    /// How long it is.
    pub bytes: usize,
    /// Only text to tree.
    pub tree_seconds: f64,
    /// Text to world: tree, decoding, validation, lowering.
    pub load_seconds: f64,
    /// What was found to be wrong, which is nothing.
    pub diagnostics: usize,
}

/// Asking many questions.
#[derive(Debug, Serialize)]
pub struct CallFigures {
    /// How many.
    pub calls: usize,
    /// How many were answered with Allow.
    pub allowed: usize,
    /// All of them.
    pub seconds: f64,
}

/// Measures everything over one world.
pub fn core(size: Size, runs: usize) -> Report {
    let objects = generate::world(size);
    let texts: Vec<TextFigures> =
        Format::ALL.into_iter().map(|format| reading(format, &objects, runs)).collect();
    let source = source(Format::Json, &objects);
    drop(objects);
    let snapshot_seconds = best_of(runs, || world(&source).0.into_objects(), Snapshot::new);
    let snapshot = Snapshot::new(world(&source).0.into_objects());
    let options = Options::default();
    let verdicts_seconds = best_of(runs, || (), |()| Verdicts::new(&snapshot, &options));
    let verdicts = Verdicts::new(&snapshot, &options);
    let flows = flows(&snapshot, VERDICTS);
    let verdict = calls(runs, &flows, |flow| verdicts.verdict(flow));
    let few = flows.get(..EVALUATIONS).unwrap_or(&flows);
    let evaluate = calls(runs, few, |flow| evaluate(&snapshot, flow, &options).verdict);
    let peak_bytes = peak_bytes();
    Report { size, runs, texts, snapshot_seconds, verdicts_seconds, verdict, evaluate, peak_bytes }
}

/// The objects as a text under the name of a file.
pub fn source(format: Format, objects: &[serde_json::Value]) -> Source {
    Source::new(format.file_name(), format.write(objects))
}

/// The world of a text, and how much was wrong with it.
pub fn world(source: &Source) -> (World, usize) {
    let (mut world, mut found) = (World::default(), Vec::new());
    load(source, &Limits::default(), &mut world, &mut found);
    (world, found.len())
}

/// How many documents a text holds, each read into its tree and dropped.
pub fn trees(source: &Source) -> usize {
    documents(source, &Limits::default()).filter(Result::is_ok).count()
}

/// Connections between random pods, most of them to a port that the destination declares, some to the outside.
pub fn flows(snapshot: &Snapshot, count: usize) -> Vec<Flow> {
    let random = &mut Random::new(2);
    let pods = snapshot.pods();
    let party = |pod: usize| Party { who: Who::Pod(pod), address: pods[pod].addresses.first().copied() };
    let flow = |_| {
        let source = party(random.below(pods.len()));
        if random.below(10) == 0 {
            let address = Some(std::net::Ipv4Addr::new(203, 0, 113, 7).into());
            let traffic = Traffic::new(Protocol::Tcp, 443);
            return Flow { source, destination: Party { who: Who::Outside, address }, traffic, via: None };
        }
        let destination = random.below(pods.len());
        let ports = &pods[destination].ports;
        let port = if random.below(4) == 0 { 22 } else { random.choose(ports).number };
        let traffic = Traffic::new(Protocol::Tcp, port);
        Flow { source, destination: party(destination), traffic, via: None }
    };
    (0..count).map(flow).collect()
}

fn reading(format: Format, objects: &[serde_json::Value], runs: usize) -> TextFigures {
    let source = source(format, objects);
    TextFigures {
        format,
        bytes: source.text().len(),
        tree_seconds: best_of(runs, || (), |()| trees(&source)),
        load_seconds: best_of(runs, || (), |()| world(&source)),
        diagnostics: world(&source).1,
    }
}

fn calls(runs: usize, flows: &[Flow], mut ask: impl FnMut(&Flow) -> Verdict) -> CallFigures {
    let mut allowed = 0;
    let seconds = best_of(
        runs,
        || (),
        |()| allowed = flows.iter().filter(|flow| ask(black_box(flow)) == Verdict::Allow).count(),
    );
    CallFigures { calls: flows.len(), allowed, seconds }
}

/// The shortest time of several runs, without preparing the input and without dropping the result.
fn best_of<I, O>(runs: usize, mut prepare: impl FnMut() -> I, mut run: impl FnMut(I) -> O) -> f64 {
    let once = |_| {
        let input = prepare();
        let start = cpu_time();
        let result = black_box(run(input));
        let took = cpu_time().saturating_sub(start);
        drop(result);
        took.as_secs_f64()
    };
    (0..runs.max(1)).map(once).fold(f64::INFINITY, f64::min)
}

/// How long this thread has been on a CPU.
pub fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.try_into().unwrap_or_default()
}

/// The most memory this process has ever held, where the kernel says so.
pub fn peak_bytes() -> Option<u64> {
    status_bytes("VmHWM:")
}

/// The memory it holds now.
pub fn resident_bytes() -> Option<u64> {
    status_bytes("VmRSS:")
}

fn status_bytes(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

// === impl Report ===

impl Report {
    /// The figures as a table.
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub fn table(&self) -> String {
        let Size { namespaces, nodes, pods, policies } = self.size;
        let mut out = format!(
            "{namespaces} namespaces, {nodes} nodes, {pods} pods, {policies} policies; best of {}\n\n",
            self.runs
        );
        let megabytes = |bytes: usize| bytes as f64 / 1e6;
        let _ = writeln!(out, "{:<28}{:>10}{:>12}{:>12}", "step", "size", "time", "rate");
        for text in &self.texts {
            let name = text.format.file_name();
            for (step, seconds) in [("tree", text.tree_seconds), ("load", text.load_seconds)] {
                let _ = writeln!(
                    out,
                    "{:<28}{:>7.1} MB{:>9.1} ms{:>7.1} MB/s",
                    format!("{step} {name}"),
                    megabytes(text.bytes),
                    seconds * 1e3,
                    megabytes(text.bytes) / seconds
                );
            }
        }
        for (step, seconds) in
            [("Snapshot::new", self.snapshot_seconds), ("Verdicts::new", self.verdicts_seconds)]
        {
            let _ = writeln!(out, "{step:<28}{:>10}{:>9.1} ms", "", seconds * 1e3);
        }
        for (step, calls) in [("verdict", &self.verdict), ("evaluate with trace", &self.evaluate)] {
            let _ = writeln!(
                out,
                "{step:<28}{:>10}{:>9.1} ms{:>9.0} ns  {:.1} % allowed",
                calls.calls,
                calls.seconds * 1e3,
                calls.seconds * 1e9 / calls.calls as f64,
                calls.allowed as f64 * 100.0 / calls.calls as f64
            );
        }
        if let Some(peak) = self.peak_bytes {
            let _ = writeln!(out, "{:<28}{:>7.1} MB", "peak memory", peak as f64 / 1e6);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_says_the_same_and_nothing_is_wrong_with_it() {
        let report = core(Size { namespaces: 4, nodes: 2, pods: 200, policies: 100 }, 1);
        assert!(report.texts.iter().all(|text| text.diagnostics == 0), "{report:?}");
        let allowed = report.verdict.allowed;
        assert!(0 < allowed && allowed < report.verdict.calls, "{report:?}");
        assert!(report.table().contains("4 namespaces"));
    }

    #[test]
    fn a_verdict_is_that_of_the_plain_evaluator() {
        let objects = generate::world(Size { namespaces: 3, nodes: 2, pods: 300, policies: 300 });
        let snapshot = Snapshot::new(world(&source(Format::Json, &objects)).0.into_objects());
        let options = Options::default();
        let verdicts = Verdicts::new(&snapshot, &options);
        for flow in flows(&snapshot, 2_000) {
            assert_eq!(verdicts.verdict(&flow), evaluate(&snapshot, &flow, &options).verdict, "{flow:?}");
        }
    }

    #[test]
    fn formats_agree_on_the_objects() {
        let objects = generate::world(Size { namespaces: 3, nodes: 2, pods: 60, policies: 60 });
        let count = |format| world(&source(format, &objects)).0.len();
        assert!(Format::ALL.into_iter().all(|format| count(format) == objects.len()));
    }
}
