//! Map as JSON, a row a line, so that consumers can stream it.

use std::collections::HashMap;

use serde::Serialize;

use super::reasons::ReasonJson;
use super::{MapContext, MapEnd, MapRow, MapSummary, Printer};
use crate::json::DiagnosticJson;
use crate::peers::{AddressRangeJson, AllowedJson, EmptyJson, NodesJson, PeerJson};
use crate::text::Text;
use crate::text::documents::json_line;

// The document is streamed: these two types exist for the schema. A large map has many millions of rows and few distinct
// parts, which are serialized once.

/// What `map --output json` prints.
#[cfg(any(test, feature = "schema"))]
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Document")]
pub struct MapJson {
    /// One row for each pair with something allowed. Ranges of one workload and direction never overlap.
    pub connections: Vec<MapRowJson>,
    /// The same with nodes at one end, where there are Node objects. A pod's own node always reaches it, whatever
    /// stands here.
    pub nodes: Vec<MapRowJson>,
    #[allow(missing_docs, reason = "a comment would be a description in docs/schemas")]
    pub summary: MapCountsJson,
    /// What of the input makes the answer less sure: errors, and what was left out or read as something else.
    pub input_problems: Vec<DiagnosticJson>,
}

/// What one end may send the other.
#[cfg(any(test, feature = "schema"))]
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Row")]
pub struct MapRowJson {
    /// Who opens the connections.
    pub src: PeerJson,
    /// Who receives them; never the ingress controller.
    pub dst: PeerJson,
    /// What both sides let through, between some pods of the two, over the address family that they prefer.
    pub allowed: AllowedJson,
    /// The same over the other family, where they have both and it is something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_family: Option<AllowedJson>,
    /// `false` where pods of the two are not alike, and `allowed` is what some of them may send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uniform: Option<bool>,
    /// With `--explain`: who decided, egress first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Vec<ReasonJson>>,
}

/// How much there is.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Counts"))]
#[serde(rename_all = "camelCase")]
pub struct MapCountsJson {
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

/// Printer of rows as JSON.
#[derive(Debug, Default)]
pub struct JsonPrinter {
    /// Each workload as an end, serialized.
    workloads: Vec<Text>,
    /// Each set of traffic, serialized.
    allowed: HashMap<u32, Text>,
    problems: Vec<DiagnosticJson>,
    /// Whether the current list has a row already.
    separated: bool,
    in_nodes: bool,
}

// === impl JsonPrinter ===

impl JsonPrinter {
    /// Creates a printer that appends `problems` of the input.
    pub fn new(problems: Vec<DiagnosticJson>) -> Self {
        JsonPrinter { problems, ..JsonPrinter::default() }
    }

    fn close(&mut self, out: &mut Text) {
        out.push_own(if self.separated { "\n  ]" } else { "]" });
        self.separated = false;
    }
}

impl<'m> Printer<'m> for JsonPrinter {
    fn begin(&mut self, context: &MapContext<'m>, out: &mut Text) {
        self.workloads =
            context.workloads.iter().map(|workload| json_line(&PeerJson::from(&workload.name))).collect();
        out.push_own("{\n  \"connections\": [");
    }

    fn row(&mut self, context: &MapContext<'m>, line: MapRow<'m>, out: &mut Text) {
        let nodes = matches!(line.source, MapEnd::Nodes(_)) || matches!(line.destination, MapEnd::Nodes(_));
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
                MapEnd::Workload(at) => match self.workloads.get(*at) {
                    Some(workload) => out.push(workload),
                    None => out.push_own("null"),
                },
                other => out.push(&json_line(&other_peer(other))),
            }
        }
        let allowed = self.allowed.entry(line.allowed.id);
        out.push_own(",\"allowed\":");
        out.push(allowed.or_insert_with(|| json_line(&AllowedJson::from(&line.allowed.connections))));
        if let Some(other) = &line.other {
            out.push_own(",\"otherFamily\":");
            out.push(&json_line(&AllowedJson::from(&other.connections)));
        }
        if !line.uniform {
            out.push_own(",\"uniform\":false");
        }
        if context.explain {
            let why: Vec<ReasonJson> = line.why.iter().map(ReasonJson::from).collect();
            out.push_own(",\"why\":");
            out.push(&json_line(&why));
        }
        out.push_own("}");
    }

    fn end(&mut self, _facts: &MapContext<'m>, summary: &MapSummary, out: &mut Text) {
        self.close(out);
        if !self.in_nodes {
            out.push_own(",\n  \"nodes\": []");
        }
        out.push_own(",\n  \"summary\": ");
        let MapSummary { workloads, pairs, connected, left_out, .. } = *summary;
        out.push(&json_line(&MapCountsJson { workloads, pairs, connected, left_out }));
        out.push_own(",\n  \"inputProblems\": ");
        out.push(&json_line(&self.problems));
        out.push_own("\n}\n");
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde wants it
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Returns an end other than a workload.
fn other_peer(end: &MapEnd<'_>) -> Option<PeerJson> {
    match end {
        MapEnd::Workload(_) => None,
        MapEnd::Range(from, to) => Some(PeerJson::Range(AddressRangeJson { from: *from, to: *to })),
        MapEnd::IngressController => Some(PeerJson::IngressController(EmptyJson {})),
        MapEnd::Nodes(names) => {
            let names = names.as_ref().map(|names| names.iter().map(ToString::to_string).collect());
            Some(PeerJson::Node(NodesJson { every: names.is_none(), names: names.unwrap_or_default() }))
        }
    }
}
