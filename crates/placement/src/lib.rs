//! Where the next checkpoint of a job goes, and when: into memory, to the SSD, both, or nowhere.
//!
//! All of it is pure: no clock, no file, no randomness and no rank. A session of the checkpoint library says what it knows
//! ([`controller::Situation`]) and is told a place with its reasons ([`controller::Decision`]); [`plan`] says the same
//! before the job runs, and [`simulate`] plays whole jobs.
//!
//! # Invariants
//! - The same situations give the same decisions.
//! - Every decision has its reasons, and a bound that cannot be kept is said.
//! - The interval of durable copies is reckoned in one place ([`controller::interval`]), for sessions and for [`plan`].

#![forbid(unsafe_code)]

pub mod controller;
pub mod plan;
pub mod simulate;
