//! The conformance tests of network-policy-api, as PolicyTests in suites/: every flow that they probe, and who decided it.
//!
//! A small runner, for these suites only: `palisade test` is the real one.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use palisade_dialects::load::{load, load_object};
use palisade_dialects::source::{Limits, Node, Source, Value, documents};
use palisade_dialects::world::World;
use palisade_model::diagnostic::Diagnostic;
use palisade_model::evaluate::evaluate;
use palisade_model::flow::{Flow, FlowPattern};
use palisade_model::options::Options;
use palisade_model::snapshot::Snapshot;
use palisade_model::trace::{Because, Evaluation, Verdict};

fn items<'n, 's>(node: &'n Node<'s>, key: &str) -> &'n [Node<'s>] {
    match node.get(key).map(|node| &node.value) {
        Some(Value::List(items)) => items,
        _ => &[],
    }
}

fn text<'n>(node: &'n Node<'_>, key: &str) -> Option<&'n str> {
    node.get(key).and_then(Node::as_str)
}

/// One test file while it runs.
struct Run {
    folder: PathBuf,
    world: World,
    options: Options,
    found: Vec<Diagnostic>,
    flows: usize,
}

impl Run {
    fn load(&mut self, files: &[Node<'_>]) {
        for file in files {
            let name = file.as_str().unwrap();
            let source = Source::new(name, std::fs::read_to_string(self.folder.join(name)).unwrap());
            load(&source, &Limits::default(), &mut self.world, &mut self.found);
        }
        self.found.retain(|one| one.code.id != "S0012");
        assert!(self.found.is_empty(), "{:#?}", self.found);
    }

    fn step(&mut self, source: &Source, step: &Node<'_>, test: &str) {
        self.load(items(step, "applyFiles"));
        for object in items(step, "apply") {
            load_object(source, object, &mut self.world, &mut Vec::new());
        }
        for object in items(step, "delete") {
            let (kind, name) = (text(object, "kind").unwrap(), text(object, "name").unwrap());
            assert!(self.world.delete(None, kind, text(object, "namespace"), name));
        }
        let snapshot = Snapshot::new(self.world.objects());
        let mut expected: BTreeMap<Flow, (Verdict, &str, Option<&str>)> = BTreeMap::new();
        for line in items(step, "expect") {
            let (verdict, flows) = match (text(line, "allow"), text(line, "deny")) {
                (Some(flows), None) => (Verdict::Allow, flows),
                (None, Some(flows)) => (Verdict::Deny, flows),
                _ => panic!("{test}: a line that cannot be read"),
            };
            let pattern: FlowPattern = flows.parse().unwrap();
            for flow in snapshot.flows(&pattern).unwrap() {
                expected.insert(flow, (verdict, flows, text(line, "by")));
            }
        }
        for (flow, (verdict, line, by)) in expected {
            let evaluation = evaluate(&snapshot, &flow, &self.options);
            let step = text(step, "name").unwrap_or("");
            assert_eq!(evaluation.verdict, verdict, "{test}: {step}: {line}");
            if let Some(by) = by {
                assert!(deciders(&evaluation).contains(&by.to_owned()), "{test}: {step}: {line}: by {by}");
            }
            self.flows += 1;
        }
    }
}

fn deciders(evaluation: &Evaluation) -> Vec<String> {
    let mut names = Vec::new();
    for side in [&evaluation.egress, &evaluation.ingress] {
        match &side.because {
            Because::Rule(decision) => {
                names.extend(
                    decision.also.iter().chain([&decision.object]).map(|object| object.name.to_string()),
                );
            }
            Because::Isolation { by } => names.extend(by.iter().map(|object| object.name.to_string())),
            _ => {}
        }
    }
    names
}

fn suite(folder: &str) -> (usize, usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../suites").join(folder);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "yaml"));
    files.sort();
    let (mut tests, mut flows) = (0, 0);
    for file in files {
        let source =
            Source::new(file.to_string_lossy().into_owned(), std::fs::read_to_string(&file).unwrap());
        let limits = Limits::default();
        for document in documents(&source, &limits) {
            let document = document.unwrap();
            if text(&document, "kind") != Some("PolicyTest") {
                continue;
            }
            let mut options = Options::default();
            if let Some(Value::Map(entries)) = document.get("options").map(|node| &node.value) {
                for entry in entries {
                    options.set(&entry.key, entry.value.as_str().unwrap()).unwrap();
                }
            }
            let (world, found) = (World::default(), Vec::new());
            let mut run = Run { folder: folder.clone(), world, options, found, flows: 0 };
            run.load(items(&document, "world"));
            for step in items(&document, "steps") {
                run.step(&source, step, text(&document, "name").unwrap_or(""));
            }
            tests += 1;
            flows += run.flows;
        }
    }
    (tests, flows)
}

#[test]
fn admin_and_baseline() {
    let (tests, flows) = suite("npa-v1alpha1");
    assert!(tests >= 20 && flows >= 200, "{tests} tests, {flows} flows");
}

#[test]
fn cluster() {
    let (tests, flows) = suite("npa-v1alpha2");
    assert!(tests >= 20 && flows >= 200, "{tests} tests, {flows} flows");
}
