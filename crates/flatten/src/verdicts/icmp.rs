//! ICMP as a first-match list by type and code, the form in which packet filters match it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use palisade_model::policy::IcmpMatch;

use super::{Column, Decision};

/// Verdicts about ICMP: the first match decides, else `other`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IcmpVerdicts {
    /// Messages of a type come before those of a code of any type. None matches every message.
    pub listed: Vec<(IcmpMatch, Decision)>,
    /// What becomes of messages that no entry matches.
    pub other: Decision,
}

/// Decisions about the codes of one type: the first code of each run.
type Row = Vec<(u8, Decision)>;

// === impl IcmpVerdicts ===

impl IcmpVerdicts {
    /// Returns the shortest list of this form: types with the most common decisions need no entry, nor do codes of a type with
    /// the most common decision of the type.
    pub(super) fn new(column: &Column) -> Self {
        if let [run] = column.runs[..] {
            return IcmpVerdicts { listed: Vec::new(), other: run.decision };
        }
        let rows = rows(column);
        let mut counts: BTreeMap<&Row, usize> = BTreeMap::new();
        for row in &rows {
            *counts.entry(row).or_default() += 1;
        }
        let common = counts.into_iter().max_by_key(|(row, count)| (*count, Reverse(*row)));
        let common = common.map(|(row, _)| row.clone()).unwrap_or_default();
        let mut listed = Vec::new();
        for (kind, row) in (0..=u8::MAX).zip(&rows).filter(|(_, row)| **row != common) {
            let any = most_common(row, column);
            let kind = Some(kind);
            listed.extend(
                codes(row)
                    .filter(|(_, decision)| *decision != any)
                    .map(|(code, decision)| (IcmpMatch { kind, code: Some(code) }, decision)),
            );
            listed.push((IcmpMatch { kind, code: None }, any));
        }
        let other = most_common(&common, column);
        listed.extend(
            codes(&common)
                .filter(|(_, decision)| *decision != other)
                .map(|(code, decision)| (IcmpMatch { kind: None, code: Some(code) }, decision)),
        );
        IcmpVerdicts { listed, other }
    }

    /// Returns the number of entries, the one for all other messages included.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.listed.len() + 1
    }
}

/// The decisions of each of the 256 types.
fn rows(column: &Column) -> Vec<Row> {
    let mut runs = column.runs.iter().peekable();
    let mut now = column.at(0);
    (0..=u8::MAX)
        .map(|kind| {
            let mut row: Row = Vec::new();
            if runs.peek().is_none_or(|run| run.first > u16::from_be_bytes([kind, 0])) {
                row.push((0, now));
            }
            while let Some(run) = runs.next_if(|run| run.first <= u16::from_be_bytes([kind, u8::MAX])) {
                let [_, code] = run.first.to_be_bytes();
                row.push((code, run.decision));
                now = run.decision;
            }
            row
        })
        .collect()
}

/// Each code with its decision.
fn codes(row: &Row) -> impl Iterator<Item = (u8, Decision)> {
    let ends = row.iter().skip(1).map(|(next, _)| next - 1).chain([u8::MAX]);
    row.iter().zip(ends).flat_map(|((first, decision), last)| (*first..=last).map(|code| (code, *decision)))
}

/// The decision about most codes; of several the lowest.
fn most_common(row: &Row, column: &Column) -> Decision {
    let mut counts: BTreeMap<Decision, usize> = BTreeMap::new();
    for (_, decision) in codes(row) {
        *counts.entry(decision).or_default() += 1;
    }
    let common = counts.into_iter().max_by_key(|(decision, count)| (*count, Reverse(*decision)));
    // A row has 256 codes.
    common.map_or_else(|| column.at(0), |(decision, _)| decision)
}
