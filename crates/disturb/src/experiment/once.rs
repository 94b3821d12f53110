//! One run of a workload, with or without a disturbance.

use super::share::share;
use super::timing::Timings;
use super::{Condition, Run};
use crate::Fault;
use crate::disturbance::{Chosen, Losses, Schedule, Spec, Stall, schedule};
use crate::workload::{Metric, Printed, Running, Waited, Workload};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use surefoot_hostfs::clock::monotonic_ns;
use surefoot_model::Digits;
use surefoot_random::Random;

/// From arming to the earliest stall: every core is armed by then, also on a busy machine.
const ARMING_NS: u64 = 20_000_000;
/// Stalls of one run that are kept; of more only the number and the share are known.
const STALLS_MAX: usize = 1 << 20;

/// What is to be run.
pub(crate) struct Once<'a> {
    pub spec: &'a Spec,
    pub workload: &'a Workload,
    pub number: u64,
    pub condition: Condition,
    pub repetition: Option<u64>,
    pub limit: Duration,
    /// The option that allows more.
    pub limited_by: &'static str,
}

/// The time that one run may take: its own limit, or what the limit of all leaves.
pub(crate) fn limit_of(time_limit: Duration, left: Duration) -> (Duration, &'static str) {
    if left < time_limit { (left, "--total-limit") } else { (time_limit, "--time-limit") }
}

impl Once<'_> {
    /// Does it; the run has no value yet.
    pub(crate) fn run(
        &self,
        chosen: &mut Chosen,
        stop: &AtomicBool,
        random: &mut Random,
        timings: &mut Timings,
    ) -> Result<(Run, Printed, Vec<Stall>), Fault> {
        if stop.load(Ordering::Relaxed) {
            return Err(Fault::Stopped { runs: self.number });
        }
        let load = load();
        // Drawn for each run alike, so that what a run is does not move the numbers of those after it.
        let span_ns = u64::try_from(self.limit.as_nanos()).unwrap_or(u64::MAX);
        let (cgroup, release) = (chosen.injector.home()?, chosen.injector.release());
        let workload = Workload { cgroup, release, ..self.workload.clone() };
        let mut running = Running::prepare(&workload)?;
        let from_ns = monotonic_ns() + ARMING_NS;
        let schedule = schedule(self.spec, &chosen.cores, from_ns, span_ns, random);
        let mut stalls = Vec::new();
        let waited = if self.condition == Condition::Disturbed {
            self.disturbed(&mut running, chosen, &schedule, stop, &mut stalls)?
        } else {
            running.begin()?;
            (running.wait(self.limit, || !stop.load(Ordering::Relaxed))?, Losses::default())
        };
        let (ended, losses) = match waited {
            (Waited::Ended(ended), losses) => (ended, losses),
            (Waited::Stopped, _) => return Err(Fault::Stopped { runs: self.number }),
            (Waited::TimeLimit, _) => {
                let (run, condition) = (self.number, self.condition.name());
                return Err(Fault::TimeLimit { run, condition, limit: self.limit, limited_by: self.limited_by });
            }
        };
        let (left_behind, printed) = running.finish()?;
        if ended.code != 0 {
            return Err(self.failed(ended.code, &printed));
        }
        timings.add(&stalls, &schedule);
        stalls.retain(|stall| stall.start_ns < ended.end_ns && stall.end_ns() > ended.start_ns);
        stalls.sort_by_key(|stall| (stall.start_ns, stall.cpu));
        let injected_share = share(&stalls, ended.start_ns, ended.end_ns, chosen.cores.len());
        let run = Run {
            number: self.number,
            repetition: self.repetition,
            condition: self.condition,
            value: f64::NAN,
            start_ns: ended.start_ns,
            wall_ns: ended.end_ns - ended.start_ns,
            stall_count: stalls.len() as u64,
            injected_share,
            losses,
            left_behind,
            dropped_bytes: printed.dropped_bytes,
            load,
        };
        Ok((run, printed, stalls))
    }

    fn disturbed(
        &self,
        running: &mut Running,
        chosen: &mut Chosen,
        schedule: &Schedule,
        stop: &AtomicBool,
        stalls: &mut Vec<Stall>,
    ) -> Result<(Waited, Losses), Fault> {
        let injector = &mut chosen.injector;
        injector.arm(schedule)?;
        let mut over = 0;
        let waited = running.begin().and_then(|group| {
            injector.workload_began(group);
            running.wait(self.limit, || {
                injector.collect(stalls);
                over += keep(stalls);
                !stop.load(Ordering::Relaxed)
            })
        });
        // Whatever happened, it ends here.
        let losses = injector.end(stalls);
        over += keep(stalls);
        let (waited, losses) = (waited?, losses?);
        Ok((waited, Losses { dropped: losses.dropped + over, ..losses }))
    }

    fn failed(&self, code: i32, printed: &Printed) -> Fault {
        let words = match printed.errors.trim() {
            "" => String::new(),
            errors => format!(": {}", errors.lines().last().unwrap_or_default()),
        };
        Fault::Failed { run: self.number, condition: self.condition.name(), code, words }
    }
}

/// The number above 0 that a run came to.
pub(crate) fn value(run: &Run, metric: &Metric, printed: &Printed) -> Result<f64, Fault> {
    metric.of(run.wall_ns, &printed.text).map_err(|why| no_metric(run, printed, why))
}

/// A run without its number.
pub(crate) fn no_metric(run: &Run, printed: &Printed, why: String) -> Fault {
    let more = match printed.dropped_bytes {
        0 => String::new(),
        dropped => format!(" (the first {dropped} bytes of its output were not kept)"),
    };
    Fault::Metric { run: run.number, why: why + &more }
}

/// Leaves what is over the limit away; returns how many these were.
fn keep(stalls: &mut Vec<Stall>) -> u64 {
    let over = stalls.len().saturating_sub(STALLS_MAX);
    stalls.truncate(STALLS_MAX);
    over as u64
}

fn load() -> Option<f64> {
    let root = surefoot_hostfs::Root::host();
    root.read(root.proc("loadavg")).ok()?.split(' ').next()?.real()
}
