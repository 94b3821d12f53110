//! What protecting and repairing need of the place where a file and its sidecar lie, and nothing else: so that a test
//! can have another place, which stops and forgets.

use crate::{Error, StoredFile};
use std::io;
use std::path::PathBuf;

/// One of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The file.
    File,
    /// What protects it.
    Sidecar,
}

/// A file, with room for a sidecar beside it.
pub trait Place {
    /// The path, for messages.
    fn path(&self, part: Part) -> PathBuf;

    /// Opens it for reading.
    ///
    /// # Errors
    /// When it is not there, or cannot be what it should be.
    fn open(&self, part: Part) -> io::Result<Box<dyn StoredFile>>;

    /// Begins a new one with room for as many bytes, under no name that means anything to anybody.
    ///
    /// # Errors
    /// When there is no room, or nothing may be written.
    fn begin(&self, part: Part, bytes: u64) -> io::Result<Box<dyn Begun + '_>>;
}

/// A new file or sidecar, which is gone when it is dropped before it is put.
pub trait Begun {
    /// Writes all bytes.
    ///
    /// # Errors
    /// When they cannot be written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes it durable and replaces, at once, what has its name. The file was written to last at this time then.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the file is no longer the one that was read; [`Error::Storage`]. What was there is there
    /// still then.
    fn put(self: Box<Self>, modified_realtime_ns: i64) -> Result<(), Error>;
}
