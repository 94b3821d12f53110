//! What the kernel itself says its eBPF programs take: mean time per event during a storm, ours beside bpftrace's.
//!
//! Unlike the victim's gaps this does not depend on what else the machine does. The kernel measures only while
//! `kernel.bpf_stats_enabled` is set; it is set here for the length of the storms and put back after them.

use crate::cost;
use crate::numbers::{Spread, duration, median};
use crate::run::Bench;
use crate::table::Row;
use crate::watchers::Watcher;
use anyhow::Context;
use std::collections::HashMap;
use std::path::PathBuf;
use surefoot_hostfs::Root;

/// Time and runs of all programs of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Runs {
    /// Nanoseconds.
    pub total_ns: u64,
    /// How often.
    pub count: u64,
}

pub fn run(bench: &Bench, rounds: usize, unmappings: u64) -> Row {
    let row = Row::new("cost", "time inside eBPF programs per event, against bpftrace");
    if let Some(why) = Watcher::Bpftrace.missing() {
        return row.not_run(why);
    }
    match measure(bench, rounds, unmappings) {
        Err(why) => row.not_run(format!("{why:#}")),
        Ok(pairs) => {
            let middle = |side: fn(&(f64, f64)) -> f64| {
                median(&pairs.iter().map(side).collect::<Vec<_>>()).map_or(String::new(), duration)
            };
            let ratios: Vec<f64> = pairs.iter().map(|(ours, theirs)| ours / theirs).collect();
            row.ours(middle(|pair| pair.0))
                .against(format!("bpftrace: {}", middle(|pair| pair.1)))
                .ratio(Spread::of(&ratios))
                .at_most(1.0, "<= 1")
        }
    }
}

fn measure(bench: &Bench, rounds: usize, unmappings: u64) -> anyhow::Result<Vec<(f64, f64)>> {
    let _statistics = Statistics::switch_on(&bench.root)?;
    let mut pairs = Vec::new();
    for round in 0..rounds {
        bench.say(&format!("cost: time inside eBPF programs, round {} of {rounds}", round + 1));
        pairs.push((
            per_event_ns(bench, Watcher::Surefoot, unmappings)?,
            per_event_ns(bench, Watcher::Bpftrace, unmappings)?,
        ));
    }
    Ok(pairs)
}

fn per_event_ns(bench: &Bench, watcher: Watcher, unmappings: u64) -> anyhow::Result<f64> {
    let watching = watcher.start(bench)?;
    let pid = watching.pid().context("nothing runs")?;
    let before = runs_of(&bench.root, pid)?;
    cost::storm(bench, unmappings)?;
    let after = runs_of(&bench.root, pid)?;
    watching.stop()?;
    let count = after.count.saturating_sub(before.count);
    anyhow::ensure!(count >= unmappings, "{} ran its programs {count} times only", watcher.name());
    Ok(after.total_ns.saturating_sub(before.total_ns) as f64 / count as f64)
}

/// Sums over the programs that a process holds open.
fn runs_of(root: &Root, pid: u32) -> anyhow::Result<Runs> {
    let folder = root.proc(format!("{pid}/fdinfo"));
    let mut seen = Vec::new();
    let mut sum = Runs::default();
    for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        // A file that was closed meanwhile is none of the programs.
        let Some((number, runs)) = root.read(entry?.path()).ok().as_deref().and_then(parse) else { continue };
        if !seen.contains(&number) {
            seen.push(number);
            sum.total_ns += runs.total_ns;
            sum.count += runs.count;
        }
    }
    Ok(sum)
}

/// Sums by the tracepoint on which the programs of a process run.
pub fn runs_by_tracepoint(root: &Root, pid: u32) -> anyhow::Result<HashMap<String, Runs>> {
    let folder = root.proc(format!("{pid}/fdinfo"));
    let (mut programs, mut links) = (HashMap::new(), Vec::new());
    for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let Ok(text) = root.read(entry?.path()) else { continue };
        programs.extend(parse(&text));
        links.extend(parse_link(&text));
    }
    let mut sums: HashMap<String, Runs> = HashMap::new();
    for (number, tracepoint) in links {
        let runs = programs.get(&number).with_context(|| format!("the program on {tracepoint} is not held open"))?;
        let sum = sums.entry(tracepoint).or_default();
        sum.total_ns += runs.total_ns;
        sum.count += runs.count;
    }
    Ok(sums)
}

/// The number of the program and the tracepoint on which it runs; `None` for files of other kinds.
fn parse_link(text: &str) -> Option<(u64, String)> {
    let value = |name: &str| text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim()));
    Some((value("prog_id:")?.parse().ok()?, value("tp_name:")?.to_owned()))
}

/// The number of the program and its runs; `None` for files of other kinds.
fn parse(text: &str) -> Option<(u64, Runs)> {
    let number = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Some((number("prog_id:")?, Runs { total_ns: number("run_time_ns:")?, count: number("run_cnt:")? }))
}

/// The kernel's switch; put back when dropped.
pub struct Statistics {
    path: PathBuf,
    was: String,
}

impl Statistics {
    /// Switches it on.
    pub fn switch_on(root: &Root) -> anyhow::Result<Statistics> {
        let path = root.proc("sys/kernel/bpf_stats_enabled");
        let was = root.read(&path)?;
        std::fs::write(&path, "1").with_context(|| path.display().to_string())?;
        Ok(Statistics { path, was })
    }
}

impl Drop for Statistics {
    fn drop(&mut self) {
        if std::fs::write(&self.path, self.was.trim()).is_err() {
            eprintln!("could not write '{}' back into {}", self.was.trim(), self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_programs_have_runs() {
        let program = "pos:\t0\nprog_type:\t26\nprog_id:\t12\nrun_time_ns:\t900\nrun_cnt:\t3\nrecursion_misses:\t0\n";
        assert_eq!(parse(program), Some((12, Runs { total_ns: 900, count: 3 })));
        assert_eq!(parse("pos:\t0\nlink_type:\ttracing\nlink_id:\t9\nprog_id:\t12\n"), None);
        let link = "pos:\t0\nlink_type:\traw_tracepoint\nlink_id:\t9\nprog_id:\t12\ntp_name:\tcsd_queue_cpu\n";
        assert_eq!((parse(link), parse_link(link)), (None, Some((12, "csd_queue_cpu".to_owned()))));
        assert_eq!(parse_link(program), None);
    }
}
