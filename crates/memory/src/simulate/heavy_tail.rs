//! Rates over a fleet: few hosts have most of the errors.
//!
//! A Pareto distribution between a lowest rate and 10^7 times that. Its shape follows from how many times the median the mean
//! is: about 55 in the fleet of J. Meza et al., DSN 2015. Without a highest rate, the mean of any fleet that is not
//! immense would be far from the mean of the distribution; 10^7 reaches from an error a day to a hundred a second.

/// The highest rate over the lowest.
pub const RANGE: f64 = 1e7;
/// The mean over the median, of the literature.
pub const MEAN_OVER_MEDIAN: f64 = 55.0;
/// What [`HeavyTail::new`] can reach.
pub const MEAN_OVER_MEDIAN_RANGE: std::ops::RangeInclusive<f64> = 1.2..=700.0;

/// A bounded Pareto distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeavyTail {
    shape: f64,
    lowest: f64,
}

impl HeavyTail {
    /// The distribution with this mean, which is so many times its median: a number of `MEAN_OVER_MEDIAN_RANGE`.
    pub fn new(mean: f64, mean_over_median: f64) -> HeavyTail {
        // The ratio falls with the shape from here on.
        let (mut low, mut high) = (0.501, 4.0);
        for _ in 0..200 {
            let middle = (low + high) / 2.0;
            let one = HeavyTail { shape: middle, lowest: 1.0 };
            if one.mean() / one.quantile(0.5) > mean_over_median { low = middle } else { high = middle }
        }
        let one = HeavyTail { shape: high, lowest: 1.0 };
        HeavyTail { lowest: mean / one.mean(), ..one }
    }

    /// Its mean.
    pub fn mean(&self) -> f64 {
        let a = self.shape;
        // At a shape of 1 the two powers come to a logarithm.
        let integral = if (a - 1.0).abs() < 1e-9 { RANGE.ln() } else { a / (1.0 - a) * (RANGE.powf(1.0 - a) - 1.0) };
        self.lowest * integral / (1.0 - RANGE.powf(-a))
    }

    /// The value that this share of them does not exceed.
    pub fn quantile(&self, share: f64) -> f64 {
        self.lowest * (1.0 - share * (1.0 - RANGE.powf(-self.shape))).powf(-1.0 / self.shape)
    }

    /// The highest value.
    pub fn highest(&self) -> f64 {
        self.lowest * RANGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::Stream;

    #[test]
    fn the_mean_is_so_many_times_the_median() {
        for ratio in [1.2, 2.0, 8.0, 55.0, 700.0] {
            let tail = HeavyTail::new(3.0, ratio);
            assert!((tail.mean() - 3.0).abs() < 1e-9, "{tail:?}");
            assert!((tail.mean() / tail.quantile(0.5) / ratio - 1.0).abs() < 1e-6, "{ratio} {tail:?}");
        }
    }

    #[test]
    fn drawn_rates_have_that_mean_and_median() {
        let tail = HeavyTail::new(1.0, MEAN_OVER_MEDIAN);
        let mut stream = Stream::numbered(1, 1);
        let mut rates: Vec<f64> = (0..1_000_000).map(|_| tail.quantile(stream.open_unit())).collect();
        let mean = rates.iter().sum::<f64>() / 1e6;
        let error = (rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / 1e6).sqrt() / 1e3;
        assert!((mean - 1.0).abs() < 4.0 * error, "{mean} {error}");
        rates.sort_by(f64::total_cmp);
        assert!((rates[500_000] * MEAN_OVER_MEDIAN - 1.0).abs() < 0.02, "{}", rates[500_000]);
        assert!(rates[0] >= tail.quantile(0.0) && rates[999_999] <= tail.highest());
    }
}
