//! Real system-management interrupts, asked of the firmware through the port of its power management.

use super::threads::{Threads, Told};
use super::{Injector, Losses, Schedule, Stall};
use crate::Fault;
use std::sync::{Arc, Mutex, PoisonError};
use surefoot_hostfs::apm::{ApmPort, smi_count};
use surefoot_hostfs::clock::monotonic_ns;
use surefoot_hostfs::{Root, cpus};
use surefoot_model::CpuId;
use surefoot_sys::thread;

pub(super) const WORDS: &str = "real SMIs: a byte is written to the APM port 0xB2, at which the firmware takes the processors; which of them stop and for \
     how long is the firmware's affair, and told by what they count (MSR 0x34)";

/// A processor may get to the interrupt only some time after the port was written, so long is it looked for.
const LOOKED_FOR_NS: u64 = 2_000_000;
/// What is shorter is the loop's own.
const NOTHING_NS: u64 = 2_000;
/// Of the time these may take as much as other disturbances.
const SHARE_MAX_PERCENT: u64 = crate::safety::SHARE_MAX_PERCENT;
/// The command: one that firmware gives no meaning to.
const COMMAND: u8 = 0x5a;

/// Asks for SMIs at a rate.
pub(super) struct Raiser {
    port: ApmPort,
    threads: Threads,
    root: Root,
    /// What each core has counted since this was opened, and how many were asked for.
    counted: Counted,
    asked: Arc<Mutex<u64>>,
}

/// Per core the count when the first was to come.
type Counted = Vec<(CpuId, u32)>;

impl Raiser {
    /// # Errors
    /// [`Fault::Unsupported`] where this process cannot write to the port.
    pub(super) fn open(root: &Root) -> Result<Raiser, Fault> {
        let port = ApmPort::open(root)
            .map_err(|unsupported| Fault::Unsupported { why: unsupported.why, remedy: unsupported.remedy })?;
        let counted = counts(root)?;
        Ok(Raiser { port, threads: Threads::default(), root: root.clone(), counted, asked: Arc::default() })
    }
}

/// The cores that tell how many SMIs they had.
fn counts(root: &Root) -> Result<Counted, Fault> {
    let cores = cpus::online(root)?;
    Ok(cores.into_iter().filter_map(|cpu| Some((cpu, smi_count(root, cpu)?))).collect())
}

/// Asks for one; the longest time that its core was away from a loop that reads the clock.
fn raise(port: &ApmPort) -> Option<(u64, u64)> {
    let asked_ns = monotonic_ns();
    port.raise(COMMAND).ok()?;
    let (mut last_ns, mut longest) = (asked_ns, (asked_ns, 0));
    while last_ns < asked_ns + LOOKED_FOR_NS {
        let now_ns = monotonic_ns();
        if now_ns - last_ns > longest.1 {
            longest = (last_ns, now_ns - last_ns);
        }
        last_ns = now_ns;
    }
    Some(if longest.1 < NOTHING_NS { (asked_ns, 0) } else { longest })
}

/// The earliest moment of the next one after one that took so long.
fn rested_ns(end_ns: u64, length_ns: u64) -> u64 {
    end_ns + length_ns * (100 - SHARE_MAX_PERCENT) / SHARE_MAX_PERCENT
}

fn work(port: &ApmPort, cpu: CpuId, schedule: &Schedule, first_ns: u64, asked: &Mutex<u64>, told: &Told) {
    let mut number = 0;
    while number < schedule.count {
        let target_ns = first_ns + number * schedule.period_ns;
        if !told.sleep_until(target_ns) {
            return;
        }
        let mut free_ns = monotonic_ns();
        match raise(port) {
            Some((start_ns, length_ns)) => {
                *asked.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                told.tell(Stall { cpu: Some(cpu), target_ns, start_ns, length_ns });
                free_ns = rested_ns(start_ns + length_ns, length_ns);
            }
            None => told.miss(1),
        }
        let due = free_ns.max(monotonic_ns()).saturating_sub(first_ns) / schedule.period_ns + 1;
        told.miss(due.saturating_sub(number + 1));
        number = due.max(number + 1);
    }
}

impl Injector for Raiser {
    fn arm(&mut self, schedule: &Schedule) -> Result<(), Fault> {
        let failed = |error: std::io::Error| Fault::Start(format!("a thread that asks for SMIs: {error}"));
        let Some(&(cpu, first_ns)) = schedule.firsts.first() else { return Ok(()) };
        let (port, asked) = (self.port.again().map_err(failed)?, Arc::clone(&self.asked));
        let schedule = schedule.clone();
        let work = move |told: &Told| {
            // On another core the lengths would be those of another one.
            if thread::pin_to(cpu).is_ok() {
                work(&port, cpu, &schedule, first_ns, &asked, told);
            }
        };
        self.threads.add(work).map_err(failed)
    }

    fn collect(&mut self, into: &mut Vec<Stall>) {
        self.threads.collect(into);
    }

    fn notes(&self) -> Vec<String> {
        let asked = *self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        vec![told_of(asked, &self.counted, &counts(&self.root).unwrap_or_default())]
    }

    fn end(&mut self, into: &mut Vec<Stall>) -> Result<Losses, Fault> {
        Ok(self.threads.end(into))
    }
}

/// What the cores counted, beside what was asked for.
fn told_of(asked: u64, before: &Counted, after: &Counted) -> String {
    let since = |cpu: CpuId, first: u32| {
        let now = after.iter().find(|(one, _)| *one == cpu)?.1;
        Some((cpu, now.wrapping_sub(first)))
    };
    let counted: Vec<(CpuId, u32)> = before.iter().filter_map(|(cpu, first)| since(*cpu, *first)).collect();
    if counted.is_empty() {
        return format!(
            "{asked} SMIs were asked for, and no core tells how many it had: MSR 0x34 needs the kernel's module msr \
             (modprobe msr), and processors of Intel or QEMU"
        );
    }
    let each: Vec<String> = counted.iter().map(|(cpu, count)| format!("core {} {count}", cpu.0)).collect();
    let stopped = counted.iter().filter(|(_, count)| *count > 0).count();
    let who = match stopped {
        0 => "this firmware takes none",
        all if all == counted.len() => "all cores stopped",
        _ => "this firmware stops only some cores",
    };
    format!("{asked} SMIs were asked for and the cores counted (MSR 0x34): {}; {who}", each.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_cores_counted_says_whether_all_of_them_stopped() {
        let before = vec![(CpuId(0), 11), (CpuId(1), u32::MAX)];
        let told = |first, second| told_of(5, &before, &vec![(CpuId(0), first), (CpuId(1), second)]);
        assert!(told(16, 4).ends_with("core 0 5, core 1 5; all cores stopped"), "{}", told(16, 4));
        assert!(told(16, u32::MAX).ends_with("core 0 5, core 1 0; this firmware stops only some cores"));
        assert!(told(11, u32::MAX).ends_with("this firmware takes none"));
        assert!(told_of(5, &vec![], &vec![]).contains("modprobe msr"));
    }

    #[test]
    fn a_long_one_is_followed_by_a_rest_that_keeps_their_share() {
        let length_ns = 45_000_000;
        assert_eq!(rested_ns(length_ns, length_ns), 100_000_000);
        assert_eq!(rested_ns(5, 0), 5);
    }
}
