//! Injectors that are threads of this process: they end with it, and are ended and collected alike.

use super::{Losses, Stall};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use surefoot_hostfs::clock::monotonic_ns;

/// Stalls that wait to be collected at most; what is over is counted.
const WAITING_MAX: usize = 1 << 20;
/// How long a thread sleeps before it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(20);

/// What a thread and its owner share.
#[derive(Debug, Default)]
pub(super) struct Told {
    ends: AtomicBool,
    found: Mutex<(Vec<Stall>, Losses)>,
}

impl Told {
    pub(super) fn is_over(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    pub(super) fn tell(&self, stall: Stall) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.0.len() < WAITING_MAX {
            found.0.push(stall);
        } else {
            found.1.dropped += 1;
        }
    }

    pub(super) fn miss(&self, count: u64) {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).1.missed += count;
    }

    /// A stall that was told of ended before its time.
    pub(super) fn cut(&self) {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).1.cut += 1;
    }

    /// Sleeps until this moment; `false` when it is to end before.
    pub(super) fn sleep_until(&self, at_ns: u64) -> bool {
        loop {
            if self.is_over() {
                return false;
            }
            let left = Duration::from_nanos(at_ns.saturating_sub(monotonic_ns()));
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(LOOK));
        }
    }
}

/// The threads of an injector.
#[derive(Debug, Default)]
pub(super) struct Threads {
    told: Arc<Told>,
    running: Vec<JoinHandle<()>>,
}

impl Threads {
    pub(super) fn add(&mut self, work: impl FnOnce(&Told) + Send + 'static) -> Result<(), std::io::Error> {
        let told = Arc::clone(&self.told);
        let thread = std::thread::Builder::new().name("disturb".into()).spawn(move || work(&told))?;
        self.running.push(thread);
        Ok(())
    }

    pub(super) fn collect(&self, into: &mut Vec<Stall>) {
        into.append(&mut self.told.found.lock().unwrap_or_else(PoisonError::into_inner).0);
    }

    /// Ends them; returns what went otherwise than planned.
    pub(super) fn end(&mut self, into: &mut Vec<Stall>) -> Losses {
        self.told.ends.store(true, Ordering::Relaxed);
        for thread in self.running.drain(..) {
            // A panic of a thread is one of this program.
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
        self.collect(into);
        let losses = self.told.found.lock().unwrap_or_else(PoisonError::into_inner).1;
        self.told = Arc::default();
        losses
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.told.ends.store(true, Ordering::Relaxed);
        for thread in self.running.drain(..) {
            let _ = thread.join();
        }
    }
}
