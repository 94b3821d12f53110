//! A durable tier as a session sees it: what it is called, and what is on its way to it.

use super::drain::Drain;
use crate::tier::Durable;

/// A durable tier of this rank.
pub(super) struct Target {
    pub(super) tier: Durable,
    pub(super) kind: Kind,
    pub(super) drain: Option<Drain>,
    /// Bytes that it took from this rank so far.
    pub(super) bytes: u64,
    /// Seconds from taking a checkpoint until it was written there, measured.
    pub(super) drain_s: Option<f64>,
    /// When the newest one there was taken, seconds since the session began.
    pub(super) last_s: f64,
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
        Target { tier, kind, drain: None, bytes: 0, drain_s: None, last_s: 0.0 }
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
