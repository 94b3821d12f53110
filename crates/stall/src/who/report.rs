//! From what was counted to the report.

use super::lines;
use super::names::hung_count;
use super::watch::Watch;
use crate::collect::cost::read_slots;
use crate::gap::tapes::Traced;
use crate::ledger::names::Names;
use std::time::Duration;
use surefoot_hostfs::interrupts::Interrupts;
use surefoot_model::{Cause, CauseKind, CpuId, Interrupt, Lost, WhoCore, WhoReport};
use surefoot_probes::layout::{CAUSE_FIRST_DYNAMIC, CAUSES, CauseTotals};
use surefoot_probes::{Probes, RaiserCounts, Snapshot};
use surefoot_who::{advice, fix_first};

impl Watch {
    /// What was found from the start to `end_ns`, which is now. Waits up to `patience` for the names of stacks; what
    /// happens meanwhile is no part of it.
    pub(super) fn report(&mut self, traced: &mut Traced, end_ns: u64, patience: Duration) -> WhoReport {
        let slots = read_slots(&traced.probes);
        let counts = counts_since(self.raisers.counts(), self.counts_before);
        let mut report = WhoReport {
            start_ns: self.start_ns,
            end_ns,
            workload_pid: self.workload_pid,
            joined_count: self.joined.0,
            called_count: self.joined.1,
            records: counts.records,
            records_without_stack: counts.without_stack,
            // A run that the kernel skipped would have left one.
            records_dropped: counts.dropped + counts.missed,
            records_unmatched: self.joiner.forgotten() + self.wakeups.forgotten() + self.kept_waiting.forgotten(),
            marks_lost: self.lost_marks,
            cost: self.cost.clone().since(Some((&traced.probes, &slots)), &self.cpus, &self.root),
            missing: self.raisers.missing().to_vec(),
            notices: self.presence.notices(end_ns),
            ..WhoReport::default()
        };
        report.missing.extend(self.stacks.0.missing().map(|missing| missing.why.clone()));
        report.missing.extend(missing_stacks(&counts, self.unwinding.not_unwound() + self.joiner.copies_dropped()));
        if let Ok(interrupts) = Interrupts::read(&self.root) {
            self.names.learn(&interrupts);
            traced.tapes.learn(&interrupts);
        }
        let lost_names = traced.tapes.lost_names(&self.cpus).saturating_sub(self.lost_names_before);
        if lost_names > 0 {
            report.missing.push(format!(
                "{lost_names} names of tasks came too fast to be read (names_lost): tasks of these times may be called what /proc \
                 said later"
            ));
        }
        let read = |&cpu: &CpuId| (cpu, self.presence.ledger(&traced.probes, &slots, &self.names, cpu));
        let ledgers: Vec<_> = self.cpus.iter().map(read).collect();
        self.table.take_names(patience);
        // With patience this is the end, and what is not there now stays an address.
        let not_named = if patience.is_zero() { 0 } else { self.table.not_named() };
        (report.naming_deaths, report.naming_hung) = (self.table.naming_deaths(), hung_count());
        report.missing.extend(missing_names(report.naming_deaths, report.naming_hung, not_named));
        for (cpu, ledger) in ledgers {
            match ledger {
                Ok((core, later)) => {
                    let lost_ns = core.lost_ns();
                    let interrupts = core.lost.iter().map(|lost| self.interrupt(cpu, lost, lost_ns, later.as_deref()));
                    report.interrupts.extend(interrupts);
                    report.cores.push(WhoCore { cpu, wall_ns: core.wall_ns, idle_ns: core.idle_ns, lost_ns });
                }
                Err(why) => report.missing.push(why),
            }
        }
        self.entry_exit.apply(&mut report);
        report.fix_first = fix_first::rank(&report);
        report
    }

    fn interrupt(&self, cpu: CpuId, lost: &Lost, lost_ns: u64, later: Option<&Snapshot>) -> Interrupt {
        let (raisers, unknown_raisers) = self.table.of(cpu, &lost.cause, self.raisers_told);
        let quantile = |share| lost.quantile_ns(share).unwrap_or(0);
        let mut interrupt = Interrupt {
            cpu,
            cause: lost.cause.clone(),
            handler: handler(&lost.cause),
            count: lost.count,
            total_ns: lost.total_ns,
            while_idle_ns: lost.while_idle_ns,
            entry_exit_ns: None,
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            max_ns: lost.max_ns,
            share_of_lost_ppm: lost.while_busy_ns().saturating_mul(1_000_000).checked_div(lost_ns).unwrap_or(0),
            detail: self.detail(cpu, &lost.cause, later),
            raisers,
            unknown_raisers,
            intruders: self.asked.of(cpu, &lost.cause),
            advice: Vec::new(),
        };
        interrupt.advice = advice::advise(&interrupt, &self.host);
        interrupt
    }

    fn detail(&self, cpu: CpuId, cause: &Cause, later: Option<&Snapshot>) -> Vec<String> {
        match cause.kind {
            CauseKind::DeviceInterrupt => {
                let totals = later.into_iter().flat_map(|later| later.slot.causes.iter());
                let line = totals
                    .filter_map(|totals| Some((Names::line(totals)?, totals)))
                    .find(|(_, totals)| self.names.cause(CAUSES - 1, totals) == *cause);
                line.map(|(line, _)| lines::describe(&self.root, line)).unwrap_or_default()
            }
            CauseKind::Timer => {
                let of_this_core = self.ticks.iter().filter(|((of, _), _)| *of == cpu);
                of_this_core.map(|((_, dependency), count)| tick_statement(*dependency, *count)).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// The cause behind a number on a core; `None` when the core's slot cannot be read just now.
pub(super) fn cause_of(names: &Names, probes: &Probes, cpu: CpuId, number: usize) -> Option<Cause> {
    if number < CAUSE_FIRST_DYNAMIC {
        return Some(names.cause(number, &CauseTotals::default()));
    }
    let snapshot = probes.snapshot(cpu)?;
    let totals = &snapshot.slot.causes[number.min(CAUSES - 1)];
    (totals.key != 0).then(|| names.cause(number, totals))
}

fn counts_since(now: RaiserCounts, before: RaiserCounts) -> RaiserCounts {
    RaiserCounts {
        records: now.records - before.records,
        without_stack: now.without_stack - before.without_stack,
        dropped: now.dropped - before.dropped,
        copies_dropped: now.copies_dropped - before.copies_dropped,
        stacks_recalled: now.stacks_recalled - before.stacks_recalled,
        stacks_checked: now.stacks_checked - before.stacks_checked,
        stacks_differ: now.stacks_differ - before.stacks_differ,
        stacks_forgotten: now.stacks_forgotten - before.stacks_forgotten,
        missed: now.missed - before.missed,
    }
}

/// What is wrong or missing with the stacks, each as a sentence with the name of its counter.
fn missing_stacks(counts: &RaiserCounts, not_unwound: u64) -> Vec<String> {
    let mut missing = Vec::new();
    if counts.copies_dropped > 0 {
        missing.push(format!(
            "{} copies of user stacks found no room (copies_dropped): those stacks end where frame pointers do",
            counts.copies_dropped
        ));
    }
    if not_unwound > 0 {
        missing.push(format!(
            "{not_unwound} copies of user stacks were not unwound in time (not_unwound): those stacks end where frame \
             pointers do"
        ));
    }
    if counts.stacks_differ > 0 {
        missing.push(format!(
            "{} of {} kernel stacks that were walked to check what is remembered of them were different \
             (stacks_differ); {} were taken from memory",
            counts.stacks_differ,
            counts.stacks_checked,
            counts.stacks_recalled - counts.stacks_checked.min(counts.stacks_recalled)
        ));
    }
    if counts.stacks_forgotten > 0 {
        missing.push(format!(
            "{} records have no kernel stack, because what they remembered had made room (stacks_forgotten)",
            counts.stacks_forgotten
        ));
    }
    missing
}

/// What is wrong with the names of user stacks, as [`missing_stacks`] says it.
fn missing_names(deaths: u64, hung: u64, not_named: usize) -> Vec<String> {
    let mut missing = Vec::new();
    if deaths > 0 {
        missing.push(format!(
            "the process that reads the files of watched programs ended over one of them {deaths} times \
             (naming_deaths); it was restarted, and what was left without a name says so"
        ));
    }
    if hung > 0 {
        missing.push(format!(
            "{hung} processes that read the files of watched programs hung, because a file system did not answer (naming_hung); \
             others took their place, and names from that file system are missing until it answers"
        ));
    }
    if not_named > 0 {
        missing.push(format!("{not_named} user stacks were not named in time (not_named)"));
    }
    missing
}

/// What runs when such an interrupt arrives, where the kernel has one answer.
fn handler(cause: &Cause) -> String {
    match cause.kind {
        CauseKind::TlbShootdown | CauseKind::CallFunction | CauseKind::Nmi => match cause.name.as_str() {
            Cause::INTERRUPT_ITSELF => "generic_smp_call_function_single_interrupt".to_owned(),
            name => name.to_owned(),
        },
        CauseKind::Timer => "hrtimer_interrupt".to_owned(),
        CauseKind::Reschedule => "scheduler_ipi".to_owned(),
        CauseKind::IrqWork => "irq_work_run".to_owned(),
        CauseKind::Console => "vprintk_emit".to_owned(),
        CauseKind::Softirq => match cause.name.as_str() {
            "HI" | "TASKLET" => "tasklet_action".to_owned(),
            "TIMER" => "run_timer_softirq".to_owned(),
            "NET_TX" => "net_tx_action".to_owned(),
            "NET_RX" => "net_rx_action".to_owned(),
            "BLOCK" => "blk_done_softirq".to_owned(),
            "IRQ_POLL" => "irq_poll_softirq".to_owned(),
            "SCHED" => "sched_balance_softirq".to_owned(),
            "HRTIMER" => "hrtimer_run_softirq".to_owned(),
            "RCU" => "rcu_core_si".to_owned(),
            _ => String::new(),
        },
        _ => String::new(),
    }
}

/// Why the tick could not stop, by the bits of the kernel's `TICK_DEP_MASK_*`.
fn tick_statement(dependency: u32, count: u64) -> String {
    const BITS: [&str; 6] = [
        "a POSIX timer",
        "perf events",
        "the scheduler (more than one task)",
        "an unstable clock",
        "RCU",
        "expedited RCU",
    ];
    if dependency == 0 {
        return format!("the tick stopped {count} times");
    }
    let reasons: Vec<&str> =
        BITS.iter().enumerate().filter(|(bit, _)| dependency >> bit & 1 == 1).map(|(_, reason)| *reason).collect();
    format!("the tick was kept {count} times by {}", reasons.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_that_are_missing_or_different_are_said_and_nothing_else() {
        assert!(missing_stacks(&RaiserCounts { stacks_recalled: 9, ..RaiserCounts::default() }, 0).is_empty());
        let counts = RaiserCounts {
            copies_dropped: 3,
            stacks_recalled: 640,
            stacks_checked: 10,
            stacks_differ: 1,
            stacks_forgotten: 2,
            ..RaiserCounts::default()
        };
        let said = missing_stacks(&counts, 4);
        assert_eq!(said.len(), 4);
        assert!(said[0].starts_with("3 copies") && said[1].starts_with("4 copies"), "{said:?}");
        assert!(
            said[2].starts_with("1 of 10 kernel stacks") && said[2].ends_with("630 were taken from memory"),
            "{said:?}"
        );
        assert!(said[3].starts_with("2 records"), "{said:?}");
    }
}
