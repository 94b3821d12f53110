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

/// Fewer events than this, or fewer misses, are not normal enough for a score interval.
const FEW: u64 = 50;

/// The 95 % confidence interval of the share `events` / `trials`.
///
/// With 50 events or more on both sides, Wilson's score interval (E. B. Wilson, JASA 22, 1927). With fewer, the exact
/// Poisson interval of the rare side (F. Garwood, Biometrika 28, 1936), which is no narrower than the exact binomial
/// one: it covers the share in 95 % of all cases at least, where a score interval around one or two events does not. No
/// event in n trials gives 0 to 3.69 / n.
pub fn interval95(events: u64, trials: u64) -> Interval {
    if trials == 0 {
        return Interval { low: 0.0, high: 1.0 };
    }
    let misses = trials - events.min(trials);
    if events < FEW && events <= misses {
        return garwood(events, trials);
    }
    if misses < FEW {
        let Interval { low, high } = garwood(misses, trials);
        return Interval { low: 1.0 - high, high: 1.0 - low };
    }
    wilson(events, trials)
}

fn wilson(events: u64, trials: u64) -> Interval {
    let n = trials as f64;
    let share = events as f64 / n;
    let center = (share + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z / (1.0 + Z * Z / n) * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    Interval { low: center - half, high: center + half }
}

fn garwood(events: u64, trials: u64) -> Interval {
    let n = trials as f64;
    // As many or more events have probability 2.5 % at the lower end, as many or fewer at the upper end.
    let low = match events {
        0 => 0.0,
        _ => mean_where(|mean| 1.0 - poisson_at_most(events - 1, mean) >= TAIL),
    };
    let high = mean_where(|mean| poisson_at_most(events, mean) <= TAIL);
    Interval { low: (low / n).min(1.0), high: (high / n).min(1.0) }
}

/// What is left out on either side.
const TAIL: f64 = 0.025;

/// The smallest mean from which on this holds, by bisection.
fn mean_where(holds: impl Fn(f64) -> bool) -> f64 {
    // The upper end for 50 events is 66.
    let (mut low, mut high) = (0.0, 100.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if holds(middle) { high = middle } else { low = middle }
    }
    high
}

/// The probability of at most so many events where the mean is expected.
fn poisson_at_most(events: u64, mean: f64) -> f64 {
    let mut term = (-mean).exp();
    let mut sum = term;
    for event in 1..=events {
        term *= mean / event as f64;
        sum += term;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_intervals() {
        // R: prop.test(10, 100, correct = FALSE)$conf.int
        let score = wilson(10, 100);
        assert!((score.low - 0.055_229_14).abs() < 1e-7 && (score.high - 0.174_365_7).abs() < 1e-6);
        // Garwood's table: 1 event 0.0253 to 5.572, 10 events 4.795 to 18.390.
        let near = |interval: Interval, low: f64, high: f64| {
            assert!(
                (interval.low * 1e6 - low).abs() < 1e-3 && (interval.high * 1e6 - high).abs() < 1e-3,
                "{interval:?}"
            );
        };
        near(interval95(0, 1_000_000), 0.0, 3.689);
        near(interval95(1, 1_000_000), 0.0253, 5.572);
        near(interval95(10, 1_000_000), 4.795, 18.390);
    }

    #[test]
    fn both_sides_are_alike_and_the_ends_are_certain() {
        for (events, trials) in [(0, 10), (3, 1000), (49, 100_000), (60, 100_000), (50, 100)] {
            let (some, others) = (interval95(events, trials), interval95(trials - events, trials));
            assert!((some.low - (1.0 - others.high)).abs() < 1e-12 && (some.high - (1.0 - others.low)).abs() < 1e-12);
            let share = events as f64 / trials as f64;
            assert!(some.low <= share && share <= some.high, "{events} {trials}");
        }
        assert_eq!(interval95(0, 1000).low, 0.0);
        assert_eq!(interval95(1000, 1000).high, 1.0);
        assert_eq!(interval95(0, 0), Interval { low: 0.0, high: 1.0 });
    }

    /// Where the two methods meet there is no jump: the exact one is the wider.
    #[test]
    fn the_exact_interval_is_the_wider_one() {
        let (exact, score) = (garwood(50, 1_000_000), wilson(50, 1_000_000));
        assert!(exact.high - exact.low > score.high - score.low);
        assert!(exact.high - exact.low < 1.1 * (score.high - score.low));
    }
}
