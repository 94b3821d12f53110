//! A durable tier as a session sees it: what it is called, and what is on its way to it.

use super::drain::Drain;
use crate::controller::Copies;
use crate::tier::Durable;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// How long a shared directory that seemed to be full is left alone.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// A durable tier of this rank.
pub(super) struct Target {
    pub(super) tier: Durable,
    pub(super) kind: Kind,
    pub(super) drain: Option<Drain>,
    /// What it got from this rank so far.
    pub(super) copies: Copies,
    /// What could be written there when it was last looked at, and when that was.
    free: Cell<(Option<u64>, Instant)>,
}

/// What sort of directory it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// On the node's own drive.
    Ssd,
    /// One that all nodes see.
    Shared,
}

/// Which of a session's targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// The durable tier: the SSD, or the shared directory where there is no SSD.
    Durable,
    /// The shared directory beside an SSD.
    Shared,
}

impl Target {
    pub(super) fn new(tier: Durable, kind: Kind) -> Self {
        let free = Cell::new((tier.free_bytes().ok(), Instant::now()));
        Target { tier, kind, drain: None, copies: Copies::default(), free }
    }

    /// When the newest one was taken that is there or on its way, seconds since the session began.
    pub(super) fn last_written_s(&self, session_began: Instant) -> f64 {
        self.copies.last_written_s(self.drain.as_ref().map(|drain| drain.began_s(session_began)))
    }

    /// Bytes that can still be written, for one who needs so many; `None` where it cannot be said.
    ///
    /// A shared file system that is away for a while holds up whoever looks at it, and the program is to go on: it is
    /// looked at by the thread that writes to it, and by this one only when there seemed to be too little room, now and
    /// then.
    pub(super) fn free_bytes(&self, needed_bytes: u64) -> Option<u64> {
        let (known, seen) = self.free.get();
        let is_enough = known.is_some_and(|known| known >= needed_bytes);
        if self.kind == Kind::Ssd || (!is_enough && seen.elapsed() >= LOOK_AGAIN) {
            self.free.set((self.tier.free_bytes().ok(), Instant::now()));
        }
        self.free.get().0
    }

    /// Takes note of what the thread that wrote to it saw.
    pub(super) fn saw_free_bytes(&self, free_bytes: Option<u64>) {
        self.free.set((free_bytes, Instant::now()));
    }
}

impl Kind {
    /// In the middle of a sentence.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Ssd => "the SSD",
            Kind::Shared => "the shared directory",
        }
    }

    /// With its preposition.
    pub(super) fn place(self) -> &'static str {
        match self {
            Kind::Ssd => "on the SSD",
            Kind::Shared => "in the shared directory",
        }
    }
}
