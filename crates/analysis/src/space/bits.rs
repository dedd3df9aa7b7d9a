//! Sets of small numbers: which predicates, which namespaces.

use std::cmp::Ordering;

/// A set of numbers below a bound that its maker knows.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bits(Vec<u64>);

// === impl Bits ===

impl Bits {
    /// None of the numbers below `bound`.
    pub(super) fn none(bound: usize) -> Self {
        Bits(vec![0; bound.div_ceil(64)])
    }

    /// All of the numbers below `bound`.
    pub(super) fn all(bound: usize) -> Self {
        (0..bound).fold(Bits::none(bound), |mut bits, at| {
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

    /// Whether a number is in it.
    pub fn has(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The numbers, in order.
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

    /// Keeps what is in the other, too.
    pub(super) fn keep(&mut self, other: &Bits) {
        for (at, word) in self.0.iter_mut().enumerate() {
            *word &= other.0.get(at).copied().unwrap_or(0);
        }
    }

    /// Removes what is in the other.
    pub(super) fn remove(&mut self, other: &Bits) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word &= !other;
        }
    }

    /// Whether some number is in both.
    pub(super) fn meets(&self, other: &Bits) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    /// How many numbers are in both.
    pub(super) fn shared(&self, other: &Bits) -> usize {
        self.0.iter().zip(&other.0).map(|(a, b)| (a & b).count_ones() as usize).sum()
    }

    /// As texts of noes and yeses compare: by the first number that only one of them has, and who has it is greater.
    pub(super) fn by_first(&self, other: &Bits) -> Ordering {
        let text = |bits: &Bits| -> Vec<u64> { bits.0.iter().map(|word| word.reverse_bits()).collect() };
        text(self).cmp(&text(other))
    }

    /// Whether every number of it is in the other.
    pub(super) fn is_within(&self, other: &Bits) -> bool {
        let other = |at: usize| other.0.get(at).copied().unwrap_or(0);
        self.0.iter().enumerate().all(|(at, word)| word & !other(at) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_numbers() {
        let mut bits = Bits::none(70);
        bits.insert(3);
        bits.insert(69);
        assert_eq!(bits.iter().collect::<Vec<_>>(), [3, 69]);
        assert!(bits.has(69) && !bits.has(68) && !bits.has(1000));
        assert!(bits.is_within(&Bits::all(70)) && !Bits::all(70).is_within(&bits));
        assert!(bits.meets(&Bits::all(4)) && !bits.meets(&Bits::all(3)));
        assert_eq!((bits.len(), bits.shared(&Bits::all(4))), (2, 1));
        bits.remove(&Bits::all(4));
        bits.keep(&Bits::all(69));
        assert!(bits.is_empty());
    }
}
