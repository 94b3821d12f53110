//! AVX2 and AVX-512, each doubling with shift and mask, or multiplying with GFNI where the processor has it.
//!
//! No path multiplies with byte-shuffle tables (docs/decisions, 0008).

use super::vector::{Vector, doublings, sum_of_doublings};
use crate::field;
use core::arch::x86_64::*;

const POLYNOMIAL: i8 = 0x1D;

/// For each constant the bit matrix with which the GF2P8AFFINEQB instruction multiplies by it.
///
/// Byte 7 - i of the matrix is the row for bit i of the result: the bits of the operand whose parity it is (Intel SDM,
/// volume 2, GF2P8AFFINEQB). Any field polynomial can be had this way; GF2P8MULB knows 0x11B alone.
const AFFINE: [u64; 256] = affine_matrices();

const fn affine_matrices() -> [u64; 256] {
    let mut matrices = [0; 256];
    let mut constant = 0;
    while constant < 256 {
        let mut source = 0;
        while source < 8 {
            let image = field::multiply(constant as u8, 1 << source);
            let mut bit = 0;
            while bit < 8 {
                if image & (1 << bit) != 0 {
                    matrices[constant] |= 1 << (8 * (7 - bit) + source);
                }
                bit += 1;
            }
            source += 1;
        }
        constant += 1;
    }
    matrices
}

/// 32 bytes on a processor with AVX2; with `GFNI`, on one with AVX2 and GFNI.
#[derive(Clone, Copy)]
pub(crate) struct Avx2<const GFNI: bool>(__m256i);

impl<const GFNI: bool> Avx2<GFNI> {
    #[inline(always)]
    fn double(self) -> Self {
        // SAFETY: a value exists only on a processor with AVX2.
        unsafe {
            let overflow = _mm256_cmpgt_epi8(_mm256_setzero_si256(), self.0);
            let reduction = _mm256_and_si256(overflow, _mm256_set1_epi8(POLYNOMIAL));
            Avx2(_mm256_xor_si256(_mm256_add_epi8(self.0, self.0), reduction))
        }
    }

    #[inline(always)]
    fn affine(self, constant: u8) -> Self {
        // SAFETY: called with GFNI only, and then a value exists only on a processor with AVX2 and GFNI.
        unsafe {
            let matrix = _mm256_set1_epi64x(AFFINE[constant as usize].cast_signed());
            Avx2(_mm256_gf2p8affine_epi64_epi8::<0>(self.0, matrix))
        }
    }
}

impl<const GFNI: bool> Vector for Avx2<GFNI> {
    const BYTES: usize = 32;
    type Mask = __m256i;
    type Multiples = [Self; 8];

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller vouches for the features.
        Avx2(unsafe { _mm256_setzero_si256() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller vouches for the features and for 32 readable bytes.
        Avx2(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: a value exists only on a processor with AVX2; the caller vouches for 32 writable bytes.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: a value exists only on a processor with AVX2.
        Avx2(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: a value exists only on a processor with AVX2.
        Avx2(unsafe { _mm256_or_si256(self.0, other.0) })
    }

    #[inline(always)]
    fn is_zero(self) -> bool {
        // SAFETY: a value exists only on a processor with AVX2.
        unsafe { _mm256_testz_si256(self.0, self.0) == 1 }
    }

    #[inline(always)]
    fn times_alpha(self, power: usize) -> Self {
        match power {
            0 => self,
            1..=3 if GFNI => self.affine(1 << power),
            _ => {
                let mut product = self;
                for _ in 0..power {
                    product = product.double();
                }
                product
            }
        }
    }

    #[inline(always)]
    fn multiples(self) -> [Self; 8] {
        if GFNI { [self; 8] } else { doublings(self) }
    }

    #[inline(always)]
    fn times(multiples: &[Self; 8], constant: u8) -> Self {
        if GFNI { multiples[0].affine(constant) } else { sum_of_doublings(multiples, constant) }
    }

    #[inline(always)]
    fn equal(self, other: Self) -> __m256i {
        // SAFETY: a value exists only on a processor with AVX2.
        unsafe { _mm256_cmpeq_epi8(self.0, other.0) }
    }

    #[inline(always)]
    fn both(one: __m256i, other: __m256i) -> __m256i {
        // SAFETY: masks come from values, which exist only on a processor with AVX2.
        unsafe { _mm256_and_si256(one, other) }
    }

    #[inline(always)]
    fn keep(self, mask: __m256i) -> Self {
        // SAFETY: a value exists only on a processor with AVX2.
        Avx2(unsafe { _mm256_and_si256(self.0, mask) })
    }

    #[inline(always)]
    fn bits(mask: __m256i) -> u64 {
        // SAFETY: masks come from values, which exist only on a processor with AVX2.
        u64::from(unsafe { _mm256_movemask_epi8(mask) }.cast_unsigned())
    }
}

/// 64 bytes on a processor with AVX-512 F and BW; with `GFNI`, on one with GFNI as well.
#[derive(Clone, Copy)]
pub(crate) struct Avx512<const GFNI: bool>(__m512i);

impl<const GFNI: bool> Avx512<GFNI> {
    #[inline(always)]
    fn double(self) -> Self {
        // SAFETY: a value exists only on a processor with AVX-512 F and BW.
        unsafe {
            let overflow = _mm512_movepi8_mask(self.0);
            let reduction = _mm512_maskz_mov_epi8(overflow, _mm512_set1_epi8(POLYNOMIAL));
            Avx512(_mm512_xor_si512(_mm512_add_epi8(self.0, self.0), reduction))
        }
    }

    #[inline(always)]
    fn affine(self, constant: u8) -> Self {
        // SAFETY: called with GFNI only, and then a value exists only on a processor with AVX-512 F, BW and GFNI.
        unsafe {
            let matrix = _mm512_set1_epi64(AFFINE[constant as usize].cast_signed());
            Avx512(_mm512_gf2p8affine_epi64_epi8::<0>(self.0, matrix))
        }
    }
}

impl<const GFNI: bool> Vector for Avx512<GFNI> {
    const BYTES: usize = 64;
    type Mask = u64;
    type Multiples = [Self; 8];

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller vouches for the features.
        Avx512(unsafe { _mm512_setzero_si512() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller vouches for the features and for 64 readable bytes.
        Avx512(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: a value exists only on a processor with AVX-512; the caller vouches for 64 writable bytes.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: a value exists only on a processor with AVX-512.
        Avx512(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: a value exists only on a processor with AVX-512.
        Avx512(unsafe { _mm512_or_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn is_zero(self) -> bool {
        // SAFETY: a value exists only on a processor with AVX-512.
        unsafe { _mm512_test_epi64_mask(self.0, self.0) == 0 }
    }

    #[inline(always)]
    fn times_alpha(self, power: usize) -> Self {
        match power {
            0 => self,
            1..=3 if GFNI => self.affine(1 << power),
            _ => {
                let mut product = self;
                for _ in 0..power {
                    product = product.double();
                }
                product
            }
        }
    }

    #[inline(always)]
    fn multiples(self) -> [Self; 8] {
        if GFNI { [self; 8] } else { doublings(self) }
    }

    #[inline(always)]
    fn times(multiples: &[Self; 8], constant: u8) -> Self {
        if GFNI { multiples[0].affine(constant) } else { sum_of_doublings(multiples, constant) }
    }

    #[inline(always)]
    fn equal(self, other: Self) -> u64 {
        // SAFETY: a value exists only on a processor with AVX-512 F and BW.
        unsafe { _mm512_cmpeq_epi8_mask(self.0, other.0) }
    }

    #[inline(always)]
    fn both(one: u64, other: u64) -> u64 {
        one & other
    }

    #[inline(always)]
    fn keep(self, mask: u64) -> Self {
        // SAFETY: a value exists only on a processor with AVX-512 F and BW.
        Avx512(unsafe { _mm512_maskz_mov_epi8(mask, self.0) })
    }

    #[inline(always)]
    fn bits(mask: u64) -> u64 {
        mask
    }
}
