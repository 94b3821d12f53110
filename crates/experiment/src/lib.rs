//! Experiments that are kept: the file that plans one, the journal that a watch reads while it runs, its recording, the lines of JSON, and the
//! page of HTML. `surefoot-disturb` runs them.
//!
//! # Invariants
//! - Nothing is printed: messages go to the function that the caller gives ([`log::Log`]) or into a list ([`reading::Reading`]).
//! - A journal has a limit, and counts what it leaves out.
//! - What is wrong with a file is said with its line or field, and nothing of that file is run.
//!
//! ```
//! use surefoot_experiment::run::spec::SpecChoice;
//! let spec = "freeze:length=2ms,period=1s,cores=0-1".parse::<SpecChoice>().map(|choice| choice.0);
//! assert_eq!(spec.map(|spec| (spec.length_ns, spec.cores.len())), Ok((2_000_000, 2)));
//! ```
#![forbid(unsafe_code)]

pub mod drift;
pub mod html;
pub mod length;
pub mod log;
pub mod plan;
pub mod predict;
pub mod reading;
pub mod run;
