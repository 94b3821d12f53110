use std::path::PathBuf;
use surefoot_hostfs::Unsupported;

/// What can go wrong with interfaces, beyond what a look says of itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A call or a file of the host.
    #[error(transparent)]
    Host(#[from] surefoot_hostfs::Error),
    /// A file that was named.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and what can be done.
        why: String,
    },
    /// A folder of the kernel that cannot be listed.
    #[error("{}: the list of interfaces cannot be read: {}", path.display(), surefoot_foreign::said(source))]
    List {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Something is not had here.
    #[error("{0}")]
    Unsupported(Unsupported),
    /// Something is not done until it is asked for twice.
    #[error("{0}")]
    InUse(String),
    /// An option or a value that cannot be.
    #[error("{option}: {why}")]
    Option {
        /// Its name.
        option: &'static str,
        /// Why not, and what can be.
        why: String,
    },
}

impl Error {
    /// A refusal of the kernel as what is missing, where more privilege or another driver would help.
    pub(crate) fn of_host(error: surefoot_hostfs::Error) -> Self {
        if error.is_denied() {
            return Error::Unsupported(Unsupported::of(&error, ""));
        }
        Error::Host(error)
    }
}
