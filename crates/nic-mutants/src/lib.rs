//! Planted faults of the modelled interface: its library, its daemon and its control program, each without one of its measures.
//!
//! `tests/list.rs` names them, the measure that each removes, and the test of `crates/nic` that finds it. `build.rs` copies the sources of
//! `crates/nic` with all faults in them, each behind a switch, and the tests beside them, so one program tries them all: it starts itself once
//! for each fault, with the switch of that fault and the name of the test. A fault that its test does not find fails; so does a test
//! that finds something without a fault.
//!
//! `make test` tries the ten of `is_sample`, `make soak` all.
#![cfg_attr(test, allow(warnings, clippy::all, reason = "copied sources, with faults"))]

#[cfg(test)]
extern crate self as surefoot_nic;
#[cfg(test)]
include!(concat!(env!("OUT_DIR"), "/nic.rs"));

#[cfg(test)]
#[path = "tests/list.rs"]
mod list;
#[cfg(test)]
#[path = "tests/mutant.rs"]
mod mutant;
#[cfg(test)]
#[path = "tests/runner.rs"]
mod runner;
