//! The format of tests: parses a document into a test, or returns a located diagnostic.

use std::collections::BTreeSet;

use palisade_dialects::codes;
use palisade_dialects::source::tree::{Node, Source, Span, Value};
use palisade_dialects::thorium;
use palisade_model::diagnostic::{Diagnostic, Location};
use palisade_model::flow::FlowPattern;
use palisade_model::nearest::nearest;
use palisade_model::options::Options;
use palisade_model::trace::Verdict;
use smol_str::SmolStr;

/// A test as written.
#[derive(Debug)]
pub enum Test<'n> {
    /// Flows with the verdicts they must have.
    Policy(PolicyTest<'n>),
    /// Requests with the response that an API server must give.
    Admission(AdmissionTest<'n>),
    /// Cases of Thorium's own specification.
    Thorium(&'n Node<'n>),
}

/// Steps that change a world, with expectations after each.
#[derive(Debug)]
pub struct PolicyTest<'n> {
    /// Unique among all tests of a run.
    pub name: SmolStr,
    /// Manifests loaded first.
    pub world: Vec<SmolStr>,
    /// Choices for behaviour that the APIs leave open.
    pub options: Options,
    /// How Thorium's documents are lowered, where the test overrides the runner's settings.
    pub thorium: Option<thorium::Reading>,
    /// In order; objects of a step stay for the next ones.
    pub steps: Vec<TestStep<'n>>,
    /// Location of its first line.
    pub at: Location,
}

/// A change of the world, with expectations after it.
#[derive(Debug)]
pub struct TestStep<'n> {
    /// Name in results; a step without one is numbered.
    pub name: Option<SmolStr>,
    /// Paths of manifests to apply, relative to the test.
    pub apply_files: Vec<SmolStr>,
    /// Objects to apply, after the files.
    pub apply: &'n [Node<'n>],
    /// Objects to delete, after everything is applied.
    pub delete: Vec<Deletion>,
    /// Of the lines that match a flow the last one counts.
    pub expect: Vec<Expectation>,
    /// Location of its first line.
    pub at: Location,
}

/// An object to delete.
#[derive(Debug)]
pub struct Deletion {
    /// The API group; any where the test does not give `apiVersion`.
    pub group: Option<SmolStr>,
    /// Kind of the object, as in its manifest.
    pub kind: SmolStr,
    /// Namespace of the object; `default` when absent.
    pub namespace: Option<SmolStr>,
    /// Name of the object.
    pub name: SmolStr,
    /// Location in the test file.
    pub at: Location,
}

/// One line of a step's expectations.
#[derive(Debug)]
pub struct Expectation {
    /// Verdict that every flow of the pattern must have.
    pub outcome: ExpectedVerdict,
    /// Pattern of the flows, resolved in the snapshot of the step.
    pub flows: FlowPattern,
    /// Name of a policy that must be the decider.
    pub by: Option<SmolStr>,
    /// Location in the test file.
    pub at: Location,
}

/// The verdict that flows must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedVerdict {
    /// Allowed.
    Allow,
    /// Dropped silently.
    Deny,
    /// Refused with an answer.
    Reject,
    /// Denied or rejected.
    Block,
}

/// Requests with the response that an API server must give.
#[derive(Debug)]
pub struct AdmissionTest<'n> {
    /// Unique among all tests of a run.
    pub name: SmolStr,
    /// Manifests loaded first.
    pub world: Vec<SmolStr>,
    /// Requests, each against the same world.
    pub cases: Vec<AdmissionCase<'n>>,
    /// Location of its first line.
    pub at: Location,
}

/// A request, and whether it must be accepted.
#[derive(Debug)]
pub struct AdmissionCase<'n> {
    /// Name in results.
    pub name: SmolStr,
    /// The request to the API server.
    pub operation: Operation<'n>,
    /// Whether the request must be accepted, without errors.
    pub accept: bool,
    /// Field path of an expected error.
    pub field: Option<SmolStr>,
    /// Substring of the message of an expected error.
    pub message: Option<SmolStr>,
    /// Location of its first line.
    pub at: Location,
}

/// A request to the API server.
#[derive(Debug, Clone, Copy)]
pub enum Operation<'n> {
    /// Creates an object.
    Create(&'n Node<'n>),
    /// Replaces the first object by the second.
    Update(&'n Node<'n>, &'n Node<'n>),
    /// Deletes an object.
    Delete(&'n Node<'n>),
}

// === impl ExpectedVerdict ===

impl ExpectedVerdict {
    const NAMES: [(&'static str, ExpectedVerdict); 4] = [
        ("allow", ExpectedVerdict::Allow),
        ("deny", ExpectedVerdict::Deny),
        ("reject", ExpectedVerdict::Reject),
        ("block", ExpectedVerdict::Block),
    ];

    /// Whether a verdict meets the expectation.
    pub fn holds(self, verdict: Verdict) -> bool {
        match self {
            ExpectedVerdict::Allow => verdict == Verdict::Allow,
            ExpectedVerdict::Deny => verdict == Verdict::Deny,
            ExpectedVerdict::Reject => verdict == Verdict::Reject,
            ExpectedVerdict::Block => verdict != Verdict::Allow,
        }
    }

    /// Returns the keyword of the format.
    pub fn as_str(self) -> &'static str {
        ExpectedVerdict::NAMES.iter().find(|(_, outcome)| *outcome == self).map_or("", |(name, _)| name)
    }
}

// === reading ===

/// Parses a document that is a test; `None` when it is something else.
pub fn read<'n>(source: &Source, node: &'n Node<'n>) -> Option<Result<Test<'n>, Box<Diagnostic>>> {
    let read = TestReader { source };
    match node.get("kind").and_then(Node::as_str) {
        Some("PolicyTest") => Some(read.policy_test(node).map(Test::Policy)),
        Some("AdmissionTest") => Some(read.admission_test(node).map(Test::Admission)),
        Some("ThoriumCases") => Some(Ok(Test::Thorium(node))),
        // Without an apiVersion it is no object: a misspelled kind of test must not be skipped silently.
        Some(kind)
            if node.get("apiVersion").is_none() && node.get("steps").or(node.get("cases")).is_some() =>
        {
            let span = node.get("kind").map_or(node.span, |kind| kind.span);
            let mut wrong = read.wrong(span, format!("{kind:?} is no kind of test"));
            wrong.help = Some("the kinds are PolicyTest and AdmissionTest".to_owned());
            Some(Err(wrong))
        }
        _ => None,
    }
}

/// Parser of the documents of one source.
struct TestReader<'s> {
    source: &'s Source,
}

type ReadResult<T> = Result<T, Box<Diagnostic>>;

impl TestReader<'_> {
    fn policy_test<'n>(&self, node: &'n Node<'n>) -> ReadResult<PolicyTest<'n>> {
        self.keys(node, &["kind", "apiVersion", "name", "description", "world", "options", "steps"])?;
        let steps =
            self.items(node, "steps")?.iter().map(|step| self.step(step)).collect::<ReadResult<Vec<_>>>()?;
        let test = PolicyTest {
            name: self.text(node, "name")?.unwrap_or_default(),
            world: self.texts(node, "world")?,
            options: self.options(node)?,
            thorium: self.thorium(node)?,
            steps,
            at: self.source.location(node.span),
        };
        if test.steps.iter().all(|step| step.expect.is_empty()) {
            return Err(self.wrong(node.span, "a PolicyTest needs a step that expects something"));
        }
        Ok(test)
    }

    fn step<'n>(&self, node: &'n Node<'n>) -> ReadResult<TestStep<'n>> {
        self.keys(node, &["name", "description", "applyFiles", "apply", "delete", "expect"])?;
        let expect = self
            .items(node, "expect")?
            .iter()
            .map(|line| self.expectation(line))
            .collect::<ReadResult<Vec<_>>>()?;
        let delete = self
            .items(node, "delete")?
            .iter()
            .map(|item| self.deletion(item))
            .collect::<ReadResult<Vec<_>>>()?;
        Ok(TestStep {
            name: self.text(node, "name")?,
            apply_files: self.texts(node, "applyFiles")?,
            apply: self.items(node, "apply")?,
            delete,
            expect,
            at: self.source.location(node.span),
        })
    }

    fn deletion(&self, node: &Node<'_>) -> ReadResult<Deletion> {
        self.keys(node, &["apiVersion", "kind", "namespace", "name"])?;
        let need = |key: &str| {
            self.text(node, key)?
                .ok_or_else(|| self.wrong(node.span, format!("what to delete needs its {key}")))
        };
        let group = self
            .text(node, "apiVersion")?
            .map(|version| version.rsplit_once('/').map_or("", |(group, _)| group).into());
        Ok(Deletion {
            group,
            kind: need("kind")?,
            namespace: self.text(node, "namespace")?,
            name: need("name")?,
            at: self.source.location(node.span),
        })
    }

    fn expectation(&self, node: &Node<'_>) -> ReadResult<Expectation> {
        self.keys(node, &["allow", "deny", "reject", "block", "by"])?;
        let mut outcomes = ExpectedVerdict::NAMES.iter().filter(|(name, _)| node.get(name).is_some());
        let (Some((key, outcome)), None) = (outcomes.next(), outcomes.next()) else {
            return Err(self.wrong(node.span, "a line has exactly one of allow, deny, reject, block"));
        };
        let flow = node.get(key).map_or(node.span, |flow| flow.span);
        let text = self.text(node, key)?.unwrap_or_default();
        let flows = text.parse::<FlowPattern>().map_err(|error| self.wrong(flow, error.to_string()))?;
        Ok(Expectation {
            outcome: *outcome,
            flows,
            by: self.text(node, "by")?,
            at: self.source.location(flow),
        })
    }

    fn options(&self, node: &Node<'_>) -> ReadResult<Options> {
        let mut options = Options::default();
        let Some(written) = node.get("options").filter(|options| !options.is_null()) else {
            return Ok(options);
        };
        let Value::Map(entries) = &written.value else {
            return Err(self.wrong(written.span, "options is a mapping"));
        };
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        for entry in entries {
            if !seen.insert(&entry.key) {
                return Err(self.wrong(entry.key_span, format!("{} is written twice", entry.key)));
            }
            if entry.key == "thorium" {
                continue;
            }
            let value = match &entry.value.value {
                Value::String(text) => text.to_string(),
                Value::Bool(truth) => truth.to_string(),
                other => {
                    return Err(self.wrong(entry.value.span, format!("an option cannot be {}", other.kind())));
                }
            };
            options.set(&entry.key, &value).map_err(|error| self.wrong(entry.key_span, error.to_string()))?;
        }
        Ok(options)
    }

    /// Parses the option that the world has, not the evaluator.
    fn thorium(&self, node: &Node<'_>) -> ReadResult<Option<thorium::Reading>> {
        let Some(written) = node.get("options").and_then(|options| options.get("thorium")) else {
            return Ok(None);
        };
        match written.as_str() {
            Some("document") => Ok(Some(thorium::Reading::Document)),
            Some("program") => Ok(Some(thorium::Reading::Program)),
            _ => Err(self.wrong(written.span, "option thorium is document or program")),
        }
    }

    fn admission_test<'n>(&self, node: &'n Node<'n>) -> ReadResult<AdmissionTest<'n>> {
        self.keys(node, &["kind", "apiVersion", "name", "description", "world", "cases"])?;
        let cases = self
            .items(node, "cases")?
            .iter()
            .map(|case| self.admission_case(case))
            .collect::<ReadResult<Vec<_>>>()?;
        if cases.is_empty() {
            return Err(self.wrong(node.span, "an AdmissionTest needs at least one case"));
        }
        Ok(AdmissionTest {
            name: self.text(node, "name")?.unwrap_or_default(),
            world: self.texts(node, "world")?,
            cases,
            at: self.source.location(node.span),
        })
    }

    fn admission_case<'n>(&self, node: &'n Node<'n>) -> ReadResult<AdmissionCase<'n>> {
        self.keys(
            node,
            &["name", "description", "operation", "old", "object", "expect", "field", "message"],
        )?;
        let operation = self.text(node, "operation")?;
        let object = |key: &str| {
            node.get(key)
                .ok_or_else(|| self.wrong(node.span, format!("this operation needs the field {key}")))
        };
        let operation = match operation.as_deref() {
            None | Some("create") => Operation::Create(object("object")?),
            Some("update") => Operation::Update(object("old")?, object("object")?),
            Some("delete") => Operation::Delete(object("old")?),
            Some(other) => {
                return Err(
                    self.wrong(node.span, format!("no operation {other:?}: create, update or delete"))
                );
            }
        };
        let accept = match self.text(node, "expect")?.as_deref() {
            Some("accept") => true,
            Some("reject") => false,
            _ => return Err(self.wrong(node.span, "a case needs expect: accept or reject")),
        };
        Ok(AdmissionCase {
            name: self.text(node, "name")?.unwrap_or_default(),
            operation,
            accept,
            field: self.text(node, "field")?,
            message: self.text(node, "message")?,
            at: self.source.location(node.span),
        })
    }

    // helpers

    fn wrong(&self, span: Span, message: impl Into<String>) -> Box<Diagnostic> {
        Box::new(Diagnostic::new(&codes::BAD_TEST, message).at(Some(self.source.location(span))))
    }

    fn keys(&self, node: &Node<'_>, known: &[&str]) -> ReadResult<()> {
        let Value::Map(entries) = &node.value else {
            return Err(self.wrong(node.span, format!("expected a mapping, found {}", node.value.kind())));
        };
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        if let Some(twice) = entries.iter().find(|entry| !seen.insert(&entry.key)) {
            return Err(self.wrong(twice.key_span, format!("{} is written twice", twice.key)));
        }
        match entries.iter().find(|entry| !known.contains(&&*entry.key)) {
            None => Ok(()),
            Some(entry) => {
                let mut wrong = self.wrong(entry.key_span, format!("unknown field {:?}", entry.key));
                wrong.help = Some(match nearest(&entry.key, known.iter().copied()).first() {
                    Some(near) => format!("did you mean {near}?"),
                    None => format!("the fields are {}", known.join(", ")),
                });
                Err(wrong)
            }
        }
    }

    fn text(&self, node: &Node<'_>, key: &str) -> ReadResult<Option<SmolStr>> {
        match node.get(key).map(|node| (&node.value, node.span)) {
            None | Some((Value::Null, _)) => Ok(None),
            Some((Value::String(text), _)) => Ok(Some(text.as_ref().into())),
            Some((other, span)) => {
                Err(self.wrong(span, format!("{key} is {}, not text: put it in quotes", other.kind())))
            }
        }
    }

    fn texts(&self, node: &Node<'_>, key: &str) -> ReadResult<Vec<SmolStr>> {
        let item = |item: &Node<'_>| match item.as_str() {
            Some(text) => Ok(text.into()),
            None => Err(self.wrong(item.span, format!("{key} is a list of paths"))),
        };
        self.items(node, key)?.iter().map(item).collect()
    }

    fn items<'n>(&self, node: &'n Node<'n>, key: &str) -> ReadResult<&'n [Node<'n>]> {
        match node.get(key).map(|node| (&node.value, node.span)) {
            None | Some((Value::Null, _)) => Ok(&[]),
            Some((Value::List(items), _)) => Ok(items),
            Some((other, span)) => Err(self.wrong(span, format!("{key} is {}, not a list", other.kind()))),
        }
    }
}
