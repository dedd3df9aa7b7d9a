//! Sets of traffic, exact and canonical: what of all that a connection can carry.
//!
//! Everything that rules tell apart lies on one line: for each protocol 65,536 places (a port; for ICMP type and code;
//! for IGMP the type), and the whole of it once more for each interval of source ports that some rule names. A set is a
//! list of intervals on that line. Two sets that hold the same are equal, so they are interned, and operations on them
//! are remembered: a cluster of ten thousand policies has some hundred sets, and every cell of its matrix is a number.

mod line;

use std::sync::Arc;

use palisade_model::traffic::Protocol;

use super::groups::Table;
use crate::work::Work;
pub use line::Line;
use line::index;

/// Places on the line for each protocol.
const WIDTH: u32 = 1 << 16;
/// The protocols, in their order on the line.
pub const PROTOCOLS: [Protocol; 5] =
    [Protocol::Tcp, Protocol::Udp, Protocol::Sctp, Protocol::Icmp, Protocol::Igmp];

/// A set of traffic: intervals, sorted, none touching another.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrafficSet(Arc<[(u32, u32)]>);

/// An interned set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrafficId(pub u32);

/// Interned sets, and what came of combining them.
#[derive(Debug)]
pub struct Traffics {
    line: Line,
    sets: Vec<TrafficSet>,
    ids: Table<TrafficSet, TrafficId>,
    and: Remembered,
    or: Remembered,
    minus: Remembered,
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

// === impl TrafficSet ===

impl TrafficSet {
    /// From pieces in any order, which may overlap.
    pub fn of(mut pieces: Vec<(u32, u32)>) -> Self {
        // The order of the pairs, in one comparison.
        pieces.sort_unstable_by_key(|(first, last)| u64::from(*first) << 32 | u64::from(*last));
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(pieces.len());
        for (first, last) in pieces {
            match merged.last_mut() {
                Some(open) if first <= open.1.saturating_add(1) => open.1 = open.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        TrafficSet(merged.into())
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The intervals.
    pub fn pieces(&self) -> &[(u32, u32)] {
        &self.0
    }

    /// Whether a place is in it.
    pub fn contains(&self, place: u32) -> bool {
        let after = self.0.partition_point(|(first, _)| *first <= place);
        after > 0 && place <= self.0[after - 1].1
    }

    /// What is in either.
    pub fn or(&self, other: &Self) -> Self {
        TrafficSet::of(self.0.iter().chain(&*other.0).copied().collect())
    }

    /// What is in both.
    pub fn and(&self, other: &Self) -> Self {
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut both = Vec::new();
        while let (Some(one), Some(two)) = (a.peek(), b.peek()) {
            let (first, last) = (one.0.max(two.0), one.1.min(two.1));
            if first <= last {
                both.push((first, last));
            }
            if one.1 <= two.1 {
                a.next();
            } else {
                b.next();
            }
        }
        TrafficSet(both.into())
    }

    /// What is in this one and not in the other.
    pub fn minus(&self, other: &Self) -> Self {
        let mut left = Vec::new();
        let mut holes = other.0.iter().peekable();
        for (first, last) in self.0.iter().copied() {
            let mut from = Some(first);
            while let (Some(start), Some(hole)) = (from, holes.peek()) {
                if hole.1 < start {
                    holes.next();
                } else if hole.0 > last {
                    break;
                } else {
                    if hole.0 > start {
                        left.push((start, hole.0 - 1));
                    }
                    from = (hole.1 < last).then(|| hole.1 + 1);
                    if from.is_some() {
                        holes.next();
                    }
                }
            }
            left.extend(from.map(|start| (start, last)));
        }
        TrafficSet(left.into())
    }

    /// The places of one protocol, in the layer of connections that name no source port.
    pub fn of_protocol(&self, protocol: Protocol) -> Vec<(u16, u16)> {
        self.of_layer(0, protocol)
    }

    /// The places of one protocol in a layer.
    pub fn of_layer(&self, layer: u32, protocol: Protocol) -> Vec<(u16, u16)> {
        let base = layer * WIDTH * 5 + index(protocol) * WIDTH;
        let end = base + WIDTH - 1;
        let start = self.0.partition_point(|(_, last)| *last < base);
        let inside = self.0[start..].iter().take_while(|(first, _)| *first <= end);
        let clip = |place: u32| u16::try_from(place.clamp(base, end) - base).unwrap_or(u16::MAX);
        inside.map(|(first, last)| (clip(*first), clip(*last))).collect()
    }
}

// === impl Traffics ===

impl Traffics {
    /// Nothing.
    pub const EMPTY: TrafficId = TrafficId(0);
    /// Everything.
    pub const ALL: TrafficId = TrafficId(1);

    /// With the two that are always there.
    pub fn new(line: Line, work: Work) -> Self {
        let all = line.all();
        let mut traffics = Traffics {
            line,
            sets: Vec::new(),
            ids: Table::default(),
            and: Table::default(),
            or: Table::default(),
            minus: Table::default(),
            work,
        };
        traffics.intern(TrafficSet::default());
        traffics.intern(all);
        traffics
    }

    /// The line that the sets lie on.
    pub fn line(&self) -> &Line {
        &self.line
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
        self.work.take(OPERATION + KEPT * set.0.len() as u64);
        self.sets.push(set.clone());
        self.ids.insert(set, id);
        id
    }

    /// A number's set.
    pub fn set(&self, id: TrafficId) -> &TrafficSet {
        &self.sets[id.0 as usize]
    }

    /// What is in both.
    pub fn and(&mut self, a: TrafficId, b: TrafficId) -> TrafficId {
        match (a, b) {
            (Self::EMPTY, _) | (_, Self::EMPTY) => return Self::EMPTY,
            (Self::ALL, other) | (other, Self::ALL) => return other,
            _ if a == b => return a,
            _ => {}
        }
        let key = (a.min(b), a.max(b));
        if let Some(known) = self.and.get(&key) {
            return *known;
        }
        self.work.take(cost(self.set(a), self.set(b)));
        let set = self.set(a).and(self.set(b));
        let id = self.intern(set);
        remember(&mut self.and, key, id);
        id
    }

    /// What is in either.
    pub fn or(&mut self, a: TrafficId, b: TrafficId) -> TrafficId {
        match (a, b) {
            (Self::ALL, _) | (_, Self::ALL) => return Self::ALL,
            (Self::EMPTY, other) | (other, Self::EMPTY) => return other,
            _ if a == b => return a,
            _ => {}
        }
        let key = (a.min(b), a.max(b));
        if let Some(known) = self.or.get(&key) {
            return *known;
        }
        self.work.take(cost(self.set(a), self.set(b)));
        let set = self.set(a).or(self.set(b));
        let id = self.intern(set);
        remember(&mut self.or, key, id);
        id
    }

    /// What is in the first and not in the second.
    pub fn minus(&mut self, a: TrafficId, b: TrafficId) -> TrafficId {
        match (a, b) {
            (Self::EMPTY, _) | (_, Self::ALL) => return Self::EMPTY,
            (_, Self::EMPTY) => return a,
            _ if a == b => return Self::EMPTY,
            _ => {}
        }
        if let Some(known) = self.minus.get(&(a, b)) {
            return *known;
        }
        self.work.take(cost(self.set(a), self.set(b)));
        let set = self.set(a).minus(self.set(b));
        let id = self.intern(set);
        remember(&mut self.minus, (a, b), id);
        id
    }
}

/// What an operation on two sets takes.
fn cost(a: &TrafficSet, b: &TrafficSet) -> u64 {
    OPERATION + 2 * (a.0.len() + b.0.len()) as u64
}

fn remember(known: &mut Remembered, key: (TrafficId, TrafficId), id: TrafficId) {
    if known.len() >= MOST_REMEMBERED {
        known.clear();
    }
    known.insert(key, id);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(pieces: &[(u32, u32)]) -> TrafficSet {
        TrafficSet::of(pieces.to_vec())
    }

    #[test]
    fn operations_say_what_membership_says() {
        let mut sets = Vec::new();
        for bits in 0_u32..256 {
            let pieces = (0..8).filter(|bit| bits >> bit & 1 == 1).map(|bit| (bit, bit)).collect();
            sets.push(TrafficSet::of(pieces));
        }
        for a in &sets {
            for b in &sets {
                let (and, or, minus) = (a.and(b), a.or(b), a.minus(b));
                for place in 0..8 {
                    let (x, y) = (a.contains(place), b.contains(place));
                    assert_eq!(and.contains(place), x && y);
                    assert_eq!(or.contains(place), x || y);
                    assert_eq!(minus.contains(place), x && !y);
                }
                // Canonical: the same places are the same set.
                assert_eq!(minus.or(&and), *a);
            }
        }
    }

    #[test]
    fn minus_of_many_holes() {
        let left = set(&[(0, 100)]).minus(&set(&[(0, 3), (10, 10), (50, 60), (99, 200)]));
        assert_eq!(left, set(&[(4, 9), (11, 49), (61, 98)]));
        assert_eq!(set(&[(5, 6), (8, 9)]).minus(&set(&[(0, 20)])), set(&[]));
    }
}
