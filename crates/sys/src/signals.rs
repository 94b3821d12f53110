//! Ctrl-C, a closed terminal and SIGTERM as a flag that loops look at.

use std::fs::File;
use std::io::Read;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use surefoot_hostfs::Error;
use surefoot_hostfs::Root;

/// Where the handler of a wish to read settings again writes.
static AGAIN: AtomicI32 = AtomicI32::new(-1);

extern "C" fn again(_signal: libc::c_int) {
    // SAFETY: async-signal-safe; it writes one byte from a constant, and the descriptor is never closed. It does not wait: a full pipe
    // holds wishes enough. What the interrupted code reads of errno is put back.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(AGAIN.load(Ordering::Relaxed), b"x".as_ptr().cast(), 1);
        *libc::__errno_location() = errno;
    }
}

/// Wishes to read settings again, which come as SIGHUP.
#[derive(Debug)]
pub struct Wishes(File);

impl Wishes {
    /// Waits for the next one; several that came meanwhile are one. `false` when there can be no more.
    pub fn wait(&mut self) -> bool {
        let mut bytes = [0; 4096];
        loop {
            match self.0.read(&mut bytes) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                read => return read.is_ok_and(|count| count > 0),
            }
        }
    }
}

/// From now on SIGHUP is a wish to read settings again. `None` where it is not: of a process with a controlling terminal it tells that the
/// terminal was closed, and one that was started to ignore it goes on to. Ask before [`stop_flag`].
///
/// # Errors
/// [`Error::System`] when the kernel refuses the pipe or the handler.
pub fn wishes(root: &Root) -> Result<Option<Wishes>, Error> {
    if is_ignored(libc::SIGHUP) || has_terminal(root) {
        return Ok(None);
    }
    let mut ends = [-1; 2];
    // SAFETY: writes two descriptors to a local.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(Error::last_system("make a pipe".to_owned(), ""));
    }
    // SAFETY: both were just made and belong to nobody else.
    let [read, write] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
    let write = write.into_raw_fd();
    // SAFETY: sets a flag of a descriptor of ours.
    if unsafe { libc::fcntl(write, libc::F_SETFL, libc::O_NONBLOCK) } != 0 {
        return Err(Error::last_system("set a flag of a pipe".to_owned(), ""));
    }
    AGAIN.store(write, Ordering::Relaxed);
    call(libc::SIGHUP, again, libc::SA_RESTART)?;
    Ok(Some(Wishes(read.into())))
}

/// Whether this process has a controlling terminal, as the kernel says it.
fn has_terminal(root: &Root) -> bool {
    let stat = root.read(root.proc("self/stat")).unwrap_or_default();
    // After the name, which may have any letter: state, parent, group, session, terminal.
    let terminal = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(4));
    terminal.is_none_or(|number| number != "0")
}

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: libc::c_int) {
    stop();
}

/// Raises the flag, as a signal does.
pub fn stop() {
    STOP.store(true, Ordering::Relaxed);
    crate::terminal::wake();
}

/// What a handler of news of the terminal is.
type Handler = extern "C" fn(libc::c_int);

/// Calls `handler` when the terminal's size changes, when the process is to be suspended (Ctrl-Z), when it goes on, and at SIGQUIT. One of
/// these that the parent made this process ignore stays ignored.
///
/// # Errors
/// [`Error::System`] when the kernel refuses the handler.
pub(crate) fn on_terminal_news(handler: Handler) -> Result<(), Error> {
    for signal in [libc::SIGWINCH, libc::SIGTSTP, libc::SIGCONT, libc::SIGQUIT] {
        if !is_ignored(signal) {
            call(signal, handler, libc::SA_RESTART)?;
        }
    }
    Ok(())
}

/// Stops this process as Ctrl-Z does where nobody handles it, until it is continued.
pub(crate) fn stop_until_continued() {
    let Ok(before) = action_of(libc::SIGTSTP, None) else { return };
    let mut default = zeroed();
    default.sa_sigaction = libc::SIG_DFL;
    if action_of(libc::SIGTSTP, Some(&default)).is_ok() {
        // SAFETY: takes a number, and stops all threads until SIGCONT.
        unsafe { libc::kill(libc::getpid(), libc::SIGTSTP) };
        // The signal may be delivered to another thread a moment later.
        std::thread::sleep(std::time::Duration::from_millis(20));
        let _ = action_of(libc::SIGTSTP, Some(&before));
    }
}

/// From now on SIGHUP, SIGINT and SIGTERM raise the returned flag instead of ending the process; the second one ends it.
///
/// A SIGHUP or SIGINT that the parent made this process ignore stays ignored: `nohup` does the one, so that a closed
/// terminal ends nothing, and a shell the other to what a script starts in the background, so that Ctrl-C ends the script
/// alone. SIGQUIT is left as it is: who sends it wants an end at once, and the state of the process as a core file.
///
/// # Errors
/// [`Error::System`] when the kernel refuses the handler.
pub fn stop_flag() -> Result<&'static AtomicBool, Error> {
    for signal in [libc::SIGHUP, libc::SIGINT] {
        let now = action_of(signal, None)?.sa_sigaction;
        if now != libc::SIG_IGN && now != again as Handler as usize {
            catch(signal)?;
        }
    }
    catch(libc::SIGTERM)?;
    Ok(&STOP)
}

/// From now on a write beyond the limit of a file's size (`ulimit -f`, `LimitFSIZE=`) fails with EFBIG instead of ending the process, so
/// that the writer can say so. A handler and not SIG_IGN, because programs that are started would inherit that.
///
/// # Errors
/// [`Error::System`] when the kernel refuses the handler.
pub fn survive_file_limits() -> Result<(), Error> {
    extern "C" fn nothing(_signal: libc::c_int) {}
    let mut action = zeroed();
    action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the mask is a local that the call only writes to.
    unsafe { libc::sigemptyset(&mut action.sa_mask) };
    action_of(libc::SIGXFSZ, Some(&action)).map(|_| ())
}

/// Whether this process was made to ignore a signal.
pub(crate) fn is_ignored(signal: libc::c_int) -> bool {
    action_of(signal, None).is_ok_and(|action| action.sa_sigaction == libc::SIG_IGN)
}

/// Whether the flag was raised.
pub fn is_stopped() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// While it lives, the calling thread is not ended by a signal that asks it to end: one that comes waits until then. For what must
/// not stay half done.
#[derive(Debug)]
pub struct Held {
    before: libc::sigset_t,
    /// It belongs to its thread.
    _of_thread: std::marker::PhantomData<*const ()>,
}

/// Holds SIGHUP, SIGINT, SIGQUIT, SIGPIPE and SIGTERM back from the calling thread.
pub fn hold() -> Held {
    let mut signals = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the first call makes the set, the others add to it; all are locals. Blocking signals of a thread of ours cannot fail
    // with numbers that exist, and a set of zeros would be a set of none.
    let before = unsafe {
        libc::sigemptyset(signals.as_mut_ptr());
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGPIPE, libc::SIGTERM] {
            libc::sigaddset(signals.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, signals.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    };
    Held { before, _of_thread: std::marker::PhantomData }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the set is what the kernel said that it was before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}

fn catch(signal: libc::c_int) -> Result<(), Error> {
    call(signal, note, libc::SA_RESTART | libc::SA_RESETHAND)
}

fn call(signal: libc::c_int, handler: Handler, flags: libc::c_int) -> Result<(), Error> {
    let mut action = zeroed();
    action.sa_sigaction = handler as usize;
    action.sa_flags = flags;
    // SAFETY: the mask is a local that the call only writes to.
    unsafe { libc::sigemptyset(&mut action.sa_mask) };
    action_of(signal, Some(&action)).map(|_| ())
}

/// What this process did at a signal until now; from now on it does `new`, if given.
fn action_of(signal: libc::c_int, new: Option<&libc::sigaction>) -> Result<libc::sigaction, Error> {
    let mut old = zeroed();
    let new = new.map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `new` is null or complete, and its handler stores to atomics and makes system calls that are
    // async-signal-safe; `old` is a local that the call only writes to.
    if unsafe { libc::sigaction(signal, new, &mut old) } != 0 {
        return Err(Error::last_system("catch a signal".to_owned(), ""));
    }
    Ok(old)
}

fn zeroed() -> libc::sigaction {
    // SAFETY: sigaction is made of integers and a pointer for which zero is a value.
    unsafe { std::mem::zeroed() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a process of its own, whose files may have one byte.
    #[test]
    fn a_file_at_its_limit_is_an_error_and_no_end() {
        let file = tempfile::tempfile().expect("a file");
        // SAFETY: the child makes system calls only, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let failed = survive_file_limits().is_err();
            let limit = libc::rlimit { rlim_cur: 1, rlim_max: 1 };
            let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
            // SAFETY: the limit and the bytes are locals that the calls only read; the last one ends the child at once.
            unsafe {
                let set = libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit);
                let first = libc::write(descriptor, b"ab".as_ptr().cast(), 2);
                let second = libc::write(descriptor, b"ab".as_ptr().cast(), 2);
                let is_right = !failed && set == 0 && first == 1 && second == -1;
                libc::_exit(if is_right && *libc::__errno_location() == libc::EFBIG { 7 } else { 1 });
            }
        }
        let mut status = 0;
        // SAFETY: writes to a local.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "{status:#x}");
    }

    #[test]
    fn a_signal_that_is_held_comes_when_it_is_not_any_more() {
        // In a process of its own, which it ends.
        // SAFETY: the child makes system calls only, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let held = hold();
            // SAFETY: takes a number; what a handler does is stored before.
            unsafe { libc::raise(libc::SIGTERM) };
            drop(held);
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(7) };
        }
        let mut status = 0;
        // SAFETY: writes to a local.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGTERM, "{status:#x}");
    }
}
