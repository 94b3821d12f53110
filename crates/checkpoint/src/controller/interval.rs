//! How often a checkpoint pays.
//!
//! Young, "A first order approximation to the optimum checkpoint interval" (1974) and Daly (2006): with visible cost C
//! and failure rate l, the interval sqrt(2 C / l) wastes least. With two tiers that guard against different failures the
//! waste C1/t1 + C2/t2 + l1 t1/2 + l2 t2/2 is a sum of convex functions of one variable each, so each interval is
//! found alone, and a bound on one (endurance, staleness) is met best by clamping it.

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
}
