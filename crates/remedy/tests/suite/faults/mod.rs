//! Seeded runs of the engine in made-up time, with faults: controllers are killed at any point, the store is cut off or loses what it
//! answered, hosts vanish, alerts come twice, late and out of order, several controllers race, clocks jump, people ask for things.
//! Half of the policies are put together at random.
//!
//! After each event it is checked what really happened to the hosts: no step was done twice, none counts as done that never happened,
//! no limit was exceeded, no host is out of service or in debug settings without an open case, and nothing counts as put back that is
//! not. When the faults are over, every case must come to its end.

mod every_call;
pub(super) mod flaky;
mod fleet;
mod policies;
pub(super) mod random;
mod sums;
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
    let mut sums = sums::Sums::default();
    let mut violations = Vec::new();
    for seed in seeds.clone() {
        let mut fleet = Fleet::new(seed);
        if let Err(why) = fleet.run() {
            violations.push(format!("seed {seed}: {why}"));
        }
        sums.add(&fleet.truth.sums);
    }
    println!("{} runs, {} violations\n\n{}", seeds.end - seeds.start, violations.len(), sums.table());
    assert!(violations.is_empty(), "{} violations\n{}", violations.len(), violations.join("\n"));
    // Runs in which nothing happened would prove nothing.
    if seeds.end - seeds.start >= RUNS {
        assert!(sums.missing().is_empty(), "in no run: {:?}\n{}", sums.missing(), sums.table());
    }
}
