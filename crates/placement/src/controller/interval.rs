//! How often a checkpoint pays.
//!
//! Young, "A first order approximation to the optimum checkpoint interval" (1974) and Daly (2006): with visible cost C
//! and failure rate l, the interval sqrt(2 C / l) wastes least. With two tiers that guard against different failures the
//! waste C1/t1 + C2/t2 + l1 t1/2 + l2 t2/2 is a sum of convex functions of one variable each, so each interval is
//! found alone, and a bound on one (endurance, staleness) is met best by clamping it. C2 is what a durable copy costs beyond
//! the copy in memory that it is written from. Because it is written from one, t1 is no longer than t2: where the
//! intervals alone would have it so, both are one, and the sum is least at sqrt(2 (C1 + C2) / (l1 + l2)).
//!
//! C2 is at least [`DRAIN_PRICE_SHARE`] of the time that the copy takes: a program on its own cores may lose nothing while
//! one is written, and the drive's time and life are not free.
//!
//! [`Tiers::intervals`] is what both the controller and [`crate::plan`] go by.

/// The least that a durable copy counts as costing the program, as a share of the time that it takes to be written.
///
/// Without it, a copy that is measured to cost nothing would follow the last one at once, and nothing would limit that where
/// the drive's wear is not known. With it, by the default rates of failures, 1 GB that takes 4 s is written every 492 s, which
/// is 0.18 TB a day: nine years of a drive rated for 600 TB. The work at risk grows by half of that interval per hard failure.
pub const DRAIN_PRICE_SHARE: f64 = 0.05;

/// The interval in seconds that wastes least; infinite without failures, 0 without cost.
pub fn optimal_s(cost_s: f64, failures_per_s: f64) -> f64 {
    if failures_per_s <= 0.0 { f64::INFINITY } else { (2.0 * cost_s.max(0.0) / failures_per_s).sqrt() }
}

/// The share of the time that checkpoints of this cost and interval, and the work that failures take back, waste.
pub fn waste(cost_s: f64, interval_s: f64, failures_per_s: f64) -> f64 {
    let checkpoints = if interval_s.is_finite() && interval_s > 0.0 { cost_s / interval_s } else { 0.0 };
    let lost_work = if failures_per_s > 0.0 { failures_per_s * interval_s / 2.0 } else { 0.0 };
    checkpoints + lost_work
}

/// What checkpoints in two tiers cost, and what they guard against.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tiers {
    /// Seconds that a copy in memory costs the program.
    pub memory_cost_s: f64,
    /// Seconds that a durable copy costs it beyond that.
    pub durable_extra_s: f64,
    /// The least seconds from one durable copy to the next: one is written before the next begins.
    pub durable_least_s: f64,
    /// Seconds that one takes to be written, which have a price: [`DRAIN_PRICE_SHARE`].
    pub drain_s: f64,
    /// Failures per second that memory survives.
    pub soft_failures_per_s: f64,
    /// Failures per second that only the durable tier survives.
    pub hard_failures_per_s: f64,
}

/// How often each tier gets one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Intervals {
    /// Seconds between checkpoints in memory.
    pub memory_s: f64,
    /// Seconds between those of them that become durable.
    pub durable_s: f64,
}

impl Tiers {
    /// What a durable copy counts as costing beyond the one in memory: what was measured, and no less than its price.
    pub fn priced_extra_s(&self) -> f64 {
        self.durable_extra_s.max(DRAIN_PRICE_SHARE * self.drain_s)
    }

    /// The intervals that waste least.
    pub fn intervals(&self) -> Intervals {
        let durable_extra_s = self.priced_extra_s();
        let memory_s = optimal_s(self.memory_cost_s, self.soft_failures_per_s);
        let durable_s = optimal_s(durable_extra_s, self.hard_failures_per_s);
        if durable_s >= memory_s {
            return Intervals { memory_s, durable_s: durable_s.max(self.durable_least_s) };
        }
        let cost_s = self.memory_cost_s + durable_extra_s;
        let both_s = optimal_s(cost_s, self.soft_failures_per_s + self.hard_failures_per_s);
        match both_s < self.durable_least_s {
            true => Intervals { memory_s: memory_s.min(self.durable_least_s), durable_s: self.durable_least_s },
            false => Intervals { memory_s: both_s, durable_s: both_s },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_other_interval_wastes_less() {
        for (cost_s, failures_per_s) in [(23.7, 1.0 / 3_600.0), (256.0, 1.0 / 10_800.0), (3.0, 1.0 / 86_400.0)] {
            let best_s = optimal_s(cost_s, failures_per_s);
            let least = waste(cost_s, best_s, failures_per_s);
            for factor in [0.5, 0.9, 0.99, 1.01, 1.1, 2.0] {
                assert!(waste(cost_s, best_s * factor, failures_per_s) > least);
            }
        }
        // The worked case of 64 GB per node: 256 s to the SSD, a failure every 3 hours.
        assert!((optimal_s(256.0, 1.0 / 10_800.0) - 2_352.0).abs() < 1.0);
        assert_eq!(optimal_s(1.0, 0.0), f64::INFINITY);
        assert_eq!(optimal_s(0.0, 1.0), 0.0);
    }

    #[test]
    fn no_other_pair_of_intervals_wastes_less_where_each_durable_copy_is_one_in_memory_first() {
        let hour = 1.0 / 3_600.0;
        for (memory_cost_s, durable_extra_s, durable_least_s, soft, hard) in [
            (0.2, 4.0, 4.0, hour, hour / 24.0),
            (0.2, 0.0, 4.0, hour, hour / 24.0),
            (20.0, 1.0, 256.0, hour, hour / 3.0),
            (1.0, 0.1, 5.0, hour / 100.0, hour),
            (1.0, 0.1, 500.0, hour / 100.0, hour),
            (1.0, 0.1, 5.0, 0.0, hour),
        ] {
            let tiers = Tiers {
                memory_cost_s,
                durable_extra_s,
                durable_least_s,
                drain_s: durable_least_s,
                soft_failures_per_s: soft,
                hard_failures_per_s: hard,
            };
            let durable_extra_s = tiers.priced_extra_s();
            let Intervals { memory_s, durable_s } = tiers.intervals();
            assert!(memory_s <= durable_s && durable_s >= durable_least_s, "{tiers:?} {memory_s} {durable_s}");
            let wasted =
                |memory_s, durable_s| waste(memory_cost_s, memory_s, soft) + waste(durable_extra_s, durable_s, hard);
            let least = wasted(memory_s, durable_s);
            for (one, other) in (0..900).map(|n| (n % 30, n / 30)) {
                let [one_s, other_s] = [one, other].map(|step| 1.0f64 * 1.4f64.powi(step));
                if one_s <= other_s && other_s >= durable_least_s {
                    assert!(wasted(one_s, other_s) >= least * (1.0 - 1e-12), "{tiers:?}: {one_s} {other_s}");
                }
            }
        }
    }
}
