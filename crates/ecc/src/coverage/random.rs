//! Random numbers by counter: the i-th depends on the seed and on i only.
//!
//! SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014): its
//! state is a counter that steps by a constant, so that any element of the stream is a multiplication away. That is what
//! lets shards and cores divide the trials of one run as they like.

/// The step: the odd number next to 2^64 over the golden ratio.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A stream of random words that can be entered anywhere.
#[derive(Debug, Clone, Copy)]
pub struct Stream {
    key: u64,
}

impl Stream {
    /// The stream of a seed and a name; different names have unrelated streams.
    pub fn new(seed: u64, name: &str) -> Stream {
        // FNV-1a takes the name to a number; the mixing makes the key.
        let digest = name
            .bytes()
            .fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3));
        Stream { key: mix(mix(seed.wrapping_add(STEP)) ^ digest) }
    }

    /// Word `index` of the stream.
    #[inline]
    pub fn word(self, index: u64) -> u64 {
        mix(self.key.wrapping_add(index.wrapping_mul(STEP)))
    }
}

#[inline]
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// A number below `limit` from 32 random bits; its bias is below `limit` / 2^32, which no run here resolves.
#[inline]
pub fn below(bits: u32, limit: u32) -> u32 {
    ((u64::from(bits) * u64::from(limit)) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixing_is_that_of_the_published_generator() {
        // The first words of SplitMix64 from the state 0, as its authors' C program prints them.
        assert_eq!(mix(STEP), 0xE220_A839_7B1D_CDAF);
        assert_eq!(mix(STEP.wrapping_mul(2)), 0x6E78_9E6A_A1B9_65F4);
        assert_eq!(mix(STEP.wrapping_mul(3)), 0x06C4_5D18_8009_454F);
    }

    #[test]
    fn streams_differ_by_seed_and_name() {
        let word = |seed, name| Stream::new(seed, name).word(7);
        assert_eq!(word(1, "a"), word(1, "a"));
        assert!(word(1, "a") != word(2, "a") && word(1, "a") != word(1, "b"));
    }

    #[test]
    fn numbers_below_a_limit_are_all_reached_and_none_beyond() {
        assert_eq!((below(0, 18), below(u32::MAX, 18)), (0, 17));
        let mut seen = [0u32; 18];
        for index in 0..18_000 {
            seen[below(Stream::new(3, "x").word(index) as u32, 18) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| (800..1200).contains(&count)), "{seen:?}");
    }
}
