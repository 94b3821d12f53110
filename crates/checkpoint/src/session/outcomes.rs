//! What calls of a session return.

use crate::controller::Decision;
use crate::generation::GenerationId;

/// A checkpoint that was taken, or the decision to take none.
#[derive(Debug, Clone, PartialEq)]
pub struct Saved {
    /// Which one it is; `None` when none was taken.
    pub generation: Option<GenerationId>,
    /// Where it went, and why. With [`crate::Place::Both`], it is in memory now and on its way to the durable tier.
    pub decision: Decision,
    /// Bytes of this rank's payload.
    pub payload_bytes: u64,
    /// Seconds that this call took.
    pub visible_s: f64,
}

/// A checkpoint that was brought back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Which.
    pub generation: GenerationId,
    /// When it was taken, `CLOCK_REALTIME` nanoseconds.
    pub taken_realtime_ns: u64,
    /// What this rank met: where it read, what it repaired, what it refused before. One line.
    pub report: String,
}

/// Where the newest checkpoint of a job is after [`crate::Checkpointer::finish`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The newest that this session took, or came back to; `None` where it has none.
    pub generation: Option<GenerationId>,
    /// Whether it survives the loss of power; `None` where the medium of a rank's durable tier is not known, see `said`.
    pub is_durable: Option<bool>,
    /// The same in words, one line; where it is not durable, why not.
    pub said: String,
}
