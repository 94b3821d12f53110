/// Why the controller or an agent could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file, an address or an option cannot be used.
    #[error("{what}: {why}")]
    Unusable {
        /// Which.
        what: String,
        /// What is wrong with it, and what would be right.
        why: String,
    },
    /// Some of the files could not be taken in again.
    #[error("{why}")]
    Reload {
        /// What is wrong with them, and what goes on as before.
        why: String,
    },
    /// Some of those who may do something cannot prove who they are any more.
    #[error("{why}; until that is mended they may do nothing, and the other rights count as they are written")]
    Rights {
        /// Who, and why.
        why: String,
    },
    /// A policy or the store cannot be used.
    #[error(transparent)]
    Remedy(#[from] surefoot_remedy::Error),
    /// A place to listen, a certificate or a thread.
    #[error(transparent)]
    Http(#[from] surefoot_http::Error),
}
