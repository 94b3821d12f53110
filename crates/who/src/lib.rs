//! Reports of who raised interrupts ([`surefoot_model::WhoReport`]): what to change, what to fix first, a range of time, two reports
//! compared, and a size limit.
//!
//! `surefoot-stall` makes the reports with its probes. The rooms, which have none, answer for ranges of them.
//!
//! # Invariants
//! - Pure functions of reports: no probe, no file, no clock.
//! - No count is lost: raisers without a row of their own are counted together, and what is left out is said under `missing`.
//!
//! ```
//! use surefoot_model::{Cause, CauseKind, CpuId, Interrupt, WhoReport};
//! use surefoot_who::fix_first;
//! let timer = Interrupt::new(CpuId(1), Cause::new(CauseKind::Timer, "local_timer"), 100, 2_000);
//! let report = WhoReport { interrupts: vec![timer], ..WhoReport::default() };
//! assert_eq!(fix_first::rank(&report)[0].total_ns, 2_000);
//! ```
#![forbid(unsafe_code)]

pub mod advice;
pub mod compare;
pub mod fix_first;
pub mod limit;
pub mod range;
mod weight;
