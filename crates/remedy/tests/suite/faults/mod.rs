//! Seeded runs of the engine in made-up time, with faults: controllers are killed at any point, the store is cut off or loses what it
//! answered, hosts vanish, alerts come twice, late and out of order, several controllers race, clocks jump, people ask for things.
//!
//! After each event it is checked what really happened to the hosts: no step was done twice, no limit was exceeded, and no host is
//! out of service or in debug settings without an open case. When the faults are over, every case must come to its end.

mod flaky;
mod fleet;
mod random;
mod truth;

use fleet::Fleet;

/// How many runs the suite makes; `SUREFOOT_SOAK` says otherwise, and `SUREFOOT_FAULT_SEED` runs one seed alone.
const RUNS: u64 = 60;

#[test]
fn no_fault_doubles_a_step_exceeds_a_limit_or_leaves_a_host_changed() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seeds = match number("SUREFOOT_FAULT_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SUREFOOT_SOAK").unwrap_or(RUNS),
    };
    let mut sums = truth::Sums::default();
    let mut violations = Vec::new();
    for seed in seeds.clone() {
        let mut fleet = Fleet::new(seed);
        if let Err(why) = fleet.run() {
            violations.push(format!("seed {seed}: {why}"));
        }
        sums.add(&fleet.truth.sums);
    }
    println!("{} runs, {} violations: {sums:?}", seeds.end - seeds.start, violations.len());
    assert!(violations.is_empty(), "{}", violations.join("\n"));
    // Runs in which nothing happened would prove nothing.
    if seeds.end - seeds.start >= RUNS {
        for (name, count) in sums.counts() {
            assert!(count > 0, "no {name} in any run: {sums:?}");
        }
    }
}
