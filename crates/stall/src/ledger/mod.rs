//! From two snapshots of a core to its ledger: a pure function.
//!
//! The programs partition the wall time among contexts. Three things they cannot see are moved here, within the sum:
//! the split of work between user and kernel mode (the kernel samples it at the tick), time that the hypervisor took
//! (the steal counter), and hidden gaps (late timers, the sentinel). What is moved never exceeds what is there, so the
//! parts add up as the programs' own time does. That it does is checked: a few microseconds are balanced and counted, and
//! more is a [`CoreLedger::fault`].

pub(crate) mod completeness;
pub(crate) mod durations;
pub(crate) mod kernel_counters;
#[cfg(test)]
mod model_core;
pub(crate) mod names;
mod parts;

use self::parts::Parts;
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

/// The part of a cause's time that delayed no task: the core idled, or a thread ran there and no task waited.
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

/// What was changed to make the parts of a ledger add up, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Adjusted {
    /// By how much they did not.
    pub balanced_ns: u64,
    /// What turned out to have been taken from somebody in an earlier window.
    pub known_late_ns: u64,
}

/// By how much what snapshots account for rose; negative where time turned out to be another cause's after it was read.
fn rise_ns(of: impl Fn(&Snapshot) -> u64, earlier: &Snapshot, later: &Snapshot) -> i64 {
    of(later).wrapping_sub(of(earlier)).cast_signed()
}

/// Whether the programs saw events and no time pass: their clock is behind the one that the snapshots are stamped with.
fn has_other_clock(earlier: &Snapshot, later: &Snapshot) -> bool {
    let turns = later.slot.tape_turns.saturating_sub(earlier.slot.tape_turns);
    turns > 1 && later.slot.last_ns == earlier.slot.last_ns
}

/// The ledger of a core between two snapshots; what cannot be true has a [`CoreLedger::fault`].
///
/// `name` gives a cause its name; `durations` gives the durations of a cause since the earlier snapshot.
pub fn core_ledger(
    cpu: CpuId,
    (earlier, later): (&Snapshot, &Snapshot),
    counters: &Counters,
    hidden: &[Hidden],
    name: impl Fn(usize, &CauseTotals) -> Cause,
    durations: impl FnMut(usize) -> Histogram,
) -> (CoreLedger, Adjusted) {
    let wall_ns = later.at_ns.saturating_sub(earlier.at_ns);
    let nothing = CoreLedger { wall_ns, waiting: Some(waiting(earlier, later)), ..CoreLedger::empty(cpu) };
    if has_other_clock(earlier, later) {
        return (nothing, Adjusted::default());
    }
    let (mut parts, known_late_ns) = accounted_parts((earlier, later), counters.idle_ns, name, durations);
    let balanced_ns = parts.balance(wall_ns);
    if balanced_ns.is_some() {
        move_what_programs_cannot_see(&mut parts, counters.steal_ns, hidden);
    }
    let kernel_ns = split_ns(parts.work_ns, counters.system, counters.user);
    let mut lost: Vec<Lost> = parts.lost.into_values().collect();
    // What was moved out of a row above makes it shorter than its longest occurrence.
    for lost in &mut lost {
        lost.cap();
    }
    Lost::sort(&mut lost);
    let core = CoreLedger {
        idle_ns: parts.idle_ns,
        user_ns: parts.work_ns - kernel_ns,
        kernel_ns,
        lost,
        unexplained_ns: parts.unexplained_ns,
        ..nothing
    };
    (core, Adjusted { balanced_ns: balanced_ns.unwrap_or(0), known_late_ns })
}

/// What the programs account for, cause by cause, and what they knew too late for the window that it belongs to.
fn accounted_parts(
    (earlier, later): (&Snapshot, &Snapshot),
    kernel_idle_ns: u64,
    name: impl Fn(usize, &CauseTotals) -> Cause,
    mut durations: impl FnMut(usize) -> Histogram,
) -> (Parts, u64) {
    let took_ns = |number| rise_ns(|snapshot| accounted_ns(snapshot, number), earlier, later);
    let positive = |ns: i64| ns.max(0).unsigned_abs();
    let negative = |ns: i64| ns.min(0).unsigned_abs();
    let mut work_ns = took_ns(CAUSE_WORK);
    let mut parts = Parts { idle_ns: positive(took_ns(CAUSE_IDLE)), ..Parts::default() };
    // Before its first event nobody knows what a core does; the kernel's own idle counter does.
    let unknown_ns = positive(took_ns(CAUSE_UNKNOWN));
    let unknown_idle_ns = unknown_ns.min(kernel_idle_ns);
    parts.idle_ns += unknown_idle_ns;
    parts.unexplained_ns += unknown_ns - unknown_idle_ns;
    let mut known_late_ns = 0;
    // The context that was open at the start turned out to be a message's printing, or an NMI's, from before the start on.
    let mut moved_ns = negative(took_ns(CAUSE_IDLE));
    let mut moved_idle_ns = moved_ns;
    for number in CAUSE_LOCAL_TIMER..CAUSES {
        let (was, is) = (&earlier.slot.causes[number], &later.slot.causes[number]);
        let count = is.count.saturating_sub(was.count);
        let whole_ns = positive(took_ns(number));
        let nobodys_ns = rise_ns(|snapshot| nobodys_part_ns(snapshot, number), earlier, later);
        let back_ns = negative(took_ns(number));
        moved_ns += back_ns;
        moved_idle_ns += negative(nobodys_ns).min(back_ns);
        if count == 0 && whole_ns == 0 {
            continue;
        }
        let idle_ns = positive(nobodys_ns).min(whole_ns);
        known_late_ns += nobodys_ns.abs_diff(idle_ns.cast_signed()).saturating_sub(back_ns);
        let is_task = is_task(later, number);
        // Another task behind which the workload did not wait is work like any other.
        let (total_ns, idle_ns) = if is_task { (whole_ns - idle_ns, 0) } else { (whole_ns, idle_ns) };
        work_ns += (whole_ns - total_ns).cast_signed();
        if count == 0 && total_ns == 0 {
            continue;
        }
        // Of a task only what it took is an occurrence, which the end of its run tells where nobody was known to wait.
        let open_ns = |snapshot: &Snapshot| match is_task && snapshot.slot.behind == 0 {
            true => 0,
            false => durations::open_own_ns(snapshot, number),
        };
        let open_ns = (open_ns(earlier), open_ns(later));
        let (histogram, max_ns) = durations::in_window(durations(number), (was, is), open_ns, total_ns);
        parts.lose(Lost { cause: name(number, is), count, total_ns, max_ns, while_idle_ns: idle_ns, histogram });
    }
    parts.work_ns = positive(work_ns);
    let printed = if earlier.may_be_printing() { Some(CauseKind::Console) } else { None };
    known_late_ns += parts.take_back(&[CauseKind::Console, CauseKind::Nmi], moved_ns, moved_idle_ns);
    let takers: Vec<CauseKind> = printed.into_iter().chain([CauseKind::Preemption, CauseKind::Nmi]).collect();
    known_late_ns += parts.take_back(&takers, negative(work_ns), 0);
    parts.first_event_told(negative(took_ns(CAUSE_UNKNOWN)), kernel_idle_ns);
    (parts, known_late_ns)
}

/// Moves hidden gaps and stolen time out of the contexts that they lie in.
fn move_what_programs_cannot_see(parts: &mut Parts, steal_ns: u64, hidden: &[Hidden]) {
    let (named, unnamed): (Vec<&Hidden>, Vec<&Hidden>) = hidden.iter().partition(|gap| gap.cause.is_some());
    named.iter().for_each(|gap| parts.move_hidden(gap));
    // Stolen time lies somewhere in the window, and the gaps nobody could name are where a core stood still. So the one
    // accounts for the other, and only what exceeds it is unexplained.
    let steal_ns = parts.steal_left_ns(steal_ns);
    let mut inside_steal_ns = steal_ns;
    for gap in unnamed {
        let covered_ns = gap.duration_ns.min(inside_steal_ns);
        inside_steal_ns -= covered_ns;
        parts.move_hidden(&Hidden { duration_ns: gap.duration_ns - covered_ns, ..gap.clone() });
    }
    parts.move_steal(steal_ns);
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

    use super::model_core::{Event, ModelCore, any_event};
    use super::*;
    use proptest::prelude::*;
    use surefoot_model::LedgerFault;
    use surefoot_probes::layout::{CAUSE_CONSOLE, CAUSE_OTHER_NMI, Slot};

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
        core_ledger(CpuId(0), (earlier, later), counters, hidden, name, |_| Histogram::default()).0
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
        let longest = |first: &Snapshot, second: &Snapshot, duration_ns: Option<u64>| {
            let mut histogram = Histogram::default();
            duration_ns.into_iter().for_each(|duration_ns| histogram.record(duration_ns));
            let durations = |_| histogram.clone();
            core_ledger(CpuId(0), (first, second), &Counters::default(), &[], name, durations).0.lost[0].max_ns
        };
        for snapshot in [&mut first, &mut second] {
            snapshot.slot.causes[CAUSE_LOCAL_TIMER].max_ns = 50_000;
        }
        let of_window_ns = longest(&first, &second, Some(2_000));
        assert!(of_window_ns.abs_diff(2_000) <= 250, "{of_window_ns}: the 50 us were before");
        second.slot.causes[CAUSE_LOCAL_TIMER].max_ns = 60_001;
        second.slot.causes[CAUSE_LOCAL_TIMER].total_ns = 130_000;
        assert_eq!(longest(&first, &second, Some(60_001)), 60_001, "a new maximum is exact");
        second.slot.causes[CAUSE_LOCAL_TIMER] = first.slot.causes[CAUSE_LOCAL_TIMER];
        second.slot.causes[CAUSE_LOCAL_TIMER].total_ns += 70_000;
        assert_eq!(longest(&first, &second, None), 70_000, "one that has not ended yet");
    }

    #[test]
    fn what_began_before_its_window_counts_from_there() {
        // A thread that ran for 5 ms when the window began, and 1 ms more.
        let first = snapshot(5_000_000, 0, CAUSE_LOCAL_TIMER, &[]);
        let mut second = snapshot(7_000_000, 7_000_000, CAUSE_WORK, &[(CAUSE_LOCAL_TIMER, 6_000_000, 1)]);
        second.slot.causes[CAUSE_WORK].total_ns = 1_000_000;
        second.slot.causes[CAUSE_LOCAL_TIMER].max_ns = 6_000_000;
        let core = ledger(&first, &second, &Counters::default(), &[]);
        assert_eq!((core.fault(), core.lost[0].total_ns, core.lost[0].max_ns), (None, 1_000_000, 1_000_000));
        let gap = Hidden { cause: Some(Cause::new(CauseKind::Smi, "")), duration_ns: 90, while_idle: false };
        let short = snapshot(40, 40, CAUSE_WORK, &[(CAUSE_WORK, 40, 0)]);
        let core = ledger(&snapshot(0, 0, CAUSE_WORK, &[]), &short, &Counters::default(), &[gap.clone(), gap]);
        assert_eq!((core.lost[0].count, core.lost[0].total_ns, core.lost[0].max_ns), (1, 40, 40));
    }

    #[test]
    fn microseconds_are_balanced_and_counted_and_more_is_a_fault() {
        let first = snapshot(0, 0, CAUSE_WORK, &[]);
        let of_work_ns = |work_ns: u64| {
            let second = snapshot(1_000_000, 1_000_000, CAUSE_IDLE, &[(CAUSE_WORK, work_ns, 0)]);
            core_ledger(CpuId(0), (&first, &second), &Counters::default(), &[], name, |_| Histogram::default())
        };
        for (work_ns, balanced_ns) in [(1_000_000, 0), (1_070_000, 70_000), (930_000, 70_000)] {
            let (core, adjusted) = of_work_ns(work_ns);
            assert_eq!((core.fault(), adjusted.balanced_ns), (None, balanced_ns), "{core:?}");
        }
        for work_ns in [1_001_000_000, 1_200_000, 800_000, 0] {
            let (core, adjusted) = of_work_ns(work_ns);
            let fault = LedgerFault::Sum { parts_ns: work_ns, wall_ns: 1_000_000 };
            assert_eq!((core.fault(), adjusted.balanced_ns), (Some(fault), 0), "{core:?}");
        }
    }

    #[test]
    fn programs_that_read_another_clock_make_a_fault() {
        // In a time namespace ours is 1,000 s ahead of theirs, which began at ours: no event is later than that.
        let begun_ns = 1_000_000_000_000;
        let at = |ms: u64, turns| {
            let mut snapshot = snapshot(begun_ns + ms * 1_000_000, begun_ns, CAUSE_IDLE, &[]);
            snapshot.slot.tape_turns = turns;
            snapshot
        };
        let idle = Counters { idle_ns: 1_000_000_000, ..Counters::default() };
        let core = ledger(&at(0, 50), &at(1_000, 9_000), &idle, &[]);
        assert_eq!(core.fault(), Some(LedgerFault::Sum { parts_ns: 0, wall_ns: 1_000_000_000 }));
        // A core that slept through its window has seen nothing.
        assert_eq!(ledger(&at(0, 50), &at(1_000, 50), &idle, &[]).fault(), None);
        // Ours is 1,000 s behind: their last event is in what is our future.
        let behind = snapshot(500, begun_ns, CAUSE_WORK, &[(CAUSE_UNKNOWN, begun_ns, 0)]);
        let core = ledger(&snapshot(0, 0, CAUSE_UNKNOWN, &[]), &behind, &idle, &[]);
        assert_eq!(core.fault(), Some(LedgerFault::Sum { parts_ns: begun_ns, wall_ns: 500 }));
    }

    #[test]
    fn what_a_task_took_in_an_earlier_window_stays_the_work_that_it_was_told_as() {
        // Another task ran for 900; at the start of the next window the workload gets the core and has waited for it.
        let first = snapshot(1_000, 1_000, CAUSE_WORK, &[(CAUSE_WORK, 1_000, 0)]);
        let mut second = snapshot(1_300, 1_300, CAUSE_WORK, &[(CAUSE_WORK, 350, 0), (CAUSE_OTHER_TASK, 950, 1)]);
        second.slot.causes[CAUSE_OTHER_TASK].taken_ns = 950;
        second.slot.causes[CAUSE_OTHER_TASK].max_ns = 950;
        let (core, adjusted) = core_ledger(
            CpuId(0),
            (&first, &second),
            &Counters { user: 1, ..Counters::default() },
            &[],
            |_, _| Cause::new(CauseKind::Preemption, "other"),
            |_| Histogram(vec![(Histogram::bucket(950) as u8, 1)]),
        );
        assert_eq!((core.fault(), core.wall_ns, core.lost_ns(), core.user_ns), (None, 300, 300, 0));
        assert_eq!((core.lost[0].max_ns, adjusted), (300, Adjusted { balanced_ns: 0, known_late_ns: 650 }));
        assert!(core.lost[0].quantile_ns(0.5) <= Some(300), "{core:?}");
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

    /// Two windows of 10 ms of a core that sees these events.
    fn two_windows(events: &[(u64, Event)]) -> [(CoreLedger, Adjusted); 2] {
        let mut core = ModelCore::default();
        let edges_ms = [0, 10, 20].map(|ms| ms * 1_000_000);
        let mut events = events.iter().peekable();
        let snapshots = edges_ms.map(|edge_ns| {
            while let Some((at_us, event)) = events.next_if(|(at_us, _)| at_us * 1_000 <= edge_ns) {
                core.see(at_us * 1_000, event.clone());
            }
            core.snapshot(edge_ns)
        });
        let name = |number: usize, totals: &CauseTotals| match number {
            CAUSE_CONSOLE => Cause::new(CauseKind::Console, "messages"),
            CAUSE_OTHER_NMI => Cause::new(CauseKind::Nmi, "others"),
            _ => name(number, totals),
        };
        let of = |earlier: usize| {
            let pair = (&snapshots[earlier], &snapshots[earlier + 1]);
            core_ledger(CpuId(0), pair, &Counters::default(), &[], name, |_| Histogram::default())
        };
        [of(0), of(1)]
    }

    fn base(cause: usize) -> Event {
        Event::Switch { cause, kept_waiting_by: 0, behind: false }
    }

    #[test]
    fn a_message_that_is_printed_across_the_end_of_a_window_costs_the_next_one_its_part_alone() {
        // 7 ms, of which 4 lie before the end: of an idle core, of one in an interrupt, and of a task that then sleeps.
        let idle = [(1, base(CAUSE_IDLE)), (6_000, Event::Message { prints: true }), (13_000, base(CAUSE_WORK))];
        let message = (6_000, Event::Message { prints: true });
        let interrupt =
            [(1, base(CAUSE_IDLE)), (5_900, Event::Enter(CAUSE_LOCAL_TIMER)), message.clone(), (13_000, Event::Leave)];
        let task = [(1, base(CAUSE_WORK)), message, (13_000, base(CAUSE_IDLE))];
        for (events, while_idle_ns) in [(&idle[..], 3_000_000), (&interrupt, 3_000_000), (&task, 0)] {
            let [(first, _), (second, adjusted)] = two_windows(events);
            assert_eq!((first.fault(), second.fault()), (None, None), "{events:?}: {second:?}");
            let printed = second.lost.iter().find(|lost| lost.cause.kind == CauseKind::Console).unwrap();
            assert_eq!(
                (printed.total_ns, printed.max_ns, printed.while_idle_ns),
                (3_000_000, 3_000_000, while_idle_ns)
            );
            assert_eq!(adjusted, Adjusted { balanced_ns: 0, known_late_ns: 4_000_000 }, "{events:?}");
        }
        // Half of the 4 ms before the end, and of the 4 after it, was an NMI's.
        let nmi = [
            (1, base(CAUSE_IDLE)),
            (6_000, Event::Enter(CAUSE_LOCAL_TIMER)),
            (14_000, Event::Nmi(192)),
            (14_000, Event::Leave),
        ];
        let [_, (second, adjusted)] = two_windows(&nmi);
        assert_eq!((second.fault(), adjusted.known_late_ns), (None, 2_000_000), "{second:?}");
    }

    #[test]
    fn a_core_whose_first_event_comes_in_its_second_window_has_its_time_once() {
        for cause in [CAUSE_IDLE, CAUSE_LOCAL_TIMER] {
            let event = if cause == CAUSE_IDLE { Event::Enter(CAUSE_LOCAL_TIMER) } else { base(CAUSE_IDLE) };
            let [(first, _), (second, adjusted)] = two_windows(&[(15_000, event)]);
            assert_eq!((first.fault(), second.fault(), adjusted), (None, None, Adjusted::default()), "{second:?}");
        }
    }

    proptest! {
        /// Whatever the programs do, counters and gaps claim, and wherever the windows end, each window can be true.
        #[test]
        fn every_window_of_a_core_can_be_true(
            steps in prop::collection::vec((1u64..50_000_000, any_event(), any::<bool>()), 1..60),
            user in 0u64..100, system in 0u64..100, idle_ns in 0u64..500_000_000, steal_ns in 0u64..500_000_000,
            hidden in prop::collection::vec((any::<bool>(), 0u64..200_000_000, any::<bool>()), 0..8),
        ) {
            let named = |named: bool| named.then(|| Cause::new(CauseKind::Hypervisor, "x"));
            let hidden: Vec<Hidden> = hidden.into_iter()
                .map(|(is_named, duration_ns, while_idle)| Hidden { cause: named(is_named), duration_ns, while_idle })
                .collect();
            let counters = Counters { user, system, idle_ns, steal_ns };
            let name = |number: usize, _: &CauseTotals| match number {
                CAUSE_OTHER_TASK => Cause::new(CauseKind::Preemption, "task"),
                CAUSE_OTHER_NMI => Cause::new(CauseKind::Nmi, "others"),
                CAUSE_CONSOLE => Cause::new(CauseKind::Console, "messages"),
                _ => Cause::new(CauseKind::Timer, number.to_string()),
            };
            let mut core = ModelCore::default();
            let mut earlier = core.snapshot(0);
            let mut before = core.durations.clone();
            let mut now_ns = 0;
            for (length_ns, event, ends_window) in steps {
                now_ns += length_ns;
                core.see(now_ns, event);
                if !ends_window {
                    continue;
                }
                let later = core.snapshot(now_ns + length_ns / 2);
                now_ns = later.at_ns;
                let durations = |number: usize| {
                    let (was, is) = (&earlier.slot.causes[number], &later.slot.causes[number]);
                    let total_ns = is.total_ns.saturating_sub(was.total_ns);
                    durations::rise(&core.durations[number], &mut before[number], is.count - was.count, total_ns)
                };
                let (ledger, adjusted) =
                    core_ledger(CpuId(0), (&earlier, &later), &counters, &hidden, name, durations);
                prop_assert_eq!(ledger.fault(), None, "{:?}", ledger);
                prop_assert_eq!((ledger.wall_ns, adjusted.balanced_ns), (later.at_ns - earlier.at_ns, 0));
                for mut lost in ledger.lost {
                    prop_assert!(lost.while_idle_ns <= lost.total_ns, "{:?}", lost);
                    prop_assert!(!lost.cap(), "{:?}", lost);
                    let quantile = |share| lost.quantile_ns(share).unwrap_or(0);
                    prop_assert!(quantile(0.5) <= quantile(0.99) && quantile(0.99) <= lost.max_ns, "{:?}", lost);
                }
                earlier = later;
            }
        }
    }
}
