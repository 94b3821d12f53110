//! What a job wants of its checkpoints.

use crate::controller::{Drive, Policy, Surefoot};
use crate::image::Protection;
use crate::tier::DurableOptions;
use std::path::PathBuf;

/// The memory tier.
#[derive(Debug, Clone)]
pub struct MemoryConfig {
    /// A directory on a memory file system.
    pub directory: PathBuf,
    /// Slots of each rank. Two keep the newest checkpoint while the next is written; a third lets one be on its way to
    /// the durable tier meanwhile.
    pub slots: usize,
    /// What protects a checkpoint in memory.
    pub protection: Protection,
}

/// The durable tier.
#[derive(Debug, Clone)]
pub struct DurableConfig {
    /// A directory on the SSD.
    pub directory: PathBuf,
    /// How it writes.
    pub options: DurableOptions,
    /// Its drive's endurance, where the user says it or it was read; `None` holds nothing back.
    pub drive: Option<Drive>,
}

/// Settings of a job; the same on all ranks.
#[derive(Debug, Clone)]
pub struct Config {
    /// The job's name, which becomes a directory in each tier.
    pub job: String,
    /// The memory tier; at least one tier is needed.
    pub memory: Option<MemoryConfig>,
    /// The durable tier.
    pub durable: Option<DurableConfig>,
    /// What decides where a checkpoint goes.
    pub policy: Policy,
    /// The host's health, as the daemon publishes it; no file says nothing.
    pub health_file: PathBuf,
}

impl Config {
    /// A job with both tiers and the default policy.
    pub fn new(job: impl Into<String>, memory: impl Into<PathBuf>, durable: Option<PathBuf>) -> Self {
        Config {
            job: job.into(),
            memory: Some(MemoryConfig {
                directory: memory.into(),
                slots: if durable.is_some() { 3 } else { 2 },
                protection: Protection::Shard,
            }),
            durable: durable.map(|directory| DurableConfig {
                directory,
                options: DurableOptions::default(),
                drive: None,
            }),
            policy: Policy::Surefoot(Surefoot::default()),
            health_file: PathBuf::from("/run/surefoot/health.json"),
        }
    }
}
