//! Rows about outside addresses put together, for printers that people read: a workload's ranges with the same answer
//! are one line, however policies cut them.

use std::net::IpAddr;

use super::reasons::reasons;
use super::{End, Line};

/// A row for people.
#[derive(Debug, Clone)]
pub struct Folded<'m> {
    /// The first of the rows.
    pub line: Line<'m>,
    /// The outside addresses of all of them, in order; none where the outside is no end.
    pub ranges: Vec<(IpAddr, IpAddr)>,
}

/// Rows about the outside of one workload and direction, until others come.
#[derive(Debug, Default)]
pub struct Fold<'m> {
    open: Vec<Folded<'m>>,
}

// === impl Fold ===

impl<'m> Fold<'m> {
    /// Takes a row, and gives those that are complete.
    pub fn push(&mut self, line: Line<'m>) -> Vec<Folded<'m>> {
        let Some(range) = range(&line) else {
            let mut done = self.end();
            done.push(Folded { line, ranges: Vec::new() });
            return done;
        };
        let done = match self.open.first() {
            Some(open) if same_end(&open.line, &line) => Vec::new(),
            _ => self.end(),
        };
        match self.open.iter_mut().find(|open| alike(&open.line, &line)) {
            Some(open) => open.ranges.push(range),
            None => self.open.push(Folded { line, ranges: vec![range] }),
        }
        done
    }

    /// Those that are left.
    pub fn end(&mut self) -> Vec<Folded<'m>> {
        std::mem::take(&mut self.open)
    }
}

fn range(line: &Line<'_>) -> Option<(IpAddr, IpAddr)> {
    match (&line.source, &line.destination) {
        (End::Range(first, last), _) | (_, End::Range(first, last)) => Some((*first, *last)),
        _ => None,
    }
}

/// Whether two rows are about the outside of the same end, in the same direction.
fn same_end(one: &Line<'_>, other: &Line<'_>) -> bool {
    match (&one.source, &other.source) {
        (End::Range(..), End::Range(..)) => one.destination == other.destination,
        (End::Range(..), _) | (_, End::Range(..)) => false,
        (one, other) => one == other,
    }
}

/// Whether two rows differ in nothing but their addresses.
fn alike(one: &Line<'_>, other: &Line<'_>) -> bool {
    one.allowed.id == other.allowed.id
        && one.uniform == other.uniform
        && one.other.as_ref().map(|said| said.id) == other.other.as_ref().map(|said| said.id)
        && (one.why.is_empty() || reasons(&one.why) == reasons(&other.why))
}
