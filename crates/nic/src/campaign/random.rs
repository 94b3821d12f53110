//! Numbers that depend on a seed and a place alone, so that each fault is drawn by itself.

use surefoot_random::{scaled, word_at};

/// The number at a place, below a limit that is not 0.
pub(super) fn below(seed: u64, place: u64, limit: u64) -> u64 {
    scaled(word_at(seed, place), limit)
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
