//! `cost`: what being watched costs a computing loop, a pipe, an munmap storm, and each interrupt.
//!
//! In each round every watcher has its turn, and under each all workloads run; which watcher begins changes from round
//! to round. Attaching and detaching lie outside of what is measured.

use crate::child::output;
use crate::in_kernel;
use crate::numbers::{Spread, duration, median, ratio_of_medians};
use crate::peers;
use crate::run::Bench;
use crate::storm::{ALLOCATOR, Storm};
use crate::table::Row;
use crate::watchers::Watcher;
use anyhow::Context;
use std::process::Command;

/// What a turn measured.
#[derive(Debug, Clone)]
struct Turn {
    work_ns: f64,
    pipe_us: Result<f64, String>,
    storm: Result<Storm, String>,
}

/// The turns of one round, in the order of [`Watcher::ALL`].
type Round = [Result<Turn, String>; 4];

struct Sizes {
    rounds: usize,
    work_millions: u64,
    pipe_operations: u64,
    unmappings: u64,
}

pub fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    if bench.cpu == bench.other {
        return Ok(vec![Row::new("cost", "what watching costs").not_run("this machine has one core")]);
    }
    let sizes = if bench.quick {
        Sizes { rounds: 3, work_millions: 400, pipe_operations: 50_000, unmappings: 10_000 }
    } else {
        Sizes { rounds: 12, work_millions: 1_200, pipe_operations: 200_000, unmappings: 30_000 }
    };
    let mut rounds = Vec::new();
    for number in 0..sizes.rounds {
        let mut round: Round = std::array::from_fn(|_| Err(String::new()));
        for turn in 0..4 {
            let place = (number + turn) % 4;
            bench.say(&format!("cost: round {} of {}, {}", number + 1, sizes.rounds, Watcher::ALL[place].name()));
            round[place] = match Watcher::ALL[place].missing() {
                Some(why) => Err(why),
                None => watched(bench, Watcher::ALL[place], &sizes).map_err(|why| format!("{why:#}")),
            };
            crate::child::pause(std::time::Duration::ZERO)?;
        }
        rounds.push(round);
    }
    let mut rows = rows(&rounds);
    rows.push(in_kernel::run(bench, sizes.rounds / 3, sizes.unmappings));
    Ok(rows)
}

fn watched(bench: &Bench, watcher: Watcher, sizes: &Sizes) -> anyhow::Result<Turn> {
    let watching = watcher.start(bench)?;
    let turn = measure(bench, sizes);
    watching.stop()?;
    turn
}

fn measure(bench: &Bench, sizes: &Sizes) -> anyhow::Result<Turn> {
    let work = said(&mut bench.part("work", &[("cpu", bench.cpu.0.into()), ("millions", sizes.work_millions)]))?;
    let pipe_us = match peers::require("perf") {
        Ok(()) => bench.on(bench.cpu, || peers::sched_pipe(sizes.pipe_operations)).map_err(|why| format!("{why:#}")),
        Err(why) => Err(why),
    };
    let storm = storm(bench, sizes.unmappings).map_err(|why| format!("{why:#}"));
    Ok(Turn { work_ns: work.trim().parse().context("the work said no time")?, pipe_us, storm })
}

/// Runs the storm, and fails when it raised too few interrupts to speak of.
pub fn storm(bench: &Bench, unmappings: u64) -> anyhow::Result<Storm> {
    let arguments =
        [("victim", bench.cpu.0.into()), ("raiser", bench.other.0.into()), ("count", unmappings), ("pause-ns", 40_000)];
    let storm: Storm = serde_json::from_str(&said(bench.part("storm", &arguments).env(ALLOCATOR.0, ALLOCATOR.1))?)?;
    anyhow::ensure!(
        storm.shootdowns * 10 >= storm.count * 8,
        "{} unmappings raised {} shootdowns on core {} only",
        storm.count,
        storm.shootdowns,
        bench.cpu
    );
    Ok(storm)
}

fn said(command: &mut Command) -> anyhow::Result<String> {
    Ok(String::from_utf8_lossy(&output(command)?.stdout).into_owned())
}

fn rows(rounds: &[Round]) -> Vec<Row> {
    let mut rows = Vec::new();
    for place in 1..4 {
        let work = |turn: &Turn| Some(turn.work_ns);
        let row = slower(rounds, place, "CPU-bound loop", work);
        rows.push(if place == 1 { row.at_most(1.01, "<= 1.01") } else { row });
    }
    for place in 1..4 {
        rows.push(slower(rounds, place, "perf bench sched pipe, per operation", |turn| {
            Some(turn.pipe_us.clone().ok()? * 1e3)
        }));
    }
    for place in 1..4 {
        rows.push(slower(rounds, place, "munmap storm, per unmapping", |turn| {
            Some(turn.storm.as_ref().ok()?.raiser_ns)
        }));
    }
    for (name, part) in [
        ("the victim's time lost per shootdown", (|storm| storm.lost_ns) as fn(&Storm) -> f64),
        ("the victim's median gap", |storm| storm.gap_median_ns),
    ] {
        rows.push(per_interrupt(rounds, 2, name, part).at_most_unless_not_run(1.0 / 3.0, "<= 1/3"));
        rows.push(per_interrupt(rounds, 3, name, part).at_most_unless_not_run(1.0, "<= 1"));
    }
    rows
}

/// A row of how much slower a workload is under a watcher than under nothing, round by round.
fn slower(rounds: &[Round], place: usize, what: &str, part: impl Fn(&Turn) -> Option<f64>) -> Row {
    let watcher = Watcher::ALL[place].name();
    let row = Row::new("cost", format!("{what}, under {watcher}"));
    let pairs: Vec<(f64, f64)> = rounds
        .iter()
        .filter_map(|round| Some((part(round[place].as_ref().ok()?)?, part(round[0].as_ref().ok()?)?)))
        .collect();
    let row = row.against_median("alone", pairs.iter().map(|pair| pair.1)).ours_median(pairs.iter().map(|pair| pair.0));
    let ratios: Vec<f64> = pairs.iter().map(|(watched, alone)| watched / alone).collect();
    let row = row.ratio(Spread::of(&ratios));
    if ratios.is_empty() { row.not_run(why_not(rounds, place)) } else { row }
}

/// What a shootdown costs the victim more than under nothing: ours through a peer's, round by round.
fn per_interrupt(rounds: &[Round], peer: usize, what: &str, part: fn(&Storm) -> f64) -> Row {
    let name = Watcher::ALL[peer].name();
    let row = Row::new("cost", format!("added per interrupt, by {what}, against {name}"));
    let storm = |round: &Round, place: usize| Some(part(round[place].as_ref().ok()?.storm.as_ref().ok()?));
    let added = |round: &Round, place: usize| Some(storm(round, place)? - storm(round, 0)?);
    let pairs: Vec<(f64, f64)> =
        rounds.iter().filter_map(|round| Some((added(round, 1)?, added(round, peer)?))).collect();
    if pairs.is_empty() {
        return row.not_run(why_not(rounds, peer));
    }
    let row = row.ours_median(pairs.iter().map(|pair| pair.0)).against_median(name, pairs.iter().map(|pair| pair.1));
    match ratio_of_medians(&pairs) {
        Some(ratio) => row.ratio(Some(ratio)),
        None => row.not_run(format!("what {name} adds is lost in the noise of this machine")),
    }
}

fn why_not(rounds: &[Round], place: usize) -> String {
    let failed = |place: usize| {
        rounds.iter().find_map(|round| match &round[place] {
            Err(why) => Some(why.clone()),
            Ok(turn) => turn.storm.clone().err().or_else(|| turn.pipe_us.clone().err()),
        })
    };
    failed(place).or_else(|| failed(1)).or_else(|| failed(0)).unwrap_or_else(|| "nothing was measured".to_owned())
}

impl Row {
    fn ours_median(self, numbers: impl Iterator<Item = f64>) -> Row {
        let numbers: Vec<f64> = numbers.collect();
        self.ours(median(&numbers).map_or(String::new(), duration))
    }

    fn against_median(self, name: &str, numbers: impl Iterator<Item = f64>) -> Row {
        let numbers: Vec<f64> = numbers.collect();
        self.against(median(&numbers).map_or(String::new(), |ns| format!("{name}: {}", duration(ns))))
    }

    fn at_most_unless_not_run(self, limit: f64, words: &str) -> Row {
        if matches!(self.outcome, crate::table::Outcome::NotRun(_)) { self } else { self.at_most(limit, words) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(work_ns: f64, lost_ns: f64) -> Result<Turn, String> {
        let storm = Storm { count: 1, shootdowns: 1, raiser_ns: 1.0, gap_median_ns: lost_ns, lost_ns, other_gaps: 0 };
        Ok(Turn { work_ns, pipe_us: Err("no perf".into()), storm: Ok(storm) })
    }

    #[test]
    fn each_round_is_compared_with_itself() {
        let rounds: Vec<Round> = vec![
            [turn(100.0, 10.0), turn(101.0, 11.0), turn(200.0, 14.0), Err("bpftrace is not installed".into())],
            [turn(200.0, 20.0), turn(202.0, 21.0), turn(100.0, 24.0), Err("bpftrace is not installed".into())],
        ];
        let rows = rows(&rounds);
        let find = |name: &str| {
            rows.iter()
                .find(|row| row.measure.contains(name))
                .map(|row| (row.ratio.map(|ratio| ratio.median), row.outcome.clone()))
        };
        use crate::table::Outcome::{Met, NotRun};
        assert_eq!(find("CPU-bound loop, under surefoot"), Some((Some(1.01), Met)));
        assert_eq!(find("per shootdown, against perf"), Some((Some(0.25), Met)));
        assert_eq!(find("per shootdown, against bpftrace"), Some((None, NotRun("bpftrace is not installed".into()))));
        assert_eq!(find("pipe, per operation, under surefoot"), Some((None, NotRun("no perf".into()))));
    }
}
