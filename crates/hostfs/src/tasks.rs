//! Tasks, as /proc lists them.

use crate::Root;

/// The flag of a kernel thread in field 9 of /proc/PID/stat (`PF_KTHREAD` of the kernel's sched.h).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// The most numbers that are returned.
const MOST_TASKS: usize = 16_384;

/// The numbers of all kernel threads; empty where /proc cannot be listed.
pub fn kernel_threads(root: &Root) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(root.proc("")) else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| root.read(root.proc(format!("{pid}/stat"))).is_ok_and(|stat| is_kernel_thread(&stat)))
        .take(MOST_TASKS)
        .collect()
}

/// The numbers of a process's threads; empty when it has ended.
pub fn threads(root: &Root, pid: u32) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(root.proc(format!("{pid}/task"))) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).take(MOST_TASKS).collect()
}

/// The name of a task may hold spaces and parentheses, so the fields are counted from the last closing one.
fn is_kernel_thread(stat: &str) -> bool {
    let Some((_, rest)) = stat.rsplit_once(')') else { return false };
    let flags = rest.split_whitespace().nth(6).and_then(|flags| flags.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & KERNEL_THREAD != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_threads_are_told_by_their_flag_whatever_their_name() {
        assert!(is_kernel_thread("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0"));
        assert!(is_kernel_thread("9 (a) b (c) S 2 0 0 0 -1 69238880 0"));
        assert!(!is_kernel_thread("1 (init) S 0 1 1 0 -1 4194560 0"));
        assert!(!is_kernel_thread("1 (init"));
    }

    #[test]
    fn this_process_is_not_a_kernel_thread() {
        assert!(!kernel_threads(&Root::host()).contains(&std::process::id()));
        assert!(threads(&Root::host(), std::process::id()).contains(&std::process::id()));
    }
}
