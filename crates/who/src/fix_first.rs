//! What to fix first: the causes of a report with their remedies, by what each would bring. Pure.
//!
//! Time that passed while a core was idle was lost to nobody and does not count. Where the cost of entry and exit is
//! known it counts with the time inside, because the work that was interrupted loses both.

use crate::advice::OTHER_TASK;
use std::collections::HashMap;
use surefoot_model::{Advice, Cause, CauseKind, Fix, Interrupt, WhoReport};

/// Rows that are listed.
const ROWS: usize = 8;

/// What takes a smaller share is not worth a row, millionths.
const LEAST_SHARE_PPM: u64 = 5_000;

/// The interrupt that carries called functions has no remedy of its own where those are told.
const CARRIER: &str = Cause::INTERRUPT_ITSELF;

/// What work lost to an interrupt, entry and exit included; nanoseconds.
fn cost_ns(interrupt: &Interrupt) -> u64 {
    let busy = |ns: u64| match interrupt.total_ns {
        0 => ns,
        total => (u128::from(ns) * u128::from(interrupt.taken_ns()) / u128::from(total)) as u64,
    };
    interrupt.taken_ns().saturating_add(busy(interrupt.entry_exit_ns.unwrap_or(0)))
}

/// Ranks what a report advises, and the largest causes that no rule fits.
pub fn rank(report: &WhoReport) -> Vec<Fix> {
    let all_ns: u64 = report.interrupts.iter().fold(0, |sum, interrupt| sum.saturating_add(cost_ns(interrupt)));
    let has_functions = |interrupt: &Interrupt| {
        report.interrupts.iter().any(|other| {
            other.cpu == interrupt.cpu
                && (other.cause.kind == CauseKind::TlbShootdown
                    || other.cause.kind == CauseKind::CallFunction && other.cause.name != CARRIER)
        })
    };
    let mut rows: Vec<Fix> = Vec::new();
    let mut places: HashMap<(String, String), usize> = HashMap::new();
    let mut largest_ns: Vec<u64> = Vec::new();
    // Of each row the names of its causes; more than one only where a rule ends all of them.
    let mut names: Vec<Vec<&str>> = Vec::new();
    for interrupt in &report.interrupts {
        let cost = cost_ns(interrupt);
        if cost == 0 || interrupt.cause.name == CARRIER && has_functions(interrupt) {
            continue;
        }
        let nothing = Advice { share_ppm: 1_000_000, count: interrupt.count, ..Advice::default() };
        let without_rule = [nothing];
        let advice = if interrupt.advice.is_empty() { &without_rule[..] } else { &interrupt.advice };
        for advice in advice {
            let part = |whole: u64| (u128::from(whole) * u128::from(advice.share_ppm) / 1_000_000) as u64;
            // The count that the evidence gives; a report of an earlier release gives the share alone.
            let count = if advice.count == 0 { part(interrupt.count) } else { advice.count.min(interrupt.count) };
            let part_ns = part(cost);
            // What keeps one task off the core keeps all off.
            let what = if advice.rule == OTHER_TASK { String::new() } else { interrupt.cause.to_string() };
            let key = (what, advice.rule.clone());
            let Some(&place) = places.get(&key) else {
                places.insert(key, rows.len());
                largest_ns.push(part_ns);
                rows.push(fix(report, interrupt, advice, (part_ns, count)));
                names.push(vec![interrupt.cause.name.as_str()]);
                continue;
            };
            // The same on another core: one row, which speaks of the core where it costs most.
            let row = &mut rows[place];
            if !names[place].contains(&interrupt.cause.name.as_str()) {
                names[place].push(&interrupt.cause.name);
            }
            let sums = (row.total_ns.saturating_add(part_ns), row.count.saturating_add(count));
            if part_ns > largest_ns[place] {
                largest_ns[place] = part_ns;
                let mut cpus = std::mem::take(&mut row.cpus);
                cpus.retain(|cpu| *cpu != interrupt.cpu);
                cpus.insert(0, interrupt.cpu);
                *row = Fix { cpus, ..fix(report, interrupt, advice, (part_ns, count)) };
            } else if !row.cpus.contains(&interrupt.cpu) {
                row.cpus.push(interrupt.cpu);
            }
            (row.total_ns, row.count) = sums;
        }
    }
    for (row, names) in rows.iter_mut().zip(&names) {
        if names.len() > 1 {
            row.cause.name += &format!(" and {} more", names.len() - 1);
            let per_s = row.count as f64 * 1e9 / report.duration_ns().max(1) as f64;
            row.expect = format!("{per_s:.1} runs of them per second now, 0.0 without them");
        }
        row.share_of_lost_ppm = (u128::from(row.total_ns) * 1_000_000 / u128::from(all_ns.max(1))) as u64;
        row.verify = verify(report, row);
    }
    rows.retain(|row| row.share_of_lost_ppm >= LEAST_SHARE_PPM);
    // What nothing on this kernel ends is not what to fix first.
    rows.sort_by_key(|row| (row.rule == Fix::NEEDS_ANOTHER_KERNEL, std::cmp::Reverse(row.total_ns)));
    rows.truncate(ROWS);
    rows
}

fn fix(report: &WhoReport, interrupt: &Interrupt, advice: &Advice, (total_ns, count): (u64, u64)) -> Fix {
    let per_s = |count: u64| count as f64 * 1e9 / report.duration_ns().max(1) as f64;
    let rest = interrupt.count.saturating_sub(count);
    Fix {
        cpus: vec![interrupt.cpu],
        cause: interrupt.cause.clone(),
        total_ns,
        share_of_lost_ppm: 0,
        count,
        rule: advice.rule.clone(),
        evidence: advice.evidence.clone(),
        remedy: advice.remedy.clone(),
        source: advice.source.clone(),
        verify: String::new(),
        expect: format!(
            "{} on core {}: {:.1} per second now, {:.1} without this",
            interrupt.cause,
            interrupt.cpu,
            per_s(interrupt.count),
            per_s(rest)
        ),
    }
}

/// The command that watches the same cores again, as long if that is not too long.
fn verify(report: &WhoReport, row: &Fix) -> String {
    let seconds = (report.duration_ns() as f64 / 1e9).round().clamp(1.0, 60.0);
    let mut cpus = row.cpus.clone();
    cpus.sort_unstable();
    let list = surefoot_hostfs::cpus::format_list(&cpus);
    // After the change the process is another one.
    let pid = if report.workload_pid.is_some() { " --pid PID" } else { "" };
    format!("surefoot stall who --cpu {list}{pid} --duration {seconds}s --compare BEFORE.surefoot")
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::CpuId;

    fn interrupt(cpu: u32, kind: CauseKind, name: &str, total_ns: u64, advice: &[(&str, u64)]) -> Interrupt {
        Interrupt {
            advice: advice
                .iter()
                .map(|&(rule, share_ppm)| Advice {
                    rule: rule.into(),
                    remedy: format!("do {rule}"),
                    share_ppm,
                    ..Advice::default()
                })
                .collect(),
            ..Interrupt::new(CpuId(cpu), Cause::new(kind, name), 100, total_ns)
        }
    }

    fn report(interrupts: Vec<Interrupt>) -> WhoReport {
        WhoReport { start_ns: 0, end_ns: 10_000_000_000, interrupts, ..WhoReport::default() }
    }

    #[test]
    fn what_costs_work_most_stands_first_with_entry_and_exit_and_without_idle_time() {
        use CauseKind::*;
        let mut shootdown = interrupt(1, TlbShootdown, "flush_tlb_func", 100, &[("unmap", 900_000), ("fork", 100_000)]);
        shootdown.entry_exit_ns = Some(900);
        let carrier = interrupt(1, CallFunction, CARRIER, 500, &[]);
        let mut daemon = interrupt(1, KernelThread, "kdamond.0", 10_000, &[("damon", 1_000_000)]);
        daemon.while_idle_ns = 9_700;
        let unknown = interrupt(1, Softirq, "RCU", 200, &[]);
        let ranked = rank(&report(vec![daemon, carrier, shootdown, unknown]));
        let told: Vec<(String, &str, u64)> =
            ranked.iter().map(|row| (row.cause.to_string(), row.rule.as_str(), row.total_ns)).collect();
        assert_eq!(
            told,
            [
                ("TLB shootdown flush_tlb_func".into(), "unmap", 900),
                ("kernel thread kdamond.0".into(), "damon", 300),
                ("softirq RCU".into(), "", 200),
                ("TLB shootdown flush_tlb_func".into(), "fork", 100),
            ]
        );
        // The carrier's time is lost as well, so the shares are of 2,000 ns.
        assert_eq!(ranked[0].share_of_lost_ppm, 450_000);
        assert_eq!(ranked[0].verify, "surefoot stall who --cpu 1 --duration 10s --compare BEFORE.surefoot");
        assert_eq!(ranked[0].expect, "TLB shootdown flush_tlb_func on core 1: 10.0 per second now, 1.0 without this");
    }

    /// Not all raisers are seen: the share is of the arrivals whose raiser is known or known to be missing.
    #[test]
    fn the_count_is_the_one_that_the_evidence_gives() {
        let mut timer = interrupt(1, CauseKind::Timer, "local_timer", 1_000, &[("hrtimer", 320_000)]);
        timer.advice[0].count = 35;
        let ranked = rank(&report(vec![timer]));
        assert_eq!((ranked[0].count, ranked[0].total_ns), (35, 320));
        assert_eq!(ranked[0].expect, "timer local_timer on core 1: 10.0 per second now, 6.5 without this");
    }

    #[test]
    fn the_same_cause_on_several_cores_is_one_row_that_speaks_of_the_costliest() {
        let of = |cpu, ns| interrupt(cpu, CauseKind::Timer, "local_timer", ns, &[("tick", 1_000_000)]);
        let ranked = rank(&report(vec![of(1, 100), of(3, 300), of(2, 200)]));
        assert_eq!(ranked.len(), 1);
        assert_eq!((ranked[0].total_ns, ranked[0].count, ranked[0].share_of_lost_ppm), (600, 300, 1_000_000));
        assert_eq!(ranked[0].cpus, [CpuId(3), CpuId(1), CpuId(2)]);
        assert!(ranked[0].expect.contains("on core 3") && ranked[0].verify.contains("--cpu 1-3 "), "{ranked:?}");
    }

    #[test]
    fn what_needs_another_kernel_comes_last_whatever_it_costs() {
        let tick = interrupt(1, CauseKind::Timer, "local_timer", 900, &[(Fix::NEEDS_ANOTHER_KERNEL, 1_000_000)]);
        let line = interrupt(1, CauseKind::DeviceInterrupt, "eth0", 100, &[("line", 1_000_000)]);
        let ranked = rank(&report(vec![tick, line]));
        let told: Vec<(&str, u64)> = ranked.iter().map(|row| (row.rule.as_str(), row.share_of_lost_ppm)).collect();
        assert_eq!(told, [("line", 100_000), (Fix::NEEDS_ANOTHER_KERNEL, 900_000)]);
    }

    #[test]
    fn all_tasks_that_one_remedy_keeps_off_are_one_row() {
        let of = |name, ns| interrupt(1, CauseKind::Preemption, name, ns, &[(OTHER_TASK, 1_000_000)]);
        let timer = interrupt(1, CauseKind::Timer, "local_timer", 250, &[("tick", 1_000_000)]);
        let ranked = rank(&report(vec![of("rustc", 100), timer, of("node", 200), of("sh", 50)]));
        let told: Vec<(String, u64)> = ranked.iter().map(|row| (row.cause.to_string(), row.total_ns)).collect();
        assert_eq!(told, [("preemption node and 2 more".into(), 350), ("timer local_timer".into(), 250)]);
        assert_eq!((ranked[0].cpus.as_slice(), ranked[0].count), (&[CpuId(1)][..], 300));
        let with_process = WhoReport { workload_pid: Some(7), ..report(vec![of("rustc", 100)]) };
        assert!(rank(&with_process)[0].verify.contains("--cpu 1 --pid PID "));
        assert_eq!(ranked[0].expect, "30.0 runs of them per second now, 0.0 without them");
    }

    #[test]
    fn what_is_small_is_left_out_and_nothing_is_an_empty_list() {
        let many: Vec<Interrupt> = (0..20u64)
            .map(|number| {
                let rule = format!("rule-{number}");
                interrupt(1, CauseKind::CallFunction, &format!("f{number}"), 1_000_000 >> number, &[(&rule, 1_000_000)])
            })
            .collect();
        let ranked = rank(&report(many));
        assert_eq!(ranked.len(), 7, "the eighth has less than half a percent: {ranked:#?}");
        let alike = |number| interrupt(1, CauseKind::CallFunction, &format!("f{number}"), 1, &[("rule", 1_000_000)]);
        assert_eq!(rank(&report((0..20).map(alike).collect())).len(), ROWS);
        assert!(ranked.iter().all(|row| row.share_of_lost_ppm >= LEAST_SHARE_PPM));
        assert_eq!(rank(&report(Vec::new())), []);
    }
}
