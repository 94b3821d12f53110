//! What can go wrong, each with its file or option.

use std::io;
use std::path::{Path, PathBuf};

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file system said no.
    #[error("cannot {action} {}: {source}", path.display())]
    Storage {
        /// What was tried, as a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A setting cannot be used.
    #[error("{option}: {why}")]
    Option {
        /// Its name.
        option: &'static str,
        /// Why, and what would do.
        why: String,
    },
    /// A file that is there is not what it should be.
    #[error("{}: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The ranks could not agree, because one does not answer.
    #[error("ranks cannot talk: {why}")]
    Group {
        /// What the layer between the ranks said.
        why: String,
    },
    /// It failed on another rank, and so on all.
    #[error("rank {rank} failed: {why}")]
    OtherRank {
        /// Which.
        rank: u32,
        /// At what.
        why: String,
    },
    /// No generation can be proved intact on all ranks.
    #[error("no checkpoint can be restored: {why}")]
    NothingIntact {
        /// What each candidate failed at.
        why: String,
    },
    /// The newest checkpoint was saved by another number of ranks.
    #[error(
        "generation {number} was saved by {saved} ranks, and this job has {ranks}: restart it with `restart_resized`, run \
         it with {saved} ranks, or under another name"
    )]
    OtherRanks {
        /// Its number.
        number: u64,
        /// How many saved it.
        saved: u32,
        /// How many there are.
        ranks: u32,
    },
    /// There is not enough room.
    #[error("{}: {needed_bytes} bytes are needed, {available_bytes} are free", path.display())]
    NoRoom {
        /// Where.
        path: PathBuf,
        /// What is needed.
        needed_bytes: u64,
        /// What is there.
        available_bytes: u64,
    },
    /// A checkpoint was asked for, and no tier can take it: there is none newer than before.
    #[error("no checkpoint was taken, the newest is {age_s:.0} s old: {why}")]
    NoTier {
        /// Seconds since the last that was taken, or since the start.
        age_s: f64,
        /// What keeps it from each tier.
        why: String,
    },
}

impl Error {
    /// Whether it says no more than that a file is not there.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(self, Error::Storage { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// A storage error of this action on this path; for `map_err`.
    pub fn storage(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::Storage { action, path, source }
    }
}
