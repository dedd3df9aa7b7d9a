//! Answers to queries as text and JSON.

use std::fmt::Write;

use palisade_analysis::map::connections;
use palisade_analysis::query::{Assertion, Query, QueryAnswer};
use palisade_analysis::reach::cells::Cells;
use palisade_analysis::reach::traffics::{TrafficId, Traffics};
use palisade_model::snapshot::Snapshot;
use serde::Serialize;

use super::caveats;
use super::diagnostics::plural;
use super::json::{DiagnosticJson, ExplanationJson};
use super::peers::AllowedJson;
use super::style::Look;
use crate::text::{NL, Text};

/// Everything that was asked, in JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Document"))]
#[serde(rename_all = "camelCase")]
pub struct QueryJson {
    /// Whether all that must hold does; `false` also where a query has no answer.
    pub holds: bool,
    #[allow(missing_docs, reason = "a comment would be a description in docs/schemas")]
    pub queries: Vec<QueryAnswerJson>,
    /// What came of `--within` and `--equals`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compared: Vec<ComparisonJson>,
    /// What of the input makes the answer less sure: errors, and what was left out or read as something else.
    pub input_problems: Vec<DiagnosticJson>,
}

/// One query.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Said"))]
#[serde(rename_all = "camelCase")]
pub struct QueryAnswerJson {
    #[allow(missing_docs, reason = "a comment would be a description in docs/schemas")]
    pub query: String,
    /// Why it has no answer; there is nothing else then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether what must hold does; nothing where nothing must.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds: Option<bool>,
    /// How many pairs of endpoints it is about, over each family of addresses that both have. Addresses outside that no
    /// policy tells apart are one endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pairs: Option<usize>,
    /// What some pair may do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub some: Option<AllowedJson>,
    /// What every pair may do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<AllowedJson>,
    /// What of it some pair may do only on condition (layer 7): not enough for `is full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditional: Option<AllowedJson>,
    /// A connection that speaks against what must hold; none shows that nothing at all is let through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counterexample: Option<ExplanationJson>,
    /// Rules that the answer depends on and that cannot be judged: those about names whose addresses are not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Sorts of pairs that the answer says nothing about, because that takes too much work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<usize>,
}

/// Two sets of manifests, in JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Compared"))]
#[serde(rename_all = "camelCase")]
pub struct ComparisonJson {
    /// `within` or `equals`.
    pub how: &'static str,
    /// The other set.
    pub with: String,
    /// Whether it is so; `false` also where that is not known.
    pub holds: bool,
    /// Where it is not known: workloads that were not compared, because that takes too much work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<usize>,
    /// A connection that speaks against it, as it is here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counterexample: Option<ExplanationJson>,
    /// For pods that are not there, where nothing speaks against it for those that are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub potential: Option<String>,
}

/// Maximum number of distinct traffic sets listed for the pairs of a query.
const MAX_LISTED: usize = 4;

// === impl Said ===

impl QueryAnswerJson {
    /// Creates the answer to a query.
    pub fn new(snapshot: &Snapshot, query: &Query, found: &QueryAnswer, cells: &Cells) -> Self {
        let allowed = |traffic: TrafficId| AllowedJson::from(&connections(traffic, cells));
        QueryAnswerJson {
            query: query.text.clone(),
            holds: query.assertion.map(|assertion| found.holds(assertion)),
            pairs: Some(found.pairs),
            some: Some(allowed(found.some)),
            every: Some(allowed(found.every)),
            conditional: (found.conditional != Traffics::EMPTY).then(|| allowed(found.conditional)),
            notes: found.caveats.iter().map(|caveat| caveats::describe(snapshot, caveat)).collect(),
            left_out: (found.left_out > 0).then_some(found.left_out),
            ..QueryAnswerJson::default()
        }
    }

    /// Creates the entry of a query without an answer.
    pub fn failed(query: &str, error: &str) -> Self {
        QueryAnswerJson {
            query: query.trim().to_owned(),
            error: Some(error.to_owned()),
            ..QueryAnswerJson::default()
        }
    }
}

/// Prints whether a query holds, and the traffic allowed.
pub fn answer_text(
    snapshot: &Snapshot,
    query: &Query,
    found: &QueryAnswer,
    cells: &Cells,
    look: Look,
) -> Text {
    let sign = match query.assertion.map(|assertion| found.holds(assertion)) {
        Some(true) => look.good("HOLDS "),
        Some(false) => look.bad("FAILS "),
        None => look.strong("ANSWER"),
    };
    let mut out = text!("{sign}  {}{NL}        {}{NL}", query.text, let_through(found, cells));
    if found.conditional != Traffics::EMPTY {
        let conditional = connections(found.conditional, cells);
        write_line!(out, "        {conditional} only on condition (layer 7), for some of them");
    }
    if query.assertion == Some(Assertion::NotBeEmpty) && !found.holds(Assertion::NotBeEmpty) {
        out.push_own("        no single connection shows it: every one of them is refused\n");
    }
    if found.left_out > 0 {
        let left_out = plural(found.left_out, "sort");
        write_line!(out, "        left out {left_out} of pairs: they take too much work");
    }
    out.push(&caveats::notes(snapshot, &found.caveats, 8, look));
    out
}

/// Describes the traffic allowed, by number of pairs: `all is let through for 1 of 2 pairs; nothing for 1`.
fn let_through(found: &QueryAnswer, cells: &Cells) -> String {
    let traffic_text = |traffic: &TrafficId| connections(*traffic, cells).to_string();
    let nothing = found.by_traffic.get(&Traffics::EMPTY);
    let something = found.by_traffic.iter().filter(|(traffic, _)| **traffic != Traffics::EMPTY);
    let mut something: Vec<(&TrafficId, &usize)> = something.collect();
    something.sort_by_key(|(_, pairs)| std::cmp::Reverse(**pairs));
    if found.by_traffic.len() < 2 {
        let what = something.first().map_or("nothing".to_owned(), |(traffic, _)| traffic_text(traffic));
        return match found.pairs {
            1 => format!("{what} is let through, for 1 pair"),
            pairs => format!("{what} is let through, for all of {pairs} pairs"),
        };
    }
    let listed = something.len().min(MAX_LISTED);
    let (shown, hidden) = something.split_at(listed);
    let mut parts: Vec<(String, usize)> =
        shown.iter().map(|(traffic, pairs)| (traffic_text(traffic), **pairs)).collect();
    if !hidden.is_empty() {
        parts.push(("something else".to_owned(), hidden.iter().map(|(_, pairs)| **pairs).sum()));
    }
    parts.extend(nothing.map(|pairs| ("nothing".to_owned(), *pairs)));
    let mut out = String::new();
    for (index, (what, pairs)) in parts.into_iter().enumerate() {
        let _ = match index {
            0 => write!(out, "{what} is let through for {pairs} of {} pairs", found.pairs),
            _ => write!(out, "; {what} for {pairs}"),
        };
    }
    out
}
