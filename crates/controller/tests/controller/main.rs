//! The controller through its public API, by its own doors.

#![allow(clippy::unwrap_used)]

mod agents;
mod fleet;
mod load;
mod remedies;
mod silences;
mod tls;
