//! File systems that do not answer: a dead NFS server, a FUSE program that takes requests and never replies.
//!
//! A process that waits for such a file system may not end even by SIGKILL. So files that a user names are first opened and read by a
//! child with a deadline ([`expect`]), and a command that only reads files runs in a child as a whole ([`in_child`]): the file system
//! then holds a child, Ctrl-C ends the command, and a file that is waited for too long ends it, too. What the child says goes to a pipe
//! through this process, so that whoever reads it does not wait for a child that cannot end.
//!
//! A command that writes files runs in a child, too ([`in_child_with_account`]), and is never cut off: the parent says which file it
//! waits for, and repeats the child's account of what it had done where a signal ends it.

mod account;
mod waits;

pub use account::Account;
pub use waits::Waiting;

use crate::signals::is_ignored;
use std::io::{self, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use surefoot_hostfs::Error;
use waits::{Calls, Waits};

/// How long a file system may take to open a file and read its first bytes.
const PATIENCE: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(2);
/// How long a command may take to end after it was asked to.
const END_PATIENCE: Duration = Duration::from_secs(2);
/// How long after SIGKILL it waits for the kernel.
const STUCK_AFTER: Duration = Duration::from_millis(500);

/// How often it is looked at what the child waits for.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The signals that ask a command to end.
const ASKS: [libc::c_int; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// Opens these files and directories in a child and reads a byte or a name of each. What is not there or may not be read is left to the caller's own opening;
/// files of the kernel, pipes and devices are not opened. The calling process must have one thread.
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
            let held = surefoot_foreign::hold(path);
            match held {
                Ok(held) if held.about().is_directory() => drop(path.read_dir().map(|mut names| names.next())),
                held => {
                    let opened = held.and_then(surefoot_foreign::Held::regular).and_then(|it| it.open());
                    let _ = opened.and_then(|mut file| file.read(&mut byte));
                }
            }
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
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// It waited for this call of a file system for 20 s, and was killed.
    Unanswered(Waiting),
}

impl Ended {
    /// Ends this process by the same signal; returns the exit code where it was none, or does not end this process.
    pub fn follow(self) -> u8 {
        match self {
            Ended::Code(code) => code,
            Ended::Unanswered(_) => UNANSWERED,
            Ended::Signal(signal) | Ended::Stuck { signal, .. } => {
                end_by(signal);
                128_u8.saturating_add(signal as u8)
            }
        }
    }
}

/// The exit code where a file system did not answer: that of every failure.
const UNANSWERED: u8 = 2;

/// Goes on in a child. Returns in the child with `None`, and in the parent when the child has ended. Signals that ask the parent to end
/// are passed on; a child that does not end then is left to its file system. The calling process must have one thread.
///
/// # Errors
/// [`Error::System`] when no child can be made.
pub fn in_child() -> Result<Option<Ended>, Error> {
    in_child_and(&mut OnWait::Ends)
}

/// Which of the two processes this is.
#[derive(Debug)]
pub enum Side {
    /// The one that does the work, and keeps the account of it.
    Child(Account),
    /// The one that waited for it.
    Parent {
        /// How the child ended.
        ended: Ended,
        /// What it said last of its work.
        account: String,
    },
}

/// As [`in_child`], for a command that changes files: it is not cut off, however long it waits. `waits` is told once of each call of a
/// file system that took 20 s.
///
/// # Errors
/// [`Error::System`] when no child can be made.
pub fn in_child_with_account(waits: &mut dyn FnMut(&Waiting)) -> Result<Side, Error> {
    let account = Account::new()?;
    Ok(match in_child_and(&mut OnWait::Tells(waits))? {
        None => Side::Child(account),
        Some(ended) => Side::Parent { ended, account: account.said() },
    })
}

/// What is done about a call of a file system that takes too long.
enum OnWait<'a> {
    /// The child is killed.
    Ends,
    /// It goes on, and this is told.
    Tells(&'a mut dyn FnMut(&Waiting)),
}

fn in_child_and(on_wait: &mut OnWait<'_>) -> Result<Option<Ended>, Error> {
    // SAFETY: it only reads a number.
    let parent = unsafe { libc::getpid() };
    let mut asks = ASKS.to_vec();
    asks.retain(|signal| !is_ignored(*signal));
    let before = block(&asks);
    let pipes = Pipes::to_readers();
    let child = match fork("run the command in a child") {
        Ok(0) => {
            pipes.use_them();
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
    let copies = pipes.copy();
    let ended = follow(child, &asks, on_wait);
    copies.iter().for_each(Copy::finish);
    set_mask(&before);
    Ok(Some(ended))
}

/// Pipes from a child, in place of standard output and standard error where these are pipes or sockets, whose readers wait for their end.
struct Pipes(Vec<Pipe>);

struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    /// What they stand for, of this process: one pipe for both where both are one.
    places: Vec<libc::c_int>,
}

impl Pipes {
    fn to_readers() -> Pipes {
        let mut pipes: Vec<(Pipe, (u64, u64))> = Vec::new();
        for place in [libc::STDOUT_FILENO, libc::STDERR_FILENO] {
            let Some(identity) = identity_of_pipe(place) else { continue };
            if let Some((pipe, _)) = pipes.iter_mut().find(|(_, of)| *of == identity) {
                pipe.places.push(place);
            } else if let Ok((read, write)) = io::pipe() {
                pipes.push((Pipe { read: read.into(), write: write.into(), places: vec![place] }, identity));
            }
        }
        Pipes(pipes.into_iter().map(|(pipe, _)| pipe).collect())
    }

    /// In the child: what it says goes there.
    fn use_them(self) {
        for Pipe { write, places, .. } in self.0 {
            for place in places {
                // SAFETY: both are descriptors of this process.
                unsafe { libc::dup2(write.as_raw_fd(), place) };
            }
        }
    }

    /// In the parent: what it says goes on to its readers. That a reader leaves, the child notices by the pipe.
    fn copy(self) -> Vec<Copy> {
        self.0.into_iter().filter_map(Copy::start).collect()
    }
}

/// A thread that copies what comes through a pipe.
struct Copy {
    /// The thread alone keeps it open: where it ends because a reader left, the child is to notice.
    pipe: Weak<std::fs::File>,
    thread: std::thread::JoinHandle<()>,
    is_writing: Arc<AtomicBool>,
}

impl Copy {
    fn start(Pipe { read, write, places }: Pipe) -> Option<Copy> {
        drop(write);
        let (from, place) = (Arc::new(std::fs::File::from(read)), *places.first()?);
        let pipe = Arc::downgrade(&from);
        let is_writing = Arc::new(AtomicBool::new(false));
        let writes = Arc::clone(&is_writing);
        let thread = std::thread::spawn(move || {
            // SAFETY: a descriptor of this process, which is not closed at the end.
            let mut to = ManuallyDrop::new(unsafe { std::fs::File::from_raw_fd(place) });
            let mut buffer = vec![0; 1 << 16];
            loop {
                let mut wanted = libc::pollfd { fd: from.as_raw_fd(), events: libc::POLLIN, revents: 0 };
                // SAFETY: the call reads and writes the local alone.
                if unsafe { libc::poll(&raw mut wanted, 1, -1) } < 1 {
                    continue;
                }
                // Before anything is taken out of the pipe: whatever is on its way is seen in the pipe, or here.
                writes.store(true, Ordering::SeqCst);
                match (&*from).read(&mut buffer) {
                    Ok(0) => return,
                    Ok(length) => {
                        if to.write_all(&buffer[..length]).is_err() {
                            return;
                        }
                        writes.store(false, Ordering::SeqCst);
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return,
                }
            }
        });
        Some(Copy { pipe, thread, is_writing })
    }

    /// After the child's end: waits until all is copied. Somebody else may still hold the pipe, and has nothing to say.
    fn finish(&self) {
        // Steps are counted, not time: a machine that stands still stops the thread as well.
        let mut quiet = Duration::ZERO;
        while !self.thread.is_finished() && quiet < STUCK_AFTER {
            std::thread::sleep(STEP);
            quiet += STEP;
            let mut waiting: libc::c_int = 0;
            // SAFETY: the call writes a number to the local.
            let of =
                |pipe: Arc<std::fs::File>| unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &raw mut waiting) };
            let is_known = self.pipe.upgrade().map(of) == Some(0);
            if (is_known && waiting > 0) || self.is_writing.load(Ordering::SeqCst) {
                quiet = Duration::ZERO;
            }
        }
    }
}

/// Device and number of a pipe or socket; `None` for a file, a terminal or a device, which have no readers that wait.
fn identity_of_pipe(place: libc::c_int) -> Option<(u64, u64)> {
    // SAFETY: an all-zero `stat` is a value; the call writes to the local alone.
    let about = unsafe {
        let mut about: libc::stat = std::mem::zeroed();
        (libc::fstat(place, &raw mut about) == 0).then_some(about)?
    };
    matches!(about.st_mode & libc::S_IFMT, libc::S_IFIFO | libc::S_IFSOCK).then_some((about.st_dev, about.st_ino))
}

/// Waits until a child ends, and passes on the signals that ask this process to end.
fn follow(child: libc::pid_t, asks: &[libc::c_int], on_wait: &mut OnWait<'_>) -> Ended {
    let mut awaited = asks.to_vec();
    awaited.push(libc::SIGCHLD);
    let awaited = set_of(&awaited);
    let (mut asked, mut deadline) = (0, None::<Instant>);
    let calls = if matches!(on_wait, OnWait::Ends) { Calls::ThatRead } else { Calls::All };
    let (mut waits, mut unanswered) = (Waits::new(calls), None);
    let how = |status| match libc::WIFSIGNALED(status) {
        true => Ended::Signal(libc::WTERMSIG(status)),
        false => Ended::Code(libc::WEXITSTATUS(status) as u8),
    };
    loop {
        if let Some(status) = status_of(child) {
            return how(status);
        }
        if deadline.is_none() {
            match (waits.look(child, Instant::now(), PATIENCE), &mut *on_wait) {
                (Some(waiting), OnWait::Ends) => unanswered = Some(waiting),
                (Some(waiting), OnWait::Tells(tell)) => tell(&waiting),
                (None, _) => {}
            }
        }
        let left = deadline.map_or(LOOK_EVERY, |deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_zero() || unanswered.is_some() {
            // SAFETY: a child of ours that was not waited for.
            unsafe { libc::kill(child, libc::SIGKILL) };
            std::thread::sleep(STUCK_AFTER);
            return match (unanswered, status_of(child)) {
                (Some(waiting), _) => Ended::Unanswered(waiting),
                (None, Some(status)) => how(status),
                (None, None) => Ended::Stuck { process: child, signal: asked },
            };
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

    /// `surefoot ... | head -1` of more than a pipe holds.
    #[test]
    fn a_reader_that_leaves_ends_a_command_that_has_more_to_say() {
        let status = status_of_process(|| {
            let (read, write) = io::pipe().unwrap();
            // SAFETY: both are descriptors of this process.
            unsafe { libc::dup2(write.as_raw_fd(), libc::STDOUT_FILENO) };
            drop((read, write));
            through(|| {
                // SAFETY: a descriptor of this process, which is not closed at the end.
                let mut out = ManuallyDrop::new(unsafe { std::fs::File::from_raw_fd(libc::STDOUT_FILENO) });
                let said = (0..64).try_for_each(|_| out.write_all(&[b'x'; 1 << 16]));
                if said.is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) { 7 } else { 1 }
            })
        });
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "{status:#x}");
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
