//! Real-time threads that take a core for a while.

use super::threads::{Threads, Told};
use super::{Injector, Losses, Schedule, Stall};
use crate::Fault;
use std::sync::mpsc;
use surefoot_hostfs::clock::monotonic_ns;
use surefoot_model::CpuId;
use surefoot_sys::thread;

/// The thread has the core so much earlier and spins, because it wakes up late now and then. The victim loses it as well, and it
/// is part of what is told.
const LEAD_NS: u64 = 100_000;
const PRIORITY: u8 = 99;

#[derive(Default)]
pub(super) struct Spinners {
    threads: Threads,
}

/// One core's stalls.
struct OfCore {
    cpu: CpuId,
    first_ns: u64,
    length_ns: u64,
    period_ns: u64,
    count: u64,
}

impl OfCore {
    fn spin(&self, told: &Told) {
        let mut number = 0;
        while number < self.count {
            let target_ns = self.first_ns + number * self.period_ns;
            if !told.sleep_until(target_ns.saturating_sub(LEAD_NS)) {
                return;
            }
            let (start_ns, end_ns) = (monotonic_ns(), target_ns + self.length_ns);
            let mut now_ns = start_ns;
            while now_ns < end_ns {
                now_ns = monotonic_ns();
            }
            if start_ns < end_ns {
                told.tell(Stall { cpu: Some(self.cpu), target_ns, start_ns, length_ns: now_ns - start_ns });
            } else {
                told.miss(1);
            }
            // What should have ended by now is not made up for.
            let due = (now_ns - self.first_ns.min(now_ns)) / self.period_ns + 1;
            told.miss(due.saturating_sub(number + 1));
            number = due.max(number + 1);
        }
    }
}

/// Whether threads of this process may be real-time ones; tried, because limits and containers decide it as well.
pub(super) fn is_allowed() -> Result<(), Fault> {
    let tried = std::thread::spawn(|| thread::set_fifo(PRIORITY)).join();
    let tried = tried.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    tried
        .map_err(|error| Fault::Unsupported { why: error.to_string(), remedy: "method=stop needs no privilege".into() })
}

impl Injector for Spinners {
    fn arm(&mut self, schedule: &Schedule) -> Result<(), Fault> {
        let (tell, told) = mpsc::channel();
        for &(cpu, first_ns) in &schedule.firsts {
            let tell = tell.clone();
            let &Schedule { length_ns, period_ns, count, .. } = schedule;
            let of_core = OfCore { cpu, first_ns, length_ns, period_ns, count };
            let work = move |ends: &Told| {
                let ready = thread::pin_to(cpu).and_then(|()| thread::set_fifo(PRIORITY));
                let is_ready = ready.is_ok();
                let _ = tell.send(ready);
                // Whoever waits for all of them waits until this is gone.
                drop(tell);
                if is_ready {
                    of_core.spin(ends);
                }
            };
            self.threads.add(work).map_err(|error| Fault::Start(format!("a thread for core {}: {error}", cpu.0)))?;
        }
        drop(tell);
        // A thread that could not begin ends the others.
        let refused = told.iter().find_map(Result::err);
        match refused {
            None => Ok(()),
            Some(error) => {
                self.threads.end(&mut Vec::new());
                Err(error.into())
            }
        }
    }

    fn collect(&mut self, into: &mut Vec<Stall>) {
        self.threads.collect(into);
    }

    fn end(&mut self, into: &mut Vec<Stall>) -> Result<Losses, Fault> {
        Ok(self.threads.end(into))
    }
}
