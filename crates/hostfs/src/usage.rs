//! What this process and the calling thread have used: processor time, and memory in RAM.

use crate::clock::read_clock;
use crate::{Error, Root};
use surefoot_model::Digits;

/// Processor time of all threads of this process, nanoseconds.
pub fn cpu_ns() -> u64 {
    read_clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Processor time of the calling thread, nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    read_clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Memory of this process that is in RAM, bytes, from /proc/self/statm.
///
/// # Errors
/// When the file cannot be read or is malformed.
pub fn resident_bytes(root: &Root) -> Result<u64, Error> {
    resident_bytes_in(root, "self/statm")
}

/// The same of another process.
///
/// # Errors
/// As [`resident_bytes`]; when the process is gone.
pub fn resident_bytes_of(root: &Root, pid: u32) -> Result<u64, Error> {
    resident_bytes_in(root, &format!("{pid}/statm"))
}

fn resident_bytes_in(root: &Root, file: &str) -> Result<u64, Error> {
    let path = root.proc(file);
    let text = root.read_again(&path)?;
    let pages: Option<u64> = text.split_ascii_whitespace().nth(1).and_then(|word| word.digits());
    let pages = pages.ok_or_else(|| Error::malformed(path, 1, "the second number, the resident pages, is missing"))?;
    Ok(pages.saturating_mul(page_bytes()))
}

/// The size of a page of memory of the running kernel, bytes.
pub fn page_bytes() -> u64 {
    // SAFETY: sysconf reads a constant and takes no pointer.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).ok().filter(|&bytes| bytes > 0).unwrap_or(4096)
}
