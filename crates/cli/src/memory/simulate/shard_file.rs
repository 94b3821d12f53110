//! What `--shard i/n` writes and `--merge` reads: two JSON lines, everything that the run depends on, and the sums of the
//! shard's hosts.

use super::errors::{Errors, Kind};
use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::PathBuf;
use std::str::Lines;
use surefoot_console::output;
use surefoot_memory::simulate::{Costs, Fleet, FleetOutcome, Mechanism, Outcome, Path, StormRule, Work};
use surefoot_store::shards::{ShardChoice, ShardFiles};

const FILES: ShardFiles = ShardFiles {
    kind: "memory_simulation_shard",
    version: 1,
    bytes_max: 1 << 16,
    command: "surefoot memory simulate",
    same: "all options and the number of shards",
};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Header {
    seed: u64,
    hosts: u64,
    faulty_share: f64,
    errors: String,
    mechanism: String,
    storms: String,
    counter_bits: u32,
    threshold: u32,
    interval_ns: u64,
    duration_ns: u64,
    banks: u32,
    hot: u32,
    cores: u32,
    costs_ns: [u64; Work::ALL.len()],
}

#[derive(Debug, Serialize, Deserialize)]
struct Sums {
    arrived_count: u64,
    reported_count: u64,
    missed_count: u64,
    below_threshold_count: u64,
    report_count: u64,
    saturated_count: u64,
    poll_count: u64,
    storm_count: u64,
    stall_total_ns: u64,
    stall_longest_ns: u64,
    hosts_with_errors: u64,
    hosts_with_misses: u64,
}

/// A run: what it depends on.
pub struct Run {
    pub errors: String,
    pub path: Path,
    pub fleet: Fleet,
}

/// Writes a shard.
pub fn write(out: &mut impl Write, run: &Run, shard: ShardChoice, found: &FleetOutcome) -> anyhow::Result<()> {
    let (path, fleet, outcome) = (&run.path, &run.fleet, &found.outcome);
    let header = Header {
        seed: fleet.seed,
        hosts: fleet.hosts,
        faulty_share: fleet.faulty_share,
        errors: run.errors.clone(),
        mechanism: path.mechanism.name().into(),
        storms: path.storms.name().into(),
        counter_bits: path.counter_bits,
        threshold: path.threshold,
        interval_ns: path.interval_ns,
        duration_ns: path.duration_ns,
        banks: path.banks,
        hot: path.hot,
        cores: path.cores,
        costs_ns: Work::ALL.map(|work| path.costs.of(work)),
    };
    output::line(out, &FILES.header(shard, header))?;
    let sums = Sums {
        arrived_count: outcome.arrived_count,
        reported_count: outcome.reported_count,
        missed_count: outcome.missed_count,
        below_threshold_count: outcome.below_threshold_count,
        report_count: outcome.report_count,
        saturated_count: outcome.saturated_count,
        poll_count: outcome.poll_count,
        storm_count: outcome.storm_count,
        stall_total_ns: outcome.stall_total_ns,
        stall_longest_ns: outcome.stall_longest_ns,
        hosts_with_errors: found.hosts_with_errors,
        hosts_with_misses: found.hosts_with_misses,
    };
    Ok(output::line(out, &sums)?)
}

/// Puts all the shards of a run together.
pub fn merge(files: &[PathBuf]) -> anyhow::Result<(Run, FleetOutcome)> {
    let found =
        |header: &Header, shard, lines: Lines<'_>| outcome(header, shard, lines).map_err(|why| format!("{why:#}"));
    let merged = FILES.merge(files, found, |sum: &mut FleetOutcome, part| sum.add(&part));
    let (header, sum) = merged.map_err(anyhow::Error::msg)?;
    Ok((run_of(&header)?, sum))
}

/// What a shard's hosts came to.
fn outcome(header: &Header, shard: ShardChoice, mut lines: Lines<'_>) -> anyhow::Result<FleetOutcome> {
    let run = run_of(header)?;
    let line = lines.next().context("it ends before line 2, which has the sums")?;
    let sums: Sums = serde_json::from_str(line).context("line 2 is not the sums of a shard")?;
    ensure!(lines.next().is_none(), "more lines than two");
    let hosts = shard.range(run.fleet.hosts);
    let is_possible = sums.reported_count.checked_add(sums.missed_count) == Some(sums.arrived_count)
        && sums.below_threshold_count <= sums.missed_count
        && sums.hosts_with_misses <= sums.hosts_with_errors
        && sums.hosts_with_errors <= hosts.end - hosts.start;
    ensure!(is_possible, "line 2: the sums do not add up; the shard is damaged");
    let outcome = Outcome {
        arrived_count: sums.arrived_count,
        reported_count: sums.reported_count,
        missed_count: sums.missed_count,
        below_threshold_count: sums.below_threshold_count,
        report_count: sums.report_count,
        saturated_count: sums.saturated_count,
        poll_count: sums.poll_count,
        storm_count: sums.storm_count,
        stall_total_ns: sums.stall_total_ns,
        stall_longest_ns: sums.stall_longest_ns,
    };
    let (hosts_with_errors, hosts_with_misses) = (sums.hosts_with_errors, sums.hosts_with_misses);
    Ok(FleetOutcome { outcome, hosts_with_errors, hosts_with_misses })
}

fn run_of(header: &Header) -> anyhow::Result<Run> {
    let errors: Errors = header.errors.parse().map_err(anyhow::Error::msg)?;
    let Kind::Pattern(pattern) = errors.kind else { bail!("a trace is not sharded") };
    let mechanism = Mechanism::ALL.into_iter().find(|one| one.name() == header.mechanism);
    let storms = StormRule::ALL.into_iter().find(|one| one.name() == header.storms);
    let [poll_wake_ns, poll_core_ns, poll_record_ns, interrupt_ns, line_ns, smi_ns] = header.costs_ns;
    let path = Path {
        mechanism: mechanism.with_context(|| format!("'{}' is no mechanism", header.mechanism))?,
        counter_bits: header.counter_bits,
        threshold: header.threshold,
        interval_ns: header.interval_ns,
        duration_ns: header.duration_ns,
        banks: header.banks,
        hot: header.hot,
        cores: header.cores,
        costs: Costs { poll_wake_ns, poll_core_ns, poll_record_ns, interrupt_ns, line_ns, smi_ns },
        storms: storms.with_context(|| format!("'{}' is no rule of storms", header.storms))?,
    };
    let fleet = Fleet { hosts: header.hosts, faulty_share: header.faulty_share, pattern, seed: header.seed };
    fleet.check(&path)?;
    Ok(Run { errors: header.errors.clone(), path, fleet })
}
