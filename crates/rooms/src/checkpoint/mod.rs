//! Checkpoints of jobs: what lies in the directories that were named, what jobs decided, and how worn the drives are.

pub mod findings;
pub mod ids;
pub(crate) mod rules;
pub mod state;
pub mod view;

pub use state::State;
pub use view::{Answer, JobView, JournalState};

/// Jobs that are told of.
pub const JOBS_MAX: usize = 64;
/// Generations, and lines of journals, of all jobs together.
pub const ROWS_MAX: usize = 8_000;
/// Generations, and lines of its journal, of one job.
pub const ROWS_OF_JOB_MAX: usize = 1_200;
