//! Small matrices over the field: what erasures and parity are solved with.

use crate::SYNDROMES_MAX;
use crate::field::{inverse, multiply};

/// At most 4 x 4 elements, row by row; what is not used is 0.
pub(crate) type Square = [[u8; SYNDROMES_MAX]; SYNDROMES_MAX];

/// The product of the first `rows` rows of the matrix and a vector.
pub(crate) fn times(matrix: &Square, rows: usize, vector: [u8; SYNDROMES_MAX]) -> [u8; SYNDROMES_MAX] {
    let mut product = [0; SYNDROMES_MAX];
    for row in 0..rows {
        for (coefficient, element) in matrix[row].iter().zip(vector) {
            product[row] ^= multiply(*coefficient, element);
        }
    }
    product
}

/// Elimination of unknown symbols: from the syndromes to their values, and to what no values of theirs can explain.
///
/// For unknown symbols with the columns E of H (as many as `unknowns`) and syndromes S, row i < `unknowns` of
/// `matrix` times S is the value of unknown i; the rows from `unknowns` on span what is orthogonal to E: those products
/// are 0 if the unknown symbols alone explain S.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Elimination {
    pub(crate) matrix: Square,
    pub(crate) unknowns: usize,
}

impl Elimination {
    /// Gauss-Jordan on \[E | I\]: the right half becomes T with T·E = (I over 0). `None` if the columns depend on each
    /// other, which the distance of a code rules out for up to `parity` different columns.
    pub(crate) fn of(columns: &[[u8; SYNDROMES_MAX]], parity: usize) -> Option<Elimination> {
        let unknowns = columns.len();
        let mut left = [[0; SYNDROMES_MAX]; SYNDROMES_MAX];
        let mut matrix = [[0; SYNDROMES_MAX]; SYNDROMES_MAX];
        for row in 0..parity {
            matrix[row][row] = 1;
            for (unknown, column) in columns.iter().enumerate() {
                left[row][unknown] = column[row];
            }
        }
        for unknown in 0..unknowns {
            let pivot = (unknown..parity).find(|&row| left[row][unknown] != 0)?;
            left.swap(unknown, pivot);
            matrix.swap(unknown, pivot);
            let factor = inverse(left[unknown][unknown])?;
            scale(&mut left[unknown], factor);
            scale(&mut matrix[unknown], factor);
            for row in (0..parity).filter(|&row| row != unknown) {
                let factor = left[row][unknown];
                add_scaled(&mut left, row, unknown, factor);
                add_scaled(&mut matrix, row, unknown, factor);
            }
        }
        Some(Elimination { matrix, unknowns })
    }
}

fn scale(row: &mut [u8; SYNDROMES_MAX], factor: u8) {
    row.iter_mut().for_each(|element| *element = multiply(*element, factor));
}

fn add_scaled(matrix: &mut Square, to: usize, from: usize, factor: u8) {
    let added = matrix[from];
    for (element, addend) in matrix[to].iter_mut().zip(added) {
        *element ^= multiply(addend, factor);
    }
}
