use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Between turns.
const RESTS_NS: u64 = u64::MAX;
/// In a turn that takes too long.
const LATE_NS: u64 = u64::MAX - 1;

/// What each source of a run has done so far; shared with whoever shows it.
#[derive(Debug, Clone, Default)]
pub struct Statistics(Arc<[SourceStatistics]>);

/// What one source has done so far. Each count grows only.
#[derive(Debug)]
pub struct SourceStatistics {
    /// The source's name.
    pub name: &'static str,
    is_failed: AtomicBool,
    /// When its turn is overdue, `CLOCK_MONOTONIC`; [`RESTS_NS`] between turns, [`LATE_NS`] once that was told.
    due_ns: AtomicU64,
    turns: AtomicU64,
    failures: AtomicU64,
    duration_ns: AtomicU64,
    events: AtomicU64,
    dropped: AtomicU64,
    unread_lines: AtomicU64,
}

impl Statistics {
    pub(super) fn of(names: impl Iterator<Item = &'static str>) -> Self {
        let zero = |name| SourceStatistics {
            name,
            is_failed: AtomicBool::new(false),
            due_ns: AtomicU64::new(RESTS_NS),
            turns: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            duration_ns: AtomicU64::new(0),
            events: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            unread_lines: AtomicU64::new(0),
        };
        Statistics(names.map(zero).collect())
    }

    /// The sources, in the order in which they open the stream.
    pub fn sources(&self) -> &[SourceStatistics] {
        &self.0
    }

    /// Lines that a source could not use so far; 0 where there is no source of this name.
    pub fn unread_lines_of(&self, name: &str) -> u64 {
        self.0.iter().find(|source| source.name == name).map_or(0, SourceStatistics::unread_lines)
    }

    /// Events of all sources that found the channel full.
    pub fn dropped(&self) -> u64 {
        self.0.iter().fold(0, |sum, source| sum.saturating_add(source.dropped()))
    }
}

impl SourceStatistics {
    /// Whether its last turn failed.
    pub fn is_failed(&self) -> bool {
        self.is_failed.load(Ordering::Relaxed)
    }

    /// Turns that have ended, the failed ones included.
    pub fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// Turns that failed.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Time within turns, waiting included, nanoseconds.
    pub fn duration_ns(&self) -> u64 {
        self.duration_ns.load(Ordering::Relaxed)
    }

    /// Events handed on.
    pub fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// Events that found the channel full.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Lines of what it reads that it could not use.
    pub fn unread_lines(&self) -> u64 {
        self.unread_lines.load(Ordering::Relaxed)
    }

    /// A turn begins that should have ended by this time.
    pub(super) fn turns_until(&self, due_ns: u64) {
        self.due_ns.store(due_ns.min(LATE_NS - 1), Ordering::Relaxed);
    }

    /// Its turn has ended; whether it was overdue.
    pub(super) fn rests(&self) -> bool {
        self.due_ns.swap(RESTS_NS, Ordering::Relaxed) == LATE_NS
    }

    /// Whether its turn was found overdue and goes on.
    pub(super) fn hangs(&self) -> bool {
        self.due_ns.load(Ordering::Relaxed) == LATE_NS
    }

    /// Whether its turn is overdue, the first time that this is asked.
    pub(super) fn is_overdue(&self, now_ns: u64) -> bool {
        let due_ns = self.due_ns.load(Ordering::Relaxed);
        let is_overdue = due_ns < LATE_NS
            && now_ns > due_ns
            // Unless the turn ended meanwhile.
            && self.due_ns.compare_exchange(due_ns, LATE_NS, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_overdue {
            self.is_failed.store(true, Ordering::Relaxed);
        }
        is_overdue
    }

    pub(super) fn turned(&self, took: Duration, is_failed: bool) {
        self.is_failed.store(is_failed, Ordering::Relaxed);
        self.turns.fetch_add(1, Ordering::Relaxed);
        self.failures.fetch_add(u64::from(is_failed), Ordering::Relaxed);
        self.duration_ns.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn could_not_use(&self, unread_lines: u64) {
        self.unread_lines.store(unread_lines, Ordering::Relaxed);
    }

    pub(super) fn handed_on(&self, count: usize) {
        self.events.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(super) fn dropped_some(&self, count: usize) {
        self.dropped.fetch_add(count as u64, Ordering::Relaxed);
    }
}
