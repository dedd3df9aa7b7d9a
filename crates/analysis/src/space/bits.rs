//! Bit sets of small indices: predicates, namespaces.

use std::cmp::Ordering;

/// Set of indices below a bound that is fixed at creation.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BitSet(Vec<u64>);

// === impl BitSet ===

impl BitSet {
    /// Creates the empty set for indices below `bound`.
    pub(super) fn none(bound: usize) -> Self {
        BitSet(vec![0; bound.div_ceil(64)])
    }

    /// Creates the set of all indices below `bound`.
    pub(super) fn all(bound: usize) -> Self {
        (0..bound).fold(BitSet::none(bound), |mut bits, at| {
            bits.insert(at);
            bits
        })
    }

    pub(super) fn insert(&mut self, at: usize) {
        if at / 64 >= self.0.len() {
            self.0.resize(at / 64 + 1, 0);
        }
        self.0[at / 64] |= 1 << (at % 64);
    }

    pub(super) fn clear(&mut self) {
        self.0.fill(0);
    }

    /// Whether an index is in the set.
    pub fn has(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Returns the number of indices.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns the indices in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(at * 64 + bit)
            })
        })
    }

    /// Intersects with another set in place.
    pub(super) fn keep(&mut self, other: &BitSet) {
        for (at, word) in self.0.iter_mut().enumerate() {
            *word &= other.0.get(at).copied().unwrap_or(0);
        }
    }

    /// Removes the indices of another set.
    pub(super) fn remove(&mut self, other: &BitSet) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word &= !other;
        }
    }

    /// Whether the intersection is not empty.
    pub(super) fn meets(&self, other: &BitSet) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    /// Returns the size of the intersection.
    pub(super) fn shared(&self, other: &BitSet) -> usize {
        self.0.iter().zip(&other.0).map(|(a, b)| (a & b).count_ones() as usize).sum()
    }

    /// Compares by the first index that only one of them has: the set that has it is greater.
    pub(super) fn by_first(&self, other: &BitSet) -> Ordering {
        let text = |bits: &BitSet| -> Vec<u64> { bits.0.iter().map(|word| word.reverse_bits()).collect() };
        text(self).cmp(&text(other))
    }

    /// Whether it is a subset of another set.
    pub(super) fn is_within(&self, other: &BitSet) -> bool {
        let other = |at: usize| other.0.get(at).copied().unwrap_or(0);
        self.0.iter().enumerate().all(|(at, word)| word & !other(at) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_numbers() {
        let mut bits = BitSet::none(70);
        bits.insert(3);
        bits.insert(69);
        assert_eq!(bits.iter().collect::<Vec<_>>(), [3, 69]);
        assert!(bits.has(69) && !bits.has(68) && !bits.has(1000));
        assert!(bits.is_within(&BitSet::all(70)) && !BitSet::all(70).is_within(&bits));
        assert!(bits.meets(&BitSet::all(4)) && !bits.meets(&BitSet::all(3)));
        assert_eq!((bits.len(), bits.shared(&BitSet::all(4))), (2, 1));
        bits.remove(&BitSet::all(4));
        bits.keep(&BitSet::all(69));
        assert!(bits.is_empty());
    }
}
