//! Random numbers by counter: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) over the seed and the names of what is drawn, so
//! that shards and threads divide the work as they like.

use crate::random::{STEP, mix, scaled};

/// The number that belongs to this seed and these places.
pub(super) fn word(seed: u64, places: [u64; 3]) -> u64 {
    places.into_iter().fold(mix(seed.wrapping_add(STEP)), |state, place| {
        mix(state ^ mix(place.wrapping_add(1).wrapping_mul(STEP))).wrapping_add(STEP)
    })
}

/// A number below `end`, each equally likely up to one part in 2^64 / `end`.
pub(super) fn below(end: u64, seed: u64, places: [u64; 3]) -> u64 {
    scaled(word(seed, places), end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_depend_on_all_they_are_named_by_and_are_spread_evenly() {
        let numbers = [(1, [0, 0, 0]), (2, [0, 0, 0]), (1, [1, 0, 0]), (1, [0, 1, 0]), (1, [0, 0, 1])];
        let words: std::collections::HashSet<u64> = numbers.iter().map(|(seed, places)| word(*seed, *places)).collect();
        assert_eq!(words.len(), numbers.len());
        let mut counts = [0u32; 10];
        (0..100_000).for_each(|node| counts[below(10, 7, [0, node, 0]) as usize] += 1);
        // Chi square with 9 degrees of freedom: beyond 27.9 once in a thousand.
        let square: f64 = counts.iter().map(|count| (f64::from(*count) - 10_000.0).powi(2) / 10_000.0).sum();
        assert!(square < 27.9, "{counts:?}");
    }
}
