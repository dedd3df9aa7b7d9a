//! Interned sets of traffic, with the results of operations on them.
//!
//! A cluster of ten thousand policies has some hundred sets, so that every cell of its matrix is a number, and combining two of
//! them is mostly a lookup.

use palisade_model::traffic_set::{TrafficSet, TrafficSpace};

use super::groups::Table;
use crate::work::Work;

/// An interned set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrafficId(pub u32);

/// Interned sets, and the results of combining them.
#[derive(Debug)]
pub struct Traffics {
    space: TrafficSpace,
    sets: Vec<TrafficSet>,
    ids: Table<TrafficSet, TrafficId>,
    intersections: Remembered,
    unions: Remembered,
    differences: Remembered,
    /// What may still be worked out, by everything that shares the sets.
    pub work: Work,
}

/// Steps of one operation beside those for each interval.
const OPERATION: u64 = 100;
/// Steps for each interval that is kept. It is memory that runs out first: 8 bytes each.
const KEPT: u64 = 80;

/// What came of pairs of sets.
type Remembered = Table<(TrafficId, TrafficId), TrafficId>;

/// More pairs than this are not remembered: they can be worked out again.
const MOST_REMEMBERED: usize = 1 << 22;

// === impl Traffics ===

impl Traffics {
    /// Nothing.
    pub const EMPTY: TrafficId = TrafficId(0);
    /// Everything.
    pub const ALL: TrafficId = TrafficId(1);

    /// With the two that are always there.
    pub fn new(space: TrafficSpace, work: Work) -> Self {
        let all = space.all();
        let mut traffics = Traffics {
            space,
            sets: Vec::new(),
            ids: Table::default(),
            intersections: Table::default(),
            unions: Table::default(),
            differences: Table::default(),
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

    /// How many sets there are.
    pub fn len(&self) -> u32 {
        u32::try_from(self.sets.len()).unwrap_or(u32::MAX)
    }

    /// Whether there are none, which never happens.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// A set's number.
    pub fn intern(&mut self, set: TrafficSet) -> TrafficId {
        if let Some(id) = self.ids.get(&set) {
            return *id;
        }
        let id = TrafficId(u32::try_from(self.sets.len()).unwrap_or(u32::MAX));
        self.work.take(OPERATION + KEPT * set.intervals().len() as u64);
        self.sets.push(set.clone());
        self.ids.insert(set, id);
        id
    }

    /// A number's set.
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

/// What an operation on two sets takes.
fn cost(a: &TrafficSet, b: &TrafficSet) -> u64 {
    OPERATION + 2 * (a.intervals().len() + b.intervals().len()) as u64
}

fn remember(known: &mut Remembered, key: (TrafficId, TrafficId), id: TrafficId) {
    if known.len() >= MOST_REMEMBERED {
        known.clear();
    }
    known.insert(key, id);
}
