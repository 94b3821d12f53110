//! What makers rate their drives for, from a table that is part of the program.

use surefoot_model::Digits;

/// The table; its first lines say what the columns are.
const TABLE: &str = include_str!("ratings.tsv");

/// The rating of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rating {
    /// Bytes that hosts may write, of the standard workload that makers test with.
    pub bytes: u64,
    /// Years of the warranty.
    pub years: u64,
    /// The public document that says so.
    pub document: &'static str,
}

/// The rating of the first row that fits the model.
pub fn rating(model: &str) -> Option<Rating> {
    rows().find(|(pattern, _)| fits(pattern, model)).map(|(_, rating)| rating)
}

fn rows() -> impl Iterator<Item = (&'static str, Rating)> {
    TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut cells = line.split('\t');
        let pattern = cells.next()?;
        let terabytes: u64 = cells.next()?.digits()?;
        let years = cells.next()?.digits()?;
        Some((pattern, Rating { bytes: terabytes.checked_mul(1_000_000_000_000)?, years, document: cells.next()? }))
    })
}

/// Whether a model is what a pattern says: `*` stands for any characters, and several blanks are one.
fn fits(pattern: &str, model: &str) -> bool {
    let model = model.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut pieces = pattern.split('*');
    let Some(mut rest) = pieces.next().and_then(|first| model.strip_prefix(first)) else { return false };
    let pieces: Vec<&str> = pieces.collect();
    let Some((last, between)) = pieces.split_last() else { return rest.is_empty() };
    for piece in between {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_row_of_the_table_is_whole_and_first_for_its_model() {
        let lines = TABLE.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(rows().count(), lines);
        for (pattern, row) in rows() {
            assert!(row.bytes >= 10_000_000_000_000 && row.bytes <= 100_000_000_000_000_000, "{pattern}");
            assert!((1..=10).contains(&row.years) && row.document.len() > 20, "{pattern}");
            assert_eq!(rating(&pattern.replace('*', "")), Some(row), "{pattern} is hidden by a row above");
        }
    }

    #[test]
    fn a_model_has_the_rating_of_its_own_row_or_none() {
        let terabytes = |model: &str| rating(model).map(|rating| rating.bytes / 1_000_000_000_000);
        assert_eq!(terabytes("CT1000MX500SSD1"), Some(360));
        assert_eq!(terabytes("WDC  WDS200T1R0A-68A4W0"), Some(1300));
        assert_eq!(terabytes("Samsung SSD 980 PRO 1TB"), Some(600));
        for other in ["", "*", "Samsung SSD 980 PRO 1TB with heatsink", "MX500", "QEMU NVMe Ctrl", "CT100"] {
            assert_eq!(terabytes(other), None, "{other}");
        }
    }
}
