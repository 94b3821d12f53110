//! What lies in the directories of checkpoints, looked at every few seconds by a thread of its own.
//!
//! Directories, manifests and journals belong to whoever may write there, so that nothing in them is trusted and every
//! look has an end: so many copies, jobs, lines, bytes, seconds. Nothing here writes or takes a lock.

mod drives;
mod fold;
mod locks;
mod look;
mod mounts;
mod series;
mod shape;

pub(crate) use series::encode;
pub(crate) use shape::Answer;

use crate::config::Config;
use axum::body::Bytes;
use look::Looker;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use surefoot_hostfs::Root;

/// The time between two looks, at least.
const PERIOD: Duration = Duration::from_secs(2);
/// A look that takes long is followed by a rest of so many times that, so that looking costs a tenth of a core at most.
const REST_FACTOR: u32 = 9;
/// How often a resting thread looks whether it should end.
const WAIT: Duration = Duration::from_millis(50);

/// What to do where nobody named a directory.
const NOT_NAMED: &str = "nobody said where checkpoints lie; start with: surefoot watch --checkpoints DIR";

/// The same of a recording.
const NOT_RECORDED: &str = "a recording holds no checkpoints; look at those of a running host";

/// The newest look, as the routes and the metrics want it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// The answer's text; empty before the first look.
    pub(crate) body: Bytes,
    /// The same as data.
    pub(crate) answer: Arc<Answer>,
}

/// The checkpoints of this host, as far as directories are named.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    directories: Vec<PathBuf>,
    root: Root,
    why: Option<&'static str>,
    seen: Mutex<Seen>,
    is_closed: AtomicBool,
}

impl Checkpoints {
    pub(crate) fn new(config: &Config) -> Self {
        let is_live = config.mode == crate::Mode::Live;
        let why = match (is_live, config.checkpoints.is_empty()) {
            (false, _) => Some(NOT_RECORDED),
            (true, true) => Some(NOT_NAMED),
            (true, false) => None,
        };
        let directories = if is_live { config.checkpoints.clone() } else { Vec::new() };
        let checkpoints = Checkpoints {
            directories,
            root: config.root.clone(),
            why,
            seen: Mutex::default(),
            is_closed: AtomicBool::new(false),
        };
        // So that there is an answer before the first look has come to its end.
        checkpoints.take(Answer::before_the_first(&checkpoints.directories, why));
        checkpoints
    }

    /// Whether there is anything to look at.
    pub(crate) fn is_watched(&self) -> bool {
        self.why.is_none()
    }

    /// Looks again and again until it is closed.
    pub(crate) fn run(&self) {
        let looker = Looker::new(self.root.clone(), self.directories.clone());
        while !self.is_closed.load(Ordering::Relaxed) {
            let begun = Instant::now();
            self.take(looker.look());
            let rest = PERIOD.max(begun.elapsed() * REST_FACTOR);
            let next = Instant::now() + rest;
            while Instant::now() < next && !self.is_closed.load(Ordering::Relaxed) {
                std::thread::sleep(WAIT);
            }
        }
    }

    /// Lets [`Checkpoints::run`] end.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// The newest look.
    pub(crate) fn seen(&self) -> Seen {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A sentence for each running job whose durable copy is older than its bound.
    pub(crate) fn stale(&self, now_realtime_ns: u64) -> Vec<String> {
        self.seen().answer.stale(now_realtime_ns)
    }

    fn take(&self, answer: Answer) {
        let (answer, body) = answer.within_limit();
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Seen { body, answer: Arc::new(answer) };
    }
}

/// `CLOCK_REALTIME`, nanoseconds.
pub(crate) fn realtime_ns() -> u64 {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX)
}
