//! What a batch call found.

use crate::SYMBOLS_MAX;

/// Whether all columns passed the fast check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use]
pub enum Check {
    /// The first two syndromes are 0 in every column.
    Clean,
    /// A column failed; later ones were not looked at.
    Dirty {
        /// The first column that failed, from 0.
        first_column: usize,
    },
}

/// What became of the columns of a batch: each is clean, corrected or detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use]
pub struct Report {
    /// Columns in which nothing was wrong beyond the erasures.
    pub clean: usize,
    /// Columns with errors that were corrected.
    pub corrected: usize,
    /// Columns with more errors than the mode corrects: they were left as they were.
    pub detected: usize,
    /// The first detected column, from 0.
    pub first_detected: Option<usize>,
    /// For each symbol of the code, in how many columns it was corrected. Damage to one shard shows as one large
    /// number; many small ones are a sign of columns with more errors than the code is made for.
    pub corrected_at: [usize; SYMBOLS_MAX],
}

impl Default for Report {
    fn default() -> Report {
        Report { clean: 0, corrected: 0, detected: 0, first_detected: None, corrected_at: [0; SYMBOLS_MAX] }
    }
}

impl Report {
    /// How many columns there were.
    pub const fn columns(&self) -> usize {
        self.clean + self.corrected + self.detected
    }

    /// Notes detected columns, as bits from `first_column` on; at least one is set.
    pub(super) fn detect(&mut self, first_column: usize, bits: u64) {
        self.detected += bits.count_ones() as usize;
        self.first_detected = self.first_detected.or(Some(first_column + bits.trailing_zeros() as usize));
    }

    /// Adds what was found in later columns, which begin at `first_column`.
    pub(crate) fn add(&mut self, later: Report, first_column: usize) {
        self.clean += later.clean;
        self.corrected += later.corrected;
        self.detected += later.detected;
        self.first_detected = self.first_detected.or(later.first_detected.map(|column| first_column + column));
        for (sum, more) in self.corrected_at.iter_mut().zip(later.corrected_at) {
            *sum += more;
        }
    }
}
