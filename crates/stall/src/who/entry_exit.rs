//! What an interrupt costs besides the time inside its handler.
//!
//! Tracepoints lie inside: the processor's entry and exit, the kernel's code around the handler and, in a guest, the
//! hypervisor's part are outside of them. A loop that reads the time-stamp counter loses all of it. So where a loop
//! lost time to one interrupt alone, its loss less the traced time is the cost of entry and exit. The loop is one that
//! notes its own gaps on a watched core, or for a moment one of ours on a core that is not watched.

use crate::gap::tapes::put_in_order;
use crate::spin::{self, Jumps};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use surefoot_hostfs::clock::{self, TscClock, tsc};
use surefoot_hostfs::{Root, cpus};
use surefoot_model::{Cause, CauseKind, CpuId, EntryExit, EntryExitBasis, Interrupt, LoopGap, WhoReport};
use surefoot_probes::Probes;
use surefoot_probes::layout::{
    CAUSE_CALL_FUNCTION, CAUSE_CALL_FUNCTION_SINGLE, CAUSE_LOCAL_TIMER, CAUSE_RESCHEDULE, CAUSE_SOFTIRQ, SOFTIRQS, Turn,
};
use surefoot_sys::thread;

/// How long our own loop spins, on one core that is not watched: some forty ticks. On a busy machine it is preempted, and
/// spins again.
const SPIN: Duration = Duration::from_millis(150);
const SPINS: usize = 6;

/// A shorter jump of our own loop is not looked at: less than any interrupt takes, nanoseconds.
const JUMP_NS: u64 = 300;

/// Fewer are not believed.
const SAMPLES: usize = 5;

/// Measurements that are kept of one kind; of more, the newest.
const KEPT: usize = 4096;

/// The interrupt that carries called functions.
const CARRIER: &str = Cause::INTERRUPT_ITSELF;

/// The measurements so far, by kind.
#[derive(Debug, Default)]
pub(super) struct Measured {
    noted: BTreeMap<CauseKind, Vec<u64>>,
    own: BTreeMap<CauseKind, Vec<u64>>,
}

/// The interrupts that have an entry and exit of their own, as the kernel's other vectors do.
fn has_own_entry(kind: CauseKind) -> bool {
    use CauseKind::*;
    matches!(kind, Timer | CallFunction | Reschedule | IrqWork | DeviceInterrupt | OtherInterrupt | MachineCheck)
}

fn keep(list: &mut Vec<u64>, outside_ns: u64) {
    if list.len() >= KEPT {
        list.drain(..KEPT / 2);
    }
    list.push(outside_ns);
}

impl Measured {
    /// Takes a gap that a polling thread noted, where one interrupt alone fills it.
    pub(super) fn noted(&mut self, gap: &LoopGap) {
        if let Some(kind) = single(gap) {
            // What the loop's own reading takes for entry and exit has a part of its own.
            let named = gap.parts.iter().filter(|part| part.cause.name == Cause::ENTRY_AND_EXIT);
            let named_ns = named.fold(0, |sum: u64, part| sum.saturating_add(part.total_ns));
            keep(self.noted.entry(kind).or_default(), gap.unexplained_ns.saturating_add(named_ns));
        }
    }

    /// Spins for a moment on a core that is not watched, beside the ledger's programs. Where that cannot be, nothing is
    /// known.
    pub(super) fn spin(&mut self, root: &Root, probes: &Probes, watched: &[CpuId]) {
        let Some(cpu) =
            cpus::online(root).ok().and_then(|online| online.into_iter().find(|cpu| !watched.contains(cpu)))
        else {
            return;
        };
        // Of a made-up host nothing can be measured, and a counter that the kernel does not trust measures nothing.
        if !root.is_host() || !clock::trusted(root) {
            return;
        }
        let Ok(mut counter) = TscClock::calibrate_for(Duration::from_millis(10)) else { return };
        for _ in 0..SPINS {
            let is_enough = |list: &Vec<u64>| list.len() >= 2 * SAMPLES;
            if self.own.values().any(is_enough) || self.spin_once(probes, cpu, &mut counter).is_none() {
                return;
            }
        }
    }

    /// Spins once; `None` where that core cannot be used.
    fn spin_once(&mut self, probes: &Probes, cpu: CpuId, counter: &mut TscClock) -> Option<()> {
        let from = probes.tape_end(cpu);
        let jumps = Arc::new(Jumps::default());
        let theirs = Arc::clone(&jumps);
        let (length, threshold) = (counter.ticks(SPIN.as_nanos() as u64), counter.ticks(JUMP_NS));
        let body = move || {
            thread::pin_to(cpu).ok()?;
            spin::spin_until(tsc().saturating_add(length), threshold, &theirs);
            Some(thread::current_tid())
        };
        let spinner = std::thread::Builder::new().name("entry-exit".into()).spawn(body).ok()?;
        let tid = spinner.join().ok()??;
        counter.reanchor();
        let mut turns = Vec::new();
        probes.read_tape(cpu, from, &mut turns);
        put_in_order(0, &mut turns);
        let mut found = Vec::new();
        jumps.take(&mut found);
        for jump in found {
            let end_ns = counter.ns(jump.after);
            let start_ns = end_ns.saturating_sub(counter.duration_ns(jump.after - jump.before));
            if let Some((kind, outside_ns)) = outside(&turns, tid, start_ns, end_ns) {
                keep(self.own.entry(kind).or_default(), outside_ns);
            }
        }
        Some(())
    }

    /// What is known of each kind that came, and what its entries and exits took; into the report.
    pub(super) fn apply(&self, report: &mut WhoReport) {
        report.entry_exit = self.costs();
        let Some(usual) = report.entry_exit.iter().max_by_key(|cost| cost.samples).cloned() else { return };
        let mut of_others = Vec::new();
        let cost_of = |kind: CauseKind| {
            report
                .entry_exit
                .iter()
                .find(|cost| cost.kind == kind)
                .map_or((usual.median_ns, false), |cost| (cost.median_ns, true))
        };
        let carriers = carriers(&report.interrupts);
        for interrupt in &mut report.interrupts {
            let kind = interrupt.cause.kind;
            let is_function =
                kind == CauseKind::TlbShootdown || kind == CauseKind::CallFunction && interrupt.cause.name != CARRIER;
            if !is_function && !has_own_entry(kind) {
                continue;
            }
            let (each_ns, is_measured) = cost_of(if is_function { CauseKind::CallFunction } else { kind });
            interrupt.entry_exit_ns = match (is_function, carriers.get(&interrupt.cpu)) {
                // What carried the functions is lost for their sake.
                (true, Some(carrier)) => Some(carrier.part_of(interrupt.count, each_ns)),
                (true, None) => Some(interrupt.count.saturating_mul(each_ns)),
                (false, Some(carrier)) if interrupt.cause.name == CARRIER && carrier.functions > 0 => None,
                (false, _) => Some(interrupt.count.saturating_mul(each_ns)),
            };
            let of = if is_function { CauseKind::CallFunction } else { kind };
            if !is_measured && interrupt.entry_exit_ns.is_some() && !of_others.contains(&of) {
                of_others.push(of);
            }
        }
        let borrowed = of_others.into_iter().map(|kind| EntryExit {
            kind,
            samples: 0,
            basis: EntryExitBasis::OtherKind,
            ..usual.clone()
        });
        report.entry_exit.extend(borrowed);
    }

    fn costs(&self) -> Vec<EntryExit> {
        let kinds = CauseKind::ALL.into_iter().filter_map(|kind| {
            let enough = |list: Option<&Vec<u64>>| list.filter(|list| list.len() >= SAMPLES).cloned();
            let noted = enough(self.noted.get(&kind)).map(|list| (list, EntryExitBasis::PollingLoop));
            let (mut list, basis) =
                noted.or_else(|| enough(self.own.get(&kind)).map(|list| (list, EntryExitBasis::OwnLoop)))?;
            list.sort_unstable();
            let at = |percent: usize| list[(list.len() - 1) * percent / 100];
            Some(EntryExit {
                kind,
                median_ns: at(50),
                p10_ns: at(10),
                p90_ns: at(90),
                samples: list.len() as u64,
                basis,
            })
        });
        kinds.collect()
    }
}

/// The interrupts that carry called functions to a core.
struct Carrier {
    count: u64,
    inside_ns: u64,
    functions: u64,
}

impl Carrier {
    /// The part of the carrying that is for so many of the functions.
    fn part_of(&self, count: u64, each_ns: u64) -> u64 {
        let whole = u128::from(self.inside_ns) + u128::from(self.count) * u128::from(each_ns);
        u64::try_from(whole * u128::from(count) / u128::from(self.functions.max(1))).unwrap_or(u64::MAX)
    }
}

fn carriers(interrupts: &[Interrupt]) -> BTreeMap<CpuId, Carrier> {
    let mut carriers: BTreeMap<CpuId, Carrier> = BTreeMap::new();
    let carrying =
        |interrupt: &&Interrupt| interrupt.cause.kind == CauseKind::CallFunction && interrupt.cause.name == CARRIER;
    for interrupt in interrupts.iter().filter(carrying) {
        let (count, inside_ns) = (interrupt.count, interrupt.total_ns);
        carriers.insert(interrupt.cpu, Carrier { count, inside_ns, functions: 0 });
    }
    for interrupt in interrupts.iter().filter(|interrupt| !carrying(interrupt)) {
        let kind = interrupt.cause.kind;
        if let Some(carrier) = carriers.get_mut(&interrupt.cpu)
            && matches!(kind, CauseKind::TlbShootdown | CauseKind::CallFunction)
        {
            carrier.functions = carrier.functions.saturating_add(interrupt.count);
        }
    }
    carriers
}

/// The kind of the one interrupt that fills a gap; softirqs and called functions in it are its own.
fn single(gap: &LoopGap) -> Option<CauseKind> {
    let mut found = None;
    for part in &gap.parts {
        let kind = part.cause.kind;
        let is_within = part.cause.name == Cause::ENTRY_AND_EXIT
            || matches!(kind, CauseKind::Softirq | CauseKind::TlbShootdown)
            || kind == CauseKind::CallFunction && part.cause.name != CARRIER;
        if is_within {
            continue;
        }
        if !has_own_entry(kind) || part.count != 1 || found.is_some() {
            return None;
        }
        found = Some(kind);
    }
    found
}

/// What one interrupt alone took outside of what was traced of it, of a stretch in which thread `tid` did not run; `None`
/// where it was something else, or more.
fn outside(turns: &[Turn], tid: u32, start_ns: u64, end_ns: u64) -> Option<(CauseKind, u64)> {
    let first = turns.partition_point(|turn| turn.at_ns < start_ns);
    let last = turns.partition_point(|turn| turn.at_ns <= end_ns);
    let within = &turns[first..last];
    let is_softirq = |cause: usize| (CAUSE_SOFTIRQ..CAUSE_SOFTIRQ + SOFTIRQS.len()).contains(&cause);
    let (mut kind, mut inside_ns, mut depth) = (None, 0, 0);
    for (at, turn) in within.iter().enumerate() {
        if turn.depth == 0 && turn.pid != tid {
            return None;
        }
        let cause = usize::from(turn.cause);
        if turn.depth > 0 {
            inside_ns += within.get(at + 1)?.at_ns - turn.at_ns;
        }
        if turn.depth > depth && !is_softirq(cause) {
            let is = match cause {
                CAUSE_LOCAL_TIMER => CauseKind::Timer,
                CAUSE_RESCHEDULE => CauseKind::Reschedule,
                CAUSE_CALL_FUNCTION | CAUSE_CALL_FUNCTION_SINGLE => CauseKind::CallFunction,
                // A called function within its interrupt.
                _ if depth > 0 && kind == Some(CauseKind::CallFunction) => {
                    depth = turn.depth;
                    continue;
                }
                _ => return None,
            };
            if kind.replace(is).is_some() {
                return None;
            }
        }
        depth = turn.depth;
    }
    (depth == 0).then_some(())?;
    Some((kind?, (end_ns - start_ns).checked_sub(inside_ns)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::LoopGapPart;

    const TID: u32 = 77;

    fn turn(at_ns: u64, cause: usize, depth: u8) -> Turn {
        Turn { at_ns, cause: cause as u16, depth, left: 0, pid: TID }
    }

    #[test]
    fn what_lies_outside_of_one_traced_interrupt_is_entry_and_exit() {
        // A tick of 500 ns with a softirq of 100 ns behind it, in a stretch of 1,600.
        let turns = [
            turn(400, 1, 0),
            turn(1_600, CAUSE_LOCAL_TIMER, 1),
            turn(2_100, 1, 0),
            turn(2_150, 21, 1),
            turn(2_250, 1, 0),
        ];
        assert_eq!(outside(&turns, TID, 1_000, 2_600), Some((CauseKind::Timer, 1_000)));
        let called = [turn(1_100, CAUSE_CALL_FUNCTION, 1), turn(1_200, 40, 2), turn(1_300, 6, 1), turn(1_350, 1, 0)];
        assert_eq!(outside(&called, TID, 1_000, 2_000), Some((CauseKind::CallFunction, 750)));
        let twice = [&turns[1..3], &[turn(2_200, CAUSE_RESCHEDULE, 1), turn(2_300, 1, 0)][..]].concat();
        assert_eq!(outside(&twice, TID, 1_000, 2_600), None, "of two nobody knows each one's part");
        let other = [turn(1_100, CAUSE_LOCAL_TIMER, 1), Turn { pid: 5, ..turn(1_200, 1, 0) }, turn(1_900, 1, 0)];
        assert_eq!(outside(&other, TID, 1_000, 2_000), None, "another task ran");
        assert_eq!(outside(&turns[..2], TID, 1_000, 2_000), None, "it did not end");
        assert_eq!(outside(&[], TID, 1_000, 2_000), None, "nothing was traced");
    }

    fn gap(parts: &[(CauseKind, &str, u64)], unexplained_ns: u64) -> LoopGap {
        let parts = parts.iter().map(|&(kind, name, count)| LoopGapPart {
            cause: Cause::new(kind, name),
            total_ns: 100,
            count,
            raisers: Vec::new(),
        });
        LoopGap {
            pid: 1,
            tid: 1,
            name: "x".into(),
            cpu: Some(CpuId(1)),
            start_ns: 0,
            duration_ns: 9_000,
            parts: parts.collect(),
            unexplained_ns,
        }
    }

    #[test]
    fn what_a_gap_names_as_entry_and_exit_is_what_they_took() {
        let mut measured = Measured::default();
        for _ in 0..SAMPLES {
            let mut noted =
                gap(&[(CauseKind::Timer, "local_timer", 1), (CauseKind::Timer, Cause::ENTRY_AND_EXIT, 1)], 0);
            noted.parts[1].total_ns = 9_000;
            measured.noted(&noted);
        }
        let costs = measured.costs();
        assert_eq!((costs.len(), costs[0].kind, costs[0].median_ns), (1, CauseKind::Timer, 9_000));
    }

    fn row(kind: CauseKind, name: &str, count: u64, total_ns: u64) -> Interrupt {
        Interrupt::new(CpuId(1), Cause::new(kind, name), count, total_ns)
    }

    #[test]
    fn a_shootdown_costs_its_interrupt_and_what_was_not_measured_is_taken_from_the_others() {
        use CauseKind::*;
        let mut measured = Measured::default();
        for outside_ns in [5_000, 6_000, 7_000, 6_100, 5_900, 90_000] {
            measured.noted(&gap(&[(CallFunction, CARRIER, 1), (TlbShootdown, "flush_tlb_func", 1)], outside_ns));
        }
        measured.noted(&gap(&[(Timer, "local_timer", 1), (CallFunction, CARRIER, 1)], 1));
        measured.noted(&gap(&[(Preemption, "x", 1)], 1));
        measured.noted(&gap(&[], 1));
        let mut report = WhoReport {
            interrupts: vec![
                row(TlbShootdown, "flush_tlb_func", 90, 36_000),
                row(CallFunction, "f", 10, 1_000),
                row(CallFunction, CARRIER, 100, 50_000),
                row(Timer, "local_timer", 10, 1_000),
                row(Softirq, "RCU", 10, 1_000),
            ],
            ..WhoReport::default()
        };
        measured.apply(&mut report);
        let told: Vec<Option<u64>> = report.interrupts.iter().map(|row| row.entry_exit_ns).collect();
        // 100 interrupts of 6,000 ns and the 50,000 inside them are for 100 functions.
        assert_eq!(told, [Some(585_000), Some(65_000), None, Some(60_000), None]);
        let costs: Vec<_> = report.entry_exit.iter().map(|cost| (cost.kind, cost.samples, cost.basis)).collect();
        assert_eq!(costs, [(CallFunction, 6, EntryExitBasis::PollingLoop), (Timer, 0, EntryExitBasis::OtherKind)]);
        assert_eq!((report.entry_exit[0].median_ns, report.entry_exit[0].p10_ns), (6_000, 5_000));
    }

    #[test]
    fn without_a_measurement_nothing_is_said() {
        let mut report = WhoReport { interrupts: vec![row(CauseKind::Timer, "t", 1, 1)], ..WhoReport::default() };
        Measured::default().apply(&mut report);
        assert!(report.entry_exit.is_empty() && report.interrupts[0].entry_exit_ns.is_none());
    }
}
