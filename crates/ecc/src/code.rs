//! The codes as data: parity-check matrix, symbol order, distance, and where each comes from.

use crate::field;
use std::fmt;

/// The most symbols of a codeword.
pub const SYMBOLS_MAX: usize = 36;

/// The most syndromes, which are as many as parity symbols.
pub const SYNDROMES_MAX: usize = 4;

/// A Reed-Solomon code over GF(2^8) with polynomial 0x11D and α = 2 ([`crate::field`]).
///
/// A codeword is n symbols of one byte, the k data symbols first, in the order in which they are given. A word c is a
/// codeword if and only if H·c = 0 ([`Code::parity_check`]); H·c are its syndromes S0, S1, ...
///
/// The two codes with 16 data symbols are **one two-level code**. With data d_0 to d_15:
///
/// ```text
/// symbol   0 ... 15      16  17  18
///          d_0 ... d_15   P   Q   R        P = Σ d_i    Q = Σ α^i d_i    R = Σ α^(2i) d_i
///
/// H =  1   1    1  ...   1      1   0   0       S0
///      1   α    α² ...   α^15   0   1   0       S1
///      1   α²   α⁴ ...   α^30   0   0   1       S2
/// ```
///
/// The first two rows and 18 columns are RS(18,16), all of it is RS(19,16): S0 and S1 are shared, so that a cheap check
/// and a strong correction work on the same stored bytes, as the two-layer scheme of MEMSYS'16 (Abeyratne et al.,
/// section 4) wants. The plain RS(19,16) with roots α^0, α^1, α^2 has another 19th column, (1, α^18, α^36), and does
/// not embed RS(18,16) in this way. This one is the *triply extended* Reed-Solomon code (F. J. MacWilliams,
/// N. J. A. Sloane, "The Theory of Error-Correcting Codes", chapter 11, section 5): (1,0,0), (0,1,0) and (0,0,1) may be
/// added to the columns (1, x, x²) without losing distance because the field has characteristic 2.
///
/// RS(36,32) is the shortened narrow code with generator (x - 1)(x - α)(x - α²)(x - α³) and the highest power first:
/// symbol j is the coefficient of x^(35 - j), and H(r, j) = α^(r (35 - j)). So do reedsolo (`fcr=0`) and most hardware.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Code {
    /// 32 data and 4 parity symbols, distance 5: for x4 chips, with two symbols of each chip in a codeword.
    Rs36_32,
    /// 16 data symbols, P and Q, distance 3: detects any two wrong symbols, or corrects one.
    Rs18_16,
    /// 16 data symbols, P, Q and R, distance 4: corrects one wrong symbol and detects two.
    Rs19_16,
}

impl Code {
    /// Every code, in the order of the tables.
    pub const ALL: [Code; 3] = [Code::Rs36_32, Code::Rs18_16, Code::Rs19_16];

    /// Symbols of a codeword.
    pub const fn n(self) -> usize {
        match self {
            Code::Rs36_32 => 36,
            Code::Rs18_16 => 18,
            Code::Rs19_16 => 19,
        }
    }

    /// Data symbols of a codeword; they are the symbols 0 to k - 1.
    pub const fn k(self) -> usize {
        match self {
            Code::Rs36_32 => 32,
            Code::Rs18_16 | Code::Rs19_16 => 16,
        }
    }

    /// Parity symbols of a codeword, n - k, which is also the number of syndromes; they are the symbols k to n - 1.
    pub const fn parity(self) -> usize {
        self.n() - self.k()
    }

    /// The minimum distance, n - k + 1: all three are maximum distance separable.
    pub const fn distance(self) -> usize {
        self.parity() + 1
    }

    /// The parity-check matrix H: [`Code::parity`] rows, of which the first [`Code::n`] columns count; the rest is 0.
    pub const fn parity_check(self) -> &'static [[u8; SYMBOLS_MAX]] {
        match self {
            Code::Rs36_32 => &NARROW,
            Code::Rs18_16 => TWO_LEVEL.split_at(2).0,
            Code::Rs19_16 => &TWO_LEVEL,
        }
    }

    /// Column `position` of H: the syndromes of a single error of value 1 at that symbol; zeros if it is outside.
    pub const fn column(self, position: usize) -> [u8; SYNDROMES_MAX] {
        let mut column = [0; SYNDROMES_MAX];
        if position < self.n() {
            let rows = self.parity_check();
            let mut row = 0;
            while row < rows.len() {
                column[row] = rows[row][position];
                row += 1;
            }
        }
        column
    }

    /// The symbol whose column of H is (1, α^i, α^(2i), ...), if the code has one.
    pub const fn position_of_locator(self, exponent: usize) -> Option<usize> {
        match self {
            Code::Rs36_32 if exponent < 36 => Some(35 - exponent),
            Code::Rs18_16 | Code::Rs19_16 if exponent < 16 => Some(exponent),
            _ => None,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RS({},{})", self.n(), self.k())
    }
}

/// H of RS(36,32).
const NARROW: [[u8; SYMBOLS_MAX]; 4] = {
    let mut rows = [[0; SYMBOLS_MAX]; 4];
    let mut row = 0;
    while row < 4 {
        let mut column = 0;
        while column < 36 {
            rows[row][column] = field::power_of_alpha(row * (35 - column));
            column += 1;
        }
        row += 1;
    }
    rows
};

/// H of RS(19,16), whose first two rows are those of RS(18,16): their column 18 is 0.
const TWO_LEVEL: [[u8; SYMBOLS_MAX]; 3] = {
    let mut rows = [[0; SYMBOLS_MAX]; 3];
    let mut row = 0;
    while row < 3 {
        let mut column = 0;
        while column < 16 {
            rows[row][column] = field::power_of_alpha(row * column);
            column += 1;
        }
        rows[row][16 + row] = 1;
        row += 1;
    }
    rows
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_two_syndromes_are_shared() {
        assert_eq!(Code::Rs18_16.parity_check(), &Code::Rs19_16.parity_check()[..2]);
        assert_eq!(Code::Rs19_16.column(18), [0, 0, 1, 0]);
    }

    #[test]
    fn locators_name_their_columns() {
        for code in Code::ALL {
            for exponent in 0..field::ORDER {
                let Some(position) = code.position_of_locator(exponent) else { continue };
                let column = code.column(position);
                for (row, &element) in column[..code.parity()].iter().enumerate() {
                    assert_eq!(element, field::power_of_alpha(row * exponent), "{code} {position}");
                }
            }
        }
    }
}
