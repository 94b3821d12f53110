//! The measurement: both counts at each time between stalls, in an order that the seed chooses.

use super::driver::{Driver, count};
use super::{Step, schedule};
use crate::Fault;
use std::time::Duration;
use surefoot_random::Random;

/// What to measure.
#[derive(Debug, Clone, Copy)]
pub struct Sweep {
    /// The least time between stalls.
    pub least_ns: u64,
    /// The driver's timer can only go in such steps; 0 where it can do any.
    pub timer_step_ns: u64,
    /// Times between stalls.
    pub steps: usize,
    /// Each count takes so long,
    pub each: Duration,
    /// and over so many stalls, at least.
    pub least_count: u64,
    /// Of the order.
    pub seed: u64,
}

/// No stall and no time between two of them is so long.
const PATIENCE: Duration = Duration::from_secs(90);

impl Sweep {
    /// Whether the numbers are possible.
    ///
    /// # Errors
    /// [`Fault::Numbers`].
    pub fn check(&self) -> Result<(), Fault> {
        schedule(self.least_ns, self.timer_step_ns, self.steps)?;
        Ok(())
    }

    /// Does it; each step is told as it is complete, and they come back in the order of their times.
    ///
    /// # Errors
    /// The numbers are impossible, or the driver fails.
    pub fn run(
        &self,
        driver: &mut dyn Driver,
        stop: &dyn Fn() -> bool,
        mut tell: impl FnMut(&Step),
    ) -> Result<Vec<Step>, Fault> {
        let mut random = Random::new(self.seed);
        let mut intervals = schedule(self.least_ns, self.timer_step_ns, self.steps)?;
        random.shuffle(&mut intervals);
        let mut steps = Vec::new();
        for interval_ns in intervals {
            let mut one =
                |stalls: bool| count(driver, interval_ns, stalls, self.each, self.least_count, PATIENCE, stop);
            let step = if random.below(2) == 0 {
                Step { interval_ns, stalled: one(true)?, idle: one(false)? }
            } else {
                let idle = one(false)?;
                Step { interval_ns, stalled: one(true)?, idle }
            };
            tell(&step);
            steps.push(step);
        }
        steps.sort_by_key(|step| step.interval_ns);
        Ok(steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::length::fit;
    use std::time::Instant;

    /// Counts by the clock: as if stalls of a length came, `delay` after they were due.
    struct ByClock {
        length: Duration,
        delay: Duration,
        began: Option<(Instant, Duration)>,
        /// Nothing is counted beyond this.
        most: u64,
    }

    impl Driver for ByClock {
        fn begin(&mut self, interval_ns: u64, stalls: bool) -> Result<(), Fault> {
            let length = if stalls { self.length } else { Duration::ZERO };
            self.began = Some((Instant::now(), Duration::from_nanos(interval_ns) + self.delay + length));
            Ok(())
        }

        fn count(&self) -> u64 {
            let (at, period) = self.began.unwrap();
            ((at.elapsed().as_nanos() / period.as_nanos()) as u64).min(self.most)
        }

        fn end(&mut self) -> Result<(), Fault> {
            self.began = None;
            Ok(())
        }
    }

    const SWEEP: Sweep = Sweep {
        least_ns: 300_000,
        timer_step_ns: 0,
        steps: 4,
        each: Duration::from_millis(20),
        least_count: 4,
        seed: 7,
    };

    #[test]
    fn a_sweep_finds_the_length_that_its_driver_has() {
        let mut driver = ByClock {
            length: Duration::from_micros(700),
            delay: Duration::from_micros(90),
            began: None,
            most: u64::MAX,
        };
        let mut told = 0;
        let steps = SWEEP.run(&mut driver, &|| false, |_| told += 1).unwrap();
        assert_eq!((steps.len(), told), (4, 4));
        assert!(steps.iter().all(|step| step.stalled.count >= 4 && step.stalled.elapsed_ns >= 19_000_000), "{steps:?}");
        let found = fit(&steps).unwrap();
        // A busy machine sees edges late, and says so.
        assert!(found.low_ns <= 700_000.0 && 700_000.0 <= found.high_ns, "{found:?} {steps:?}");
        assert!(driver.began.is_none(), "ended");
    }

    #[test]
    fn a_driver_that_stops_or_a_signal_ends_it() {
        let driver = || ByClock { length: Duration::ZERO, delay: Duration::ZERO, began: None, most: u64::MAX };
        let stopped = SWEEP.run(&mut driver(), &|| true, |_| {}).unwrap_err();
        assert!(stopped.to_string().contains("stopped by a signal"), "{stopped}");
        let mut silent = ByClock { most: 0, ..driver() };
        let error =
            count(&mut silent, 1_000, true, Duration::ZERO, 1, Duration::from_millis(5), &|| false).unwrap_err();
        assert!(error.to_string().contains("only 0 stalls"), "{error}");
        assert!(silent.began.is_none(), "ended");
    }
}
