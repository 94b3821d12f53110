use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a loop cannot note its gaps, or a directory of loops cannot be read. The polling thread can go on without:
/// [`crate::Loop::inert`].
///
/// Written by hand, so that a program that links this crate gets no macro crate with it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The name of the loop is empty, too long, or has characters that do not print.
    Name {
        /// The name as it was given.
        name: String,
    },
    /// The ring would be too small, too large, or no power of two.
    Capacity {
        /// Gaps asked for.
        capacity: u32,
    },
    /// The directory of the loops cannot be made or opened.
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Everybody may write to the directory, and so exchange the files of others.
    UnsafeDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// The directory is not in memory; writing a gap could then wait for a disk.
    NotInMemory {
        /// The directory.
        path: PathBuf,
    },
    /// The file of the loop cannot be made, filled or mapped.
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The kernel does not say when this thread was started, by which readers know it from a later one.
    Thread {
        /// The file that would say so.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// This processor has no counter that a loop can read.
    NoCounter,
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variable = crate::DIRECTORY_VARIABLE;
        match self {
            Error::Name { name } => write!(
                to,
                "'{}' cannot be the name of a loop; use 1 to {} printable ASCII characters",
                name.escape_debug(),
                crate::layout::NAME_BYTES_MAX
            ),
            Error::Capacity { capacity } => write!(
                to,
                "a ring cannot have {capacity} gaps; use a power of two from {} to {}",
                crate::layout::CAPACITY_MIN,
                crate::layout::CAPACITY_MAX
            ),
            Error::Directory { path, source } => write!(
                to,
                "cannot use the directory of loops {}: {source}; set {variable} to a directory on tmpfs",
                path.display()
            ),
            Error::UnsafeDirectory { path } => write!(
                to,
                "anybody can exchange files in {}; run `chmod +t` on it, or set {variable} to another directory",
                path.display()
            ),
            Error::NotInMemory { path } => write!(
                to,
                "{} is on a disk, and noting a gap could wait for it; set {variable} to a directory on tmpfs",
                path.display()
            ),
            Error::File { path, source } => {
                write!(to, "cannot make the file of the loop {}: {source}", path.display())
            }
            Error::Thread { path, source } => {
                write!(to, "cannot read {}: {source}; mount /proc where this program runs", path.display())
            }
            Error::NoCounter => {
                write!(to, "this processor has no counter that a loop can read; x86_64 and aarch64 have one")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Directory { source, .. } | Error::File { source, .. } | Error::Thread { source, .. } => Some(source),
            _ => None,
        }
    }
}
