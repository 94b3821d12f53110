use std::io;
use surefoot_foreign::said;

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A place to listen, a certificate or another file cannot be used.
    #[error("{what}: {why}")]
    Unusable {
        /// Which: a file, an address, an option.
        what: String,
        /// What is wrong with it, and what would be right.
        why: String,
    },
    /// A thread of the server could not be started.
    #[error("cannot start the thread '{name}': {}; the limit on processes (`ulimit -u`) may be reached", said(source))]
    Thread {
        /// The thread's name.
        name: &'static str,
        /// What the system said.
        source: io::Error,
    },
}
