//! A stream of random numbers from a seed: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).

/// From one state of a stream to the next.
pub(crate) const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The number of a state.
pub(crate) fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// A number below `end` from 64 bits, each equally likely up to one part in 2^64 / `end`; 0 where `end` is 0.
pub(crate) fn scaled(word: u64, end: u64) -> u64 {
    ((u128::from(word) * u128::from(end)) >> 64) as u64
}

/// The same seed gives the same numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// Puts values into another order: Fisher and Yates's shuffle.
    pub(crate) fn shuffle<T>(&mut self, values: &mut [T]) {
        for last in (1..values.len()).rev() {
            values.swap(last, self.below(last as u64 + 1) as usize);
        }
    }

    /// A number below `end`, each equally likely up to one part in 2^64 / `end`; 0 where `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        scaled(self.word(), end)
    }
}
