//! Gaps: what was inside, what stole the rest, and how sure that is.

pub mod join;
pub mod judge;
pub(crate) mod pending;
mod quota;
pub(crate) mod reports;
pub(crate) mod run_names;
pub(crate) mod tapes;
pub(crate) mod task_names;
pub mod verdict;
pub mod witness;
