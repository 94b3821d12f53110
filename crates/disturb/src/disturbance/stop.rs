//! The workload alone is stopped, by signals or by the freezer of its control group; or a guest of QEMU is.

use super::guest::{Guest, GuestStop, Held, Release};
use super::threads::{Threads, Told};
use super::{Injector, Losses, Schedule, Stall};
use crate::Fault;
use crate::cgroup::{self, Cgroup};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use surefoot_hostfs::Root;
use surefoot_hostfs::clock::monotonic_ns;
use surefoot_sys::children::{self, Signal};
use surefoot_sys::thread;

/// How a workload stands still.
#[derive(Debug, Clone)]
enum By {
    Signals,
    Freezer(Cgroup),
    Guest(Arc<Held>),
}

/// Stops the workload, wherever it runs, or a guest.
pub(super) struct Stopper {
    by: By,
    threads: Threads,
    begins: Option<Sender<u32>>,
}

impl Stopper {
    pub(super) fn by_signals() -> Stopper {
        Stopper { by: By::Signals, threads: Threads::default(), begins: None }
    }

    /// # Errors
    /// This host has no freezer that this process may use.
    pub(super) fn by_freezer(root: &Root) -> Result<Stopper, Fault> {
        let by = By::Freezer(cgroup::find(root)?);
        Ok(Stopper { by, threads: Threads::default(), begins: None })
    }

    /// # Errors
    /// There is no such guest, or it cannot be stopped so.
    pub(super) fn of_guest(guest: &Guest, how: GuestStop, root: &Root, person: u32) -> Result<Stopper, Fault> {
        let by = By::Guest(Arc::new(Held::find(guest, how, root, person)?));
        Ok(Stopper { by, threads: Threads::default(), begins: None })
    }
}

impl By {
    fn switch(&self, group: u32, stands: bool) -> Result<(), Fault> {
        match self {
            By::Signals => Ok(children::signal_group(group, if stands { Signal::Stop } else { Signal::Continue })?),
            By::Freezer(cgroup) => Ok(cgroup.freeze(stands)?),
            By::Guest(held) => held.switch(stands),
        }
    }

    /// From the call that stops to the call that lets go on.
    fn stop(&self, group: u32, schedule: &Schedule, told: &Told) {
        let Some(first_ns) = schedule.firsts.first().map(|(_, first_ns)| *first_ns) else { return };
        let mut number = 0;
        while number < schedule.count {
            let target_ns = first_ns + number * schedule.period_ns;
            if !told.sleep_until(target_ns) {
                return;
            }
            let end_ns = target_ns + schedule.length_ns;
            if monotonic_ns() >= end_ns {
                told.miss(1);
            } else {
                // A workload that has just ended cannot be stopped.
                let is_stopped = self.switch(group, true).is_ok();
                let start_ns = monotonic_ns();
                let is_whole = told.sleep_until(end_ns);
                let _ = self.switch(group, false);
                if is_stopped {
                    let length_ns = monotonic_ns() - start_ns;
                    told.tell(Stall { cpu: None, target_ns, start_ns, length_ns });
                    // The end of the run lets go at once.
                    if !is_whole {
                        told.cut();
                    }
                }
            }
            let due = monotonic_ns().saturating_sub(first_ns) / schedule.period_ns + 1;
            told.miss(due.saturating_sub(number + 1));
            number = due.max(number + 1);
        }
    }
}

impl Injector for Stopper {
    fn home(&mut self) -> Result<Option<PathBuf>, Fault> {
        match &mut self.by {
            By::Signals | By::Guest(_) => Ok(None),
            By::Freezer(cgroup) => cgroup.create().map(Some),
        }
    }

    fn release(&self) -> Option<Release> {
        match &self.by {
            By::Guest(held) => Some(held.release()),
            By::Signals | By::Freezer(_) => None,
        }
    }

    fn arm(&mut self, schedule: &Schedule) -> Result<(), Fault> {
        let (begins, began): (Sender<u32>, Receiver<u32>) = channel();
        if let By::Guest(held) = &self.by {
            held.begin()?;
        }
        let (by, schedule) = (self.by.clone(), schedule.clone());
        let work = move |told: &Told| {
            thread::set_timer_slack(Duration::from_nanos(1));
            // Nobody tells where the workload could not be started.
            if let Ok(group) = began.recv() {
                by.stop(group, &schedule, told);
            }
        };
        self.threads.add(work).map_err(|error| Fault::Start(format!("a thread that stops the workload: {error}")))?;
        self.begins = Some(begins);
        Ok(())
    }

    fn workload_began(&mut self, group: u32) {
        if let Some(begins) = self.begins.take() {
            let _ = begins.send(group);
        }
    }

    fn collect(&mut self, into: &mut Vec<Stall>) {
        self.threads.collect(into);
    }

    fn end(&mut self, into: &mut Vec<Stall>) -> Result<Losses, Fault> {
        self.begins = None;
        let losses = self.threads.end(into);
        if let By::Guest(held) = &self.by {
            held.end();
        }
        Ok(losses)
    }
}

impl Drop for Stopper {
    fn drop(&mut self) {
        // Where an experiment ends early, its threads must not stop the guest once more.
        let _ = self.threads.end(&mut Vec::new());
        if let By::Guest(held) = &self.by {
            held.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};

    /// Ends with its test.
    struct Sleeper(Child);

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_stall_that_the_end_of_the_run_cuts_short_is_told_of_and_counted() {
        let sleeper = Sleeper(Command::new("sleep").arg("600").process_group(0).spawn().unwrap());
        let mut stopper = Stopper::by_signals();
        let length_ns = 300_000_000_000;
        let firsts = vec![(surefoot_model::CpuId(0), monotonic_ns())];
        stopper.arm(&Schedule { firsts, length_ns, period_ns: 2 * length_ns, count: 2 }).unwrap();
        stopper.workload_began(sleeper.0.id());
        let is_stopped = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", sleeper.0.id())).unwrap();
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
        };
        while !is_stopped() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut stalls = Vec::new();
        let losses = stopper.end(&mut stalls).unwrap();
        assert_eq!(losses, Losses { missed: 0, dropped: 0, cut: 1 });
        assert!(stalls.len() == 1 && stalls[0].length_ns < length_ns && !is_stopped(), "{stalls:?}");
    }
}
