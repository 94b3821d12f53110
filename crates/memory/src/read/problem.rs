//! What could not be read, within a limit.

use std::path::Path;
use surefoot_foreign::said;
use surefoot_hostfs::Error;
use surefoot_model::{MemoryProblem, MemorySource};

/// Problems that are told one by one.
const PROBLEMS_MAX: usize = 100;

/// Problems of one reading.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Problems {
    /// The first of them.
    pub list: Vec<MemoryProblem>,
    /// How many more there were.
    pub left_out: u64,
}

impl Problems {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds one; beyond the limit it is counted only.
    pub fn add(&mut self, source: MemorySource, path: &Path, why: impl Into<String>) {
        if self.list.len() >= PROBLEMS_MAX {
            self.left_out += 1;
            return;
        }
        let path = surefoot_model::one_line(&path.to_string_lossy());
        self.list.push(MemoryProblem { source, path, why: why.into() });
    }

    /// Counts further ones that are not told one by one.
    pub(super) fn more(&mut self, count: usize) {
        self.left_out += count as u64;
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.left_out + self.list.len() as u64
    }

    /// Adds that a file or folder cannot be read.
    pub(crate) fn unreadable(&mut self, source: MemorySource, path: &Path, error: &Error) {
        self.add(source, path, reason(error));
    }
}

/// Why something cannot be read, and what to do.
pub(crate) fn reason(error: &Error) -> String {
    if error.is_link() {
        return "it is a symbolic link, which is not followed here; the kernel has a file in its place".into();
    }
    if error.is_denied() {
        return format!("it may not be read; {}", surefoot_hostfs::privilege::remedy(&["CAP_DAC_READ_SEARCH"]));
    }
    if error.is_absent() {
        return "it is gone or was never there; look again, and if it stays so the driver of the controller does not have it".into();
    }
    match error {
        Error::Read { source, .. } if source.kind() == std::io::ErrorKind::IsADirectory => {
            "it is a folder where the kernel has a file; the tree is damaged or of another kind".into()
        }
        Error::Read { source, .. } if source.kind() == std::io::ErrorKind::NotSeekable => {
            "it is a pipe where the kernel has a file; the tree is damaged or of another kind".into()
        }
        Error::Read { source, .. } => {
            format!("cannot be read: {}; look again", said(source))
        }
        Error::TooLarge { limit_bytes, .. } => {
            format!(
                "it is longer than {limit_bytes} bytes, which no file of its name is; the tree is damaged or of another kind"
            )
        }
        other => other.to_string(),
    }
}
