//! Processes that end at once.

use super::{Pace, again, words};
use crate::Fault;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Processes at most.
const PROCESSES_MAX: usize = 100_000;

/// Processes of one of the smallest programs, each started when the last has ended.
///
/// # Errors
/// [`Fault::Start`] when the kernel refuses.
pub fn process(length: Duration) -> Result<Pace, Fault> {
    again(length, PROCESSES_MAX, || {
        let status = Command::new("/bin/true").stdin(Stdio::null()).status();
        status.map(drop).map_err(|error| words("/bin/true", error))
    })
}
