//! The sentinel: one loop that spins on a housekeeping core part of the time.
//!
//! System-management interrupts stop all cores of a machine at once, so one spinning core sees them for all, without
//! taking time from any core that works. The share of time that it spins is the share of stops that it sees.

use crate::Error;
use crate::config::SentinelConfig;
use crate::spin::{self, Jump, Jumps};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use surefoot_hostfs::clock::{TscClock, tsc};
use surefoot_sys::thread;

/// A period of spinning and resting. Short enough that a stop of 100 ms cannot hide, long enough that waking up does
/// not matter.
const PERIOD: Duration = Duration::from_millis(100);

/// The running loop; dropping it ends it within a period.
pub struct Sentinel {
    /// Where and how much it spins.
    pub config: SentinelConfig,
    /// Its thread number, to tell its own work on the tape.
    pub tid: u32,
    jumps: Arc<Jumps>,
    thread: Option<JoinHandle<()>>,
}

impl Sentinel {
    /// Starts the loop.
    ///
    /// # Errors
    /// [`Error::Host`] when the core cannot be used, [`Error::Thread`] when no thread can be started.
    pub fn start(config: SentinelConfig, clock: &TscClock, threshold_ns: u64) -> Result<Self, Error> {
        let jumps = Arc::new(Jumps::default());
        let (ready, started) = std::sync::mpsc::channel();
        let theirs = Arc::clone(&jumps);
        let spin_time = PERIOD.mul_f64(f64::from(config.duty_percent) / 100.0);
        let spin_ticks = clock.ticks(spin_time.as_nanos() as u64);
        let threshold = clock.ticks(threshold_ns);
        let body = move || {
            let pinned = thread::pin_to(config.cpu);
            let is_pinned = pinned.is_ok();
            let _ = ready.send((thread::current_tid(), pinned));
            while is_pinned && !theirs.stopped() {
                spin::spin_until(tsc().saturating_add(spin_ticks), threshold, &theirs);
                std::thread::sleep(PERIOD - spin_time);
            }
        };
        let thread = std::thread::Builder::new().name("sentinel".into()).spawn(body).map_err(Error::Thread)?;
        let (tid, pinned) =
            started.recv().map_err(|_| Error::Thread(std::io::Error::other("the sentinel ended before it began")))?;
        pinned?;
        Ok(Sentinel { config, tid, jumps, thread: Some(thread) })
    }

    /// Takes the jumps since the last call.
    pub fn take(&self, into: &mut Vec<Jump>) {
        self.jumps.take(into);
    }

    /// Jumps that found the ring full.
    pub fn dropped(&self) -> u64 {
        self.jumps.dropped()
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.jumps.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
