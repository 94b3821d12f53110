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
    /// The store cannot be asked or written to now; the same may work later.
    #[error("the store {store}: {why}")]
    Store {
        /// Which one, without a password.
        store: String,
        /// What went wrong.
        why: String,
    },
    /// Somebody else changed the case meanwhile, or holds its lease.
    #[error("case {case} was changed by somebody else meanwhile: {why}")]
    Conflict {
        /// The case.
        case: u64,
        /// What was expected, and what is.
        why: String,
    },
    /// There is no such case.
    #[error("there is no case {case}")]
    NoCase {
        /// The number that was asked for.
        case: u64,
    },
}

/// The result of everything here that can fail.
pub type Result<T> = std::result::Result<T, Error>;
