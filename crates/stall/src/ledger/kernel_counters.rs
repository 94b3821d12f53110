//! The ledger where eBPF is not allowed: from the kernel's own counters, which know less.
//!
//! /proc/stat says how many ticks each core spent on what, sampled at the tick; /proc/interrupts says how often each
//! interrupt came, not how long it took. So hard interrupts and softirqs appear as sums, everything that the counters
//! do not name stays unexplained, and each row of /proc/interrupts is listed as counted but untimed.

use std::collections::BTreeMap;
use surefoot_hostfs::interrupts::{Interrupts, counts_interrupts};
use surefoot_hostfs::stat::{Stat, Ticks};
use surefoot_model::{Cause, CauseKind, CoreLedger, CpuId, Lost, Untimed};

/// Counters of a core that are read: each may lag by a step.
const PARTS: usize = 6;

/// The kernel measures idle and stolen time by clocks, and the rest by its tick, which is no exact part of a second: over a window
/// they may differ from the wall time by this part of it.
const CLOCKS_DIFFER_PART: u64 = 100;

/// How far the ticks of each core lag behind its wall time, since the watch began; nanoseconds.
#[derive(Debug, Default)]
pub struct Lag(BTreeMap<CpuId, i64>);

impl Lag {
    /// A core that goes offline or comes back starts anew.
    pub fn forget(&mut self, cpu: CpuId) {
        self.0.remove(&cpu);
    }

    /// Of a window, `None` where the ticks show more time than steps, [`CLOCKS_DIFFER_PART`] and these `excused_ns` can explain.
    fn of_window(
        &mut self,
        cpu: CpuId,
        wall_ns: u64,
        shown_ns: u64,
        excused_ns: u64,
        ns_per_tick: u64,
    ) -> Option<Differ> {
        let steps_ns = i128::from(ns_per_tick) * PARTS as i128;
        let lag_ns = self.0.entry(cpu).or_default();
        let now_ns = i128::from(*lag_ns) + i128::from(wall_ns) - i128::from(shown_ns);
        let missing_ns = u64::try_from(now_ns - steps_ns).unwrap_or(0).min(wall_ns);
        let rest_ns = now_ns - i128::from(missing_ns);
        *lag_ns = i64::try_from(rest_ns.clamp(-steps_ns, steps_ns)).unwrap_or(0);
        // Both the lag of before and that of now are within the steps.
        let ahead_ns = u64::try_from((-rest_ns - steps_ns * 2).max(0)).unwrap_or(u64::MAX);
        let ahead_ns_max = (wall_ns / CLOCKS_DIFFER_PART).saturating_add(excused_ns);
        (ahead_ns <= ahead_ns_max).then_some(Differ { missing_ns, ahead_ns })
    }
}

/// By how much the ticks of a window and its wall time differ, beyond steps; nanoseconds.
struct Differ {
    /// What they will never show.
    missing_ns: u64,
    /// What they show too much.
    ahead_ns: u64,
}

/// The ledger of a core between two readings of its ticks, and how much of it was taken off to make it add up. `unsure_ns` is by
/// how much its wall time may be wrong, because the readings took so long.
///
/// The counters have steps of a tick, so their sum is now above and now below the wall time. Within these steps nothing is
/// lost: the largest part carries the difference. Only what they lag behind by more is unexplained. What they are ahead by is taken
/// off the largest parts: the kernel measures some of them by other clocks, and an idle core's stolen time counts twice. Where
/// that explains it neither, the ledger has a [`CoreLedger::fault`].
pub fn core_ledger(
    cpu: CpuId,
    (wall_ns, unsure_ns): (u64, u64),
    rise: &Ticks,
    ns_per_tick: u64,
    lag: &mut Lag,
) -> (CoreLedger, u64) {
    let ns = |ticks: u64| ticks.saturating_mul(ns_per_tick);
    let mut parts: [u64; PARTS] = [
        ns(rise.idle + rise.iowait),
        ns(rise.user + rise.nice),
        ns(rise.system),
        ns(rise.irq),
        ns(rise.softirq),
        ns(rise.steal),
    ];
    let sum = |parts: &[u64; PARTS]| parts.iter().fold(0u64, |sum, part| sum.saturating_add(*part));
    let differ = lag.of_window(cpu, wall_ns, sum(&parts), ns(rise.steal).saturating_add(unsure_ns), ns_per_tick);
    let (unexplained_ns, balanced_ns) = differ.as_ref().map_or((0, 0), |differ| (differ.missing_ns, differ.ahead_ns));
    // What is ahead by too much stays so.
    let explained_ns = if differ.is_some() { wall_ns - unexplained_ns } else { sum(&parts) };
    let short_ns = explained_ns.saturating_sub(sum(&parts));
    // The first of equals: idle, if nothing was counted at all.
    let largest = (0..PARTS).rev().max_by_key(|&part| parts[part]).unwrap_or(0);
    parts[largest] += short_ns;
    let mut excess_ns = sum(&parts).saturating_sub(explained_ns);
    while excess_ns > 0 {
        let largest = parts.iter_mut().max().filter(|part| **part > 0);
        let Some(largest) = largest else { break };
        let taken_ns = excess_ns.min(*largest);
        *largest -= taken_ns;
        excess_ns -= taken_ns;
    }
    let named = [
        (CauseKind::OtherInterrupt, "not told apart", parts[3]),
        (CauseKind::Softirq, "not told apart", parts[4]),
        (CauseKind::Hypervisor, "steal", parts[5]),
    ];
    let mut lost: Vec<Lost> = named
        .into_iter()
        .filter(|(.., total_ns)| *total_ns > 0)
        .map(|(kind, name, total_ns)| Lost::new(Cause::new(kind, name), 0, total_ns, 0))
        .collect();
    lost.sort_by_key(|lost| std::cmp::Reverse(lost.total_ns));
    let core = CoreLedger {
        cpu,
        wall_ns,
        idle_ns: parts[0],
        user_ns: parts[1],
        kernel_ns: parts[2],
        lost,
        unexplained_ns,
        waiting: None,
    };
    (core, balanced_ns)
}

/// Every interrupt that came, as counted but untimed.
pub fn untimed(rise: &Interrupts, cpus: &[CpuId]) -> Vec<Untimed> {
    let mut rows = Vec::new();
    let columns = rise.columns(cpus.iter().copied());
    for row in rise.rows.iter().filter(|row| counts_interrupts(&row.label)) {
        for (cpu, count) in columns.counts(row) {
            if count > 0 {
                rows.push(Untimed { cpu, row: row.label.clone(), name: row.name.clone(), count });
            }
        }
    }
    rows
}

/// Readings of all cores' ticks, by core.
pub fn by_core(stat: &Stat) -> BTreeMap<CpuId, Ticks> {
    stat.cpus.iter().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use surefoot_model::LedgerFault;

    #[test]
    fn ticks_become_a_ledger_and_the_rest_stays_unexplained() {
        let rise = Ticks {
            user: 30,
            nice: 5,
            system: 10,
            idle: 40,
            iowait: 2,
            irq: 1,
            softirq: 2,
            steal: 4,
            ..Ticks::default()
        };
        let (core, _) = core_ledger(CpuId(2), (1_100_000_000, 0), &rise, 10_000_000, &mut Lag::default());
        assert!(core.sums_up());
        // 160 ms are not counted, of which the steps of six counters explain 60.
        assert_eq!((core.idle_ns, core.user_ns, core.kernel_ns), (480_000_000, 350_000_000, 100_000_000));
        assert_eq!((core.lost_ns(), core.unexplained_ns), (70_000_000, 100_000_000));
        assert_eq!(core.lost[0].cause.kind, CauseKind::Hypervisor);
    }

    #[test]
    fn on_a_quiet_core_nothing_is_lost_to_the_steps_of_the_counters() {
        let mut lag = Lag::default();
        let mut unexplained_ns = |wall_ms: u64, idle_ticks| {
            let rise = Ticks { idle: idle_ticks, ..Ticks::default() };
            let (core, balanced_ns) = core_ledger(CpuId(0), (wall_ms * 1_000_000, 0), &rise, 10_000_000, &mut lag);
            assert_eq!(balanced_ns, 0);
            assert!(core.sums_up(), "{core:?}");
            core.unexplained_ns
        };
        for _ in 0..60 {
            assert_eq!((unexplained_ns(1_003, 99), unexplained_ns(997, 101)), (0, 0));
        }
        // But what goes on to be missing is missing, as in a machine that is paused now and then.
        let missing_ns: u64 = (0..10).map(|_| unexplained_ns(1_030, 100)).sum();
        assert_eq!(missing_ns, 240_000_000, "300 ms, but for 60 that may be steps");
    }

    #[test]
    fn ticks_that_are_ahead_by_more_than_steps_are_a_fault() {
        let ledger = |user| {
            let rise = Ticks { user, ..Ticks::default() };
            core_ledger(CpuId(0), (1_000_000_000, 0), &rise, 10_000_000, &mut Lag::default()).0
        };
        assert!(ledger(106).fault().is_none() && ledger(100).fault().is_none());
        let fault = LedgerFault::Sum { parts_ns: 1_691_000_000, wall_ns: 1_000_000_000 };
        let rise = Ticks { user: 1_691, ..Ticks::default() };
        let (core, _) = core_ledger(CpuId(0), (1_000_000_000, 0), &rise, 1_000_000, &mut Lag::default());
        assert_eq!((core.fault(), ledger(169).fault().is_some()), (Some(fault), true));
    }

    #[test]
    fn ticks_may_be_ahead_by_a_part_of_a_long_window_and_by_stolen_time() {
        let of = |wall_s: u64, rise: Ticks| {
            let (core, balanced_ns) =
                core_ledger(CpuId(0), (wall_s * 1_000_000_000, 0), &rise, 10_000_000, &mut Lag::default());
            (core.fault().is_none(), balanced_ns / 1_000_000)
        };
        let idle = |idle| Ticks { idle, ..Ticks::default() };
        // 120 ms are steps.
        assert_eq!(
            (of(60, idle(6_012)), of(60, idle(6_030)), of(60, idle(6_073))),
            ((true, 0), (true, 180), (false, 0))
        );
        assert_eq!((of(1, idle(113)), of(1, idle(114))), ((true, 10), (false, 0)));
        // Stolen from an idle core.
        assert_eq!(of(1, Ticks { steal: 20, ..idle(98) }), (true, 60));
        assert_eq!(of(1, Ticks { steal: 20, ..idle(120) }), (false, 0));
    }

    #[test]
    fn a_reading_that_took_long_makes_no_fault_of_the_window_before_it_or_after_it() {
        let mut lag = Lag::default();
        let mut of = |wall_ms: u64, unsure_ms: u64| {
            let (wall, rise) = ((wall_ms * 1_000_000, unsure_ms * 1_000_000), Ticks { idle: 100, ..Ticks::default() });
            core_ledger(CpuId(0), wall, &rise, 10_000_000, &mut lag).0.fault().is_none()
        };
        // This process was stopped for 300 ms between the ticks and the clock.
        assert_eq!([of(1_300, 300), of(700, 300), of(1_000, 0)], [true; 3]);
        assert!(!of(700, 0));
    }

    proptest! {
        #[test]
        fn the_parts_add_up_where_the_ticks_can_be_true(wall_ns in 0u64..3_000_000_000, parts in prop::collection::vec(0u64..400, 8)) {
            let rise = Ticks {
                user: parts[0], nice: parts[1], system: parts[2], idle: parts[3],
                iowait: parts[4], irq: parts[5], softirq: parts[6], steal: parts[7], ..Ticks::default()
            };
            let mut lag = Lag::default();
            for _ in 0..3 {
                let (core, _) = core_ledger(CpuId(0), (wall_ns, 0), &rise, 10_000_000, &mut lag);
                let ahead_ns = (parts.iter().sum::<u64>() * 10_000_000).saturating_sub(wall_ns);
                prop_assert!(core.fault().is_none() || ahead_ns > 60_000_000, "{:?}", core);
            }
        }
    }
}
