//! The minimum distance, by the rank of every set of columns.

use surefoot_ecc::field::{divide, inverse, multiply};
use surefoot_ecc::{Code, SYNDROMES_MAX};

/// The rank of some columns, by elimination.
fn rank(columns: &[[u8; SYNDROMES_MAX]]) -> usize {
    let mut columns = columns.to_vec();
    let mut rank = 0;
    for row in 0..SYNDROMES_MAX {
        let Some(pivot) = (rank..columns.len()).find(|&column| columns[column][row] != 0) else { continue };
        columns.swap(rank, pivot);
        let pivot = columns[rank];
        for column in &mut columns[rank + 1..] {
            let factor = divide(column[row], pivot[row]).unwrap();
            column.iter_mut().zip(pivot).for_each(|(element, addend)| *element ^= multiply(addend, factor));
        }
        rank += 1;
    }
    rank
}

/// Every set of `size` numbers below `limit`.
pub fn sets(limit: usize, size: usize) -> Vec<Vec<usize>> {
    if size == 0 {
        return vec![vec![]];
    }
    let smaller = sets(limit, size - 1);
    smaller
        .iter()
        .flat_map(|set| (set.last().map_or(0, |last| last + 1)..limit).map(|next| [&set[..], &[next]].concat()))
        .collect()
}

#[test]
fn any_columns_fewer_than_the_distance_are_independent() {
    for (code, expected) in [(Code::Rs36_32, 58_905), (Code::Rs18_16, 153), (Code::Rs19_16, 969)] {
        let sets = sets(code.n(), code.distance() - 1);
        assert_eq!(sets.len(), expected);
        for set in sets {
            let columns: Vec<_> = set.iter().map(|&position| code.column(position)).collect();
            assert_eq!(rank(&columns), columns.len(), "{code}: {set:?}");
        }
    }
}

#[test]
fn the_rank_finds_dependent_columns() {
    let column = Code::Rs36_32.column(3);
    assert_eq!(rank(&[column, column.map(|element| multiply(element, 9)), Code::Rs36_32.column(4)]), 2);
    assert_eq!(inverse(3).map(|reciprocal| multiply(reciprocal, 3)), Some(1));
}

/// That identity parity beside a Vandermonde matrix, which works for three rows, is no code of distance 5 for four: the
/// reason why RS(36,32) is made from its generator.
#[test]
fn four_rows_of_powers_beside_an_identity_would_be_too_weak() {
    let mut columns: Vec<[u8; 4]> =
        (0..32).map(|i| [0, 1, 2, 3].map(|row| surefoot_ecc::field::power_of_alpha(row * i))).collect();
    columns.extend((0..4).map(|unit| [0, 1, 2, 3].map(|row| u8::from(row == unit))));
    let weakest = sets(36, 4).into_iter().find(|set| {
        let chosen: Vec<_> = set.iter().map(|&position| columns[position]).collect();
        rank(&chosen) < 4
    });
    assert!(weakest.is_some());
}
