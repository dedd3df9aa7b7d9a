//! Folding of rows about outside addresses, for text: ranges of a workload with the same traffic become one row.

use std::net::IpAddr;

use super::reasons::reasons;
use super::{MapEnd, MapRow};

/// A row with the address ranges of all rows folded into it.
#[derive(Debug, Clone)]
pub struct FoldedRow<'m> {
    /// The first of the folded rows.
    pub line: MapRow<'m>,
    /// Their outside addresses, in order; empty where no end is outside.
    pub ranges: Vec<(IpAddr, IpAddr)>,
}

/// Folder of consecutive rows about the outside of one workload and direction.
#[derive(Debug, Default)]
pub struct RowFolder<'m> {
    pending: Vec<FoldedRow<'m>>,
}

// === impl RowFolder ===

impl<'m> RowFolder<'m> {
    /// Takes a row, and returns folded rows that are complete.
    pub fn push(&mut self, line: MapRow<'m>) -> Vec<FoldedRow<'m>> {
        let Some(range) = range(&line) else {
            let mut done = self.end();
            done.push(FoldedRow { line, ranges: Vec::new() });
            return done;
        };
        let done = match self.pending.first() {
            Some(pending) if same_end(&pending.line, &line) => Vec::new(),
            _ => self.end(),
        };
        match self.pending.iter_mut().find(|pending| has_same_answer(&pending.line, &line)) {
            Some(pending) => pending.ranges.push(range),
            None => self.pending.push(FoldedRow { line, ranges: vec![range] }),
        }
        done
    }

    /// Returns the remaining folded rows.
    pub fn end(&mut self) -> Vec<FoldedRow<'m>> {
        std::mem::take(&mut self.pending)
    }
}

fn range(line: &MapRow<'_>) -> Option<(IpAddr, IpAddr)> {
    match (&line.source, &line.destination) {
        (MapEnd::Range(first, last), _) | (_, MapEnd::Range(first, last)) => Some((*first, *last)),
        _ => None,
    }
}

/// Whether two rows have the outside at one end and the same other end, in the same direction.
fn same_end(one: &MapRow<'_>, other: &MapRow<'_>) -> bool {
    match (&one.source, &other.source) {
        (MapEnd::Range(..), MapEnd::Range(..)) => one.destination == other.destination,
        (MapEnd::Range(..), _) | (_, MapEnd::Range(..)) => false,
        (one, other) => one == other,
    }
}

/// Whether two rows differ in nothing but their addresses.
fn has_same_answer(one: &MapRow<'_>, other: &MapRow<'_>) -> bool {
    one.allowed.id == other.allowed.id
        && one.uniform == other.uniform
        && one.other.as_ref().map(|said| said.id) == other.other.as_ref().map(|said| said.id)
        && (one.why.is_empty() || reasons(&one.why) == reasons(&other.why))
}
