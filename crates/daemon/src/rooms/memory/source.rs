//! The source of memory errors: reports as they come, and counts every few seconds.

use super::Options;
use super::counts_file::or_why;
use super::tree::ByChild;
use crate::rooms::apart;
use crate::sources::{End, Source, Start};
use std::path::Path;
use std::time::Duration;
use surefoot_hostfs::Root;
use surefoot_hostfs::mounts::Foreign;
use surefoot_memory::closing::Closing;
use surefoot_memory::rate::Limit;
use surefoot_memory::watch::{Pace, Settings, Watch};
use surefoot_model::{Deed, ErrorReport, Event, MemoryProblem, MemorySource, Room, one_line};
use surefoot_settings::Live;
use surefoot_store::history::View;

/// A turn that takes long is followed by a rest of so many times that, so that a storm costs a tenth of a core at most.
const REST_FACTOR: u32 = 9;

/// The source of memory errors of a host or of a recorded tree.
pub(super) fn source(root: &Root, options: Options, live: &Live) -> Start {
    let (root, live) = (root.clone(), live.clone());
    let (history, kept_problem) = Past::of(options.history.as_deref());
    Box::new(move || {
        if !root.is_host() && apart::is_possible() {
            // The child has another working directory.
            let tree = std::path::absolute(root.path(""))?;
            let who = Reader::ByChild(Box::new(ByChild::new(&tree, options, live.clone())));
            return Ok(Box::new(MemoryErrors { who, live }));
        }
        let foreign = if root.is_host() { Some(Foreign::open(&root)?) } else { None };
        let (state, bmc) = (options.state.as_deref().map(or_why), options.bmc);
        let Past { reports: kept_reports, closings } = history;
        let settings = Settings { state, bmc, kept_reports, kept_problem, closings, ..settings_of(&live) };
        let mut own = Own { root, foreign, settings: Some(settings), watch: None };
        // What is in the way is the first turn's failure, which ends no other source.
        let _ = own.watch();
        Ok(Box::new(MemoryErrors { who: Reader::Own(Box::new(own)), live }))
    })
}

/// The pace of the watch and the rate that it bears, as they are set now.
pub(crate) fn pace_of(live: &Live) -> (Pace, Limit) {
    let held = live.now();
    let of = &held.settings.memory;
    let pace = Pace { quiet: of.interval, busy: of.busy_interval, checks: of.check_interval };
    (pace, Limit { per_s: of.rate_limit_per_s, depth: of.burst })
}

/// What is set, for a watch that begins.
pub(crate) fn settings_of(live: &Live) -> Settings {
    let (pace, limit) = pace_of(live);
    let bmc_period = live.now().settings.memory.bmc_interval;
    Settings { pace, limit, bmc_period, ..Settings::default() }
}

/// What this host's memory is read from: the kernel's own file systems answer, whatever happens to a server.
const READ: [&str; 6] = [
    "/sys/devices/system/edac",
    "/sys/devices/system/machinecheck",
    "/sys/firmware",
    "/sys/bus",
    "/sys/module",
    "/sys/kernel",
];

/// Why this host's memory errors are not read now.
fn in_the_way(foreign: &Foreign) -> Option<String> {
    let (point, kind) = foreign.over(&READ)?;
    Some(format!(
        "{}: a {} file system is mounted over the kernel's files, and may not answer; memory errors are not read until it is unmounted",
        one_line(&point.to_string_lossy()),
        one_line(kind)
    ))
}

/// What a history has of memory errors.
#[derive(Debug, Default)]
pub(super) struct Past {
    pub(super) reports: Vec<ErrorReport>,
    pub(super) closings: Vec<Closing>,
}

impl Past {
    /// That of a history, or why it cannot be read; nothing if there is no history.
    pub(super) fn of(history: Option<&Path>) -> (Past, Option<MemoryProblem>) {
        match history.map(past) {
            Some(Ok(past)) => (past, None),
            Some(Err(problem)) => (Past::default(), Some(problem)),
            None => (Past::default(), None),
        }
    }
}

fn past(history: &Path) -> Result<Past, MemoryProblem> {
    if !history.exists() {
        return Ok(Past::default());
    }
    let records = View::open(history).and_then(|view| view.records(0..i64::MAX, Some(Room::Memory)));
    let records = records.map_err(|error| MemoryProblem {
        source: MemorySource::McEvent,
        path: history.display().to_string(),
        why: format!("what was reported before cannot be read: {error}"),
    })?;
    let mut past = Past::default();
    for record in records.rows {
        if record.kind.starts_with("deed") {
            let deed = serde_json::from_value::<Deed>(record.body).ok();
            past.closings.extend(deed.as_ref().and_then(Closing::of));
        } else {
            past.reports.extend(serde_json::from_value::<ErrorReport>(record.body).ok());
        }
    }
    Ok(past)
}

struct MemoryErrors {
    who: Reader,
    live: Live,
}

enum Reader {
    /// This process reads.
    Own(Box<Own>),
    ByChild(Box<ByChild>),
}

struct Own {
    root: Root,
    /// Of a host.
    foreign: Option<Foreign>,
    /// Until the watch is open.
    settings: Option<Settings>,
    watch: Option<Watch>,
}

impl Own {
    /// The watch, while nothing is in the way.
    fn watch(&mut self) -> Result<Option<&mut Watch>, String> {
        if let Some(foreign) = &mut self.foreign {
            foreign.look();
            in_the_way(foreign).map_or(Ok(()), Err)?;
        }
        if let Some(settings) = self.settings.take() {
            self.watch = Some(Watch::open(&self.root, settings));
        }
        Ok(self.watch.as_mut())
    }
}

impl Source for MemoryErrors {
    fn turn(&mut self, end: &End) -> Result<Vec<Event>, String> {
        let (pace, limit) = pace_of(&self.live);
        let events = match &mut self.who {
            Reader::ByChild(tree) => tree.turn(end)?,
            Reader::Own(own) => {
                let watch = own.watch()?.map(|watch| {
                    watch.set(pace, limit);
                    watch.turn()
                });
                watch.unwrap_or_default()
            }
        };
        Ok(events.into_iter().map(Event::Memory).collect())
    }

    fn closing(&mut self) -> Vec<Event> {
        let events = match &mut self.who {
            Reader::ByChild(tree) => tree.closing(),
            Reader::Own(own) => own.watch().ok().flatten().map(Watch::finish).unwrap_or_default(),
        };
        events.into_iter().map(Event::Memory).collect()
    }

    fn problem(&self) -> Option<String> {
        match &self.who {
            Reader::ByChild(tree) => tree.problem(),
            Reader::Own(_) => None,
        }
    }

    fn rest(&self, took: Duration) -> Duration {
        let is_behind = match &self.who {
            Reader::ByChild(tree) => tree.is_behind,
            Reader::Own(own) => own.watch.as_ref().is_some_and(Watch::is_behind),
        };
        let rest = took * REST_FACTOR;
        if is_behind { rest } else { self.live.now().settings.memory.report_interval.max(rest) }
    }
}
