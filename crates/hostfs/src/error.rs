use std::io;
use std::path::{Path, PathBuf};
use surefoot_foreign::said;

/// What can go wrong while reading the host. Every variant names the file or the call.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be opened or read.
    #[error("cannot read {}: {}", path.display(), said(source))]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is longer than anything the kernel writes there.
    #[error("{} is longer than {limit_bytes} bytes and was not read", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit_bytes: u64,
    },
    /// A file does not have the format that the kernel documents.
    #[error("{}, line {line}: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A list of cores such as `0-3,8` cannot be understood.
    #[error("'{list}' is not a list of cores: {reason}")]
    CpuList {
        /// The list as it was given, shortened to 80 characters.
        list: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A system call failed.
    #[error("cannot {action}: {}{remedy}", said(source))]
    System {
        /// What was tried, to follow "cannot".
        action: String,
        /// Why it failed.
        source: io::Error,
        /// What to do about it, with its own punctuation in front; may be empty.
        remedy: &'static str,
    },
}

impl Error {
    /// Whether the thing is simply not there: the file is missing, or the device behind it is.
    pub fn is_absent(&self) -> bool {
        match self {
            Error::Read { source, .. } | Error::System { source, .. } => {
                matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
                    || matches!(source.raw_os_error(), Some(libc::ENXIO | libc::ENODEV))
            }
            _ => false,
        }
    }

    /// Whether there is a symbolic link where [`crate::Root::open_plain`] wants a file.
    pub fn is_link(&self) -> bool {
        matches!(self, Error::Read { source, .. } if source.raw_os_error() == Some(libc::ELOOP))
    }

    /// Whether more privilege would help.
    pub fn is_denied(&self) -> bool {
        match self {
            Error::Read { source, .. } | Error::System { source, .. } => {
                source.kind() == io::ErrorKind::PermissionDenied
            }
            _ => false,
        }
    }

    pub(crate) fn malformed(path: impl Into<PathBuf>, line: usize, reason: impl Into<String>) -> Self {
        Error::Malformed { path: path.into(), line, reason: reason.into() }
    }

    pub(crate) fn last_system(action: impl Into<String>, remedy: &'static str) -> Self {
        Error::System { action: action.into(), source: io::Error::last_os_error(), remedy }
    }

    /// Replaces the documented path of a parser by the file that was really read.
    pub(crate) fn in_file(self, real: &Path) -> Self {
        match self {
            Error::Malformed { line, reason, .. } => Error::Malformed { path: real.to_path_buf(), line, reason },
            other => other,
        }
    }
}

/// A source of data that this host does not have. Not an error: the answer to "is it there?".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Unsupported {
    /// Why, in one sentence without a full stop.
    pub why: String,
    /// What the user can do about it; empty when nothing helps.
    pub remedy: String,
}

impl Unsupported {
    /// A reason and a remedy; an empty remedy when nothing helps.
    pub fn new(why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Unsupported { why: why.into(), remedy: remedy.into() }
    }
}

/// Shortens text from outside, so that an error message stays one line.
pub(crate) fn shorten(text: &str) -> String {
    const LONGEST: usize = 80;
    let mut short: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST).collect();
    if text.chars().nth(LONGEST).is_some() {
        short.push('…');
    }
    short
}
