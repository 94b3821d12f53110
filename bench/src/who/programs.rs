//! What the kernel itself says `stall who` takes of a raiser: time inside its eBPF programs for each raise.
//!
//! Unlike the length of a call this does not depend on what else the machine does.

use super::cost::{BOTH_STACKS, NO_STACKS};
use super::raisers::{Raisers, Rest};
use super::truth::judge;
use super::watch::{Stacks, Watch};
use crate::in_kernel::{Runs, Statistics, runs_by_tracepoint};
use crate::numbers::{Spread, duration, median};
use crate::run::Bench;
use crate::table::Row;
use std::collections::HashMap;
use std::path::PathBuf;

/// Tracepoints that a raiser of an interrupt passes.
const TRACEPOINTS: [&str; 3] = ["csd_queue_cpu", "ipi_send_cpu", "ipi_send_cpumask"];

/// Calls of a round.
const CALLS: u64 = 3_000;

/// The raiser spins that long between two calls, microseconds.
const PAUSE_US: u64 = 100;

pub fn run(bench: &Bench, program: &PathBuf) -> Vec<Row> {
    let rounds = if bench.quick { 1 } else { 4 };
    let mut measured: [Vec<anyhow::Result<f64>>; 2] = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        bench.say(&format!("who: time inside its programs, round {} of {rounds}", round + 1));
        for (stacks, measured) in [Stacks::None, Stacks::Both].into_iter().zip(&mut measured) {
            measured.push(per_raise_ns(bench, program, stacks));
        }
    }
    let [without, with] = measured;
    vec![row(without, NO_STACKS), row(with, BOTH_STACKS)]
}

fn row(measured: Vec<anyhow::Result<f64>>, (name, limit_ns, words): (&str, f64, &str)) -> Row {
    let row = Row::new("who", format!("time inside its programs per raise, {name}, through what is allowed"));
    match measured.into_iter().collect::<anyhow::Result<Vec<f64>>>() {
        Err(why) => row.not_run(format!("{why:#}")),
        Ok(numbers) => row
            .ours(median(&numbers).map_or(String::new(), duration))
            .against("the kernel's own measure")
            .ratio(Spread::of(&numbers.iter().map(|ns| ns / limit_ns).collect::<Vec<_>>()))
            .at_most(1.0, words),
    }
}

fn per_raise_ns(bench: &Bench, program: &PathBuf, stacks: Stacks) -> anyhow::Result<f64> {
    let _statistics = Statistics::switch_on(&bench.root)?;
    let mut raisers = Raisers::start(bench, program, CALLS, PAUSE_US, Rest::Spin, &["munmap"])?;
    let watch = Watch::start(bench, stacks, None)?;
    let before = runs_by_tracepoint(&bench.root, watch.pid())?;
    let log = raisers.raise()?;
    let after = runs_by_tracepoint(&bench.root, watch.pid())?;
    let said = watch.stop()?;
    raisers.end()?;
    let named = judge(&log, &said.raisers).named;
    anyhow::ensure!(named * 2 >= CALLS, "of {CALLS} calls {named} were named only");
    let total_ns = raising(&after).total_ns.saturating_sub(raising(&before).total_ns);
    let count = raising(&after).count.saturating_sub(raising(&before).count);
    anyhow::ensure!(count >= named, "its programs ran {count} times for {named} raises only");
    Ok(total_ns as f64 / named as f64)
}

/// Sums over the programs that a raiser runs.
fn raising(runs: &HashMap<String, Runs>) -> Runs {
    let mut sum = Runs::default();
    for runs in TRACEPOINTS.iter().filter_map(|name| runs.get(*name)) {
        sum.total_ns += runs.total_ns;
        sum.count += runs.count;
    }
    sum
}
