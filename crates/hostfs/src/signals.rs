//! Ctrl-C, a closed terminal and SIGTERM as a flag that loops look at.

use crate::Error;
use std::sync::atomic::{AtomicBool, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
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
        if action_of(signal, None)?.sa_sigaction != libc::SIG_IGN {
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
    let mut action = zeroed();
    action.sa_sigaction = note as extern "C" fn(libc::c_int) as usize;
    action.sa_flags = libc::SA_RESTART | libc::SA_RESETHAND;
    // SAFETY: the mask is a local that the call only writes to.
    unsafe { libc::sigemptyset(&mut action.sa_mask) };
    action_of(signal, Some(&action)).map(|_| ())
}

/// What this process did at a signal until now; from now on it does `new`, if given.
fn action_of(signal: libc::c_int, new: Option<&libc::sigaction>) -> Result<libc::sigaction, Error> {
    let mut old = zeroed();
    let new = new.map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `new` is null or complete, and its handler does nothing but store to an atomic, which is
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
