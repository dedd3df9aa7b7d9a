//! Interned sets of traffic, with the results of operations on them.
//!
//! A cluster of ten thousand policies has some hundred sets, so that every cell of its matrix is a number, and combining two of
//! them is mostly a lookup.

use palisade_model::traffic_set::{TrafficSet, TrafficSpace};

use super::groups::FastMap;
use crate::work::Work;

/// Index of an interned set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrafficId(pub u32);

/// Interned sets, and the results of combining them.
#[derive(Debug)]
pub struct Traffics {
    space: TrafficSpace,
    sets: Vec<TrafficSet>,
    ids: FastMap<TrafficSet, TrafficId>,
    intersections: OperationCache,
    unions: OperationCache,
    differences: OperationCache,
    /// Budget of work of everything that shares the sets.
    pub work: Work,
}

/// Work of one operation, besides that for each interval.
const OPERATION_WORK: u64 = 100;
/// Work of each interval that is kept: 8 bytes each, so that memory is the limit.
const INTERVAL_WORK: u64 = 80;

/// Results of an operation on pairs of sets.
type OperationCache = FastMap<(TrafficId, TrafficId), TrafficId>;

/// Maximum number of cached results of an operation; then the cache is cleared.
const MAX_CACHED: usize = 1 << 22;

// === impl Traffics ===

impl Traffics {
    /// The empty set.
    pub const EMPTY: TrafficId = TrafficId(0);
    /// The set of all traffic.
    pub const ALL: TrafficId = TrafficId(1);

    /// Creates the sets that always exist.
    pub fn new(space: TrafficSpace, work: Work) -> Self {
        let all = space.all();
        let mut traffics = Traffics {
            space,
            sets: Vec::new(),
            ids: FastMap::default(),
            intersections: FastMap::default(),
            unions: FastMap::default(),
            differences: FastMap::default(),
            work,
        };
        traffics.intern(TrafficSet::default());
        traffics.intern(all);
        traffics
    }

    /// Returns the space that the sets lie in.
    pub fn space(&self) -> &TrafficSpace {
        &self.space
    }

    /// Returns the number of sets.
    pub fn len(&self) -> u32 {
        u32::try_from(self.sets.len()).unwrap_or(u32::MAX)
    }

    /// Whether there are no sets, which never happens.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Interns a set.
    pub fn intern(&mut self, set: TrafficSet) -> TrafficId {
        if let Some(id) = self.ids.get(&set) {
            return *id;
        }
        let id = TrafficId(u32::try_from(self.sets.len()).unwrap_or(u32::MAX));
        self.work.take(OPERATION_WORK + INTERVAL_WORK * set.intervals().len() as u64);
        self.sets.push(set.clone());
        self.ids.insert(set, id);
        id
    }

    /// Returns an interned set.
    pub fn set(&self, id: TrafficId) -> &TrafficSet {
        &self.sets[id.0 as usize]
    }

    /// Returns the traffic of both.
    pub fn intersection(&mut self, a: TrafficId, b: TrafficId) -> TrafficId {
        match (a, b) {
            (Self::EMPTY, _) | (_, Self::EMPTY) => return Self::EMPTY,
            (Self::ALL, other) | (other, Self::ALL) => return other,
            _ if a == b => return a,
            _ => {}
        }
        let key = (a.min(b), a.max(b));
        if let Some(known) = self.intersections.get(&key) {
            return *known;
        }
        self.work.take(cost(self.set(a), self.set(b)));
        let set = self.set(a).intersection(self.set(b));
        let id = self.intern(set);
        remember(&mut self.intersections, key, id);
        id
    }

    /// Returns the traffic of either.
    pub fn union(&mut self, a: TrafficId, b: TrafficId) -> TrafficId {
        match (a, b) {
            (Self::ALL, _) | (_, Self::ALL) => return Self::ALL,
            (Self::EMPTY, other) | (other, Self::EMPTY) => return other,
            _ if a == b => return a,
            _ => {}
        }
        let key = (a.min(b), a.max(b));
        if let Some(known) = self.unions.get(&key) {
            return *known;
        }
        self.work.take(cost(self.set(a), self.set(b)));
        let set = self.set(a).union(self.set(b));
        let id = self.intern(set);
        remember(&mut self.unions, key, id);
        id
    }

    /// Returns the traffic of the first that the second does not have.
    pub fn difference(&mut self, a: TrafficId, b: TrafficId) -> TrafficId {
        match (a, b) {
            (Self::EMPTY, _) | (_, Self::ALL) => return Self::EMPTY,
            (_, Self::EMPTY) => return a,
            _ if a == b => return Self::EMPTY,
            _ => {}
        }
        if let Some(known) = self.differences.get(&(a, b)) {
            return *known;
        }
        self.work.take(cost(self.set(a), self.set(b)));
        let set = self.set(a).difference(self.set(b));
        let id = self.intern(set);
        remember(&mut self.differences, (a, b), id);
        id
    }
}

/// Returns the work of an operation on two sets.
fn cost(a: &TrafficSet, b: &TrafficSet) -> u64 {
    OPERATION_WORK + 2 * (a.intervals().len() + b.intervals().len()) as u64
}

fn remember(known: &mut OperationCache, key: (TrafficId, TrafficId), id: TrafficId) {
    if known.len() >= MAX_CACHED {
        known.clear();
    }
    known.insert(key, id);
}
