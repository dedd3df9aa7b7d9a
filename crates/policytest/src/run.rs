//! Runner of tests: worlds are loaded once, tests run in parallel, steps of a test in order.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use palisade_dialects::admission::{Request, admit};
use palisade_dialects::codes;
use palisade_dialects::load::{load, load_object, unparsed};
use palisade_dialects::object::DEFAULT_NAMESPACE;
use palisade_dialects::source::tree::{Node, Source};
use palisade_dialects::source::{Limits, documents};
use palisade_dialects::thorium::Reading;
use palisade_dialects::world::World;
use palisade_engine::Engine;
use palisade_model::diagnostic::{Diagnostic, Location};
use palisade_model::evaluate::evaluate;
use palisade_model::flow::Flow;
use palisade_model::options::Options;
use palisade_model::snapshot::Snapshot;
use palisade_model::trace::Verdict;
use palisade_model::verdicts::Verdicts;
use rayon::prelude::*;
use smol_str::SmolStr;
use thiserror::Error;

use super::format::{AdmissionCase, AdmissionTest, Expectation, Operation, PolicyTest, Test, TestStep, read};
use super::report::{CaseFailure, CaseResult, SuiteReport};
use super::thorium;

/// Maximum number of failing flows of one case that are kept with their traces; the others are counted.
const MAX_FAILURES: usize = 20;

/// Codes of objects that are skipped and may matter to verdicts.
static LEFT_OUT: &[&str] = &[
    codes::NOT_AN_OBJECT.id,
    codes::UNKNOWN_KIND.id,
    codes::NO_KIND.id,
    codes::FOREIGN_POLICY.id,
    codes::NO_NAME.id,
];
/// Maximum work of the tests of a file, in peers, protocols and ports compared: some seconds.
const MAX_WORK: u64 = 800_000_000;
/// Number of tests that run in parallel.
const BATCH: usize = 8;
/// Each test of a batch may use the remaining work divided by this.
const SHARES: u64 = 4;
/// Work of an object of the world in every step.
const OBJECT: u64 = 300;
/// Work of a flow, beside its rules.
const FLOW: u64 = 50;

/// Results of a test's cases, or why it cannot be run.
type TestResult = Result<Vec<CaseResult>, Box<Diagnostic>>;

/// Access to the files that tests name. The runner itself does no IO.
pub trait TestFiles: Sync {
    /// Returns the files at a path written in `from`, relative to it: one, or all manifests of a folder.
    fn open(&self, from: &Source, path: &str) -> Result<Vec<Arc<Source>>, FileError>;
}

/// Why the files that a test names cannot be used. Not retryable: the test, the files or the command line have to change.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FileError {
    /// The path is absolute, and so depends on the machine.
    #[error("{0}: is absolute; a test names files relative to itself")]
    Absolute(String),
    /// The path leads outside of what the test may read.
    #[error(
        "{0}: is neither in the repository of the test nor below a folder named on the command line; name a folder that holds both"
    )]
    OutsideRoots(String),
    /// A file is missing or cannot be read.
    #[error("{0}")]
    Unreadable(String),
}

/// How tests are evaluated.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunSettings {
    /// How Thorium's documents are lowered, where a test does not override it.
    pub thorium: Reading,
    /// Whether verdicts come from the engine, which follows a test from step to step, instead of a fresh snapshot.
    pub engine: bool,
}

/// Runs every test of these sources with the default settings.
pub fn run(sources: &[Arc<Source>], files: &dyn TestFiles) -> SuiteReport {
    run_with(sources, files, RunSettings::default())
}

/// Parses the documents of a source; syntax errors become diagnostics.
pub(super) fn parse_documents<'s>(
    source: &'s Source,
    limits: &'s Limits,
    unreadable: &mut Vec<Diagnostic>,
) -> Vec<Node<'s>> {
    let mut nodes = Vec::new();
    for document in documents(source, limits) {
        match document {
            Ok(node) => nodes.push(node),
            Err(error) => unreadable.push(unparsed(source, &error)),
        }
    }
    nodes
}

/// Runs every test of these sources.
pub fn run_with(sources: &[Arc<Source>], files: &dyn TestFiles, settings: RunSettings) -> SuiteReport {
    let limits = Limits::default();
    let worlds = WorldCache::new(files, settings);
    let mut report = SuiteReport::default();
    let mut names: BTreeSet<String> = BTreeSet::new();
    for source in sources {
        let nodes = parse_documents(source, &limits, &mut report.unreadable);
        for node in &nodes {
            report.unreadable.extend(duplicate_name(source, node, &mut names));
        }
        // Tests of a batch run in parallel. The work of each is limited before, so that results do not depend on scheduling.
        let mut left = MAX_WORK;
        for (at, batch) in nodes.chunks(BATCH).enumerate() {
            if left == 0 {
                report.unreadable.extend(not_run(source, &nodes[at * BATCH..]));
                break;
            }
            let results: Vec<(TestResult, u64)> = batch
                .par_iter()
                .filter_map(|node| read(source, node))
                .map(|test| {
                    let mut work = left / SHARES;
                    let given = work;
                    let result = test.and_then(|test| match test {
                        Test::Policy(test) => policy_test(source, &test, &worlds, &mut work),
                        Test::Admission(test) => admission_test(source, &test, &worlds),
                        Test::Thorium(node) => thorium::run(source, node),
                    });
                    (result, given - work)
                })
                .collect();
            for (result, taken) in results {
                left = left.saturating_sub(taken);
                match result {
                    Ok(cases) => report.cases.extend(cases),
                    Err(diagnostic) => report.unreadable.push(*diagnostic),
                }
            }
        }
    }
    report
}

/// Reports tests that were not run.
fn not_run(source: &Source, nodes: &[Node<'_>]) -> Option<Diagnostic> {
    let tests: Vec<&Node<'_>> = nodes.iter().filter(|node| read(source, node).is_some()).collect();
    let message = format!("{} tests from here on were not run: that takes too much work", tests.len());
    let at = tests.first().map(|node| source.location(node.span))?;
    Some(Diagnostic::new(&codes::WORK, message).at(Some(at)))
}

/// Reports a test that has the name of another one: their results could not be distinguished.
fn duplicate_name(source: &Source, node: &Node<'_>, names: &mut BTreeSet<String>) -> Option<Diagnostic> {
    let kind = node.get("kind").and_then(Node::as_str)?;
    let name = node.get("name").filter(|_| kind == "PolicyTest" || kind == "AdmissionTest")?;
    let text = name.as_str()?;
    let message = format!("another test is called {text:?}");
    (!names.insert(text.to_owned()))
        .then(|| Diagnostic::new(&codes::BAD_TEST, message).at(Some(source.location(name.span))))
}

/// Cache of worlds by the files they are loaded from: many tests share one.
pub(super) struct WorldCache<'f> {
    files: &'f dyn TestFiles,
    pub(super) settings: RunSettings,
    #[allow(clippy::type_complexity)]
    loaded: Mutex<HashMap<(Arc<str>, Vec<SmolStr>), Arc<(World, Vec<Diagnostic>)>>>,
}

impl<'f> WorldCache<'f> {
    pub(super) fn new(files: &'f dyn TestFiles, settings: RunSettings) -> Self {
        WorldCache { files, settings, loaded: Mutex::new(HashMap::new()) }
    }

    pub(super) fn get(
        &self,
        source: &Source,
        paths: &[SmolStr],
        at: &Location,
    ) -> Result<Arc<(World, Vec<Diagnostic>)>, Box<Diagnostic>> {
        let key = (Arc::clone(source.name()), paths.to_vec());
        if let Ok(loaded) = self.loaded.lock()
            && let Some(world) = loaded.get(&key)
        {
            return Ok(Arc::clone(world));
        }
        let mut world = World::default();
        let mut found = Vec::new();
        for path in paths {
            self.load(source, path, at, &mut world, &mut found)?;
        }
        let world = Arc::new((world, found));
        if let Ok(mut loaded) = self.loaded.lock() {
            loaded.insert(key, Arc::clone(&world));
        }
        Ok(world)
    }

    fn load(
        &self,
        source: &Source,
        path: &str,
        at: &Location,
        world: &mut World,
        found: &mut Vec<Diagnostic>,
    ) -> Result<(), Box<Diagnostic>> {
        let unreadable = |error: FileError| {
            Box::new(Diagnostic::new(&codes::UNREADABLE_FILE, error.to_string()).at(Some(at.clone())))
        };
        for file in self.files.open(source, path).map_err(unreadable)? {
            let before = found.len();
            load(&file, &Limits::default(), world, found);
            // An unparsable document could be the policy under test: verdicts without it would prove nothing.
            let lost = |d: &&Diagnostic| [codes::SYNTAX.id, codes::LIMIT.id].contains(&d.code.id);
            if let Some(lost) = found[before..].iter().find(lost) {
                return Err(Box::new(lost.clone()));
            }
        }
        Ok(())
    }
}

fn policy_test(
    source: &Source,
    test: &PolicyTest<'_>,
    worlds: &WorldCache<'_>,
    work: &mut u64,
) -> Result<Vec<CaseResult>, Box<Diagnostic>> {
    let base = worlds.get(source, &test.world, &test.at)?;
    let mut world = base.0.clone();
    world.read_thorium_as(test.thorium.unwrap_or(worlds.settings.thorium));
    let mut engine = worlds.settings.engine.then(Engine::default);
    let mut cases = Vec::new();
    for (index, step) in test.steps.iter().enumerate() {
        let mut case = CaseResult {
            test: test.name.to_string(),
            name: step.name.as_ref().map_or_else(|| format!("step {}", index + 1), ToString::to_string),
            at: step.at.clone(),
            flows: 0,
            failures: Vec::new(),
            notes: if index == 0 { base.1.clone() } else { Vec::new() },
        };
        *work = work.saturating_sub(OBJECT * world.len() as u64);
        if *work == 0 {
            case.failures.push(too_much(step, &step.at));
            cases.push(case);
            break;
        }
        apply_step(source, step, worlds, &mut world, &mut case)?;
        if index == 0 || !(step.apply.is_empty() && step.apply_files.is_empty() && step.delete.is_empty()) {
            case.notes.extend(world.review());
        }
        let snapshot = Arc::new(Snapshot::new(world.objects()));
        if let Some(engine) = &mut engine {
            for event in world.events() {
                engine.apply(event);
            }
        }
        check(&snapshot, engine.as_ref(), step, &test.options, work, &mut case);
        case.notes.retain(|note| note.is_error() || note.code.id == codes::OTHER_FAMILY.id);
        // A step without expectations has no result of its own.
        if !step.expect.is_empty() || !case.failures.is_empty() {
            cases.push(case);
        }
    }
    Ok(cases)
}

/// Applies and deletes the objects of a step.
pub(super) fn apply_step(
    source: &Source,
    step: &TestStep<'_>,
    worlds: &WorldCache<'_>,
    world: &mut World,
    case: &mut CaseResult,
) -> Result<(), Box<Diagnostic>> {
    for path in &step.apply_files {
        let mut fresh = World::default();
        worlds.load(source, path, &step.at, &mut fresh, &mut case.notes)?;
        for loaded in fresh.iter().cloned() {
            world.insert(loaded);
        }
    }
    for node in step.apply {
        let mut fresh = World::default();
        let mut found = Vec::new();
        load_object(source, node, &mut fresh, &mut found);
        // Irrelevant kinds are skipped, as in a file. An unparsable object could be what the test is about.
        let lost =
            |one: &&Diagnostic| LEFT_OUT.contains(&one.code.id) || (fresh.is_empty() && one.is_error());
        for lost in found.iter().filter(lost) {
            let at = lost.location.clone().unwrap_or_else(|| source.location(node.span));
            case.failures.push(failure("apply", "an object that can be read", &lost.message, &at));
        }
        case.notes.append(&mut found);
        for loaded in fresh.iter().cloned() {
            world.insert(loaded);
        }
    }
    for deletion in &step.delete {
        let namespace = deletion.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
        if !world.remove(deletion.group.as_deref(), &deletion.kind, Some(namespace), &deletion.name) {
            let what = format!("delete {} {}", deletion.kind, deletion.name);
            case.failures.push(failure(&what, "an object of that name", "there is none", &deletion.at));
        }
    }
    Ok(())
}

/// Checks every flow that some line matches against the last line that does.
fn check(
    snapshot: &Arc<Snapshot>,
    engine: Option<&Engine>,
    step: &TestStep<'_>,
    options: &Options,
    work: &mut u64,
    case: &mut CaseResult,
) {
    let mut lines: BTreeMap<Flow, &Expectation> = BTreeMap::new();
    for line in &step.expect {
        match snapshot.flows(&line.flows) {
            Ok(flows) => {
                *work = work.saturating_sub(FLOW * flows.len() as u64);
                if *work == 0 {
                    case.failures.push(too_much(step, &line.at));
                    return;
                }
                lines.extend(flows.into_iter().map(|flow| (flow, line)));
            }
            Err(error) => {
                let help = error.help().map(|help| format!("  {help}")).unwrap_or_default();
                let words = format!("{error}{help}");
                case.failures.push(failure(&line.flows.to_string(), "flows that exist", &words, &line.at));
            }
        }
    }
    case.flows = lines.len();
    let verdicts = VerdictSource { snapshot, options, engine, verdicts: Verdicts::new(snapshot, options) };
    // Limits are checked before verdicts, so that results do not depend on scheduling.
    for (flow, line) in &lines {
        let plainly = if line.by.is_some() { verdicts.verdicts.plain_weight() } else { 0 };
        *work = work.saturating_sub(verdicts.verdicts.weight(flow) + plainly);
        if *work == 0 {
            case.failures.push(too_much(step, &line.at));
            return;
        }
    }
    let mut failed: Vec<(&Flow, &&Expectation)> = lines
        .par_iter()
        .filter(|(flow, line)| {
            !line.outcome.holds(verdicts.verdict(flow))
                || !decided_by(snapshot, flow, options, line.by.as_deref())
        })
        .collect();
    note_other_family(snapshot, options, &lines, &verdicts, case);
    let more = failed.len().saturating_sub(MAX_FAILURES);
    failed.truncate(MAX_FAILURES);
    for (flow, line) in failed {
        let evaluation = evaluate(snapshot, flow, options);
        let by = |name: &SmolStr| format!(" by {name}");
        let deciders: Vec<String> = evaluation.decided_by().map(|object| object.to_string()).collect();
        let got = match (line.by.is_some(), deciders.is_empty()) {
            (true, true) => format!("{} by no policy", evaluation.verdict.as_str()),
            (true, false) => format!("{} by {}", evaluation.verdict.as_str(), deciders.join(", ")),
            (false, _) => evaluation.verdict.as_str().to_owned(),
        };
        let (source, destination) = (snapshot.describe(flow.source), snapshot.describe(flow.destination));
        case.failures.push(CaseFailure {
            subject: format!("{source} -> {destination} {}", flow.traffic),
            expected: format!("{}{}", line.outcome.as_str(), line.by.as_ref().map(by).unwrap_or_default()),
            got,
            at: line.at.clone(),
            evaluation: Some((Arc::clone(snapshot), Box::new(evaluation))),
            diagnostics: Vec::new(),
        });
    }
    if more > 0 {
        case.failures.push(failure(
            &format!("{more} more flows"),
            "as their lines say",
            "something else",
            &step.at,
        ));
    }
}

/// Source of verdicts: those of this snapshot, or the engine that has followed the test so far.
struct VerdictSource<'a> {
    snapshot: &'a Snapshot,
    options: &'a Options,
    engine: Option<&'a Engine>,
    verdicts: Verdicts<'a>,
}

impl VerdictSource<'_> {
    fn verdict(&self, flow: &Flow) -> Verdict {
        let indexed = self.engine.and_then(|engine| {
            let flow = engine.flow(self.snapshot, flow)?;
            engine.verdict(&flow, self.options)
        });
        indexed.unwrap_or_else(|| self.verdicts.verdict(flow))
    }
}

/// Notes the first flow whose line does not hold over the other address family: a flow uses the family that both ends
/// prefer, and a block of one family does not match addresses of the other.
fn note_other_family(
    snapshot: &Snapshot,
    options: &Options,
    lines: &BTreeMap<Flow, &Expectation>,
    verdicts: &VerdictSource<'_>,
    case: &mut CaseResult,
) {
    let differs = |(flow, line): (&Flow, &&Expectation)| {
        let (flow, other) =
            snapshot.over_the_other_family(flow).filter(|_| !line.flows.names_an_address())?;
        let verdict = verdicts.verdict(&flow);
        (!line.outcome.holds(verdict)).then(|| (flow, line.at.clone(), other, verdict))
    };
    if let Some((flow, at, family, verdict)) = lines.iter().find_map(differs) {
        let (source, destination) = (snapshot.describe(flow.source), snapshot.describe(flow.destination));
        let message = format!(
            "over {family}, {source} -> {destination} {} is {}: the line holds for the other family only",
            flow.traffic,
            verdict.as_str()
        );
        debug_assert_eq!(verdict, evaluate(snapshot, &flow, options).verdict);
        case.notes.push(Diagnostic::new(&codes::OTHER_FAMILY, message).at(Some(at)));
    }
}

fn decided_by(snapshot: &Snapshot, flow: &Flow, options: &Options, name: Option<&str>) -> bool {
    name.is_none_or(|name| evaluate(snapshot, flow, options).decided_by().any(|object| object.name == name))
}

/// Returns the failure of a step that is not evaluated: its expectations may not hold.
fn too_much(step: &TestStep<'_>, at: &Location) -> CaseFailure {
    let name = step.name.as_ref().map_or("the step", SmolStr::as_str);
    failure(name, "a judgement", "none: it takes too much work, ask about fewer flows", at)
}

fn failure(subject: &str, expected: &str, got: &str, at: &Location) -> CaseFailure {
    CaseFailure {
        subject: subject.to_owned(),
        expected: expected.to_owned(),
        got: got.to_owned(),
        at: at.clone(),
        evaluation: None,
        diagnostics: Vec::new(),
    }
}

fn admission_test(
    source: &Source,
    test: &AdmissionTest<'_>,
    worlds: &WorldCache<'_>,
) -> Result<Vec<CaseResult>, Box<Diagnostic>> {
    let loaded = worlds.get(source, &test.world, &test.at)?;
    Ok(test.cases.par_iter().map(|case| admission_case(source, test, case, &loaded.0)).collect())
}

fn admission_case(
    source: &Source,
    test: &AdmissionTest<'_>,
    case: &AdmissionCase<'_>,
    world: &World,
) -> CaseResult {
    let (request, object) = match case.operation {
        Operation::Create(new) => (Request::Create(new), new),
        Operation::Update(old, new) => (Request::Update(old, new), new),
        Operation::Delete(old) => (Request::Delete(old), old),
    };
    let found = admit(source, request, world);
    let errors: Vec<&Diagnostic> = found.iter().filter(|diagnostic| diagnostic.is_error()).collect();
    let named = |error: &&&Diagnostic| {
        case.field.as_ref().is_none_or(|field| error.field == *field)
            && case.message.as_ref().is_none_or(|message| error.message.contains(message.as_str()))
    };
    let got = match (case.accept, errors.is_empty()) {
        _ if !recognised(source, object) => Some("no kind whose admission Palisade knows".to_owned()),
        (true, true) => None,
        (true, false) => Some("rejected".to_owned()),
        (false, true) => Some("accepted".to_owned()),
        (false, false) if errors.iter().any(|error| named(&error)) => None,
        (false, false) => Some("rejected, for another reason".to_owned()),
    };
    let mut expected = if case.accept { "accept".to_owned() } else { "reject".to_owned() };
    if let Some(field) = &case.field {
        expected.push_str(&format!(" at {field}"));
    }
    if let Some(message) = &case.message {
        expected.push_str(&format!(" saying {message:?}"));
    }
    let mut failures = Vec::new();
    if let Some(got) = got {
        failures.push(CaseFailure { diagnostics: found, ..failure(&case.name, &expected, &got, &case.at) });
    }
    CaseResult {
        test: test.name.to_string(),
        name: case.name.to_string(),
        at: case.at.clone(),
        flows: 1,
        failures,
        notes: Vec::new(),
    }
}

fn recognised(source: &Source, object: &Node<'_>) -> bool {
    palisade_dialects::object::recognise(source, object, &mut Vec::new()).is_some()
}
