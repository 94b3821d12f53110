//! The ledger where eBPF is not allowed: from the kernel's own counters, which know less.
//!
//! /proc/stat says how many ticks each core spent on what, sampled at the tick; /proc/interrupts says how often each
//! interrupt came, not how long it took. So hard interrupts and softirqs appear as sums, everything that the counters
//! do not name stays unexplained, and each row of /proc/interrupts is listed as counted but untimed.

use std::collections::BTreeMap;
use surefoot_hostfs::interrupts::Interrupts;
use surefoot_hostfs::stat::{Stat, Ticks};
use surefoot_model::{Cause, CauseKind, CoreLedger, CpuId, Lost, Untimed};

/// The ledger of a core between two readings of its ticks.
///
/// The counters have steps of a tick, so their sum can exceed the wall time; then the largest part gives way.
pub fn core_ledger(cpu: CpuId, wall_ns: u64, rise: &Ticks, ns_per_tick: u64) -> CoreLedger {
    let ns = |ticks: u64| ticks.saturating_mul(ns_per_tick);
    let mut parts = [
        ns(rise.idle + rise.iowait),
        ns(rise.user + rise.nice),
        ns(rise.system),
        ns(rise.irq),
        ns(rise.softirq),
        ns(rise.steal),
    ];
    let mut excess_ns = parts.iter().sum::<u64>().saturating_sub(wall_ns);
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
        (CauseKind::Host, "steal", parts[5]),
    ];
    let mut lost: Vec<Lost> = named
        .into_iter()
        .filter(|(.., total_ns)| *total_ns > 0)
        .map(|(kind, name, total_ns)| Lost::new(Cause::new(kind, name), 0, total_ns, 0))
        .collect();
    lost.sort_by_key(|lost| std::cmp::Reverse(lost.total_ns));
    CoreLedger {
        cpu,
        wall_ns,
        idle_ns: parts[0],
        user_ns: parts[1],
        kernel_ns: parts[2],
        lost,
        unexplained_ns: wall_ns - parts.iter().sum::<u64>(),
    }
}

/// Every interrupt that came, as counted but untimed.
pub fn untimed(rise: &Interrupts, cpus: &[CpuId]) -> Vec<Untimed> {
    let mut rows = Vec::new();
    for row in rise.rows.iter().filter(|row| !matches!(row.label.as_str(), "ERR" | "MIS" | "TLB")) {
        for &cpu in cpus {
            let count = rise.count(&row.label, cpu).unwrap_or(0);
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
        let core = core_ledger(CpuId(2), 1_000_000_000, &rise, 10_000_000);
        assert!(core.sums_up());
        assert_eq!((core.idle_ns, core.user_ns, core.kernel_ns), (420_000_000, 350_000_000, 100_000_000));
        assert_eq!((core.lost_ns(), core.unexplained_ns), (70_000_000, 60_000_000));
        assert_eq!(core.lost[0].cause.kind, CauseKind::Host);
    }

    proptest! {
        #[test]
        fn the_parts_add_up(wall_ns in 0u64..3_000_000_000, parts in prop::collection::vec(0u64..400, 8)) {
            let rise = Ticks {
                user: parts[0], nice: parts[1], system: parts[2], idle: parts[3],
                iowait: parts[4], irq: parts[5], softirq: parts[6], steal: parts[7], ..Ticks::default()
            };
            prop_assert!(core_ledger(CpuId(0), wall_ns, &rise, 10_000_000).sums_up());
        }
    }
}
