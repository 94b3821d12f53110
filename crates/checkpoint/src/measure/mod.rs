//! Measures: what this machine's tiers take.

pub mod tiers;

/// The middle of some numbers, and how far they spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// A quarter of the numbers is below this.
    pub lower: f64,
    /// The middle.
    pub median: f64,
    /// A quarter of the numbers is above this.
    pub upper: f64,
    /// How many numbers there are.
    pub count: usize,
}

impl Spread {
    /// Of at least one number; `None` of none.
    pub fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = numbers.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        // Between two neighbours where it falls between two.
        let quantile = |share: f64| {
            let place = last as f64 * share;
            let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
            if below == above { below } else { below + (above - below) * place.fract() }
        };
        Some(Spread { lower: quantile(0.25), median: quantile(0.5), upper: quantile(0.75), count: sorted.len() })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_spread_is_median_and_quartiles_in_any_order() {
        let spread = Spread::of([5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert_eq!(spread, Spread { lower: 2.0, median: 3.0, upper: 4.0, count: 5 });
        assert_eq!(Spread::of([1.0, 2.0]).unwrap().median, 1.5);
        assert_eq!(Spread::of([f64::INFINITY, f64::INFINITY]).unwrap().median, f64::INFINITY);
        assert_eq!(Spread::of([]), None);
    }
}
