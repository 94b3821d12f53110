//! Two reports of the same cores, before and after a change. Pure.

use std::collections::BTreeMap;
use surefoot_model::{Cause, Change, Comparison, CpuId, Interrupt, LossRate, WhoReport};

/// A watch that is shorter says little about what comes a few times a second, nanoseconds.
const SHORT_NS: u64 = 1_000_000_000;

/// Of two watches one so many times longer than the other sees rarer things.
const LONGER: u64 = 10;

/// Busy shares of a core that differ by more than this are another load, in percent of the time.
const BUSY_PERCENT: u64 = 20;

/// What a change brought. Only cores that both reports watched are compared.
pub fn compare(before: &WhoReport, after: &WhoReport) -> Comparison {
    let (cpus_before, cpus_after) = (cpus(before), cpus(after));
    let both: Vec<CpuId> = cpus_before.iter().copied().filter(|cpu| cpus_after.contains(cpu)).collect();
    let mut changes: BTreeMap<(CpuId, Cause), Change> = BTreeMap::new();
    let of = |interrupt: &Interrupt, change: &mut BTreeMap<(CpuId, Cause), Change>, rate: LossRate, is_after: bool| {
        let key = (interrupt.cpu, interrupt.cause.clone());
        let change = change.entry(key).or_insert_with(|| Change {
            cpu: interrupt.cpu,
            cause: interrupt.cause.clone(),
            before: LossRate::default(),
            after: LossRate::default(),
        });
        add(if is_after { &mut change.after } else { &mut change.before }, rate);
    };
    let (mut sum_before, mut sum_after) = (LossRate::default(), LossRate::default());
    for (report, sum, is_after) in [(before, &mut sum_before, false), (after, &mut sum_after, true)] {
        for interrupt in report.interrupts.iter().filter(|interrupt| both.contains(&interrupt.cpu)) {
            let rate = rate(interrupt, report.duration_ns());
            add(sum, rate);
            of(interrupt, &mut changes, rate, is_after);
        }
    }
    let mut changes: Vec<Change> = changes.into_values().collect();
    let weight = |change: &Change| {
        let lost = (change.after.lost_ns_per_s - change.before.lost_ns_per_s).abs();
        (lost, (change.after.count_per_s - change.before.count_per_s).abs())
    };
    changes.sort_by(|a, b| {
        let ((a_lost, a_count), (b_lost, b_count)) = (weight(a), weight(b));
        b_lost.total_cmp(&a_lost).then_with(|| b_count.total_cmp(&a_count))
    });
    let mut cautions = cautions(before, after, &both);
    if both.is_empty() {
        cautions.insert(0, "no core was watched both times, so nothing is compared".into());
    }
    Comparison {
        before_ns: before.duration_ns(),
        after_ns: after.duration_ns(),
        is_comparable: cautions.is_empty(),
        cautions,
        before: sum_before,
        after: sum_after,
        changes,
    }
}

fn cpus(report: &WhoReport) -> Vec<CpuId> {
    let listed = report.cores.iter().map(|core| core.cpu);
    // Recordings of earlier releases list only the cores that something arrived on.
    let mut cpus: Vec<CpuId> = listed.chain(report.interrupts.iter().map(|interrupt| interrupt.cpu)).collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

fn rate(interrupt: &Interrupt, duration_ns: u64) -> LossRate {
    let seconds = duration_ns.max(1) as f64 / 1e9;
    LossRate { count_per_s: interrupt.count as f64 / seconds, lost_ns_per_s: interrupt.taken_ns() as f64 / seconds }
}

fn add(sum: &mut LossRate, more: LossRate) {
    sum.count_per_s += more.count_per_s;
    sum.lost_ns_per_s += more.lost_ns_per_s;
}

fn cautions(before: &WhoReport, after: &WhoReport, both: &[CpuId]) -> Vec<String> {
    let mut cautions = Vec::new();
    let (was_ns, is_ns) = (before.duration_ns(), after.duration_ns());
    if was_ns.min(is_ns) < SHORT_NS {
        cautions.push("one of the watches was shorter than a second: what is rare may be there by chance".into());
    }
    if was_ns.max(is_ns) / was_ns.min(is_ns).max(1) >= LONGER {
        cautions
            .push("one watch was ten times as long as the other: what is rare is seen in the longer one only".into());
    }
    if before.workload_pid.is_some() != after.workload_pid.is_some() {
        cautions.push(
            "only one of them had --pid, which decides whose preemption counts: time that other tasks took differs"
                .into(),
        );
    }
    for (report, which) in [(before, "before"), (after, "now")] {
        let only = cpus(report).into_iter().filter(|cpu| !both.contains(cpu)).collect::<Vec<_>>();
        if !only.is_empty() {
            let list = surefoot_hostfs::cpus::format_list(&only);
            cautions.push(match only.len() {
                1 => format!("core {list} was watched only {which} and is left out"),
                _ => format!("cores {list} were watched only {which} and are left out"),
            });
        }
        let lost = report.records_dropped.saturating_add(report.marks_lost);
        if lost > 0 {
            cautions.push(format!("{lost} records were lost {which}, so raisers are missing there"));
        }
    }
    for &cpu in both {
        let busy = |report: &WhoReport| {
            let core = report.cores.iter().find(|core| core.cpu == cpu && core.wall_ns > 0)?;
            Some(core.wall_ns.saturating_sub(core.idle_ns).saturating_mul(100) / core.wall_ns)
        };
        if let (Some(was), Some(is)) = (busy(before), busy(after))
            && was.abs_diff(is) > BUSY_PERCENT
        {
            cautions.push(format!(
                "core {cpu} was busy {was} % of the time before and {is} % now: the load is another one"
            ));
        }
    }
    cautions
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::{CauseKind, WhoCore};

    fn report(seconds: u64, cpu: u32, busy_percent: u64, rows: &[(CauseKind, u64, u64)]) -> WhoReport {
        let second_ns = 1_000_000_000;
        let interrupts = rows
            .iter()
            .map(|&(kind, count, total_ns)| Interrupt::new(CpuId(cpu), Cause::new(kind, "x"), count, total_ns));
        WhoReport {
            start_ns: 5,
            end_ns: 5 + seconds * second_ns,
            cores: vec![WhoCore {
                cpu: CpuId(cpu),
                wall_ns: seconds * second_ns,
                idle_ns: seconds * second_ns / 100 * (100 - busy_percent),
                lost_ns: 0,
            }],
            interrupts: interrupts.collect(),
            ..WhoReport::default()
        }
    }

    #[test]
    fn watches_of_different_length_are_compared_per_second_and_what_is_new_or_gone_is_there() {
        use CauseKind::*;
        let before = report(10, 1, 99, &[(TlbShootdown, 7_750, 15_000_000), (Timer, 2_500, 5_000_000)]);
        let after = report(5, 1, 98, &[(Timer, 1_250, 2_500_000), (Reschedule, 10, 50_000)]);
        let found = compare(&before, &after);
        assert!(found.is_comparable, "{:?}", found.cautions);
        let told: Vec<(CauseKind, f64, f64)> = found
            .changes
            .iter()
            .map(|change| (change.cause.kind, change.before.count_per_s, change.after.count_per_s))
            .collect();
        assert_eq!(told, [(TlbShootdown, 775.0, 0.0), (Reschedule, 0.0, 2.0), (Timer, 250.0, 250.0)]);
        assert_eq!((found.before.lost_ns_per_s, found.after.lost_ns_per_s), (2_000_000.0, 510_000.0));
    }

    #[test]
    fn what_speaks_against_a_comparison_is_said() {
        let rows = [(CauseKind::Timer, 1, 1)];
        let before = report(20, 1, 100, &rows);
        assert!(compare(&before, &report(20, 1, 100, &rows)).is_comparable);
        let says = |after: &WhoReport, word: &str| {
            let found = compare(&before, after);
            assert!(!found.is_comparable && found.cautions.iter().any(|text| text.contains(word)), "{found:?}");
        };
        says(&report(1, 1, 100, &rows), "ten times as long");
        says(&report(20, 1, 30, &rows), "busy 100 % of the time before and 30 % now");
        says(&report(20, 2, 100, &rows), "no core was watched both times");
        says(&WhoReport { marks_lost: 3, ..report(20, 1, 100, &rows) }, "3 records were lost now");
        says(&WhoReport { workload_pid: Some(3), ..report(20, 1, 100, &rows) }, "--pid");
        let mut short = report(20, 1, 100, &rows);
        short.end_ns = short.start_ns + 500_000_000;
        says(&short, "shorter than a second");
    }

    #[test]
    fn an_empty_report_divides_by_nothing() {
        let found = compare(&WhoReport::default(), &WhoReport::default());
        assert!(found.changes.is_empty() && !found.is_comparable);
    }
}
