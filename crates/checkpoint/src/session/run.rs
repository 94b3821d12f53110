//! Where a run of a job is in its line of checkpoints.

use crate::generation::{Age, GenerationId};
use crate::session::clock;
use std::time::Instant;
use surefoot_model::CheckpointTier as Tier;

/// The latest epoch that the wall clock gives a run, in the year 2262. Beyond it a run counts on from the newest one that it
/// found, so that no clock leaves the runs after it without room.
const EPOCH_OF_CLOCK_MAX: u64 = u64::MAX / 2;

/// The highest number of a generation that a run counts on from: one at the end of its range leaves no room for the next.
const NUMBER_FOUND_MAX: u64 = u64::MAX / 2;

/// One run, as a rank knows it.
#[derive(Default)]
pub(super) struct Run {
    /// This run, later than every one that it found.
    pub(super) epoch: u64,
    /// The highest number that any rank has seen.
    pub(super) number: u64,
    /// The newest checkpoint that this session took or came back to, and when.
    pub(super) newest: Option<(GenerationId, Instant)>,
    /// Which this rank read last at a restart, and where.
    pub(super) read_from: Option<(Tier, GenerationId)>,
    /// What it came back to and has not saved after: until then nothing newer is forgotten.
    pub(super) came_back_to: Option<GenerationId>,
    /// The highest number of an earlier run's checkpoints, as long as the program neither asked for one nor saved.
    pub(super) unasked: Option<u64>,
    /// The number up to which checkpoints are of a run that was completed; 0 where none was.
    pub(super) completed: Age,
    /// How many were taken before it came back from a checkpoint of another number of ranks, or of ranks that ran on other
    /// nodes, whose memory is to be given back.
    pub(super) resized_at: Option<u64>,
    /// Whether this session did more than to read what is there; until then it leaves nothing of its own.
    pub(super) is_used: bool,
    /// What the host's health said of memory that lost bits when this rank's copies in it were last verified; empty for nothing.
    pub(super) suspect: String,
}

impl Run {
    /// The epoch of a run that begins now and has found this one: later than it, wherever the clock was or is.
    fn epoch_after(found: u64) -> u64 {
        clock::realtime_ns().min(EPOCH_OF_CLOCK_MAX).max(found.saturating_add(1))
    }

    /// The highest number and the epoch of a run that begins now and has seen these.
    pub(super) fn after(seen: Age) -> [u64; 2] {
        [seen.generation.number.min(NUMBER_FOUND_MAX), Run::epoch_after(seen.epoch)]
    }

    /// Takes note of a checkpoint that is there: what this run takes is newer.
    pub(super) fn goes_on_after(&mut self, found: Age) {
        self.number = self.number.max(found.generation.number.min(NUMBER_FOUND_MAX));
        self.epoch = self.epoch.max(found.epoch.saturating_add(1));
    }
}
