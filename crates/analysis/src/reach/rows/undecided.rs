//! Traffic that no rule has decided yet, updated in place as rules take their parts.
//!
//! A program of hundreds of rules has as many intermediate rests, each as large as the result: interned they would be
//! nearly all of the memory.

use palisade_model::traffic_set::TrafficSet;

/// Intervals of traffic offsets, sorted, none adjacent to another.
#[derive(Debug, Clone)]
pub(super) struct UndecidedTraffic(Vec<(u32, u32)>);

/// Intervals are looked up if there is at most one for this many undecided ones; more are merged.
const LOOKUP_FACTOR: usize = 16;

/// Work to find an interval and to replace it.
const LOOKUP_WORK: u64 = 60;
/// Number of intervals behind it that move in a step (measured: 52 ns with 1,000 of them).
const MOVED_PER_STEP: u64 = 16;
/// Work of each interval of either list that is merged.
const MERGE_WORK: u64 = 8;

// === impl UndecidedTraffic ===

impl UndecidedTraffic {
    /// Creates the state in which all of a set is undecided.
    pub(super) fn new(all: &TrafficSet) -> Self {
        UndecidedTraffic(all.intervals().to_vec())
    }

    /// Creates the state in which nothing is undecided.
    pub(super) fn none() -> Self {
        UndecidedTraffic(Vec::new())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn pieces(&self) -> &[(u32, u32)] {
        &self.0
    }

    /// Moves what is undecided of `about` to the end of `hit`. Returns how many steps of [`Work`](crate::work::Work) it took.
    pub(super) fn take(&mut self, about: &[(u32, u32)], hit: &mut Vec<(u32, u32)>) -> u64 {
        if about.len().saturating_mul(LOOKUP_FACTOR) > self.0.len() {
            let looked_at = self.0.len() + about.len();
            self.merge(about, hit);
            return MERGE_WORK * looked_at as u64;
        }
        let mut steps = 0;
        for piece in about {
            steps += LOOKUP_WORK + self.0.len() as u64 / MOVED_PER_STEP;
            self.take_one(*piece, hit);
        }
        steps
    }

    fn take_one(&mut self, (first, last): (u32, u32), hit: &mut Vec<(u32, u32)>) {
        let start = self.0.partition_point(|piece| piece.1 < first);
        let count = self.0[start..].partition_point(|piece| piece.0 <= last);
        let Some(met) = self.0.get(start..start + count).filter(|met| !met.is_empty()) else { return };
        let before = met.first().filter(|piece| piece.0 < first).map(|piece| (piece.0, first - 1));
        let after = met.last().filter(|piece| piece.1 > last).map(|piece| (last + 1, piece.1));
        hit.extend(met.iter().map(|piece| (piece.0.max(first), piece.1.min(last))));
        self.0.splice(start..start + count, before.into_iter().chain(after));
    }

    fn merge(&mut self, about: &[(u32, u32)], hit: &mut Vec<(u32, u32)>) {
        let mut left = Vec::with_capacity(self.0.len() + about.len());
        let mut about = about.iter().peekable();
        for (first, last) in self.0.iter().copied() {
            let mut from = Some(first);
            while let (Some(start), Some((begin, end))) = (from, about.peek().map(|piece| **piece)) {
                if end < start {
                    about.next();
                } else if begin > last {
                    break;
                } else {
                    if begin > start {
                        left.push((start, begin - 1));
                    }
                    hit.push((begin.max(start), end.min(last)));
                    from = (end < last).then(|| end + 1);
                    if from.is_some() {
                        about.next();
                    }
                }
            }
            left.extend(from.map(|start| (start, last)));
        }
        self.0 = left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(bits: u32) -> TrafficSet {
        TrafficSet::from_intervals((0..12).filter(|bit| bits >> bit & 1 == 1).map(|bit| (bit, bit)).collect())
    }

    #[test]
    fn both_ways_to_take_a_part_agree_with_the_sets() {
        for all in (0_u32..1 << 12).step_by(7) {
            for about in (0_u32..1 << 12).step_by(53) {
                let (all, about) = (set(all), set(about));
                let mut merged = UndecidedTraffic::new(&all);
                let mut looked_up = merged.clone();
                let mut hits = [Vec::new(), Vec::new()];
                merged.merge(about.intervals(), &mut hits[0]);
                about.intervals().iter().for_each(|piece| looked_up.take_one(*piece, &mut hits[1]));
                for (undecided, hit) in [merged, looked_up].iter().zip(hits) {
                    assert_eq!(undecided.pieces(), all.difference(&about).intervals());
                    assert_eq!(TrafficSet::from_intervals(hit), all.intersection(&about));
                }
            }
        }
    }
}
