//! How many interrupts of called functions are joined to their raiser, and whether it is the right one.

use super::arrivals;
use super::raisers::{Log, Raisers, Rest};
use super::truth::{Judged, judge};
use super::watch::{Said, Stacks, Watch, can_trace};
use crate::numbers::Spread;
use crate::run::Bench;
use crate::table::Row;
use std::path::PathBuf;

/// The run: this many munmaps.
const UNMAPPINGS: u64 = 2_000;

/// What the threads of the mixed run do.
const KINDS: [&str; 4] = ["munmap", "mprotect", "madvise", "membarrier"];

/// Sleep between two calls of a thread, microseconds.
const PAUSE_US: u64 = 300;

/// One run: what was named, and what happened.
struct Run {
    said: Said,
    log: Log,
}

pub fn run(bench: &Bench, program: &PathBuf) -> anyhow::Result<Vec<Row>> {
    let (rounds, calls) = if bench.quick { (1, 500) } else { (5, 1_500) };
    let traces = can_trace(bench);
    let (mut unmapped, mut mixed) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        bench.say(&format!("who: joined and named, round {} of {rounds}", round + 1));
        unmapped.push(once(bench, program, UNMAPPINGS, &["munmap"], false)?);
        mixed.push(once(bench, program, calls, &KINDS, traces)?);
    }
    Ok(vec![
        joined(&unmapped),
        wrong("one thread in munmap", &unmapped),
        wrong("four threads, each in a system call of its own", &mixed),
        wrong_arrivals(&mixed),
    ])
}

fn once(bench: &Bench, program: &PathBuf, calls: u64, kinds: &[&str], traces: bool) -> anyhow::Result<Run> {
    let mut raisers = Raisers::start(bench, program, calls, PAUSE_US, Rest::Sleep, kinds)?;
    let trace = bench.scratch.file("who.trace.json");
    let watch = Watch::start(bench, Stacks::Both, traces.then_some(trace.as_path()))?;
    let log = raisers.raise()?;
    let said = watch.stop()?;
    raisers.end()?;
    Ok(Run { said, log })
}

fn joined(runs: &[Run]) -> Row {
    let row = Row::new("who", format!("joined exactly, of the functions called in a run of {UNMAPPINGS} munmaps"));
    let (mut joined, mut called, mut shares) = (0, 0, Vec::new());
    for Run { said, log } in runs {
        let closing = said.closing;
        if closing.called_count * 2 < log.call_count() {
            return row.not_run(format!("{} calls raised {} only", log.call_count(), closing.called_count));
        }
        joined += closing.joined_count;
        called += closing.called_count;
        shares.push(closing.joined_count as f64 / closing.called_count as f64);
    }
    row.ours(joined.to_string())
        .against(format!("{called} called"))
        .ratio(Spread::of(&shares))
        .at_least(0.995, ">= 0.995")
}

fn wrong(what: &str, runs: &[Run]) -> Row {
    let row = Row::new("who", format!("named wrongly, {what}"));
    judged_row(row, runs, runs.iter().map(|run| judge(&run.log, &run.said.raisers)).collect())
}

fn wrong_arrivals(runs: &[Run]) -> Row {
    let row = Row::new("who", "raised outside of the raiser's calls, raise by raise in the trace file");
    let traced = runs.iter().map(|run| Some(arrivals::judge(&run.log, run.said.trace.as_deref()?)));
    match traced.collect::<Option<anyhow::Result<Vec<Judged>>>>() {
        None => row.not_run("this surefoot stall who writes no trace file"),
        Some(Err(why)) => row.not_run(format!("{why:#}")),
        Some(Ok(judged)) => judged_row(row, runs, judged),
    }
}

fn judged_row(row: Row, runs: &[Run], judged: Vec<Judged>) -> Row {
    let named: u64 = judged.iter().map(|judged| judged.named).sum();
    let made: u64 = runs.iter().map(|run| run.log.call_count()).sum();
    if named * 2 < made {
        let dropped: u64 = runs.iter().map(|run| run.said.closing.records_dropped).sum();
        return row.not_run(format!("of {made} calls {named} were named only, {dropped} records were dropped"));
    }
    for example in judged.iter().flat_map(|judged| &judged.examples).take(5) {
        eprintln!("who: named wrongly: {example}");
    }
    let wrong: Vec<f64> = judged.iter().map(|judged| judged.wrong as f64).collect();
    row.ours(format!("{} wrong of {named} named", wrong.iter().sum::<f64>()))
        .against(format!("the threads' own log: {made} calls"))
        .none_over(0.0, &wrong, "0")
}
