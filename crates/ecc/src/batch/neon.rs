//! NEON: every aarch64 processor has it.

use super::vector::{Vector, doublings, sum_of_doublings};
use core::arch::aarch64::*;

/// 16 bytes on a processor with NEON.
#[derive(Clone, Copy)]
pub(crate) struct Neon(uint8x16_t);

impl Neon {
    #[inline(always)]
    fn double(self) -> Neon {
        // SAFETY: a value exists only on a processor with NEON.
        unsafe {
            let overflow = vreinterpretq_u8_s8(vshrq_n_s8::<7>(vreinterpretq_s8_u8(self.0)));
            let reduction = vandq_u8(overflow, vdupq_n_u8(0x1D));
            Neon(veorq_u8(vaddq_u8(self.0, self.0), reduction))
        }
    }
}

impl Vector for Neon {
    const BYTES: usize = 16;
    type Mask = uint8x16_t;
    type Multiples = [Neon; 8];

    #[inline(always)]
    unsafe fn zero() -> Neon {
        // SAFETY: the caller vouches for NEON.
        Neon(unsafe { vdupq_n_u8(0) })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Neon {
        // SAFETY: the caller vouches for NEON and for 16 readable bytes.
        Neon(unsafe { vld1q_u8(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: a value exists only on a processor with NEON; the caller vouches for 16 writable bytes.
        unsafe { vst1q_u8(to, self.0) }
    }

    #[inline(always)]
    fn xor(self, other: Neon) -> Neon {
        // SAFETY: a value exists only on a processor with NEON.
        Neon(unsafe { veorq_u8(self.0, other.0) })
    }

    #[inline(always)]
    fn or(self, other: Neon) -> Neon {
        // SAFETY: a value exists only on a processor with NEON.
        Neon(unsafe { vorrq_u8(self.0, other.0) })
    }

    #[inline(always)]
    fn is_zero(self) -> bool {
        // SAFETY: a value exists only on a processor with NEON.
        unsafe { vmaxvq_u8(self.0) == 0 }
    }

    #[inline(always)]
    fn times_alpha(self, power: usize) -> Neon {
        let mut product = self;
        for _ in 0..power {
            product = product.double();
        }
        product
    }

    #[inline(always)]
    fn multiples(self) -> [Neon; 8] {
        doublings(self)
    }

    #[inline(always)]
    fn times(multiples: &[Neon; 8], constant: u8) -> Neon {
        sum_of_doublings(multiples, constant)
    }

    #[inline(always)]
    fn equal(self, other: Neon) -> uint8x16_t {
        // SAFETY: a value exists only on a processor with NEON.
        unsafe { vceqq_u8(self.0, other.0) }
    }

    #[inline(always)]
    fn both(one: uint8x16_t, other: uint8x16_t) -> uint8x16_t {
        // SAFETY: masks come from values, which exist only on a processor with NEON.
        unsafe { vandq_u8(one, other) }
    }

    #[inline(always)]
    fn keep(self, mask: uint8x16_t) -> Neon {
        // SAFETY: a value exists only on a processor with NEON.
        Neon(unsafe { vandq_u8(self.0, mask) })
    }

    #[inline(always)]
    fn bits(mask: uint8x16_t) -> u64 {
        const WEIGHTS: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];
        // SAFETY: masks come from values, which exist only on a processor with NEON; 16 weights are read.
        unsafe {
            let weighed = vandq_u8(mask, vld1q_u8(WEIGHTS.as_ptr()));
            u64::from(vaddv_u8(vget_low_u8(weighed))) | u64::from(vaddv_u8(vget_high_u8(weighed))) << 8
        }
    }
}
