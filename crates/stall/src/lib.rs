//! Lost time: how much each core lost, to what, and how sure that is.
//!
//! - [`Collector`] watches all cores without disturbing them and closes a window every second.
//! - [`probe::run`] spins on chosen cores and explains every gap.
//! - [`gap::verdict::decide`] is the decision table for what no tracepoint explains.
//!
//! # Invariants
//! - The parts of each core's ledger add up to its wall time, to the nanosecond ([`ledger::core_ledger`]).
//! - Nested time is counted once ([`gap::join::join`]).
//! - Nothing is sent to a watched core after the programs are attached: the arrays are read through shared memory,
//!   from another core where there is one.
//! - What cannot be seen here is said, never guessed: a verdict carries its certainty and its evidence.
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//! use surefoot_hostfs::Root;
//! use surefoot_model::{Event, Report};
//! use surefoot_stall::{Collector, Config};
//! let mut collector = Collector::start(&Root::host(), Config::default())?;
//! let mut events = collector.opening();
//! events.extend(collector.next_window(&AtomicBool::new(false))?);
//! for core in Report::of(&events).cores() {
//!     println!("core {} lost {} ns of {}", core.cpu, core.lost_ns(), core.wall_ns);
//! }
//! # Ok::<(), surefoot_stall::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod audit;
mod collect;
mod config;
mod error;
pub mod gap;
mod host;
mod kernel_names;
pub mod ledger;
mod namespaces;
pub mod spin;
pub mod status;
mod tracepoints;
pub mod victim;
pub mod who;

pub use collect::attach::{Question, forewarning};
pub use collect::{Collector, host_capabilities, opening_of};
pub use config::{
    Config, LONGEST_RUN, SentinelConfig, SourceChoice, THRESHOLD_RANGE_NS, WINDOW_RANGE, allowed_cores, checked_cores,
    keep_off, remember_allowed_cores,
};
pub use error::Error;
pub use gap::tapes::Traced;
pub use spin::probe;
