//! Copies to memory that is not read again soon, past the cache.
//!
//! An ordinary store first reads the line that it is going to replace; for an image, which is only written, that is half
//! as much traffic again as there need be. Whole lines that are stored past the cache are not read first.

/// Bytes of a cache line, and of what is stored at once.
pub(super) const LINE_BYTES: usize = 64;

/// Copies `source` over `target`, which is as long. What was copied is seen by other threads after [`finish`].
pub(super) fn copy(source: &[u8], target: &mut [u8]) {
    assert_eq!(source.len(), target.len(), "a copy has one length");
    #[cfg(target_arch = "x86_64")]
    if target.as_ptr().align_offset(LINE_BYTES) == 0 && source.len().is_multiple_of(LINE_BYTES) {
        // SAFETY: SSE2 is part of x86-64; the target is aligned to a line, and both hold whole lines.
        unsafe { copy_lines(source, target) };
        return;
    }
    target.copy_from_slice(source);
}

/// Makes what was copied visible before anything that is stored afterwards.
pub(super) fn finish() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a fence touches no memory.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// Copies whole lines.
///
/// # Safety
/// The target is aligned to [`LINE_BYTES`], and both slices hold the same number of whole lines.
#[cfg(target_arch = "x86_64")]
unsafe fn copy_lines(source: &[u8], target: &mut [u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    for (from, to) in source.chunks_exact(LINE_BYTES).zip(target.chunks_exact_mut(LINE_BYTES)) {
        let (from, to) = (from.as_ptr().cast::<__m128i>(), to.as_mut_ptr().cast::<__m128i>());
        // SAFETY: each chunk has four times 16 bytes, and the target's are aligned.
        unsafe {
            let line = [
                _mm_loadu_si128(from),
                _mm_loadu_si128(from.add(1)),
                _mm_loadu_si128(from.add(2)),
                _mm_loadu_si128(from.add(3)),
            ];
            _mm_stream_si128(to, line[0]);
            _mm_stream_si128(to.add(1), line[1]);
            _mm_stream_si128(to.add(2), line[2]);
            _mm_stream_si128(to.add(3), line[3]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_and_alignment_is_copied_whole() {
        let source: Vec<u8> = (0..600).map(|at| at as u8).collect();
        for length in [0, 1, 63, 64, 65, 128, 512] {
            for start in [0, 1, 16, 64] {
                let mut target = vec![0u8; 700];
                copy(&source[start..start + length], &mut target[start..start + length]);
                finish();
                assert_eq!(&target[start..start + length], &source[start..start + length]);
                assert!(target[..start].iter().chain(&target[start + length..]).all(|&byte| byte == 0));
            }
        }
    }
}
