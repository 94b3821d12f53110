//! `surefoot stall probe`: pinned loops that find every gap, joined with what the kernel did inside.

mod core;

pub use self::core::CoreSummary;

use self::core::{Loop, another_stopped, peers, start_all};
use crate::Error;
use crate::collect::attach::{Patching, silent_rows};
use crate::collect::cost::{OwnCost, Slots, read_slots};
use crate::config::{LONGEST_RUN, SourceChoice, checked_cores, checked_threshold, housekeeping_core, keep_off};
use crate::gap::judge::{Judge, UnjudgedGap};
use crate::gap::tapes::{Tapes, Traced};
use crate::gap::witness::Witness;
use crate::namespaces;
use crate::spin::Jump;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use surefoot_hostfs::Root;
use surefoot_hostfs::clock::{self, TscClock};
use surefoot_hostfs::identity::Identity;
use surefoot_model::{CpuId, Gap, GapSource, SelfCost};
use surefoot_probes::{Options, Probes, Workload};
use surefoot_sys::thread;

/// How often the reading thread looks.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Gaps that wait for the counters to settle; more are dropped and counted.
const PENDING_GAPS: usize = 1 << 17;

/// Turns kept per core, 1 MiB.
const KEPT_TURNS: usize = 1 << 16;

/// What to probe.
#[derive(Debug, Clone)]
pub struct ProbeConfig {
    /// The cores to spin on.
    pub cpus: Vec<CpuId>,
    /// For how long.
    pub duration: Duration,
    /// Gaps longer than this are reported, nanoseconds.
    pub threshold_ns: u64,
    /// Real-time priority of the loops; `None` leaves them as they are.
    pub fifo_priority: Option<u8>,
    /// Whether to trace.
    pub source: SourceChoice,
}

impl ProbeConfig {
    fn checked(mut self, root: &Root) -> Result<Self, Error> {
        if self.cpus.is_empty() {
            return Err(Error::Option { option: "cpu", why: "name the cores to spin on, such as 1 or 2-3".into() });
        }
        self.cpus = checked_cores(&self.cpus, root)?;
        checked_threshold(self.threshold_ns)?;
        if self.duration < Duration::from_millis(1) || self.duration > LONGEST_RUN {
            return Err(Error::Option {
                option: "duration",
                why: format!("{:?} is outside 1 ms to 7 days", self.duration),
            });
        }
        Ok(self)
    }
}

/// What a run of the probe found.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeSummary {
    /// How long the loops ran, nanoseconds.
    pub duration_ns: u64,
    /// The threshold, nanoseconds.
    pub threshold_ns: u64,
    /// One per core.
    pub cores: Vec<CoreSummary>,
    /// Gaps that were found but could not be kept.
    pub dropped_gaps: u64,
    /// Turns of the tape that were overwritten before they could be read.
    pub lost_turns: u64,
    /// Names of tasks that were overwritten before they could be read.
    pub lost_names: u64,
    /// What entry and exit of an interruption typically take, nanoseconds; `None` when too few were seen.
    pub entry_exit_ns: Option<u64>,
    /// What the tracing and this process cost meanwhile; the loops' own time is in it.
    pub cost: SelfCost,
    /// Why nothing was traced, or SMIs were not counted; empty when all evidence was there.
    pub missing: Vec<String>,
}

/// Runs the probe; `on_gap` gets each gap in the order of its core's time, about 30 ms after it happened.
///
/// # Errors
/// [`Error::Core`] and [`Error::Option`] for options that cannot be met, [`Error::NoCounter`] without a usable
/// counter, [`Error::Probes`] when tracing was demanded and is not to be had.
pub fn run(
    root: &Root,
    config: ProbeConfig,
    stop: &AtomicBool,
    mut on_gap: impl FnMut(&Gap),
) -> Result<ProbeSummary, Error> {
    let config = config.checked(root)?;
    let identity = Identity::read(root);
    let housekeeping = housekeeping_core(&config.cpus, root);
    keep_off(&config.cpus, root);
    // Locked memory cannot be taken away from under the loop; without the privilege it usually stays, too.
    let _ = thread::lock_memory();
    let mut missing = Vec::new();
    let patching = Patching::begin(root);
    let probes = attach(&config, root, &mut missing)?;
    let attaching = probes.is_some().then(|| patching.end(root, &config.cpus)).flatten();
    // Also the cores without a loop: what they did meanwhile tells a stop of the machine from one of a core.
    let online = surefoot_hostfs::cpus::online(root).unwrap_or_else(|_| config.cpus.clone());
    let mut traced = probes.map(|probes| {
        let tapes = Tapes::new(root, &probes, &online, KEPT_TURNS);
        Traced { probes, tapes }
    });
    let witness = Witness::open(root, &identity, housekeeping);
    if let Some(smi) = witness.smi_missing() {
        missing.push(format!("SMI count: {}", smi.why));
    }
    let mut judge = Judge::new(witness, identity.hypervisor.is_some());
    look(&mut judge, traced.as_mut(), &online);
    let mut own_cost = with_slots(traced.as_ref(), |read| OwnCost::start(read, &config.cpus));

    let mut clock = TscClock::calibrate()?;
    let (mut loops, Range { start, end }) = start_all(&config, &clock, traced.is_some())?;
    let mut run = Run { pending: VecDeque::new(), dropped: 0 };
    loop {
        std::thread::sleep(LOOK_EVERY);
        let all_moved = loops.iter().all(|each| each.jumps.was_moved());
        let finished = clock::tsc() >= end || stop.load(Ordering::Relaxed) || all_moved;
        if finished {
            loops.iter().for_each(|each| each.jumps.stop());
        }
        // The rate is only known to some millionths, so instants are mapped from an anchor that is close by.
        clock.reanchor();
        look(&mut judge, traced.as_mut(), &online);
        run.collect(&mut loops, &clock);
        run.judge_settled(&mut loops, &mut judge, traced.as_mut(), false, &mut on_gap);
        if finished && loops.iter().all(|each| each.thread.is_finished()) {
            break;
        }
    }
    let duration_ns = clock.duration_ns(clock::tsc().min(end) - start);
    // The counters settle once more, and an error report may still come; then what is left is judged.
    std::thread::sleep(Duration::from_nanos(judge.witness().final_after_ns()));
    look(&mut judge, traced.as_mut(), &online);
    run.collect(&mut loops, &clock);
    run.judge_settled(&mut loops, &mut judge, traced.as_mut(), true, &mut on_gap);

    let dropped_gaps = run.dropped + loops.iter().map(|each| each.jumps.dropped()).sum::<u64>();
    let mut cores = Vec::new();
    for each in loops {
        if each.jumps.was_moved() {
            missing.push(format!(
                "core {} went offline, or this process was moved off it: its loop ended before its time",
                each.cpu
            ));
        }
        cores.push(each.finish(&clock)?);
    }
    let lost_names = traced.as_ref().map_or(0, |traced| traced.tapes.lost_names(&online));
    let lost_turns = traced.as_ref().map_or(0, |traced| traced.tapes.lost_turns(&online));
    let mut cost = with_slots(traced.as_ref(), |read| own_cost.since(read, &config.cpus, root));
    if let Some(traced) = traced {
        let patching = Patching::begin(root);
        drop(traced);
        cost.attach_interrupts = attaching.zip(patching.end(root, &config.cpus)).map(|(up, down)| up + down);
    }
    // The length of a run is rounded once and the loops' otherwise.
    let duration_ns = cores.iter().map(|core| core.wall_ns).fold(duration_ns, u64::max);
    Ok(ProbeSummary {
        duration_ns,
        threshold_ns: config.threshold_ns,
        cores,
        dropped_gaps,
        lost_turns,
        lost_names,
        entry_exit_ns: judge.entry_exit().is_measured().then(|| judge.entry_exit().typical_ns()),
        cost,
        missing,
    })
}

/// Reads what the cores did and what else happened.
fn look(judge: &mut Judge, traced: Option<&mut Traced>, cores: &[CpuId]) {
    if let Some(Traced { probes, tapes }) = traced {
        tapes.read(probes, cores);
    }
    judge.look();
}

/// Reads all slots for what is counted from them.
fn with_slots<T>(traced: Option<&Traced>, count: impl FnOnce(Option<(&Probes, &Slots)>) -> T) -> T {
    let slots = traced.map(|traced| read_slots(&traced.probes));
    count(traced.map(|traced| &traced.probes).zip(slots.as_ref()))
}

fn attach(config: &ProbeConfig, root: &Root, missing: &mut Vec<String>) -> Result<Option<Probes>, Error> {
    let flavour = match config.source {
        SourceChoice::Counters => {
            missing.push("tracing: switched off".into());
            return Ok(None);
        }
        SourceChoice::Best => None,
        SourceChoice::Ebpf(flavour) => Some(flavour),
    };
    let attached = namespaces::options(flavour, &Workload::None).and_then(|options| {
        let options = Options {
            console: surefoot_hostfs::consoles::any_enabled(&Root::host()),
            late_threshold_ns: 0,
            silent_rows: silent_rows(root),
            ..options
        };
        Ok(Probes::attach(&options)?)
    });
    match attached {
        Ok(probes) => {
            if probes.flavour() == surefoot_probes::Flavour::Plain {
                let threads = surefoot_hostfs::tasks::kernel_threads(&Root::host());
                probes.set_kernel_threads(&threads)?;
            }
            Ok(Some(probes))
        }
        Err(Error::Probes(error)) if flavour.is_none() => {
            missing.push(format!("tracing: {error}"));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

struct Run {
    pending: VecDeque<Pending>,
    dropped: u64,
}

/// A gap that waits for the counters around it to settle.
struct Pending {
    /// The place of its loop.
    index: usize,
    start_ns: u64,
    end_ns: u64,
    waited_ns: Option<u64>,
}

impl Run {
    fn collect(&mut self, loops: &mut [Loop], clock: &TscClock) {
        let mut jumps: Vec<Jump> = Vec::new();
        for (index, each) in loops.iter_mut().enumerate() {
            jumps.clear();
            each.jumps.take(&mut jumps);
            for jump in &jumps {
                let (start_ns, end_ns) = each.note(jump, clock);
                if self.pending.len() < PENDING_GAPS {
                    self.pending.push_back(Pending { index, start_ns, end_ns, waited_ns: jump.waited_ns });
                } else {
                    self.dropped += 1;
                }
            }
        }
    }

    fn judge_settled(
        &mut self,
        loops: &mut [Loop],
        judge: &mut Judge,
        mut traced: Option<&mut Traced>,
        all: bool,
        on_gap: &mut impl FnMut(&Gap),
    ) {
        let settled_ns = judge.witness().last_look_ns().saturating_sub(judge.witness().final_after_ns());
        while self.pending.front().is_some_and(|first| first.end_ns <= settled_ns || all) {
            let Some(Pending { index, start_ns, end_ns, waited_ns }) = self.pending.pop_front() else { break };
            let found = UnjudgedGap {
                source: GapSource::Probe,
                cpu: loops[index].cpu,
                start_ns,
                end_ns,
                own: namespaces::of_kernel(loops[index].tid),
                idle: false,
                peers: peers(loops, index, start_ns, end_ns),
                another_stopped: another_stopped(loops, index, (start_ns, end_ns)),
                tape: Vec::new(),
                waited_ns,
            };
            let gap = judge.judge(traced.as_deref_mut(), &found);
            loops[index].count(&gap);
            on_gap(&gap);
        }
    }
}
