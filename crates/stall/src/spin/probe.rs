//! `surefoot stall probe`: pinned loops that find every gap, joined with what the kernel did inside.

use crate::Error;
use crate::collect::cost::OwnCost;
use crate::config::{LONGEST_RUN, SourceChoice, checked_cores, checked_threshold, housekeeping_core, keep_off};
use crate::gap::judge::{Found, Judge};
use crate::gap::tapes::Tapes;
use crate::gap::verdict::Others;
use crate::gap::witness::{SETTLING_NS, Witness};
use crate::spin::{self, Granularity, Jump, Jumps};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use surefoot_hostfs::clock::{self, TscClock};
use surefoot_hostfs::identity::Identity;
use surefoot_hostfs::{Root, thread};
use surefoot_model::{Certainty, CpuId, Gap, GapSource, SelfCost, Verdict};
use surefoot_probes::{Options, Probes, Workload};

/// How often the reading thread looks.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Gaps that wait for the counters to settle; more are dropped and counted.
const PENDING_GAPS: usize = 1 << 17;

/// Durations that the percentiles are computed from; later ones are counted but not kept.
const KEPT_DURATIONS: usize = 1 << 20;

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
            return Err(Error::Option { option: "cpus", why: "name the cores to spin on, such as 1 or 2-3".into() });
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

/// What one core's loop found.
#[derive(Debug, Clone, PartialEq)]
pub struct CoreSummary {
    /// The core.
    pub cpu: CpuId,
    /// Gaps over the threshold.
    pub gap_count: u64,
    /// Their sum, nanoseconds.
    pub gap_total_ns: u64,
    /// The part of the sum under a traced cause, entry and exit included.
    pub named_ns: u64,
    /// The part of the sum that is not traced but has a certain or probable verdict: hypervisor, firmware, hardware.
    pub judged_ns: u64,
    /// The rest.
    pub unexplained_ns: u64,
    /// The part of the sum in gaps over 20 µs, and of that what is named or judged.
    pub over_20us: (u64, u64),
    /// Lengths at 50, 90, 99, 99.9 and 100 %, nanoseconds.
    pub percentiles_ns: [u64; 5],
    /// Shortest turn of the loop, nanoseconds.
    pub loop_shortest_ns: u64,
    /// Median turn of the loop, nanoseconds.
    pub loop_median_ns: u64,
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
    /// What entry and exit of an interruption typically take, nanoseconds; `None` when too few were seen.
    pub entry_exit_ns: Option<u64>,
    /// What the tracing and this process cost meanwhile; the loops' own time is in it.
    pub cost: SelfCost,
    /// Why nothing was traced, or SMIs were not counted; empty when all evidence was there.
    pub missing: Vec<String>,
}

struct Loop {
    cpu: CpuId,
    jumps: Arc<Jumps>,
    thread: JoinHandle<Result<Granularity, Error>>,
    tid: u32,
    recent: VecDeque<(u64, u64)>,
    summary: CoreSummary,
    durations_ns: Vec<u64>,
}

/// Runs the probe; `on_gap` gets each gap in the order of its core's time, about 30 ms after it happened.
///
/// # Errors
/// [`Error::Core`] and [`Error::Option`] for a wish that cannot be met, [`Error::NoCounter`] without a usable
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
    let probes = attach(&config, &mut missing)?;
    let tapes = probes.as_ref().map(|probes| {
        Tapes::new(
            root,
            probes,
            &surefoot_hostfs::cpus::online(root).unwrap_or_else(|_| config.cpus.clone()),
            KEPT_TURNS,
        )
    });
    let witness = Witness::open(root, &identity, housekeeping);
    if let Some(smi) = witness.smi_missing() {
        missing.push(format!("SMI count: {}", smi.why));
    }
    let mut judge = Judge::new(tapes, witness, identity.hypervisor.is_some());
    judge.look(probes.as_ref());
    let mut own_cost = OwnCost::start(probes.as_ref(), &config.cpus);

    let mut clock = TscClock::calibrate()?;
    let start = clock::tsc();
    let end = start.saturating_add(clock.ticks(config.duration.as_nanos() as u64));
    let mut loops = start_loops(&config, end, &clock)?;
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
        judge.look(probes.as_ref());
        run.collect(&mut loops, &clock);
        run.judge_settled(&mut loops, &mut judge, probes.as_ref(), false, &mut on_gap);
        if finished && loops.iter().all(|each| each.thread.is_finished()) {
            break;
        }
    }
    let duration_ns = clock.duration_ns(clock::tsc().min(end) - start);
    // The counters settle once more, then what is left is judged.
    std::thread::sleep(Duration::from_nanos(SETTLING_NS));
    judge.look(probes.as_ref());
    run.collect(&mut loops, &clock);
    run.judge_settled(&mut loops, &mut judge, probes.as_ref(), true, &mut on_gap);

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
    Ok(ProbeSummary {
        duration_ns,
        threshold_ns: config.threshold_ns,
        cores,
        dropped_gaps,
        lost_turns: judge.tapes().map_or(0, |tapes| tapes.lost_turns()),
        entry_exit_ns: judge.entry_exit().is_measured().then(|| judge.entry_exit().typical_ns()),
        cost: own_cost.since(probes.as_ref(), &config.cpus, root),
        missing,
    })
}

fn attach(config: &ProbeConfig, missing: &mut Vec<String>) -> Result<Option<Probes>, Error> {
    let flavour = match config.source {
        SourceChoice::Counters => {
            missing.push("tracing: switched off".into());
            return Ok(None);
        }
        SourceChoice::Best => None,
        SourceChoice::Ebpf(flavour) => Some(flavour),
    };
    match Probes::attach(&Options { flavour, workload: Workload::None, ..Options::default() }) {
        Ok(probes) => {
            if probes.flavour() == surefoot_probes::Flavour::Plain {
                let threads = surefoot_hostfs::tasks::kernel_threads(&Root::host());
                probes.set_kernel_threads(&threads)?;
            }
            Ok(Some(probes))
        }
        Err(error) if flavour.is_none() => {
            missing.push(format!("tracing: {error}"));
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

fn start_loops(config: &ProbeConfig, end: u64, clock: &TscClock) -> Result<Vec<Loop>, Error> {
    let threshold = clock.ticks(config.threshold_ns);
    let mut loops = Vec::new();
    for &cpu in &config.cpus {
        let jumps = Arc::new(Jumps::default());
        let (ready, started) = mpsc::channel();
        let theirs = Arc::clone(&jumps);
        let priority = config.fifo_priority;
        let spin = move || -> Result<Granularity, Error> {
            let prepared = thread::pin_to(cpu).and_then(|()| priority.map_or(Ok(()), thread::set_fifo));
            let _ = ready.send((thread::current_tid(), prepared.is_ok()));
            prepared?;
            let granularity = spin::granularity();
            theirs.stay_on(cpu);
            spin::spin_until(end, threshold, &theirs);
            Ok(granularity)
        };
        let name = format!("probe-{cpu}");
        let thread = std::thread::Builder::new().name(name).spawn(spin).map_err(Error::Thread)?;
        let (tid, prepared) = started.recv().unwrap_or((0, false));
        if !prepared {
            loops.iter().for_each(|each: &Loop| each.jumps.stop());
            let error = thread.join().map(|result| result.err());
            return Err(error
                .ok()
                .flatten()
                .unwrap_or(Error::Option { option: "cpus", why: format!("the loop on core {cpu} did not start") }));
        }
        let summary = CoreSummary {
            cpu,
            gap_count: 0,
            gap_total_ns: 0,
            named_ns: 0,
            judged_ns: 0,
            unexplained_ns: 0,
            over_20us: (0, 0),
            percentiles_ns: [0; 5],
            loop_shortest_ns: 0,
            loop_median_ns: 0,
        };
        loops.push(Loop { cpu, jumps, thread, tid, recent: VecDeque::new(), summary, durations_ns: Vec::new() });
    }
    Ok(loops)
}

struct Run {
    pending: VecDeque<(usize, u64, u64)>,
    dropped: u64,
}

impl Run {
    fn collect(&mut self, loops: &mut [Loop], clock: &TscClock) {
        let mut jumps: Vec<Jump> = Vec::new();
        for (index, each) in loops.iter_mut().enumerate() {
            jumps.clear();
            each.jumps.take(&mut jumps);
            for jump in &jumps {
                let span = (clock.ns(jump.before), clock.ns(jump.after));
                if each.recent.len() >= 4096 {
                    each.recent.pop_front();
                }
                each.recent.push_back(span);
                if self.pending.len() < PENDING_GAPS {
                    self.pending.push_back((index, span.0, span.1));
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
        probes: Option<&Probes>,
        all: bool,
        on_gap: &mut impl FnMut(&Gap),
    ) {
        let settled_ns = judge.witness().last_look_ns().saturating_sub(SETTLING_NS);
        while let Some(&(index, start_ns, end_ns)) = self.pending.front() {
            if end_ns > settled_ns && !all {
                break;
            }
            self.pending.pop_front();
            let found = Found {
                source: GapSource::Probe,
                cpu: loops[index].cpu,
                start_ns,
                end_ns,
                own: Some(loops[index].tid),
                idle: false,
                peers: peers(loops, index, start_ns, end_ns),
                tape: Vec::new(),
            };
            let gap = judge.judge(probes, &found);
            loops[index].count(&gap);
            on_gap(&gap);
        }
    }
}

/// What the other loops saw: a peer that spins and notes no jump ran.
fn peers(loops: &[Loop], own: usize, start_ns: u64, end_ns: u64) -> Others {
    let length_ns = end_ns - start_ns;
    let mut others = Others::NotSeen;
    for (index, peer) in loops.iter().enumerate() {
        if index == own {
            continue;
        }
        let overlap_ns: u64 = peer
            .recent
            .iter()
            .rev()
            .take_while(|span| span.1 + 1_000_000_000 > start_ns)
            .map(|span| span.1.min(end_ns).saturating_sub(span.0.max(start_ns)))
            .sum();
        if overlap_ns * 2 < length_ns {
            return Others::Ran;
        }
        others = Others::Stopped;
    }
    others
}

impl Loop {
    fn count(&mut self, gap: &Gap) {
        let named_ns = gap.duration_ns - gap.unexplained_ns;
        let is_judged = !matches!(gap.verdict, Verdict::Traced | Verdict::Undetermined)
            && gap.certainty != Certainty::CannotTellApartHere;
        let judged_ns = if is_judged { gap.unexplained_ns } else { 0 };
        let summary = &mut self.summary;
        summary.gap_count += 1;
        summary.gap_total_ns += gap.duration_ns;
        summary.named_ns += named_ns;
        summary.judged_ns += judged_ns;
        summary.unexplained_ns += gap.unexplained_ns - judged_ns;
        if gap.duration_ns > 20_000 {
            summary.over_20us.0 += gap.duration_ns;
            summary.over_20us.1 += named_ns + judged_ns;
        }
        if self.durations_ns.len() < KEPT_DURATIONS {
            self.durations_ns.push(gap.duration_ns);
        }
    }

    fn finish(mut self, clock: &TscClock) -> Result<CoreSummary, Error> {
        let granularity = self.thread.join().unwrap_or_else(|_| {
            Err(Error::Thread(std::io::Error::other(format!("the loop on core {} panicked", self.cpu))))
        })?;
        self.summary.loop_shortest_ns = clock.duration_ns(granularity.shortest);
        self.summary.loop_median_ns = clock.duration_ns(granularity.median);
        self.durations_ns.sort_unstable();
        if let Some(last) = self.durations_ns.len().checked_sub(1) {
            self.summary.percentiles_ns =
                [0.5, 0.9, 0.99, 0.999, 1.0].map(|share| self.durations_ns[(last as f64 * share).round() as usize]);
        }
        Ok(self.summary)
    }
}
