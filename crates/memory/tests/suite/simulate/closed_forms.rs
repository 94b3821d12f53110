//! Steady errors are a Poisson process, of which much is known without a simulation.

use super::{MS, S};
use surefoot_memory::simulate::{Arrivals, Costs, Mechanism, Outcome, Path, Pattern, run};

/// What a share may be off by: four standard errors.
fn error(variance: f64, count: f64) -> f64 {
    4.0 * (variance / count).sqrt()
}

fn steady(path: &Path, per_s: f64, seed: u64) -> Outcome {
    run(path, Arrivals::new(&Pattern::Steady { per_s }, path, seed, 0))
}

/// P(X = k) of a Poisson distribution, for k = 0, 1, ...
fn poisson(mean: f64) -> impl Iterator<Item = f64> {
    (1u32..).scan((-mean).exp(), move |next, k| {
        let this = *next;
        *next *= mean / f64::from(k);
        Some(this)
    })
}

#[test]
fn polls_find_a_record_with_the_probability_of_any_error() {
    for (per_s, interval_s, banks) in [(0.01, 30, 1), (0.1, 10, 4), (2.0, 1, 1)] {
        let polls = 100_000u64;
        let path = Path { interval_ns: interval_s * S, duration_ns: polls * interval_s * S, banks, ..Path::example() };
        let found = steady(&path, per_s, 1);
        let reads = polls as f64 * f64::from(banks);
        let expected = 1.0 - (-per_s / f64::from(banks) * interval_s as f64).exp();
        let share = found.report_count as f64 / reads;
        assert!((share - expected).abs() < error(expected * (1.0 - expected), reads), "{share} {expected}");
        // What a poll takes on average: A + S N + L R.
        let costs = path.costs;
        let sum = polls * costs.empty_poll_ns(path.cores) + found.report_count * (costs.poll_record_ns + costs.line_ns);
        assert_eq!(found.stall_total_ns, sum);
    }
}

#[test]
fn a_poll_loses_what_its_counter_cannot_hold() {
    for (per_s, interval_s, bits) in [(1.0, 10, 3), (10.0, 30, 8), (0.5, 2, 0)] {
        let polls = 100_000u64;
        let path = Path {
            interval_ns: interval_s * S,
            duration_ns: polls * interval_s * S,
            counter_bits: bits,
            ..Path::example()
        };
        let (mean, capacity) = (per_s * interval_s as f64, path.capacity() as f64);
        // E[(X - C)+] and its variance.
        let [first, second] = poisson(mean).take(2000).enumerate().fold([0.0, 0.0], |[first, second], (k, p)| {
            let lost = (k as f64 - capacity).max(0.0);
            [first + p * lost, second + p * lost * lost]
        });
        let lost = steady(&path, per_s, 2).missed_count as f64 / polls as f64;
        assert!((lost - first).abs() < error(second - first * first, polls as f64), "{lost} {first}");
    }
}

#[test]
fn interrupts_take_their_share_of_the_core() {
    // One server with batch service: a handler that finds errors that came meanwhile takes them all. With threshold 1 the
    // time between two handlers' beginnings is their length, and if nothing came in it the wait for the next error:
    // its mean is s + exp(-r s) / r.
    let (per_s, hour) = (200.0, 3600 * S);
    for mechanism in [Mechanism::Cmci, Mechanism::Smi] {
        let costs = Costs { interrupt_ns: 3 * MS, line_ns: MS, smi_ns: 4 * MS, ..Costs::LITERATURE };
        let path = Path { mechanism, costs, duration_ns: hour, ..Path::example() };
        let found = steady(&path, per_s, 3);
        let service_s = 0.004;
        let cycle_s = service_s + (-per_s * service_s).exp() / per_s;
        let expected = service_s / cycle_s;
        let utilisation = found.stall_total_ns as f64 / hour as f64;
        let cycles = 3600.0 / cycle_s;
        // The time between beginnings varies by at most that of an exponential time.
        let spread = 4.0 * (1.0 / per_s) / cycles.sqrt() / cycle_s * expected;
        assert!((utilisation - expected).abs() < spread, "{utilisation} {expected}");
        assert_eq!(found.missed_count, 0);
    }
}

#[test]
fn every_nth_error_raises_an_smi() {
    let path = Path {
        mechanism: Mechanism::Smi,
        threshold: 10,
        duration_ns: 36_000 * S,
        costs: Costs { smi_ns: 1, ..Costs::LITERATURE },
        ..Path::example()
    };
    let found = steady(&path, 5.0, 4);
    assert_eq!(found.report_count, found.arrived_count / 10);
    assert_eq!(found.missed_count, found.arrived_count % 10);
    assert_eq!(found.below_threshold_count, found.missed_count);
}
