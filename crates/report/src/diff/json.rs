//! A difference for programs.

use std::ops::ControlFlow;

use palisade_analysis::diff::{self, By, Change, Counterexample, Deciders, Deciding, parts};
use palisade_analysis::map::{Entry, connections};
use palisade_analysis::reach::cells::Cells;
use serde::Serialize;

use super::Facts;
use crate::json::{Diagnostic, print};
use crate::peers::{Allowed, Empty, Nodes, Peer, Range, Workload};
use crate::text::Text;

/// The whole document.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// Every pair that differs.
    changes: Vec<Row>,
    /// Workloads and nodes that differ.
    nodes: Vec<Row>,
    /// Pods that are not like the others of their workload, where the row of the workload is the same.
    pods: Vec<Row>,
    /// Where nothing differs: what would become of pods that are not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    potential: Option<Potential>,
    workloads: Moved,
    summary: Summary,
    /// What of the input makes the answer less sure.
    input_problems: Vec<Diagnostic>,
}

/// A connection each that two sets of policies treat otherwise, for pods that are not there.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct Potential {
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
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct Row {
    kind: &'static str,
    src: Peer,
    dst: Peer,
    before: Allowed,
    after: Allowed,
    /// The same over the other family of addresses, where the two have both and it is something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    before_other_family: Option<Allowed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after_other_family: Option<Allowed>,
    /// What of it opens; left out where nothing does.
    #[serde(skip_serializing_if = "Option::is_none")]
    opened: Option<Part>,
    /// What of it closes.
    #[serde(skip_serializing_if = "Option::is_none")]
    closed: Option<Part>,
}

/// Some traffic, and who decides about it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct Part {
    #[serde(flatten)]
    allowed: Allowed,
    decided_before: Vec<Decided>,
    decided_after: Vec<Decided>,
}

/// Who decided.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct Decided {
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
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
struct Moved {
    added: Vec<Workload>,
    removed: Vec<Workload>,
}

/// How much there is.
#[derive(Debug, Serialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct Summary {
    opened: usize,
    closed: usize,
    workloads: usize,
    pairs: usize,
    /// Workloads that were not compared, because that takes too much work; nothing is known about them.
    #[serde(skip_serializing_if = "is_zero")]
    left_out: usize,
}

/// Steps for a row: all of them are kept until they are printed, about a kilobyte each.
const ROW: u64 = 3_000;

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde wants it
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// All of it.
pub fn json(facts: &Facts<'_, '_>, cells: &mut Cells) -> Text {
    let (mut changes, mut nodes, mut pods) = (Vec::new(), Vec::new(), Vec::new());
    let mut deciders = Deciders::new(facts.diff, facts.cuts);
    let told = facts.diff.changes(facts.select, facts.cuts, cells, |cells, change| {
        cells.work().take(ROW);
        if cells.work().is_spent() {
            return ControlFlow::Break(());
        }
        let of_pods = |peer| matches!(peer, diff::Peer::Outlier(at) if facts.diff.outliers[at].of.is_some());
        let of_nodes = |peer| matches!(peer, diff::Peer::Outlier(at) if facts.diff.outliers[at].of.is_none());
        let ends = [change.source, change.destination];
        let list = match () {
            () if ends.into_iter().any(of_nodes) => &mut nodes,
            () if ends.into_iter().any(of_pods) => &mut pods,
            () => &mut changes,
        };
        list.extend(rows(facts, &change, &mut deciders, cells));
        ControlFlow::Continue(())
    });
    let diff = facts.diff;
    let moved = Moved {
        added: diff.came().map(Workload::from).collect(),
        removed: diff.went().map(Workload::from).collect(),
    };
    let (opened, closed) = (facts.findings.opened, facts.findings.closed);
    let left_out = facts.diff.left_out.len()
        + facts.findings.unseen.max(told.continue_value().map_or(facts.workloads(), |told| told.left_out));
    let summary = Summary { opened, closed, workloads: facts.workloads(), pairs: facts.pairs(), left_out };
    let flow = |found: &Option<Counterexample>| found.as_ref().map(|found| found.flow.clone());
    let beyond = facts.beyond;
    let potential = Potential {
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
    print(&Document {
        changes,
        nodes,
        pods,
        potential: any.then_some(potential),
        workloads: moved,
        summary,
        input_problems: facts.problems.iter().map(Diagnostic::from).collect(),
    })
}

/// A change; one for each of several pods.
fn rows(
    facts: &Facts<'_, '_>,
    change: &Change,
    deciders: &mut Deciders<'_, '_>,
    cells: &mut Cells,
) -> Vec<Row> {
    let (mut opened, mut closed) = (None, None);
    for (opens, part) in parts(change, cells) {
        let (before, after) = deciders.of(change, opens, part, cells);
        let part = Part {
            allowed: Allowed::from(&connections(part, cells)),
            decided_before: before.iter().map(decided).collect(),
            decided_after: after.iter().map(decided).collect(),
        };
        *(if opens { &mut opened } else { &mut closed }) = Some(part);
    }
    let allowed = |entry: &Entry| Allowed::from(&connections(entry.allowed, cells));
    let other = |entry: &Entry| entry.other.map(|other| Allowed::from(&connections(other, cells)));
    let row = |src: &Peer, dst: &Peer| Row {
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
    let (from, to) = (peers(change.source, facts), peers(change.destination, facts));
    from.iter().flat_map(|src| to.iter().map(move |dst| (src, dst))).map(|(src, dst)| row(src, dst)).collect()
}

fn peers(peer: diff::Peer, facts: &Facts<'_, '_>) -> Vec<Peer> {
    match peer {
        diff::Peer::Workload(at) => vec![Peer::from(facts.diff.name(at))],
        diff::Peer::Range(from, to) => vec![Peer::Range(Range { from, to })],
        diff::Peer::IngressController => vec![Peer::IngressController(Empty {})],
        diff::Peer::Outlier(at) => {
            let spot = &facts.diff.outliers[at];
            let Some(workload) = spot.of else {
                return vec![Peer::Node(Nodes { names: spot.names.clone(), every: false })];
            };
            let namespace = facts.diff.name(workload).namespace.to_string();
            let name = |full: &String| full.split_once('/').map_or("", |(_, name)| name).to_owned();
            let pod = |full: &String| Workload {
                namespace: namespace.clone(),
                name: name(full),
                kind: "Pod".to_owned(),
            };
            spot.names.iter().map(|full| Peer::Workload(pod(full))).collect()
        }
    }
}

fn decided(deciding: &Deciding) -> Decided {
    let mut decided = Decided {
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
        By::Rule { policy, index, name, at } => {
            decided.by = "rule";
            decided.policies = vec![policy.to_string()];
            decided.rule = Some(*index);
            decided.rule_name = name.as_ref().map(ToString::to_string);
            at.as_ref()
        }
        By::Isolation(by) => {
            decided.by = "isolation";
            decided.policies = by.iter().map(ToString::to_string).collect();
            by.first().and_then(|object| object.at.as_ref())
        }
        By::Nobody => None,
        By::Absent => {
            decided.by = "absent";
            None
        }
    };
    decided.file = at.map(|at| at.file.to_string());
    decided.line = at.map(|at| at.line as usize);
    decided
}
