//! All pairs of classes, a row at a time.
//!
//! What a source's side says about all destinations is its row. What each destination's side says about the source stands
//! in as many rows as there are destinations; from one source to the next few of them say something else, and where they
//! do is known beforehand. Whoever asks for sources in about their order moves over each of these places once in all.
//!
//! Most sources are of a kind that egress policies do not tell apart: for these one row is kept that follows the changes.

use palisade_model::policy::Direction;

use super::Reach;
use super::cells::{CellId, Cells};
use super::groups::{Table, number};
use super::rows::Row;

/// Pairs of egress and ingress cells that are remembered in a table; more are looked up.
const MOST_PAIRS: usize = 1 << 24;
/// No cell.
const UNKNOWN: CellId = CellId(u32::MAX);

/// All pairs of classes.
#[derive(Debug)]
pub struct Matrix<'r, 's> {
    reach: &'r Reach<'s>,
    /// For each source where in the changes those begin that lead to it from the one before.
    first: Vec<u32>,
    changes: Vec<Change>,
    /// The source that everything is about.
    source: u32,
    /// What each ingress row says about the source.
    said: Vec<CellId>,
    /// For each class its ingress row.
    row_of: Vec<u32>,
    /// The classes with each ingress row, one row after the other, and where each row's begin.
    classes: Vec<u32>,
    first_class: Vec<u32>,
    /// What came of pairs of cells.
    pairs: Pairs,
    /// What the egress row says that most sources have, and what comes of it for the source.
    common: Common,
    row: Vec<CellId>,
}

/// An ingress row that says something else about a source than about the one before.
#[derive(Debug, Clone, Copy)]
struct Change {
    row: u32,
    before: CellId,
    after: CellId,
}

/// A row that is kept for a source.
#[derive(Debug)]
struct Common {
    /// Of which egress row.
    number: u32,
    /// What that says about each class.
    said: Vec<CellId>,
    row: Vec<CellId>,
}

/// What came of pairs of cells, by the egress cell.
#[derive(Debug)]
struct Pairs {
    known: Table<CellId, Vec<CellId>>,
    width: usize,
}

// === impl Matrix ===

impl<'r, 's> Matrix<'r, 's> {
    /// Of everybody.
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
            said: rows.iter().map(|row| row.at(0)).collect(),
            row_of,
            classes,
            first_class,
            pairs: Pairs { known: Table::default(), width: cells.len() },
            common: Common { number: most_common(reach), said: Vec::new(), row: Vec::new() },
            row: vec![CellId::NOTHING; reach.len() as usize],
        };
        let common = &reach.rows(Direction::Egress)[matrix.common.number as usize];
        matrix.common.said = expanded(common, reach.len());
        matrix
    }

    /// What becomes of traffic from a class to each class, as far as policies tell.
    pub fn from(&mut self, source: u32, cells: &mut Cells) -> &[CellId] {
        self.seek(source, cells);
        let number = self.reach.row_number(Direction::Egress, source);
        if number == self.common.number {
            if self.common.row.is_empty() {
                self.common.row = vec![CellId::NOTHING; self.row.len()];
                let runs = self.reach.row(Direction::Egress, source);
                fill(&mut self.common.row, runs, &self.row_of, &self.said, &mut self.pairs, cells);
            }
            return &self.common.row;
        }
        let runs = self.reach.row(Direction::Egress, source);
        fill(&mut self.row, runs, &self.row_of, &self.said, &mut self.pairs, cells);
        &self.row
    }

    /// Makes everything about another source.
    fn seek(&mut self, source: u32, cells: &mut Cells) {
        let (from, to) = (self.source, source);
        self.source = source;
        let (low, high) = (from.min(to) as usize + 1, from.max(to) as usize + 1);
        let between = self.first[low] as usize..self.first[high] as usize;
        // A long way is longer than to look up every row.
        if between.len() > 8 * self.said.len() {
            let rows = self.reach.rows(Direction::Ingress);
            self.said.iter_mut().zip(rows).for_each(|(said, row)| *said = row.at(source));
            self.common.row.clear();
        } else if from < to {
            for at in between {
                let Change { row, after, .. } = self.changes[at];
                self.change(row, after, cells);
            }
        } else {
            for at in between.rev() {
                let Change { row, before, .. } = self.changes[at];
                self.change(row, before, cells);
            }
        }
    }

    fn change(&mut self, row: u32, into: CellId, cells: &mut Cells) {
        let row = row as usize;
        self.said[row] = into;
        if self.common.row.is_empty() {
            return;
        }
        for class in &self.classes[self.first_class[row] as usize..self.first_class[row + 1] as usize] {
            let class = *class as usize;
            self.common.row[class] = cells.both(self.common.said[class], into);
        }
    }
}

// === impl Pairs ===

impl Pairs {
    /// The table of an egress cell, unless there are too many.
    fn of(&mut self, out: CellId) -> Option<&mut [CellId]> {
        if self.width.saturating_mul(self.known.len() + 1) > MOST_PAIRS && !self.known.contains_key(&out) {
            return None;
        }
        Some(self.known.entry(out).or_insert_with(|| vec![UNKNOWN; self.width]))
    }
}

/// What comes of a source's own row and of what everybody says about it.
fn fill(
    row: &mut [CellId],
    own: &Row,
    row_of: &[u32],
    said: &[CellId],
    pairs: &mut Pairs,
    cells: &mut Cells,
) {
    let runs = own.runs();
    let ends = runs.iter().skip(1).map(|(start, _)| *start).chain([number(row.len())]);
    for ((start, out), end) in runs.iter().zip(ends) {
        let range = *start as usize..end as usize;
        let into = row_of[range.clone()].iter().map(|row| said[*row as usize]);
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

/// Where ingress rows change, by source: for each where its own begin, with one more at the end.
fn changes(rows: &[Row], classes: u32) -> (Vec<u32>, Vec<Change>) {
    let later = |row: &Row| row.runs().len().saturating_sub(1);
    let mut starts = Vec::with_capacity(rows.iter().map(later).sum());
    for row in rows {
        starts.extend(row.runs().iter().skip(1).map(|(start, _)| *start));
    }
    let (first, order) = sorted(&starts, classes as usize);
    let mut changes = vec![Change { row: 0, before: UNKNOWN, after: UNKNOWN }; starts.len()];
    let mut place = vec![0; starts.len()];
    for (at, of) in (0_u32..).zip(&order) {
        place[*of as usize] = at;
    }
    let mut next = place.iter();
    for (number, row) in (0..).zip(rows) {
        for (pair, place) in row.runs().windows(2).zip(next.by_ref()) {
            changes[*place as usize] = Change { row: number, before: pair[0].1, after: pair[1].1 };
        }
    }
    (first, changes)
}

/// The places of values below a bound, by value; for each value where its places begin, with one more at the end.
fn sorted(values: &[u32], bound: usize) -> (Vec<u32>, Vec<u32>) {
    let mut first = vec![0_u32; bound + 1];
    values.iter().for_each(|value| first[*value as usize + 1] += 1);
    for at in 0..bound {
        first[at + 1] += first[at];
    }
    let mut free = first.clone();
    let mut places = vec![0; values.len()];
    for (at, value) in (0..).zip(values) {
        let place = &mut free[*value as usize];
        places[*place as usize] = at;
        *place += 1;
    }
    (first, places)
}

/// The egress row that most classes have, the first of several.
fn most_common(reach: &Reach<'_>) -> u32 {
    let mut counts = vec![0_u32; reach.rows(Direction::Egress).len()];
    for class in 0..reach.len() {
        counts[reach.row_number(Direction::Egress, class) as usize] += 1;
    }
    let most = counts.iter().enumerate().max_by_key(|(at, count)| (**count, std::cmp::Reverse(*at)));
    number(most.map_or(0, |(at, _)| at))
}

/// What a row says about each class.
fn expanded(row: &Row, classes: u32) -> Vec<CellId> {
    let runs = row.runs();
    let ends = runs.iter().skip(1).map(|(start, _)| *start).chain([classes]);
    let runs = runs.iter().zip(ends);
    runs.flat_map(|((start, cell), end)| std::iter::repeat_n(*cell, (end - start) as usize)).collect()
}
