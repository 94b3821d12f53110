//! What a directory is good for, by the file system that it lies on.

use std::path::Path;
use surefoot_hostfs::mounts::{Mount, Mounts};
use surefoot_model::CheckpointTier;

/// Whether several nodes may share a directory, whose path has no links.
pub(super) fn is_shared(mounts: &Mounts, path: &Path) -> bool {
    mounts.on(path).is_some_and(Mount::is_shared)
}

/// The tier that a directory without checkpoints would make.
pub(super) fn tier(mounts: &Mounts, path: &Path) -> Option<CheckpointTier> {
    let mount = mounts.on(path)?;
    Some(match () {
        () if mount.is_in_memory() => CheckpointTier::Memory,
        () if mount.is_shared() => CheckpointTier::Shared,
        () => CheckpointTier::Durable,
    })
}
