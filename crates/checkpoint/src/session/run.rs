//! Where a run of a job is in its line of checkpoints.

use super::finish::NOT_COMPLETED;
use crate::generation::{Age, GenerationId};
use std::time::Instant;

/// One run, as a rank knows it.
pub(super) struct Run {
    /// This run, later than every one that it found.
    pub(super) epoch: u64,
    /// The highest number that any rank has seen.
    pub(super) number: u64,
    /// The newest checkpoint that this session took or came back to, and when.
    pub(super) newest: Option<(GenerationId, Instant)>,
    /// What it came back to and has not saved after: until then nothing newer is forgotten.
    pub(super) came_back_to: Option<GenerationId>,
    /// The highest number of an earlier run's checkpoints, as long as the program neither asked for one nor saved.
    pub(super) unasked: Option<u64>,
    /// The number up to which checkpoints are of a run that was completed; 0 where none was.
    pub(super) completed: Age,
    /// How many were taken before it came back from a checkpoint of another number of ranks, or of ranks that ran on other
    /// nodes, whose memory is to be given back.
    pub(super) resized_at: Option<u64>,
    pub(super) is_placement_written: bool,
}

impl Default for Run {
    fn default() -> Self {
        Run {
            epoch: 0,
            number: 0,
            newest: None,
            came_back_to: None,
            unasked: None,
            completed: NOT_COMPLETED,
            resized_at: None,
            is_placement_written: false,
        }
    }
}
