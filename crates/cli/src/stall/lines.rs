//! The JSON lines of reports: stable names, units in the names. `docs/guide/json.md` describes them, and
//! `docs/schema/lines.json` is made from the types.

use serde::Serialize;
use std::io::{self, Write};
use surefoot_console::output::line;
use surefoot_console::units::rfc3339;
use surefoot_model::{
    Capability, ClockChange, Comparison, Completeness, CoreLedger, CpuId, EntryExit, FaultySum, Fix, Gap,
    HostDescription, Interrupt, LoopGap, LoopSummary, Lost, Notice, Report, SelfCost, Untimed, Waiting, WhoCore,
    WhoReport,
};

/// A line of a report.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line<'a> {
    /// The host, and the range of the report.
    Host {
        #[serde(flatten)]
        host: &'a HostDescription,
        /// `CLOCK_MONOTONIC`.
        start_ns: u64,
        /// `CLOCK_MONOTONIC`.
        end_ns: u64,
        start_realtime_ns: u64,
        start_realtime: String,
        end_realtime_ns: u64,
        end_realtime: String,
    },
    /// The ledger of a core over the whole range.
    Core(Core<'a>),
    /// Ledgers of a core that cannot be true. They are in no sum.
    Faulty(FaultySum),
    /// One of the longest gaps.
    Gap(&'a Gap),
    Completeness(&'a Completeness),
    Untimed(&'a Untimed),
    Notice(&'a Notice),
    /// The wall clock was set, or the machine slept.
    ClockChange(&'a ClockChange),
    Cost(&'a SelfCost),
    Capability(&'a Capability),
    /// The watch that runs, and what it runs with.
    RunningWatch(&'a RunningWatch),
    /// What to fix first: one line per row, the one that brings most first.
    Fix(RankedFix<'a>),
    Interrupt(&'a Interrupt),
    Loop(&'a LoopSummary),
    LoopGap(&'a LoopGap),
    /// What a watch for raisers joined, dropped and cost; its last line.
    Who {
        duration_ns: u64,
        joined_count: u64,
        called_count: u64,
        records: u64,
        records_without_stack: u64,
        records_dropped: u64,
        records_unmatched: u64,
        marks_lost: u64,
        missing: &'a [String],
        notices: &'a [Notice],
        /// How the watched cores spent the time.
        cores: &'a [WhoCore],
        /// What entry and exit of an interrupt cost here, estimated.
        entry_exit: &'a [EntryExit],
        cost: &'a SelfCost,
    },
    /// What a change brought, against a recording made before it.
    Compare(&'a Comparison),
}

/// A watch that runs, and what it runs with: all its threads together.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RunningWatch {
    /// The process; 0 where it is in a namespace that this command does not see.
    pub pid: u32,
    /// Its effective user.
    pub uid: Option<u32>,
    /// Its effective capabilities.
    pub capabilities: Vec<String>,
    /// Whether programs that it starts gain nothing by their files.
    pub no_new_privileges: bool,
    /// How its system calls are limited: `none`, `strict` or by a `filter`.
    pub seccomp: &'static str,
    /// The systemd unit that it belongs to.
    pub unit: Option<String>,
}

/// A row of what to fix first.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RankedFix<'a> {
    /// 1 brings most.
    rank: usize,
    #[serde(flatten)]
    fix: &'a Fix,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Core<'a> {
    cpu: CpuId,
    wall_ns: u64,
    idle_ns: u64,
    user_ns: u64,
    kernel_ns: u64,
    lost: Vec<LostRow<'a>>,
    /// Time of causes that a filter leaves out, so that the parts still add up.
    lost_to_others_ns: u64,
    unexplained_ns: u64,
    /// How long tasks waited for the core, where the source knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<Waiting>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LostRow<'a> {
    kind: surefoot_model::CauseKind,
    name: &'a str,
    /// `null` where the source knows the time alone, as of steal.
    count: Option<u64>,
    total_ns: u64,
    /// `null` where the source does not know single occurrences.
    max_ns: Option<u64>,
    while_idle_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_ns: Option<u64>,
}

/// Writes a report; of its causes those that `wanted` picks.
pub fn report(out: &mut impl Write, report: &Report, wanted: impl Fn(&Lost) -> bool) -> io::Result<()> {
    if let Some(host) = &report.host {
        line(out, &host_line(host, report))?;
    }
    for core in report.cores() {
        core_line(out, &core, &wanted)?;
    }
    for faulty in report.faulty() {
        line(out, &Line::Faulty(faulty))?;
    }
    for gap in &report.gaps {
        line(out, &Line::Gap(gap))?;
    }
    for row in &report.completeness {
        line(out, &Line::Completeness(row))?;
    }
    for row in &report.untimed {
        line(out, &Line::Untimed(row))?;
    }
    for notice in &report.notices {
        line(out, &Line::Notice(notice))?;
    }
    for change in report.clock.changes() {
        line(out, &Line::ClockChange(change))?;
    }
    line(out, &Line::Cost(&report.cost))
}

fn host_line<'a>(host: &'a HostDescription, report: &Report) -> Line<'a> {
    let (start_ns, end_ns) = (report.start_ns, report.end_ns);
    let [start_realtime_ns, end_realtime_ns] = [start_ns, end_ns].map(|at_ns| report.clock.realtime_ns(at_ns));
    Line::Host {
        host,
        start_ns,
        end_ns,
        start_realtime_ns,
        start_realtime: rfc3339(start_realtime_ns),
        end_realtime_ns,
        end_realtime: rfc3339(end_realtime_ns),
    }
}

fn core_line(out: &mut impl Write, core: &CoreLedger, wanted: impl Fn(&Lost) -> bool) -> io::Result<()> {
    let shown: Vec<LostRow<'_>> = core.lost.iter().filter(|lost| wanted(lost)).map(row).collect();
    let shown_ns = shown.iter().fold(0u64, |sum, row| sum.saturating_add(row.total_ns));
    line(
        out,
        &Line::Core(Core {
            cpu: core.cpu,
            wall_ns: core.wall_ns,
            idle_ns: core.idle_ns,
            user_ns: core.user_ns,
            kernel_ns: core.kernel_ns,
            lost: shown,
            lost_to_others_ns: core.causes_ns().saturating_sub(shown_ns),
            unexplained_ns: core.unexplained_ns,
            waiting: core.waiting,
        }),
    )
}

fn row(lost: &Lost) -> LostRow<'_> {
    let quantile = |share| (lost.histogram.count() > 0).then(|| lost.histogram.quantile_ns(share).min(lost.max_ns));
    LostRow {
        kind: lost.cause.kind,
        name: &lost.cause.name,
        count: lost.known_count(),
        total_ns: lost.total_ns,
        max_ns: lost.known_max_ns(),
        while_idle_ns: lost.while_idle_ns,
        p50_ns: quantile(0.5),
        p99_ns: quantile(0.99),
    }
}

/// Writes the capabilities.
pub fn capabilities(out: &mut impl Write, capabilities: &[Capability]) -> io::Result<()> {
    capabilities.iter().try_for_each(|capability| line(out, &Line::Capability(capability)))
}

/// Writes what a running watch runs with.
pub fn running_watch(out: &mut impl Write, watch: &RunningWatch) -> io::Result<()> {
    line(out, &Line::RunningWatch(watch))
}

/// Writes who raised what: what to fix first, a line per kind of interrupt and core, one per polling thread that notes
/// its gaps and one per gap, then a closing one.
pub fn who(out: &mut impl Write, found: &WhoReport) -> io::Result<()> {
    for (place, fix) in found.fix_first.iter().enumerate() {
        line(out, &Line::Fix(RankedFix { rank: place + 1, fix }))?;
    }
    for interrupt in &found.interrupts {
        line(out, &Line::Interrupt(interrupt))?;
    }
    for summary in &found.loops {
        line(out, &Line::Loop(summary))?;
    }
    for gap in &found.loop_gaps {
        line(out, &Line::LoopGap(gap))?;
    }
    line(
        out,
        &Line::Who {
            duration_ns: found.duration_ns(),
            joined_count: found.joined_count,
            called_count: found.called_count,
            records: found.records,
            records_without_stack: found.records_without_stack,
            records_dropped: found.records_dropped,
            records_unmatched: found.records_unmatched,
            marks_lost: found.marks_lost,
            missing: &found.missing,
            notices: &found.notices,
            cores: &found.cores,
            entry_exit: &found.entry_exit,
            cost: &found.cost,
        },
    )
}

/// Writes what a change brought.
pub fn comparison(out: &mut impl Write, comparison: &Comparison) -> io::Result<()> {
    line(out, &Line::Compare(comparison))
}

/// Writes one gap.
pub fn gap(out: &mut impl Write, gap: &Gap) -> io::Result<()> {
    line(out, &Line::Gap(gap))
}
