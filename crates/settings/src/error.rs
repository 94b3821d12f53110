//! What is wrong with settings, and where.

use crate::effective::Origin;

/// What is wrong with settings, and where.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file as a whole.
    #[error("{file}: {why}")]
    File {
        /// Its path.
        file: String,
        /// A sentence without a full stop.
        why: String,
    },
    /// A line that is no TOML.
    #[error("{at}: {why}")]
    Line {
        /// Where it stands.
        at: Origin,
        /// A sentence without a full stop.
        why: String,
    },
    /// One setting.
    #[error("{at}: {key}: {why}")]
    Setting {
        /// Where it stands.
        at: Origin,
        /// Its name, with its table.
        key: String,
        /// A sentence without a full stop.
        why: String,
    },
}
