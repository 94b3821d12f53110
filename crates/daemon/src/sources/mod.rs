//! Sources of events, and the one runner that serves `watch`, `record` and `report`.
//!
//! A source reads the machine and changes nothing. Each runs on a thread of its own, is asked for one turn after another,
//! and hands its events on through one bounded channel. A source that fails says so in the stream and is tried again; the
//! others go on. What each did is counted in [`Statistics`].

mod runner;
mod statistics;

pub use runner::{End, Running, StartError};
pub use statistics::{SourceStatistics, Statistics};

use std::sync::atomic::AtomicBool;
use std::time::Duration;
use surefoot_model::Event;

/// How long a turn may take that waits for nothing of its own.
const PATIENCE: Duration = Duration::from_secs(60);

/// Something that reads the machine and tells of it in events.
pub trait Source {
    /// What opens its part of the stream.
    fn opening(&mut self) -> Vec<Event> {
        Vec::new()
    }

    /// One turn: waits for what there is to tell, or looks for it. Returns early when the [end is asked for](End::is_asked_for).
    ///
    /// # Errors
    /// One sentence without a full stop about what failed; the next turn tries again.
    fn turn(&mut self, end: &End) -> Result<Vec<Event>, String>;

    /// What closes its part of the stream.
    fn closing(&mut self) -> Vec<Event> {
        Vec::new()
    }

    /// A problem that keeps a part of it from working though its turns do not fail: one sentence without a full stop.
    fn problem(&self) -> Option<String> {
        None
    }

    /// Lines of what it reads that it could not use so far.
    fn unread_lines(&self) -> u64 {
        0
    }

    /// How long a turn may take. After that the source counts as failed until the turn ends.
    fn patience(&self) -> Duration {
        PATIENCE
    }

    /// How long it rests after a turn that took this long. One that waits within its turn rests not at all.
    fn rest(&self, _took: Duration) -> Duration {
        Duration::ZERO
    }
}

/// Starts a source, on the thread that it will run on.
pub type Start = Box<dyn FnOnce() -> Result<Box<dyn Source>, StartError> + Send>;

/// The sources of a run before it starts, in the order in which they open the stream.
pub struct Sources {
    planned: Vec<(&'static str, Start)>,
    start_patience: Duration,
}

impl Default for Sources {
    fn default() -> Self {
        Sources { planned: Vec::new(), start_patience: PATIENCE }
    }
}

impl Sources {
    /// No source at all.
    pub fn new() -> Self {
        Sources::default()
    }

    /// The same and one more.
    #[must_use]
    pub fn with(mut self, name: &'static str, start: Start) -> Self {
        self.planned.push((name, start));
        self
    }

    #[cfg(test)]
    fn starting_within(self, start_patience: Duration) -> Self {
        Sources { start_patience, ..self }
    }

    /// What the sources do, to be shown while they do it.
    pub fn statistics(&self) -> Statistics {
        Statistics::of(self.planned.iter().map(|(name, _)| *name))
    }

    /// Starts the sources one after another. They run until `stop` is set, or for this time from now. One that takes longer than
    /// a minute to start is reported as failed, and the others start.
    ///
    /// # Errors
    /// That of the first source that cannot start; those before it are ended.
    pub fn start(
        self,
        statistics: &Statistics,
        stop: &'static AtomicBool,
        duration: Option<Duration>,
    ) -> Result<Running, StartError> {
        Running::start(self.planned, statistics, stop, duration, self.start_patience)
    }
}
