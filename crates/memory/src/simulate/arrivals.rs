//! When errors arrive, and at which counter.

use super::heavy_tail::MEAN_OVER_MEDIAN_RANGE;
use super::{HeavyTail, Path, Stream};
use crate::Error;

/// Errors that come at one moment to one counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Since the beginning of the run, nanoseconds.
    pub at_ns: u64,
    /// The counter, from 0.
    pub bank: u32,
    /// How many, 1 or more.
    pub count: u64,
}

/// How errors are spread over time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pattern {
    /// A Poisson process.
    Steady {
        /// Its rate.
        per_s: f64,
    },
    /// A Poisson process that is switched on and off for exponential times, off at first with the share of time that it is
    /// off.
    Bursty {
        /// The rate while it is on.
        per_s: f64,
        /// The mean time on, seconds.
        on_s: f64,
        /// The mean time off, seconds.
        off_s: f64,
    },
    /// A Poisson process whose rate differs from host to host, with a [`HeavyTail`].
    HeavyTailed {
        /// The mean of the rates.
        mean_per_s: f64,
        /// How many times the median it is.
        mean_over_median: f64,
    },
}

/// Errors per host beyond these would take hours.
pub const ARRIVALS_MAX: f64 = 2e10;
const NS_PER_S: f64 = 1e9;

impl Pattern {
    /// Errors per second over a long time, and over many hosts where they differ.
    pub fn mean_per_s(&self) -> f64 {
        match *self {
            Pattern::Steady { per_s } => per_s,
            Pattern::Bursty { per_s, on_s, off_s } => per_s * on_s / (on_s + off_s),
            Pattern::HeavyTailed { mean_per_s, .. } => mean_per_s,
        }
    }

    /// The mean rate of the host that has most.
    fn highest_per_s(&self) -> f64 {
        match *self {
            Pattern::HeavyTailed { mean_per_s, mean_over_median } => {
                HeavyTail::new(mean_per_s, mean_over_median).highest()
            }
            _ => self.mean_per_s(),
        }
    }

    /// The same with another rate.
    pub fn scaled(&self, factor: f64) -> Pattern {
        match *self {
            Pattern::Steady { per_s } => Pattern::Steady { per_s: per_s * factor },
            Pattern::Bursty { per_s, on_s, off_s } => Pattern::Bursty { per_s: per_s * factor, on_s, off_s },
            Pattern::HeavyTailed { mean_per_s, mean_over_median } => {
                Pattern::HeavyTailed { mean_per_s: mean_per_s * factor, mean_over_median }
            }
        }
    }

    /// Refuses what cannot be, and what would take hours.
    ///
    /// # Errors
    /// [`Error::Option`] for `--errors`.
    pub fn check(&self, duration_ns: u64) -> Result<(), Error> {
        let no = |why: String| Err(Error::Option { option: "--errors", why });
        let (per_s, times) = match *self {
            Pattern::Steady { per_s } => (per_s, [1.0, 1.0]),
            Pattern::Bursty { per_s, on_s, off_s } => (per_s, [on_s, off_s]),
            Pattern::HeavyTailed { mean_per_s, .. } => (mean_per_s, [1.0, 1.0]),
        };
        if !(per_s.is_finite() && per_s >= 0.0) {
            return no(format!("a rate of {per_s} per second; name a number from 0 up"));
        }
        if times.iter().any(|time| !(1e-6..=1e9).contains(time)) {
            return no("the times on and off are 1 us to 30 years".into());
        }
        if let Pattern::HeavyTailed { mean_over_median, .. } = *self
            && !MEAN_OVER_MEDIAN_RANGE.contains(&mean_over_median)
        {
            let (low, high) = (MEAN_OVER_MEDIAN_RANGE.start(), MEAN_OVER_MEDIAN_RANGE.end());
            return no(format!("a mean of {mean_over_median} medians; name {low} to {high} of them"));
        }
        let expected = self.highest_per_s() * duration_ns as f64 / NS_PER_S;
        if expected > ARRIVALS_MAX {
            return no(format!(
                "about {expected:.1e} errors in this time, and more than {ARRIVALS_MAX:.0e} take hours; name a lower rate, or a \
                 shorter --duration"
            ));
        }
        Ok(())
    }
}

/// The errors of one host, one by one in the order of time.
#[derive(Debug, Clone)]
pub struct Arrivals {
    stream: Stream,
    /// Means, nanoseconds; without errors the time to the next one is infinite.
    gap_ns: f64,
    on_off_ns: Option<[f64; 2]>,
    end_ns: f64,
    banks: u32,
    /// What the first counter has, and all together, where one of the others has 1.
    hot: f64,
    weights: f64,
    now_ns: f64,
    is_on: bool,
    switch_ns: f64,
}

impl Arrivals {
    /// The errors of host `number` with this seed.
    pub fn new(pattern: &Pattern, path: &Path, seed: u64, number: u64) -> Arrivals {
        Arrivals::with_stream(pattern, path, Stream::numbered(seed, number))
    }

    pub(super) fn with_stream(pattern: &Pattern, path: &Path, mut stream: Stream) -> Arrivals {
        let (per_s, on_off_ns) = match *pattern {
            Pattern::Steady { per_s } => (per_s, None),
            Pattern::Bursty { per_s, on_s, off_s } => (per_s, Some([on_s * NS_PER_S, off_s * NS_PER_S])),
            Pattern::HeavyTailed { mean_per_s, mean_over_median } => {
                (HeavyTail::new(mean_per_s, mean_over_median).quantile(stream.open_unit()), None)
            }
        };
        let (is_on, switch_ns) = match on_off_ns {
            None => (true, f64::INFINITY),
            Some([on_ns, off_ns]) => {
                let is_on = stream.open_unit() * (on_ns + off_ns) < on_ns;
                (is_on, stream.exponential(if is_on { on_ns } else { off_ns }))
            }
        };
        Arrivals {
            stream,
            gap_ns: NS_PER_S / per_s,
            on_off_ns,
            end_ns: path.duration_ns as f64,
            banks: path.banks,
            hot: f64::from(path.hot),
            weights: f64::from(path.hot) + f64::from(path.banks - 1),
            now_ns: 0.0,
            is_on,
            switch_ns,
        }
    }

    fn bank(&mut self) -> u32 {
        let at = self.stream.open_unit() * self.weights - self.hot;
        if at < 0.0 { 0 } else { (1 + at as u32).min(self.banks - 1) }
    }

    /// Goes to the next moment of switching.
    fn switch(&mut self) {
        let Some([on_ns, off_ns]) = self.on_off_ns else { return };
        self.now_ns = self.switch_ns;
        self.is_on = !self.is_on;
        self.switch_ns += self.stream.exponential(if self.is_on { on_ns } else { off_ns });
    }
}

impl Iterator for Arrivals {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        if self.gap_ns.is_infinite() {
            return None;
        }
        // An exponential time forgets: what is left of it when the process is switched off is drawn anew.
        while self.now_ns < self.end_ns {
            let at_ns = if self.is_on { self.now_ns + self.stream.exponential(self.gap_ns) } else { f64::INFINITY };
            if at_ns >= self.switch_ns {
                self.switch();
                continue;
            }
            self.now_ns = at_ns;
            if at_ns >= self.end_ns {
                return None;
            }
            let bank = if self.banks == 1 { 0 } else { self.bank() };
            return Some(Arrival { at_ns: at_ns as u64, bank, count: 1 });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path() -> Path {
        Path { duration_ns: 100_000 * 1_000_000_000, banks: 4, ..Path::example() }
    }

    fn count(pattern: Pattern, seed: u64) -> f64 {
        let mut before_ns = 0;
        let arrivals = Arrivals::new(&pattern, &path(), seed, 0);
        arrivals
            .inspect(|arrival| {
                assert!(arrival.at_ns >= before_ns && arrival.at_ns < path().duration_ns && arrival.bank < 4);
                before_ns = arrival.at_ns;
            })
            .count() as f64
    }

    #[test]
    fn steady_errors_come_at_their_rate() {
        let (rate, time_s) = (3.0, 1e5);
        let counted = count(Pattern::Steady { per_s: rate }, 1);
        assert!((counted - rate * time_s).abs() < 4.0 * (rate * time_s).sqrt(), "{counted}");
        assert_eq!(count(Pattern::Steady { per_s: 0.0 }, 1), 0.0);
    }

    #[test]
    fn bursts_come_at_the_rate_of_their_share_and_are_burstier_than_steady_ones() {
        let pattern = Pattern::Bursty { per_s: 10.0, on_s: 20.0, off_s: 80.0 };
        let counts: Vec<f64> = (0..40).map(|seed| count(pattern, seed)).collect();
        let mean = counts.iter().sum::<f64>() / 40.0;
        let variance = counts.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / 39.0;
        // The variance of the time on over a time t is 2 p q t / (1/on + 1/off), and each second of it brings 10 errors.
        let expected: f64 = 100.0 * 2.0 * 0.2 * 0.8 * 1e5 / (1.0 / 20.0 + 1.0 / 80.0) + 2e5;
        assert!((mean - 2e5).abs() < 4.0 * (expected / 40.0).sqrt(), "{mean}");
        assert!((0.4..2.0).contains(&(variance / expected)), "{variance} {expected}");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let bad = [
            Pattern::Steady { per_s: f64::NAN },
            Pattern::Steady { per_s: -1.0 },
            Pattern::Steady { per_s: 1e9 },
            Pattern::Bursty { per_s: 1.0, on_s: 0.0, off_s: 1.0 },
        ];
        for pattern in bad {
            assert!(
                pattern.check(path().duration_ns).unwrap_err().to_string().starts_with("--errors: "),
                "{pattern:?}"
            );
        }
    }
}
