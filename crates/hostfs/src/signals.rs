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
        return Err(Error::last_system("catch SIGHUP, SIGINT and SIGTERM".to_owned(), ""));
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
