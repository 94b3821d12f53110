//! A durable tier as a session sees it: what it is called, and what is on its way to it.

use crate::controller::Copies;
use crate::medium::{self, Medium};
use crate::session::tiers::drain::Drain;
use crate::tier::Durable;
use std::cell::Cell;
use std::time::{Duration, Instant};
use surefoot_model::CheckpointTier as Tier;

/// How long a tier is left alone after a write that failed; twice as long after each more in a row, up to the most. Each try
/// costs a copy's time on the drive, and a drive that fails does so for minutes or for good.
const REST: Duration = Duration::from_secs(60);
const REST_MAX: Duration = Duration::from_secs(3_600);

/// What is said of a tier that could not be opened. Unlike one to which writes fail, it is not tried again: the generations
/// there could not be counted, so what this run wrote could not be told from them.
const NOT_OPENED: &str = "TIER could not be opened when the job started, and is not tried again until it restarts";

/// How long a shared directory that seemed to be full is left alone.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// A durable tier of this rank.
pub struct Target {
    pub tier: Durable,
    pub kind: Tier,
    /// What it lies on; `None` where that could not be looked at.
    medium: Option<Medium>,
    /// The least durable kind that any rank's lies on.
    worst: medium::Kind,
    pub drain: Option<Drain>,
    /// What it got from this rank so far.
    pub copies: Copies,
    /// What could be written there when it was last looked at, and when that was.
    free: Cell<(Option<u64>, Instant)>,
    failing: Option<Failing>,
    /// Whether it is written down that this run has a complete checkpoint there.
    pub is_noted: bool,
}

/// Writes that failed, one after the other.
struct Failing {
    count: u32,
    /// When the tier is tried again.
    rests_until: Instant,
}

/// Which of a session's targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The durable tier: the SSD, or the shared directory where there is no SSD.
    Durable,
    /// The shared directory beside an SSD.
    Shared,
}

impl Target {
    pub fn new(tier: Durable, kind: Tier, medium: Option<Medium>) -> Self {
        let free = Cell::new((tier.free_bytes().ok(), Instant::now()));
        let worst = medium::Kind::of_number(medium::Kind::number(medium.as_ref()));
        Target {
            tier,
            kind,
            medium,
            worst,
            drain: None,
            copies: Copies::default(),
            free,
            failing: None,
            is_noted: false,
        }
    }

    /// Looks again at what it lies on, since another file system may be mounted there by now; returns its kind, for other
    /// ranks. A shared one is not looked at again: one that is away for a while holds up whoever does.
    pub fn look(&mut self) -> u64 {
        if self.kind != Tier::Shared {
            self.medium = Medium::of(self.tier.directory()).ok();
        }
        self.medium_number()
    }

    /// The kind that it was seen to lie on, for other ranks.
    pub fn medium_number(&self) -> u64 {
        medium::Kind::number(self.medium.as_ref())
    }

    /// Takes note of the worst that a rank has told of [`Target::look`].
    pub fn told(&mut self, worst: u64) {
        self.worst = medium::Kind::of_number(worst);
    }

    /// Whether a checkpoint of all ranks there survives the loss of power; `None` where that is not known of a rank's.
    pub fn is_durable(&self) -> Option<bool> {
        self.worst.is_durable()
    }

    /// Why nothing there is durable, where it is in memory, which the user permitted.
    pub fn is_volatile(&self) -> Option<String> {
        let directory = self.tier.directory().display();
        match &self.medium {
            _ if self.worst != medium::Kind::Memory => None,
            Some(Medium { kind: medium::Kind::Memory, said }) => {
                Some(format!("{directory} is in memory ({said}), so no copy there is durable"))
            }
            _ => Some(format!("{} of another rank is in memory, so no checkpoint is durable", self.kind.name())),
        }
    }

    /// The place within a sentence, with what is not known of it.
    pub fn place(&self) -> String {
        let place = self.kind.place();
        let kind = self.medium.as_ref().map_or(medium::Kind::Unknown, |medium| medium.kind);
        match (kind < self.worst).then_some(self.worst) {
            Some(medium::Kind::Memory) => {
                return format!("{place}, but that of another rank is in memory and not durable");
            }
            Some(_) => return format!("{place} (unknown medium on another rank)"),
            None => {}
        }
        match &self.medium {
            Some(Medium { kind: medium::Kind::Disk, .. }) => place.to_owned(),
            Some(Medium { kind: medium::Kind::Unknown, said }) => format!("{place} (unknown medium: {said})"),
            Some(Medium { kind: medium::Kind::Memory, said }) => {
                format!("in {}, which is in memory ({said}) and not durable", self.tier.directory().display())
            }
            None => format!("{place} (unknown medium: it could not be looked at)"),
        }
    }

    /// Whether all nodes see it.
    pub fn is_shared(&self) -> bool {
        self.kind == Tier::Shared
    }

    /// Takes note of a write that failed; says when the next is tried, if any is before the job restarts.
    pub fn failed(&mut self) -> String {
        let count = self.failing.as_ref().map_or(0, |failing| failing.count).saturating_add(1);
        let rest = REST.saturating_mul(1u32.checked_shl(count - 1).unwrap_or(u32::MAX)).min(REST_MAX);
        self.failing = Some(Failing { count, rests_until: Instant::now() + rest });
        let name = self.kind.name();
        if self.tier.fault().is_some() {
            return NOT_OPENED.replace("TIER", name);
        }
        let times = if count > 1 { format!("{count} writes in a row have failed; ") } else { String::new() };
        format!("{times}{name} is tried again in {} s, or at once where the program saves there", rest.as_secs())
    }

    /// Takes note of a write that arrived.
    pub fn worked(&mut self) {
        self.failing = None;
    }

    /// Why nothing is written to it for now, or until the job restarts.
    pub fn rest(&self) -> Option<String> {
        if self.tier.fault().is_some() {
            return Some(NOT_OPENED.replace("TIER", self.kind.name()));
        }
        let failing = self.failing.as_ref().filter(|failing| Instant::now() < failing.rests_until)?;
        let writes = match failing.count {
            1 => "the last write failed".to_owned(),
            count => format!("{count} writes in a row have failed"),
        };
        let left_s = failing.rests_until.saturating_duration_since(Instant::now()).as_secs_f64().ceil();
        Some(format!("{} is left alone, because {writes}; it is tried again in {left_s} s", self.kind.name()))
    }

    /// Lets the rest be over.
    #[cfg(test)]
    pub fn end_rest(&mut self) {
        self.failing.iter_mut().for_each(|failing| failing.rests_until = Instant::now());
    }

    /// When the newest one was taken that is there or on its way, seconds since the session began.
    pub fn last_written_s(&self, session_began: Instant) -> f64 {
        self.copies.last_written_s(self.drain.as_ref().map(|drain| drain.began_s(session_began)))
    }

    /// Bytes that can still be written, for one who needs so many; `None` where it cannot be said.
    ///
    /// A shared file system that is away for a while holds up whoever looks at it, and the program is to go on: it is
    /// looked at by the thread that writes to it, and by this one only when there seemed to be too little room, now and
    /// then.
    pub fn free_bytes(&self, needed_bytes: u64) -> Option<u64> {
        let (known, seen) = self.free.get();
        let is_enough = known.is_some_and(|known| known >= needed_bytes);
        if self.kind == Tier::Durable || (!is_enough && seen.elapsed() >= LOOK_AGAIN) {
            self.free.set((self.tier.free_bytes().ok(), Instant::now()));
        }
        self.free.get().0
    }

    /// Takes note of what the thread that wrote to it saw.
    pub fn saw_free_bytes(&self, free_bytes: Option<u64>) {
        self.free.set((free_bytes, Instant::now()));
    }
}
