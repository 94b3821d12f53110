//! From two snapshots of a core to its ledger: a pure function.
//!
//! The programs partition the wall time among contexts. Three things they cannot see are moved here, within the sum:
//! the split of work between user and kernel mode (the kernel samples it at the tick), time that the hypervisor took
//! (the steal counter), and hidden gaps (late timers, the sentinel). What is moved never exceeds what is there, so the
//! parts always add up to the wall time.

pub(crate) mod completeness;
pub(crate) mod kernel_counters;
pub(crate) mod names;

use std::collections::BTreeMap;
use surefoot_model::{Cause, CauseKind, CoreLedger, CpuId, Histogram, Lost, Waiting};
use surefoot_probes::Snapshot;
use surefoot_probes::layout::{
    CAUSE_IDLE, CAUSE_LOCAL_TIMER, CAUSE_OTHER_TASK, CAUSE_OTHER_THREAD, CAUSE_UNKNOWN, CAUSE_WORK, CAUSES,
    CauseTotals, KEY_TASK, KEY_THREAD,
};

/// What the kernel's own counters say about the same window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Time in user mode as sampled at the tick, any unit.
    pub user: u64,
    /// Time in kernel mode as sampled at the tick, the same unit.
    pub system: u64,
    /// Idle time, nanoseconds.
    pub idle_ns: u64,
    /// Time that the hypervisor gave to others, nanoseconds.
    pub steal_ns: u64,
}

/// Time inside a context that was not spent there: a gap that no traced interval covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hidden {
    /// What took it, or `None` if that is not known.
    pub cause: Option<Cause>,
    /// How long, nanoseconds.
    pub duration_ns: u64,
    /// Whether the core was idle then.
    pub while_idle: bool,
}

/// Time that a snapshot accounts for under one cause, the open context included.
fn accounted_ns(snapshot: &Snapshot, number: usize) -> u64 {
    let open_ns = if snapshot.open_cause() == number { snapshot.open_ns() } else { 0 };
    snapshot.slot.causes[number].total_ns + open_ns
}

/// Whether a cause is another task, which takes a core from the workload.
fn is_task(snapshot: &Snapshot, number: usize) -> bool {
    number == CAUSE_OTHER_TASK || snapshot.slot.causes[number].kind() == KEY_TASK
}

/// Whether a cause is a thread or task, which takes a core only from those who wait for it.
fn takes_core(snapshot: &Snapshot, number: usize) -> bool {
    number == CAUSE_OTHER_THREAD || snapshot.slot.causes[number].kind() == KEY_THREAD || is_task(snapshot, number)
}

/// The part of a cause's time that delayed nobody: the core idled, or a thread ran there and no task waited.
///
/// That somebody waited behind a thread can be known only when he gets the core. A run across the end of a window may
/// so be counted as nobody's loss in the first one; the next window cannot take that back.
fn nobodys_part_ns(snapshot: &Snapshot, number: usize) -> u64 {
    let slot = &snapshot.slot;
    let base = &slot.frames[0];
    if takes_core(snapshot, number) {
        let is_open = base.cause as usize == number && slot.behind != 0;
        let not_charged_ns = if slot.depth == 0 { snapshot.open_ns() } else { 0 };
        let taken_ns = slot.causes[number].taken_ns + if is_open { base.own_ns + not_charged_ns } else { 0 };
        return accounted_ns(snapshot, number).saturating_sub(taken_ns);
    }
    let base_number = (base.cause as usize).min(CAUSES - 1);
    let delays_nobody = base_number == CAUSE_IDLE || (takes_core(snapshot, base_number) && slot.behind == 0);
    let open = snapshot.open_cause() == number && slot.depth > 0 && delays_nobody;
    slot.causes[number].idle_ns + if open { snapshot.open_ns() } else { 0 }
}

/// How long user tasks waited for the core, where the kernel tells.
fn waiting(earlier: &Snapshot, later: &Snapshot) -> Waiting {
    let rise = |of: fn(&Snapshot) -> u64| of(later).saturating_sub(of(earlier));
    Waiting {
        count: rise(|snapshot| snapshot.slot.waits),
        total_ns: rise(|snapshot| snapshot.slot.waited_ns),
        throttled_count: rise(|snapshot| snapshot.slot.throttles),
        throttled_ns: rise(|snapshot| snapshot.slot.throttled_ns),
        moved_away: rise(|snapshot| snapshot.slot.moved_away),
        not_followed: rise(|snapshot| snapshot.slot.not_followed),
    }
}

/// The parts of a window while they are being moved.
struct Parts {
    idle_ns: u64,
    work_ns: u64,
    unexplained_ns: u64,
    lost: BTreeMap<Cause, Lost>,
}

impl Parts {
    fn lose(&mut self, lost: Lost) {
        self.lost.entry(lost.cause.clone()).and_modify(|sum| sum.add(&lost)).or_insert(lost);
    }

    /// Moves hidden time out of the context it was found in.
    fn move_hidden(&mut self, hidden: &Hidden) {
        let from = if hidden.while_idle { &mut self.idle_ns } else { &mut self.work_ns };
        let moved_ns = hidden.duration_ns.min(*from);
        *from -= moved_ns;
        match &hidden.cause {
            None => self.unexplained_ns += moved_ns,
            Some(_) if moved_ns == 0 => {}
            Some(cause) => {
                // A gap can have begun before its window, or before the watch: no row lasts longer than it takes in all.
                let mut lost = Lost::new(cause.clone(), 1, moved_ns, moved_ns);
                lost.while_idle_ns = if hidden.while_idle { moved_ns } else { 0 };
                lost.histogram.record(moved_ns);
                self.lose(lost);
            }
        }
    }

    /// Steal that is not in the gaps already booked on the hypervisor.
    fn steal_left_ns(&self, steal_ns: u64) -> u64 {
        let booked = self.lost.values().filter(|lost| lost.cause.kind == CauseKind::Hypervisor);
        steal_ns.saturating_sub(booked.map(|lost| lost.total_ns).sum())
    }

    /// Steal has no occurrences, only a sum; it is taken from work first, because an idle core cannot be kept waiting.
    fn move_steal(&mut self, steal_ns: u64) {
        let from_work_ns = steal_ns.min(self.work_ns);
        let from_idle_ns = (steal_ns - from_work_ns).min(self.idle_ns);
        if from_work_ns + from_idle_ns == 0 {
            return;
        }
        self.work_ns -= from_work_ns;
        self.idle_ns -= from_idle_ns;
        let mut lost = Lost::new(Cause::new(CauseKind::Hypervisor, "steal"), 0, from_work_ns + from_idle_ns, 0);
        lost.while_idle_ns = from_idle_ns;
        self.lose(lost);
    }

    /// A context can turn out to have been another one after it was read (an NMI is booked backwards), so a part can
    /// come out too large by what the next window then lacks. The largest parts carry the difference.
    fn balance(&mut self, wall_ns: u64) {
        let sum = self.idle_ns + self.work_ns + self.unexplained_ns;
        let sum = sum + self.lost.values().map(|lost| lost.total_ns).sum::<u64>();
        if sum <= wall_ns {
            self.unexplained_ns += wall_ns - sum;
            return;
        }
        let mut excess_ns = sum - wall_ns;
        let mut parts: Vec<&mut u64> = vec![&mut self.idle_ns, &mut self.work_ns, &mut self.unexplained_ns];
        parts.extend(self.lost.values_mut().map(|lost| &mut lost.total_ns));
        parts.sort_by_key(|part| std::cmp::Reverse(**part));
        for part in parts {
            let taken_ns = excess_ns.min(*part);
            *part -= taken_ns;
            excess_ns -= taken_ns;
        }
        for lost in self.lost.values_mut() {
            lost.while_idle_ns = lost.while_idle_ns.min(lost.total_ns);
        }
    }
}

/// The ledger of a core between two snapshots.
///
/// `origin` is the snapshot that the watch of this core began with: what was open then counts from there. `name` gives a
/// cause its name; `durations` gives the durations of a cause since the earlier snapshot.
pub fn core_ledger(
    cpu: CpuId,
    origin: &Snapshot,
    (earlier, later): (&Snapshot, &Snapshot),
    counters: &Counters,
    hidden: &[Hidden],
    name: impl Fn(usize, &CauseTotals) -> Cause,
    mut durations: impl FnMut(usize) -> Histogram,
) -> CoreLedger {
    let wall_ns = later.at_ns - earlier.at_ns;
    let took_ns = |number| accounted_ns(later, number).saturating_sub(accounted_ns(earlier, number));
    let since_origin_ns = |number| accounted_ns(later, number).saturating_sub(accounted_ns(origin, number));
    let mut parts =
        Parts { idle_ns: took_ns(CAUSE_IDLE), work_ns: took_ns(CAUSE_WORK), unexplained_ns: 0, lost: BTreeMap::new() };
    // Before its first event nobody knows what a core does; the kernel's own idle counter does.
    let unknown_ns = took_ns(CAUSE_UNKNOWN);
    let unknown_idle_ns = unknown_ns.min(counters.idle_ns);
    parts.idle_ns += unknown_idle_ns;
    parts.unexplained_ns += unknown_ns - unknown_idle_ns;
    for number in CAUSE_LOCAL_TIMER..CAUSES {
        let (was, is) = (&earlier.slot.causes[number], &later.slot.causes[number]);
        let count = is.count.saturating_sub(was.count);
        let total_ns = took_ns(number);
        if count == 0 && total_ns == 0 {
            continue;
        }
        let idle_ns = nobodys_part_ns(later, number).saturating_sub(nobodys_part_ns(earlier, number)).min(total_ns);
        // Another task behind which the workload did not wait is work like any other.
        let (total_ns, idle_ns) = match is_task(later, number) {
            true => {
                parts.work_ns += idle_ns;
                (total_ns - idle_ns, 0)
            }
            false => (total_ns, idle_ns),
        };
        if count == 0 && total_ns == 0 {
            continue;
        }
        let histogram = durations(number);
        parts.lose(Lost {
            cause: name(number, is),
            count,
            total_ns,
            max_ns: longest_ns((was, is), total_ns, &histogram).min(since_origin_ns(number)),
            while_idle_ns: idle_ns,
            histogram,
        });
    }
    parts.balance(wall_ns);
    let (named, unnamed): (Vec<&Hidden>, Vec<&Hidden>) = hidden.iter().partition(|gap| gap.cause.is_some());
    named.iter().for_each(|gap| parts.move_hidden(gap));
    // Stolen time lies somewhere in the window, and the gaps nobody could name are where a core stood still. So the one
    // accounts for the other, and only what exceeds it is unexplained.
    let steal_ns = parts.steal_left_ns(counters.steal_ns);
    let mut inside_steal_ns = steal_ns;
    for gap in unnamed {
        let covered_ns = gap.duration_ns.min(inside_steal_ns);
        inside_steal_ns -= covered_ns;
        parts.move_hidden(&Hidden { duration_ns: gap.duration_ns - covered_ns, ..gap.clone() });
    }
    parts.move_steal(steal_ns);
    let kernel_ns = split_ns(parts.work_ns, counters.system, counters.user);
    let mut lost: Vec<Lost> = parts.lost.into_values().collect();
    Lost::sort(&mut lost);
    CoreLedger {
        cpu,
        wall_ns,
        idle_ns: parts.idle_ns,
        user_ns: parts.work_ns - kernel_ns,
        kernel_ns,
        lost,
        unexplained_ns: parts.unexplained_ns,
        waiting: Some(waiting(earlier, later)),
    }
}

/// The longest occurrence of a cause that ended between two snapshots.
///
/// The programs keep a maximum since they began; where it rose, it is of this window. Elsewhere the middle of the highest
/// bucket counts, which is within an eighth of the truth. One that has not ended has lasted for its time in the window.
fn longest_ns((was, is): (&CauseTotals, &CauseTotals), total_ns: u64, histogram: &Histogram) -> u64 {
    if is.max_ns > was.max_ns {
        return is.max_ns;
    }
    let longest_ns = if histogram.count() > 0 { histogram.quantile_ns(1.0) } else { total_ns };
    if is.count > was.count { longest_ns.min(is.max_ns) } else { longest_ns }
}

/// The share of `whole` that belongs to `part` when `rest` is the other share; 0 when neither was sampled.
fn split_ns(whole: u64, part: u64, rest: u64) -> u64 {
    if part + rest == 0 {
        return 0;
    }
    (u128::from(whole) * u128::from(part) / u128::from(part + rest)) as u64
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use proptest::prelude::*;
    use surefoot_probes::layout::Slot;

    fn snapshot(at_ns: u64, last_ns: u64, open: usize, totals: &[(usize, u64, u64)]) -> Snapshot {
        let mut slot = Box::new(Slot::zeroed());
        slot.last_ns = last_ns;
        slot.frames[0].cause = open as u32;
        for &(number, total_ns, count) in totals {
            slot.causes[number].total_ns = total_ns;
            slot.causes[number].count = count;
        }
        Snapshot { at_ns, slot }
    }

    fn name(number: usize, _: &CauseTotals) -> Cause {
        Cause::new(CauseKind::Timer, number.to_string())
    }

    fn ledger(earlier: &Snapshot, later: &Snapshot, counters: &Counters, hidden: &[Hidden]) -> CoreLedger {
        core_ledger(CpuId(0), earlier, (earlier, later), counters, hidden, name, |_| Histogram::default())
    }

    #[test]
    fn the_open_context_is_counted_and_not_counted_again() {
        let first = snapshot(1_000, 900, CAUSE_WORK, &[(CAUSE_WORK, 900, 0)]);
        let second = snapshot(2_000, 1_500, CAUSE_IDLE, &[(CAUSE_WORK, 1_400, 0), (CAUSE_LOCAL_TIMER, 100, 2)]);
        let core = ledger(&first, &second, &Counters { user: 3, system: 1, ..Counters::default() }, &[]);
        assert!(core.sums_up(), "{core:?}");
        assert_eq!((core.wall_ns, core.idle_ns, core.user_ns, core.kernel_ns), (1_000, 500, 300, 100));
        assert_eq!((core.lost[0].total_ns, core.lost[0].count, core.unexplained_ns), (100, 2, 0));
    }

    #[test]
    fn the_longest_of_a_window_is_of_that_window() {
        let mut first = snapshot(0, 0, CAUSE_WORK, &[(CAUSE_LOCAL_TIMER, 60_000, 9)]);
        let mut second = snapshot(1_000_000, 1_000_000, CAUSE_WORK, &[(CAUSE_LOCAL_TIMER, 62_000, 10)]);
        let start = snapshot(0, 0, CAUSE_UNKNOWN, &[]);
        let longest = |first: &Snapshot, second: &Snapshot, duration_ns: Option<u64>| {
            let mut histogram = Histogram::default();
            duration_ns.into_iter().for_each(|duration_ns| histogram.record(duration_ns));
            let durations = |_| histogram.clone();
            core_ledger(CpuId(0), &start, (first, second), &Counters::default(), &[], name, durations).lost[0].max_ns
        };
        for snapshot in [&mut first, &mut second] {
            snapshot.slot.causes[CAUSE_LOCAL_TIMER].max_ns = 50_000;
        }
        let of_window_ns = longest(&first, &second, Some(2_000));
        assert!(of_window_ns.abs_diff(2_000) <= 250, "{of_window_ns}: the 50 us were before");
        second.slot.causes[CAUSE_LOCAL_TIMER].max_ns = 60_001;
        assert_eq!(longest(&first, &second, Some(60_001)), 60_001, "a new maximum is exact");
        second.slot.causes[CAUSE_LOCAL_TIMER] = first.slot.causes[CAUSE_LOCAL_TIMER];
        second.slot.causes[CAUSE_LOCAL_TIMER].total_ns += 70_000;
        assert_eq!(longest(&first, &second, None), 70_000, "one that has not ended yet");
    }

    #[test]
    fn what_began_before_the_watch_is_cut_at_its_start() {
        // A thread that ran for 5 ms when the watch began, and 1 ms more.
        let first = snapshot(5_000_000, 0, CAUSE_LOCAL_TIMER, &[]);
        let mut second = snapshot(7_000_000, 7_000_000, CAUSE_WORK, &[(CAUSE_LOCAL_TIMER, 6_000_000, 1)]);
        second.slot.causes[CAUSE_WORK].total_ns = 1_000_000;
        second.slot.causes[CAUSE_LOCAL_TIMER].max_ns = 6_000_000;
        let row = |origin, earlier, later| {
            let counters = Counters::default();
            let core = core_ledger(CpuId(0), origin, (earlier, later), &counters, &[], name, |_| Histogram::default());
            assert!(core.sums_up(), "{core:?}");
            (core.lost[0].total_ns, core.lost[0].max_ns)
        };
        assert_eq!(row(&first, &first, &second), (1_000_000, 1_000_000));
        // One that began in an earlier window keeps its whole length.
        let start = snapshot(0, 0, CAUSE_UNKNOWN, &[]);
        assert_eq!(row(&start, &first, &second), (1_000_000, 6_000_000));
        let gap = Hidden { cause: Some(Cause::new(CauseKind::Smi, "")), duration_ns: 90, while_idle: false };
        let short = snapshot(40, 40, CAUSE_WORK, &[(CAUSE_WORK, 40, 0)]);
        let core = ledger(&snapshot(0, 0, CAUSE_WORK, &[]), &short, &Counters::default(), &[gap.clone(), gap]);
        assert_eq!((core.lost[0].count, core.lost[0].total_ns, core.lost[0].max_ns), (1, 40, 40));
    }

    const THREAD: usize = CAUSE_OTHER_THREAD;

    /// A kernel thread that ran for 900, of which somebody waited through `taken_ns`.
    fn ran(open: usize, taken_ns: u64, behind: u32) -> Snapshot {
        let mut snapshot = snapshot(1_000, 1_000, open, &[(CAUSE_WORK, 100, 1), (THREAD, 900, 3)]);
        snapshot.slot.causes[THREAD].taken_ns = taken_ns;
        (snapshot.slot.behind, snapshot.slot.frames[0].own_ns) = (behind, 200);
        snapshot
    }

    #[test]
    fn a_thread_takes_time_only_from_those_who_wait() {
        let first = snapshot(0, 0, CAUSE_IDLE, &[]);
        let nobody_s = |later: &Snapshot| {
            let core = ledger(&first, later, &Counters { user: 1, ..Counters::default() }, &[]);
            assert!(core.sums_up(), "{core:?}");
            let row = core.lost.iter().find(|lost| lost.total_ns == 900).unwrap();
            assert_eq!((core.lost_ns() + row.while_idle_ns, core.busy_ns()), (900, 1_000 - row.while_idle_ns));
            row.while_idle_ns
        };
        assert_eq!(nobody_s(&ran(CAUSE_IDLE, 0, 0)), 900);
        assert_eq!(nobody_s(&ran(CAUSE_IDLE, 250, 0)), 650);
        assert_eq!(nobody_s(&ran(THREAD, 250, 0)), 650, "who may wait behind the run that is not over is not known");
        assert_eq!(nobody_s(&ran(THREAD, 250, 1)), 450, "its 200 count already where somebody is known to wait");
        assert_eq!(nobody_s(&ran(CAUSE_IDLE, 5_000, 0)), 0);
    }

    #[test]
    fn another_task_behind_which_nobody_of_the_workload_waits_is_work() {
        let first = snapshot(0, 0, CAUSE_IDLE, &[]);
        let mut second = snapshot(1_000, 1_000, CAUSE_IDLE, &[(CAUSE_OTHER_TASK, 1_000, 2)]);
        second.slot.causes[CAUSE_OTHER_TASK].taken_ns = 400;
        let core = ledger(&first, &second, &Counters { user: 1, ..Counters::default() }, &[]);
        assert!(core.sums_up(), "{core:?}");
        assert_eq!((core.lost_ns(), core.while_idle_ns(), core.user_ns), (400, 0, 600));
    }

    #[test]
    fn an_interrupt_of_a_thread_behind_which_nobody_waits_delays_nobody() {
        let first = snapshot(0, 0, CAUSE_IDLE, &[]);
        let open = |behind| {
            let mut later = snapshot(1_000, 900, THREAD, &[(THREAD, 900, 0)]);
            later.slot.behind = behind;
            later.slot.depth = 1;
            later.slot.frames[1].cause = CAUSE_LOCAL_TIMER as u32;
            let core = ledger(&first, &later, &Counters::default(), &[]);
            core.lost.iter().find(|lost| lost.total_ns == 100).unwrap().while_idle_ns
        };
        assert_eq!((open(0), open(1)), (100, 0));
    }

    #[test]
    fn hidden_time_moves_to_its_cause_or_to_unexplained() {
        let first = snapshot(0, 0, CAUSE_WORK, &[]);
        let second = snapshot(1_000, 1_000, CAUSE_WORK, &[(CAUSE_WORK, 800, 0), (CAUSE_IDLE, 200, 0)]);
        let smi = Hidden { cause: Some(Cause::new(CauseKind::Smi, "")), duration_ns: 300, while_idle: false };
        let host = Hidden { cause: Some(Cause::new(CauseKind::Hypervisor, "x")), duration_ns: 60, while_idle: false };
        let nobody = Hidden { cause: None, duration_ns: 900, while_idle: false };
        let idle = Hidden { cause: None, duration_ns: 50, while_idle: true };
        let counters = Counters { user: 1, steal_ns: 100, ..Counters::default() };
        let core = ledger(&first, &second, &counters, &[smi, host, nobody, idle]);
        assert!(core.sums_up(), "{core:?}");
        // 800 of work: 300 by an SMI, 60 by the host, and of the 900 claimed only the 440 that are left. The 40 that
        // were stolen beyond the named gap account for a part of the 900, and only the idle time has them left.
        assert_eq!((core.user_ns, core.idle_ns, core.unexplained_ns), (0, 110, 490));
        assert_eq!((core.causes_ns(), core.lost_ns()), (400, 360), "40 were stolen while it idled");
    }

    #[test]
    fn stolen_time_accounts_for_gaps_that_nobody_could_name() {
        let first = snapshot(0, 0, CAUSE_WORK, &[]);
        let second = snapshot(1_000, 1_000, CAUSE_WORK, &[(CAUSE_WORK, 1_000, 0)]);
        let gap = Hidden { cause: None, duration_ns: 150, while_idle: false };
        let lost = |steal_ns| {
            let counters = Counters { user: 1, steal_ns, ..Counters::default() };
            let core = ledger(&first, &second, &counters, std::slice::from_ref(&gap));
            assert!(core.sums_up(), "{core:?}");
            (core.lost_ns(), core.unexplained_ns, core.user_ns)
        };
        assert_eq!(lost(0), (0, 150, 850));
        assert_eq!(lost(100), (100, 50, 850));
        assert_eq!(lost(400), (400, 0, 600));
    }

    #[test]
    fn a_core_without_events_is_idle_as_far_as_the_kernel_says_so() {
        let first = snapshot(0, 0, CAUSE_UNKNOWN, &[]);
        let second = snapshot(1_000, 0, CAUSE_UNKNOWN, &[]);
        let core = ledger(&first, &second, &Counters { idle_ns: 700, ..Counters::default() }, &[]);
        assert_eq!((core.idle_ns, core.unexplained_ns, core.wall_ns), (700, 300, 1_000));
    }

    proptest! {
        /// Whatever the counters and gaps claim, the parts add up.
        #[test]
        fn the_parts_add_up(
            totals in prop::collection::vec((0..CAUSES, 0u64..1_000_000, 0u64..50), 0..20),
            open in 0..CAUSES, open_ns in 0u64..1_000_000,
            early_open in 0..CAUSES, early_open_ns in 0u64..1_000_000,
            user in 0u64..100, system in 0u64..100, idle_ns in 0u64..5_000_000, steal_ns in 0u64..5_000_000,
            hidden in prop::collection::vec((any::<bool>(), 0u64..2_000_000, any::<bool>()), 0..8),
        ) {
            let first = snapshot(5_000_000 + early_open_ns, 5_000_000, early_open, &[]);
            let mut summed: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
            for (number, total_ns, count) in totals {
                let entry = summed.entry(number).or_default();
                entry.0 += total_ns;
                entry.1 += count;
            }
            let totals: Vec<_> = summed.into_iter().map(|(number, (total_ns, count))| (number, total_ns, count)).collect();
            let last_ns = 5_000_000 + totals.iter().map(|total| total.1).sum::<u64>();
            let second = snapshot((last_ns + open_ns).max(first.at_ns), last_ns, open, &totals);
            let hidden: Vec<Hidden> = hidden
                .into_iter()
                .map(|(named, duration_ns, while_idle)| Hidden {
                    cause: named.then(|| Cause::new(CauseKind::Hypervisor, "x")), duration_ns, while_idle,
                })
                .collect();
            let core = ledger(&first, &second, &Counters { user, system, idle_ns, steal_ns }, &hidden);
            prop_assert!(core.sums_up(), "{:?}", core);
            prop_assert!(core.lost.iter().all(|lost| lost.while_idle_ns <= lost.total_ns));
        }
    }
}
