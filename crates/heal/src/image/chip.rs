//! The code within each 64-byte line: what one memory chip holds of a line is one symbol of each of its codewords.
//!
//! A page of data has 64 lines with 12 check bytes each, so the check bytes of the 16 data pages of a row fill its three
//! pages of parity: those of column c are bytes 768 c to 768 c + 767 of the three in a row.

use super::geometry::{COLUMNS_DATA, COLUMNS_PARITY, PAGE_BYTES};
use surefoot_ecc::layout::chip::{LINE_BYTES, Lines};
use surefoot_ecc::{Code, Error, Mode};

/// Check bytes of a page of data.
const CHECK_BYTES: usize = PAGE_BYTES / LINE_BYTES * 12;

/// Check bytes of a row.
type Checks = [u8; COLUMNS_PARITY * PAGE_BYTES];

/// Computes the check bytes of a row's pages.
pub(super) fn protect(data: &[&[u8]; COLUMNS_DATA]) -> Result<Checks, Error> {
    let lines = Lines::new(Code::Rs19_16);
    let mut checks = [0; COLUMNS_PARITY * PAGE_BYTES];
    for (page, checks) in data.iter().zip(checks.chunks_exact_mut(CHECK_BYTES)) {
        lines.encode(page, checks)?;
    }
    Ok(checks)
}

/// Corrects the bad pages of a row as far as each line has one bad chip, and makes bad pages of parity anew. Whether
/// what comes out is what was saved is for the checksums to say. `false` when a line is beyond the code.
pub(super) fn repair(pages: &mut [Vec<u8>], bad: &[usize]) -> Result<bool, Error> {
    let lines = Lines::new(Code::Rs19_16);
    let (data, parity) = pages.split_at_mut(COLUMNS_DATA);
    let mut checks = parity.concat();
    for &column in bad.iter().filter(|&&column| column < COLUMNS_DATA) {
        let checks = &mut checks[column * CHECK_BYTES..][..CHECK_BYTES];
        if lines.correct(&mut data[column], checks, Mode::CorrectOne)?.detected > 0 {
            return Ok(false);
        }
    }
    if bad.iter().any(|&column| column >= COLUMNS_DATA) {
        let data: [&[u8]; COLUMNS_DATA] = std::array::from_fn(|column| data[column].as_slice());
        let checks = protect(&data)?;
        for (page, checks) in parity.iter_mut().zip(checks.chunks_exact(PAGE_BYTES)) {
            page.copy_from_slice(checks);
        }
    }
    Ok(true)
}
