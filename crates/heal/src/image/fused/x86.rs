//! The pass with AVX2 and with AVX-512.

use super::super::geometry::{COLUMNS_DATA, COLUMNS_PARITY, PAGE_BYTES};
use super::{Row, ZEROS, lift};
use core::arch::x86_64::*;
use surefoot_ecc::field;

/// How far ahead of the loads memory is asked. The payload is wherever the program has it, and a load that is not aligned to
/// a line waits for two of them; asking for a line that is not there does nothing.
///
/// Into the second-level cache: the columns lie alike in their pages, so that the 16 lines of a turn fall into one set of
/// the first one, which has 8 or 12 places, and lines that are asked for there push each other out before they are read.
/// 1 to 4 KiB were equally fast, 512 bytes slower (bench/results/checkpoints.md).
const AHEAD_BYTES: usize = 2048;

pub(super) fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("vpclmulqdq")
        && is_x86_feature_detected!("gfni")
        && is_x86_feature_detected!("pclmulqdq")
        && is_x86_feature_detected!("sse4.2")
}

pub(super) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("vpclmulqdq")
        && is_x86_feature_detected!("pclmulqdq")
        && is_x86_feature_detected!("sse4.2")
}

/// The pass with AVX-512.
///
/// # Safety
/// [`has_avx512`]; and as for [`row`].
#[target_feature(enable = "avx512f,vpclmulqdq,gfni,pclmulqdq,sse4.2")]
pub(super) unsafe fn row_avx512(
    sources: &[*const u8; COLUMNS_DATA],
    targets: &Row<*mut u8>,
    protects: bool,
) -> Row<u32> {
    // SAFETY: the caller vouches for all of it.
    unsafe {
        match protects {
            true => row::<Wide, 4, true>(sources, targets),
            false => row::<Wide, 4, false>(sources, targets),
        }
    }
}

/// The pass with AVX2.
///
/// # Safety
/// [`has_avx2`]; and as for [`row`].
#[target_feature(enable = "avx2,vpclmulqdq,pclmulqdq,sse4.2")]
pub(super) unsafe fn row_avx2(sources: &[*const u8; COLUMNS_DATA], targets: &Row<*mut u8>, protects: bool) -> Row<u32> {
    // SAFETY: the caller vouches for all of it.
    unsafe {
        match protects {
            true => row::<Narrow, 4, true>(sources, targets),
            false => row::<Narrow, 4, false>(sources, targets),
        }
    }
}

/// A register, as wide as the processor has.
trait Register: Copy {
    /// Bytes of it.
    const BYTES: usize;

    unsafe fn zero() -> Self;
    unsafe fn load(from: *const u8) -> Self;
    /// Stores past the cache; the place is aligned to the register.
    unsafe fn stream(self, to: *mut u8);
    fn add(self, other: Self) -> Self;
    /// Each byte times alpha to this power, 1 or 2, in the field of the code.
    fn times_alpha(self, power: u32) -> Self;
    /// Moves a remainder up by one register, and adds what comes next.
    fn take_in(self, next: Self) -> Self;
    /// The checksum of the page whose remainder this is.
    fn sum(self) -> u32;
}

/// Copies a row and sums it; with `PROTECTS`, its parity as well. A column's turn is `RUN` registers
/// long: memory likes long turns, and the registers of parity are so many.
///
/// # Safety
/// The processor has the register's features. Sources may be read and targets written for a page each, and targets are
/// aligned to a line; 16 targets, or all of them with `PROTECTS`.
#[inline(always)]
unsafe fn row<R: Register, const RUN: usize, const PROTECTS: bool>(
    sources: &[*const u8; COLUMNS_DATA],
    targets: &Row<*mut u8>,
) -> Row<u32> {
    const { assert!(PAGE_BYTES.is_multiple_of(R::BYTES * RUN)) };
    // SAFETY: every access is within a page: `at` stays below the page's end by whole runs.
    unsafe {
        let mut remainders = [R::zero(); COLUMNS_DATA + COLUMNS_PARITY];
        let mut at = 0;
        while at < PAGE_BYTES {
            let mut parity = [[R::zero(); COLUMNS_PARITY]; RUN];
            // Horner's scheme: the last column first.
            for column in (0..COLUMNS_DATA).rev() {
                let (from, to) = (sources[column].add(at), targets[column].add(at));
                let mut remainder = remainders[column];
                for (step, parity) in parity.iter_mut().enumerate() {
                    let bytes = R::load(from.add(step * R::BYTES));
                    _mm_prefetch::<_MM_HINT_T1>(from.wrapping_add(step * R::BYTES + AHEAD_BYTES).cast());
                    bytes.stream(to.add(step * R::BYTES));
                    remainder = remainder.take_in(bytes);
                    if PROTECTS {
                        parity[0] = parity[0].add(bytes);
                        parity[1] = parity[1].times_alpha(1).add(bytes);
                        parity[2] = parity[2].times_alpha(2).add(bytes);
                    }
                }
                remainders[column] = remainder;
            }
            if PROTECTS {
                for number in 0..COLUMNS_PARITY {
                    let column = COLUMNS_DATA + number;
                    for (step, parity) in parity.iter().enumerate() {
                        parity[number].stream(targets[column].add(at + step * R::BYTES));
                        remainders[column] = remainders[column].take_in(parity[number]);
                    }
                }
            }
            at += RUN * R::BYTES;
        }
        remainders.map(R::sum)
    }
}

/// Moves a lane up by `bytes` bytes.
///
/// # Safety
/// The processor multiplies without carry.
#[inline(always)]
unsafe fn lifted<const BYTES: usize>(lane: __m128i) -> __m128i {
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        let [low, high] = const { lift(BYTES) };
        let factors = _mm_set_epi64x(high.cast_signed(), low.cast_signed());
        _mm_xor_si128(_mm_clmulepi64_si128::<0x00>(lane, factors), _mm_clmulepi64_si128::<0x11>(lane, factors))
    }
}

/// The checksum of a page from the last lane of its remainder.
///
/// # Safety
/// The processor has SSE4.2, whose CRC32 instruction divides by CRC32C's polynomial.
#[inline(always)]
unsafe fn sum_of(lane: __m128i) -> u32 {
    // SAFETY: the caller vouches for the instructions.
    unsafe {
        let low = _mm_crc32_u64(0, _mm_extract_epi64::<0>(lane).cast_unsigned());
        _mm_crc32_u64(low, _mm_extract_epi64::<1>(lane).cast_unsigned()) as u32 ^ ZEROS
    }
}

/// 64 bytes, on a processor with AVX-512 F, VPCLMULQDQ and GFNI.
#[derive(Clone, Copy)]
struct Wide(__m512i);

impl Register for Wide {
    const BYTES: usize = 64;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller vouches for the features.
        Wide(unsafe { _mm512_setzero_si512() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller vouches for the features and for 64 readable bytes.
        Wide(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: a value exists only where its features are; the caller vouches for 64 aligned bytes.
        unsafe { _mm512_stream_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: a value exists only where its features are.
        Wide(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn times_alpha(self, power: u32) -> Self {
        const MATRICES: [u64; 2] = [product_matrix(2), product_matrix(4)];
        // SAFETY: a value exists only where its features are.
        unsafe {
            let matrix = _mm512_set1_epi64(MATRICES[power as usize - 1].cast_signed());
            Wide(_mm512_gf2p8affine_epi64_epi8::<0>(self.0, matrix))
        }
    }

    #[inline(always)]
    fn take_in(self, next: Self) -> Self {
        // SAFETY: a value exists only where its features are.
        unsafe {
            let [low, high] = const { lift(64) };
            let factors = _mm512_broadcast_i32x4(_mm_set_epi64x(high.cast_signed(), low.cast_signed()));
            let lows = _mm512_clmulepi64_epi128::<0x00>(self.0, factors);
            let highs = _mm512_clmulepi64_epi128::<0x11>(self.0, factors);
            // The truth table of the sum of three.
            Wide(_mm512_ternarylogic_epi64::<0x96>(lows, highs, next.0))
        }
    }

    #[inline(always)]
    fn sum(self) -> u32 {
        // SAFETY: a value exists only where its features are.
        unsafe {
            let first = lifted::<48>(_mm512_extracti32x4_epi32::<0>(self.0));
            let second = lifted::<32>(_mm512_extracti32x4_epi32::<1>(self.0));
            let third = lifted::<16>(_mm512_extracti32x4_epi32::<2>(self.0));
            let last = _mm512_extracti32x4_epi32::<3>(self.0);
            sum_of(_mm_xor_si128(_mm_xor_si128(first, second), _mm_xor_si128(third, last)))
        }
    }
}

/// The bit matrix with which GF2P8AFFINEQB multiplies by `factor`: byte 7 - i says which bits of the operand make bit i.
const fn product_matrix(factor: u8) -> u64 {
    let mut matrix = 0;
    let mut source = 0;
    while source < 8 {
        let image = field::multiply(factor, 1 << source);
        let mut bit = 0;
        while bit < 8 {
            if image >> bit & 1 == 1 {
                matrix |= 1 << (8 * (7 - bit) + source);
            }
            bit += 1;
        }
        source += 1;
    }
    matrix
}

/// 32 bytes, on a processor with AVX2 and VPCLMULQDQ.
#[derive(Clone, Copy)]
struct Narrow(__m256i);

impl Register for Narrow {
    const BYTES: usize = 32;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller vouches for the features.
        Narrow(unsafe { _mm256_setzero_si256() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller vouches for the features and for 32 readable bytes.
        Narrow(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        // SAFETY: a value exists only where its features are; the caller vouches for 32 aligned bytes.
        unsafe { _mm256_stream_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: a value exists only where its features are.
        Narrow(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    #[inline(always)]
    fn times_alpha(self, power: u32) -> Self {
        let mut product = self.0;
        for _ in 0..power {
            // SAFETY: a value exists only where its features are.
            unsafe {
                let overflow = _mm256_cmpgt_epi8(_mm256_setzero_si256(), product);
                let reduction = _mm256_and_si256(overflow, _mm256_set1_epi8(0x1D));
                product = _mm256_xor_si256(_mm256_add_epi8(product, product), reduction);
            }
        }
        Narrow(product)
    }

    #[inline(always)]
    fn take_in(self, next: Self) -> Self {
        // SAFETY: a value exists only where its features are.
        unsafe {
            let [low, high] = const { lift(32) };
            let factors = _mm256_broadcastsi128_si256(_mm_set_epi64x(high.cast_signed(), low.cast_signed()));
            let lows = _mm256_clmulepi64_epi128::<0x00>(self.0, factors);
            let highs = _mm256_clmulepi64_epi128::<0x11>(self.0, factors);
            Narrow(_mm256_xor_si256(_mm256_xor_si256(lows, highs), next.0))
        }
    }

    #[inline(always)]
    fn sum(self) -> u32 {
        // SAFETY: a value exists only where its features are.
        unsafe {
            let first = lifted::<16>(_mm256_extracti128_si256::<0>(self.0));
            sum_of(_mm_xor_si128(first, _mm256_extracti128_si256::<1>(self.0)))
        }
    }
}
