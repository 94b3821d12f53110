//! A driver of stalls as the SMI slides have it: the next comes a chosen time after the end of the one before.

use crate::Fault;
use crate::disturbance::bpf::{alive_until_ns, ended_early};
use std::ops::Range;
use std::time::{Duration, Instant};
use surefoot_hostfs::clock::monotonic_ns;
use surefoot_hostfs::{Root, cpus};
use surefoot_model::CpuId;
use surefoot_probes::{FREEZE_LEAD_NS, FreezePlan, FreezeRecord, Freezer};
use surefoot_sys::thread;

use super::Counted;

/// From arming to the first stall.
const ARMING_NS: u64 = 5_000_000;
/// How often the count is read while nobody waits for it to rise.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Stalls one core, or only fires the timer that would stall it.
pub trait Driver {
    /// From now on the core stalls `interval_ns` after each stall, or does all but stall.
    ///
    /// # Errors
    /// It cannot be done; nothing is disturbed then.
    fn begin(&mut self, interval_ns: u64, stalls: bool) -> Result<(), Fault>;

    /// Stalls since it began.
    fn count(&self) -> u64;

    /// Ends it.
    ///
    /// # Errors
    /// It could not be ended.
    fn end(&mut self) -> Result<(), Fault>;
}

/// A pinned timer of eBPF with interrupts off, whose lengths are known.
pub struct Timer {
    freezer: Freezer,
    cpu: CpuId,
    length_ns: u64,
    /// From the beginning to the end of each.
    stalls: Vec<Range<u64>>,
}

impl Timer {
    /// For this core and this length. Nothing is stalled yet; the calling thread leaves the core, where there is another.
    ///
    /// # Errors
    /// The kernel does not allow it, or there is no such core.
    pub fn load(cpu: CpuId, length_ns: u64, root: &Root) -> Result<Timer, Fault> {
        let online = cpus::online(root)?;
        if !online.contains(&cpu) {
            let there = cpus::format_list(&online);
            return Err(Fault::Refused(format!("core {} is not online: these are: {there}", cpu.0)));
        }
        let freezer = Freezer::load()?;
        if let Some(other) = online.iter().find(|other| **other != cpu) {
            thread::pin_to(*other)?;
        }
        Ok(Timer { freezer, cpu, length_ns, stalls: Vec::new() })
    }

    /// From when to when the core really was held since this was asked last, by the clock reads of whoever held it
    /// (`CLOCK_MONOTONIC`); of each count the last 4,096.
    pub fn take_stalls(&mut self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.stalls)
    }
}

impl Driver for Timer {
    fn begin(&mut self, interval_ns: u64, stalls: bool) -> Result<(), Fault> {
        let plan = FreezePlan {
            start_ns: monotonic_ns() + ARMING_NS,
            length_ns: if stalls { self.length_ns } else { 0 },
            rearm_ns: interval_ns,
            count: u64::MAX,
            lead_ns: FREEZE_LEAD_NS,
            until_ns: alive_until_ns(),
            ..FreezePlan::default()
        };
        let (freezer, cpu) = (&self.freezer, self.cpu);
        let arm = || {
            thread::pin_to(cpu)?;
            freezer.arm(cpu, &plan).map_err(Fault::from)
        };
        // A panic of a thread is one of this program.
        std::thread::scope(|scope| scope.spawn(arm).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }

    fn count(&self) -> u64 {
        self.freezer.go_on_until(self.cpu, alive_until_ns());
        self.freezer.plan(self.cpu).map_or(0, |plan| plan.done)
    }

    fn end(&mut self) -> Result<(), Fault> {
        self.freezer.disarm(self.cpu)?;
        let mut records: Vec<FreezeRecord> = Vec::new();
        self.freezer.read(self.cpu, 0, &mut records);
        let stalls = records.iter().map(|record| record.entered_ns..record.left_ns);
        self.stalls.extend(stalls.filter(|stall| stall.end - stall.start > self.length_ns / 2));
        let fault = self.freezer.plan(self.cpu).and_then(|plan| ended_early(self.cpu, &plan));
        fault.map_or(Ok(()), Err)
    }
}

/// Counts for at least `least`, and over at least `least_count` periods, each of some `period_ns`.
///
/// # Errors
/// The driver cannot begin or end, or counts nothing any more.
pub(super) fn count(
    driver: &mut dyn Driver,
    interval_ns: u64,
    stalls: bool,
    least: Duration,
    least_count: u64,
    patience: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<Counted, Fault> {
    driver.begin(interval_ns, stalls)?;
    let counted = counting(&*driver, least, least_count, patience, stop);
    driver.end()?;
    counted
}

fn counting(
    driver: &dyn Driver,
    least: Duration,
    least_count: u64,
    patience: Duration,
    stop: &dyn Fn() -> bool,
) -> Result<Counted, Fault> {
    let first = edge(driver, 0, patience, stop)?;
    let begin = Instant::now();
    while begin.elapsed() < least || driver.count() < first.count + least_count {
        if stop() {
            return Err(Fault::Refused("stopped by a signal; nothing is disturbed any more".into()));
        }
        if begin.elapsed() > least + patience {
            return Err(stuck(driver.count() - first.count, patience));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    let last = edge(driver, driver.count(), patience, stop)?;
    Ok(Counted {
        count: last.count - first.count,
        elapsed_ns: last.at_ns - first.at_ns,
        edge_ns: first.late_ns.max(last.late_ns),
    })
}

/// A moment at which the count rose.
struct Edge {
    count: u64,
    at_ns: u64,
    late_ns: u64,
}

/// The next moment at which the count is more than `from`.
fn edge(driver: &dyn Driver, from: u64, patience: Duration, stop: &dyn Fn() -> bool) -> Result<Edge, Fault> {
    let begin = Instant::now();
    let mut before_ns = monotonic_ns();
    loop {
        let (count, now_ns) = (driver.count(), monotonic_ns());
        if count > from {
            return Ok(Edge { count, at_ns: now_ns, late_ns: now_ns - before_ns });
        }
        if stop() {
            return Err(Fault::Refused("stopped by a signal; nothing is disturbed any more".into()));
        }
        if begin.elapsed() > patience {
            return Err(stuck(count - from, patience));
        }
        before_ns = now_ns;
        std::hint::spin_loop();
    }
}

fn stuck(count: u64, patience: Duration) -> Fault {
    Fault::Refused(format!("only {count} stalls were counted in {} s: the driver has stopped", patience.as_secs()))
}
