//! `surefoot stall record` and `surefoot stall replay`.

use crate::args::{RecordOptions, ReplayOptions};
use crate::exit::Outcome;
use crate::report;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use surefoot_hostfs::{Root, signals};
use surefoot_model::{CpuId, Event, Report};
use surefoot_store::recording::{End, Existing, Reader, Writer};

pub fn record(options: &RecordOptions) -> anyhow::Result<Outcome> {
    let root = Root::host();
    report::check_process(&options.what, &root)?;
    report::check_times(&options.what, options.interval, Some(options.duration))?;
    let stop = signals::stop_flag()?;
    let mut collector = report::start(&root, &options.what, options.interval)?;
    let existing = if options.force { Existing::Replace } else { Existing::Refuse };
    let mut writer = Writer::create(&options.output, existing)?;
    let mut sum = Report::default();
    report::collect(&mut collector, options.duration, stop, |event| {
        writer.append(&event)?;
        // A frame a window: what was seen survives the end of this process.
        if matches!(event, Event::Window(_) | Event::Who(_)) {
            writer.flush()?;
        }
        sum.add(&event);
        Ok(())
    })?;
    let written = writer.finish()?;
    report::print(&mut io::stdout().lock(), &sum, &options.filter, options.json)?;
    eprintln!("{} events in {} ({} bytes)", written.events, options.output.display(), written.bytes);
    Ok(Outcome::Done)
}

/// Reads a whole recording; says on standard error what was not intact.
pub fn read(path: &Path, mut each: impl FnMut(Event)) -> anyhow::Result<Outcome> {
    let mut reader = Reader::open(path)?;
    reader.by_ref().for_each(&mut each);
    if !reader.skipped().is_empty() {
        eprintln!("surefoot: {}", reader.skipped());
    }
    match reader.end() {
        End::Complete => Ok(Outcome::Done),
        end => {
            eprintln!("surefoot: {}: {end}", path.display());
            Ok(Outcome::Found)
        }
    }
}

pub fn replay(options: &ReplayOptions) -> anyhow::Result<Outcome> {
    let mut sum = Report::default();
    let cores: Option<BTreeSet<CpuId>> = options.cpus.as_ref().map(|cpus| cpus.0.iter().copied().collect());
    let is_wanted = |cpu: CpuId| cores.as_ref().is_none_or(|cores| cores.contains(&cpu));
    let outcome = read(&options.file, |mut event| {
        match &mut event {
            Event::Window(window) => {
                window.cores.retain(|core| is_wanted(core.cpu));
                window.untimed.retain(|row| is_wanted(row.cpu));
            }
            Event::Who(who) => who.interrupts.retain(|interrupt| is_wanted(interrupt.cpu)),
            Event::Gap(gap) if !is_wanted(gap.cpu) || options.min_gap.is_some_and(|ns| gap.duration_ns < ns) => return,
            _ => {}
        }
        sum.add(&event);
    })?;
    report::print(&mut io::stdout().lock(), &sum, &options.filter, options.json)?;
    Ok(outcome)
}
