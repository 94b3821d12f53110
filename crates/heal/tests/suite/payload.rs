//! Bytes that no pattern repeats in.

use surefoot_random::Random;

pub fn payload(bytes: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    std::iter::repeat_with(|| random.word().to_le_bytes()).flatten().take(bytes).collect()
}
