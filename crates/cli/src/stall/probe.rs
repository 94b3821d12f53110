//! `surefoot stall probe`.

use crate::args::ProbeOptions;
use crate::stall::{lines, report};
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use surefoot_console::exit::Outcome;
use surefoot_console::lost_time as text;
use surefoot_console::output;
use surefoot_console::table::Table;
use surefoot_console::units::{duration, percent};
use surefoot_hostfs::Root;
use surefoot_model::{CpuId, Gap, SelfCost};
use surefoot_stall::probe::{self, CoreSummary, ProbeConfig, ProbeSummary};
use surefoot_sys::signals;

/// Gaps that the table for people keeps: the longest.
const LONGEST_KEPT: usize = 10;

/// The closing line of `--json`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "summary")]
pub struct SummaryLine<'a> {
    duration_ns: u64,
    threshold_ns: u64,
    gap_count: u64,
    gap_total_ns: u64,
    dropped_gaps: u64,
    lost_turns: u64,
    /// Names of tasks that were overwritten before they could be read; tasks of these times may be called what /proc said later.
    lost_names: u64,
    entry_exit_ns: Option<u64>,
    cost: &'a SelfCost,
    missing: &'a [String],
    cores: Vec<CoreLine>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "ProbedCore"))]
pub struct CoreLine {
    cpu: CpuId,
    /// How long its loop looked. It may be less than the run where it was ended early.
    wall_ns: u64,
    gap_count: u64,
    gap_total_ns: u64,
    named_ns: u64,
    judged_ns: u64,
    unexplained_ns: u64,
    over_20us_total_ns: u64,
    over_20us_explained_ns: u64,
    p50_ns: u64,
    p90_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    max_ns: u64,
    loop_shortest_ns: u64,
    loop_median_ns: u64,
}

impl From<&CoreSummary> for CoreLine {
    fn from(core: &CoreSummary) -> Self {
        let [p50_ns, p90_ns, p99_ns, p999_ns, max_ns] = core.percentiles_ns;
        CoreLine {
            cpu: core.cpu,
            wall_ns: core.wall_ns,
            gap_count: core.gap_count,
            gap_total_ns: core.gap_total_ns,
            named_ns: core.named_ns,
            judged_ns: core.judged_ns,
            unexplained_ns: core.unexplained_ns,
            over_20us_total_ns: core.over_20us.0,
            over_20us_explained_ns: core.over_20us.1,
            p50_ns,
            p90_ns,
            p99_ns,
            p999_ns,
            max_ns,
            loop_shortest_ns: core.loop_shortest_ns,
            loop_median_ns: core.loop_median_ns,
        }
    }
}

fn summary_line(summary: &ProbeSummary) -> SummaryLine<'_> {
    SummaryLine {
        duration_ns: summary.duration_ns,
        threshold_ns: summary.threshold_ns,
        gap_count: summary.cores.iter().map(|core| core.gap_count).sum(),
        gap_total_ns: summary.cores.iter().map(|core| core.gap_total_ns).sum(),
        dropped_gaps: summary.dropped_gaps,
        lost_turns: summary.lost_turns,
        lost_names: summary.lost_names,
        entry_exit_ns: summary.entry_exit_ns,
        cost: &summary.cost,
        missing: &summary.missing,
        cores: summary.cores.iter().map(CoreLine::from).collect(),
    }
}

pub fn run(options: &ProbeOptions) -> anyhow::Result<Outcome> {
    let stop = signals::stop_flag()?;
    let config = ProbeConfig {
        cpus: options.cpu.0.clone(),
        duration: options.duration,
        threshold_ns: options.threshold,
        fifo_priority: options.fifo,
        source: options.source.into(),
    };
    report::check_duration(options.duration)?;
    if !options.json && io::stderr().is_terminal() {
        surefoot_console::tell!("spinning for {:?}; Ctrl-C ends it early", options.duration);
    }
    let mut out = output::patient();
    // Written with the first line, so that a refusal leaves stdout empty.
    let mut is_open = false;
    let mut broken = None;
    let mut longest: Vec<Gap> = Vec::new();
    let summary = probe::run(&Root::host(), config, stop, |gap| {
        if options.json {
            if let Err(error) = open(&mut out, &mut is_open).and_then(|()| lines::gap(&mut out, gap)) {
                // Nobody reads any more: end the loops and say so below.
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
                broken.get_or_insert(error);
            }
        } else {
            keep_longest(&mut longest, gap);
        }
    })?;
    if let Some(error) = broken {
        return Err(error.into());
    }
    if options.json {
        open(&mut out, &mut is_open)?;
        output::line(&mut out, &summary_line(&summary))?;
    } else {
        out.write_all(text(&summary, &longest).as_bytes())?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

/// Begins the stream, once.
fn open(out: &mut impl Write, is_open: &mut bool) -> io::Result<()> {
    if std::mem::replace(is_open, true) { Ok(()) } else { output::stream(out, "stall probe") }
}

fn keep_longest(longest: &mut Vec<Gap>, gap: &Gap) {
    let at = longest.partition_point(|kept| kept.duration_ns >= gap.duration_ns);
    if at < LONGEST_KEPT {
        longest.insert(at, gap.clone());
        longest.truncate(LONGEST_KEPT);
    }
}

fn text(summary: &ProbeSummary, longest: &[Gap]) -> String {
    let mut table = Table::new(
        &["core", "gaps", "lost", "traced", "judged", "unexplained", "p50", "p90", "p99", "p99.9", "max", "loop"],
        &[],
    );
    for core in &summary.cores {
        let mut row = vec![
            core.cpu.to_string(),
            core.gap_count.to_string(),
            percent(core.gap_total_ns, core.wall_ns),
            percent(core.named_ns, core.gap_total_ns),
            percent(core.judged_ns, core.gap_total_ns),
            percent(core.unexplained_ns, core.gap_total_ns),
        ];
        row.extend(core.percentiles_ns.map(duration));
        row.push(format!("{} to {}", duration(core.loop_shortest_ns), duration(core.loop_median_ns)));
        table.row(row);
    }
    let mut text =
        format!("{} of spinning, gaps over {}\n\n", duration(summary.duration_ns), duration(summary.threshold_ns));
    text += &table.text();
    if let Some(gap) = longest.first() {
        let first_ns = longest.iter().map(|gap| gap.start_ns).min().unwrap_or(gap.start_ns);
        text += "\nThe longest gaps (time since the first of them):\n";
        text += &text::gap_table(longest, first_ns);
        text += "\nThe longest one: ";
        text += &gap.evidence.join("; ");
        text += ".\n";
    }
    if let Some(ns) = summary.entry_exit_ns {
        text += &format!("Entry and exit of an interruption typically take {} here.\n", duration(ns));
    }
    if summary.dropped_gaps + summary.lost_turns + summary.lost_names > 0 {
        text += &format!(
            "Dropped: {} gaps, {} turns of the tape, {} names of tasks.\n",
            summary.dropped_gaps, summary.lost_turns, summary.lost_names
        );
    }
    text += &text::cost(&summary.cost, summary.duration_ns);
    for missing in &summary.missing {
        text += &format!("Missing: {missing}\n");
    }
    text
}
