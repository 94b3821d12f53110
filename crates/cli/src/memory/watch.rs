//! `surefoot memory watch`.

use super::bmc::BmcOptions;
use super::{fault, status};
use crate::rooms::memory::{happened, of_bad, table};
use clap::Args;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::units::{self, duration};
use surefoot_console::words::utc;
use surefoot_hostfs::Unsupported;
use surefoot_memory::counts::KeptFile;
use surefoot_memory::presence;
use surefoot_memory::rate::Limit;
use surefoot_memory::watch::{Settings, Watch};
use surefoot_model::{
    Dimm, DimmFault, ErrorReport, Finding, LossKind, MemoryEvent, MemoryLook, MemoryProblem, MemorySource,
    ReportingCost, Severity,
};
use surefoot_rooms::memory::State;
use surefoot_rooms::memory::findings;
use surefoot_sys::signals;

/// How often reports are taken.
const PERIOD: Duration = Duration::from_secs(1);
/// How long the command is deaf to a wish to end.
const PATIENCE: Duration = Duration::from_millis(50);
/// Seconds' worth of errors that a module may have at once.
const DEPTH_S: f64 = 10.0;

#[derive(Args)]
pub struct WatchOptions {
    /// A recorded tree with proc and sys instead of this host; its reports come from sys/kernel/tracing/trace_pipe
    #[arg(long, value_name = "DIR")]
    host_root: Option<PathBuf>,
    /// Stop after this time [default: run until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    duration: Option<Duration>,
    /// Corrected-error rate limit per DIMM; above it is a finding
    #[arg(long, value_name = "RATE", default_value = "10/s", value_parser = units::parse_rate_per_s)]
    rate: f64,
    /// File that keeps the counts between runs, through resets, reboots and moves of modules; made where it is not there
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    #[command(flatten)]
    bmc: BmcOptions,
    /// JSON lines instead of text
    #[arg(long)]
    json: bool,
}

/// A line of the watch.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "MemoryWatchLine"))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line<'a> {
    /// A module: each at first, and then whenever something of it has changed.
    Dimm(&'a Dimm),
    /// An error that was reported.
    Report(&'a ErrorReport),
    /// Reports that are not listed, since the beginning: too many at once, dropped by the kernel, or not understood.
    Lost { source: MemorySource, kind: LossKind, count: u64, why: &'a str },
    /// What handling the reports has cost so far, where this host can time it.
    Cost(&'a ReportingCost),
    /// A file or service that cannot be read.
    Problem(&'a MemoryProblem),
}

pub fn run(options: &WatchOptions) -> anyhow::Result<Outcome> {
    let per_s = options.rate;
    anyhow::ensure!(per_s.is_finite() && per_s > 0.0, "--rate {per_s}: a rate is a number above 0, such as 10");
    let root = status::root(options.host_root.as_ref())?;
    let bmc = options.bmc.sources(&root)?;
    if let Some(Unsupported { why, remedy, .. }) = presence::unsupported(&root).filter(|_| !bmc.is_any()) {
        let why = format!("memory errors are not supported here: {why}; {remedy}");
        return Err(Unsupported::new(why, "").into());
    }
    if root.is_host() {
        crate::rooms::forewarn_of_memory(&root);
    }
    let stop = signals::stop_flag()?;
    let state = options.state.as_deref().map(status::open_state).transpose()?;
    let state = state.map(|file| Box::new(file) as Box<dyn KeptFile>);
    let settings = Settings { limit: Limit { per_s, depth: DEPTH_S * per_s }, state, bmc, ..Settings::default() };
    let mut watch = Watch::open(&root, settings);
    let mut screen = Screen { json: options.json, ..Screen::default() };
    if options.json {
        let mut out = output::patient();
        output::stream(&mut out, "memory watch")?;
        out.flush()?;
    }
    let begun = Instant::now();
    let is_over = || stop.load(Ordering::Relaxed) || options.duration.is_some_and(|all| begun.elapsed() >= all);
    while !is_over() {
        let turn = Instant::now();
        screen.show(&watch.turn())?;
        let rest = if watch.is_behind() { turn.elapsed() } else { PERIOD };
        while turn.elapsed() < rest && !is_over() {
            std::thread::sleep(PATIENCE.min(rest));
        }
    }
    screen.show(&watch.finish())?;
    Ok(Outcome::Done)
}

/// What was shown already.
#[derive(Default)]
struct Screen {
    json: bool,
    has_looked: bool,
    state: State,
    dimms: BTreeMap<String, Dimm>,
    problems: Vec<MemoryProblem>,
    findings: BTreeMap<String, Severity>,
}

impl Screen {
    fn show(&mut self, events: &[MemoryEvent]) -> io::Result<()> {
        let mut out = output::patient();
        for event in events {
            match event {
                // Who named the tree need not be told of it with every line.
                MemoryEvent::Look(look) => {
                    self.state.seen(&MemoryEvent::Look(MemoryLook { recorded_tree: None, ..look.clone() }));
                }
                _ => self.state.seen(event),
            }
            match event {
                MemoryEvent::Look(look) => self.look(look, &mut out)?,
                MemoryEvent::Report(report) if self.json => output::line(&mut out, &Line::Report(report))?,
                MemoryEvent::Report(report) => {
                    writeln!(out, "{}  {}", utc(report.at_realtime_ns), happened::words(report))?;
                }
                MemoryEvent::Lost { source, kind, count, why } if self.json => {
                    output::line(&mut out, &Line::Lost { source: *source, kind: *kind, count: *count, why })?;
                }
                MemoryEvent::Costs { costs } if self.json => {
                    costs.iter().try_for_each(|cost| output::line(&mut out, &Line::Cost(cost)))?;
                }
                // A finding says it.
                MemoryEvent::Lost { .. } | MemoryEvent::Checks { .. } | MemoryEvent::Costs { .. } => {}
            }
        }
        if !self.json {
            self.tell_findings(&mut out)?;
        }
        out.flush()
    }

    fn look(&mut self, look: &MemoryLook, out: &mut impl Write) -> io::Result<()> {
        let is_changed = |dimm: &&Dimm| self.dimms.get(&dimm.id).is_none_or(|before| is_other(before, dimm));
        let changed: Vec<&Dimm> = look.dimms.iter().filter(is_changed).collect();
        let new = look.problems.iter().filter(|problem| !self.problems.contains(problem));
        let new: Vec<MemoryProblem> = new.cloned().collect();
        if self.json {
            changed.iter().try_for_each(|dimm| output::line(out, &Line::Dimm(dimm)))?;
            new.iter().try_for_each(|problem| output::line(out, &Line::Problem(problem)))?;
        } else {
            if !self.has_looked {
                let took = duration(look.look_ns);
                writeln!(out, "{} UTC (one look takes {took})", utc(look.looked_realtime_ns))?;
                write!(out, "{}", table(&look.dimms))?;
            } else if !changed.is_empty() {
                write!(out, "{}", of_bad(&changed))?;
            }
            for dimm in look.dimms.iter().filter(|dimm| self.has_other_fault(dimm)) {
                write!(out, "{}", fault::text(dimm))?;
            }
            new.iter().try_for_each(|problem| writeln!(out, "problem: {}: {}", problem.path, problem.why))?;
        }
        self.has_looked = true;
        self.dimms = look.dimms.iter().map(|dimm| (dimm.id.clone(), dimm.clone())).collect();
        self.problems.clone_from(&look.problems);
        Ok(())
    }

    /// Whether the fault of a module is new or another one: its evidence alone grows with every error.
    fn has_other_fault(&self, dimm: &Dimm) -> bool {
        let of = |fault: &DimmFault| (fault.mode, fault.persistence, fault.action, fault.urgency);
        let before = self.dimms.get(&dimm.id).and_then(|before| before.fault.as_ref());
        dimm.fault.is_some() && dimm.fault.as_ref().map(of) != before.map(of)
    }

    /// Findings that are new, worse or over. The fault of a module is reported with its evidence.
    fn tell_findings(&mut self, out: &mut impl Write) -> io::Result<()> {
        let bad: Vec<Finding> =
            findings::of(&self.state).into_iter().filter(|finding| finding.severity > Severity::Ok).collect();
        for finding in bad.iter().filter(|finding| finding.rule != findings::FAULT_RULE) {
            if self.findings.get(&finding.key) != Some(&finding.severity) {
                writeln!(out, "{}: {}", finding.severity, finding.sentence)?;
            }
        }
        for key in self.findings.keys().filter(|key| bad.iter().all(|finding| finding.key != **key)) {
            writeln!(out, "over: {key}")?;
        }
        self.findings = bad.into_iter().map(|finding| (finding.key, finding.severity)).collect();
        Ok(())
    }
}

/// Whether somebody should be told: the rate alone changes with every look.
fn is_other(before: &Dimm, now: &Dimm) -> bool {
    let counts =
        |dimm: &Dimm| (dimm.corrected(), dimm.uncorrected(), dimm.fidelity, dimm.unread.clone(), dimm.closed.clone());
    let of = |dimm: &Dimm| (dimm.is_over_rate, dimm.fault_mode);
    counts(before) != counts(now) || of(before) != of(now) || before.label != now.label
}
