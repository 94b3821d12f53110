//! Random numbers of simulations, campaigns, benchmarks and tests: one generator, one rule for seeds.
//!
//! The generator is SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014), of the
//! crate `rand_xoshiro`. Its state is a counter that steps by a constant, so that any number of a stream is a multiplication away.
//!
//! The rule: a run has one seed, which the user gives or the test names, and which is printed with its results. What is drawn one after
//! the other comes from [`Random::new`]. What shards, threads or hosts draw must not depend on who draws first: each takes its numbers from
//! a stream with a name ([`Stream`]) or a number ([`Random::numbered`]), or by their places ([`word_at`], [`word_of`]). Never from a seed to which
//! something is added: the state is a sum as well, so that two such streams may be one, some steps apart. Results are recorded with their
//! seed, so a seed gives the same numbers in each release; the tests below hold them.
//!
//! Keys and tokens must be unguessable and come from the kernel, never from here.
//!
//! ```
//! use surefoot_random::Random;
//!
//! let mut random = Random::new(7);
//! assert!(random.below(6) < 6 && random.unit() < 1.0);
//! assert_eq!(Random::new(7).word(), Random::new(7).word());
//! ```

#![forbid(unsafe_code)]

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// The step of the counter: the odd number next to 2^64 over the golden ratio.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The number that belongs to a state.
#[inline]
fn mixed(state: u64) -> u64 {
    SplitMix64::seed_from_u64(state.wrapping_sub(STEP)).next_u64()
}

/// Numbers one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Random(SplitMix64);

impl Random {
    /// The stream of a seed.
    #[inline]
    pub fn new(seed: u64) -> Self {
        Random(SplitMix64::seed_from_u64(seed))
    }

    /// The stream of a seed and a number; different numbers have unrelated streams.
    pub fn numbered(seed: u64, number: u64) -> Self {
        Random::new(mixed(mixed(seed.wrapping_add(STEP)) ^ mixed(number.wrapping_mul(STEP))))
    }

    /// 64 bits.
    #[inline]
    pub fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `end`, each equally likely up to one part in 2^64 / `end`; 0 where `end` is 0.
    #[inline]
    pub fn below(&mut self, end: u64) -> u64 {
        scaled(self.word(), end)
    }

    /// A number from 0 to below 1, a multiple of 2^-53.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number in (0, 1): the middle of one of 2^53 equal parts, so that its logarithm is finite.
    #[inline]
    pub fn open_unit(&mut self) -> f64 {
        ((self.word() >> 11) as f64 + 0.5) * (1.0 / (1u64 << 53) as f64)
    }

    /// A number of an exponential distribution with this mean.
    #[inline]
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.open_unit().ln()
    }

    /// True with this probability.
    #[inline]
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Puts values into another order: Fisher and Yates's shuffle.
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for last in (1..values.len()).rev() {
            values.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// A stream with a name, which can be entered anywhere.
#[derive(Debug, Clone, Copy)]
pub struct Stream {
    key: u64,
}

impl Stream {
    /// The stream of a seed and a name; different names have unrelated streams.
    pub fn new(seed: u64, name: &str) -> Self {
        // FNV-1a takes the name to a number; the mixing makes the key.
        let digest = name
            .bytes()
            .fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3));
        Stream { key: mixed(mixed(seed.wrapping_add(STEP)) ^ digest) }
    }

    /// Word `index` of the stream.
    #[inline]
    pub fn word(self, index: u64) -> u64 {
        mixed(self.key.wrapping_add(index.wrapping_mul(STEP)))
    }
}

/// Word `place` of the stream of a seed, from 0.
#[inline]
pub fn word_at(seed: u64, place: u64) -> u64 {
    Random::new(seed.wrapping_add(place.wrapping_mul(STEP))).word()
}

/// The word that belongs to a seed and several places.
pub fn word_of<const N: usize>(seed: u64, places: [u64; N]) -> u64 {
    places.into_iter().fold(mixed(seed.wrapping_add(STEP)), |state, place| {
        mixed(state ^ mixed(place.wrapping_add(1).wrapping_mul(STEP))).wrapping_add(STEP)
    })
}

/// A number below `end` from 64 bits, each equally likely up to one part in 2^64 / `end`; 0 where `end` is 0.
#[inline]
pub fn scaled(word: u64, end: u64) -> u64 {
    ((u128::from(word) * u128::from(end)) >> 64) as u64
}

/// A number below `limit` from 32 bits, each equally likely up to one part in 2^32 / `limit`.
#[inline]
pub fn scaled_32(bits: u32, limit: u32) -> u32 {
    ((u64::from(bits) * u64::from(limit)) >> 32) as u32
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_seed_gives_the_numbers_that_it_gave_in_each_release() {
        // The first words from the state 0, as the authors' C program prints them.
        let mut random = Random::new(0);
        let published = [0xE220_A839_7B1D_CDAF, 0x6E78_9E6A_A1B9_65F4, 0x06C4_5D18_8009_454F];
        assert_eq!([random.word(), random.word(), random.word()], published);
        assert_eq!([0, 1, 2].map(|place| word_at(0, place)), published);
        // By the code that each part of the project had of its own.
        assert_eq!(Random::numbered(1, 1).word(), 0x0C7B_A33B_3057_6AB0);
        assert_eq!(Stream::new(1, "a").word(7), 0x8B94_6E9F_1FA2_0751);
        assert_eq!(word_of(1, [0, 1, 2]), 0x7812_F30D_9937_C2A0);
        assert_eq!(word_at(7, 3), 0x953A_EB70_673E_29CB);
    }

    #[test]
    fn numbers_depend_on_all_they_are_named_by() {
        let of = |seed, number| Random::numbered(seed, number).word();
        assert!(of(1, 1) == of(1, 1) && of(1, 1) != of(2, 1) && of(1, 1) != of(1, 2));
        let of = |seed, name| Stream::new(seed, name).word(7);
        assert!(of(1, "a") == of(1, "a") && of(1, "a") != of(2, "a") && of(1, "a") != of(1, "b"));
        let numbers = [(1, [0, 0, 0]), (2, [0, 0, 0]), (1, [1, 0, 0]), (1, [0, 1, 0]), (1, [0, 0, 1])];
        let words: HashSet<u64> = numbers.iter().map(|(seed, places)| word_of(*seed, *places)).collect();
        assert_eq!(words.len(), numbers.len());
    }

    /// Of 100,000 numbers below 10: chi square with 9 degrees of freedom is beyond 27.9 once in a thousand.
    fn assert_even(name: &str, number: impl Fn(u64) -> u64) {
        let mut counts = [0u32; 10];
        (0..100_000).for_each(|place| counts[number(place) as usize] += 1);
        let square: f64 = counts.iter().map(|count| (f64::from(*count) - 10_000.0).powi(2) / 10_000.0).sum();
        assert!(square < 27.9, "{name}: {counts:?}");
    }

    #[test]
    fn numbers_are_spread_evenly_and_none_is_beyond_its_limit() {
        assert_even("places", |place| scaled(word_of(7, [0, place, 0]), 10));
        assert_even("one place", |place| scaled(word_at(7, place), 10));
        assert_even("a stream", |place| scaled_32(Stream::new(3, "x").word(place) as u32, 10).into());
        assert_even("streams", |place| Random::numbered(7, place).below(10));
        let ends = (scaled(0, 18), scaled(u64::MAX, 18), scaled(u64::MAX, 0), scaled_32(u32::MAX, 18));
        assert_eq!(ends, (0, 17, 0, 17));
        let mut random = Random::new(1);
        assert!((0..1000).all(|_| (0.0..1.0).contains(&random.unit()) && random.open_unit() > 0.0));
    }

    #[test]
    fn exponential_times_have_their_mean_and_tail() {
        let mut random = Random::numbered(1, 1);
        let times: Vec<f64> = (0..100_000).map(|_| random.exponential(2.0)).collect();
        let mean = times.iter().sum::<f64>() / 1e5;
        // Four standard errors of the mean, and of the share beyond three means, exp(-3).
        assert!((mean - 2.0).abs() < 4.0 * 2.0 / 1e5f64.sqrt(), "{mean}");
        let tail = times.iter().filter(|time| **time > 6.0).count() as f64 / 1e5;
        assert!((tail - (-3.0f64).exp()).abs() < 4.0 * (0.05f64 * 0.95 / 1e5).sqrt(), "{tail}");
    }

    #[test]
    fn a_shuffle_reaches_every_order() {
        let mut random = Random::new(5);
        let orders: HashSet<[u8; 4]> = (0..1000)
            .map(|_| {
                let mut values = [0, 1, 2, 3];
                random.shuffle(&mut values);
                values
            })
            .collect();
        assert_eq!(orders.len(), 24);
    }
}
