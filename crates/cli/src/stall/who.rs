//! `surefoot stall who`.

use crate::args::{STACKS_PER_S, WhoOptions};
use crate::settle;
use crate::stall::{lines, record, report, threads};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;
use surefoot_console::destination::Destination;
use surefoot_console::exit::Outcome;
use surefoot_console::units::duration;
use surefoot_console::{lost_time, output, people, raisers};
use surefoot_daemon::running;
use surefoot_hostfs::{Root, clock};
use surefoot_model::{CpuId, Event, Notice, Timeline, WhoReport};
use surefoot_probes::Workload;
use surefoot_stall::who::{self, WhoConfig, trace};
use surefoot_stall::{Config, Question, forewarning};
use surefoot_store::recording::{Existing, Writer};
use surefoot_sys::signals;
use surefoot_who::compare::compare;

/// How long to watch unless it is said.
const LENGTH: Duration = Duration::from_secs(10);

/// The longest range that a watch answers for.
const RANGE_MAX: Duration = Duration::from_secs(86_400);

/// Slices and arrivals of the timeline that a recording has room for, together.
const TIMELINE_RECORDED: usize = 20_000;

/// Bytes of JSON that they may take, their raisers with all stacks included.
const TIMELINE_RECORDED_BYTES: usize = 8 << 20;

pub fn run(options: &WhoOptions) -> anyhow::Result<Outcome> {
    match &options.replay {
        Some(recording) => replay(options, recording),
        None => live(options),
    }
}

fn live(options: &WhoOptions) -> anyhow::Result<Outcome> {
    let root = Root::host();
    threads::check_pid(options.pid, &root)?;
    let length = options.duration.unwrap_or(LENGTH);
    report::check_duration(length)?;
    let cpus = surefoot_stall::checked_cores(&options.cpu.clone().unwrap_or_default().0, &root)?;
    if let Some(last) = options.last {
        let found = of_range(options, &cpus, last, &root)?;
        return finish(options, found, || opening(&root, &WhoConfig { cpus, ..WhoConfig::default() }));
    }
    if let Some(found) = of_running_watch(options, &cpus, &root) {
        return finish(options, found, || opening(&root, &WhoConfig { cpus, ..WhoConfig::default() }));
    }
    who::refuse_in_a_namespace()?;
    settle::settle(&cpus, &root);
    // What cannot be compared is refused before an hour of watching.
    let before = options.compare.as_deref().map(recorded).transpose()?;
    let files = Files::open(options)?;
    let recording = options.record.as_deref().map(|path| recording(options, path)).transpose()?;
    let stop = signals::stop_flag()?;
    let config = WhoConfig {
        cpus,
        pid: options.pid,
        kernel_stacks: !options.no_stacks,
        user_stacks: !options.no_stacks,
        stacks_per_s: options.stacks_per_s,
        timeline: options.trace.is_some() || options.record.is_some(),
    };
    if crate::args::can_attach(&root) {
        surefoot_console::tell!("{}", forewarning(Question::RaisersAlone));
    }
    threads::tell_owners(&config.cpus, config.pid, &root);
    let opening = if recording.is_some() { opening(&root, &config)? } else { Vec::new() };
    let found = who::run(&root, &config, length, stop, || {
        surefoot_console::tell!("watching for {length:?}; Ctrl-C ends it early");
    })?;
    let watched_ns = found.end_ns.saturating_sub(found.start_ns);
    if let Some(told) = cut_short(watched_ns, length, stop.load(Ordering::Relaxed)) {
        surefoot_console::tell!("surefoot: {told}");
    }
    // Whoever watched for an hour gets the result also when the disk is full.
    let printed = print(options, &found, before.as_ref());
    let written = files.write(&found);
    let recorded = recording.map_or(Ok(()), |writer| record(writer, opening, found));
    written.and(recorded)?;
    printed
}

/// That a watch was much shorter than was asked for, and whether a signal ended it.
fn cut_short(watched_ns: u64, asked: Duration, is_stopped: bool) -> Option<String> {
    let is_short = u128::from(watched_ns) * 10 < asked.as_nanos() * 9;
    let why = if is_stopped { "a signal ended it" } else { "why is not known" };
    is_short.then(|| format!("it watched for {} of the {asked:?} that were asked for: {why}", duration(watched_ns)))
}

/// What a running watch has found in the newest of the time.
fn of_range(options: &WhoOptions, cpus: &[CpuId], last: Duration, root: &Root) -> anyhow::Result<WhoReport> {
    anyhow::ensure!(last <= RANGE_MAX, "--last: a watch answers for at most 24h");
    let list = surefoot_hostfs::cpus::format_list(cpus);
    let directory = options.run_directory.display();
    let mut found = match running::raisers(&options.run_directory, cpus, Some(last), root) {
        Some(Ok(found)) => found,
        Some(Err(why)) => anyhow::bail!("--last: {why}. Start one that does: surefoot watch --who {list}"),
        None => anyhow::bail!(
            "--last asks a watch that runs already, and none runs from {directory}; start one: surefoot watch --who {list}"
        ),
    };
    let asked_ns = u64::try_from(last.as_nanos()).unwrap_or(u64::MAX);
    let whole = if found.report.duration_ns() < asked_ns { ", which is as long as it has watched" } else { "" };
    let text = format!(
        "from the watch at http://{}/: the last {}{whole}. p50, p99 and max are those of the whole watch",
        found.address,
        duration(found.report.duration_ns()),
    );
    found.report.notices.push(Notice { at_ns: clock::monotonic_ns(), text });
    Ok(found.report)
}

/// What a running watch has found so far, where it can answer. One that cannot is told of, and does not matter.
fn of_running_watch(options: &WhoOptions, cpus: &[CpuId], root: &Root) -> Option<WhoReport> {
    // What starts itself anew to settle has asked before.
    if options.anew || settle::has_settled() {
        return None;
    }
    if let Some(why) = what_no_watch_answers(options) {
        if let Some(address) = running::of(&options.run_directory, root) {
            surefoot_console::tell!(
                "{why}, so this attaches its own programs instead of asking the watch at {address}"
            );
        }
        return None;
    }
    let mut found = match running::raisers(&options.run_directory, cpus, None, root)? {
        Ok(found) => found,
        Err(why) => {
            surefoot_console::tell!("{why}, so this attaches its own programs");
            return None;
        }
    };
    let now_ns = clock::monotonic_ns();
    let text = format!(
        "from the watch at http://{}/, which has followed raisers for {}; nothing was attached (--anew attaches and watches \
         for --duration)",
        found.address,
        duration(now_ns.saturating_sub(found.report.start_ns)),
    );
    found.report.notices.push(Notice { at_ns: now_ns, text });
    Some(found.report)
}

/// Which option asks for what the report of a running watch does not have.
fn what_no_watch_answers(options: &WhoOptions) -> Option<&'static str> {
    let reasons = [
        (options.compare.is_some(), "--compare needs what happens from now on"),
        (options.pid.is_some(), "--pid counts what that process loses from now on"),
        (options.trace.is_some(), "--trace needs single arrivals, which a watch does not keep"),
        (options.duration.is_some(), "--duration asks for so long from now on"),
        (options.no_stacks, "--no-stacks changes what is taken"),
        (options.stacks_per_s != STACKS_PER_S, "--stacks changes what is taken"),
    ];
    reasons.into_iter().find(|(asked, _)| *asked).map(|(_, why)| why)
}

/// Prints what was found and writes it where that was asked for.
fn finish(
    options: &WhoOptions,
    found: WhoReport,
    opening: impl FnOnce() -> anyhow::Result<Vec<Event>>,
) -> anyhow::Result<Outcome> {
    let files = Files::open(options)?;
    let recording = options.record.as_deref().map(|path| recording(options, path)).transpose()?;
    let opening = if recording.is_some() { opening()? } else { Vec::new() };
    let printed = print(options, &found, None);
    files.write(&found)?;
    recording.map_or(Ok(()), |writer| record(writer, opening, found))?;
    printed
}

/// The host and its capabilities.
fn opening(root: &Root, config: &WhoConfig) -> anyhow::Result<Vec<Event>> {
    let workload = config.pid.map_or(Workload::None, |pid| Workload::Processes(vec![pid]));
    Ok(surefoot_stall::opening_of(root, Config { cpus: config.cpus.clone(), workload, ..Config::default() })?)
}

/// The newest report that a recording holds, and how far the recording could be read.
fn read_recorded(path: &Path) -> anyhow::Result<(WhoReport, Outcome)> {
    let mut found: Option<WhoReport> = None;
    let outcome = record::read(path, |event| {
        if let Event::Who(who) = event {
            found = Some(*who);
        }
    })?;
    let Some(found) = found else {
        anyhow::bail!(
            "{}: this recording does not say who interrupted a core; make one with stall who --record, or with stall \
             record --who",
            path.display()
        );
    };
    Ok((found, outcome))
}

fn recorded(path: &Path) -> anyhow::Result<WhoReport> {
    Ok(read_recorded(path)?.0)
}

/// Prints what a recording holds, by the same words as when it was made.
fn replay(options: &WhoOptions, path: &Path) -> anyhow::Result<Outcome> {
    let (found, outcome) = read_recorded(path)?;
    let before = options.compare.as_deref().map(recorded).transpose()?;
    if options.trace.is_some() && found.timeline.is_none() {
        anyhow::bail!(
            "--trace: {} does not hold the arrivals one by one: a recording of stall who keeps up to \
             {TIMELINE_RECORDED} slices and arrivals, one of stall record none; use stall who --trace on the machine \
             itself",
            path.display()
        );
    }
    let files = Files::open(options)?;
    print(options, &found, before.as_ref())?;
    files.write(&found)?;
    Ok(outcome)
}

fn print(options: &WhoOptions, found: &WhoReport, before: Option<&WhoReport>) -> anyhow::Result<Outcome> {
    let comparison = before.map(|before| compare(before, found));
    let mut out = output::patient();
    if options.json {
        output::stream(&mut out, "stall who")?;
        lines::who(&mut out, found)?;
        if let Some(comparison) = &comparison {
            lines::comparison(&mut out, comparison)?;
        }
    } else {
        out.write_all(raisers::text(found).as_bytes())?;
        // Last, because that is what stands above the prompt.
        if let (Some(comparison), Some(path)) = (&comparison, &options.compare) {
            out.write_all(raisers::compare::text(comparison, &surefoot_console::people::path(path)).as_bytes())?;
        }
    }
    out.flush()?;
    Ok(Outcome::Done)
}

/// The files that were asked for beside the recording.
struct Files {
    folded: Option<Destination>,
    trace: Option<Destination>,
}

impl Files {
    fn open(options: &WhoOptions) -> anyhow::Result<Self> {
        let open = |option, path: &Option<PathBuf>| path.as_deref().map(|path| Destination::open(option, path));
        let folded = open("--folded", &options.folded).transpose()?;
        let trace = open("--trace", &options.trace).transpose()?;
        if let (Some(folded), Some(trace)) = (&folded, &trace) {
            anyhow::ensure!(!folded.is_same(trace.path()), "--folded and --trace name the same file");
        }
        for file in [&folded, &trace].into_iter().flatten() {
            for recording in [&options.record, &options.replay].into_iter().flatten() {
                let path = file.path().display();
                anyhow::ensure!(!file.is_same(recording), "{path} is named for the recording and for another output");
            }
        }
        Ok(Files { folded, trace })
    }

    fn write(self, found: &WhoReport) -> anyhow::Result<()> {
        if let Some(folded) = self.folded {
            folded.write(|out| {
                out.write_all(people::clean(&raisers::folded(&lost_time::on_one_line(found))).as_bytes())
            })?;
        }
        let Some((file, timeline)) = self.trace.zip(found.timeline.as_ref()) else { return Ok(()) };
        let path = file.path().display().to_string();
        let written = file.write(|out| trace::write(out, found, timeline))?;
        surefoot_console::tell!(
            "{} slices, {} raises and {} flows in {path}",
            written.slices,
            written.raises,
            written.flows
        );
        if written.left_out > 0 {
            surefoot_console::tell!("surefoot: {path} is at its limit: {} more were left out", written.left_out);
        }
        if written.turns_lost > 0 {
            surefoot_console::tell!("surefoot: {path} has holes: {} changes of context were lost", written.turns_lost);
        }
        Ok(())
    }
}

/// Creates the recording, so that a file that cannot be written is refused before watching.
fn recording(options: &WhoOptions, path: &Path) -> anyhow::Result<Writer> {
    let existing = if options.force { Existing::Replace } else { Existing::Refuse };
    Ok(Writer::create(path, existing)?)
}

fn record(mut writer: Writer, opening: Vec<Event>, mut found: WhoReport) -> anyhow::Result<()> {
    let path = writer.path().display().to_string();
    found.timeline = found.timeline.filter(is_small);
    for event in opening.iter().chain([&Event::Who(Box::new(found))]) {
        writer.append(event)?;
    }
    let written = writer.finish()?;
    surefoot_console::tell!("{} events in {path} ({} bytes)", written.events, written.bytes);
    Ok(())
}

/// Whether a recording has room for the arrivals one by one.
fn is_small(timeline: &Timeline) -> bool {
    timeline.slices.len() + timeline.arrivals.len() <= TIMELINE_RECORDED
        && serde_json::to_vec(timeline).is_ok_and(|json| json.len() <= TIMELINE_RECORDED_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_that_was_cut_short_says_so() {
        let asked = Duration::from_secs(5);
        assert_eq!(cut_short(4_990_000_000, asked, true), None);
        let told = |is_stopped| cut_short(2_500_000, asked, is_stopped).unwrap_or_default();
        assert_eq!(told(true), "it watched for 2.50 ms of the 5s that were asked for: a signal ended it");
        assert!(told(false).ends_with("why is not known"));
    }
}
