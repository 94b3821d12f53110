//! The middle of many numbers and how far they spread.

use serde::Serialize;
use surefoot_random::Random;

/// Median and quartiles.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// A quarter of the numbers is below this.
    pub lower: f64,
    /// The middle.
    pub median: f64,
    /// A quarter of the numbers is above this.
    pub upper: f64,
    /// How many numbers there are.
    pub rounds: usize,
}

impl Spread {
    /// Of at least one number; `None` of none.
    pub fn of(numbers: &[f64]) -> Option<Spread> {
        let mut sorted = numbers.to_vec();
        sorted.sort_by(f64::total_cmp);
        (!sorted.is_empty()).then(|| Spread {
            lower: quantile(&sorted, 0.25),
            median: quantile(&sorted, 0.5),
            upper: quantile(&sorted, 0.75),
            rounds: sorted.len(),
        })
    }
}

/// The quantile of sorted numbers, between its two neighbours where it falls between two.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = (sorted.len() - 1) as f64 * share;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

/// The median; `None` of no numbers.
pub fn median(numbers: &[f64]) -> Option<f64> {
    Spread::of(numbers).map(|spread| spread.median)
}

/// The median of the first numbers through the median of the second, and how far that spreads when the pairs are drawn
/// anew at random (bootstrap). For differences, whose own ratios mean little where the second comes near zero.
pub fn ratio_of_medians(pairs: &[(f64, f64)]) -> Option<Spread> {
    const DRAWS: usize = 1000;
    let ratio = |pairs: &[(f64, f64)]| {
        let middle = |side: fn(&(f64, f64)) -> f64| median(&pairs.iter().map(side).collect::<Vec<_>>());
        let (first, second) = (middle(|pair| pair.0)?, middle(|pair| pair.1)?);
        (second > 0.0).then(|| first / second)
    };
    let exact = ratio(pairs)?;
    let mut random = Random::new(1);
    let mut drawn = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        let again: Vec<_> = pairs.iter().map(|_| pairs[(random.unit() * pairs.len() as f64) as usize]).collect();
        drawn.extend(ratio(&again));
    }
    let spread = Spread::of(&drawn)?;
    Some(Spread { median: exact, rounds: pairs.len(), ..spread })
}

/// A duration for people, with three digits.
pub fn duration(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        size if size < 1e3 => (ns, "ns"),
        size if size < 1e6 => (ns / 1e3, "us"),
        size if size < 1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    let digits = if value.abs() >= 100.0 {
        0
    } else if value.abs() >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_spread_is_median_and_quartiles_in_any_order() {
        let spread = Spread::of(&[5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert_eq!(spread, Spread { lower: 2.0, median: 3.0, upper: 4.0, rounds: 5 });
        assert_eq!(median(&[1.0, 2.0]), Some(1.5));
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn differences_are_compared_by_their_medians() {
        let spread = ratio_of_medians(&[(1.0, 4.0), (2.0, 8.0), (3.0, -1.0), (2.0, 9.0)]).unwrap();
        assert_eq!((spread.median, spread.rounds), (2.0 / 6.0, 4));
        assert!(spread.lower <= spread.median && spread.median <= spread.upper);
        assert_eq!(ratio_of_medians(&[(1.0, -4.0)]), None);
        assert_eq!(ratio_of_medians(&[]), None);
    }

    #[test]
    fn durations_have_three_digits() {
        let shown: Vec<String> = [0.0, 12.34, 1234.0, 12_345_678.0, -2500.0].map(duration).to_vec();
        assert_eq!(shown, ["0.00 ns", "12.3 ns", "1.23 us", "12.3 ms", "-2.50 us"]);
    }
}
