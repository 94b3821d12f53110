//! What can go wrong, each with its file or option.

use std::io;
use std::path::{Path, PathBuf};
use surefoot_heal::error::said;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file system said no.
    #[error("cannot {action} {}: {}", path.display(), said(source))]
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
    /// A setting that a file or a variable says cannot be used.
    #[error("{place}: {why}")]
    Setting {
        /// The file with its line, or the variable.
        place: String,
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
    /// The ranks could not go on together: one does not answer, or is in another call. The session takes no more calls of all
    /// ranks.
    #[error("group communication failed: {why}")]
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
    #[error("{}: {needed_bytes} bytes are needed, {available_bytes} are free: make room there, or name another directory", path.display())]
    NoRoom {
        /// Where.
        path: PathBuf,
        /// What is needed.
        needed_bytes: u64,
        /// What is there.
        available_bytes: u64,
    },
    /// There is no slot of memory to write to.
    #[error("{}: no slot can take another checkpoint: {why}", path.display())]
    NoSlot {
        /// Where.
        path: PathBuf,
        /// What holds them, and what can be done.
        why: String,
    },
    /// A checkpoint was asked for, and no tier can take it: there is none newer than before.
    #[error("no checkpoint was taken since {age_s:.0} s: {why}")]
    NoTier {
        /// Seconds since the last that was taken, or since the start.
        age_s: f64,
        /// What keeps it from each tier.
        why: String,
    },
}

impl Error {
    /// What it says without the words that every error of its kind begins with: for one that goes on with it.
    pub(crate) fn reason(&self) -> String {
        match self {
            Error::NothingIntact { why } => why.clone(),
            other => other.to_string(),
        }
    }

    /// As [`Error::reason`], of one that the layer between the ranks returned.
    pub(crate) fn group_reason(&self) -> String {
        match self {
            Error::Group { why } => why.clone(),
            other => other.to_string(),
        }
    }

    /// Whether it says that a tier cannot be used, which the other tiers are no worse for. That another process runs the
    /// same rank is no such error.
    pub(crate) fn is_of_its_tier(&self) -> bool {
        matches!(self, Error::Storage { source, .. } if source.kind() != io::ErrorKind::WouldBlock)
    }

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

/// Those of the bytes stay what they are: who reads or matches an error need not know which crate it comes from.
impl From<surefoot_heal::Error> for Error {
    fn from(error: surefoot_heal::Error) -> Self {
        use surefoot_heal::Error as Bytes;
        match error {
            Bytes::Storage { action, path, source } => Error::Storage { action, path, source },
            Bytes::Option { option, why } => Error::Option { option, why },
            Bytes::Damaged { path, why } => Error::Damaged { path, why },
            Bytes::NoRoom { path, needed_bytes, available_bytes } => {
                Error::NoRoom { path, needed_bytes, available_bytes }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_bytes_says_the_same_here() {
        use surefoot_heal::Error as Bytes;
        let path = || PathBuf::from("/ssd/job/x");
        let source = || io::Error::from_raw_os_error(libc::ENOSPC);
        let both = [
            Bytes::storage("write", &path())(source()),
            Bytes::Option { option: "image", why: "why".into() },
            Bytes::Damaged { path: path(), why: "why".into() },
            Bytes::NoRoom { path: path(), needed_bytes: 2, available_bytes: 1 },
        ]
        .map(|error| (error.to_string(), Error::from(error)));
        for (text, error) in &both {
            assert_eq!(*text, error.to_string());
        }
        assert!(matches!(both[0].1, Error::Storage { action: "write", .. }));
        assert!(matches!(both[3].1, Error::NoRoom { needed_bytes: 2, available_bytes: 1, .. }));
    }
}
