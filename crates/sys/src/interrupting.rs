//! Interrupts that are sent on purpose: to a core, and to those on which a process runs.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use surefoot_hostfs::perf::{Kind, PerfCounter};
use surefoot_hostfs::{Error, Root};
use surefoot_model::{CpuId, Digits};

/// An event of the kernel's own that counts nothing (`PERF_COUNT_SW_DUMMY`).
const DUMMY: u64 = 9;
/// Of each region so much is aged: more costs the sender, and one page is enough for a shootdown.
const AGED_BYTES: u64 = 256 << 10;
/// Regions of a process that are aged: its stack and its heap.
const REGIONS: [&str; 2] = ["[stack]", "[heap]"];
/// `MADV_COLD` of include/uapi/asm-generic/mman-common.h.
const COLD: libc::c_int = 20;
/// A process may have so many regions.
const MAPS_BYTES_MAX: u64 = 16 << 20;

/// Interrupts one core: the kernel reads a counter of another core by calling a function there.
#[derive(Debug)]
pub struct Interrupter(PerfCounter);

impl Interrupter {
    /// For this core.
    ///
    /// # Errors
    /// Without CAP_PERFMON, or when there is no such core.
    pub fn open(cpu: CpuId) -> Result<Self, Error> {
        PerfCounter::open(Kind::Software, DUMMY, cpu, "interrupts that are sent").map(Interrupter)
    }

    /// Sends one, and waits until it was taken. On the core itself nothing is sent.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn send(&mut self) -> Result<(), Error> {
        self.0.read().map(drop)
    }
}

/// Pages of another process that can be aged: what it used of them since the last time has its translations flushed, on every
/// core on which the process runs. Nothing of their content changes.
#[derive(Debug)]
pub struct Pages {
    process: OwnedFd,
    ranges: Vec<libc::iovec>,
}

impl Pages {
    /// Those of a process's stack and heap; `None` when it has ended, or has none.
    pub fn of(root: &Root, pid: u32) -> Option<Pages> {
        let text = root.read_up_to(root.proc(format!("{pid}/maps")), MAPS_BYTES_MAX).ok()?;
        let ranges: Vec<libc::iovec> = text.lines().filter_map(range).collect();
        // SAFETY: takes no pointer.
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        if descriptor < 0 || ranges.is_empty() {
            return None;
        }
        // SAFETY: the kernel has just given us this descriptor, and nobody else knows it.
        let process = unsafe { OwnedFd::from_raw_fd(descriptor as i32) };
        Some(Pages { process, ranges })
    }

    /// Ages them.
    ///
    /// # Errors
    /// When the process has ended, or without CAP_SYS_NICE and the right to trace it.
    pub fn age(&self) -> Result<(), Error> {
        // SAFETY: the ranges outlive the call; their addresses are of the other process and are not followed here.
        let aged = unsafe {
            let (ranges, count) = (self.ranges.as_ptr(), self.ranges.len());
            libc::syscall(libc::SYS_process_madvise, self.process.as_raw_fd(), ranges, count, COLD, 0)
        };
        if aged < 0 { Err(Error::last_system("age pages of the workload", "; run as root")) } else { Ok(()) }
    }
}

// SAFETY: the addresses are numbers for the kernel; nothing here follows them.
unsafe impl Send for Pages {}

/// The upper end of a stack, the lower of a heap: what is used most.
fn range(line: &str) -> Option<libc::iovec> {
    let region = REGIONS.iter().find(|region| line.ends_with(*region))?;
    let (from, to) = line.split(' ').next()?.split_once('-')?;
    let (from, to) = (from.hex_digits::<u64>()?, to.hex_digits::<u64>()?);
    let bytes = to.checked_sub(from)?.min(AGED_BYTES);
    let at = if *region == "[stack]" { to - bytes } else { from };
    Some(libc::iovec { iov_base: at as usize as *mut libc::c_void, iov_len: bytes as usize })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_top_of_the_stack_and_the_bottom_of_the_heap_are_meant() {
        let of = |line: &str| range(line).map(|range| (range.iov_base as usize, range.iov_len));
        assert_eq!(of("1000-2000 rw-p 0 00:00 0    [heap]"), Some((0x1000, 0x1000)));
        assert_eq!(of("10000000-20000000 rw-p 0 00:00 0  [stack]"), Some((0x20000000 - (256 << 10), 256 << 10)));
        assert_eq!((of("1000-2000 rw-p 0 00:00 0"), of("x [heap]"), of("2000-1000 rw-p [heap]")), (None, None, None));
    }

    #[test]
    fn a_process_whose_pages_are_aged_keeps_what_is_in_them() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(50));
        let aged = Pages::of(&Root::host(), child.id()).unwrap().age();
        let lives = child.try_wait().unwrap().is_none();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(lives && Pages::of(&Root::host(), u32::MAX).is_none());
        match aged {
            Err(error) if error.is_denied() => {
                surefoot_testkit::not_run::not_run("a_process_whose_pages_are_aged", &error.to_string());
            }
            aged => aged.unwrap(),
        }
    }
}
