//! `surefoot stall who`.

mod compare;
mod fix_first;
mod loops;

use crate::args::{STACKS_PER_S, WhoOptions};
use crate::stall::{lines, record, report, threads};
use crate::{running, settle};
use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surefoot_console::destination::Destination;
use surefoot_console::exit::Outcome;
use surefoot_console::lost_time as text;
use surefoot_console::table::Table;
use surefoot_console::units::{counted, duration, percent};
use surefoot_console::{output, people};
use surefoot_hostfs::{Root, clock, signals};
use surefoot_model::{CpuId, Event, Interrupt, Notice, Raiser, Timeline, WhoReport};
use surefoot_probes::Workload;
use surefoot_stall::who::{self, WhoConfig, trace};
use surefoot_stall::{Config, Question, forewarning};
use surefoot_store::recording::{Existing, Writer};

/// How long to watch unless it is said.
const LENGTH: Duration = Duration::from_secs(10);

/// Raisers that the text shows of each interrupt.
const RAISERS_SHOWN: usize = 3;

/// Frames that the text shows of each stack.
const FRAMES_SHOWN: usize = 8;

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
    // Whoever watched for an hour gets the result also when the disk is full.
    let printed = print(options, &found, before.as_ref());
    let written = files.write(&found);
    let recorded = recording.map_or(Ok(()), |writer| record(writer, opening, found));
    written.and(recorded)?;
    printed
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
    let mut found = match running::raisers(&options.run_directory, cpus, root)? {
        Ok(found) => found,
        Err(why) => {
            surefoot_console::tell!("{why:#}, so this attaches its own programs");
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
        (options.stacks_per_s != STACKS_PER_S, "--stacks-per-s changes what is taken"),
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
    let comparison = before.map(|before| who::compare::compare(before, found));
    let mut out = output::patient();
    if options.json {
        output::stream(&mut out, "stall who")?;
        lines::who(&mut out, found)?;
        if let Some(comparison) = &comparison {
            lines::comparison(&mut out, comparison)?;
        }
    } else {
        out.write_all(text(found).as_bytes())?;
        // Last, because that is what stands above the prompt.
        if let (Some(comparison), Some(path)) = (&comparison, &options.compare) {
            out.write_all(compare::text(comparison, &surefoot_console::people::path(path)).as_bytes())?;
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
            folded.write(|out| out.write_all(people::clean(&self::folded(&text::on_one_line(found))).as_bytes()))?;
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

/// One line per stack and its count, root first, for flame-graph tools.
fn folded(found: &WhoReport) -> String {
    let mut text = String::new();
    for interrupt in &found.interrupts {
        for raiser in &interrupt.raisers {
            let mut frames = vec![format!("core {}", interrupt.cpu), interrupt.cause.to_string()];
            frames.push(format!("{}-{}", raiser.comm, raiser.tid));
            frames.extend(raiser.user_stack.iter().rev().cloned());
            frames.extend(raiser.kernel_stack.iter().rev().map(|frame| format!("{frame}_[k]")));
            if raiser.kernel_stack.is_empty() && !raiser.function.is_empty() {
                frames.push(raiser.function.clone());
            }
            let line: Vec<String> = frames.iter().map(|frame| frame.replace([';', '\n'], "_")).collect();
            text += &format!("{} {}\n", line.join(";"), raiser.count);
        }
    }
    text
}

/// The report for people.
pub fn text(found: &WhoReport) -> String {
    let found = &text::on_one_line(found);
    let mut text = String::new();
    let mut table = Table::new(
        &["core", "interrupt", "count", "per s", "inside", "with entry", "of lost", "p50", "p99", "max", "handler"],
        &[1, 10],
    );
    for interrupt in &found.interrupts {
        let rate = interrupt.count as f64 * 1e9 / found.duration_ns().max(1) as f64;
        table.row(vec![
            interrupt.cpu.to_string(),
            interrupt.cause.to_string(),
            interrupt.count.to_string(),
            format!("{rate:.1}"),
            duration(interrupt.total_ns),
            interrupt.entry_exit_ns.map_or("-".to_owned(), |ns| duration(interrupt.total_ns.saturating_add(ns))),
            percent(interrupt.share_of_lost_ppm, 1_000_000),
            duration(interrupt.p50_ns),
            duration(interrupt.p99_ns),
            duration(interrupt.max_ns),
            interrupt.handler.clone(),
        ]);
    }
    text += &format!("{} of watching\n\n", duration(found.duration_ns()));
    text += &fix_first::text(found);
    text += &table.text();
    text += &fix_first::entry_exit(found);
    for interrupt in found.interrupts.iter().filter(|interrupt| has_more(interrupt)) {
        text += &format!("\ncore {}, {}\n", interrupt.cpu, interrupt.cause);
        for detail in &interrupt.detail {
            text += &format!("  {detail}\n");
        }
        for intruder in &interrupt.intruders {
            text += &format!("  {}\n", fix_first::intruder(intruder));
        }
        let raisers = told_apart(&interrupt.raisers);
        for (count, raiser) in raisers.iter().take(RAISERS_SHOWN) {
            text += &format!("  {count} x {raiser}");
        }
        if let Some(rest) = raisers.get(RAISERS_SHOWN..).filter(|rest| !rest.is_empty()) {
            let count: u64 = rest.iter().map(|(count, _)| count).sum();
            text += &match rest.len() {
                1 => format!("  and 1 more raiser, {}\n", counted(count, "time", "times")),
                more => format!("  and {more} more raisers, {count} times together\n"),
            };
        }
        if interrupt.unknown_raisers > 0 {
            text += &format!("  {} arrivals have no known raiser\n", interrupt.unknown_raisers);
        }
        for advice in &interrupt.advice {
            text += &match fix_first::place(found, advice) {
                Some(place) => format!("  Advice: {place} of \"Fix first\" ({})\n", advice.rule),
                None => {
                    format!("  Advice: {}\n    because {}\n    see {}\n", advice.remedy, advice.evidence, advice.source)
                }
            };
        }
    }
    text += &loops::text(found);
    text += "\n";
    text += &closing(found);
    text
}

/// The costliest interrupts with their first raiser, a line each.
pub fn summary(found: &WhoReport, rows: usize) -> String {
    let mut costliest: Vec<&Interrupt> =
        found.interrupts.iter().filter(|interrupt| !interrupt.raisers.is_empty()).collect();
    costliest.sort_by_key(|interrupt| std::cmp::Reverse(interrupt.total_ns));
    let mut table = Table::new(&["core", "interrupt", "count", "total", "raised by"], &[1, 4]);
    for interrupt in costliest.iter().take(rows) {
        let first = &interrupt.raisers[0];
        let raiser = format!("{} x {}", first.count, raiser_line(first));
        table.row(vec![
            interrupt.cpu.to_string(),
            interrupt.cause.to_string(),
            interrupt.count.to_string(),
            duration(interrupt.total_ns),
            raiser,
        ]);
    }
    if costliest.is_empty() { "no raiser seen\n".to_owned() } else { table.text() }
}

fn has_more(interrupt: &Interrupt) -> bool {
    !interrupt.raisers.is_empty()
        || !interrupt.detail.is_empty()
        || !interrupt.intruders.is_empty()
        || !interrupt.advice.is_empty()
}

/// The raisers as the text tells them apart, most frequent first: stacks that differ only in frames that are not shown
/// are one.
fn told_apart(raisers: &[Raiser]) -> Vec<(u64, String)> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut rows: Vec<(u64, String)> = Vec::new();
    for raiser in raisers {
        let text = raiser_text(raiser);
        match places.get(&text) {
            Some(&place) => rows[place].0 = rows[place].0.saturating_add(raiser.count),
            None => {
                places.insert(text.clone(), rows.len());
                rows.push((raiser.count, text));
            }
        }
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.0));
    rows
}

/// A raiser without its count and stacks.
fn raiser_line(raiser: &Raiser) -> String {
    let mut text = raiser.comm.clone();
    if raiser.tid > 0 {
        text += &format!(" (thread {}", raiser.tid);
        text += &if raiser.pid > 0 { format!(" of process {})", raiser.pid) } else { ")".to_owned() };
    }
    if !raiser.syscall.is_empty() {
        text += &format!(" in {}", raiser.syscall);
    }
    if !raiser.function.is_empty() {
        text += &format!(": {}", raiser.function);
    }
    if !raiser.wakee.is_empty() {
        text += &format!(", waking {}", raiser.wakee);
    }
    text + &format!(" [{}]", raiser.certainty.label())
}

fn raiser_text(raiser: &Raiser) -> String {
    let mut text = format!("{}\n", raiser_line(raiser));
    for (label, stack) in [("kernel", &raiser.kernel_stack), ("user", &raiser.user_stack)] {
        if stack.is_empty() {
            continue;
        }
        let mut frames: Vec<&str> = stack.iter().take(FRAMES_SHOWN).map(String::as_str).collect();
        if stack.len() > FRAMES_SHOWN {
            frames.push("...");
        }
        text += &format!("    {label}: {}\n", frames.join(" < "));
    }
    text
}

fn closing(found: &WhoReport) -> String {
    let mut text = String::new();
    if found.called_count > 0 {
        text += &format!(
            "Called functions joined exactly to their raiser: {} of {} ({}).\n",
            found.joined_count,
            found.called_count,
            percent(found.joined_count, found.called_count)
        );
    }
    if found.records_dropped > 0 || found.marks_lost > 0 {
        text += &format!("Lost: {} records, {} marks.\n", found.records_dropped, found.marks_lost);
    }
    if found.records_without_stack > 0 {
        text += &format!(
            "Without a stack, because their core raised too many: {} of {} records (--stacks-per-s).\n",
            found.records_without_stack, found.records
        );
    }
    for missing in &found.missing {
        text += &format!("Missing: {missing}\n");
    }
    for notice in &found.notices {
        text += &format!("Notice: {}\n", notice.text);
    }
    text + &text::cost(&found.cost, found.duration_ns())
}
