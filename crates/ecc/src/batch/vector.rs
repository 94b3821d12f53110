//! What the kernels ask of a processor: some bytes at a time, each an element of the field.

/// A register, or a few, with one field element per byte.
///
/// Safety rests on one rule: a value exists only where the processor has the features that the type is made for.
/// [`Vector::zero`] and [`Vector::load`] are the only ways to the first value, and are unsafe for that reason; all else
/// starts from values. Everything is `inline(always)`, so that it is compiled with the features of the function that
/// the kernel is entered through (`path.rs`); closures would not be, and are avoided.
pub(crate) trait Vector: Copy {
    /// Bytes, and so codewords, per value.
    const BYTES: usize;
    /// One truth value per byte.
    type Mask: Copy;
    /// What products of one value with many constants are made from.
    type Multiples: Copy;

    /// Zeros.
    ///
    /// # Safety
    /// The processor has the features of the type.
    unsafe fn zero() -> Self;
    /// Reads `BYTES` bytes, aligned or not.
    ///
    /// # Safety
    /// The processor has the features of the type, and `from` may be read for `BYTES` bytes.
    unsafe fn load(from: *const u8) -> Self;
    /// Writes `BYTES` bytes, aligned or not.
    ///
    /// # Safety
    /// `to` may be written for `BYTES` bytes.
    unsafe fn store(self, to: *mut u8);
    /// The sum in the field.
    fn xor(self, other: Self) -> Self;
    /// 0 only where both are 0.
    fn or(self, other: Self) -> Self;
    /// Whether all bytes are 0.
    fn is_zero(self) -> bool;
    /// The product with α^`power`, for a power of 0 to 3.
    fn times_alpha(self, power: usize) -> Self;
    /// Prepares products with constants.
    fn multiples(self) -> Self::Multiples;
    /// The product of the value that the multiples are of with a constant.
    fn times(multiples: &Self::Multiples, constant: u8) -> Self;
    /// Where both are equal.
    fn equal(self, other: Self) -> Self::Mask;
    /// Where both masks are true.
    fn both(one: Self::Mask, other: Self::Mask) -> Self::Mask;
    /// The value where the mask is true, and 0 elsewhere.
    fn keep(self, mask: Self::Mask) -> Self;
    /// The mask as bits, byte 0 being the lowest.
    fn bits(mask: Self::Mask) -> u64;
}

/// The eight products of a value with 1, α, ..., α^7: any product with a constant is a sum of some of them, by the bits
/// of the constant.
#[inline(always)]
pub(crate) fn doublings<V: Vector>(value: V) -> [V; 8] {
    let mut multiples = [value; 8];
    for bit in 1..8 {
        multiples[bit] = multiples[bit - 1].times_alpha(1);
    }
    multiples
}

/// The product from [`doublings`].
#[inline(always)]
pub(crate) fn sum_of_doublings<V: Vector>(multiples: &[V; 8], constant: u8) -> V {
    let mut sum = multiples[0].xor(multiples[0]);
    let mut bits = constant;
    while bits != 0 {
        sum = sum.xor(multiples[bits.trailing_zeros() as usize & 7]);
        bits &= bits - 1;
    }
    sum
}

/// The portable path: four machine words, doubled without tables as Linux RAID-6 does it. Compilers turn it into the
/// vector instructions that every processor of the target has (SSE2 on x86-64).
#[derive(Clone, Copy)]
pub(crate) struct Words([u64; 4]);

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x80 * LOW_BITS;

impl Words {
    /// 0xFF in each byte whose highest bit is set in `high`, which has no other bits.
    #[inline(always)]
    fn spread(high: u64) -> u64 {
        (high << 1).wrapping_sub(high >> 7)
    }

    #[inline(always)]
    fn double(self) -> Words {
        let mut doubled = self;
        for word in &mut doubled.0 {
            let overflow = Words::spread(*word & HIGH_BITS) & (LOW_BITS * 0x1D);
            *word = ((*word & !HIGH_BITS) << 1) ^ overflow;
        }
        doubled
    }
}

impl Vector for Words {
    const BYTES: usize = 32;
    type Mask = [u64; 4];
    type Multiples = [Words; 8];

    #[inline(always)]
    unsafe fn zero() -> Words {
        Words([0; 4])
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Words {
        // SAFETY: the caller lets 32 bytes be read; unaligned reads are asked for.
        Words(unsafe { from.cast::<[u64; 4]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller lets 32 bytes be written; unaligned writes are asked for.
        unsafe { to.cast::<[u64; 4]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    fn xor(self, other: Words) -> Words {
        let mut sum = self;
        for (word, addend) in sum.0.iter_mut().zip(other.0) {
            *word ^= addend;
        }
        sum
    }

    #[inline(always)]
    fn or(self, other: Words) -> Words {
        let mut union = self;
        for (word, more) in union.0.iter_mut().zip(other.0) {
            *word |= more;
        }
        union
    }

    #[inline(always)]
    fn is_zero(self) -> bool {
        self.0[0] | self.0[1] | self.0[2] | self.0[3] == 0
    }

    #[inline(always)]
    fn times_alpha(self, power: usize) -> Words {
        let mut product = self;
        for _ in 0..power {
            product = product.double();
        }
        product
    }

    #[inline(always)]
    fn multiples(self) -> [Words; 8] {
        doublings(self)
    }

    #[inline(always)]
    fn times(multiples: &[Words; 8], constant: u8) -> Words {
        sum_of_doublings(multiples, constant)
    }

    #[inline(always)]
    fn equal(self, other: Words) -> [u64; 4] {
        let mut mask = self.xor(other).0;
        for word in &mut mask {
            // The highest bit of a byte of `nonzero` is set where the byte of `word` is not 0, without carries between.
            let nonzero = ((*word & !HIGH_BITS) + !HIGH_BITS) | *word;
            *word = Words::spread(!nonzero & HIGH_BITS);
        }
        mask
    }

    #[inline(always)]
    fn both(one: [u64; 4], other: [u64; 4]) -> [u64; 4] {
        [one[0] & other[0], one[1] & other[1], one[2] & other[2], one[3] & other[3]]
    }

    #[inline(always)]
    fn keep(self, mask: [u64; 4]) -> Words {
        Words(Words::both(self.0, mask))
    }

    #[inline(always)]
    fn bits(mask: [u64; 4]) -> u64 {
        let mut bits = 0;
        for (index, word) in mask.iter().enumerate() {
            // Byte 0 of memory is the lowest byte of a little-endian word. The product moves the lowest bit of byte i
            // to bit 56 + i; no two of its partial products meet.
            let lowest = u64::from_le(*word) & LOW_BITS;
            bits |= (lowest.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * index);
        }
        bits
    }
}
