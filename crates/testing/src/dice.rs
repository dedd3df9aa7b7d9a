//! Chance with a fixed sequence, so that a failure can be repeated.

/// Splitmix64: small, and good enough for worlds. The field is the seed.
#[derive(Debug, Clone)]
pub struct Dice(pub u64);

impl Dice {
    /// A number from 0 up to, and not including, `sides`.
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % sides as u64).unwrap()
    }

    /// One of these, which must not be empty.
    pub fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.roll(of.len())].clone()
    }
}
