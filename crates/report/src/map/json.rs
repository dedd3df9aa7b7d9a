//! A map for programs, a row a line: whoever reads it need not hold all of it either.

use std::collections::HashMap;

use serde::Serialize;

use super::reasons::Because;
use super::{End, Facts, Line, Printer, Summary};
use crate::json::Diagnostic;
use crate::peers::{Allowed, Empty, Nodes, Peer, Range};
use crate::text::Text;
use crate::text::documents::json_line;

// Written piece by piece, and never whole: as types, this and its rows are there for the schema. A large map has many
// millions of rows and few different parts, most of them known from rows before.

/// What `map --output json` prints.
#[cfg(any(test, feature = "schema"))]
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// One row for each pair with something allowed. Ranges of one workload and direction never overlap.
    pub connections: Vec<Row>,
    /// The same with nodes at one end, where there are Node objects. A pod's own node always reaches it, whatever
    /// stands here.
    pub nodes: Vec<Row>,
    #[allow(missing_docs, reason = "a comment would be a description in docs/schemas")]
    pub summary: Counts,
    /// What of the input makes the answer less sure: errors, and what was left out or read as something else.
    pub input_problems: Vec<Diagnostic>,
}

/// What one end may send the other.
#[cfg(any(test, feature = "schema"))]
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Who opens the connections.
    pub src: Peer,
    /// Who receives them; never the ingress controller.
    pub dst: Peer,
    /// What both sides let through, between some pods of the two, over the address family that they prefer.
    pub allowed: Allowed,
    /// The same over the other family, where they have both and it is something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_family: Option<Allowed>,
    /// `false` where pods of the two are not alike, and `allowed` is what some of them may send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uniform: Option<bool>,
    /// With `--explain`: who decided, egress first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Vec<Because>>,
}

/// How much there is.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Workloads that are asked about.
    pub workloads: usize,
    /// Pairs of workloads that are asked about.
    pub pairs: usize,
    /// How many of them may send something.
    pub connected: usize,
    /// Workloads whose rows are missing, because the rest of the answer takes too much work.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: usize,
}

/// Prints rows as JSON.
#[derive(Debug, Default)]
pub struct Json {
    /// Each workload as an end, and each set of traffic, as they are written.
    workloads: Vec<Text>,
    allowed: HashMap<u32, Text>,
    problems: Vec<Diagnostic>,
    /// Whether a row of the list stands there already.
    separated: bool,
    in_nodes: bool,
}

// === impl Json ===

impl Json {
    /// With what of the input makes the answer less sure.
    pub fn new(problems: Vec<Diagnostic>) -> Self {
        Json { problems, ..Json::default() }
    }

    fn close(&mut self, out: &mut Text) {
        out.push_own(if self.separated { "\n  ]" } else { "]" });
        self.separated = false;
    }
}

impl<'m> Printer<'m> for Json {
    fn begin(&mut self, facts: &Facts<'m>, out: &mut Text) {
        self.workloads =
            facts.workloads.iter().map(|workload| json_line(&Peer::from(&workload.name))).collect();
        out.push_own("{\n  \"connections\": [");
    }

    fn row(&mut self, facts: &Facts<'m>, line: Line<'m>, out: &mut Text) {
        let nodes = matches!(line.source, End::Nodes(_)) || matches!(line.destination, End::Nodes(_));
        if nodes && !self.in_nodes {
            self.close(out);
            out.push_own(",\n  \"nodes\": [");
            self.in_nodes = true;
        }
        out.push_own(if self.separated { ",\n    {" } else { "\n    {" });
        self.separated = true;
        for (key, end) in [("\"src\":", &line.source), (",\"dst\":", &line.destination)] {
            out.push_own(key);
            match end {
                End::Workload(at) => match self.workloads.get(*at) {
                    Some(workload) => out.push(workload),
                    None => out.push_own("null"),
                },
                other => out.push(&json_line(&other_peer(other))),
            }
        }
        let allowed = self.allowed.entry(line.allowed.id);
        out.push_own(",\"allowed\":");
        out.push(allowed.or_insert_with(|| json_line(&Allowed::from(&line.allowed.connections))));
        if let Some(other) = &line.other {
            out.push_own(",\"otherFamily\":");
            out.push(&json_line(&Allowed::from(&other.connections)));
        }
        if !line.uniform {
            out.push_own(",\"uniform\":false");
        }
        if facts.explain {
            let why: Vec<Because> = line.why.iter().map(Because::from).collect();
            out.push_own(",\"why\":");
            out.push(&json_line(&why));
        }
        out.push_own("}");
    }

    fn end(&mut self, _facts: &Facts<'m>, summary: &Summary, out: &mut Text) {
        self.close(out);
        if !self.in_nodes {
            out.push_own(",\n  \"nodes\": []");
        }
        out.push_own(",\n  \"summary\": ");
        let Summary { workloads, pairs, connected, stopped: left_out, .. } = *summary;
        out.push(&json_line(&Counts { workloads, pairs, connected, left_out }));
        out.push_own(",\n  \"inputProblems\": ");
        out.push(&json_line(&self.problems));
        out.push_own("\n}\n");
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde wants it
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// An end that is no workload.
fn other_peer(end: &End<'_>) -> Option<Peer> {
    match end {
        End::Workload(_) => None,
        End::Range(from, to) => Some(Peer::Range(Range { from: *from, to: *to })),
        End::IngressController => Some(Peer::IngressController(Empty {})),
        End::Nodes(names) => {
            let names = names.as_ref().map(|names| names.iter().map(ToString::to_string).collect());
            Some(Peer::Node(Nodes { every: names.is_none(), names: names.unwrap_or_default() }))
        }
    }
}
