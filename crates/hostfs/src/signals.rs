//! Ctrl-C and SIGTERM as a flag that loops look at.

use crate::Error;
use std::sync::atomic::{AtomicBool, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}

/// From now on SIGINT and SIGTERM raise the returned flag instead of ending the process; the second one ends it.
///
/// # Errors
/// [`Error::System`] when the kernel refuses the handler.
pub fn stop_flag() -> Result<&'static AtomicBool, Error> {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: sigaction is made of integers and a pointer for which zero is a value; every field is set below.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = note as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_RESETHAND;
        // SAFETY: the mask is a local that the call only writes to.
        unsafe { libc::sigemptyset(&mut action.sa_mask) };
        // SAFETY: the action is complete, and its handler does nothing but store to an atomic, which is
        // async-signal-safe.
        if unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) } != 0 {
            return Err(Error::last_system("catch SIGINT and SIGTERM".to_owned(), ""));
        }
    }
    Ok(&STOP)
}
