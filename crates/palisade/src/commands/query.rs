//! `palisade query`.

use palisade_analysis::diff::{Diff, Findings, Select};
use palisade_analysis::lint::dangling;
use palisade_analysis::map::{Level, Map};
use palisade_analysis::query::{Must, NoAnswer, Query, QueryError, answer};
use palisade_analysis::reach::cells::Cells;
use palisade_analysis::reach::cuts::Cuts;
use palisade_model::address::Family;
use palisade_model::diagnostic::Diagnostic;
use palisade_model::evaluate::evaluate;
use palisade_model::flow::Flow;
use palisade_model::options::Options;
use palisade_model::snapshot::Snapshot;
use palisade_model::trace::Verdict;

use super::diff::{evaluation, families};
use super::explain::names;
use super::reservations::{reservations, weighty};
use super::{NO, UNANSWERED, YES};
use crate::Outcome;
use crate::cli::{ColorChoice, QueryArgs, QueryOutput};
use crate::input;
use crate::print::diff::{Facts, text};
use crate::print::explain::explanation;
use crate::print::json::{self, Explanation};
use crate::print::query::{Compared, Document, Said, words};
use crate::print::style::Look;

/// What was said so far. A query that has no answer keeps no other from its own.
struct Telling<'a> {
    arguments: &'a QueryArgs,
    options: Options,
    look: Look,
    out: String,
    document: Document,
    /// Why something has no answer.
    failures: Vec<String>,
}

pub fn run(arguments: &QueryArgs, color: ColorChoice) -> Outcome {
    let errors = Look::stderr(color);
    match asked(arguments, color, errors) {
        Ok(outcome) => outcome,
        Err(message) => Outcome { out: String::new(), err: failed(&[message], errors), code: UNANSWERED },
    }
}

fn failed(messages: &[String], errors: Look) -> String {
    messages.iter().map(|message| format!("{} {message}\n", errors.bad("error:"))).collect()
}

fn asked(arguments: &QueryArgs, color: ColorChoice, errors: Look) -> Result<Outcome, String> {
    if arguments.queries.is_empty() && arguments.within.is_empty() && arguments.equals.is_empty() {
        return Err("nothing is asked: write a query, or --within or --equals and another set of manifests"
            .to_owned());
    }
    let options = evaluation(&arguments.reading)?;
    let (snapshot, found) = world(&arguments.input.files, arguments)?;
    let mut warnings = reservations(&found, errors);
    let mut telling = Telling {
        arguments,
        options,
        look: Look::stdout(color),
        out: String::new(),
        document: Document {
            holds: true,
            queries: Vec::new(),
            compared: Vec::new(),
            input_problems: weighty(&found).map(json::Diagnostic::from).collect(),
        },
        failures: Vec::new(),
    };
    telling.queries(&snapshot);
    for (paths, how) in [(&arguments.within, "within"), (&arguments.equals, "equals")] {
        if paths.is_empty() {
            continue;
        }
        match world(paths, arguments) {
            Ok((other, found)) => {
                warnings.push_str(&reservations(&found, errors));
                telling.document.input_problems.extend(weighty(&found).map(json::Diagnostic::from));
                telling.compare(&snapshot, &other, how);
            }
            Err(refusal) => telling.failures.push(refusal),
        }
    }
    let Telling { mut out, mut document, failures, .. } = telling;
    let code = match (failures.is_empty(), document.holds) {
        (false, _) => UNANSWERED,
        (true, true) => YES,
        (true, false) => NO,
    };
    document.holds &= failures.is_empty();
    if arguments.output == QueryOutput::Json {
        out = json::print(&document);
    }
    Ok(Outcome { out, err: failed(&failures, errors) + &warnings, code })
}

/// The cluster of some paths, and what was found while reading.
fn world(paths: &[String], arguments: &QueryArgs) -> Result<(Snapshot, Vec<Diagnostic>), String> {
    let names = names(&arguments.dns)?;
    let mut read = input::read(paths);
    if let Some(refusal) = read.refusal() {
        return Err(refusal);
    }
    let mut objects = input::world(&mut read, arguments.thorium).into_objects();
    for (name, addresses) in names {
        objects.names.entry(name).or_default().extend(addresses);
    }
    let snapshot = Snapshot::new(objects);
    read.found.extend(dangling(&snapshot));
    Ok((snapshot, read.found))
}

// === impl Telling ===

impl Telling<'_> {
    /// Answers every query that can be answered.
    fn queries(&mut self, snapshot: &Snapshot) {
        if self.arguments.queries.is_empty() {
            return;
        }
        let cuts = Cuts::of([snapshot]);
        let mut cells = Cells::new(cuts.line().clone());
        let map = Map::new(snapshot, &self.options, Level::Pods, &cuts, &mut cells);
        let wanted = families(self.arguments.reading.family, [&map], &cuts);
        for text in &self.arguments.queries {
            let query: Query = match text.parse() {
                Ok(query) => query,
                Err(error) => {
                    self.fail(text, &unreadable(text, &error));
                    continue;
                }
            };
            let found = match answer(&map, &query, &wanted, &cuts, &mut cells) {
                Ok(found) => found,
                Err(error) => {
                    self.fail(text, &self.missed(&error));
                    continue;
                }
            };
            let fails = query.must.filter(|must| !found.holds(*must));
            self.document.holds &= fails.is_none();
            let against = fails.and_then(|must| Some((must, found.counterexample(must)?)));
            match self.arguments.output {
                QueryOutput::Json => {
                    let mut said = Said::new(snapshot, &query, &found, &cells);
                    let flow = against.map(|(_, flow)| flow);
                    said.counterexample =
                        flow.map(|flow| Explanation::new(snapshot, &evaluate(snapshot, flow, &self.options)));
                    self.document.queries.push(said);
                }
                QueryOutput::Text => {
                    self.out.push_str(&words(snapshot, &query, &found, &cells, self.look));
                    if let Some((must, flow)) = against {
                        match trace(snapshot, flow, must, &self.options, self.look) {
                            Ok(reasons) => self.out.push_str(&reasons),
                            Err(bug) => self.failures.push(bug),
                        }
                    }
                }
            }
        }
    }

    fn fail(&mut self, query: &str, message: &str) {
        self.document.queries.push(Said::failed(query, message));
        self.failures.push(format!("{:?}: {message}", query.trim()));
    }

    /// Why a query that can be read has no answer.
    fn missed(&self, error: &NoAnswer) -> String {
        let place = input::describe(&self.arguments.input.files);
        let help = match error.near() {
            [] => String::new(),
            near => format!("\n  did you mean {}?", near.join(", ")),
        };
        format!("{error} in {place}{help}")
    }

    /// Whether one set lets through nothing that the other does not, or the same.
    fn compare(&mut self, own: &Snapshot, other: &Snapshot, how: &'static str) {
        let (arguments, look) = (self.arguments, self.look);
        let cuts = Cuts::of([own, other]);
        let mut cells = Cells::new(cuts.line().clone());
        let level = if arguments.reading.pods { Level::Pods } else { Level::Workloads };
        let diff = Diff::new(other, own, &self.options, level, &cuts, &mut cells);
        let select =
            Select { ignore_self: arguments.reading.ignore_self, families: vec![Family::V4, Family::V6] };
        let mut findings = Findings::of(&diff, &select, &cuts, &mut cells);
        let within = how == "within";
        if within {
            findings.list.retain(|finding| finding.opens);
            findings.closed = 0;
        }
        let holds = findings.list.is_empty();
        let paths = if within { &arguments.within } else { &arguments.equals };
        let (name, verb) = (input::describe(paths), if within { "within" } else { "equal to" });
        let sign = if holds { look.good("HOLDS ") } else { look.bad("FAILS ") };
        let files = input::describe(&arguments.input.files);
        self.out.push_str(&format!("{sign}  {files} is {verb} {name}\n"));
        self.document.compared.push(Compared { how, with: name.clone(), holds });
        self.document.holds &= holds;
        if !holds {
            let (names, most) = ((name, files), Some(20));
            let facts = Facts { diff: &diff, findings: &findings, select: &select, cuts: &cuts, names, most };
            self.out.push_str(&text(&facts, &cells, look));
        }
    }
}

/// Why a query cannot be read, without saying all of it twice.
fn unreadable(text: &str, error: &QueryError) -> String {
    match error {
        QueryError::Arrow(_) => error.to_string().replace(&format!("{text:?}"), "this"),
        _ => error.to_string(),
    }
}

/// The connection that speaks against a query, with its reasons. The evaluator has the last word.
fn trace(
    snapshot: &Snapshot,
    flow: &Flow,
    must: Must,
    options: &Options,
    look: Look,
) -> Result<String, String> {
    let evaluation = evaluate(snapshot, flow, options);
    let allowed = evaluation.verdict == Verdict::Allow;
    let agrees = match must {
        Must::BeEmpty => allowed,
        Must::NotBeEmpty => !allowed,
        Must::BeFull => !allowed || !evaluation.conditions().is_empty(),
    };
    if !agrees {
        return Err(format!(
            "the map and the plain evaluator disagree about {flow:?}: this is a bug, please report it"
        ));
    }
    let text = explanation(snapshot, &evaluation, look, false);
    Ok(text.lines().map(|line| format!("        {line}\n")).collect())
}
