//! Loads programs although signals come meanwhile.
//!
//! The kernel gives up the check of a program when a signal is pending for the thread that loads it (EAGAIN), and libbpf tries
//! each program five times. So signals wait until the programs are loaded. A stop cannot wait: then all is loaded anew.

use crate::error::Error;
use crate::load::{forget_words, refusal};
use libbpf_rs::{ErrorKind, Object, OpenObject};
use std::time::{Duration, Instant};

/// How long loading is tried again.
const PATIENCE: Duration = Duration::from_secs(10);

/// Loads what `open` opens, which is called again for each try. Hands on what it returned beside.
pub(crate) fn load<T>(open: impl Fn() -> Result<(OpenObject, T), Error>) -> Result<(Object, T), Error> {
    let _held = HeldSignals::hold();
    let give_up = Instant::now() + PATIENCE;
    loop {
        let (object, beside) = open()?;
        match object.load() {
            Ok(object) => return Ok((object, beside)),
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(refusal(&error)),
            Err(_) if Instant::now() >= give_up => {
                let seconds = PATIENCE.as_secs();
                let why =
                    format!("signals interrupted its check of them for {seconds} s; try again when no signals come");
                return Err(Error::Refused { why });
            }
            Err(_) => forget_words(),
        }
    }
}

/// Signals wait for the calling thread as long as this lives.
struct HeldSignals {
    before: libc::sigset_t,
}

impl HeldSignals {
    fn hold() -> Self {
        // SAFETY: a set of signals is made of integers, for which zero is a value; the pointers are to locals.
        unsafe {
            let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_BLOCK, &all, &mut before);
            HeldSignals { before }
        }
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        // SAFETY: the set was given by the kernel, and is only read.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}
