//! File systems that do not answer: a dead NFS server, a FUSE program that takes requests and never replies.
//!
//! A process that waits for such a file system may not end even by SIGKILL. So files that a user names are first opened and read by a
//! child with a deadline ([`expect`]), and a command that only reads files runs in a child as a whole ([`in_child`]): the file system
//! then holds a child, and Ctrl-C ends the command.

use crate::Error;
use crate::signals::is_ignored;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a file system may take to open a file and read its first bytes.
const PATIENCE: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(2);
/// How long a command may take to end after it was asked to.
const END_PATIENCE: Duration = Duration::from_secs(2);
/// How long after SIGKILL it waits for the kernel.
const STUCK_AFTER: Duration = Duration::from_millis(500);

/// The signals that ask a command to end.
const ASKS: [libc::c_int; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// Opens these files in a child and reads a byte of each. What is not there or may not be read is left to the caller's own opening;
/// files of the kernel and what is not a regular file are not opened. The calling process must have one thread.
///
/// # Errors
/// [`Error::System`] with the first file whose file system does not answer within 20 s.
pub fn expect(paths: &[PathBuf]) -> Result<(), Error> {
    expect_within(paths, PATIENCE)
}

fn expect_within(paths: &[PathBuf], patience: Duration) -> Result<(), Error> {
    let of_kernel = |path: &Path| ["/proc", "/sys", "/dev"].iter().any(|top| path.starts_with(top));
    for path in paths.iter().filter(|path| !of_kernel(path)) {
        let child = fork("look at a file in a child")?;
        if child == 0 {
            let mut byte = [0];
            let opened =
                surefoot_foreign::hold(path).and_then(surefoot_foreign::Held::regular).and_then(|it| it.open());
            let _ = opened.and_then(|mut file| file.read(&mut byte));
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(0) };
        }
        let begun = Instant::now();
        while !has_ended(child) {
            if begun.elapsed() > patience {
                // SAFETY: a child of ours that was not waited for.
                unsafe { libc::kill(child, libc::SIGKILL) };
                return Err(Error::System {
                    action: format!("read {}", path.display()),
                    source: io::Error::other(format!("its file system did not answer for {} s", patience.as_secs())),
                    remedy: "; check its server or unmount it, or copy the file to another file system",
                });
            }
            std::thread::sleep(STEP);
        }
    }
    Ok(())
}

/// How the child of [`in_child`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With this exit code.
    Code(u8),
    /// By this signal.
    Signal(libc::c_int),
    /// Not at all, though this signal asked for it and SIGKILL followed: it waits for a file system.
    Stuck {
        /// The child.
        process: libc::pid_t,
        /// The signal.
        signal: libc::c_int,
    },
}

impl Ended {
    /// Ends this process by the same signal; returns the exit code where it was none, or does not end this process.
    pub fn follow(self) -> u8 {
        match self {
            Ended::Code(code) => code,
            Ended::Signal(signal) | Ended::Stuck { signal, .. } => {
                end_by(signal);
                128_u8.saturating_add(signal as u8)
            }
        }
    }
}

/// Goes on in a child. Returns in the child with `None`, and in the parent when the child has ended. Signals that ask the parent to end
/// are passed on; a child that does not end then is left to its file system. The calling process must have one thread.
///
/// # Errors
/// [`Error::System`] when no child can be made.
pub fn in_child() -> Result<Option<Ended>, Error> {
    // SAFETY: it only reads a number.
    let parent = unsafe { libc::getpid() };
    let mut asks = ASKS.to_vec();
    asks.retain(|signal| !is_ignored(*signal));
    let before = block(&asks);
    let child = match fork("run the command in a child") {
        Ok(0) => {
            // SAFETY: these take numbers; a parent that ended before has left this process to another one.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                if libc::getppid() != parent {
                    libc::_exit(1);
                }
            }
            set_mask(&before);
            return Ok(None);
        }
        child => child?,
    };
    let ended = follow(child, &asks);
    set_mask(&before);
    Ok(Some(ended))
}

/// Waits until a child ends, and passes on the signals that ask this process to end.
fn follow(child: libc::pid_t, asks: &[libc::c_int]) -> Ended {
    let mut awaited = asks.to_vec();
    awaited.push(libc::SIGCHLD);
    let awaited = set_of(&awaited);
    let (mut asked, mut deadline) = (0, None::<Instant>);
    let how = |status| match libc::WIFSIGNALED(status) {
        true => Ended::Signal(libc::WTERMSIG(status)),
        false => Ended::Code(libc::WEXITSTATUS(status) as u8),
    };
    loop {
        if let Some(status) = status_of(child) {
            return how(status);
        }
        let left =
            deadline.map_or(Duration::from_secs(3600), |deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            // SAFETY: a child of ours that was not waited for.
            unsafe { libc::kill(child, libc::SIGKILL) };
            std::thread::sleep(STUCK_AFTER);
            return status_of(child).map_or(Ended::Stuck { process: child, signal: asked }, how);
        }
        let wait = libc::timespec { tv_sec: left.as_secs() as libc::time_t, tv_nsec: left.subsec_nanos().into() };
        // SAFETY: the set and the time are locals that the call only reads.
        let signal = unsafe { libc::sigtimedwait(&raw const awaited, std::ptr::null_mut(), &raw const wait) };
        if asks.contains(&signal) {
            asked = signal;
            deadline.get_or_insert(Instant::now() + END_PATIENCE);
            // SAFETY: as before.
            unsafe { libc::kill(child, signal) };
        }
    }
}

fn fork(what: &str) -> Result<libc::pid_t, Error> {
    // SAFETY: this process has one thread, so that the child holds no lock of another one.
    match unsafe { libc::fork() } {
        -1 => Err(Error::last_system(what.to_owned(), "")),
        child => Ok(child),
    }
}

fn has_ended(child: libc::pid_t) -> bool {
    status_of(child).is_some()
}

/// The status of a child that has ended; one that somebody else waited for counts as ended well.
fn status_of(child: libc::pid_t) -> Option<libc::c_int> {
    let mut status = 0;
    // SAFETY: writes to a local.
    match unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } {
        0 => None,
        -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => None,
        -1 => Some(0),
        _ => Some(status),
    }
}

fn set_of(signals: &[libc::c_int]) -> libc::sigset_t {
    // SAFETY: a signal set is made of integers for which zero is a value; the calls write to the local alone.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        set
    }
}

/// Blocks signals, and SIGCHLD with them; returns what was blocked before.
fn block(signals: &[libc::c_int]) -> libc::sigset_t {
    let mut all = signals.to_vec();
    all.push(libc::SIGCHLD);
    let (set, mut before) = (set_of(&all), set_of(&[]));
    // SAFETY: both sets are locals.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before) };
    before
}

fn set_mask(mask: &libc::sigset_t) {
    // SAFETY: the set is what the kernel said that it was before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) };
}

/// Ends this process as a signal ends one that does not catch it.
fn end_by(signal: libc::c_int) {
    // SAFETY: both take numbers.
    unsafe {
        // The child has written its core file.
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// What a process of its own comes to.
    fn status_of_process(run: impl FnOnce() -> u8) -> libc::c_int {
        let child = fork("test").unwrap();
        if child == 0 {
            let code = run();
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(code.into()) };
        }
        let mut status = 0;
        // SAFETY: writes to a local.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        status
    }

    /// The code of the parent, which the child gives.
    fn through(run: impl FnOnce() -> u8) -> u8 {
        match in_child() {
            Ok(None) => run(),
            Ok(Some(ended)) => ended.follow(),
            Err(_) => 99,
        }
    }

    #[test]
    fn the_code_and_the_signal_of_a_child_are_those_of_its_command() {
        let status = status_of_process(|| through(|| 7));
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "{status:#x}");
        let status = status_of_process(|| {
            through(|| {
                end_by(libc::SIGKILL);
                1
            })
        });
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL, "{status:#x}");
    }

    #[test]
    fn files_that_answer_are_no_fault_and_no_pipe_is_waited_for() {
        let home = tempfile::tempdir().unwrap();
        let [file, pipe, none] = ["file", "pipe", "none"].map(|name| home.path().join(name));
        std::fs::write(&file, "x").unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()));
        let paths = [file, pipe, none, home.path().to_owned(), "/proc/kmsg".into()];
        assert!(expect_within(&paths, Duration::from_secs(600)).is_ok());
    }
}
