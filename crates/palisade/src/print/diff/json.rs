//! A difference for programs.

use std::ops::ControlFlow;

use palisade_analysis::diff::{self, By, Change, Deciders, Deciding, parts};
use palisade_analysis::map::{Entry, connections};
use palisade_analysis::reach::cells::Cells;
use serde::Serialize;

use super::Facts;
use crate::print::json::print;
use crate::print::peers::{Allowed, Empty, Peer, Range, Workload};

/// The whole document.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// Every pair that differs.
    changes: Vec<Row>,
    workloads: Moved,
    summary: Summary,
}

/// A pair that may do something else.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct Row {
    kind: &'static str,
    src: Peer,
    dst: Peer,
    before: Allowed,
    after: Allowed,
    /// What of it opens; left out where nothing does.
    #[serde(skip_serializing_if = "Option::is_none")]
    opened: Option<Part>,
    /// What of it closes.
    #[serde(skip_serializing_if = "Option::is_none")]
    closed: Option<Part>,
}

/// Some traffic, and who decides about it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
struct Part {
    #[serde(flatten)]
    allowed: Allowed,
    decided_before: Vec<Decided>,
    decided_after: Vec<Decided>,
}

/// Who decided.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Moved {
    added: Vec<Workload>,
    removed: Vec<Workload>,
}

/// How much there is.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Summary {
    opened: usize,
    closed: usize,
    workloads: usize,
    pairs: usize,
}

/// All of it.
pub fn json(facts: &Facts<'_, '_>, cells: &mut Cells) -> String {
    let mut changes = Vec::new();
    let mut deciders = Deciders::new(facts.diff, facts.cuts);
    let _ = facts.diff.changes(facts.select, facts.cuts, cells, |cells, change| {
        changes.push(row(facts, &change, &mut deciders, cells));
        ControlFlow::Continue(())
    });
    let diff = facts.diff;
    let moved = Moved {
        added: diff.came().map(Workload::from).collect(),
        removed: diff.went().map(Workload::from).collect(),
    };
    let (opened, closed) = (facts.findings.opened, facts.findings.closed);
    let summary = Summary { opened, closed, workloads: facts.workloads(), pairs: facts.pairs() };
    print(&Document { changes, workloads: moved, summary })
}

fn row(facts: &Facts<'_, '_>, change: &Change, deciders: &mut Deciders<'_, '_>, cells: &mut Cells) -> Row {
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
    Row {
        kind: change.kind().as_str(),
        src: peer(change.source, facts),
        dst: peer(change.destination, facts),
        before: allowed(&change.before),
        after: allowed(&change.after),
        opened,
        closed,
    }
}

fn peer(peer: diff::Peer, facts: &Facts<'_, '_>) -> Peer {
    match peer {
        diff::Peer::Workload(at) => Peer::from(facts.diff.name(at)),
        diff::Peer::Range(from, to) => Peer::Range(Range { from, to }),
        diff::Peer::IngressController => Peer::IngressController(Empty {}),
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
