//! Cells of all pairs of classes, a source at a time.
//!
//! The egress side of a source is its row. The ingress sides of the destinations are in as many rows; from one source to the
//! next few of them change, and these changes are precomputed. Iterating over sources in order visits each change once.
//!
//! Most sources share the most common egress row: its result is kept, and updated with the changes.

use palisade_model::policy::Direction;

use super::Reach;
use super::cells::{CellId, Cells};
use super::groups::{FastMap, number};
use super::rows::ClassRow;

/// Maximum number of pairs of egress and ingress cells cached in tables; more are looked up.
const MAX_CACHED_PAIRS: usize = 1 << 24;
/// Marks an entry of a table that is not computed.
const UNKNOWN: CellId = CellId(u32::MAX);

/// Cells of all pairs of classes, for one source at a time.
#[derive(Debug)]
pub struct Matrix<'r, 's> {
    reach: &'r Reach<'s>,
    /// For each source the index of its first change against the source before.
    first: Vec<u32>,
    changes: Vec<RowChange>,
    /// The current source.
    source: u32,
    /// Cell of each ingress row for the source.
    ingress: Vec<CellId>,
    /// Ingress row of each class.
    row_of: Vec<u32>,
    /// Classes sorted by ingress row, and the index of each row's first.
    classes: Vec<u32>,
    first_class: Vec<u32>,
    /// Cache of combined cells.
    pairs: CellPairs,
    /// The most common egress row, with its result for the source.
    common: CommonRow,
    row: Vec<CellId>,
}

/// A change of an ingress row's cell from one source to the next.
#[derive(Debug, Clone, Copy)]
struct RowChange {
    row: u32,
    before: CellId,
    after: CellId,
}

/// The most common egress row, with its result for the current source.
#[derive(Debug)]
struct CommonRow {
    /// Number of the egress row.
    number: u32,
    /// Its cell for each class.
    ingress: Vec<CellId>,
    row: Vec<CellId>,
}

/// Cache of combined cells, by the egress cell.
#[derive(Debug)]
struct CellPairs {
    known: FastMap<CellId, Vec<CellId>>,
    width: usize,
}

// === impl Matrix ===

impl<'r, 's> Matrix<'r, 's> {
    /// Creates the matrix, at the first class.
    pub fn new(reach: &'r Reach<'s>, cells: &Cells) -> Self {
        let rows = reach.rows(Direction::Ingress);
        let row_of: Vec<u32> =
            (0..reach.len()).map(|class| reach.row_number(Direction::Ingress, class)).collect();
        let (first_class, classes) = sorted(&row_of, rows.len());
        let (first, changes) = changes(rows, reach.len());
        let mut matrix = Matrix {
            reach,
            first,
            changes,
            source: 0,
            ingress: rows.iter().map(|row| row.at(0)).collect(),
            row_of,
            classes,
            first_class,
            pairs: CellPairs { known: FastMap::default(), width: cells.len() },
            common: CommonRow { number: most_common(reach), ingress: Vec::new(), row: Vec::new() },
            row: vec![CellId::NOTHING; reach.len() as usize],
        };
        let common = &reach.rows(Direction::Egress)[matrix.common.number as usize];
        matrix.common.ingress = expanded(common, reach.len());
        matrix
    }

    /// Returns the cells for traffic from a class to each class, by policies alone.
    pub fn from(&mut self, source: u32, cells: &mut Cells) -> &[CellId] {
        self.seek(source, cells);
        let number = self.reach.row_number(Direction::Egress, source);
        if number == self.common.number {
            if self.common.row.is_empty() {
                self.common.row = vec![CellId::NOTHING; self.row.len()];
                let runs = self.reach.row(Direction::Egress, source);
                fill(&mut self.common.row, runs, &self.row_of, &self.ingress, &mut self.pairs, cells);
            }
            return &self.common.row;
        }
        let runs = self.reach.row(Direction::Egress, source);
        fill(&mut self.row, runs, &self.row_of, &self.ingress, &mut self.pairs, cells);
        &self.row
    }

    /// Moves to another source.
    fn seek(&mut self, source: u32, cells: &mut Cells) {
        let (from, to) = (self.source, source);
        self.source = source;
        let (low, high) = (from.min(to) as usize + 1, from.max(to) as usize + 1);
        let between = self.first[low] as usize..self.first[high] as usize;
        // Over a long distance looking up every row is cheaper.
        if between.len() > 8 * self.ingress.len() {
            let rows = self.reach.rows(Direction::Ingress);
            self.ingress.iter_mut().zip(rows).for_each(|(ingress, row)| *ingress = row.at(source));
            self.common.row.clear();
        } else if from < to {
            for at in between {
                let RowChange { row, after, .. } = self.changes[at];
                self.change(row, after, cells);
            }
        } else {
            for at in between.rev() {
                let RowChange { row, before, .. } = self.changes[at];
                self.change(row, before, cells);
            }
        }
    }

    fn change(&mut self, row: u32, into: CellId, cells: &mut Cells) {
        let row = row as usize;
        self.ingress[row] = into;
        if self.common.row.is_empty() {
            return;
        }
        for class in &self.classes[self.first_class[row] as usize..self.first_class[row + 1] as usize] {
            let class = *class as usize;
            self.common.row[class] = cells.both(self.common.ingress[class], into);
        }
    }
}

// === impl CellPairs ===

impl CellPairs {
    /// Returns the table of an egress cell, unless there are too many.
    fn of(&mut self, out: CellId) -> Option<&mut [CellId]> {
        if self.width.saturating_mul(self.known.len() + 1) > MAX_CACHED_PAIRS
            && !self.known.contains_key(&out)
        {
            return None;
        }
        Some(self.known.entry(out).or_insert_with(|| vec![UNKNOWN; self.width]))
    }
}

/// Combines a source's egress row with the ingress cells of all classes.
fn fill(
    row: &mut [CellId],
    own: &ClassRow,
    row_of: &[u32],
    ingress: &[CellId],
    pairs: &mut CellPairs,
    cells: &mut Cells,
) {
    let runs = own.runs();
    let ends = runs.iter().skip(1).map(|(start, _)| *start).chain([number(row.len())]);
    for ((start, out), end) in runs.iter().zip(ends) {
        let range = *start as usize..end as usize;
        let into = row_of[range.clone()].iter().map(|row| ingress[*row as usize]);
        let row = row[range].iter_mut();
        match *out {
            CellId::NOTHING => row.for_each(|cell| *cell = CellId::NOTHING),
            CellId::ALL => row.zip(into).for_each(|(cell, into)| *cell = into),
            out => match pairs.of(out) {
                Some(pairs) => {
                    for (cell, into) in row.zip(into) {
                        let pair = &mut pairs[into.0 as usize];
                        if *pair == UNKNOWN {
                            *pair = cells.both(out, into);
                        }
                        *cell = *pair;
                    }
                }
                None => row.zip(into).for_each(|(cell, into)| *cell = cells.both(out, into)),
            },
        }
    }
}

/// Returns the changes of ingress rows, sorted by source: the index of each source's first change, with one more at the
/// end, and the changes.
fn changes(rows: &[ClassRow], classes: u32) -> (Vec<u32>, Vec<RowChange>) {
    let later = |row: &ClassRow| row.runs().len().saturating_sub(1);
    let mut starts = Vec::with_capacity(rows.iter().map(later).sum());
    for row in rows {
        starts.extend(row.runs().iter().skip(1).map(|(start, _)| *start));
    }
    let (first, order) = sorted(&starts, classes as usize);
    let mut changes = vec![RowChange { row: 0, before: UNKNOWN, after: UNKNOWN }; starts.len()];
    let mut position = vec![0; starts.len()];
    for (at, of) in (0_u32..).zip(&order) {
        position[*of as usize] = at;
    }
    let mut next = position.iter();
    for (number, row) in (0..).zip(rows) {
        for (pair, position) in row.runs().windows(2).zip(next.by_ref()) {
            changes[*position as usize] = RowChange { row: number, before: pair[0].1, after: pair[1].1 };
        }
    }
    (first, changes)
}

/// Sorts indices by value (counting sort): the index of each value's first, with one more at the end, and the indices.
fn sorted(values: &[u32], bound: usize) -> (Vec<u32>, Vec<u32>) {
    let mut first = vec![0_u32; bound + 1];
    values.iter().for_each(|value| first[*value as usize + 1] += 1);
    for at in 0..bound {
        first[at + 1] += first[at];
    }
    let mut free = first.clone();
    let mut order = vec![0; values.len()];
    for (at, value) in (0..).zip(values) {
        let position = &mut free[*value as usize];
        order[*position as usize] = at;
        *position += 1;
    }
    (first, order)
}

/// Returns the egress row that most classes have, the first of several.
fn most_common(reach: &Reach<'_>) -> u32 {
    let mut counts = vec![0_u32; reach.rows(Direction::Egress).len()];
    for class in 0..reach.len() {
        counts[reach.row_number(Direction::Egress, class) as usize] += 1;
    }
    let most = counts.iter().enumerate().max_by_key(|(at, count)| (**count, std::cmp::Reverse(*at)));
    number(most.map_or(0, |(at, _)| at))
}

/// Returns the cell of each class.
fn expanded(row: &ClassRow, classes: u32) -> Vec<CellId> {
    let runs = row.runs();
    let ends = runs.iter().skip(1).map(|(start, _)| *start).chain([classes]);
    let runs = runs.iter().zip(ends);
    runs.flat_map(|((start, cell), end)| std::iter::repeat_n(*cell, (end - start) as usize)).collect()
}
