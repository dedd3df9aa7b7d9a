//! Sets of traffic, exact and canonical: any part of all that a connection can carry.
//!
//! Everything that rules distinguish lies on one axis ([`TrafficSpace`]), and a set is a list of intervals on it. Sets with the
//! same elements are equal, so that they can be interned and compared by number.
//!
//! ```text
//!   TrafficMatch ──regions──► Region: protocol × places × source ports ──space──► intervals: TrafficSet
//!                             │
//!                             └──contains──► a single connection
//! ```
//!
//! [`regions`] is the one reading of a [`TrafficMatch`](crate::policy::TrafficMatch): single connections, sets and the sweep
//! over ports of `flatten` all go through it.

mod regions;
mod space;

use std::sync::Arc;

use crate::traffic::Protocol;

pub use regions::{Addressing, Point, Receiver, Region, Unresolved};
pub use space::TrafficSpace;

/// A set of traffic: intervals of offsets in a [`TrafficSpace`], sorted, none touching another.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrafficSet(Arc<[(u32, u32)]>);

/// The protocols in the order they have on the axis.
pub const PROTOCOLS: [Protocol; 5] =
    [Protocol::Tcp, Protocol::Udp, Protocol::Sctp, Protocol::Icmp, Protocol::Igmp];

// === impl TrafficSet ===

impl TrafficSet {
    /// Returns the union of intervals in any order, which may overlap.
    pub fn from_intervals(mut intervals: Vec<(u32, u32)>) -> Self {
        // The order of the pairs, in one comparison.
        intervals.sort_unstable_by_key(|(first, last)| u64::from(*first) << 32 | u64::from(*last));
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(intervals.len());
        for (first, last) in intervals {
            match merged.last_mut() {
                Some(open) if first <= open.1.saturating_add(1) => open.1 = open.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        TrafficSet(merged.into())
    }

    /// Returns whether the set has no elements.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the first and last offset of each interval, in order.
    pub fn intervals(&self) -> &[(u32, u32)] {
        &self.0
    }

    /// Returns whether an offset is in the set.
    pub fn contains(&self, offset: u32) -> bool {
        let after = self.0.partition_point(|(first, _)| *first <= offset);
        after > 0 && offset <= self.0[after - 1].1
    }

    /// Returns the elements of either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        TrafficSet::from_intervals(self.0.iter().chain(&*other.0).copied().collect())
    }

    /// Returns the elements of both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
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

    /// Returns the elements of this set that the other does not have.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(intervals: &[(u32, u32)]) -> TrafficSet {
        TrafficSet::from_intervals(intervals.to_vec())
    }

    #[test]
    fn operations_agree_with_membership() {
        let mut sets = Vec::new();
        for bits in 0_u32..256 {
            let intervals = (0..8).filter(|bit| bits >> bit & 1 == 1).map(|bit| (bit, bit)).collect();
            sets.push(TrafficSet::from_intervals(intervals));
        }
        for a in &sets {
            for b in &sets {
                let (both, either, rest) = (a.intersection(b), a.union(b), a.difference(b));
                for offset in 0..8 {
                    let (x, y) = (a.contains(offset), b.contains(offset));
                    assert_eq!(both.contains(offset), x && y);
                    assert_eq!(either.contains(offset), x || y);
                    assert_eq!(rest.contains(offset), x && !y);
                }
                // Canonical: the same elements are the same set.
                assert_eq!(rest.union(&both), *a);
            }
        }
    }

    #[test]
    fn difference_with_many_holes() {
        let left = set(&[(0, 100)]).difference(&set(&[(0, 3), (10, 10), (50, 60), (99, 200)]));
        assert_eq!(left, set(&[(4, 9), (11, 49), (61, 98)]));
        assert_eq!(set(&[(5, 6), (8, 9)]).difference(&set(&[(0, 20)])), set(&[]));
    }
}
