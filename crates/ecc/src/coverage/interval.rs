//! Confidence intervals of shares.

/// A share's 95 % interval, both ends within 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The 97.5 % quantile of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// The Wilson score interval (E. B. Wilson, JASA 22, 1927) of `events` in `trials`. Unlike the textbook interval it has
/// a width also where no event was seen: 0 events in n trials give 0 to about 3.84 / n.
pub fn wilson(events: u64, trials: u64) -> Interval {
    if trials == 0 {
        return Interval { low: 0.0, high: 1.0 };
    }
    let n = trials as f64;
    let share = events as f64 / n;
    let center = (share + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z / (1.0 + Z * Z / n) * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    Interval {
        low: if events == 0 { 0.0 } else { (center - half).max(0.0) },
        high: if events == trials { 1.0 } else { (center + half).min(1.0) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_intervals() {
        // R: prop.test(10, 100, correct = FALSE)$conf.int
        let interval = wilson(10, 100);
        assert!((interval.low - 0.055_229_14).abs() < 1e-7 && (interval.high - 0.174_365_7).abs() < 1e-6);
        let none = wilson(0, 1_000_000);
        assert_eq!(none.low, 0.0);
        assert!((none.high - 3.841_444e-6).abs() < 1e-9, "{none:?}");
        let all = wilson(50, 50);
        assert!(all.high == 1.0 && all.low > 0.9);
        assert_eq!(wilson(0, 0), Interval { low: 0.0, high: 1.0 });
    }
}
