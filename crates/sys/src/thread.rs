//! The calling thread and this process: on which cores they run, how urgently, under which name.

use std::time::Duration;
use surefoot_hostfs::cpus::LARGEST_CPU;
use surefoot_hostfs::{Error, Root};
use surefoot_model::{CpuId, Digits};

/// Ties the calling thread to one core.
///
/// # Errors
/// [`Error::System`] when the core does not exist, is offline, or is outside the set this process may use.
pub fn pin_to(cpu: CpuId) -> Result<(), Error> {
    pin_to_any(&[cpu])
}

/// Ties the calling thread to a set of cores.
///
/// # Errors
/// As [`pin_to`], when none of the cores can be used.
pub fn pin_to_any(cpus: &[CpuId]) -> Result<(), Error> {
    pin(0, cpus)
}

/// Ties threads of this process to a set of cores: the calling one, the first one, and those whose names begin so. What the
/// kernel refuses stays where it is.
pub fn pin_threads(names_begin: &str, cpus: &[CpuId]) {
    let _ = pin(0, cpus);
    let root = Root::host();
    let threads = std::fs::read_dir(root.proc("self/task")).into_iter().flatten().flatten();
    let numbers = threads.filter_map(|entry| entry.file_name().to_str()?.digits::<u32>());
    for tid in numbers {
        let name = root.read(root.proc(format!("self/task/{tid}/comm"))).unwrap_or_default();
        if tid == std::process::id() || name.starts_with(names_begin) {
            let _ = pin(tid, cpus);
        }
    }
}

/// 0 is the calling thread.
fn pin(tid: u32, cpus: &[CpuId]) -> Result<(), Error> {
    let action = || format!("run on core {}", surefoot_hostfs::cpus::format_list(cpus));
    const REMEDY: &str = "; see /sys/devices/system/cpu/online, and the core set of this service or container";
    let invalid = |cpus: &[CpuId]| cpus.is_empty() || cpus.iter().any(|cpu| cpu.0 > LARGEST_CPU);
    if invalid(cpus) {
        let source = std::io::Error::from_raw_os_error(libc::EINVAL);
        return Err(Error::System { action: action(), source, remedy: REMEDY });
    }
    // The fixed cpu_set_t ends at core 1,023; the system call takes any length.
    let mut mask = vec![0u8; mask_bytes(cpus.iter().map(|cpu| cpu.0).max().unwrap_or(0))];
    for cpu in cpus {
        let (byte, bit) = mask_position(cpu.0);
        mask[byte] |= bit;
    }
    // SAFETY: the pointer and the length describe `mask`, which the call only reads.
    let failed = unsafe { libc::syscall(libc::SYS_sched_setaffinity, tid, mask.len(), mask.as_ptr()) };
    if failed != 0 { Err(Error::last_system(action(), REMEDY)) } else { Ok(()) }
}

/// The cores on which the calling thread may run.
///
/// # Errors
/// [`Error::System`] when the kernel refuses to tell.
pub fn affinity() -> Result<Vec<CpuId>, Error> {
    let mut mask = vec![0u8; mask_bytes(LARGEST_CPU)];
    // SAFETY: the pointer and the length describe `mask`, which the call fills; 0 is the calling thread.
    let filled = unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, mask.len(), mask.as_mut_ptr()) };
    if filled < 0 {
        return Err(Error::last_system("ask on which cores this thread may run", ""));
    }
    let set = |cpu: &u32| {
        let (byte, bit) = mask_position(*cpu);
        mask[byte] & bit != 0
    };
    Ok((0..=LARGEST_CPU).filter(set).map(CpuId).collect())
}

/// Bytes of a mask that reaches to this core, in whole `unsigned long`s as the kernel asks.
fn mask_bytes(largest: u32) -> usize {
    let word = size_of::<libc::c_ulong>();
    (largest as usize / (word * 8) + 1) * word
}

/// The byte and the bit of a core. The kernel's masks are arrays of `unsigned long`.
fn mask_position(cpu: u32) -> (usize, u8) {
    let cpu = cpu as usize;
    let word = size_of::<libc::c_ulong>();
    let byte_in_word = if cfg!(target_endian = "little") { cpu / 8 % word } else { word - 1 - cpu / 8 % word };
    (cpu / (word * 8) * word + byte_in_word, 1 << (cpu % 8))
}

/// Gives the calling thread the name by which `ps` and everybody else know it; of longer names 15 bytes are kept. The name
/// of the first thread is that of the process.
pub fn set_name(name: &std::ffi::CStr) {
    // SAFETY: the name ends with a zero byte and is only read; the call cannot fail with a valid pointer.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// The part of a rest by which [`rest`] may end late: at 100 ms a whole tick of a kernel with 250 of them a second.
const LATE_PART: u32 = 25;

/// Lets the calling thread sleep, and be woken up to a 25th of the time late: together with the tick, or whatever else
/// interrupts its core then, rather than by an interrupt of its own. Right after a tick the thread is also done before the
/// next one, which would find it running.
pub fn rest(time: Duration) {
    set_timer_slack(time / LATE_PART);
    std::thread::sleep(time);
}

/// By how much the sleeps of the calling thread may end late. It is passed on to the threads that it starts.
pub fn set_timer_slack(slack: Duration) {
    // Nothing would mean the default.
    let slack_ns = libc::c_ulong::try_from(slack.as_nanos()).unwrap_or(libc::c_ulong::MAX).max(1);
    // SAFETY: takes no pointer; a kernel that refuses leaves the sleeps as exact as they were.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack_ns, 0, 0, 0) };
}

/// The core on which the calling thread runs at this moment.
pub fn current_cpu() -> CpuId {
    // SAFETY: takes no pointer; cannot fail on Linux.
    CpuId(u32::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0))
}

/// Makes the calling thread a real-time one (`SCHED_FIFO`), 1 to 99. Threads that it starts are ordinary again.
///
/// # Errors
/// [`Error::System`] without CAP_SYS_NICE, or for a priority outside the range.
pub fn set_fifo(priority: u8) -> Result<(), Error> {
    // The kernel's struct sched_param is this one number; C libraries differ in what they add to it.
    let param = libc::c_int::from(priority);
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: `param` is valid for the call to read; 0 is the calling thread. The raw call is used because one C
    // library refuses its own wrapper.
    let failed = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const param) };
    if failed != 0 {
        let remedy = "; run as root or give CAP_SYS_NICE";
        return Err(Error::last_system(format!("take real-time priority {priority}"), remedy));
    }
    Ok(())
}

/// Keeps the pages of this process in memory once they have been touched, so that no page fault of ours delays us.
///
/// Pages that were never touched stay unallocated (`MCL_ONFAULT`), so resident memory does not grow by this.
///
/// # Errors
/// [`Error::System`] without CAP_IPC_LOCK when the limit of locked memory is finite: an allocation would fail later
/// and end the process, so nothing is locked then.
pub fn lock_memory() -> Result<(), Error> {
    const ACTION: &str = "lock this process's memory";
    const REMEDY: &str = "; run as root, give CAP_IPC_LOCK or raise the limit (ulimit -l unlimited)";
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for the call to fill.
    if unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) } != 0 {
        return Err(Error::last_system(ACTION, REMEDY));
    }
    let may_exceed = surefoot_hostfs::privilege::Capabilities::read(&Root::host()).is_ok_and(|held| held.ipc_lock());
    if limit.rlim_cur != libc::RLIM_INFINITY && !may_exceed {
        let source = std::io::Error::from_raw_os_error(libc::EPERM);
        return Err(Error::System { action: ACTION.to_owned(), source, remedy: REMEDY });
    }
    // SAFETY: takes no pointer; changes only when pages are given back.
    let failed = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) };
    if failed != 0 { Err(Error::last_system(ACTION, REMEDY)) } else { Ok(()) }
}

/// The kernel's number of the calling thread.
pub fn current_tid() -> u32 {
    // SAFETY: takes no pointer and cannot fail.
    u32::try_from(unsafe { libc::syscall(libc::SYS_gettid) }).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_thread_has_the_name_that_it_was_given() {
        let named = std::thread::spawn(|| {
            set_name(c"a name longer than that");
            std::fs::read_to_string("/proc/thread-self/comm").unwrap()
        });
        assert_eq!(named.join().unwrap(), "a name longer t\n");
    }
}
