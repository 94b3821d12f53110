//! About how much memory the events of lost time hold, beside the event itself; strings and tables counted, allocator
//! overhead not. Those of other rooms stand beside their types.

use crate::{CoreLedger, Fix, Gap, Interrupt, Intruder, LoopGap, LoopSummary, Raiser, WhoReport, Window};

pub(crate) fn window_bytes(window: &Window) -> usize {
    let cores: usize = window.cores.iter().map(core_bytes).sum();
    let untimed: usize = window.untimed.iter().map(|row| size_of_val(row) + row.row.len() + row.name.len()).sum();
    let completeness: usize = window.completeness.iter().map(|row| size_of_val(row) + row.row.len()).sum();
    let probes: usize = window.cost.probes.iter().map(|probe| size_of_val(probe) + probe.name.len()).sum();
    cores + size_of_val(window.faulty.as_slice()) + untimed + completeness + probes
}

fn core_bytes(core: &CoreLedger) -> usize {
    let rows = core
        .lost
        .iter()
        .map(|lost| size_of_val(lost) + lost.cause.name.len() + lost.histogram.0.len() * size_of::<(u8, u64)>());
    size_of_val(core) + rows.sum::<usize>()
}

pub(crate) fn gap_bytes(gap: &Gap) -> usize {
    let causes: usize = gap.causes.iter().map(|cause| size_of_val(cause) + cause.cause.name.len()).sum();
    let evidence: usize = gap.evidence.iter().map(|line| size_of_val(line) + line.len()).sum();
    causes + evidence
}

pub(crate) fn who_bytes(who: &WhoReport) -> usize {
    let interrupts = who
        .interrupts
        .iter()
        .map(|interrupt| interrupt_bytes(interrupt) + interrupt.raisers.iter().map(raiser_bytes).sum::<usize>());
    let probes: usize = who.cost.probes.iter().map(|probe| size_of_val(probe) + probe.name.len()).sum();
    let loops =
        who.loops.iter().map(loop_bytes).sum::<usize>() + who.loop_gaps.iter().map(loop_gap_bytes).sum::<usize>();
    let notices: usize = who.notices.iter().map(|notice| size_of_val(notice) + notice.text.len()).sum();
    let fixes: usize = who.fix_first.iter().map(fix_bytes).sum();
    let small = size_of_val(who.cores.as_slice()) + size_of_val(who.entry_exit.as_slice());
    interrupts.sum::<usize>() + fixes + small + loops + notices + texts(&who.missing) + probes
}

/// An interrupt without its raisers.
fn interrupt_bytes(interrupt: &Interrupt) -> usize {
    let advice = interrupt.advice.iter().map(|advice| {
        size_of_val(advice) + advice.rule.len() + advice.remedy.len() + advice.evidence.len() + advice.source.len()
    });
    size_of_val(interrupt)
        + interrupt.cause.name.len()
        + interrupt.handler.len()
        + texts(&interrupt.detail)
        + advice.sum::<usize>()
        + interrupt.intruders.iter().map(intruder_bytes).sum::<usize>()
}

fn intruder_bytes(intruder: &Intruder) -> usize {
    let words = [&intruder.comm, &intruder.allowed, &intruder.cgroup, &intruder.policy, &intruder.because];
    size_of_val(intruder) + words.into_iter().map(String::len).sum::<usize>()
}

fn fix_bytes(fix: &Fix) -> usize {
    let words = [&fix.cause.name, &fix.rule, &fix.evidence, &fix.remedy, &fix.source, &fix.verify, &fix.expect];
    size_of_val(fix) + size_of_val(fix.cpus.as_slice()) + words.into_iter().map(String::len).sum::<usize>()
}

fn raiser_bytes(raiser: &Raiser) -> usize {
    let words = [&raiser.function, &raiser.syscall, &raiser.comm, &raiser.wakee];
    size_of_val(raiser)
        + words.into_iter().map(String::len).sum::<usize>()
        + texts(&raiser.kernel_stack)
        + texts(&raiser.user_stack)
}

fn loop_bytes(summary: &LoopSummary) -> usize {
    size_of_val(summary) + summary.name.len()
}

fn loop_gap_bytes(gap: &LoopGap) -> usize {
    let parts = gap.parts.iter().map(|part| size_of_val(part) + part.cause.name.len() + texts(&part.raisers));
    size_of_val(gap) + gap.name.len() + parts.sum::<usize>()
}

pub(crate) fn texts(list: &[String]) -> usize {
    list.iter().map(|text| size_of_val(text) + text.len()).sum()
}
