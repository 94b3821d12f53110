//! Random numbers by counter: the i-th depends on the seed, the name of its stream and on i only.
//!
//! SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014), as in
//! the crate `ecc`, which this one may not use: every host has its own stream, so that shards and threads divide a fleet
//! as they like and get the same bytes.

/// The step: the odd number next to 2^64 over the golden ratio.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A stream of random numbers and the place in it.
#[derive(Debug, Clone, Copy)]
pub struct Stream {
    state: u64,
}

impl Stream {
    /// The stream of a seed and a number; different numbers have unrelated streams.
    pub fn new(seed: u64, number: u64) -> Stream {
        Stream { state: mix(mix(seed.wrapping_add(STEP)) ^ mix(number.wrapping_mul(STEP))) }
    }

    /// The next 64 bits.
    #[inline]
    pub fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// A number in (0, 1): the middle of one of 2^53 equal parts, so that its logarithm is finite.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        ((self.word() >> 11) as f64 + 0.5) * (1.0 / (1u64 << 53) as f64)
    }

    /// An exponential time with this mean.
    #[inline]
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.unit().ln()
    }
}

#[inline]
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixing_is_that_of_the_published_generator() {
        // The first words of SplitMix64 from the state 0, as its authors' C program prints them.
        let mut stream = Stream { state: 0 };
        assert_eq!([stream.word(), stream.word()], [0xE220_A839_7B1D_CDAF, 0x6E78_9E6A_A1B9_65F4]);
    }

    #[test]
    fn streams_differ_by_seed_and_number() {
        let word = |seed, number| Stream::new(seed, number).word();
        assert!(word(1, 1) == word(1, 1) && word(1, 1) != word(2, 1) && word(1, 1) != word(1, 2));
    }

    #[test]
    fn exponential_times_have_their_mean_and_tail() {
        let mut stream = Stream::new(1, 1);
        let times: Vec<f64> = (0..100_000).map(|_| stream.exponential(2.0)).collect();
        let mean = times.iter().sum::<f64>() / 1e5;
        // Four standard errors of the mean, and of the share beyond three means, exp(-3).
        assert!((mean - 2.0).abs() < 4.0 * 2.0 / 1e5f64.sqrt(), "{mean}");
        let tail = times.iter().filter(|time| **time > 6.0).count() as f64 / 1e5;
        assert!((tail - (-3.0f64).exp()).abs() < 4.0 * (0.05f64 * 0.95 / 1e5).sqrt(), "{tail}");
    }
}
