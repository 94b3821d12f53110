//! Runs checks when they are due, each on a thread of its own for as long as it lasts, and measures what that costs.
//!
//! A check that hangs in the kernel (a dead server's file system) cannot be ended: its thread is left, it is told of once its time limit is
//! over, and it is not run again before it has come back. So there are never more threads than checks.

use super::{Check, Said};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;
use surefoot_hostfs::{clock, usage};
use surefoot_model::{CheckState, HostCheck};

/// Checks that run beside each other; those that hang are not counted.
const AT_ONCE_MAX: usize = 4;
/// The first run of a check comes within this time, spread by chance: hosts that start together do not ask together for ever.
const SPREAD_MAX: Duration = Duration::from_secs(30);
/// By how much of its period a run may come early or late.
const JITTER: f64 = 0.1;
/// How long beyond its time limit a program may take to be ended.
const END_PATIENCE: Duration = Duration::from_secs(3);

/// What the runner did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Runs that ended.
    pub run_count: u64,
    /// Runs that hung, or were ended because they took too long.
    pub hung_count: u64,
    /// Runs that were due while the one before still hung: left out.
    pub left_out_count: u64,
    /// Processor time of all runs, nanoseconds.
    pub processor_ns: u64,
}

/// Runs checks again and again.
pub struct Runner {
    slots: Vec<Slot>,
    send: Sender<Ended>,
    ended: Receiver<Ended>,
    stop: Arc<AtomicBool>,
    random: u64,
    /// Nothing is run a second time.
    is_once: bool,
    counts: Counts,
}

struct Slot {
    check: Check,
    due_ns: u64,
    begun_ns: Option<u64>,
    is_hung: bool,
    last: Option<(CheckState, u64)>,
}

struct Ended {
    index: usize,
    said: Said,
    took_ns: u64,
    processor_ns: u64,
}

impl Runner {
    /// These checks, with this seed for what is left to chance.
    pub fn new(checks: Vec<Check>, seed: u64) -> Self {
        let (send, ended) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let mut runner =
            Runner { slots: Vec::new(), send, ended, stop, random: seed, is_once: false, counts: Counts::default() };
        let now_ns = clock::monotonic_ns();
        for check in checks {
            let spread = SPREAD_MAX.min(check.period).as_nanos() as f64 * runner.chance();
            let due_ns = now_ns + spread as u64;
            runner.slots.push(Slot { check, due_ns, begun_ns: None, is_hung: false, last: None });
        }
        runner
    }

    /// What it did so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Begins what is due, and tells what ended and what hangs. Does not wait.
    pub fn turn(&mut self) -> Vec<HostCheck> {
        let now_ns = clock::monotonic_ns();
        let mut results = Vec::new();
        while let Ok(ended) = self.ended.try_recv() {
            results.extend(self.take(ended));
        }
        for index in 0..self.slots.len() {
            results.extend(self.hangs(index, now_ns));
            self.begin_if_due(index, now_ns);
        }
        results
    }

    /// How long nothing is due and nothing can be over its limit.
    pub fn rest(&self) -> Duration {
        let now_ns = clock::monotonic_ns();
        if self.slots.iter().any(|slot| slot.begun_ns.is_some() && !slot.is_hung) {
            return Duration::from_millis(100);
        }
        let next = self.slots.iter().map(|slot| slot.due_ns.saturating_sub(now_ns)).min().unwrap_or(u64::MAX);
        Duration::from_nanos(next).clamp(Duration::from_millis(100), Duration::from_secs(1))
    }

    /// Runs each check once, now, and waits for all of them or their time limits.
    pub fn once(&mut self) -> Vec<HostCheck> {
        let now_ns = clock::monotonic_ns();
        self.slots.iter_mut().for_each(|slot| slot.due_ns = now_ns);
        self.is_once = true;
        let mut results: Vec<HostCheck> = Vec::new();
        while results.len() < self.slots.len() {
            results.extend(self.turn());
            std::thread::sleep(Duration::from_millis(5));
        }
        self.is_once = false;
        let now_ns = clock::monotonic_ns();
        self.slots.iter_mut().for_each(|slot| slot.due_ns = now_ns.saturating_add(slot.check.period.as_nanos() as u64));
        results.sort_by_key(|result| self.slots.iter().position(|slot| slot.check.name == result.name));
        results
    }

    fn begin_if_due(&mut self, index: usize, now_ns: u64) {
        let running = self.slots.iter().filter(|slot| slot.begun_ns.is_some() && !slot.is_hung).count();
        let slot = &mut self.slots[index];
        if slot.due_ns > now_ns {
            return;
        }
        let period_ns = slot.check.period.as_nanos() as u64;
        if slot.begun_ns.is_some() {
            self.counts.left_out_count += 1;
            slot.due_ns = now_ns.saturating_add(period_ns);
            return;
        }
        if running >= AT_ONCE_MAX {
            return;
        }
        slot.begun_ns = Some(now_ns);
        if self.is_once {
            self.slots[index].due_ns = u64::MAX;
            return self.start(index);
        }
        let factor = 1.0 + JITTER * (2.0 * self.chance() - 1.0);
        self.slots[index].due_ns = now_ns.saturating_add((period_ns as f64 * factor) as u64);
        self.start(index);
    }

    fn start(&mut self, index: usize) {
        let (ask, send, stop) = (Arc::clone(&self.slots[index].check.ask), self.send.clone(), Arc::clone(&self.stop));
        let work = move || {
            let begun_ns = clock::monotonic_ns();
            let said = ask(&stop).within_limits();
            let took_ns = clock::monotonic_ns().saturating_sub(begun_ns);
            let processor_ns = usage::thread_cpu_ns().saturating_add(said.processor.as_nanos() as u64);
            // Nobody listens when the runner is gone.
            let _ = send.send(Ended { index, said, took_ns, processor_ns });
        };
        if let Err(error) = std::thread::Builder::new().name("surefoot-check".into()).spawn(work) {
            let said = Said::unknown(format!("The check cannot be begun: {error}"));
            let _ = self.send.send(Ended { index, said, took_ns: 0, processor_ns: 0 });
        }
    }

    fn take(&mut self, ended: Ended) -> Option<HostCheck> {
        let slot = &mut self.slots[ended.index];
        slot.begun_ns = None;
        self.counts.run_count += 1;
        self.counts.processor_ns = self.counts.processor_ns.saturating_add(ended.processor_ns);
        if std::mem::take(&mut slot.is_hung) {
            // What it says now is as old as its beginning; the next run says what holds.
            slot.due_ns = clock::monotonic_ns();
            return None;
        }
        let limit_ns = slot.check.time_limit.as_nanos() as u64;
        self.counts.hung_count += u64::from(ended.took_ns > limit_ns);
        Some(slot.result(ended.said, ended.took_ns, ended.processor_ns))
    }

    fn hangs(&mut self, index: usize, now_ns: u64) -> Option<HostCheck> {
        let slot = &mut self.slots[index];
        let took_ns = now_ns.saturating_sub(slot.begun_ns?);
        let limit = slot.check.time_limit + END_PATIENCE;
        if slot.is_hung || took_ns <= limit.as_nanos() as u64 {
            return None;
        }
        slot.is_hung = true;
        self.counts.hung_count += 1;
        let why = format!("The check did not end within {:?} and still hangs", slot.check.time_limit);
        Some(slot.result(Said::unknown(why), took_ns, 0))
    }

    /// From 0 to 1, by the seed.
    fn chance(&mut self) -> f64 {
        // Steps of a Weyl sequence, mixed by multiplication: enough to spread hosts.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 31)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }
}

impl Slot {
    fn result(&mut self, said: Said, took_ns: u64, processor_ns: u64) -> HostCheck {
        let at_realtime_ns = clock::realtime_ns();
        let (is_change, since_realtime_ns) = match self.last {
            Some((state, since)) if state == said.state => (false, since),
            _ => (true, at_realtime_ns),
        };
        self.last = Some((said.state, since_realtime_ns));
        HostCheck {
            at_ns: clock::monotonic_ns(),
            at_realtime_ns,
            name: self.check.name.clone(),
            state: said.state,
            sentence: said.sentence,
            evidence: said.evidence,
            since_realtime_ns,
            is_change,
            took_ns,
            processor_ns,
            period_ns: self.check.period.as_nanos() as u64,
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
