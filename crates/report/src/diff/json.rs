//! Diff as JSON.

use std::ops::ControlFlow;

use palisade_analysis::diff::{
    self, Counterexample, DeciderLookup, DecisionSource, SideDecision, TrafficChange, parts,
};
use palisade_analysis::map::{PairTraffic, connections};
use palisade_analysis::reach::cells::Cells;
use serde::Serialize;

use super::DiffContext;
use crate::json::{DiagnosticJson, print};
use crate::peers::{AddressRangeJson, AllowedJson, EmptyJson, NodesJson, PeerJson, WorkloadJson};
use crate::text::Text;

/// The whole document.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Document"))]
#[serde(rename_all = "camelCase")]
pub struct DiffJson {
    /// Every pair that differs.
    changes: Vec<DiffRowJson>,
    /// Workloads and nodes that differ.
    nodes: Vec<DiffRowJson>,
    /// Pods that are not like the others of their workload, where the row of the workload is the same.
    pods: Vec<DiffRowJson>,
    /// Where nothing differs: what would become of pods that are not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    potential: Option<PotentialJson>,
    workloads: WorkloadChangesJson,
    summary: DiffSummaryJson,
    /// What of the input makes the answer less sure.
    input_problems: Vec<DiagnosticJson>,
}

/// A connection each that two sets of policies treat otherwise, for pods that are not there.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Potential"))]
#[serde(rename_all = "camelCase")]
struct PotentialJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    opened: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    closed: Option<String>,
    /// For pods that are there, towards a name whose addresses are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    named_opened: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    named_closed: Option<String>,
    /// Refused before and after, and not in the same way.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    /// A rule with other conditions on layer 7, which are not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    conditions: Option<String>,
}

/// A pair that may do something else.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Row"))]
#[serde(rename_all = "camelCase")]
struct DiffRowJson {
    kind: &'static str,
    src: PeerJson,
    dst: PeerJson,
    before: AllowedJson,
    after: AllowedJson,
    /// The same over the other family of addresses, where the two have both and it is something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    before_other_family: Option<AllowedJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after_other_family: Option<AllowedJson>,
    /// What of it opens; left out where nothing does.
    #[serde(skip_serializing_if = "Option::is_none")]
    opened: Option<ChangedTrafficJson>,
    /// What of it closes.
    #[serde(skip_serializing_if = "Option::is_none")]
    closed: Option<ChangedTrafficJson>,
}

/// Some traffic, and who decides about it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Part"))]
#[serde(rename_all = "camelCase")]
struct ChangedTrafficJson {
    #[serde(flatten)]
    allowed: AllowedJson,
    decided_before: Vec<DecisionJson>,
    decided_after: Vec<DecisionJson>,
}

/// Who decided.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Decided"))]
#[serde(rename_all = "camelCase")]
struct DecisionJson {
    direction: &'static str,
    action: String,
    /// `rule`, `isolation`, `default` or `absent`.
    by: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    policies: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
}

/// Workloads that came and went.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Moved"))]
struct WorkloadChangesJson {
    added: Vec<WorkloadJson>,
    removed: Vec<WorkloadJson>,
}

/// How much there is.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema), schemars(rename = "Summary"))]
#[serde(rename_all = "camelCase")]
struct DiffSummaryJson {
    opened: usize,
    closed: usize,
    workloads: usize,
    pairs: usize,
    /// Workloads that were not compared, because that takes too much work; nothing is known about them.
    #[serde(skip_serializing_if = "is_zero")]
    left_out: usize,
}

/// Work of a row, in steps: all rows are kept until they are printed, about a kilobyte each.
const ROW_WORK: u64 = 3_000;

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde wants it
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Prints a diff as JSON.
pub fn json(context: &DiffContext<'_, '_>, cells: &mut Cells) -> Text {
    let (mut changes, mut nodes, mut pods) = (Vec::new(), Vec::new(), Vec::new());
    let mut deciders = DeciderLookup::new(context.diff, context.cuts);
    let streamed = context.diff.changes(context.select, context.cuts, cells, |cells, change| {
        cells.work().take(ROW_WORK);
        if cells.work().is_spent() {
            return ControlFlow::Break(());
        }
        let of_pods =
            |peer| matches!(peer, diff::DiffPeer::Outlier(at) if context.diff.outliers[at].of.is_some());
        let of_nodes =
            |peer| matches!(peer, diff::DiffPeer::Outlier(at) if context.diff.outliers[at].of.is_none());
        let ends = [change.source, change.destination];
        let list = match () {
            () if ends.into_iter().any(of_nodes) => &mut nodes,
            () if ends.into_iter().any(of_pods) => &mut pods,
            () => &mut changes,
        };
        list.extend(rows(context, &change, &mut deciders, cells));
        ControlFlow::Continue(())
    });
    let diff = context.diff;
    let moved = WorkloadChangesJson {
        added: diff.added().map(WorkloadJson::from).collect(),
        removed: diff.removed().map(WorkloadJson::from).collect(),
    };
    let (opened, closed) = (context.findings.opened, context.findings.closed);
    let left_out = context.diff.left_out.len()
        + context
            .findings
            .unseen
            .max(streamed.continue_value().map_or(context.workloads(), |streamed| streamed.left_out));
    let summary =
        DiffSummaryJson { opened, closed, workloads: context.workloads(), pairs: context.pairs(), left_out };
    let flow = |found: &Option<Counterexample>| found.as_ref().map(|found| found.flow.clone());
    let beyond = context.beyond;
    let potential = PotentialJson {
        opened: flow(&beyond.opened),
        closed: flow(&beyond.closed),
        named_opened: flow(&beyond.named_opened),
        named_closed: flow(&beyond.named_closed),
        refused: beyond.refused.as_ref().map(ToString::to_string),
        conditions: beyond.conditions.clone(),
    };
    let any = beyond.opened.is_some()
        || beyond.closed.is_some()
        || beyond.refused.is_some()
        || beyond.conditions.is_some();
    print(&DiffJson {
        changes,
        nodes,
        pods,
        potential: any.then_some(potential),
        workloads: moved,
        summary,
        input_problems: context.problems.iter().map(DiagnosticJson::from).collect(),
    })
}

/// Returns the rows of a change: one for each of its pods.
fn rows(
    context: &DiffContext<'_, '_>,
    change: &TrafficChange,
    deciders: &mut DeciderLookup<'_, '_>,
    cells: &mut Cells,
) -> Vec<DiffRowJson> {
    let (mut opened, mut closed) = (None, None);
    for (opens, part) in parts(change, cells) {
        let (before, after) = deciders.of(change, opens, part, cells);
        let part = ChangedTrafficJson {
            allowed: AllowedJson::from(&connections(part, cells)),
            decided_before: before.iter().map(decided).collect(),
            decided_after: after.iter().map(decided).collect(),
        };
        *(if opens { &mut opened } else { &mut closed }) = Some(part);
    }
    let allowed = |entry: &PairTraffic| AllowedJson::from(&connections(entry.allowed, cells));
    let other = |entry: &PairTraffic| entry.other.map(|other| AllowedJson::from(&connections(other, cells)));
    let row = |src: &PeerJson, dst: &PeerJson| DiffRowJson {
        kind: change.kind().as_str(),
        src: src.clone(),
        dst: dst.clone(),
        before: allowed(&change.before),
        after: allowed(&change.after),
        before_other_family: other(&change.before),
        after_other_family: other(&change.after),
        opened: opened.clone(),
        closed: closed.clone(),
    };
    let (from, to) = (peers(change.source, context), peers(change.destination, context));
    from.iter().flat_map(|src| to.iter().map(move |dst| (src, dst))).map(|(src, dst)| row(src, dst)).collect()
}

fn peers(peer: diff::DiffPeer, context: &DiffContext<'_, '_>) -> Vec<PeerJson> {
    match peer {
        diff::DiffPeer::Workload(at) => vec![PeerJson::from(context.diff.name(at))],
        diff::DiffPeer::Range(from, to) => vec![PeerJson::Range(AddressRangeJson { from, to })],
        diff::DiffPeer::IngressController => vec![PeerJson::IngressController(EmptyJson {})],
        diff::DiffPeer::Outlier(at) => {
            let outlier = &context.diff.outliers[at];
            let Some(workload) = outlier.of else {
                return vec![PeerJson::Node(NodesJson { names: outlier.names.clone(), every: false })];
            };
            let namespace = context.diff.name(workload).namespace.to_string();
            let name = |full: &String| full.split_once('/').map_or("", |(_, name)| name).to_owned();
            let pod = |full: &String| WorkloadJson {
                namespace: namespace.clone(),
                name: name(full),
                kind: "Pod".to_owned(),
            };
            outlier.names.iter().map(|full| PeerJson::Workload(pod(full))).collect()
        }
    }
}

fn decided(deciding: &SideDecision) -> DecisionJson {
    let mut decided = DecisionJson {
        direction: deciding.direction.as_str(),
        action: deciding.action.to_string(),
        by: "default",
        policies: Vec::new(),
        rule: None,
        rule_name: None,
        file: None,
        line: None,
    };
    let at = match &deciding.by {
        DecisionSource::Rule { policy, index, name, at } => {
            decided.by = "rule";
            decided.policies = vec![policy.to_string()];
            decided.rule = Some(*index);
            decided.rule_name = name.as_ref().map(ToString::to_string);
            at.as_ref()
        }
        DecisionSource::Isolation(by) => {
            decided.by = "isolation";
            decided.policies = by.iter().map(ToString::to_string).collect();
            by.first().and_then(|object| object.at.as_ref())
        }
        DecisionSource::Nobody => None,
        DecisionSource::Absent => {
            decided.by = "absent";
            None
        }
    };
    decided.file = at.map(|at| at.file.to_string());
    decided.line = at.map(|at| at.line as usize);
    decided
}
