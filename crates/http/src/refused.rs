//! Clients that were turned away, counted by why: who is refused without an answer can see no reason, and who runs the server would see
//! nothing at all.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why somebody was turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// There was no place for another connection, of all or of its address or user.
    NoPlace,
    /// TLS did not begin: too slow, broken off, or with a certificate that is not valid here.
    Handshake,
    /// Nobody known: no token or certificate that has a role.
    Unknown,
    /// The role does not show this.
    Role,
    /// Too many requests.
    Rate,
}

impl Why {
    /// Every reason.
    pub const ALL: [Why; 5] = [Why::NoPlace, Why::Handshake, Why::Unknown, Why::Role, Why::Rate];

    /// The word in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Why::NoPlace => "no_place",
            Why::Handshake => "handshake",
            Why::Unknown => "unknown",
            Why::Role => "role",
            Why::Rate => "rate",
        }
    }
}

/// How often.
#[derive(Debug, Default)]
pub struct Refused([AtomicU64; Why::ALL.len()]);

impl Refused {
    /// One more.
    pub fn count(&self, why: Why) {
        self.0[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The counts by reason, those that are 0 too.
    pub fn by_reason(&self) -> impl Iterator<Item = (Why, u64)> {
        Why::ALL.into_iter().map(|why| (why, self.0[why as usize].load(Ordering::Relaxed)))
    }
}
