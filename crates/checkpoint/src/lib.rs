//! Checkpoints that survive: in memory at memory speed, on the SSD as often as its endurance allows, verified and repaired
//! on restore.
//!
//! # Invariants
//! - What was reported as written comes back bit by bit, or its loss is reported; what fails its checks is never
//!   handed out.
//! - All ranks of a job take the same decision and restart from the same generation.
//! - A failed `fsync` is never tried again on the same file: what it was to make durable may be gone already.
//! - A failed save is reported and leaves the job running.
//! - No rank-to-rank library and no asynchronous runtime is used here: ranks talk through [`Group`].

pub mod config;
pub mod controller;
pub mod error;
pub mod generation;
pub mod group;
pub mod image;
pub mod inspect;
pub mod measure;
pub mod plan;
pub mod session;
pub mod sidecar;
pub mod simulate;
pub mod storage;
pub mod tier;

pub use config::{Config, DurableConfig, MemoryConfig, ParityConfig, SharedConfig};
pub use controller::{Controller, Decision, Place, Policy, Situation};
pub use error::Error;
pub use generation::{GenerationId, Manifest};
pub use group::{Alone, Group};
pub use session::{Checkpointer, Piece, Resized, Restored, Saved};
pub use storage::{Disk, Storage, StoredFile};
