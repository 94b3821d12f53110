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

    /// As [`exhausted`]: that the call failed says nothing of the host.
    pub fn exhausted(&self) -> Option<&'static str> {
        match self {
            Error::Read { source, .. } | Error::System { source, .. } => exhausted(source),
            _ => None,
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

    /// A file, the line counted from 1, and what is wrong with it.
    pub fn malformed(path: impl Into<PathBuf>, line: usize, reason: impl Into<String>) -> Self {
        Error::Malformed { path: path.into(), line, reason: reason.into() }
    }

    /// The system call of this thread that has just failed: what it was for, to follow "cannot", and the remedy with its own punctuation.
    pub fn last_system(action: impl Into<String>, remedy: &'static str) -> Self {
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

/// What to do where a call failed because there is no descriptor or no memory left for it; `None` where it failed for another reason.
pub fn exhausted(error: &io::Error) -> Option<&'static str> {
    match error.raw_os_error()? {
        libc::EMFILE => Some("let this process open more files (ulimit -n; LimitNOFILE= of a service)"),
        libc::ENFILE => Some("let the host open more files (sysctl fs.file-max)"),
        libc::ENOMEM => Some("free memory, or raise the limit of this process (ulimit -v; MemoryMax= of a service)"),
        _ => None,
    }
}

/// A source of data that this host does not have. Not an error: the answer to "is it there?".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}{}", if *is_unknown { format!("; {remedy}") } else { String::new() })]
pub struct Unsupported {
    /// Why, in one sentence without a full stop.
    pub why: String,
    /// What the user can do about it; empty when nothing helps.
    pub remedy: String,
    /// Whether it is not known that the host lacks it: the process or the host ran out of descriptors or memory.
    pub is_unknown: bool,
}

impl Unsupported {
    /// A reason and a remedy; an empty remedy when nothing helps.
    pub fn new(why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Unsupported { why: why.into(), remedy: remedy.into(), is_unknown: false }
    }

    /// As [`Unsupported::new`], where a call failed with this error, whose words are part of the reason. Without descriptors or memory
    /// nothing is known of the host, and the remedy is another one.
    pub fn because(source: &io::Error, why: impl Into<String>, remedy: impl Into<String>) -> Self {
        match exhausted(source) {
            None => Unsupported::new(why, remedy),
            Some(other) => Unsupported {
                why: format!("{}, so whether this host has it is not known", why.into()),
                remedy: other.to_owned(),
                is_unknown: true,
            },
        }
    }

    /// As [`Unsupported::because`], of an error of this crate, which gives the reason.
    pub fn of(error: &Error, remedy: impl Into<String>) -> Self {
        match error {
            Error::Read { source, .. } | Error::System { source, .. } => {
                Unsupported::because(source, error.to_string(), remedy)
            }
            _ => Unsupported::new(error.to_string(), remedy),
        }
    }
}

/// The first 80 characters of a text from outside without control characters, so that an error message stays one line.
pub fn shorten(text: &str) -> String {
    const LONGEST: usize = 80;
    let mut short: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST).collect();
    if text.chars().nth(LONGEST).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_descriptors_or_memory_nothing_is_known_and_the_remedy_is_another_one() {
        let by = |number: i32| {
            let error = Error::Read { path: "/sys/x".into(), source: io::Error::from_raw_os_error(number) };
            Unsupported::of(&error, "load a driver")
        };
        assert_eq!(by(libc::EACCES), Unsupported::new("cannot read /sys/x: Permission denied", "load a driver"));
        for (number, remedy) in [(libc::EMFILE, "ulimit -n"), (libc::ENFILE, "fs.file-max"), (libc::ENOMEM, "memory")] {
            let missing = by(number);
            assert!(missing.is_unknown && missing.why.ends_with("is not known"), "{missing:?}");
            assert!(missing.remedy.contains(remedy) && missing.to_string().ends_with(&missing.remedy), "{missing}");
        }
    }
}
