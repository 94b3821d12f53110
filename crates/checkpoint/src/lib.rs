//! Checkpoints that survive: in memory at memory speed, on the SSD as often as its endurance allows, verified and repaired
//! on restore.
//!
//! # Invariants
//! - What was reported as written comes back bit by bit, or its loss is reported; what fails its checks is never
//!   handed out.
//! - All ranks of a job take the same decision and restart from the same generation.
//! - A failed `fsync` is never tried again on the same file: what it was to make durable may be gone already.
//! - A removal takes what is known to be the job's, of the user who asks, and never of a job that runs.
//! - A failed save is reported and leaves the job running.
//! - No rank-to-rank library and no asynchronous runtime is used here: ranks talk through [`Group`].
//! - What ranks say to each other while a job runs does not grow with their number: see [`session::scale`].
//!
//! # Where to look
//! A job's checkpoints are a [`Checkpointer`], in `session/mod.rs`, which says where the rest is. Whether the next one goes
//! to the SSD is asked in `session/schedule/decide.rs` and answered by [`Controller`].

pub mod config;
pub mod error;
pub mod generation;
pub mod group;
pub mod inspect;
pub mod measure;
pub mod medium;
pub mod session;
pub mod settings;
#[cfg(test)]
pub(crate) mod testing;
pub mod tier;

pub use config::{Config, DurableConfig, MemoryConfig, ParityConfig, SharedConfig};
pub use surefoot_heal::{image, storage};
pub use surefoot_placement::{controller, plan, simulate};

pub use controller::{Controller, Decision, Place, Policy, Situation};
pub use error::Error;
pub use generation::{GenerationId, Manifest};
pub use group::{Alone, Group};
pub use session::{Checkpointer, Finished, Piece, Resized, Restored, Saved};
pub use storage::{Disk, Storage, StoredFile};
