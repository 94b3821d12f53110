//! Bytes that no pattern repeats in.

pub fn payload(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut payload = vec![0; bytes];
    for word in payload.chunks_mut(4) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        word.copy_from_slice(&((state >> 32) as u32).to_le_bytes()[..word.len()]);
    }
    payload
}
