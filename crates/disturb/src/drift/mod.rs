//! Whether disturbances make a wall clock lose time: it is compared with a reference while nothing disturbs it and while
//! something does, and the difference is told per thousand disturbances.
//!
//! The reference must not count time as the clock does: a kernel whose time comes from counting ticks loses those that are
//! held up, and every clock of that kernel loses them with it.

pub mod ntp;

use crate::Error;
use crate::effect::median;
use crate::student::student;

/// One comparison of the clock with its reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compared {
    /// When, by the reference, from any begin.
    pub at_ns: i64,
    /// When, by `CLOCK_MONOTONIC`.
    pub monotonic_ns: i64,
    /// By how much the clock is ahead of the reference.
    pub ahead_ns: i64,
    /// It may be wrong by so much.
    pub error_ns: u64,
}

/// How fast a clock leaves its reference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Nanoseconds that the clock gains in a second; negative where it loses them.
    pub ns_per_s: f64,
    /// The standard deviation of that.
    pub deviation: f64,
    /// Comparisons behind it.
    pub samples: usize,
    /// Comparisons that were left out, because their own error was far above that of the others: a stall was in them.
    pub left_out: usize,
    /// From the first to the last of them.
    pub span_s: f64,
}

/// What disturbances do to the clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// Nanoseconds that the clock gains by a thousand disturbances; negative where it loses them.
    pub ns_per_thousand: f64,
    /// It is no less than this in 19 of 20 cases.
    pub low_ns: f64,
    /// And no more than this.
    pub high_ns: f64,
    /// The rate while nothing disturbed.
    pub undisturbed: Rate,
    /// The rate under disturbances.
    pub disturbed: Rate,
}

impl Drift {
    /// Whether the clock went otherwise under disturbances, as far as this many comparisons can tell.
    #[must_use]
    pub fn is_shown(&self) -> bool {
        self.low_ns > 0.0 || self.high_ns < 0.0
    }
}

/// The fewest comparisons that make a rate with a deviation.
pub const COMPARED_LEAST: usize = 3;

/// A comparison whose error is so many times the median one is left out.
const ERROR_TIMES: u64 = 4;

/// How fast the clock leaves its reference: the straight line of least squares over the comparisons with errors like those of
/// the others.
///
/// # Errors
/// Fewer than [`COMPARED_LEAST`] comparisons, or all at the same time.
pub fn rate(all: &[Compared]) -> Result<Rate, Error> {
    let mut errors: Vec<u64> = all.iter().map(|sample| sample.error_ns).collect();
    errors.sort_unstable();
    let most = errors.get(errors.len() / 2).copied().unwrap_or(0).saturating_mul(ERROR_TIMES);
    let compared: Vec<Compared> = all.iter().copied().filter(|sample| sample.error_ns <= most).collect();
    let few = || Error::TooFewComparisons { count: compared.len(), least: COMPARED_LEAST };
    let (first, last) = compared.first().zip(compared.last()).ok_or_else(few)?;
    let count = compared.len() as f64;
    // From the first on, so that a float has all of a nanosecond.
    let of = |sample: &Compared| {
        (
            ((sample.monotonic_ns - first.monotonic_ns) as f64) / 1e9,
            sample.ahead_ns.saturating_sub(first.ahead_ns) as f64,
        )
    };
    let (time, ahead) = compared.iter().map(of).fold((0.0, 0.0), |(t, a), (x, y)| (t + x / count, a + y / count));
    let spread: f64 = compared.iter().map(|sample| (of(sample).0 - time).powi(2)).sum();
    if compared.len() < COMPARED_LEAST || spread <= 0.0 {
        return Err(few());
    }
    let slope = compared.iter().map(|sample| (of(sample).0 - time) * (of(sample).1 - ahead)).sum::<f64>() / spread;
    let residual = |sample: &Compared| of(sample).1 - ahead - slope * (of(sample).0 - time);
    let by_chance = compared.iter().map(|sample| residual(sample).powi(2)).sum::<f64>() / (count - 2.0);
    // Errors that comparisons state stand beside what they show: by their bounds, evenly spread, a third of the square.
    let stated = compared.iter().map(|sample| (sample.error_ns as f64).powi(2) / 3.0).sum::<f64>() / count;
    Ok(Rate {
        ns_per_s: slope,
        deviation: (by_chance.max(stated) / spread).sqrt(),
        samples: compared.len(),
        left_out: all.len() - compared.len(),
        span_s: (last.monotonic_ns - first.monotonic_ns) as f64 / 1e9,
    })
}

/// The reference may go so much faster or slower than the monotonic clock, which under stalls loses time itself if it counts ticks: stalls
/// take less than half of the time.
const PARTS: (f64, f64) = (0.5, 2.0);
/// While nothing disturbs, it goes as evenly as this.
const UNEVEN: f64 = 0.05;

/// Whether the reference went on as this host's monotonic clock did, between each two comparisons and as far as their errors tell.
///
/// # Errors
/// It stood still, went back or jumped.
fn check(compared: &[Compared], is_disturbed: bool) -> Result<(), Error> {
    let gone = |pair: &[Compared]| {
        let here = pair[1].monotonic_ns.saturating_sub(pair[0].monotonic_ns);
        (pair[1].at_ns.saturating_sub(pair[0].at_ns), here)
    };
    let rates = compared.windows(2).map(gone).filter(|(_, here)| *here > 0);
    let usual = median(rates.map(|(by_reference, here)| by_reference as f64 / here as f64).collect());
    for pair in compared.windows(2) {
        let (by_reference, here) = gone(pair);
        let (mut slow, mut fast) = PARTS;
        if !is_disturbed {
            (slow, fast) = (slow.max(usual - UNEVEN), fast.min(usual + UNEVEN));
        }
        let error = (pair[0].error_ns as f64 + pair[1].error_ns as f64) + 1e6;
        let what = match by_reference as f64 {
            gone if gone < -error => "went back",
            gone if gone < slow * here as f64 - error => "stopped or fell behind",
            gone if gone > fast * here as f64 + error => "jumped ahead",
            _ => continue,
        };
        return Err(Error::Reference { what, by_ns: by_reference.saturating_sub(here) });
    }
    Ok(())
}

/// What `disturbances`, evenly over the time of the second row, did to the clock.
///
/// # Errors
/// No disturbance, a reference that does not keep time, or a row from which no rate can be told.
pub fn drift(undisturbed: &[Compared], disturbed: &[Compared], disturbances: u64) -> Result<Drift, Error> {
    if disturbances == 0 {
        return Err(Error::NoDisturbance);
    }
    check(undisturbed, false)?;
    check(disturbed, true)?;
    let (before, under) = (rate(undisturbed)?, rate(disturbed)?);
    let thousands_per_s = disturbances as f64 / under.span_s / 1_000.0;
    let middle = (under.ns_per_s - before.ns_per_s) / thousands_per_s;
    let freedom = before.samples.min(under.samples) - 2;
    let reach = student(0.95, freedom as u64) * before.deviation.hypot(under.deviation) / thousands_per_s;
    Ok(Drift {
        ns_per_thousand: middle,
        low_ns: middle - reach,
        high_ns: middle + reach,
        undisturbed: before,
        disturbed: under,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(seconds: i64, ns_per_s: i64, noise: &[i64]) -> Vec<Compared> {
        let at = |second: i64| Compared {
            at_ns: 1_700_000_000_000_000_000 + second * 1_000_000_000,
            monotonic_ns: 5_000_000_000 + second * 1_000_000_000,
            ahead_ns: -77_000_000_000 + second * ns_per_s + noise[second as usize % noise.len()],
            error_ns: 0,
        };
        (0..seconds).map(at).collect()
    }

    #[test]
    fn a_clock_that_loses_what_it_is_stopped_for_is_found() {
        // 105 ms lost in each of 4 disturbances a second, on a clock that gains 50 us a second anyway.
        let found = drift(&row(20, 50_000, &[0]), &row(20, 50_000 - 420_000_000, &[0]), 4 * 19).unwrap();
        assert!((found.ns_per_thousand + 105e9).abs() < 1e3 && found.is_shown(), "{found:?}");
        assert!((found.undisturbed.ns_per_s - 50_000.0).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn what_noise_can_do_is_not_shown_as_a_drift() {
        let noise = [0, 700_000, -400_000, 300_000, -900_000, 100_000];
        let found = drift(&row(30, 0, &noise), &row(30, 1_000, &noise), 300).unwrap();
        assert!(
            !found.is_shown() && found.low_ns < found.ns_per_thousand && found.ns_per_thousand < found.high_ns,
            "{found:?}"
        );
    }

    #[test]
    fn stated_errors_widen_what_agrees_by_luck() {
        let mut wide = row(10, 0, &[0]);
        wide.iter_mut().for_each(|sample| sample.error_ns = 1_000_000);
        let found = drift(&wide, &wide, 100).unwrap();
        assert!(found.high_ns > 1_000_000.0 && !found.is_shown(), "{found:?}");
    }

    #[test]
    fn a_comparison_with_a_stall_in_it_is_left_out() {
        let mut compared = row(20, 50_000, &[0]);
        compared.iter_mut().for_each(|sample| sample.error_ns = 30_000);
        (compared[7].error_ns, compared[7].ahead_ns) = (52_000_000, 0);
        let found = rate(&compared).unwrap();
        assert_eq!((found.samples, found.left_out), (19, 1));
        assert!((found.ns_per_s - 50_000.0).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn a_reference_that_keeps_no_time_is_refused() {
        let good = row(20, 0, &[0]);
        let why = |change: &dyn Fn(usize, &mut Compared)| {
            let mut bad = good.clone();
            bad.iter_mut().enumerate().for_each(|(at, compared)| change(at, compared));
            match drift(&bad, &good, 80) {
                Err(Error::Reference { what, .. }) => what,
                found => panic!("{found:?}"),
            }
        };
        assert_eq!(why(&|at, compared| compared.at_ns += if at < 10 { 0 } else { 100_000_000 }), "jumped ahead");
        assert_eq!(why(&|at, compared| compared.at_ns -= if at < 10 { 0 } else { 9_000_000_000 }), "went back");
        assert_eq!(why(&|at, compared| compared.at_ns -= at as i64 * 1_000_000_000), "stopped or fell behind");
        // A clock that counts ticks loses time under stalls, and the reference does not: that is what is looked for.
        let mut lost = good.clone();
        lost.iter_mut().enumerate().for_each(|(at, compared)| compared.monotonic_ns -= at as i64 * 420_000_000);
        assert!(drift(&good, &lost, 80).is_ok());
    }

    #[test]
    fn the_lower_end_of_an_interval_is_never_above_the_upper_one() {
        for ns_per_s in [-900_000, -1, 0, 1, 900_000] {
            for noise in [[0, 0], [500_000, -500_000], [-3, 7]] {
                let found = drift(&row(9, 0, &noise), &row(9, ns_per_s, &noise), 36).unwrap();
                assert!(found.low_ns <= found.ns_per_thousand && found.ns_per_thousand <= found.high_ns, "{found:?}");
            }
        }
    }

    #[test]
    fn too_little_says_nothing() {
        let three = row(3, 0, &[0]);
        assert_eq!(rate(&three[..2]), Err(Error::TooFewComparisons { count: 2, least: 3 }));
        assert_eq!(rate(&[three[0]; 5]), Err(Error::TooFewComparisons { count: 5, least: 3 }));
        assert_eq!(rate(&[]), Err(Error::TooFewComparisons { count: 0, least: 3 }));
        assert_eq!(drift(&three, &three, 0), Err(Error::NoDisturbance));
    }
}
