//! SECDED(72,64): the odd-weight-column code of M. Y. Hsiao, "A class of optimal minimum odd-weight-column SEC-DED
//! codes", IBM J. Res. Dev. 14, 1970: corrects one bit of 72 and detects two.
//!
//! Every column of the parity-check matrix has odd weight, so that two errors have a syndrome of even weight, which no
//! single error has. The 64 data bits take all 56 columns of weight 3 and 8 of the 56 of weight 5; the 8 check bits have
//! the columns of weight 1. Hsiao's paper and the vendors order the columns differently, which matters for nothing but
//! errors of three bits and more. Here the data bits 0 to 55 have the columns of weight 3 in rising order as numbers, the
//! bits 56 to 63 the rotations of 0b0001_1111, and the check bits 64 to 71 the columns 1, 2, 4, ... 128. Each row then has
//! the same number of ones, 27, which is Hsiao's condition for the smallest depth of the circuit.

/// Bits of a word.
pub const BITS: usize = 72;

/// The columns of the parity-check matrix: the syndrome of each bit.
pub const COLUMNS: [u8; BITS] = {
    let mut columns = [0; BITS];
    let mut bit = 0;
    let mut candidate: u8 = 0;
    while bit < 56 {
        if candidate.count_ones() == 3 {
            columns[bit] = candidate;
            bit += 1;
        }
        candidate += 1;
    }
    while bit < 64 {
        columns[bit] = 0b0001_1111u8.rotate_left(bit as u32 - 56);
        bit += 1;
    }
    while bit < BITS {
        columns[bit] = 1 << (bit - 64);
        bit += 1;
    }
    columns
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_different_odd_and_balanced() {
        let different: std::collections::BTreeSet<u8> = COLUMNS.into_iter().collect();
        assert_eq!(different.len(), BITS);
        assert!(COLUMNS.iter().all(|column| column.count_ones() % 2 == 1));
        for row in 0..8 {
            assert_eq!(COLUMNS.iter().filter(|&column| column >> row & 1 == 1).count(), 27);
        }
    }
}
