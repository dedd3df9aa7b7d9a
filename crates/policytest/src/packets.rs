//! The same tests with real packets: steps change a world that somebody has built, and what they state is held against what
//! became of packets, not of questions.
//!
//! Who builds and sends is somebody else ([`Packets`]): nothing here does IO. What could not be sent is counted apart and never
//! as passed.

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

use super::format::{Expectation, PolicyTest, Test, read};
use super::report::{Case, Failure};
use super::run::{Files, Settings, Worlds, change, nodes};

/// Whoever sends packets.
pub trait Packets {
    /// What became of these flows, once the world is this one. An error ends the run.
    fn send(&mut self, objects: Objects, flows: &[Flow]) -> Result<Vec<Sent>, String>;
}

/// What became of a flow's packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sent {
    /// This.
    Verdict(Verdict),
    /// No packet can show it, and why.
    Not(String),
    /// It should have been sent and could not be, and why: the step fails.
    Failed(String),
}

/// What came of a run.
#[derive(Debug, Default)]
pub struct PacketReport {
    /// Every step that states something.
    pub cases: Vec<PacketCase>,
    /// Files and tests that could not be read.
    pub unreadable: Vec<Diagnostic>,
    /// How many tests are about something else than packets.
    pub passed_over: usize,
}

/// One step.
#[derive(Debug)]
pub struct PacketCase {
    /// The test's name.
    pub test: String,
    /// The step's.
    pub name: String,
    /// Where it is written.
    pub at: Location,
    /// How many packets were sent.
    pub sent: usize,
    /// What did not hold.
    pub failures: Vec<Failure>,
    /// What was not sent: how many flows for each reason, and the first of them.
    pub not_sent: BTreeMap<String, (usize, String)>,
}

// === impl PacketReport ===

impl PacketReport {
    /// How many steps hold, and some packet showed it.
    pub fn passed(&self) -> usize {
        self.cases.iter().filter(|case| case.failures.is_empty() && case.sent > 0).count()
    }

    /// How many do not.
    pub fn failed(&self) -> usize {
        self.cases.iter().filter(|case| !case.failures.is_empty()).count()
    }

    /// How many packets were sent.
    pub fn sent(&self) -> usize {
        self.cases.iter().map(|case| case.sent).sum()
    }

    /// How many flows were not sent, by reason.
    pub fn not_sent(&self) -> BTreeMap<&str, usize> {
        let mut all = BTreeMap::new();
        for (why, (count, _)) in self.cases.iter().flat_map(|case| &case.not_sent) {
            *all.entry(why.as_str()).or_default() += count;
        }
        all
    }
}

/// Makes somebody who sends packets.
pub type Makes<'a> = dyn Fn() -> Result<Box<dyn Packets>, String> + Sync + 'a;

/// Runs every PolicyTest of these texts with packets, so many at a time. An error says why nothing can be sent at all.
pub fn run_packets(
    sources: &[Arc<Source>],
    files: &dyn Files,
    settings: Settings,
    makes: &Makes<'_>,
    workers: usize,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<PacketReport, String> {
    let limits = Limits::default();
    let worlds = Worlds::new(files, settings);
    let mut report = PacketReport::default();
    let mut read_sources: Vec<(&Arc<Source>, Vec<Node<'_>>)> = Vec::new();
    for source in sources {
        read_sources.push((source, nodes(source, &limits, &mut report.unreadable)));
    }
    let mut tests: Vec<(&Source, PolicyTest<'_>)> = Vec::new();
    for (source, nodes) in &read_sources {
        for test in nodes.iter().filter_map(|node| read(source, node)) {
            match test {
                Ok(Test::Policy(test)) => tests.push((source, test)),
                Ok(_) => report.passed_over += 1,
                Err(diagnostic) => report.unreadable.push(*diagnostic),
            }
        }
    }
    let next = AtomicUsize::new(0);
    let done: Mutex<BTreeMap<usize, Cases>> = Mutex::default();
    let broken: Mutex<Option<String>> = Mutex::default();
    let work = || {
        let mut packets = makes()?;
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((source, test)) = tests.get(at) else { return Ok::<(), String>(()) };
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
                    // Nobody begins another one.
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

type Cases = Result<Vec<PacketCase>, Box<Diagnostic>>;

fn packet_test(
    source: &Source,
    test: &PolicyTest<'_>,
    worlds: &Worlds<'_>,
    packets: &mut dyn Packets,
) -> Result<Cases, String> {
    let base = match worlds.get(source, &test.world, &test.at) {
        Ok(base) => base,
        Err(diagnostic) => return Ok(Err(diagnostic)),
    };
    let mut world = base.0.clone();
    world.read_thorium_as(test.thorium.unwrap_or(worlds.settings.thorium));
    let mut cases = Vec::new();
    for (index, step) in test.steps.iter().enumerate() {
        let name = step.name.as_ref().map_or_else(|| format!("step {}", index + 1), ToString::to_string);
        let mut changes = Case {
            test: test.name.to_string(),
            name: name.clone(),
            at: step.at.clone(),
            flows: 0,
            failures: Vec::new(),
            notes: Vec::new(),
        };
        if let Err(diagnostic) = change(source, step, worlds, &mut world, &mut changes) {
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

/// Sends every flow that some line matches, and holds it against the last line that does.
fn check(
    objects: Objects,
    expect: &[Expectation],
    options: &Options,
    packets: &mut dyn Packets,
    case: &mut PacketCase,
) -> Result<(), String> {
    let snapshot = Arc::new(Snapshot::new(objects.clone()));
    let mut lines: BTreeMap<Flow, &Expectation> = BTreeMap::new();
    for line in expect {
        // What resolves to nothing fails without packets, too: `palisade test` says so.
        if let Ok(flows) = snapshot.flows(&line.flows) {
            lines.extend(flows.into_iter().map(|flow| (flow, line)));
        }
    }
    let flows: Vec<Flow> = lines.keys().copied().collect();
    let sent = match *options == Options::default() {
        true => packets.send(objects, &flows)?,
        false => {
            flows.iter().map(|_| Sent::Not("the test sets options, which no node has".to_owned())).collect()
        }
    };
    for ((flow, line), sent) in lines.iter().zip(sent) {
        let (source, destination) = (snapshot.describe(flow.source), snapshot.describe(flow.destination));
        let subject = format!("{source} -> {destination} {}", flow.traffic);
        match sent {
            Sent::Not(why) => {
                let (count, _) = case.not_sent.entry(why).or_insert((0, subject));
                *count += 1;
            }
            Sent::Failed(why) => case.failures.push(Failure {
                subject,
                expected: line.outcome.as_str().to_owned(),
                got: format!("no packet: {why}"),
                at: line.at.clone(),
                evaluation: None,
                diagnostics: Vec::new(),
            }),
            Sent::Verdict(verdict) => {
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
                case.failures.push(Failure {
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

    impl Files for NoFiles {
        fn open(&self, _from: &Source, path: &str) -> Result<Vec<Arc<Source>>, String> {
            Err(format!("{path} is not there"))
        }
    }

    /// Sends the first packet of each step, and cannot send the others.
    struct Tired(Sent);

    impl Packets for Tired {
        fn send(&mut self, _objects: Objects, flows: &[Flow]) -> Result<Vec<Sent>, String> {
            let rest = flows.iter().skip(1).map(|_| self.0.clone());
            Ok(std::iter::once(Sent::Verdict(Verdict::Allow)).chain(rest).collect())
        }
    }

    fn report(rest: &Sent) -> PacketReport {
        let source = Arc::new(Source::new("t.yaml", TEST));
        let makes = || -> Result<Box<dyn Packets>, String> { Ok(Box::new(Tired(rest.clone()))) };
        run_packets(&[source], &NoFiles, Settings::default(), &makes, 1, &|_, _| {}).unwrap()
    }

    #[test]
    fn a_packet_that_could_not_be_sent_fails_its_step() {
        let report = report(&Sent::Failed("Cannot assign requested address".to_owned()));
        assert_eq!((report.passed(), report.failed(), report.sent()), (0, 1, 1));
        let failure = &report.cases[0].failures[0];
        assert_eq!(failure.got, "no packet: Cannot assign requested address");
        assert!(report.not_sent().is_empty());
    }

    #[test]
    fn what_no_packet_can_show_is_counted_by_its_reason() {
        let report = report(&Sent::Not("layer 7".to_owned()));
        assert_eq!((report.passed(), report.failed(), report.sent()), (1, 0, 1));
        assert_eq!(report.not_sent(), BTreeMap::from([("layer 7", 1)]));
    }
}
