//! Processes that this one starts, theirs, and how all of them are ended.

use std::collections::HashMap;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::time::Duration;
use surefoot_hostfs::settings::numbered;
use surefoot_hostfs::tasks::TaskStat;
use surefoot_hostfs::{Error, Root};

/// What can be told to a group of processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Stand still.
    Stop,
    /// Go on.
    Continue,
    /// End at once.
    Kill,
}

impl Signal {
    fn number(self) -> libc::c_int {
        match self {
            Signal::Stop => libc::SIGSTOP,
            Signal::Continue => libc::SIGCONT,
            Signal::Kill => libc::SIGKILL,
        }
    }
}

/// From now on processes whose parents end become children of this one, as far as they descend from it.
///
/// # Errors
/// [`Error::System`] when the kernel refuses.
pub fn adopt_orphans() -> Result<(), Error> {
    let on: libc::c_ulong = 1;
    // SAFETY: takes no pointer.
    let failed = unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, on, 0, 0, 0) };
    if failed != 0 { Err(Error::last_system("adopt the processes of the workload", "")) } else { Ok(()) }
}

/// The process is killed when the thread that starts it ends.
pub fn kill_with_starter(command: &mut Command) -> &mut Command {
    let starter = std::process::id();
    let set = move || {
        let signal: libc::c_ulong = libc::SIGKILL as libc::c_ulong;
        // SAFETY: these calls take no pointer and may be made between fork and exec.
        let (failed, parent) = unsafe { (libc::prctl(libc::PR_SET_PDEATHSIG, signal, 0, 0, 0), libc::getppid()) };
        // The starter may have ended before the call.
        if failed != 0 || parent as u32 != starter {
            return Err(io::Error::from_raw_os_error(libc::ECHILD));
        }
        Ok(())
    };
    // SAFETY: the function makes system calls alone, and allocates nothing.
    unsafe { command.pre_exec(set) }
}

/// How a child of this process ended, and the processor time that it took with that of whom it waited for; `None` while it runs. It is then
/// gone: nobody may wait for it again.
///
/// # Errors
/// When it is no child, or was waited for already.
pub fn ended(pid: u32) -> io::Result<Option<(ExitStatus, Duration)>> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    let mut status = 0;
    // SAFETY: a rusage is numbers alone, for which zeros are values.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to valid values of the types that the call fills.
    match unsafe { libc::wait4(pid, &mut status, libc::WNOHANG, &mut usage) } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        _ => {
            let of = |time: libc::timeval| {
                Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
            };
            Ok(Some((ExitStatus::from_raw(status), of(usage.ru_utime) + of(usage.ru_stime))))
        }
    }
}

/// Signals a group of processes.
///
/// # Errors
/// [`Error::System`] when there is no such group, or for a number that is none.
pub fn signal_group(group: u32, signal: Signal) -> Result<(), Error> {
    send(group, signal, -1)
}

/// Signals a process.
///
/// # Errors
/// As [`signal_group`].
pub fn signal_process(pid: u32, signal: Signal) -> Result<(), Error> {
    send(pid, signal, 1)
}

fn send(to: u32, signal: Signal, sign: i32) -> Result<(), Error> {
    let action = || format!("signal process {to}");
    // 0 and 1 would be one's own group, and everybody.
    let Some(number) = i32::try_from(to).ok().filter(|number| *number > 1) else {
        let source = io::Error::from_raw_os_error(libc::EINVAL);
        return Err(Error::System { action: action(), source, remedy: "" });
    };
    // SAFETY: takes no pointer.
    let failed = unsafe { libc::kill(sign * number, signal.number()) };
    if failed != 0 { Err(Error::last_system(action(), "")) } else { Ok(()) }
}

/// Waits for the end of a child and leaves it there, so that its number stays its own until it is collected; returns its exit
/// code, or 128 and the signal that ended it.
///
/// # Errors
/// [`Error::System`] when it is no child of this process.
pub fn wait_for_end(pid: u32) -> Result<i32, Error> {
    loop {
        // SAFETY: siginfo_t is made of integers, for which zero is a value; the pointer is to a local. A child's end has a
        // status.
        let (failed, code, status) = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let failed = libc::waitid(libc::P_PID, pid, &mut info, libc::WEXITED | libc::WNOWAIT);
            (failed, info.si_code, info.si_status())
        };
        if failed == 0 {
            return Ok(if code == libc::CLD_EXITED { status } else { 128 + status });
        }
        let source = io::Error::last_os_error();
        if source.kind() != io::ErrorKind::Interrupted {
            return Err(Error::System { action: format!("wait for process {pid}"), source, remedy: "" });
        }
    }
}

/// Collects every child that has ended; returns how many these were.
pub fn collect_ended() -> u64 {
    let mut collected = 0;
    // SAFETY: a null pointer is allowed for the status.
    while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {
        collected += 1;
    }
    collected
}

/// All processes that descend from this one and have not ended, those of its children's children included.
pub fn descendants(root: &Root, of: u32) -> Vec<u32> {
    let pids = numbered(&root.proc(""), "").unwrap_or_default();
    let stats = pids.into_iter().filter_map(|pid| Some((pid, TaskStat::of_process(root, pid)?)));
    let parents: HashMap<u32, u32> =
        stats.filter(|(_, stat)| stat.state != 'Z').map(|(pid, stat)| (pid, stat.parent)).collect();
    let descends = |pid: u32| {
        let line = std::iter::successors(parents.get(&pid), |parent| parents.get(parent));
        // A number may be used anew while the list is read: the line has an end.
        line.take(1_000).any(|parent| *parent == of)
    };
    parents.keys().copied().filter(|pid| descends(*pid)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::process::Stdio;

    #[test]
    fn nobody_but_a_group_that_is_there_is_signalled() {
        for group in [0, 1, u32::MAX] {
            assert!(signal_group(group, Signal::Stop).is_err(), "{group}");
        }
    }

    #[test]
    fn a_child_that_ended_keeps_its_number_until_it_is_collected() {
        let mut child = Command::new("sleep").arg("60").process_group(0).stdout(Stdio::null()).spawn().unwrap();
        let of_us = || descendants(&Root::host(), std::process::id());
        assert!(of_us().contains(&child.id()));
        signal_group(child.id(), Signal::Stop).unwrap();
        signal_group(child.id(), Signal::Kill).unwrap();
        assert_eq!(wait_for_end(child.id()).unwrap(), 128 + 9);
        assert!(signal_group(child.id(), Signal::Continue).is_ok() && !of_us().contains(&child.id()));
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap()), Some(9));
        assert!(wait_for_end(child.id()).is_err());
    }
}
