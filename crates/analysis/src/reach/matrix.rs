//! All pairs of classes, a row at a time.
//!
//! What a source's side says about all destinations is its row. What each destination's side says about the source stands
//! in as many rows as there are destinations: a finger on each of them, moved to the source, finds it. Whoever asks for
//! sources in their order moves every finger once over its row in all.

use std::collections::HashMap;

use palisade_model::policy::Direction;

use super::Reach;
use super::cells::{CellId, Cells};

/// Pairs of egress and ingress cells that are remembered in a table; more are looked up.
const MOST_PAIRS: usize = 1 << 24;

/// All pairs of classes.
#[derive(Debug)]
pub struct Matrix<'r, 's> {
    reach: &'r Reach<'s>,
    /// The runs of all ingress rows, one row after the other: their first classes, and what they get.
    starts: Vec<u32>,
    cells: Vec<CellId>,
    /// For each ingress row where its runs begin, and where the finger is.
    first: Vec<u32>,
    fingers: Vec<u32>,
    /// What each ingress row says about the source.
    said: Vec<CellId>,
    /// For each class its ingress row.
    row_of: Vec<u32>,
    /// What came of pairs of cells, by the egress cell.
    pairs: HashMap<CellId, Vec<Option<CellId>>>,
    width: usize,
    row: Vec<CellId>,
}

// === impl Matrix ===

impl<'r, 's> Matrix<'r, 's> {
    /// Of everybody.
    pub fn new(reach: &'r Reach<'s>, cells: &Cells) -> Self {
        let rows = reach.rows(Direction::Ingress);
        let mut matrix = Matrix {
            reach,
            starts: Vec::new(),
            cells: Vec::new(),
            first: Vec::with_capacity(rows.len() + 1),
            fingers: Vec::with_capacity(rows.len()),
            said: vec![CellId::NOTHING; rows.len()],
            row_of: (0..reach.len()).map(|class| reach.row_number(Direction::Ingress, class)).collect(),
            pairs: HashMap::new(),
            width: cells.len(),
            row: vec![CellId::NOTHING; reach.len() as usize],
        };
        for row in rows {
            let at = u32::try_from(matrix.starts.len()).unwrap_or(u32::MAX);
            matrix.first.push(at);
            matrix.fingers.push(at);
            matrix.starts.extend(row.runs().iter().map(|(start, _)| *start));
            matrix.cells.extend(row.runs().iter().map(|(_, cell)| *cell));
        }
        matrix.first.push(u32::try_from(matrix.starts.len()).unwrap_or(u32::MAX));
        matrix
    }

    /// What becomes of traffic from a class to each class, as far as policies tell.
    pub fn from(&mut self, source: u32, cells: &mut Cells) -> &[CellId] {
        self.seek(source);
        let runs = self.reach.row(Direction::Egress, source).runs();
        let ends = runs.iter().skip(1).map(|(start, _)| *start).chain([self.reach.len()]);
        for ((start, out), end) in runs.iter().zip(ends) {
            let (start, end) = (*start as usize, end as usize);
            if *out == CellId::NOTHING {
                self.row[start..end].fill(CellId::NOTHING);
                continue;
            }
            if self.width.saturating_mul(self.pairs.len() + 1) > MOST_PAIRS && !self.pairs.contains_key(out) {
                for class in start..end {
                    self.row[class] = cells.both(*out, self.said[self.row_of[class] as usize]);
                }
                continue;
            }
            let pairs = self.pairs.entry(*out).or_insert_with(|| vec![None; self.width]);
            for class in start..end {
                let into = self.said[self.row_of[class] as usize];
                let pair = &mut pairs[into.0 as usize];
                self.row[class] = match pair {
                    Some(cell) => *cell,
                    None => *pair.insert(cells.both(*out, into)),
                };
            }
        }
        &self.row
    }

    /// Moves every finger to the source.
    fn seek(&mut self, source: u32) {
        for (row, finger) in self.fingers.iter_mut().enumerate() {
            let (mut at, end) = (*finger as usize, self.first[row + 1] as usize);
            while at + 1 < end && self.starts[at + 1] <= source {
                at += 1;
            }
            while self.starts[at] > source {
                at -= 1;
            }
            *finger = u32::try_from(at).unwrap_or(u32::MAX);
            self.said[row] = self.cells[at];
        }
    }
}
