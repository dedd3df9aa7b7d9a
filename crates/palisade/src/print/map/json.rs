//! A map for programs, a row a line: whoever reads it need not hold all of it either.

use std::collections::HashMap;

use serde::Serialize;

use super::reasons::Because;
use super::{End, Facts, Line, Printer, Summary};
use crate::print::json::Diagnostic;
use crate::print::peers::{Allowed, Empty, Nodes, Peer, Range};

/// What `map --output json` prints. It is written piece by piece, and never whole: as a type it is there for the schema.
#[cfg(test)]
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document<'d> {
    /// One row for each pair with something allowed. Ranges of one workload and direction never overlap.
    pub connections: Vec<Row<'d>>,
    /// The same with nodes at one end, where there are Node objects. A pod's own node always reaches it, whatever
    /// stands here.
    pub nodes: Vec<Row<'d>>,
    pub summary: Counts,
    /// What of the input makes the answer less sure: errors, and what was left out or read as something else.
    pub input_problems: Vec<Diagnostic>,
}

/// What one end may send the other.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Row<'d> {
    /// Who opens the connections.
    pub src: &'d Peer,
    /// Who receives them; never the ingress controller.
    pub dst: &'d Peer,
    /// What both sides let through, between some pods of the two, over the address family that they prefer.
    pub allowed: &'d Allowed,
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Counts {
    /// Workloads that are asked about.
    pub workloads: usize,
    /// Pairs of workloads that are asked about.
    pub pairs: usize,
    /// How many of them may send something.
    pub connected: usize,
}

/// Prints rows as JSON.
#[derive(Debug, Default)]
pub struct Json {
    workloads: Vec<Peer>,
    allowed: HashMap<u32, Allowed>,
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

    fn close(&mut self, out: &mut String) {
        out.push_str(if self.separated { "\n  ]" } else { "]" });
        self.separated = false;
    }
}

impl<'m> Printer<'m> for Json {
    fn begin(&mut self, facts: &Facts<'m>, out: &mut String) {
        self.workloads = facts.workloads.iter().map(|workload| Peer::from(&workload.name)).collect();
        out.push_str("{\n  \"connections\": [");
    }

    fn row(&mut self, facts: &Facts<'m>, line: Line<'m>, out: &mut String) {
        let nodes = matches!(line.source, End::Nodes(_)) || matches!(line.destination, End::Nodes(_));
        if nodes && !self.in_nodes {
            self.close(out);
            out.push_str(",\n  \"nodes\": [");
            self.in_nodes = true;
        }
        let (src, dst) = (other_peer(&line.source), other_peer(&line.destination));
        let allowed = self.allowed.entry(line.allowed.id);
        let allowed = &*allowed.or_insert_with(|| Allowed::from(&line.allowed.connections));
        let end = |end: &End<'m>| match end {
            End::Workload(at) => self.workloads.get(*at),
            _ => None,
        };
        let (Some(src), Some(dst)) =
            (src.as_ref().or(end(&line.source)), dst.as_ref().or(end(&line.destination)))
        else {
            return;
        };
        let row = Row {
            src,
            dst,
            allowed,
            other_family: line.other.as_ref().map(|other| Allowed::from(&other.connections)),
            uniform: (!line.uniform).then_some(false),
            why: facts.explain.then(|| line.why.iter().map(Because::from).collect()),
        };
        out.push_str(if self.separated { ",\n    " } else { "\n    " });
        self.separated = true;
        push(&row, out);
    }

    fn end(&mut self, _facts: &Facts<'m>, summary: &Summary, out: &mut String) {
        self.close(out);
        if !self.in_nodes {
            out.push_str(",\n  \"nodes\": []");
        }
        out.push_str(",\n  \"summary\": ");
        let Summary { workloads, pairs, connected, .. } = *summary;
        push(&Counts { workloads, pairs, connected }, out);
        out.push_str(",\n  \"inputProblems\": ");
        push(&self.problems, out);
        out.push_str("\n}\n");
    }
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

fn push(value: &impl Serialize, out: &mut String) {
    // None of these types can fail to serialise: no maps with odd keys, no numbers that JSON lacks.
    out.push_str(&serde_json::to_string(value).unwrap_or_default());
}
