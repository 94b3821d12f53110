//! To go on with less: what a process needed to begin and does not need any more is given up for good.
//!
//! Each thread has capabilities of its own, so that giving them up in one leaves them to the others. Every thread is
//! interrupted by a signal and gives up its own; whoever starts one meanwhile gives it no more than he has.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use surefoot_hostfs::privilege::Capabilities;
use surefoot_hostfs::{Error, Root};
use surefoot_model::Digits;

/// What the handler leaves to a thread.
static KEPT: AtomicU64 = AtomicU64::new(u64::MAX);

/// How long a thread may take to take the signal, counted in steps, so that a machine that stands still does not use it up. Past that it is
/// enough that the signal waits for it: see [`Told::Waits`].
const PATIENCE: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_millis(1);

/// Gives up every capability but these on every thread, and on every program that is started from now on: from the bounding,
/// permitted, effective, inheritable and ambient sets. No program that is started gains any by its file (no_new_privs).
///
/// Capabilities that this process does not have are not gained. Where it may not limit the bounding set (CAP_SETPCAP), that
/// stays; with no_new_privs it gives nothing.
///
/// A thread inside a system call that signals do not interrupt (it waits for a disk), or that gets no core, keeps its capabilities for
/// that call alone: the signal is pending, and the kernel runs its handler before the thread's next instruction.
///
/// # Errors
/// [`Error::System`] when a thread kept more: one that blocks the signal, or a kernel that refuses.
pub fn keep_only(root: &Root, kept: Capabilities) -> Result<(), Error> {
    keep_only_within(PATIENCE, root, kept)
}

fn keep_only_within(patience: Duration, root: &Root, kept: Capabilities) -> Result<(), Error> {
    KEPT.store(kept.0, Ordering::SeqCst);
    let signal = catch()?;
    // This one at once, so that no thread of more is started.
    let failed = shed(kept.0);
    let mut waited = Duration::ZERO;
    loop {
        let more = threads_with_more(root, kept, signal)?;
        let is_late = waited > patience;
        if more.iter().all(|(_, told)| is_late && *told == Told::Waits) {
            return Ok(());
        }
        // One that was started by a thread whose signal waited is told, too.
        if is_late && more.iter().any(|(_, told)| *told == Told::Blocks) || waited > 2 * patience {
            let source =
                if failed == 0 { io::ErrorKind::TimedOut.into() } else { io::Error::from_raw_os_error(failed) };
            let action = format!("give up capabilities in {} threads", more.len());
            return Err(Error::System { action, source, remedy: "" });
        }
        // One signal is enough; more would fill the queue of signals.
        for (thread, _) in more.iter().filter(|(_, told)| *told == Told::No) {
            // SAFETY: a signal to a thread of this process; one that has ended in the meantime gets none.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), *thread, signal) };
        }
        std::thread::sleep(STEP);
        waited += STEP;
    }
}

/// Whether a thread has the signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// It has none.
    No,
    /// It is pending: the thread runs nothing of ours before the handler.
    Waits,
    /// The thread does not take it.
    Blocks,
}

/// Threads of this process that may do more than `kept`, or whose programs may gain more.
fn threads_with_more(root: &Root, kept: Capabilities, signal: libc::c_int) -> Result<Vec<(i32, Told)>, Error> {
    let mut more = Vec::new();
    for thread in surefoot_hostfs::privilege::threads(root, "self")? {
        let place = format!("self/task/{thread}");
        let Ok(standing) = surefoot_hostfs::privilege::Standing::read(root, &place) else { continue };
        if standing.held.0 & !kept.0 != 0 || !standing.no_new_privileges {
            let text = root.read(root.proc(format!("{place}/status"))).unwrap_or_default();
            more.push((thread as i32, told(&text, signal)));
        }
    }
    Ok(more)
}

/// What `/proc/PID/task/TID/status` says of a signal.
fn told(status: &str, signal: libc::c_int) -> Told {
    let has = |name: &str| {
        let mask = status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        mask.and_then(|mask| mask.hex_digits::<u64>()).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
    };
    match (has("SigBlk:"), has("SigPnd:")) {
        (true, _) => Told::Blocks,
        (false, true) => Told::Waits,
        (false, false) => Told::No,
    }
}

fn catch() -> Result<libc::c_int, Error> {
    // One that neither the C library nor anybody else here uses.
    let signal = libc::SIGRTMIN() + 7;
    // SAFETY: sigaction is made of integers and a pointer for which zero is a value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the mask is a local that the call only writes to; the handler makes system calls alone, and leaves `errno` as
    // it was. It stays, because a signal that comes late would end the process otherwise.
    let failed = unsafe {
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(signal, &raw const action, std::ptr::null_mut())
    };
    if failed != 0 { Err(Error::last_system("tell its threads to give up capabilities", "")) } else { Ok(signal) }
}

extern "C" fn on_signal(_signal: libc::c_int) {
    // SAFETY: the location of this thread's `errno` is valid as long as the thread is.
    unsafe {
        let place = libc::__errno_location();
        let before = *place;
        shed(KEPT.load(Ordering::SeqCst));
        *place = before;
    }
}

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

/// Effective, permitted and inheritable capabilities, the lower half of their numbers first.
type Sets = [[u32; 3]; 2];

const VERSION_3: u32 = 0x2008_0522;
/// Numbers of capabilities fit 64 bits.
const NUMBERS: u32 = 64;

/// Gives up all but `kept` in this thread. Only system calls, so that a signal's handler may do it. The last error's number.
fn shed(kept: u64) -> libc::c_int {
    let control = |option: libc::c_int, first: libc::c_ulong, second: libc::c_ulong| {
        let none: libc::c_ulong = 0;
        // SAFETY: these options take numbers alone.
        unsafe { libc::prctl(option, first, second, none, none) }
    };
    control(libc::PR_SET_NO_NEW_PRIVS, 1, 0);
    control(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong, 0);
    for number in (0..NUMBERS).filter(|number| kept >> number & 1 == 0) {
        if control(libc::PR_CAPBSET_READ, number.into(), 0) == 1 {
            control(libc::PR_CAPBSET_DROP, number.into(), 0);
        }
    }
    let header = Header { version: VERSION_3, pid: 0 };
    let mut sets: Sets = [[0; 3]; 2];
    // SAFETY: version 3 takes a header and two sets of three numbers, which outlive the calls.
    unsafe {
        if libc::syscall(libc::SYS_capget, &raw const header, sets.as_mut_ptr()) != 0 {
            return *libc::__errno_location();
        }
        for (half, set) in sets.iter_mut().enumerate() {
            let kept = (kept >> (32 * half)) as u32;
            *set = [set[0] & kept, set[1] & kept, 0];
        }
        if libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr()) != 0 {
            return *libc::__errno_location();
        }
    }
    0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::fd::AsRawFd;
    use std::path::Path;
    use std::process::Command;
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;
    use surefoot_hostfs::privilege::Standing;

    #[test]
    #[ignore = "runs in a child process, which gives up what it may do"]
    fn threads_of_all_kinds_keep_what_is_kept() {
        static END: AtomicBool = AtomicBool::new(false);
        let sleeping = || {
            while !END.load(Ordering::Relaxed) {
                std::thread::park();
            }
        };
        let busy = || {
            while !END.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        };
        let breeding = || {
            while !END.load(Ordering::Relaxed) {
                std::thread::spawn(|| ()).join().unwrap();
            }
        };
        let threads = [
            std::thread::spawn(sleeping),
            std::thread::spawn(sleeping),
            std::thread::spawn(busy),
            std::thread::spawn(breeding),
        ];
        let root = Root::host();
        let kept = Capabilities::of(&["CAP_KILL", "CAP_SYS_PTRACE"]);
        let before = Standing::of_process(&root, std::process::id()).unwrap();
        keep_only(&root, kept).unwrap();
        let after = Standing::of_process(&root, std::process::id()).unwrap();
        let text = Command::new("grep").args(["-E", "^(Cap|NoNew)", "/proc/self/status"]).output().unwrap();
        let text = String::from_utf8(text.stdout).unwrap();
        END.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(|thread| {
            thread.thread().unpark();
            thread.join().unwrap();
        });
        let expected = Capabilities(before.held.0 & kept.0);
        assert_eq!((after.held, after.capabilities, after.no_new_privileges), (expected, expected, true));
        let word = |name: &str| {
            u64::from_str_radix(text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim(), 16).unwrap()
        };
        assert_eq!(word("CapPrm:") & !kept.0, 0, "a program that it starts:\n{text}");
        assert!(text.contains("NoNewPrivs:\t1"), "{text}");
        if before.held.0 >> 8 & 1 == 1 {
            assert_eq!(word("CapBnd:") & !kept.0, 0, "{text}");
        }
    }

    #[test]
    #[ignore = "runs in a child process, which gives up what it may do"]
    fn a_thread_that_takes_no_signal_now_does_not_end_the_beginning() {
        static AFTER: AtomicU64 = AtomicU64::new(u64::MAX);
        let root = Root::host();
        let kept = Capabilities::of(&["CAP_KILL"]);
        let (end, mut ending) = std::io::pipe().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let waiting = std::thread::spawn(move || {
            tell.send(std::fs::read_link("/proc/thread-self").unwrap()).unwrap();
            // As one that waits for a disk: not to be interrupted before the child ends.
            let flags = libc::CLONE_VFORK | libc::SIGCHLD;
            let mut wait = libc::pollfd { fd: end.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            let limit = libc::timespec { tv_sec: 60, tv_nsec: 0 };
            // SAFETY: the child has memory of its own, as one of fork; it makes two system calls.
            unsafe {
                let child = libc::syscall(libc::SYS_clone, libc::c_long::from(flags), 0, 0, 0, 0);
                if child == 0 {
                    libc::syscall(libc::SYS_ppoll, &raw mut wait, 1, &raw const limit, 0, 0);
                    libc::syscall(libc::SYS_exit, 0);
                }
            }
            // The first that it does is done with less.
            let id = std::fs::read_link("/proc/thread-self").unwrap();
            let standing = Standing::read(&Root::host(), &id.to_string_lossy()).unwrap();
            AFTER.store(standing.held.0, Ordering::SeqCst);
        });
        let stat = Path::new("/proc").join(told.recv().unwrap()).join("stat");
        let waits = || std::fs::read_to_string(&stat).is_ok_and(|text| text.contains(") D "));
        let begun = Instant::now();
        while !waits() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it does not wait");
            std::thread::sleep(Duration::from_millis(10));
        }
        keep_only_within(Duration::from_millis(500), &root, kept).unwrap();
        assert!(waits(), "nobody waited for the end of its child");
        std::io::Write::write_all(&mut ending, b".").unwrap();
        waiting.join().unwrap();
        assert_eq!(AFTER.load(Ordering::SeqCst) & !kept.0, 0);
    }

    #[test]
    fn a_disk_that_does_not_answer_keeps_no_watch_from_beginning() {
        let own = std::env::current_exe().unwrap();
        let test = "shed::tests::a_thread_that_takes_no_signal_now_does_not_end_the_beginning";
        let output = Command::new(own).args([test, "--exact", "--ignored", "--nocapture"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
    }

    #[test]
    fn a_thread_that_blocks_the_signal_is_told_apart_from_one_for_which_it_waits() {
        let of = |pending: &str, blocked: &str| told(&format!("SigPnd:\t{pending}\nSigBlk:\t{blocked}\n"), 41);
        assert_eq!(of("0000000000000000", "0000000000000000"), Told::No);
        assert_eq!(of("0000010000000000", "0000000000000000"), Told::Waits);
        assert_eq!(of("0000010000000000", "0000010000000000"), Told::Blocks);
        assert_eq!(told("", 41), Told::No);
    }

    #[test]
    fn what_is_given_up_is_gone_in_every_thread_and_in_programs() {
        let own = std::env::current_exe().unwrap();
        let test = "shed::tests::threads_of_all_kinds_keep_what_is_kept";
        let output = Command::new(own).args([test, "--exact", "--ignored", "--nocapture"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}
