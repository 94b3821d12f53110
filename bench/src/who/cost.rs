//! What being watched costs the raiser: the length of its system calls, measured by itself, beside `perf record -g`.
//!
//! In each round nobody, `stall who` without and with stacks, and perf have their turn in changing order; under each the
//! same calls are made. Starting and ending lie outside of what is measured.

use super::raisers::{Raisers, Rest};
use super::watch::{Stacks, Watch};
use crate::child::{Running, pause};
use crate::numbers::{Spread, duration, median, ratio_of_medians};
use crate::peers;
use crate::run::Bench;
use crate::table::Row;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The calls: one that flushes what it unmaps, and one that does nothing but interrupt.
const KINDS: [&str; 2] = ["munmap", "membarrier"];

/// Calls of each kind in a turn.
const CALLS: u64 = 2_000;

/// The raiser spins that long between two calls, microseconds.
const PAUSE_US: u64 = 100;

/// What raises an interrupt of a called function passes these; perf takes no other, so it does less than `who`.
const EVENTS: &str = "csd:csd_queue_cpu,ipi:ipi_send_cpu,ipi:ipi_send_cpumask";

/// What perf needs to look at all processes before it records.
const PERF_SETTLING: Duration = Duration::from_millis(1_500);

/// A sample with its stack has at least these many bytes.
const SAMPLE_BYTES: u64 = 200;

/// What may be added without stacks: name, nanoseconds, and the same in words.
pub const NO_STACKS: (&str, f64, &str) = ("without stacks", 1_000.0, "<= 1 us");

/// What may be added with both stacks.
pub const BOTH_STACKS: (&str, f64, &str) = ("with both stacks", 8_000.0, "<= 8 us");

/// Who watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watcher {
    Nobody,
    NoStacks,
    BothStacks,
    Perf,
}

impl Watcher {
    const ALL: [Watcher; 4] = [Watcher::Nobody, Watcher::NoStacks, Watcher::BothStacks, Watcher::Perf];

    /// Ours, each with its name and limit.
    const OURS: [(Watcher, (&str, f64, &str)); 2] =
        [(Watcher::NoStacks, NO_STACKS), (Watcher::BothStacks, BOTH_STACKS)];
}

/// Median length of a call of each kind, nanoseconds.
type Turn = [f64; 2];

/// The turns of one round, in the order of [`Watcher::ALL`].
type Round = [Result<Turn, String>; 4];

pub fn run(bench: &Bench, program: &PathBuf) -> anyhow::Result<Vec<Row>> {
    let count = if bench.quick { 2 } else { 16 };
    let mut rounds = Vec::new();
    for number in 0..count {
        bench.say(&format!("who: cost of the raiser, round {} of {count}", number + 1));
        let mut round: Round = std::array::from_fn(|_| Err(String::new()));
        for turn in 0..4 {
            let place = (number + turn) % 4;
            round[place] = watched(bench, program, Watcher::ALL[place]).map_err(|why| format!("{why:#}"));
            if let Err(why) = &round[place] {
                bench.say(&format!("who: left out: {why}"));
            }
            pause(Duration::ZERO)?;
        }
        rounds.push(round);
    }
    Ok(rows(&rounds))
}

fn watched(bench: &Bench, program: &PathBuf, watcher: Watcher) -> anyhow::Result<Turn> {
    match watcher {
        Watcher::Nobody => measure(bench, program),
        Watcher::NoStacks => under_who(bench, program, Stacks::None),
        Watcher::BothStacks => under_who(bench, program, Stacks::Both),
        Watcher::Perf => under_perf(bench, program),
    }
}

fn measure(bench: &Bench, program: &PathBuf) -> anyhow::Result<Turn> {
    let mut turn = [0.0; 2];
    for (kind, median_ns) in KINDS.iter().zip(&mut turn) {
        let mut raisers = Raisers::start(bench, program, CALLS, PAUSE_US, Rest::Spin, &[kind])?;
        let log = raisers.raise()?;
        raisers.end()?;
        *median_ns = log.median_ns().ok_or_else(|| anyhow::anyhow!("nothing was raised"))?;
    }
    Ok(turn)
}

fn under_who(bench: &Bench, program: &PathBuf, stacks: Stacks) -> anyhow::Result<Turn> {
    let watch = Watch::start(bench, stacks, None)?;
    let turn = measure(bench, program)?;
    let closing = watch.stop()?.closing;
    let calls = CALLS * KINDS.len() as u64;
    let (joined, without) = (closing.joined_count, closing.records_without_stack);
    anyhow::ensure!(joined * 10 >= calls * 8, "who joined {joined} of {calls} calls only");
    anyhow::ensure!(stacks == Stacks::None || without == 0, "{without} records are without a stack");
    Ok(turn)
}

fn under_perf(bench: &Bench, program: &PathBuf) -> anyhow::Result<Turn> {
    peers::require("perf").map_err(anyhow::Error::msg)?;
    let data = bench.scratch.file("perf.data");
    let _ = std::fs::remove_file(&data);
    let mut command = Command::new("perf");
    // All processes, as who does, because it is not known who raises.
    command.args(["record", "--all-cpus", "-g", "--event", EVENTS, "--no-buildid", "--output"]).arg(&data);
    let perf = bench.on(bench.other, || Running::start(&mut command, &bench.scratch.file("perf.out")))?;
    pause(PERF_SETTLING)?;
    let turn = measure(bench, program)?;
    perf.interrupt()?;
    let bytes = std::fs::metadata(&data)?.len();
    anyhow::ensure!(bytes >= CALLS * KINDS.len() as u64 * SAMPLE_BYTES, "perf wrote {bytes} bytes only");
    Ok(turn)
}

fn rows(rounds: &[Round]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (number, kind) in KINDS.iter().enumerate() {
        for (watcher, allowed) in Watcher::OURS {
            rows.push(added_row(rounds, (number, kind), watcher, allowed));
        }
        for (watcher, (name, ..)) in Watcher::OURS {
            rows.push(beside_perf(rounds, (number, kind), watcher, name));
        }
    }
    rows
}

fn place(watcher: Watcher) -> usize {
    watcher as usize
}

/// What a watcher adds to a call in one round, nanoseconds.
fn added(round: &Round, number: usize, watcher: Watcher) -> Option<f64> {
    let median_ns = |watcher| Some(round[place(watcher)].as_ref().ok()?[number]);
    Some(median_ns(watcher)? - median_ns(Watcher::Nobody)?)
}

fn added_row(
    rounds: &[Round],
    (number, kind): (usize, &str),
    watcher: Watcher,
    (name, limit_ns, words): (&str, f64, &str),
) -> Row {
    let row = Row::new("who", format!("added to a {kind} that raises, {name}, through what is allowed"));
    let added: Vec<f64> = rounds.iter().filter_map(|round| added(round, number, watcher)).collect();
    let Some(middle) = median(&added) else { return row.not_run(why_not(rounds, watcher)) };
    let alone = rounds.iter().filter_map(|round| Some(round[place(Watcher::Nobody)].as_ref().ok()?[number]));
    let alone = median(&alone.collect::<Vec<_>>()).map_or(String::new(), duration);
    let shares: Vec<f64> = added.iter().map(|ns| ns / limit_ns).collect();
    row.ours(duration(middle)).against(format!("alone: {alone}")).ratio(Spread::of(&shares)).at_most(1.0, words)
}

fn beside_perf(rounds: &[Round], (number, kind): (usize, &str), watcher: Watcher, name: &str) -> Row {
    let row = Row::new("who", format!("added to a {kind} that raises, {name}, against perf record -g"));
    let pair = |round| Some((added(round, number, watcher)?, added(round, number, Watcher::Perf)?));
    let pairs: Vec<(f64, f64)> = rounds.iter().filter_map(pair).collect();
    let middle = |side: fn(&(f64, f64)) -> f64| median(&pairs.iter().map(side).collect::<Vec<_>>());
    let (Some(ours), Some(theirs)) = (middle(|pair| pair.0), middle(|pair| pair.1)) else {
        let why = if rounds.iter().any(|round| round[place(Watcher::Perf)].is_ok()) { watcher } else { Watcher::Perf };
        return row.not_run(why_not(rounds, why));
    };
    let row = row.ours(duration(ours)).against(format!("perf record -g: {}", duration(theirs)));
    match ratio_of_medians(&pairs) {
        // Nothing makes a call faster: a difference below zero is noise, and its ratio says nothing.
        Some(ratio) if ours > 0.0 => row.ratio(Some(ratio)).at_most(1.0 / 3.0, "<= 1/3"),
        Some(_) => row.not_run("what who adds is lost in the noise of this machine"),
        None => row.not_run("what perf adds is lost in the noise of this machine"),
    }
}

fn why_not(rounds: &[Round], watcher: Watcher) -> String {
    let failed = |watcher| rounds.iter().find_map(|round| round[place(watcher)].as_ref().err().cloned());
    failed(watcher).or_else(|| failed(Watcher::Nobody)).unwrap_or_else(|| "nothing was measured".to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::table::Outcome::{Met, Missed, NotRun};

    fn outcome(rounds: &[Round], name: &str) -> (Option<f64>, crate::table::Outcome) {
        let row = rows(rounds).into_iter().find(|row| row.measure.contains(name)).unwrap();
        (row.ratio.map(|ratio| ratio.median), row.outcome)
    }

    #[test]
    fn what_is_added_is_the_difference_within_a_round() {
        let turn = |munmap: f64| Ok([munmap, 10_000.0]);
        let rounds: Vec<Round> = vec![
            [turn(20_000.0), turn(20_500.0), turn(24_000.0), turn(32_000.0)],
            [turn(30_000.0), turn(30_500.0), turn(34_000.0), turn(36_000.0)],
        ];
        assert_eq!(outcome(&rounds, "munmap that raises, without stacks, through"), (Some(0.5), Met));
        assert_eq!(outcome(&rounds, "munmap that raises, with both stacks, through"), (Some(0.5), Met));
        assert_eq!(outcome(&rounds, "munmap that raises, with both stacks, against"), (Some(4.0 / 9.0), Missed));
        let lost = "what perf adds is lost in the noise of this machine".to_owned();
        assert_eq!(outcome(&rounds, "membarrier that raises, with both stacks, against"), (None, NotRun(lost)));
        let faster: Vec<Round> = vec![[turn(20_000.0), turn(19_000.0), turn(21_000.0), turn(24_000.0)]];
        let lost = "what who adds is lost in the noise of this machine".to_owned();
        assert_eq!(outcome(&faster, "munmap that raises, without stacks, against"), (None, NotRun(lost)));
    }

    #[test]
    fn who_is_measured_without_perf() {
        let turn = || Ok([1.0, 1.0]);
        let rounds: Vec<Round> = vec![[turn(), turn(), turn(), Err("perf is not installed".into())]];
        assert_eq!(outcome(&rounds, "munmap that raises, with both stacks, through").1, Met);
        let missing = NotRun("perf is not installed".to_owned());
        assert_eq!(outcome(&rounds, "munmap that raises, with both stacks, against").1, missing);
    }
}
