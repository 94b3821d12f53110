//! The source of memory errors: reports as they come, and counts every few seconds.

use super::Options;
use super::counts_file::or_why;
use crate::sources::{End, Source, Start};
use std::path::Path;
use std::time::Duration;
use surefoot_hostfs::Root;
use surefoot_memory::watch::{Settings, Watch};
use surefoot_model::{ErrorReport, Event, MemoryProblem, MemorySource, Room};
use surefoot_store::history::View;

/// The time between two turns.
const PERIOD: Duration = Duration::from_secs(1);
/// A turn that takes long is followed by a rest of so many times that, so that a storm costs a tenth of a core at most.
const REST_FACTOR: u32 = 9;

/// The source of memory errors of a host or of a recorded tree.
pub(super) fn source(root: &Root, options: Options) -> Start {
    let root = root.clone();
    let (kept_reports, kept_problem) = match options.history.as_deref().map(reports) {
        Some(Ok(reports)) => (reports, None),
        Some(Err(problem)) => (Vec::new(), Some(problem)),
        None => (Vec::new(), None),
    };
    Box::new(move || {
        let (state, bmc) = (options.state.as_deref().map(or_why), options.bmc);
        let settings = Settings { state, bmc, kept_reports, kept_problem, ..Settings::default() };
        Ok(Box::new(MemoryErrors { watch: Watch::open(&root, settings) }))
    })
}

/// The reports of errors that a history has; none where there is no history yet.
fn reports(history: &Path) -> Result<Vec<ErrorReport>, MemoryProblem> {
    if !history.exists() {
        return Ok(Vec::new());
    }
    let records = View::open(history).and_then(|view| view.records(0..i64::MAX, Some(Room::Memory)));
    let records = records.map_err(|error| MemoryProblem {
        source: MemorySource::McEvent,
        path: history.display().to_string(),
        why: format!("what was reported before cannot be read: {error}"),
    })?;
    Ok(records.rows.into_iter().filter_map(|record| serde_json::from_value(record.body).ok()).collect())
}

struct MemoryErrors {
    watch: Watch,
}

impl Source for MemoryErrors {
    fn turn(&mut self, _: &End) -> Result<Vec<Event>, String> {
        Ok(self.watch.turn().into_iter().map(Event::Memory).collect())
    }

    fn closing(&mut self) -> Vec<Event> {
        self.watch.finish().into_iter().map(Event::Memory).collect()
    }

    fn rest(&self, took: Duration) -> Duration {
        let rest = took * REST_FACTOR;
        if self.watch.is_behind() { rest } else { PERIOD.max(rest) }
    }
}
