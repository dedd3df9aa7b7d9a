//! Runner of PolicyTests with packets: expectations are compared with the verdicts of a data plane.
//!
//! A [`PacketSender`] builds the world of each step and sends; nothing here does IO. Flows that were not sent are counted
//! apart, and never as passed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use palisade_dialects::source::Limits;
use palisade_dialects::source::tree::{Node, Source};
use palisade_model::diagnostic::{Diagnostic, Location};
use palisade_model::evaluate::evaluate;
use palisade_model::flow::Flow;
use palisade_model::options::Options;
use palisade_model::snapshot::{Objects, Snapshot};
use palisade_model::trace::Verdict;
use thiserror::Error;

use super::format::{Expectation, PolicyTest, Test, read};
use super::report::{CaseFailure, CaseResult};
use super::run::{RunSettings, TestFiles, WorldCache, apply_step, parse_documents};

/// A data plane that takes the world of a step and sends packets through it.
pub trait PacketSender {
    /// Applies a world, sends a packet for each flow, and returns their outcomes in order. An error ends the run.
    fn send(&mut self, objects: Objects, flows: &[Flow]) -> Result<Vec<PacketOutcome>, PacketError>;
}

/// Outcome of a flow's packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PacketOutcome {
    /// The data plane's verdict.
    Verdict(Verdict),
    /// No packet can show the verdict, for this reason.
    Inapplicable(String),
    /// The packet could not be sent, for this reason: the step fails.
    Failed(String),
}

/// Why packets cannot be sent at all. Not retryable within a run; another run may succeed once the machine allows it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PacketError {
    /// The sender could not be set up.
    #[error("{0}")]
    Setup(String),
    /// The sender could not apply a world, or measure flows.
    #[error("{0}")]
    Send(String),
}

/// Results of a run with packets.
#[derive(Debug, Default)]
pub struct PacketReport {
    /// Results of all steps with expectations.
    pub cases: Vec<PacketCase>,
    /// Unparsable files and tests.
    pub unreadable: Vec<Diagnostic>,
    /// Number of tests that are no PolicyTests.
    pub skipped: usize,
}

/// Result of a step.
#[derive(Debug)]
pub struct PacketCase {
    /// Name of the test.
    pub test: String,
    /// Name of the step.
    pub name: String,
    /// Location in the test file.
    pub at: Location,
    /// Number of packets sent.
    pub sent: usize,
    /// Unmet expectations.
    pub failures: Vec<CaseFailure>,
    /// Flows that were not sent, by reason: their number, and the first of them.
    pub not_sent: BTreeMap<String, (usize, String)>,
}

// === impl PacketReport ===

impl PacketReport {
    /// Number of steps that hold, with at least one packet sent.
    pub fn passed(&self) -> usize {
        self.cases.iter().filter(|case| case.failures.is_empty() && case.sent > 0).count()
    }

    /// Number of steps with unmet expectations.
    pub fn failed(&self) -> usize {
        self.cases.iter().filter(|case| !case.failures.is_empty()).count()
    }

    /// Number of packets sent.
    pub fn sent(&self) -> usize {
        self.cases.iter().map(|case| case.sent).sum()
    }

    /// Returns the number of flows that were not sent, by reason.
    pub fn not_sent(&self) -> BTreeMap<&str, usize> {
        let mut all = BTreeMap::new();
        for (why, (count, _)) in self.cases.iter().flat_map(|case| &case.not_sent) {
            *all.entry(why.as_str()).or_default() += count;
        }
        all
    }
}

/// Creates a sender for each worker.
pub type SenderFactory<'a> = dyn Fn() -> Result<Box<dyn PacketSender>, PacketError> + Sync + 'a;

/// Runs every PolicyTest of these sources with packets, with `workers` senders in parallel. Reports the numbers of finished
/// and of all tests to `progress`.
pub fn run_packets(
    sources: &[Arc<Source>],
    files: &dyn TestFiles,
    settings: RunSettings,
    factory: &SenderFactory<'_>,
    workers: usize,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<PacketReport, PacketError> {
    let limits = Limits::default();
    let worlds = WorldCache::new(files, settings);
    let mut report = PacketReport::default();
    let mut read_sources: Vec<(&Arc<Source>, Vec<Node<'_>>)> = Vec::new();
    for source in sources {
        read_sources.push((source, parse_documents(source, &limits, &mut report.unreadable)));
    }
    let mut tests: Vec<(&Source, PolicyTest<'_>)> = Vec::new();
    for (source, nodes) in &read_sources {
        for test in nodes.iter().filter_map(|node| read(source, node)) {
            match test {
                Ok(Test::Policy(test)) => tests.push((source, test)),
                Ok(_) => report.skipped += 1,
                Err(diagnostic) => report.unreadable.push(*diagnostic),
            }
        }
    }
    let next = AtomicUsize::new(0);
    let done: Mutex<BTreeMap<usize, PacketTestResult>> = Mutex::default();
    let broken: Mutex<Option<PacketError>> = Mutex::default();
    let work = || {
        let mut packets = factory()?;
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((source, test)) = tests.get(at) else { return Ok::<(), PacketError>(()) };
            let cases = packet_test(source, test, &worlds, packets.as_mut())?;
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.insert(at, cases);
            progress(done.len(), tests.len());
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..workers.min(tests.len()).max(1) {
            scope.spawn(|| {
                if let Err(error) = work() {
                    // No worker starts another test.
                    next.store(usize::MAX / 2, Ordering::Relaxed);
                    broken.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            });
        }
    });
    if let Some(error) = broken.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    for result in done.into_inner().unwrap_or_else(PoisonError::into_inner).into_values() {
        match result {
            Ok(cases) => report.cases.extend(cases),
            Err(diagnostic) => report.unreadable.push(*diagnostic),
        }
    }
    Ok(report)
}

type PacketTestResult = Result<Vec<PacketCase>, Box<Diagnostic>>;

fn packet_test(
    source: &Source,
    test: &PolicyTest<'_>,
    worlds: &WorldCache<'_>,
    packets: &mut dyn PacketSender,
) -> Result<PacketTestResult, PacketError> {
    let base = match worlds.get(source, &test.world, &test.at) {
        Ok(base) => base,
        Err(diagnostic) => return Ok(Err(diagnostic)),
    };
    let mut world = base.0.clone();
    world.read_thorium_as(test.thorium.unwrap_or(worlds.settings.thorium));
    let mut cases = Vec::new();
    for (index, step) in test.steps.iter().enumerate() {
        let name = step.name.as_ref().map_or_else(|| format!("step {}", index + 1), ToString::to_string);
        let mut changes = CaseResult {
            test: test.name.to_string(),
            name: name.clone(),
            at: step.at.clone(),
            flows: 0,
            failures: Vec::new(),
            notes: Vec::new(),
        };
        if let Err(diagnostic) = apply_step(source, step, worlds, &mut world, &mut changes) {
            return Ok(Err(diagnostic));
        }
        let mut case = PacketCase {
            test: test.name.to_string(),
            name,
            at: step.at.clone(),
            sent: 0,
            failures: changes.failures,
            not_sent: BTreeMap::new(),
        };
        check(world.objects(), &step.expect, &test.options, packets, &mut case)?;
        if !step.expect.is_empty() || !case.failures.is_empty() {
            cases.push(case);
        }
    }
    Ok(Ok(cases))
}

/// Sends every flow that some line matches, and compares its verdict with the last line that does.
fn check(
    objects: Objects,
    expect: &[Expectation],
    options: &Options,
    packets: &mut dyn PacketSender,
    case: &mut PacketCase,
) -> Result<(), PacketError> {
    let snapshot = Arc::new(Snapshot::new(objects.clone()));
    let mut lines: BTreeMap<Flow, &Expectation> = BTreeMap::new();
    for line in expect {
        // A pattern without flows fails without packets, too: `palisade test` reports it.
        if let Ok(flows) = snapshot.flows(&line.flows) {
            lines.extend(flows.into_iter().map(|flow| (flow, line)));
        }
    }
    let flows: Vec<Flow> = lines.keys().copied().collect();
    let sent = match *options == Options::default() {
        true => packets.send(objects, &flows)?,
        false => flows
            .iter()
            .map(|_| PacketOutcome::Inapplicable("the test sets options, which no node has".to_owned()))
            .collect(),
    };
    for ((flow, line), sent) in lines.iter().zip(sent) {
        let (source, destination) = (snapshot.describe(flow.source), snapshot.describe(flow.destination));
        let subject = format!("{source} -> {destination} {}", flow.traffic);
        match sent {
            PacketOutcome::Inapplicable(why) => {
                let (count, _) = case.not_sent.entry(why).or_insert((0, subject));
                *count += 1;
            }
            PacketOutcome::Failed(why) => case.failures.push(CaseFailure {
                subject,
                expected: line.outcome.as_str().to_owned(),
                got: format!("no packet: {why}"),
                at: line.at.clone(),
                evaluation: None,
                diagnostics: Vec::new(),
            }),
            PacketOutcome::Verdict(verdict) => {
                case.sent += 1;
                if line.outcome.holds(verdict) {
                    continue;
                }
                let evaluation = evaluate(&snapshot, flow, options);
                let got = format!(
                    "{} by a packet, {} by prediction",
                    verdict.as_str(),
                    evaluation.verdict.as_str()
                );
                case.failures.push(CaseFailure {
                    subject,
                    expected: line.outcome.as_str().to_owned(),
                    got,
                    at: line.at.clone(),
                    evaluation: Some((Arc::clone(&snapshot), Box::new(evaluation))),
                    diagnostics: Vec::new(),
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::run::FileError;
    use super::*;

    const TEST: &str = "\
kind: PolicyTest
name: t
steps:
- name: s
  apply:
  - {apiVersion: v1, kind: Pod, metadata: {name: a, namespace: x}, status: {podIP: 192.0.2.1}}
  - {apiVersion: v1, kind: Pod, metadata: {name: b, namespace: x}, status: {podIP: 192.0.2.2}}
  expect:
  - allow: \"x/a -> x/b tcp/80\"
  - allow: \"x/b -> x/a tcp/80\"
";

    struct NoFiles;

    impl TestFiles for NoFiles {
        fn open(&self, _from: &Source, path: &str) -> Result<Vec<Arc<Source>>, FileError> {
            Err(FileError::Unreadable(format!("{path} is not there")))
        }
    }

    /// Sends the first packet of each step, and cannot send the others.
    struct FirstPacketOnly(PacketOutcome);

    impl PacketSender for FirstPacketOnly {
        fn send(&mut self, _objects: Objects, flows: &[Flow]) -> Result<Vec<PacketOutcome>, PacketError> {
            let rest = flows.iter().skip(1).map(|_| self.0.clone());
            Ok(std::iter::once(PacketOutcome::Verdict(Verdict::Allow)).chain(rest).collect())
        }
    }

    fn report(rest: &PacketOutcome) -> PacketReport {
        let source = Arc::new(Source::new("t.yaml", TEST));
        let factory =
            || -> Result<Box<dyn PacketSender>, PacketError> { Ok(Box::new(FirstPacketOnly(rest.clone()))) };
        run_packets(&[source], &NoFiles, RunSettings::default(), &factory, 1, &|_, _| {}).unwrap()
    }

    #[test]
    fn a_packet_that_could_not_be_sent_fails_its_step() {
        let report = report(&PacketOutcome::Failed("Cannot assign requested address".to_owned()));
        assert_eq!((report.passed(), report.failed(), report.sent()), (0, 1, 1));
        let failure = &report.cases[0].failures[0];
        assert_eq!(failure.got, "no packet: Cannot assign requested address");
        assert!(report.not_sent().is_empty());
    }

    #[test]
    fn what_no_packet_can_show_is_counted_by_its_reason() {
        let report = report(&PacketOutcome::Inapplicable("layer 7".to_owned()));
        assert_eq!((report.passed(), report.failed(), report.sent()), (1, 0, 1));
        assert_eq!(report.not_sent(), BTreeMap::from([("layer 7", 1)]));
    }
}
