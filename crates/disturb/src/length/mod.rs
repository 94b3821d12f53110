//! How long the stalls of a machine are, from counting them alone: the deviation method of the SMI slides.
//!
//! A driver lets the next stall come a chosen time after the one before has ended. Then a stall and that time together are one
//! period, and a period is a stretch of time divided by the stalls that were counted in it. Whatever the driver itself takes
//! from asking to stalling, and the steps that its timer can only go in, would be taken for a part of the stall; so each
//! time is also tried with a driver that does all but stall, and the difference is the stall.
//!
//! A timer that goes in steps makes each period a whole number of them. The difference at one time is then right only to a step,
//! but its mean over times that are spread evenly over a step is exact: [`schedule`] spreads them so.

mod driver;
mod sweep;

pub use driver::{Driver, Timer};
pub use sweep::Sweep;

use crate::Error;
use crate::student::student;

/// One count over a stretch of time, from one stall's count to a later one's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Stalls, without the one that the stretch began with.
    pub count: u64,
    /// How long the stretch was.
    pub elapsed_ns: u64,
    /// How late its begin and its end may have been seen, together.
    pub edge_ns: u64,
}

impl Counted {
    fn period_ns(self) -> f64 {
        self.elapsed_ns as f64 / self.count as f64
    }
}

/// Both counts at one time between stalls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The driver was told to wait so long from the end of a stall to the next.
    pub interval_ns: u64,
    /// With stalls.
    pub stalled: Counted,
    /// With a driver that does all but stall.
    pub idle: Counted,
}

impl Step {
    /// What this step alone says of the length.
    #[must_use]
    pub fn length_ns(&self) -> f64 {
        self.stalled.period_ns() - self.idle.period_ns()
    }

    /// What the slides' formula says, which takes the driver's own time for a part of the stall.
    #[must_use]
    pub fn deviation_ns(&self) -> f64 {
        self.stalled.period_ns() - self.interval_ns as f64
    }
}

/// What a sweep says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Length {
    /// How long a stall is.
    pub length_ns: f64,
    /// It is no shorter than this in 19 of 20 cases.
    pub low_ns: f64,
    /// And no longer than this.
    pub high_ns: f64,
    /// What the driver itself takes between two stalls, beyond the time that it was told to wait.
    pub driver_ns: f64,
    /// By how much the period grows for each nanosecond that the driver is told to wait longer: 1, unless it does not do as told.
    pub slope: f64,
    /// Steps behind it.
    pub steps: u64,
}

/// The fewest steps that make an interval.
pub const STEPS_LEAST: usize = 3;

/// Times between stalls, `steps` of them from `least_ns` on, spread evenly over one step of the driver's timer, and to about
/// twice `least_ns`, so that a slope can be seen.
///
/// # Errors
/// Fewer than [`STEPS_LEAST`] steps, or no time at all between stalls.
pub fn schedule(least_ns: u64, timer_step_ns: u64, steps: usize) -> Result<Vec<u64>, Error> {
    const MOST: usize = 1_000;
    if !(STEPS_LEAST..=MOST).contains(&steps) {
        return Err(Error::OutOfRange {
            what: "steps",
            value: steps as u64,
            low: STEPS_LEAST as u64,
            high: MOST as u64,
        });
    }
    const LONGEST_NS: u64 = 60_000_000_000;
    for (what, value, low) in [("interval in ns", least_ns, 1), ("timer step in ns", timer_step_ns, 0)] {
        if !(low..=LONGEST_NS).contains(&value) {
            return Err(Error::OutOfRange { what, value, low, high: LONGEST_NS });
        }
    }
    let part = |whole: u64, step: u64| (u128::from(whole) * u128::from(step) / steps as u128) as u64;
    // Each part of a timer step once, so that its mean is exact; whole steps beside it, so that a slope can be seen.
    let whole_steps = |step: u64| match timer_step_ns {
        0 => part(least_ns, step),
        _ => timer_step_ns * (step % least_ns.div_ceil(timer_step_ns).max(2)),
    };
    Ok((0..steps as u64).map(|step| least_ns + part(timer_step_ns, step) + whole_steps(step)).collect())
}

/// The length that fits a sweep.
///
/// # Errors
/// Fewer than [`STEPS_LEAST`] steps, or a step in which nothing was counted.
pub fn fit(steps: &[Step]) -> Result<Length, Error> {
    if steps.len() < STEPS_LEAST {
        return Err(Error::TooFewSteps { steps: steps.len(), least: STEPS_LEAST });
    }
    if let Some(step) = steps.iter().find(|step| step.stalled.count == 0 || step.idle.count == 0) {
        return Err(Error::NothingCounted { interval_ns: step.interval_ns });
    }
    let count = steps.len() as f64;
    let mean = |of: &dyn Fn(&Step) -> f64| steps.iter().map(of).sum::<f64>() / count;
    let length_ns = mean(&Step::length_ns);
    let variance = steps.iter().map(|step| (step.length_ns() - length_ns).powi(2)).sum::<f64>() / (count - 1.0);
    let by_chance = student(0.95, steps.len() as u64 - 1) * (variance / count).sqrt();
    // What was seen late was seen late in every step: more steps do not make it less.
    let edge = |counted: Counted| counted.edge_ns as f64 / counted.count as f64;
    let by_edges = mean(&|step| edge(step.stalled) + edge(step.idle));
    let interval = mean(&|step| step.interval_ns as f64);
    let period = mean(&|step| step.stalled.period_ns());
    let covariance = mean(&|step| (step.interval_ns as f64 - interval) * (step.stalled.period_ns() - period));
    let spread = mean(&|step| (step.interval_ns as f64 - interval).powi(2));
    // On a machine so busy that the driver comes late at random the difference may be negative, and no stall is.
    Ok(Length {
        length_ns: length_ns.max(0.0),
        low_ns: (length_ns - by_chance - by_edges).max(0.0),
        high_ns: (length_ns + by_chance + by_edges).max(0.0),
        driver_ns: mean(&|step| step.idle.period_ns() - step.interval_ns as f64),
        slope: if spread > 0.0 { covariance / spread } else { 1.0 },
        steps: steps.len() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A driver with a delay of its own whose timer goes in steps, as long as it takes for `count` periods.
    fn driven(interval_ns: u64, length_ns: u64, delay_ns: u64, step_ns: u64, count: u64) -> Counted {
        let mut now = 0;
        for _ in 0..count {
            let asked = now + length_ns + interval_ns;
            now = asked.next_multiple_of(step_ns.max(1)) + delay_ns;
        }
        Counted { count, elapsed_ns: now, edge_ns: 0 }
    }

    fn sweep(least_ns: u64, length_ns: u64, delay_ns: u64, step_ns: u64, steps: usize) -> Vec<Step> {
        let intervals = schedule(least_ns, step_ns, steps).unwrap();
        let of = |interval_ns| Step {
            interval_ns,
            stalled: driven(interval_ns, length_ns, delay_ns, step_ns, 200),
            idle: driven(interval_ns, 0, delay_ns, step_ns, 200),
        };
        intervals.into_iter().map(of).collect()
    }

    #[test]
    fn a_driver_s_own_time_is_no_part_of_the_stall() {
        let steps = sweep(20_000_000, 105_000_000, 70_000, 0, 5);
        let found = fit(&steps).unwrap();
        assert!((found.length_ns - 105_000_000.0).abs() < 1.0, "{found:?}");
        assert!((found.driver_ns - 70_000.0).abs() < 1.0 && (found.slope - 1.0).abs() < 1e-9, "{found:?}");
        // The slides' formula alone has it in.
        assert!((steps[0].deviation_ns() - 105_070_000.0).abs() < 1.0);
    }

    #[test]
    fn a_timer_that_goes_in_ticks_deceives_one_time_between_stalls_and_not_a_sweep() {
        let steps = sweep(20_000_000, 2_300_000, 0, 4_000_000, 80);
        assert!((steps[0].length_ns() - 2_300_000.0).abs() > 1_000_000.0, "{:?}", steps[0]);
        let found = fit(&steps).unwrap();
        assert!((found.length_ns - 2_300_000.0).abs() < 60_000.0, "{found:?}");
        assert!(found.low_ns <= 2_300_000.0 && found.high_ns >= 2_300_000.0, "{found:?}");
    }

    #[test]
    fn what_was_seen_late_is_in_the_interval() {
        let mut steps = sweep(20_000_000, 2_000_000, 0, 0, 5);
        steps.iter_mut().for_each(|step| step.stalled.edge_ns = 200_000);
        let found = fit(&steps).unwrap();
        // By hand: 200 us in 200 stalls.
        assert!((found.high_ns - found.length_ns - 1_000.0).abs() < 1.0, "{found:?}");
    }

    #[test]
    fn no_length_is_negative_and_its_interval_holds_it() {
        let mut steps = sweep(20_000_000, 1_000, 0, 0, 4);
        for (late_ns, holds) in [([0, 0, 20, 1], true), ([5, 5, 5, 5], false)] {
            for (step, late) in steps.iter_mut().zip(late_ns) {
                step.idle = driven(step.interval_ns, 0, late * 1_000_000, 0, 200);
            }
            let found = fit(&steps).unwrap();
            assert!(found.low_ns <= found.length_ns && found.length_ns <= found.high_ns, "{found:?}");
            assert!(found.length_ns == 0.0 && found.low_ns == 0.0 && (found.high_ns > 0.0) == holds, "{found:?}");
        }
    }

    #[test]
    fn what_says_nothing_is_refused() {
        let steps = sweep(20_000_000, 2_000_000, 0, 0, 3);
        assert_eq!(fit(&steps[..2]), Err(Error::TooFewSteps { steps: 2, least: 3 }));
        let mut none = steps.clone();
        none[1].idle.count = 0;
        assert_eq!(fit(&none), Err(Error::NothingCounted { interval_ns: none[1].interval_ns }));
        for (least_ns, timer_step_ns, steps) in [(0, 0, 5), (1_000, 0, 2), (1_000, u64::MAX, 5), (u64::MAX, 0, 5)] {
            assert!(matches!(schedule(least_ns, timer_step_ns, steps), Err(Error::OutOfRange { .. })));
        }
    }

    proptest! {
        #[test]
        fn every_length_is_found(length_ns in 0u64..200_000_000, delay_ns in 0u64..1_000_000, least_ns in 1_000_000u64..100_000_000, steps in 3usize..12) {
            let found = fit(&sweep(least_ns, length_ns, delay_ns, 0, steps)).unwrap();
            prop_assert!((found.length_ns - length_ns as f64).abs() < 1.0, "{found:?}");
            prop_assert!(found.low_ns <= length_ns as f64 + 1.0 && length_ns as f64 <= found.high_ns + 1.0, "{found:?}");
        }

        #[test]
        fn a_sweep_over_ticks_is_as_near_as_its_steps(length_ns in 0u64..200_000_000, least_ns in 1_000_000u64..50_000_000, step_ns in 100_000u64..10_000_000) {
            let found = fit(&sweep(least_ns, length_ns, 0, step_ns, 64)).unwrap();
            // The times stand in 64 places over one step.
            let reach = step_ns as f64 / 64.0;
            prop_assert!((found.length_ns - length_ns as f64).abs() <= reach + 1.0, "{found:?} of {length_ns}");
        }
    }
}
