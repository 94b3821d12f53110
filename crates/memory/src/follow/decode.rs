//! From the text of an event, as the kernel's `print fmt` writes it, to its fields, and from these to an error report.
//!
//! Sources: `include/ras/ras_event.h`, `include/trace/events/mce.h` and `drivers/cxl/core/trace.h` of Linux 5.10 to 6.16, whose
//! lines differ in the names and the order of what is printed; what a line does not have is left out.

mod cxl;
mod machine_check;
mod memory_controller;

use super::events::Kind;
use surefoot_model::{Digits, ErrorReport};

/// When an event was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct At {
    /// `CLOCK_MONOTONIC`.
    pub(super) at_ns: u64,
    /// `CLOCK_REALTIME`.
    pub(super) at_realtime_ns: u64,
}

/// What an event said.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Said {
    /// An error of memory.
    Report(ErrorReport),
    /// Something else, which is no error of memory.
    NotMemory,
    /// Nothing that can be understood.
    Garbled,
}

/// What the text of an event of this kind says.
pub(super) fn decode(kind: Kind, text: &str, at: At) -> Said {
    match kind {
        Kind::McEvent => memory_controller::mc_event(text, at).map_or(Said::Garbled, Said::Report),
        Kind::MceRecord => machine_check::mce_record(text, at),
        Kind::CxlDram | Kind::CxlGeneralMedia => cxl::cxl_event(kind, text, at),
        Kind::Extlog => memory_controller::extlog(text, at).map_or(Said::Garbled, Said::Report),
        Kind::MemoryFailure => memory_controller::memory_failure(text, at).map_or(Said::Garbled, Said::Report),
    }
}

/// A number in hexadecimal, with `0x` or without.
fn hexadecimal(text: &str) -> Option<u64> {
    text.trim().trim_start_matches("0x").hex_digits::<u64>()
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
