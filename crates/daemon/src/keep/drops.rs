use schemars::JsonSchema;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The least time between two notices about the same trouble.
const NOTICE_PERIOD: Duration = Duration::from_secs(60);

/// What was lost on the way, by place; each count grows only.
#[derive(Debug, Default)]
pub(crate) struct Drops {
    /// Events that found the queue of the server full.
    pub(crate) queue: AtomicU64,
    /// Events that the history did not keep.
    pub(crate) history: AtomicU64,
    /// Events that slow live clients missed, summed over the clients.
    pub(crate) live: AtomicU64,
    /// Events too large to be kept in memory.
    pub(crate) oversized: AtomicU64,
    /// Times that `health.json` could not be written.
    pub(crate) health: AtomicU64,
    /// Short gaps that made room in memory for newer and longer ones.
    pub(crate) short_gaps: AtomicU64,
    /// Findings beyond those that are told of.
    pub(crate) findings: AtomicU64,
    /// Events that the kernel's side overwrote before they were read.
    pub(crate) kernel: AtomicU64,
    /// Snapshots of a core that could not be read consistently.
    pub(crate) torn: AtomicU64,
}

/// [`Drops`] with those of the sources, at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Dropped {
    pub(crate) queue: u64,
    pub(crate) history: u64,
    pub(crate) live: u64,
    pub(crate) oversized: u64,
    pub(crate) health: u64,
    pub(crate) short_gaps: u64,
    pub(crate) findings: u64,
    pub(crate) kernel: u64,
    pub(crate) torn: u64,
    /// Events that found the channel of the sources full.
    pub(crate) sources: u64,
}

impl Drops {
    /// The counts now, with those of the sources' channel.
    pub(crate) fn now(&self, sources: u64) -> Dropped {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Dropped {
            queue: count(&self.queue),
            history: count(&self.history),
            live: count(&self.live),
            oversized: count(&self.oversized),
            health: count(&self.health),
            short_gaps: count(&self.short_gaps),
            findings: count(&self.findings),
            kernel: count(&self.kernel),
            torn: count(&self.torn),
            sources,
        }
    }
}

impl Dropped {
    /// Every count with the word for its place.
    pub(crate) fn by_place(&self) -> [(&'static str, u64); 10] {
        [
            ("kernel", self.kernel),
            ("torn", self.torn),
            ("sources", self.sources),
            ("queue", self.queue),
            ("history", self.history),
            ("live", self.live),
            ("short_gaps", self.short_gaps),
            ("oversized", self.oversized),
            ("health", self.health),
            ("findings", self.findings),
        ]
    }

    /// Events that this process lost before anybody could see them; what the kernel's side lost, each window says.
    pub(crate) fn unseen(&self) -> u64 {
        [self.sources, self.queue, self.oversized].into_iter().fold(0, u64::saturating_add)
    }
}

/// Adds to a count that grows only and stops at its end.
pub(crate) fn add(counter: &AtomicU64, more: u64) {
    let grown = |count: u64| Some(count.saturating_add(more));
    // The closure always gives a value.
    let _ = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown);
}

/// Lets a repeated notice through at most once a minute, so that it does not push the others out.
#[derive(Debug, Default)]
pub(crate) struct Seldom(Option<Instant>);

impl Seldom {
    pub(crate) fn is_due(&mut self) -> bool {
        let due = self.0.is_none_or(|last| last.elapsed() >= NOTICE_PERIOD);
        if due {
            self.0 = Some(Instant::now());
        }
        due
    }
}
