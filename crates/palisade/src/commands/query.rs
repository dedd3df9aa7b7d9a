//! `palisade query`.

use palisade_analysis::diff::{ChangeFilter, Diff, DiffFindings, PotentialDifferences, policies_of};
use palisade_analysis::map::{Level, Map, with_ingress_controller};
use palisade_analysis::query::{Assertion, Query, QueryError, QueryRefusal, TOO_MUCH, answer};
use palisade_analysis::reach::cells::Cells;
use palisade_analysis::reach::cuts::Cuts;
use palisade_analysis::work::Work;
use palisade_lint::dangling;
use palisade_model::address::Family;
use palisade_model::diagnostic::Diagnostic;
use palisade_model::evaluate::evaluate;
use palisade_model::flow::Flow;
use palisade_model::options::Options;
use palisade_model::snapshot::{Objects, Snapshot};
use palisade_model::trace::Verdict;
use palisade_report::diff::{DiffContext, text};
use palisade_report::explain::explanation;
use palisade_report::json::{self, ExplanationJson};
use palisade_report::query::{ComparisonJson, QueryAnswerJson, QueryJson, answer_text};
use palisade_report::style::Look;
use palisade_report::text::{NL, Text};

use super::explain::names;
use super::reading::{add_names, evaluation, level, many_source_ports};
use super::reservations::{reservations, weighty};
use super::{NO, UNANSWERED, YES};
use crate::Outcome;
use crate::cli::{ColorChoice, Families, QueryArgs, QueryOutput};
use crate::input;
use crate::print::output::StreamLook;

/// What was said so far. A query that has no answer keeps no other from its own.
struct Telling<'a> {
    arguments: &'a QueryArgs,
    options: Options,
    look: Look,
    out: Text,
    document: QueryJson,
    /// Why something has no answer.
    failures: Vec<Text>,
    /// How large the manifests are.
    bytes: usize,
}

pub fn run(arguments: &QueryArgs, color: ColorChoice) -> Outcome {
    let errors = Look::stderr(color);
    match asked(arguments, color, errors) {
        Ok(outcome) => outcome,
        Err(message) => Outcome { out: Text::new(), err: failed(&[message], errors), code: UNANSWERED },
    }
}

fn failed(messages: &[Text], errors: Look) -> Text {
    messages.iter().map(|message| text!("{} {message}{NL}", errors.bad("error:"))).collect()
}

fn asked(arguments: &QueryArgs, color: ColorChoice, errors: Look) -> Result<Outcome, Text> {
    if arguments.queries.is_empty() && arguments.within.is_empty() && arguments.equals.is_empty() {
        return Err(
            "nothing is asked: write a query, or --within or --equals and another set of manifests".into()
        );
    }
    let options = evaluation(&arguments.reading)?;
    let (objects, mut found, bytes) = world(&arguments.input.files, arguments)?;
    let snapshot = Snapshot::new(objects.clone());
    found.extend(dangling(&snapshot));
    found.extend(many_source_ports(&Cuts::of([&snapshot])));
    let mut warnings = reservations(&found, errors);
    let mut telling = Telling {
        arguments,
        options,
        look: Look::stdout(color),
        out: Text::new(),
        document: QueryJson {
            holds: true,
            queries: Vec::new(),
            compared: Vec::new(),
            input_problems: weighty(&found).map(json::DiagnosticJson::from).collect(),
        },
        failures: Vec::new(),
        bytes,
    };
    telling.queries(&snapshot);
    for (paths, how) in [(&arguments.within, "within"), (&arguments.equals, "equals")] {
        if paths.is_empty() {
            continue;
        }
        match world(paths, arguments) {
            Ok((other, found, bytes)) => {
                warnings.push(&reservations(&found, errors));
                telling.document.input_problems.extend(weighty(&found).map(json::DiagnosticJson::from));
                telling.compare(&objects, (&other, bytes), how);
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
    Ok(Outcome { out, err: text!("{}{warnings}", failed(&failures, errors)), code })
}

/// The cluster of some paths, what was found while reading, and how many bytes that were.
fn world(paths: &[String], arguments: &QueryArgs) -> Result<(Objects, Vec<Diagnostic>, usize), Text> {
    let names = names(&arguments.dns)?;
    let mut read = input::read(paths);
    if let Some(refusal) = read.refusal() {
        return Err(refusal.into());
    }
    let mut objects = input::world(&mut read, arguments.thorium).into_objects();
    add_names(&mut objects, &names);
    let bytes = read.sources.iter().map(|source| source.text().len()).sum();
    Ok((objects, read.found, bytes))
}

// === impl Telling ===

impl Telling<'_> {
    /// Answers every query that can be answered.
    fn queries(&mut self, snapshot: &Snapshot) {
        if self.arguments.queries.is_empty() {
            return;
        }
        let cuts = Cuts::of([snapshot]);
        let mut cells = Cells::limited(cuts.space().clone(), Work::for_input(self.bytes));
        let map = Map::new(snapshot, &self.options, Level::Pods, &cuts, &mut cells);
        // What must never be let through must not be over either family, whoever speaks of it.
        let wanted = match self.arguments.reading.family {
            Families::Ipv4 => vec![Family::V4],
            Families::Ipv6 => vec![Family::V6],
            Families::Auto | Families::Both => vec![Family::V4, Family::V6],
        };
        for text in &self.arguments.queries {
            let query: Query = match text.parse() {
                Ok(query) => query,
                Err(error) => {
                    self.fail(text, &unreadable(text, &error).into());
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
            if query.assertion.is_some_and(|must| !found.is_decided(must)) {
                self.fail(text, &Text::own(TOO_MUCH));
                continue;
            }
            let fails = query.assertion.filter(|must| !found.holds(*must));
            self.document.holds &= fails.is_none();
            let against = fails.and_then(|must| Some((must, found.counterexample(must)?)));
            match self.arguments.output {
                QueryOutput::Json => {
                    let mut said = QueryAnswerJson::new(snapshot, &query, &found, &cells);
                    let flow = against.map(|(_, flow)| flow);
                    said.counterexample = flow
                        .map(|flow| ExplanationJson::new(snapshot, &evaluate(snapshot, flow, &self.options)));
                    self.document.queries.push(said);
                }
                QueryOutput::Text => {
                    self.out.push(&answer_text(snapshot, &query, &found, &cells, self.look));
                    if let Some((must, flow)) = against {
                        match trace(snapshot, flow, must, &self.options, self.look) {
                            Ok(reasons) => self.out.push(&reasons),
                            Err(bug) => self.failures.push(bug),
                        }
                    }
                }
            }
        }
    }

    fn fail(&mut self, query: &str, message: &Text) {
        self.document.queries.push(QueryAnswerJson::failed(query, message.as_str()));
        self.failures.push(text!("{:?}: {message}", query.trim()));
    }

    /// Why a query that can be read has no answer.
    fn missed(&self, error: &QueryRefusal) -> Text {
        let place = input::describe(&self.arguments.input.files);
        let help = match error.near() {
            [] => Text::new(),
            near => text!("{NL}  did you mean {}?", near.join(", ")),
        };
        text!("{error} in {place}{help}")
    }

    /// Whether one set lets through nothing that the other does not, or the same. Where it seems so, pods that are not
    /// there are asked about, too: where there are none, they are the answer.
    fn compare(&mut self, own: &Objects, (other, bytes): (&Objects, usize), how: &'static str) {
        let (arguments, look) = (self.arguments, self.look);
        let policies = [other, own].map(policies_of);
        let [before, after] = [other, own].map(|objects| {
            let mut objects = objects.clone();
            with_ingress_controller(&mut objects);
            Snapshot::new(objects)
        });
        let cuts = Cuts::of([&before, &after]);
        let mut cells = Cells::limited(cuts.space().clone(), Work::for_input(self.bytes + bytes));
        let level = level(&arguments.reading);
        let diff = Diff::new(&before, &after, &self.options, level, &cuts, &mut cells);
        let select = ChangeFilter {
            ignore_self: arguments.reading.ignore_self,
            families: vec![Family::V4, Family::V6],
        };
        let mut findings = DiffFindings::of(&diff, &select, &cuts, &mut cells);
        let within = how == "within";
        if within {
            findings.list.retain(|finding| finding.opens);
            findings.closed = 0;
        }
        let mut beyond = match findings.opened + findings.closed {
            0 => PotentialDifferences::of(&policies[0], &policies[1], Some(other)),
            _ => PotentialDifferences::default(),
        };
        if within {
            beyond = beyond.of_what_opens();
        }
        let potential = beyond.first();
        let differs = beyond.opens(&diff) || beyond.closes(&diff);
        let same = findings.opened + findings.closed == 0 && !differs;
        let compared = beyond.proof.is_none_or(|proof| proof.is_complete());
        let complete = diff.left_out.is_empty() && findings.unseen == 0 && compared && !cuts.coarse;
        let holds = same && complete;
        let paths = if within { &arguments.within } else { &arguments.equals };
        let (name, verb) = (input::describe(paths), if within { "within" } else { "equal to" });
        let files = input::describe(&arguments.input.files);
        let sign = match (same, complete) {
            (false, _) => look.bad("FAILS "),
            (true, true) => look.good("HOLDS "),
            (true, false) => {
                self.failures.push(text!("{files} is {verb} {name}: {TOO_MUCH}"));
                look.strong("UNKNOWN")
            }
        };
        self.out.push(&text!("{sign}  {files} is {verb} {name}{NL}"));
        let witness = findings.list.iter().find_map(|finding| diff.witness(finding, true, &cuts, &mut cells));
        let traced = witness.map(|flow| evaluate(&after, &flow, &self.options));
        self.document.compared.push(ComparisonJson {
            how,
            with: name.clone(),
            holds,
            left_out: (!complete).then(|| diff.left_out.len() + findings.unseen),
            counterexample: traced.as_ref().map(|evaluation| ExplanationJson::new(&after, evaluation)),
            potential: potential.map(ToString::to_string),
        });
        self.document.holds &= holds;
        if !same || potential.is_some() {
            let facts = DiffContext {
                diff: &diff,
                findings: &findings,
                beyond: &beyond,
                problems: &[],
                select: &select,
                cuts: &cuts,
                names: (name, files),
                most: Some(20),
            };
            self.out.push(&text(&facts, &cells, look));
        }
        if let Some(evaluation) = &traced {
            self.out.push_own("\n        for example, as it is here:\n");
            let text = explanation(&after, evaluation, look, false);
            self.out.extend(text.lines().map(|line| text!("        {line}{NL}")));
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
    must: Assertion,
    options: &Options,
    look: Look,
) -> Result<Text, Text> {
    let evaluation = evaluate(snapshot, flow, options);
    let allowed = evaluation.verdict == Verdict::Allow;
    let agrees = match must {
        Assertion::BeEmpty => allowed,
        Assertion::NotBeEmpty => !allowed,
        Assertion::BeFull => !allowed || !evaluation.conditions().is_empty(),
    };
    if !agrees {
        return Err(text!(
            "the map and the plain evaluator disagree about {flow:?}: this is a bug, please report it"
        ));
    }
    let text = explanation(snapshot, &evaluation, look, false);
    Ok(text.lines().map(|line| text!("        {line}{NL}")).collect())
}
