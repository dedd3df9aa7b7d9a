//! The format: a document into a test, or a located diagnostic that says what is wrong with it.

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

/// A test, as written.
#[derive(Debug)]
pub enum Test<'n> {
    /// Flows and what must become of them.
    Policy(PolicyTest<'n>),
    /// Objects and what an API server must say to them.
    Admission(AdmissionTest<'n>),
    /// What Thorium's document promises.
    Thorium(&'n Node<'n>),
}

/// Steps that change a world, and what must hold after each.
#[derive(Debug)]
pub struct PolicyTest<'n> {
    /// Unique in the suite.
    pub name: SmolStr,
    /// Manifests loaded first.
    pub world: Vec<SmolStr>,
    /// How to decide what the APIs leave open.
    pub options: Options,
    /// How to read Thorium's documents, where the test says so.
    pub thorium: Option<thorium::Reading>,
    /// In order; objects carry over.
    pub steps: Vec<Step<'n>>,
    /// Where it starts.
    pub at: Location,
}

/// One change and what must hold after it.
#[derive(Debug)]
pub struct Step<'n> {
    /// Its name, if it has one.
    pub name: Option<SmolStr>,
    /// Files to apply.
    pub apply_files: Vec<SmolStr>,
    /// Objects to apply.
    pub apply: &'n [Node<'n>],
    /// Objects to delete, after that.
    pub delete: Vec<Deletion>,
    /// What must hold; for one flow the last line that matches it counts.
    pub expect: Vec<Expectation>,
    /// Where it starts.
    pub at: Location,
}

/// An object to delete.
#[derive(Debug)]
pub struct Deletion {
    /// The API group, where the test narrows it.
    pub group: Option<SmolStr>,
    /// The kind.
    pub kind: SmolStr,
    /// The namespace.
    pub namespace: Option<SmolStr>,
    /// The name.
    pub name: SmolStr,
    /// Where it is written.
    pub at: Location,
}

/// One line of what must hold.
#[derive(Debug)]
pub struct Expectation {
    /// What must become of the flows.
    pub outcome: Outcome,
    /// Which flows.
    pub flows: FlowPattern,
    /// The name of a policy that must have decided it.
    pub by: Option<SmolStr>,
    /// Where it is written.
    pub at: Location,
}

/// What must become of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Let through.
    Allow,
    /// Dropped silently.
    Deny,
    /// Refused with an answer.
    Reject,
    /// Either of the two.
    Block,
}

/// Requests and what an API server must answer.
#[derive(Debug)]
pub struct AdmissionTest<'n> {
    /// Unique in the suite.
    pub name: SmolStr,
    /// Manifests loaded first.
    pub world: Vec<SmolStr>,
    /// The requests.
    pub cases: Vec<AdmissionCase<'n>>,
    /// Where it starts.
    pub at: Location,
}

/// One request.
#[derive(Debug)]
pub struct AdmissionCase<'n> {
    /// Its name.
    pub name: SmolStr,
    /// What is asked.
    pub operation: Operation<'n>,
    /// Whether it must be accepted.
    pub accept: bool,
    /// The path that an error must name.
    pub field: Option<SmolStr>,
    /// What that error's text must contain.
    pub message: Option<SmolStr>,
    /// Where it starts.
    pub at: Location,
}

/// What is asked of the API server.
#[derive(Debug, Clone, Copy)]
pub enum Operation<'n> {
    /// Create this.
    Create(&'n Node<'n>),
    /// Change the first into the second.
    Update(&'n Node<'n>, &'n Node<'n>),
    /// Delete this.
    Delete(&'n Node<'n>),
}

// === impl Outcome ===

impl Outcome {
    const NAMES: [(&'static str, Outcome); 4] = [
        ("allow", Outcome::Allow),
        ("deny", Outcome::Deny),
        ("reject", Outcome::Reject),
        ("block", Outcome::Block),
    ];

    /// Whether the verdict is what was asked for.
    pub fn holds(self, verdict: Verdict) -> bool {
        match self {
            Outcome::Allow => verdict == Verdict::Allow,
            Outcome::Deny => verdict == Verdict::Deny,
            Outcome::Reject => verdict == Verdict::Reject,
            Outcome::Block => verdict != Verdict::Allow,
        }
    }

    /// The word of the format.
    pub fn as_str(self) -> &'static str {
        Outcome::NAMES.iter().find(|(_, outcome)| *outcome == self).map_or("", |(name, _)| name)
    }
}

// === reading ===

/// Reads a document that is a test; `None` when it is something else.
pub fn read<'n>(source: &Source, node: &'n Node<'n>) -> Option<Result<Test<'n>, Box<Diagnostic>>> {
    let read = Reading { source };
    match node.get("kind").and_then(Node::as_str) {
        Some("PolicyTest") => Some(read.policy_test(node).map(Test::Policy)),
        Some("AdmissionTest") => Some(read.admission_test(node).map(Test::Admission)),
        Some("ThoriumCases") => Some(Ok(Test::Thorium(node))),
        // Without an apiVersion it is no object; a misspelled test must not pass for none.
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

struct Reading<'s> {
    source: &'s Source,
}

type Read<T> = Result<T, Box<Diagnostic>>;

impl Reading<'_> {
    fn policy_test<'n>(&self, node: &'n Node<'n>) -> Read<PolicyTest<'n>> {
        self.keys(node, &["kind", "apiVersion", "name", "description", "world", "options", "steps"])?;
        let steps =
            self.items(node, "steps")?.iter().map(|step| self.step(step)).collect::<Read<Vec<_>>>()?;
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

    fn step<'n>(&self, node: &'n Node<'n>) -> Read<Step<'n>> {
        self.keys(node, &["name", "description", "applyFiles", "apply", "delete", "expect"])?;
        let expect = self
            .items(node, "expect")?
            .iter()
            .map(|line| self.expectation(line))
            .collect::<Read<Vec<_>>>()?;
        let delete =
            self.items(node, "delete")?.iter().map(|item| self.deletion(item)).collect::<Read<Vec<_>>>()?;
        Ok(Step {
            name: self.text(node, "name")?,
            apply_files: self.texts(node, "applyFiles")?,
            apply: self.items(node, "apply")?,
            delete,
            expect,
            at: self.source.location(node.span),
        })
    }

    fn deletion(&self, node: &Node<'_>) -> Read<Deletion> {
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

    fn expectation(&self, node: &Node<'_>) -> Read<Expectation> {
        self.keys(node, &["allow", "deny", "reject", "block", "by"])?;
        let mut outcomes = Outcome::NAMES.iter().filter(|(name, _)| node.get(name).is_some());
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

    fn options(&self, node: &Node<'_>) -> Read<Options> {
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

    /// The option that the world has, not the evaluator.
    fn thorium(&self, node: &Node<'_>) -> Read<Option<thorium::Reading>> {
        let Some(written) = node.get("options").and_then(|options| options.get("thorium")) else {
            return Ok(None);
        };
        match written.as_str() {
            Some("document") => Ok(Some(thorium::Reading::Document)),
            Some("program") => Ok(Some(thorium::Reading::Program)),
            _ => Err(self.wrong(written.span, "option thorium is document or program")),
        }
    }

    fn admission_test<'n>(&self, node: &'n Node<'n>) -> Read<AdmissionTest<'n>> {
        self.keys(node, &["kind", "apiVersion", "name", "description", "world", "cases"])?;
        let cases = self
            .items(node, "cases")?
            .iter()
            .map(|case| self.admission_case(case))
            .collect::<Read<Vec<_>>>()?;
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

    fn admission_case<'n>(&self, node: &'n Node<'n>) -> Read<AdmissionCase<'n>> {
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

    fn keys(&self, node: &Node<'_>, known: &[&str]) -> Read<()> {
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

    fn text(&self, node: &Node<'_>, key: &str) -> Read<Option<SmolStr>> {
        match node.get(key).map(|node| (&node.value, node.span)) {
            None | Some((Value::Null, _)) => Ok(None),
            Some((Value::String(text), _)) => Ok(Some(text.as_ref().into())),
            Some((other, span)) => {
                Err(self.wrong(span, format!("{key} is {}, not text: put it in quotes", other.kind())))
            }
        }
    }

    fn texts(&self, node: &Node<'_>, key: &str) -> Read<Vec<SmolStr>> {
        let item = |item: &Node<'_>| match item.as_str() {
            Some(text) => Ok(text.into()),
            None => Err(self.wrong(item.span, format!("{key} is a list of paths"))),
        };
        self.items(node, key)?.iter().map(item).collect()
    }

    fn items<'n>(&self, node: &'n Node<'n>, key: &str) -> Read<&'n [Node<'n>]> {
        match node.get(key).map(|node| (&node.value, node.span)) {
            None | Some((Value::Null, _)) => Ok(&[]),
            Some((Value::List(items), _)) => Ok(items),
            Some((other, span)) => Err(self.wrong(span, format!("{key} is {}, not a list", other.kind()))),
        }
    }
}
