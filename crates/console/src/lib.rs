//! What a program in a terminal prints and reads: tables, lines of JSON, units, charts, files, and the exit code. The
//! command and the benchmarks share it.
//!
//! # Invariants
//! - It formats what it is given and decides nothing.
//! - Text of others reaches a terminal only through [`people`]: nothing in it commands the terminal or begins a line.
//!
//! ```
//! use surefoot_console::{table::Table, units::duration};
//! let mut table = Table::new(&["core", "lost"], &[]);
//! table.row(vec!["3".into(), duration(1_230_000)]);
//! assert_eq!(table.text(), "core     lost\n   3  1.23 ms\n");
//! ```
#![forbid(unsafe_code)]

pub mod chart;
pub mod destination;
pub mod exit;
pub mod lost_time;
pub mod numbers;
pub mod output;
pub mod people;
pub mod raisers;
pub mod table;
pub mod units;
pub mod when;
pub mod words;
