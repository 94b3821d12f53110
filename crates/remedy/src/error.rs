/// What can go wrong with remedies.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The step of a policy is none.
    #[error("'{text}' is no step: {why}")]
    Step {
        /// What stands there.
        text: String,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// A policy file says something wrong.
    #[error("{file}, line {line}{}: {why}", in_field(.field))]
    Policy {
        /// The file.
        file: String,
        /// The line.
        line: usize,
        /// The field, with its tables; empty for none.
        field: String,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// A policy file cannot be read.
    #[error("{file}: {why}")]
    PolicyFile {
        /// The file.
        file: String,
        /// Why not.
        why: String,
    },
    /// The store cannot be asked or written to now; the same may work later.
    #[error("the store {store}: {why}")]
    Store {
        /// Which one, without a password.
        store: String,
        /// What went wrong.
        why: String,
    },
    /// There is no store where one is to be read; none is made.
    #[error("no store at {store}: {why}")]
    NoStore {
        /// Which one, without a password.
        store: String,
        /// What is there instead, and what to do.
        why: String,
    },
    /// Somebody else changed the case meanwhile, or holds its lease.
    #[error("case {case} was changed by another client in between: {why}")]
    Conflict {
        /// The case.
        case: u64,
        /// What was expected, and what is.
        why: String,
    },
    /// The case is there and this release cannot read it.
    #[error("{says}; use the release that wrote it, or close it with `surefoot remedy cancel {case}`")]
    UnreadCase {
        /// The case.
        case: u64,
        /// Which case of which host, and why.
        says: String,
    },
    /// There is no such case.
    #[error("there is no case {case}")]
    NoCase {
        /// The number that was asked for.
        case: u64,
    },
}

fn in_field(field: &str) -> String {
    if field.is_empty() { String::new() } else { format!(", {field}") }
}

/// The result of everything here that can fail.
pub type Result<T> = std::result::Result<T, Error>;
