//! Journals: files of JSON lines to which one process appends, and which others read while they grow.
//!
//! Everything that Surefoot does, and not only sees, is written to such a file first: recovery of interfaces, changed polling
//! intervals, experiments, decisions of checkpoints. The rules are the same for all of them.
//!
//! # Invariants
//! - A line is written by one `write`, so a reader never sees another writer's bytes inside it.
//! - A line that a crash or a full disk cut never joins the next one: a writer ends it first.
//! - A line that is not written is an error of the caller or a count that the next lines carry; never nothing.
//! - No line and no file is longer than its [`Limits`], for writers and readers alike.
//! - A reader takes every line for hostile: it counts those that it cannot use.
//!
//! ```
//! use surefoot_journal::{Limits, Writer, newest};
//! let folder = tempfile::tempdir()?;
//! let file = std::fs::File::create(folder.path().join("journal.jsonl"))?;
//! let limits = Limits { line_bytes: 1 << 10, file_bytes: 1 << 20 };
//! let mut journal = Writer::reopen(&file, limits)?;
//! journal.append(&["first"]).unwrap();
//! journal.append(&["second"]).unwrap();
//! let found = newest(journal.file(), limits, |line| serde_json::from_slice::<[String; 1]>(line).ok())?;
//! assert_eq!((found.lines.len(), found.skipped_count), (2, 0));
//! # Ok::<(), std::io::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod deeds;
mod rotating;
mod tail;
mod write;

pub use rotating::Rotating;
pub use tail::{GrowingFile, Newest, Position, RawLine, newest, read_on};
pub use write::{NotLocked, NotWritten, Writer};

/// How long lines and files may be, bytes.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The longest line, with its line feed.
    pub line_bytes: usize,
    /// The longest file.
    pub file_bytes: u64,
}
