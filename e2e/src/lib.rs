//! What the end-to-end tests need: to run the real command, to disturb the host in a known way, and to read what the
//! kernel itself counts.
//!
//! - [`command`] runs `surefoot` as anybody, in a mount namespace where parts of /sys are hidden if need be;
//! - [`actor`] runs programs/actor.c, which disturbs a core and says exactly when;
//! - [`watched`] runs `surefoot watch` around a disturbance and sums up what it saw;
//! - [`report`] holds JSON lines to their promises;
//! - [`machine`] says what this machine allows, and lets one test run at a time.
//!
//! # Invariants
//! - Every process that a test starts ends with the test, whether it passes or not.
//! - What a test changes on the host (a mount, a core that is switched off) is put back by a drop guard.
//! - A truth is what the test itself did or what the kernel's own counters say in the same moment, never a number that
//!   was right once.
//!
//! ```no_run
//! use surefoot_e2e::command::surefoot;
//!
//! let finished = surefoot("status --json").run();
//! assert_eq!(finished.code, Some(0));
//! ```
#![forbid(unsafe_code)]
// This crate is a part of tests: a panic is how a test fails.
#![allow(clippy::unwrap_used)]

pub mod actor;
pub mod command;
pub mod core_switch;
pub mod disk;
pub mod http;
pub mod machine;
pub mod report;
pub mod watched;
