use std::path::PathBuf;
use surefoot_foreign::said;
use surefoot_hostfs::Unsupported;

/// What can go wrong with memory errors, beyond what one source says of itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file of the host.
    #[error(transparent)]
    Host(#[from] surefoot_hostfs::Error),
    /// A file that was named could not be read.
    #[error("{path}: cannot be read: {}", said(source))]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file that was named could not be written.
    #[error("{path}: cannot be written: {}", said(source))]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Something is not had here.
    #[error("{0}")]
    Unsupported(Unsupported),
    /// An option or a value that cannot be.
    #[error("{option}: {why}")]
    Option {
        /// Its name.
        option: &'static str,
        /// Why not, and what can be.
        why: String,
    },
    /// A file that was to be imported is no log that can be read.
    #[error("{path}: {why}")]
    Import {
        /// The file.
        path: PathBuf,
        /// Why not, and what to do.
        why: String,
    },
    /// Files of several hosts were read together.
    #[error("{0}")]
    SeveralHosts(String),
    /// A report could not be handed on.
    #[error("{0}")]
    Take(#[source] std::io::Error),
}
