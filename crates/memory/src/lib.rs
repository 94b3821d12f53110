//! Memory errors: which module goes bad, whether its counts can be trusted, what reporting them costs, and the polling
//! interval that loses none of them.
//!
//! # Invariants
//! - Nothing here writes to the machine but `tune`'s act and `pages`' act, and these show what they would do first.
//!   `reset_counters` is never written.
//! - Every path goes through [`surefoot_hostfs::Root`], so that all of it works on a recorded tree as on the live host.
//! - A source that fails is a [`surefoot_model::MemoryProblem`]; the others go on.
#![forbid(unsafe_code)]

pub mod bmc;
pub mod closing;
pub mod cost;
pub mod counts;
pub mod doctor;
mod error;
pub mod fault;
pub mod follow;
pub mod identity;
pub mod import;
pub mod look;
pub mod owner;
pub mod pages;
pub mod presence;
pub mod rate;
pub mod read;
pub mod reports;
pub mod simulate;
pub mod tune;
pub mod watch;

pub use error::Error;

/// A number and what it counts: "1 line", "2 lines".
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Whether a counter of a module cannot be read, so that it may have errors that nobody knows of.
pub(crate) fn is_any_unread(dimm: &surefoot_model::Dimm) -> bool {
    use surefoot_model::ErrorSeverity::{Corrected, Uncorrected};
    [Corrected, Uncorrected].into_iter().any(|severity| dimm.is_unread(severity))
}
