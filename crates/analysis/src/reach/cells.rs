//! What one side says about all traffic between two classes, as a number.
//!
//! A cell is two sets: what is allowed, and what is refused with an answer; the rest is dropped. There are few different
//! ones in a cluster, so they are interned, and what comes of an egress and an ingress cell together is remembered.

use super::groups::Table;
use super::traffics::{TrafficId, Traffics};
use crate::work::Work;
use palisade_model::traffic_set::TrafficSpace;

/// What becomes of all traffic between two endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell {
    /// What is let through.
    pub allow: TrafficId,
    /// What is refused with an answer.
    pub reject: TrafficId,
}

/// An interned cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellId(pub u32);

/// Interned cells, shared by everything that is compared.
#[derive(Debug)]
pub struct Cells {
    /// The sets they are made of.
    pub traffics: Traffics,
    list: Vec<Cell>,
    ids: Table<Cell, CellId>,
    both: Table<(CellId, CellId), CellId>,
}

/// Steps to combine two cells and to remember what came of it, beside what their traffic takes.
const BOTH: u64 = 100;

/// More pairs than this are not remembered: they can be worked out again.
const MOST_REMEMBERED: usize = 1 << 22;

// === impl CellId ===

impl CellId {
    /// Everything is dropped.
    pub const NOTHING: CellId = CellId(0);
    /// Everything is let through.
    pub const ALL: CellId = CellId(1);
}

// === impl Cells ===

impl Cells {
    /// With the two that are always there.
    pub fn new(space: TrafficSpace) -> Self {
        Cells::limited(space, Work::default())
    }

    /// The same with another limit to what may be worked out.
    pub fn limited(space: TrafficSpace, work: Work) -> Self {
        let mut cells = Cells {
            traffics: Traffics::new(space, work),
            list: Vec::new(),
            ids: Table::default(),
            both: Table::default(),
        };
        cells.intern(Cell { allow: Traffics::EMPTY, reject: Traffics::EMPTY });
        cells.intern(Cell { allow: Traffics::ALL, reject: Traffics::EMPTY });
        cells
    }

    /// A cell's number.
    pub fn intern(&mut self, cell: Cell) -> CellId {
        let fresh = CellId(u32::try_from(self.list.len()).unwrap_or(u32::MAX));
        let id = *self.ids.entry(cell).or_insert(fresh);
        if id == fresh {
            self.list.push(cell);
        }
        id
    }

    /// A number's cell.
    pub fn get(&self, id: CellId) -> Cell {
        self.list[id.0 as usize]
    }

    /// What may still be worked out.
    pub fn work(&mut self) -> &mut Work {
        &mut self.traffics.work
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none, which never happens.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// What the source's side and the destination's side come to: whoever refuses first says how.
    pub fn both(&mut self, egress: CellId, ingress: CellId) -> CellId {
        match (egress, ingress) {
            (CellId::NOTHING, _) => return CellId::NOTHING,
            (CellId::ALL, other) | (other, CellId::ALL) => return other,
            _ => {}
        }
        if let Some(known) = self.both.get(&(egress, ingress)) {
            return *known;
        }
        self.traffics.work.take(BOTH);
        let (out, into) = (self.get(egress), self.get(ingress));
        let allow = self.traffics.intersection(out.allow, into.allow);
        let refused = self.traffics.intersection(out.allow, into.reject);
        let reject = self.traffics.union(out.reject, refused);
        let id = self.intern(Cell { allow, reject });
        if self.both.len() >= MOST_REMEMBERED {
            self.both.clear();
        }
        self.both.insert((egress, ingress), id);
        id
    }

    /// What either of two lets through; how the rest is refused is as the first says.
    pub fn either(&mut self, one: CellId, other: CellId) -> CellId {
        if one == other {
            return one;
        }
        let (a, b) = (self.get(one), self.get(other));
        let allow = self.traffics.union(a.allow, b.allow);
        let refused = self.traffics.union(a.reject, b.reject);
        let reject = self.traffics.difference(refused, allow);
        self.intern(Cell { allow, reject })
    }
}
