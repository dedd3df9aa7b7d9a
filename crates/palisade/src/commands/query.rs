//! `palisade query`.

use std::fmt::Write;

use palisade_analysis::diff::{Beyond, Diff, Findings, Select};
use palisade_analysis::lint::dangling;
use palisade_analysis::map::{Level, Map, connections};
use palisade_analysis::query::{Answer, Must, Query, answer};
use palisade_analysis::reach::cells::Cells;
use palisade_analysis::reach::cuts::Cuts;
use palisade_model::address::Family;
use palisade_model::evaluate::evaluate;
use palisade_model::flow::Flow;
use palisade_model::options::Options;
use palisade_model::snapshot::Snapshot;
use palisade_model::trace::Verdict;
use serde::Serialize;

use super::diff::{evaluation, families};
use super::reservations::reservations;
use super::{NO, UNANSWERED, YES};
use crate::Outcome;
use crate::cli::{ColorChoice, QueryArgs, QueryOutput, ThoriumArgs};
use crate::input;
use crate::print::diff::{Facts, text};
use crate::print::explain::explanation;
use crate::print::json::{self, Explanation};
use crate::print::peers::Allowed;
use crate::print::style::Look;

/// Everything that was asked, in JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Document {
    holds: bool,
    queries: Vec<Said>,
}

/// One query.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct Said {
    query: String,
    /// Whether what must hold does; nothing where nothing must.
    #[serde(skip_serializing_if = "Option::is_none")]
    holds: Option<bool>,
    pairs: usize,
    /// What some pair may do.
    some: Allowed,
    /// What every pair may do.
    every: Allowed,
    #[serde(skip_serializing_if = "Option::is_none")]
    counterexample: Option<Explanation>,
}

pub fn run(arguments: &QueryArgs, color: ColorChoice) -> Outcome {
    let errors = Look::stderr(color);
    match asked(arguments, color, errors) {
        Ok(outcome) => outcome,
        Err(message) => Outcome {
            out: String::new(),
            err: format!("{} {message}\n", errors.bad("error:")),
            code: UNANSWERED,
        },
    }
}

fn asked(arguments: &QueryArgs, color: ColorChoice, errors: Look) -> Result<Outcome, String> {
    let queries: Vec<Query> = arguments
        .queries
        .iter()
        .map(|text| text.parse().map_err(|error: palisade_analysis::query::QueryError| error.to_string()))
        .collect::<Result<_, _>>()?;
    if queries.is_empty() && arguments.within.is_empty() && arguments.equals.is_empty() {
        return Err("nothing is asked: write a query, or --within or --equals and another set of manifests"
            .to_owned());
    }
    let options = evaluation(&arguments.reading)?;
    let (snapshot, mut err) = world(&arguments.input.files, arguments.thorium, errors)?;
    let look = Look::stdout(color);
    let (mut out, mut holds) = (String::new(), true);
    let mut said = Vec::new();
    let cuts = Cuts::of([&snapshot]);
    let mut cells = Cells::new(cuts.line().clone());
    let map = Map::new(&snapshot, &options, Level::Pods, &cuts, &mut cells);
    let wanted = families(arguments.reading.family, [&map], &cuts);
    for query in &queries {
        let found = answer(&map, query, &wanted, &cuts, &mut cells).map_err(|error| {
            format!("{:?}: {error} in {}", query.text, input::describe(&arguments.input.files))
        })?;
        let result = query.must.map(|must| found.holds(must));
        holds &= result.unwrap_or(true);
        let against =
            query.must.filter(|_| result == Some(false)).and_then(|must| found.counterexample(must));
        match arguments.output {
            QueryOutput::Json => said.push(Said {
                query: query.text.clone(),
                holds: result,
                pairs: found.pairs,
                some: Allowed::from(&connections(found.some, &cells)),
                every: Allowed::from(&connections(found.every, &cells)),
                counterexample: against
                    .map(|flow| Explanation::new(&snapshot, &evaluate(&snapshot, flow, &options))),
            }),
            QueryOutput::Text => {
                out.push_str(&words(query, &found, &cells, look));
                if let Some(flow) = against {
                    out.push_str(&trace(&snapshot, flow, query.must, &options, look)?);
                }
            }
        }
    }
    for (paths, within) in [(&arguments.within, true), (&arguments.equals, false)] {
        if paths.is_empty() {
            continue;
        }
        let (other, reserved) = world(paths, arguments.thorium, errors)?;
        err.push_str(&reserved);
        let (result, text) = compared(&snapshot, &other, within, &options, arguments, look);
        holds &= result;
        out.push_str(&text);
    }
    if arguments.output == QueryOutput::Json {
        out = json::print(&Document { holds, queries: said });
    }
    Ok(Outcome { out, err, code: if holds { YES } else { NO } })
}

fn world(paths: &[String], thorium: ThoriumArgs, errors: Look) -> Result<(Snapshot, String), String> {
    let mut read = input::read(paths);
    if let Some(refusal) = read.refusal() {
        return Err(refusal);
    }
    let snapshot = Snapshot::new(input::world(&mut read, thorium).into_objects());
    read.found.extend(dangling(&snapshot));
    Ok((snapshot, reservations(&read.found, errors)))
}

fn words(query: &Query, found: &Answer, cells: &Cells, look: Look) -> String {
    let mut out = String::new();
    let (some, every) = (connections(found.some, cells), connections(found.every, cells));
    let sign = match query.must.map(|must| found.holds(must)) {
        Some(true) => look.good("HOLDS "),
        Some(false) => look.bad("FAILS "),
        None => look.strong("ANSWER"),
    };
    let _ = writeln!(out, "{sign}  {}", query.text);
    let _ = match (found.some == found.every, query.must) {
        (true, _) => writeln!(out, "        {some} is let through, for all of {} pairs", found.pairs),
        (false, _) => {
            writeln!(out, "        {every} is let through for all of {} pairs, {some} for some", found.pairs)
        }
    };
    out
}

/// The connection that speaks against a query, with its reasons. The evaluator has the last word.
fn trace(
    snapshot: &Snapshot,
    flow: &Flow,
    must: Option<Must>,
    options: &Options,
    look: Look,
) -> Result<String, String> {
    let evaluation = evaluate(snapshot, flow, options);
    let expected = if must == Some(Must::BeEmpty) { Verdict::Allow } else { evaluation.verdict };
    if evaluation.verdict != expected || (must == Some(Must::BeFull) && evaluation.verdict == Verdict::Allow)
    {
        return Err(format!(
            "the map and the plain evaluator disagree about {flow:?}: this is a bug, please report it"
        ));
    }
    let text = explanation(snapshot, &evaluation, look, false);
    Ok(text.lines().map(|line| format!("        {line}\n")).collect())
}

/// Whether one set lets through nothing that the other does not, or the same.
fn compared(
    own: &Snapshot,
    other: &Snapshot,
    within: bool,
    options: &Options,
    arguments: &QueryArgs,
    look: Look,
) -> (bool, String) {
    let cuts = Cuts::of([own, other]);
    let mut cells = Cells::new(cuts.line().clone());
    let level = if arguments.reading.pods { Level::Pods } else { Level::Workloads };
    let diff = Diff::new(other, own, options, level, &cuts, &mut cells);
    let select =
        Select { ignore_self: arguments.reading.ignore_self, families: vec![Family::V4, Family::V6] };
    let mut findings = Findings::of(&diff, &select, &cuts, &mut cells);
    if within {
        findings.list.retain(|finding| finding.opens);
        findings.closed = 0;
    }
    let holds = findings.list.is_empty();
    let paths = if within { &arguments.within } else { &arguments.equals };
    let (name, verb) = (input::describe(paths), if within { "within" } else { "equal to" });
    let sign = if holds { look.good("HOLDS ") } else { look.bad("FAILS ") };
    let mut out = format!("{sign}  {} is {verb} {name}\n", input::describe(&arguments.input.files));
    if !holds {
        let names = (name, input::describe(&arguments.input.files));
        let facts = Facts {
            diff: &diff,
            findings: &findings,
            beyond: &Beyond::default(),
            problems: &[],
            select: &select,
            cuts: &cuts,
            names,
            most: Some(20),
        };
        out.push_str(&text(&facts, &cells, look));
    }
    (holds, out)
}
