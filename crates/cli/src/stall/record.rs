//! `surefoot stall record` and `surefoot stall replay`.

use crate::args::{RecordOptions, ReplayOptions};
use crate::rooms::Summary;
use crate::settle;
use crate::stall::report;
use anyhow::Context;
use std::collections::BTreeSet;
use std::path::Path;
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_hostfs::{Root, cpus};
use surefoot_model::{CpuId, Event, GapCorrection};
use surefoot_rooms::disturb::Discreet;
use surefoot_store::recording::{End, Existing, Reader, Writer};

pub fn record(options: &RecordOptions) -> anyhow::Result<Outcome> {
    let root = Root::host();
    report::check_workload(&options.what, &root)?;
    report::check_times(&options.what, options.interval, Some(options.duration))?;
    // It starts this process anew, which would find its own file there.
    settle::settle_for(&options.what, &root);
    let existing = if options.force { Existing::Replace } else { Existing::Refuse };
    let mut writer = Writer::create(&options.output, existing)?;
    let mut sum = Summary::judging()?;
    let mut discreet = Discreet::default();
    let collected = report::collect(&root, &options.what, options.interval, options.duration, |event| {
        let event = if options.with_commands { event } else { discreet.without_commands(event) };
        sum.add(&event);
        writer.append(&event)?;
        // A frame a window or look: what was seen survives the end of this process.
        if event.comes_to_ns().is_some() || matches!(event, Event::Who(_)) {
            writer.flush()?;
        }
        Ok(())
    });
    let written = collected.and_then(|()| Ok(writer.finish()?));
    if let Err(error) = &written
        && !is_of_the_recording(error)
    {
        return written.map(|_| Outcome::Done);
    }
    // What was seen is told even where it could not be kept.
    sum.print(&mut output::patient(), &options.filter, options.json)?;
    let written = written.context("the report is of all that was seen, the recording is not")?;
    let (path, rooms) = (options.output.display(), sum.rooms().join(", "));
    let commands =
        if options.with_commands { "with the command lines of experiments" } else { "without command lines" };
    surefoot_console::tell!("{} events in {path} ({} bytes): {rooms}; {commands}", written.events, written.bytes);
    if written.dropped_events > 0 {
        surefoot_console::tell!("surefoot: {} events are not in the recording", written.dropped_events);
        return Ok(Outcome::Found);
    }
    Ok(Outcome::Done)
}

fn is_of_the_recording(error: &anyhow::Error) -> bool {
    use surefoot_store::Error::{EventTooLarge, RecordingWrite};
    matches!(error.downcast_ref(), Some(RecordingWrite { .. } | EventTooLarge { .. }))
}

/// Reads a whole recording; says on standard error what was not intact.
pub fn read(path: &Path, mut each: impl FnMut(Event)) -> anyhow::Result<Outcome> {
    let mut reader = Reader::open(path)?;
    reader.by_ref().for_each(&mut each);
    if !reader.skipped().is_empty() {
        surefoot_console::tell!("surefoot: {}", reader.skipped());
    }
    match reader.end() {
        End::Complete => Ok(Outcome::Done),
        end => {
            surefoot_console::tell!("surefoot: {}: {end}", path.display());
            Ok(Outcome::Found)
        }
    }
}

pub fn replay(options: &ReplayOptions) -> anyhow::Result<Outcome> {
    let mut sum = Summary::judging()?;
    let cores: Option<BTreeSet<CpuId>> = options.cpu.as_ref().map(|cpus| cpus.0.iter().copied().collect());
    let is_wanted = |cpu: CpuId| cores.as_ref().is_none_or(|cores| cores.contains(&cpu));
    let mut recorded = BTreeSet::new();
    let outcome = read(&options.file, |mut event| {
        match &mut event {
            Event::Window(window) => {
                recorded.extend(window.cores.iter().map(|core| core.cpu));
                window.cores.retain(|core| is_wanted(core.cpu));
                window.untimed.retain(|row| is_wanted(row.cpu));
            }
            Event::Who(who) => who.interrupts.retain(|interrupt| is_wanted(interrupt.cpu)),
            Event::Gap(gap) | Event::GapCorrection(GapCorrection { gap, .. })
                if !is_wanted(gap.cpu) || options.min_gap.is_some_and(|ns| gap.duration_ns < ns) =>
            {
                return;
            }
            _ => {}
        }
        sum.add(&event);
    })?;
    if let Some(absent) = cores.iter().flatten().find(|cpu| !recorded.is_empty() && !recorded.contains(cpu)) {
        let recorded: Vec<CpuId> = recorded.iter().copied().collect();
        let path = options.file.display();
        anyhow::bail!("--cpu {absent}: core {absent} is not in {path}, which holds {}", cpus::format_list(&recorded));
    }
    sum.print(&mut output::patient(), &options.filter, options.json)?;
    Ok(outcome)
}
