//! `surefoot stall report`.

use crate::args::{Filter, ReportOptions, STACKS_PER_S, What};
use crate::rooms::{self, Summary};
use crate::stall::{lines, threads};
use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};
use surefoot_console::exit::Outcome;
use surefoot_console::lost_time as text;
use surefoot_console::{output, raisers};
use surefoot_hostfs::Root;
use surefoot_model::{CauseKind, CpuId, Event, Lost, Report};
use surefoot_stall::who::WhoConfig;
use surefoot_stall::{Config, LONGEST_RUN, THRESHOLD_RANGE_NS, WINDOW_RANGE};

/// The collector's configuration from the command line.
pub fn config(what: &What, window: Duration) -> Config {
    Config {
        cpus: what.cpu.clone().unwrap_or_default().0,
        window,
        gap_threshold_ns: what.min_gap,
        workload: what.workload(),
        sentinel: what.sentinel,
        source: what.source.into(),
        who: what.who.as_ref().map(|who| WhoConfig {
            cpus: who.0.clone(),
            pid: what.pid,
            kernel_stacks: true,
            user_stacks: true,
            stacks_per_s: STACKS_PER_S,
            timeline: false,
        }),
        gather: true,
    }
}

/// Refuses a workload that is not there, and raisers where they cannot be named, before anything is said of attaching.
pub fn check_workload(what: &What, root: &Root) -> anyhow::Result<()> {
    threads::check_pid(what.pid, root)?;
    if what.who.is_some() {
        surefoot_stall::who::refuse_in_a_namespace()?;
    }
    threads::check_comm(what.comm.as_deref())
}

/// Refuses a run that is too long to end.
pub fn check_duration(duration: Duration) -> anyhow::Result<()> {
    anyhow::ensure!(duration <= LONGEST_RUN, "--duration: {duration:?} is longer than 7 days");
    Ok(())
}

/// Refuses windows and thresholds outside their ranges, by the names of their options, and a run that is over before
/// its first window.
pub fn check_times(what: &What, interval: Duration, duration: Option<Duration>) -> anyhow::Result<()> {
    let windows = WINDOW_RANGE.0..=WINDOW_RANGE.1;
    anyhow::ensure!(windows.contains(&interval), "--interval: {interval:?} is outside 100 ms to 1 h");
    let thresholds = THRESHOLD_RANGE_NS.0..=THRESHOLD_RANGE_NS.1;
    anyhow::ensure!(thresholds.contains(&what.min_gap), "--min-gap: {} ns is outside 100 ns to 60 s", what.min_gap);
    if let Some(duration) = duration {
        check_duration(duration)?;
        anyhow::ensure!(duration >= interval, "--duration: {duration:?} is shorter than a window, {interval:?}");
    }
    Ok(())
}

/// Starts the sources, and calls `each` for every event until the time is over or the user stops it.
pub fn collect(
    root: &Root,
    what: &What,
    window: Duration,
    duration: Duration,
    mut each: impl FnMut(Event) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let sources = rooms::sources(root, what, window)?;
    what.forewarn(root);
    let named = what.cpu.iter().chain(&what.who).flat_map(|list| list.0.iter().copied());
    let named: BTreeSet<CpuId> = named.collect();
    threads::tell_owners(&named.into_iter().collect::<Vec<_>>(), what.pid, root);
    let statistics = sources.statistics();
    let running = rooms::start(sources, &statistics, Some(duration))?;
    let start = Instant::now();
    let progress = io::stderr().is_terminal();
    while let Some(events) = running.next_turn() {
        if progress {
            eprint!("\r{:.0} of {:.0} s", start.elapsed().as_secs_f64(), duration.as_secs_f64());
        }
        events.into_iter().try_for_each(&mut each)?;
    }
    if progress {
        eprint!("\r\x1b[K");
    }
    rooms::end(running);
    if statistics.dropped() > 0 {
        surefoot_console::tell!(
            "surefoot: {} events were dropped because they came faster than they were taken",
            statistics.dropped()
        );
    }
    Ok(())
}

/// Prints a report as the user asked for it.
pub fn print(out: &mut impl Write, report: &Report, filter: &Filter, json: bool) -> io::Result<()> {
    let is_wanted = |kind: CauseKind| filter.kinds.as_ref().is_none_or(|kinds| kinds.0.contains(&kind));
    let wanted = |lost: &Lost| is_wanted(lost.cause.kind);
    let who = report.who.clone().map(|mut found| {
        found.interrupts.retain(|interrupt| is_wanted(interrupt.cause.kind));
        found
    });
    if json {
        // The lines of a recording are those of the report that was live.
        output::stream(out, "stall report")?;
        lines::report(out, report, wanted)?;
        return who.map_or(Ok(()), |found| lines::who(out, &found));
    }
    out.write_all(text::report(report, wanted).as_bytes())?;
    who.map_or(Ok(()), |found| write!(out, "\nWho interrupted the cores, {}", raisers::text(&found)))
}

pub fn run(options: &ReportOptions) -> anyhow::Result<Outcome> {
    let root = Root::host();
    check_workload(&options.what, &root)?;
    let window = options.duration.clamp(WINDOW_RANGE.0, Duration::from_secs(1));
    check_times(&options.what, window, Some(options.duration))?;
    let mut sum = Summary::judging()?;
    collect(&root, &options.what, window, options.duration, |event| {
        sum.add(&event);
        Ok(())
    })?;
    sum.print(&mut output::patient(), &options.filter, options.json)?;
    Ok(Outcome::Done)
}
