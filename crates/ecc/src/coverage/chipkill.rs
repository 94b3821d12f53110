//! x4 chipkill: a (36,32) code over GF(16) that corrects one symbol of four bits and detects two.
//!
//! A word of 144 bits is one beat of 36 x4 chips in lockstep, one symbol from each chip: 128 data bits and 16 check
//! bits, as in the chipkill controllers of two 72-bit channels. Such SbEC-DbED codes (b = 4) need a parity-check matrix
//! of which any three columns are independent over GF(16), that is, a *cap* of points in the projective space PG(3,16)
//! (S. Kaneda, E. Fujiwara, "Single byte error correcting - double byte error detecting codes for memory systems",
//! IEEE Trans. Computers C-31, 1982; C. L. Chen, "Error-correcting codes for byte-organized memory systems", IEEE Trans.
//! Information Theory IT-32, 1986). The vendors' matrices differ from each other. This one takes the largest cap there
//! is, the elliptic quadric of 16² + 1 = 257 points (R. C. Bose, 1947; F. J. MacWilliams, N. J. A. Sloane, "The Theory
//! of Error-Correcting Codes", chapter 11):
//!
//! ```text
//! (0, 0, 0, 1)   and   (1, y, z, y² + yz + δz²)   for all y, z of GF(16),
//! ```
//!
//! where x² + x + δ has no root in GF(16), so that the form vanishes at (0, 0) only. GF(16) is GF(2)\[x\] modulo x⁴ + x + 1
//! and δ = x³ (8). The word's symbols 0 to 35 are the points with 16 z + y = 0 to 35. A change of basis turns the columns
//! of symbols 0, 1, 2 and 16 into unit vectors (they are independent, a test checks), so that these can be the check
//! symbols; no figure of a coverage table depends on the basis.

/// Symbols of a word, which are chips.
pub const SYMBOLS: usize = 36;

/// δ of the quadric.
const DELTA: u8 = 8;

/// The product in GF(16), modulo x⁴ + x + 1.
pub const fn multiply(a: u8, b: u8) -> u8 {
    let mut product = 0;
    let mut bit = 0;
    while bit < 4 {
        if b >> bit & 1 == 1 {
            product ^= a << bit;
        }
        bit += 1;
    }
    let mut high = 7;
    while high >= 4 {
        if product >> high & 1 == 1 {
            product ^= 0b1_0011 << (high - 4);
        }
        high -= 1;
    }
    product
}

/// Column `symbol` of the parity-check matrix.
///
/// # Panics
/// Symbols are 0 to 35.
pub const fn column(symbol: usize) -> [u8; 4] {
    assert!(symbol < SYMBOLS);
    let (y, z) = ((symbol % 16) as u8, (symbol / 16) as u8);
    let form = multiply(y, y) ^ multiply(y, z) ^ multiply(DELTA, multiply(z, z));
    [1, y, z, form]
}

/// The syndrome of an error: its 16 bits, row 0 of the matrix in the lowest four.
pub const fn syndrome(symbol: usize, value: u8) -> u32 {
    let column = column(symbol);
    let mut syndrome = 0;
    let mut row = 0;
    while row < 4 {
        syndrome |= (multiply(column[row], value) as u32) << (4 * row);
        row += 1;
    }
    syndrome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiplication_is_that_of_a_field() {
        for a in 1..16 {
            let products: std::collections::BTreeSet<u8> = (1..16).map(|b| multiply(a, b)).collect();
            assert_eq!(products, (1..16).collect());
            for b in 0..16 {
                assert_eq!(multiply(a, b), multiply(b, a));
                for c in 0..16 {
                    assert_eq!(multiply(a, b ^ c), multiply(a, b) ^ multiply(a, c));
                    assert_eq!(multiply(a, multiply(b, c)), multiply(multiply(a, b), c));
                }
            }
        }
    }

    #[test]
    fn the_form_has_no_zero_but_the_origin() {
        assert!((0..16).all(|x| multiply(x, x) ^ x ^ DELTA != 0));
    }

    #[test]
    fn any_three_columns_are_independent_and_some_four_are_not() {
        let syndromes_of =
            |symbol| (1..16).map(move |value| syndrome(symbol, value)).collect::<std::collections::HashSet<u32>>();
        let all: Vec<_> = (0..SYMBOLS).map(syndromes_of).collect();
        let mut fours = 0;
        for a in 0..SYMBOLS {
            for b in a + 1..SYMBOLS {
                let sums: Vec<u32> = (1..16).map(|value| syndrome(a, 1) ^ syndrome(b, value)).collect();
                assert!(!all[a].contains(&syndrome(b, 1)));
                for c in b + 1..SYMBOLS {
                    assert!(sums.iter().all(|sum| !all[c].contains(sum)), "{a} {b} {c}");
                    for of_d in &all[c + 1..] {
                        let is_four =
                            sums.iter().any(|sum| (1..16).any(|value| of_d.contains(&(sum ^ syndrome(c, value)))));
                        fours += usize::from(is_four);
                    }
                }
            }
        }
        assert!(fours > 0, "the distance is exactly 4");
    }

    #[test]
    fn four_symbols_can_be_the_check_symbols() {
        // Independent over GF(16): all 16^4 combinations differ.
        let mut seen = std::collections::HashSet::new();
        for values in 0..65_536usize {
            let sum = (0..4).fold(0, |sum, i| sum ^ syndrome([0, 1, 2, 16][i], (values >> (4 * i) & 15) as u8));
            assert!(seen.insert(sum));
        }
    }
}
