//! Interned verdicts for all traffic between two classes.
//!
//! A cell is two sets: allowed and rejected traffic; the rest is dropped. A cluster has few distinct cells, so they are
//! interned, and combinations of an egress and an ingress cell are cached.

use super::groups::FastMap;
use super::traffics::{TrafficId, Traffics};
use crate::work::Work;
use palisade_model::traffic_set::TrafficSpace;

/// Verdicts for all traffic between two endpoints; the rest is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell {
    /// Allowed traffic.
    pub allow: TrafficId,
    /// Rejected traffic.
    pub reject: TrafficId,
}

/// Index of an interned cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellId(pub u32);

/// Interned cells. Analyses that are compared share them.
#[derive(Debug)]
pub struct Cells {
    /// Sets of the cells.
    pub traffics: Traffics,
    list: Vec<Cell>,
    ids: FastMap<Cell, CellId>,
    both: FastMap<(CellId, CellId), CellId>,
}

/// Work to combine two cells, besides that for their traffic.
const PAIR_WORK: u64 = 100;

/// Maximum number of cached pairs; then the cache is cleared.
const MAX_CACHED: usize = 1 << 22;

// === impl CellId ===

impl CellId {
    /// Everything is dropped.
    pub const NOTHING: CellId = CellId(0);
    /// Everything is allowed.
    pub const ALL: CellId = CellId(1);
}

// === impl Cells ===

impl Cells {
    /// Creates the cells that always exist, with the default budget of work.
    pub fn new(space: TrafficSpace) -> Self {
        Cells::limited(space, Work::default())
    }

    /// Creates the cells that always exist, with another budget of work.
    pub fn limited(space: TrafficSpace, work: Work) -> Self {
        let mut cells = Cells {
            traffics: Traffics::new(space, work),
            list: Vec::new(),
            ids: FastMap::default(),
            both: FastMap::default(),
        };
        cells.intern(Cell { allow: Traffics::EMPTY, reject: Traffics::EMPTY });
        cells.intern(Cell { allow: Traffics::ALL, reject: Traffics::EMPTY });
        cells
    }

    /// Interns a cell.
    pub fn intern(&mut self, cell: Cell) -> CellId {
        let fresh = CellId(u32::try_from(self.list.len()).unwrap_or(u32::MAX));
        let id = *self.ids.entry(cell).or_insert(fresh);
        if id == fresh {
            self.list.push(cell);
        }
        id
    }

    /// Returns an interned cell.
    pub fn get(&self, id: CellId) -> Cell {
        self.list[id.0 as usize]
    }

    /// Returns the budget of work.
    pub fn work(&mut self) -> &mut Work {
        &mut self.traffics.work
    }

    /// Returns the number of cells.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are no cells, which never happens.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Combines the cells of the source's and the destination's side. The side that refuses first decides how.
    pub fn both(&mut self, egress: CellId, ingress: CellId) -> CellId {
        match (egress, ingress) {
            (CellId::NOTHING, _) => return CellId::NOTHING,
            (CellId::ALL, other) | (other, CellId::ALL) => return other,
            _ => {}
        }
        if let Some(known) = self.both.get(&(egress, ingress)) {
            return *known;
        }
        self.traffics.work.take(PAIR_WORK);
        let (out, into) = (self.get(egress), self.get(ingress));
        let allow = self.traffics.intersection(out.allow, into.allow);
        let refused = self.traffics.intersection(out.allow, into.reject);
        let reject = self.traffics.union(out.reject, refused);
        let id = self.intern(Cell { allow, reject });
        if self.both.len() >= MAX_CACHED {
            self.both.clear();
        }
        self.both.insert((egress, ingress), id);
        id
    }

    /// Returns the cell that allows what either of two allows, and rejects what either rejects of the rest.
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
