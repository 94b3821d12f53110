//! `surefoot stall record` and `surefoot stall replay`.

use crate::args::{RecordOptions, ReplayOptions};
use crate::exit::Outcome;
use crate::report;
use std::io;
use std::path::Path;
use surefoot_hostfs::{Root, signals};
use surefoot_model::{Event, Report};
use surefoot_store::recording::{End, Existing, Reader, Writer};

pub fn record(options: &RecordOptions) -> anyhow::Result<Outcome> {
    let root = Root::host();
    report::check_process(&options.what, &root)?;
    report::check_duration(options.duration)?;
    let stop = signals::stop_flag()?;
    let mut collector = report::start(&root, &options.what, options.interval)?;
    let existing = if options.force { Existing::Replace } else { Existing::Refuse };
    let mut writer = Writer::create(&options.output, existing)?;
    let mut sum = Report::default();
    report::collect(&mut collector, options.duration, stop, |event| {
        writer.append(&event)?;
        // A frame a window: what was seen survives the end of this process.
        if matches!(event, Event::Window(_)) {
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
    let outcome = read(&options.file, |event| sum.add(&event))?;
    report::print(&mut io::stdout().lock(), &sum, &options.filter, options.json)?;
    Ok(outcome)
}
