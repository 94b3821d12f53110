//! Numbers that depend on a seed and a place alone, so that each fault is drawn by itself.

/// splitmix64: the number at a place of a seed's sequence.
pub(super) fn at(seed: u64, place: u64) -> u64 {
    let mut z = seed.wrapping_add(place.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The number at a place, below a limit that is not 0.
pub(super) fn below(seed: u64, place: u64, limit: u64) -> u64 {
    // The high half of the product: no division, and no more bias than one in 2^64 / limit.
    ((u128::from(at(seed, place)) * u128::from(limit)) >> 64) as u64
}

/// `count` different numbers below `of`, in the order in which a shuffle draws them.
pub(super) fn draw(seed: u64, count: u64, of: u64) -> Vec<u64> {
    let mut moved: std::collections::HashMap<u64, u64> = std::collections::HashMap::new();
    (0..count.min(of))
        .map(|place| {
            let other = place + below(seed, place, of - place);
            let drawn = moved.get(&other).copied().unwrap_or(other);
            let here = moved.get(&place).copied().unwrap_or(place);
            moved.insert(other, here);
            drawn
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_numbers_are_different_and_all_of_them_can_be_drawn() {
        for (count, of) in [(0, 1), (1, 1), (10, 10), (100, 1984), (1984, 1984)] {
            let mut drawn = draw(7, count, of);
            assert_ne!((drawn.clone(), count > 9), ((0..count).collect(), true), "not shuffled");
            drawn.sort_unstable();
            drawn.dedup();
            assert_eq!(drawn.len() as u64, count);
            assert!(drawn.iter().all(|&one| one < of));
        }
        assert_ne!(draw(1, 50, 1984), draw(2, 50, 1984));
    }
}
