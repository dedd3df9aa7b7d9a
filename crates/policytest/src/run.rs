//! Running tests: worlds are loaded once, tests run side by side, steps one after the other.

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

use super::format::{AdmissionCase, AdmissionTest, Expectation, Operation, PolicyTest, Step, Test, read};
use super::report::{Case, Failure, Report};
use super::thorium;

/// How many failing flows of one case are kept with their reasons; the others are counted.
const KEPT_FAILURES: usize = 20;

/// Codes of objects that are left out and may matter to verdicts.
static LEFT_OUT: &[&str] = &[
    codes::NOT_AN_OBJECT.id,
    codes::UNKNOWN_KIND.id,
    codes::NO_KIND.id,
    codes::FOREIGN_POLICY.id,
    codes::NO_NAME.id,
];
/// What the tests of a file may take: peers, protocols and ports that are looked at. Some seconds.
const MOST_WORK: u64 = 800_000_000;
/// As many tests run side by side, and each gets one of so many shares of what is left.
const BATCH: usize = 8;
const SHARES: u64 = 4;
/// What an object of a world takes in every step.
const OBJECT: u64 = 300;
/// What a flow takes, beside its rules.
const FLOW: u64 = 50;

/// The cases of a test, or why it cannot be run.
type TestResult = Result<Vec<Case>, Box<Diagnostic>>;

/// Where the runner gets files from: reading them is somebody else's business.
pub trait Files: Sync {
    /// The files at a path written in `from`, relative to it: one, or all manifests of a folder.
    fn open(&self, from: &Source, path: &str) -> Result<Vec<Arc<Source>>, String>;
}

/// How tests are run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settings {
    /// The reading of Thorium's documents, where a test does not choose its own.
    pub thorium: Reading,
    /// Whether the live index answers, following a test from step to step, instead of an evaluation from scratch.
    pub engine: bool,
}

/// Runs every test of these texts.
pub fn run(sources: &[Arc<Source>], files: &dyn Files) -> Report {
    run_as(sources, files, Settings::default())
}

/// The documents of a text; what cannot be parsed is a finding.
pub(super) fn nodes<'s>(
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

/// Runs every test of these texts in a certain way.
pub fn run_as(sources: &[Arc<Source>], files: &dyn Files, settings: Settings) -> Report {
    let limits = Limits::default();
    let worlds = Worlds::new(files, settings);
    let mut report = Report::default();
    let mut names: BTreeSet<String> = BTreeSet::new();
    for source in sources {
        let nodes = nodes(source, &limits, &mut report.unreadable);
        for node in &nodes {
            report.unreadable.extend(name_used_before(source, node, &mut names));
        }
        // Tests of a batch run side by side. What each may take is fixed before, so that it does not matter which is done
        // first.
        let mut left = MOST_WORK;
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

/// Says that tests were not run.
fn not_run(source: &Source, nodes: &[Node<'_>]) -> Option<Diagnostic> {
    let tests: Vec<&Node<'_>> = nodes.iter().filter(|node| read(source, node).is_some()).collect();
    let message = format!("{} tests from here on were not run: that takes too much work", tests.len());
    let at = tests.first().map(|node| source.location(node.span))?;
    Some(Diagnostic::new(&codes::WORK, message).at(Some(at)))
}

/// A test whose name another one has: nobody could tell their results apart.
fn name_used_before(source: &Source, node: &Node<'_>, names: &mut BTreeSet<String>) -> Option<Diagnostic> {
    let kind = node.get("kind").and_then(Node::as_str)?;
    let name = node.get("name").filter(|_| kind == "PolicyTest" || kind == "AdmissionTest")?;
    let text = name.as_str()?;
    let message = format!("another test is called {text:?}");
    (!names.insert(text.to_owned()))
        .then(|| Diagnostic::new(&codes::BAD_TEST, message).at(Some(source.location(name.span))))
}

/// Worlds by the files they are made of: many tests share one.
pub(super) struct Worlds<'f> {
    files: &'f dyn Files,
    pub(super) settings: Settings,
    #[allow(clippy::type_complexity)]
    loaded: Mutex<HashMap<(Arc<str>, Vec<SmolStr>), Arc<(World, Vec<Diagnostic>)>>>,
}

impl<'f> Worlds<'f> {
    pub(super) fn new(files: &'f dyn Files, settings: Settings) -> Self {
        Worlds { files, settings, loaded: Mutex::new(HashMap::new()) }
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
        let unreadable =
            |error| Box::new(Diagnostic::new(&codes::UNREADABLE_FILE, error).at(Some(at.clone())));
        for file in self.files.open(source, path).map_err(unreadable)? {
            let before = found.len();
            load(&file, &Limits::default(), world, found);
            // A document that is lost could be the policy that the test is about: its verdicts would prove nothing.
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
    worlds: &Worlds<'_>,
    work: &mut u64,
) -> Result<Vec<Case>, Box<Diagnostic>> {
    let base = worlds.get(source, &test.world, &test.at)?;
    let mut world = base.0.clone();
    world.read_thorium_as(test.thorium.unwrap_or(worlds.settings.thorium));
    let mut engine = worlds.settings.engine.then(Engine::default);
    let mut cases = Vec::new();
    for (index, step) in test.steps.iter().enumerate() {
        let mut case = Case {
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
        change(source, step, worlds, &mut world, &mut case)?;
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
        // A step that only changes the world states nothing by itself.
        if !step.expect.is_empty() || !case.failures.is_empty() {
            cases.push(case);
        }
    }
    Ok(cases)
}

/// Applies and deletes what a step says.
pub(super) fn change(
    source: &Source,
    step: &Step<'_>,
    worlds: &Worlds<'_>,
    world: &mut World,
    case: &mut Case,
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
        // Kinds of no concern are passed over, as in a file. An object that is lost could be what the test is about.
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
    for gone in &step.delete {
        let namespace = gone.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
        if !world.remove(gone.group.as_deref(), &gone.kind, Some(namespace), &gone.name) {
            let what = format!("delete {} {}", gone.kind, gone.name);
            case.failures.push(failure(&what, "an object of that name", "there is none", &gone.at));
        }
    }
    Ok(())
}

/// Checks every flow that some line matches, against the last line that does.
fn check(
    snapshot: &Arc<Snapshot>,
    engine: Option<&Engine>,
    step: &Step<'_>,
    options: &Options,
    work: &mut u64,
    case: &mut Case,
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
    let verdicts = Answers { snapshot, options, engine, verdicts: Verdicts::new(snapshot, options) };
    // Before any is judged, so that the answer does not depend on who is done first.
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
    other_families(snapshot, options, &lines, &verdicts, case);
    let more = failed.len().saturating_sub(KEPT_FAILURES);
    failed.truncate(KEPT_FAILURES);
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
        case.failures.push(Failure {
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

/// Who answers: the verdicts made for this snapshot, or the index that has followed the test so far.
struct Answers<'a> {
    snapshot: &'a Snapshot,
    options: &'a Options,
    engine: Option<&'a Engine>,
    verdicts: Verdicts<'a>,
}

impl Answers<'_> {
    fn verdict(&self, flow: &Flow) -> Verdict {
        let indexed = self.engine.and_then(|engine| {
            let flow = engine.flow(self.snapshot, flow)?;
            engine.verdict(&flow, self.options)
        });
        indexed.unwrap_or_else(|| self.verdicts.verdict(flow))
    }
}

/// Notes the first flow that the line does not hold for over the other address family: pods are asked about over the one
/// they both prefer, and a block of one family says nothing about the other.
fn other_families(
    snapshot: &Snapshot,
    options: &Options,
    lines: &BTreeMap<Flow, &Expectation>,
    verdicts: &Answers<'_>,
    case: &mut Case,
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

/// A step that is not judged is a failure: what it states may not hold.
fn too_much(step: &Step<'_>, at: &Location) -> Failure {
    let name = step.name.as_ref().map_or("the step", SmolStr::as_str);
    failure(name, "a judgement", "none: it takes too much work, ask about fewer flows", at)
}

fn failure(subject: &str, expected: &str, got: &str, at: &Location) -> Failure {
    Failure {
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
    worlds: &Worlds<'_>,
) -> Result<Vec<Case>, Box<Diagnostic>> {
    let loaded = worlds.get(source, &test.world, &test.at)?;
    Ok(test.cases.par_iter().map(|case| admission_case(source, test, case, &loaded.0)).collect())
}

fn admission_case(
    source: &Source,
    test: &AdmissionTest<'_>,
    case: &AdmissionCase<'_>,
    world: &World,
) -> Case {
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
        failures.push(Failure { diagnostics: found, ..failure(&case.name, &expected, &got, &case.at) });
    }
    Case {
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
