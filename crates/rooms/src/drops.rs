//! What a watch loses on the way, counted by place.

use schemars::JsonSchema;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};

/// What was lost on the way, by place; each count grows only.
#[derive(Debug, Default)]
pub struct Drops {
    /// Events that found the queue of the server full.
    pub queue: AtomicU64,
    /// Events that the history did not keep.
    pub history: AtomicU64,
    /// Events that slow live clients missed, summed over the clients.
    pub live: AtomicU64,
    /// Events too large to be kept in memory.
    pub oversized: AtomicU64,
    /// Times that `health.json` could not be written.
    pub health: AtomicU64,
    /// Short gaps that made room in memory for newer and longer ones.
    pub short_gaps: AtomicU64,
    /// Findings beyond those that are told of.
    pub findings: AtomicU64,
    /// Events that the kernel's side overwrote before they were read.
    pub kernel: AtomicU64,
    /// Snapshots of a core that could not be read consistently.
    pub torn: AtomicU64,
}

/// [`Drops`] with those of the sources, at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[allow(missing_docs, reason = "as in Drops")]
pub struct Dropped {
    pub queue: u64,
    pub history: u64,
    pub live: u64,
    pub oversized: u64,
    pub health: u64,
    pub short_gaps: u64,
    pub findings: u64,
    pub kernel: u64,
    pub torn: u64,
    /// Events that found the channel of the sources full.
    pub sources: u64,
}

impl Drops {
    /// The counts now, with those of the sources' channel.
    pub fn now(&self, sources: u64) -> Dropped {
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
    pub fn by_place(&self) -> [(&'static str, u64); 10] {
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
    pub fn unseen(&self) -> u64 {
        [self.sources, self.queue, self.oversized].into_iter().fold(0, u64::saturating_add)
    }
}

/// Adds to a count that grows only and stops at its end.
pub fn add(counter: &AtomicU64, more: u64) {
    let grown = |count: u64| Some(count.saturating_add(more));
    // The closure always gives a value.
    let _ = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown);
}
