//! A program that is told to end: SIGTERM, as batch systems and init systems send it before they kill.
//!
//! A handler may do next to nothing, so it takes note and returns. The program goes on, finds a checkpoint due when it asks
//! next, and that one is durable when the save returns; then it can end. Where the program has a handler of its own, that
//! one is called, too.

use crate::Error;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a session knows of its program's end.
#[derive(Default)]
pub struct Ending {
    watch: Option<TermWatch>,
    /// Whether a rank was told to end, as all ranks agreed.
    pub is_agreed: bool,
    /// Whether a checkpoint was taken since.
    pub is_saved: bool,
}

impl Ending {
    pub fn watching(watches: bool) -> Result<Self, Error> {
        let watch = watches.then(TermWatch::new).transpose()?;
        Ok(Ending { watch, ..Ending::default() })
    }

    /// Whether this rank was told to end.
    pub fn is_told(&self) -> bool {
        self.watch.as_ref().is_some_and(TermWatch::is_told)
    }

    /// Takes note that a checkpoint was taken.
    pub fn saved(&mut self) {
        self.is_saved = self.is_agreed;
    }
}

/// Set by the handler, never taken back: a process is told to end once.
static IS_TOLD: AtomicBool = AtomicBool::new(false);
/// The handler that was there before, if it is a function; 0 otherwise. It takes a signal's number, or all three
/// arguments: `HAS_INFO` says which.
static FORMER: AtomicUsize = AtomicUsize::new(0);
static HAS_INFO: AtomicBool = AtomicBool::new(false);

/// How many sessions watch, and what was there before the first.
static WATCHES: Mutex<Watches> = Mutex::new(Watches { count: 0, former: None });

struct Watches {
    count: usize,
    former: Option<libc::sigaction>,
}

/// Takes note of SIGTERM for as long as it lives, instead of ending the process.
pub struct TermWatch(());

impl TermWatch {
    /// Begins to take note.
    ///
    /// # Errors
    /// [`Error::Option`] when the system refuses a handler.
    pub fn new() -> Result<Self, Error> {
        let mut watches = locked();
        if watches.count == 0 {
            watches.former = Some(install().map_err(|error| Error::Option {
                option: "sigterm",
                why: format!("no handler can be set: {error}"),
            })?);
        }
        watches.count += 1;
        Ok(TermWatch(()))
    }

    /// Whether this process was told to end.
    pub fn is_told(&self) -> bool {
        IS_TOLD.load(Ordering::Relaxed)
    }
}

impl Drop for TermWatch {
    fn drop(&mut self) {
        let mut watches = locked();
        watches.count -= 1;
        if watches.count > 0 {
            return;
        }
        let Some(former) = watches.former.take() else { return };
        // A handler that the program set since is the program's, and stays.
        if current().is_ok_and(|now| now.sa_sigaction == handler()) {
            // SAFETY: the action came from the kernel and goes back as it was.
            unsafe { libc::sigaction(libc::SIGTERM, &former, std::ptr::null_mut()) };
        }
    }
}

fn locked() -> MutexGuard<'static, Watches> {
    WATCHES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn handler() -> libc::sighandler_t {
    take_note as extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) as libc::sighandler_t
}

fn current() -> io::Result<libc::sigaction> {
    let mut found = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the kernel fills the structure, which is read only if it said so; nothing is changed.
    unsafe {
        match libc::sigaction(libc::SIGTERM, std::ptr::null(), found.as_mut_ptr()) {
            0 => Ok(found.assume_init()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Sets the handler; returns what was there.
fn install() -> io::Result<libc::sigaction> {
    let former = current()?;
    let is_function = ![libc::SIG_DFL, libc::SIG_IGN, handler()].contains(&former.sa_sigaction);
    HAS_INFO.store(former.sa_flags & libc::SA_SIGINFO != 0, Ordering::Relaxed);
    FORMER.store(if is_function { former.sa_sigaction } else { 0 }, Ordering::Release);
    let mut action = former;
    action.sa_sigaction = handler();
    // Calls of the program that wait are begun again, as if nothing had come.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    // SAFETY: the structure is whole, and the handler does only what a handler may.
    match unsafe { libc::sigaction(libc::SIGTERM, &action, std::ptr::null_mut()) } {
        0 => Ok(former),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The handler: two loads, a store, and the program's own handler.
extern "C" fn take_note(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    IS_TOLD.store(true, Ordering::Relaxed);
    let former = FORMER.load(Ordering::Acquire);
    if former == 0 {
        return;
    }
    if HAS_INFO.load(Ordering::Relaxed) {
        // SAFETY: it was a handler of this kind, as its flags said, and is called as the kernel would.
        unsafe {
            let former: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                std::mem::transmute(former);
            former(signal, info, context);
        }
    } else {
        // SAFETY: as above.
        unsafe {
            let former: extern "C" fn(libc::c_int) = std::mem::transmute(former);
            former(signal);
        }
    }
}
