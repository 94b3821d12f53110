//! Being built.
#![forbid(unsafe_code)]
mod config;
mod error;
pub mod join;
pub mod judge;
pub mod ledger;
mod names;
pub mod probe;
pub mod spin;
mod tapes;
pub mod verdict;
pub mod witness;
pub use config::*;
pub use error::Error;
