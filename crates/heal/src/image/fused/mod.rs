//! One pass over the payload: each line is copied past the cache, protected and summed while it is in a register.
//!
//! A copy waits for memory nearly all of its time. Parity and checksums that are computed between two loads are therefore
//! free, where a pass of their own over the same bytes, even out of the cache, is not.
//!
//! The checksum of a page is carried as a remainder as wide as a register. One more register is taken in by
//! multiplying each half of every 128-bit lane by the power of x that it moves up by, modulo the polynomial of CRC32C
//! (V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel, 2009).

#[cfg(target_arch = "x86_64")]
mod x86;

use super::geometry::{COLUMNS_DATA, COLUMNS_PARITY, PAGE_BYTES};

/// CRC32C's polynomial, the coefficient of x^31 in the lowest bit.
#[cfg(target_arch = "x86_64")]
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// The pages of a row: those of data, and those of parity where there is any.
pub(super) type Row<T> = [T; COLUMNS_DATA + COLUMNS_PARITY];

/// What the pass is made of on this processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fused {
    /// AVX-512 with carry-less multiplication and GFNI: Intel since Ice Lake, AMD since Zen 4.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX2 with carry-less multiplication: AMD since Zen 3, Intel's smaller ones.
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Fused {
    /// What this processor has, the fastest first.
    pub(super) fn available() -> Vec<Fused> {
        #[cfg(target_arch = "x86_64")]
        {
            let mut found = Vec::new();
            if x86::has_avx512() {
                found.push(Fused::Avx512);
            }
            if x86::has_avx2() {
                found.push(Fused::Avx2);
            }
            found
        }
        #[cfg(not(target_arch = "x86_64"))]
        Vec::new()
    }

    /// Copies a row of pages, computes its parity when it is asked for, and returns the checksums of what was written.
    ///
    /// What was copied is seen by other threads after a store fence.
    ///
    /// # Panics
    /// A target is not aligned to a line, or a page is missing.
    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
    pub(super) fn row(self, data: &[&[u8]; COLUMNS_DATA], targets: &mut [&mut [u8]], protects: bool) -> Row<u32> {
        let columns = COLUMNS_DATA + if protects { COLUMNS_PARITY } else { 0 };
        assert!(data.iter().all(|page| page.len() == PAGE_BYTES), "a source is a page");
        assert!(targets.len() == columns, "{} targets for {columns} columns", targets.len());
        let is_fit = |page: &&mut [u8]| page.len() == PAGE_BYTES && page.as_ptr().align_offset(64) == 0;
        assert!(targets.iter().all(is_fit), "a target is an aligned page");
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a value is made only where the processor has what it names; all pages have their length, and the
        // targets, which are borrowed exclusively, their alignment.
        unsafe {
            let sources = data.map(<[u8]>::as_ptr);
            let mut places: Row<*mut u8> = [std::ptr::null_mut(); COLUMNS_DATA + COLUMNS_PARITY];
            places.iter_mut().zip(targets).for_each(|(place, target)| *place = target.as_mut_ptr());
            match self {
                Fused::Avx512 => x86::row_avx512(&sources, &places, protects),
                Fused::Avx2 => x86::row_avx2(&sources, &places, protects),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        match self {}
    }
}

/// x to this power modulo CRC32C's polynomial, the coefficient of x^31 in the lowest bit.
#[cfg(target_arch = "x86_64")]
const fn power_of_x(exponent: usize) -> u32 {
    let mut power = 1 << 31;
    let mut step = 0;
    while step < exponent {
        power = if power & 1 == 1 { (power >> 1) ^ POLYNOMIAL } else { power >> 1 };
        step += 1;
    }
    power
}

/// The two factors that move a 128-bit lane up by `bytes` bytes: of its low half, which comes first and so also has the
/// high half's 64 bits to go, and of its high half.
///
/// As a 64-bit factor, a 32-bit power counts 32 degrees more, and the product of two reflected factors one degree more.
#[cfg(target_arch = "x86_64")]
const fn lift(bytes: usize) -> [u64; 2] {
    [power_of_x(8 * bytes + 64 - 33) as u64, power_of_x(8 * bytes - 33) as u64]
}

/// The checksum of a page of zeros: what the checksum's starting value and its closing inversion add to that of any page.
#[cfg(target_arch = "x86_64")]
const ZEROS: u32 = {
    let mut remainder = u32::MAX;
    let mut bit = 0;
    while bit < 8 * PAGE_BYTES {
        remainder = if remainder & 1 == 1 { (remainder >> 1) ^ POLYNOMIAL } else { remainder >> 1 };
        bit += 1;
    }
    !remainder
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::table::crc32c;
    use super::*;
    use proptest::prelude::*;
    use surefoot_ecc::{Batch, Code};
    use surefoot_random::Random;

    #[repr(align(64))]
    struct Page([u8; PAGE_BYTES]);

    /// A page that may begin anywhere in a line.
    #[derive(Clone)]
    #[repr(align(64))]
    struct Unaligned([u8; PAGE_BYTES + 64]);

    fn both(seed: u64, sparse: bool, protects: bool, behind: &[usize; COLUMNS_DATA]) {
        let mut random = Random::new(seed);
        let mut next = || {
            let word = random.word();
            if sparse && word >> 8 & 63 != 0 { 0 } else { word as u8 }
        };
        let mut rooms = vec![Unaligned([0; PAGE_BYTES + 64]); COLUMNS_DATA];
        rooms.iter_mut().for_each(|room| room.0.fill_with(&mut next));
        let sources: [&[u8]; COLUMNS_DATA] =
            std::array::from_fn(|column| &rooms[column].0[behind[column]..][..PAGE_BYTES]);
        let data: Vec<Vec<u8>> = sources.iter().map(|source| source.to_vec()).collect();
        let mut parity = vec![vec![0u8; PAGE_BYTES]; COLUMNS_PARITY];
        Batch::new(Code::Rs19_16).encode(&data, &mut parity).unwrap();
        let columns = COLUMNS_DATA + if protects { COLUMNS_PARITY } else { 0 };
        for fused in Fused::available() {
            let mut pages: Vec<Page> = (0..columns).map(|_| Page([0xEE; PAGE_BYTES])).collect();
            let mut targets: Vec<&mut [u8]> = pages.iter_mut().map(|page| &mut page.0[..]).collect();
            let sums = fused.row(&sources, &mut targets, protects);
            super::super::stream::finish();
            for (column, expected) in data.iter().chain(&parity).take(columns).enumerate() {
                assert!(pages[column].0 == expected[..], "{fused:?} column {column}");
                assert_eq!(sums[column], crc32c(expected), "{fused:?} column {column}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_row_is_what_the_code_and_the_checksum_say(
            seed: u64, sparse: bool, protects: bool, behind in prop::array::uniform16(0usize..64),
        ) {
            both(seed, sparse, protects, &behind);
        }
    }

    #[test]
    fn wherever_in_a_line_all_pages_begin() {
        for behind in 0..64 {
            both(behind as u64, false, true, &[behind; COLUMNS_DATA]);
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn constants_are_those_of_the_polynomial() {
        assert_eq!(ZEROS, crc32c(&[0; PAGE_BYTES]));
        assert_eq!(power_of_x(0), 1 << 31);
        assert_eq!(power_of_x(32), POLYNOMIAL);
    }
}
