//! Timer lateness without any privilege: a thread on each core that sleeps a little and notes when it wakes too late.
//!
//! It sees how long it waited behind others on a busy core, where the scheduler counts that. Masked interrupts, an SMI and the
//! hypervisor look the same from here.

use crate::config::allowed_cores;
use crate::spin::run_delay::RunDelay;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use surefoot_hostfs::clock;
use surefoot_model::CpuId;
use surefoot_sys::thread;

/// How long each sleep lasts: 50 wake-ups a second and core.
const SLEEP: Duration = Duration::from_millis(20);

/// What the kernel may add to any sleep of an ordinary thread (the timer slack), nanoseconds.
const SLACK_NS: u64 = 50_000;

/// Late wake-ups that are kept until somebody takes them; more are dropped and counted.
const KEPT: usize = 4096;

/// A late wake-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateWakeUp {
    /// The core.
    pub cpu: CpuId,
    /// When the sleep should have ended at the latest, `CLOCK_MONOTONIC` nanoseconds.
    pub due_ns: u64,
    /// When it ended.
    pub woke_ns: u64,
    /// How long it waited behind others that ran, nanoseconds; `None` where the kernel does not count it.
    pub waited_ns: Option<u64>,
}

/// The sleeping threads; dropping it ends them.
pub struct Sleepers {
    stop: Arc<AtomicBool>,
    late: Arc<Mutex<Vec<LateWakeUp>>>,
    dropped: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Sleepers {
    /// Starts a sleeper on each of the cores that this process may use; returns those that it may not.
    pub fn start(cpus: &[CpuId], threshold_ns: u64) -> (Self, Vec<CpuId>) {
        let mut sleepers =
            Sleepers { stop: Arc::default(), late: Arc::default(), dropped: Arc::default(), threads: Vec::new() };
        let allowed = allowed_cores();
        let mut refused = Vec::new();
        for &cpu in cpus {
            if !allowed.contains(&cpu) {
                refused.push(cpu);
                continue;
            }
            let (stop, late, dropped) =
                (Arc::clone(&sleepers.stop), Arc::clone(&sleepers.late), Arc::clone(&sleepers.dropped));
            let spawned = std::thread::Builder::new().name(format!("sleeper-{cpu}")).spawn(move || {
                // That of the thread that starts this one is larger.
                thread::set_timer_slack(Duration::from_nanos(SLACK_NS));
                if thread::pin_to(cpu).is_ok() {
                    sleep_until_stopped(cpu, threshold_ns, &stop, &late, &dropped);
                }
            });
            match spawned {
                Ok(handle) => sleepers.threads.push(handle),
                Err(_) => refused.push(cpu),
            }
        }
        (sleepers, refused)
    }

    /// Takes what was noted since the last call.
    pub fn take(&self) -> Vec<LateWakeUp> {
        self.late.lock().map(|mut late| std::mem::take(&mut *late)).unwrap_or_default()
    }

    /// Late wake-ups that found the list full.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn sleep_until_stopped(
    cpu: CpuId,
    threshold_ns: u64,
    stop: &AtomicBool,
    late: &Mutex<Vec<LateWakeUp>>,
    dropped: &AtomicU64,
) {
    let mut delay = RunDelay::of_this_thread();
    while !stop.load(Ordering::Relaxed) {
        // What it waited for the core before this is none of the sleep.
        delay.as_mut().and_then(RunDelay::since_ns);
        let due_ns = clock::monotonic_ns() + SLEEP.as_nanos() as u64 + SLACK_NS;
        std::thread::sleep(SLEEP);
        let woke_ns = clock::monotonic_ns();
        if woke_ns > due_ns + threshold_ns {
            let waited_ns = delay.as_mut().and_then(RunDelay::since_ns);
            match late.lock() {
                Ok(mut late) if late.len() < KEPT => late.push(LateWakeUp { cpu, due_ns, woke_ns, waited_ns }),
                _ => {
                    dropped.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_is_kept_busy_wakes_its_sleeper_late_and_dropping_ends_the_threads() {
        let cpus = thread::affinity().unwrap_or_else(|error| panic!("{error}"));
        // With a threshold of zero nearly every wake-up counts; the kernel is never exactly on time.
        let (sleepers, refused) = Sleepers::start(&[cpus[0], CpuId(100_000)], 0);
        assert_eq!(refused, [CpuId(100_000)]);
        std::thread::sleep(Duration::from_millis(500));
        let late = sleepers.take();
        assert_eq!(sleepers.dropped(), 0);
        assert!(late.iter().all(|late| late.cpu == cpus[0] && late.woke_ns > late.due_ns));
        drop(sleepers);
    }
}
