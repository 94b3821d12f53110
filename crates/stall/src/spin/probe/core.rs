//! The loop of one core, and what it found.

use super::ProbeConfig;
use crate::Error;
use crate::gap::pending::end_together;
use crate::gap::verdict::Others;
use crate::spin::{self, Granularity, Jump, Jumps, Waits};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use surefoot_hostfs::clock::{self, TscClock};
use surefoot_model::{Certainty, CpuId, Gap, Verdict};
use surefoot_sys::thread;

/// Durations that the percentiles are computed from; later ones are counted but not kept.
const KEPT_DURATIONS: usize = 1 << 20;

/// Gaps of a core that those of others are compared with.
const KEPT_RECENT: usize = 4096;

/// So long its own wake-up may take. A loop that begins later did not have its core, which is a gap like any other.
const WAKE_UP_NS: u64 = 1_000_000;

/// A switch to another task and back takes longer than this: shorter jumps are none.
const SHORTEST_SWITCH_NS: u64 = 10_000;

/// What one core's loop found.
#[derive(Debug, Clone, PartialEq)]
pub struct CoreSummary {
    /// The core.
    pub cpu: CpuId,
    /// How long its loop looked, nanoseconds: no sum below is longer.
    pub wall_ns: u64,
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
    /// The part of the sum in gaps over 20 us, and of that what is named or judged.
    pub over_20us: (u64, u64),
    /// Lengths at 50, 90, 99, 99.9 and 100 %, nanoseconds.
    pub percentiles_ns: [u64; 5],
    /// Shortest turn of the loop, nanoseconds.
    pub loop_shortest_ns: u64,
    /// Median turn of the loop, nanoseconds.
    pub loop_median_ns: u64,
}

/// The loop of a core, as seen from the thread that reads it.
pub(super) struct Loop {
    pub(super) cpu: CpuId,
    pub(super) jumps: Arc<Jumps>,
    pub(super) thread: JoinHandle<Result<Granularity, Error>>,
    /// The number of its thread.
    pub(super) tid: u32,
    /// Its newest gaps, for those of other cores to be compared with.
    recent: VecDeque<(u64, u64)>,
    /// When it began to look, and up to when gaps of it are known, `CLOCK_MONOTONIC`; `None` before.
    known: Option<Range<u64>>,
    summary: CoreSummary,
    durations_ns: Vec<u64>,
}

/// Starts a loop on each core; all of them or none. Also from when to when they look, by the counter: that begins when all of them
/// are ready, and not while they still wait for their cores.
pub(super) fn start_all(
    config: &ProbeConfig,
    clock: &TscClock,
    is_traced: bool,
) -> Result<(Vec<Loop>, Range<u64>), Error> {
    let (threshold, wake_up) = (clock.ticks(config.threshold_ns), clock.ticks(WAKE_UP_NS));
    let switch = clock.ticks(SHORTEST_SWITCH_NS);
    let mut loops = Vec::new();
    let mut waiting = Vec::new();
    for &cpu in &config.cpus {
        let jumps = Arc::new(Jumps::default());
        let (ready, started) = mpsc::channel();
        let (begin, window) = mpsc::channel();
        let theirs = Arc::clone(&jumps);
        let priority = config.fifo_priority;
        let spin = move || -> Result<Granularity, Error> {
            // The priority first: on a busy core the loop would wait for its turn to take it.
            let prepared = priority.map_or(Ok(()), thread::set_fifo).and_then(|()| thread::pin_to(cpu));
            let granularity = spin::granularity();
            let _ = ready.send((thread::current_tid(), prepared.is_ok()));
            prepared?;
            theirs.stay_on(cpu);
            // Where the tape tells who had the core, nobody needs to ask the scheduler.
            let waits = if is_traced { None } else { Waits::of_this_thread(switch) };
            // None where another loop cannot start.
            if let Ok(Range { start, end }) = window.recv() {
                let now = clock::tsc();
                let is_late = now.saturating_sub(start) > wake_up;
                spin::spin_within(if is_late { start } else { now }..end, threshold, &theirs, waits);
            }
            Ok(granularity)
        };
        let name = format!("probe-{cpu}");
        let thread = std::thread::Builder::new().name(name).spawn(spin).map_err(Error::Thread)?;
        let (tid, prepared) = started.recv().unwrap_or((0, false));
        if !prepared {
            let error = thread.join().map(|result| result.err());
            return Err(error
                .ok()
                .flatten()
                .unwrap_or(Error::Option { option: "cpu", why: format!("the loop on core {cpu} did not start") }));
        }
        let summary = CoreSummary {
            cpu,
            wall_ns: 0,
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
        waiting.push(begin);
        let (recent, durations_ns) = (VecDeque::new(), Vec::new());
        loops.push(Loop { cpu, jumps, thread, tid, recent, known: None, summary, durations_ns });
    }
    let start = clock::tsc();
    let window = start..start.saturating_add(clock.ticks(config.duration.as_nanos() as u64));
    // One that does not wait has ended, and says why when it is joined.
    waiting.iter().for_each(|begin| drop(begin.send(window.clone())));
    Ok((loops, window))
}

/// What the other loops saw: a peer that spins and notes no jump ran.
pub(super) fn peers(loops: &[Loop], own: usize, start_ns: u64, end_ns: u64) -> Others {
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

/// Whether another loop saw a jump that ended in the same instant.
pub(super) fn another_stopped(loops: &[Loop], own: usize, gap: (u64, u64)) -> bool {
    loops.iter().enumerate().filter(|(index, _)| *index != own).any(|(_, peer)| {
        let near = peer.recent.iter().rev().take_while(|span| span.1 + 1_000_000_000 > gap.0);
        near.into_iter().any(|&span| end_together(gap, span))
    })
}

impl Loop {
    /// A jump as a gap, remembered before it is judged. Where the clock was mapped anew since the one before it, by some
    /// nanoseconds, it begins where that ended: no time is lost twice.
    pub(super) fn note(&mut self, jump: &Jump, clock: &TscClock) -> (u64, u64) {
        let began_ns = clock.ns(self.jumps.looked().start);
        let known = self.known.clone().unwrap_or(began_ns..began_ns);
        let start_ns = clock.ns(jump.before).max(known.end);
        let span = (start_ns, clock.ns(jump.after).max(start_ns));
        self.known = Some(known.start..span.1);
        if self.recent.len() >= KEPT_RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(span);
        span
    }

    /// Counts a judged gap.
    pub(super) fn count(&mut self, gap: &Gap) {
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
        let longest_ns = &mut summary.percentiles_ns[4];
        *longest_ns = gap.duration_ns.max(*longest_ns);
        if self.durations_ns.len() < KEPT_DURATIONS {
            self.durations_ns.push(gap.duration_ns);
        }
    }

    /// What the loop found; waits for its end.
    ///
    /// # Errors
    /// What ended it before its time.
    pub(super) fn finish(mut self, clock: &TscClock) -> Result<CoreSummary, Error> {
        let granularity = self.thread.join().unwrap_or_else(|_| {
            Err(Error::Thread(std::io::Error::other(format!("the loop on core {} panicked", self.cpu))))
        })?;
        let began_ns = clock.ns(self.jumps.looked().start);
        let known = self.known.unwrap_or(began_ns..began_ns);
        self.summary.wall_ns = clock.ns(self.jumps.looked().end).max(known.end) - known.start;
        self.summary.loop_shortest_ns = clock.duration_ns(granularity.shortest);
        self.summary.loop_median_ns = clock.duration_ns(granularity.median);
        self.durations_ns.sort_unstable();
        if let Some(last) = self.durations_ns.len().checked_sub(1) {
            let kept = |share: f64| self.durations_ns[(last as f64 * share).round() as usize];
            let [.., longest_ns] = self.summary.percentiles_ns;
            self.summary.percentiles_ns = [kept(0.5), kept(0.9), kept(0.99), kept(0.999), longest_ns];
        }
        Ok(self.summary)
    }
}
