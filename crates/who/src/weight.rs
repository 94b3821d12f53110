//! How large the parts of a report of raisers are: at least what they take as JSON, and at least what they hold in memory
//! without the allocator's overhead.

use surefoot_model::{
    Advice, Fix, Interrupt, Intruder, LoopGap, LoopGapPart, LoopSummary, Notice, ProbeCost, Raiser, WhoReport,
};

/// A row besides its texts: names of fields, numbers and punctuation as JSON, or the struct in memory.
const ROW_BYTES: usize = 320;

/// The report besides its lists.
const REPORT_BYTES: usize = 2_048;

const _: () = {
    assert!(
        size_of::<Raiser>() <= ROW_BYTES && size_of::<Interrupt>() <= ROW_BYTES && size_of::<Advice>() <= ROW_BYTES
    );
    assert!(size_of::<Fix>() <= ROW_BYTES && size_of::<Intruder>() <= ROW_BYTES);
    assert!(size_of::<LoopGap>() <= ROW_BYTES && size_of::<LoopGapPart>() <= ROW_BYTES);
    assert!(size_of::<LoopSummary>() <= ROW_BYTES && size_of::<ProbeCost>() <= ROW_BYTES);
    assert!(size_of::<WhoReport>() <= REPORT_BYTES);
};

/// The whole report without its timeline.
pub(crate) fn report_bytes(report: &WhoReport) -> usize {
    let probes = report.cost.probes.iter().map(|probe| ROW_BYTES + text_bytes(&probe.name));
    REPORT_BYTES
        + probes.sum::<usize>()
        + report.fix_first.iter().map(fix_bytes).sum::<usize>()
        + (report.cores.len() + report.entry_exit.len()) * ROW_BYTES
        + report.interrupts.iter().map(interrupt_bytes).sum::<usize>()
        + raisers_bytes(report)
        + report.loops.iter().map(loop_bytes).sum::<usize>()
        + report.loop_gaps.iter().map(loop_gap_bytes).sum::<usize>()
        + report.notices.iter().map(notice_bytes).sum::<usize>()
        + texts_bytes(&report.missing)
}

/// All raisers of all interrupts.
pub(crate) fn raisers_bytes(report: &WhoReport) -> usize {
    report.interrupts.iter().flat_map(|interrupt| &interrupt.raisers).map(raiser_bytes).sum()
}

/// An interrupt without its raisers.
pub(crate) fn interrupt_bytes(interrupt: &Interrupt) -> usize {
    let advice = interrupt.advice.iter().map(|advice| {
        let Advice { rule, remedy, evidence, source, .. } = advice;
        ROW_BYTES + [rule, remedy, evidence, source].map(|text| text_bytes(text)).iter().sum::<usize>()
    });
    let texts = text_bytes(&interrupt.cause.name) + text_bytes(&interrupt.handler) + texts_bytes(&interrupt.detail);
    let intruders = interrupt.intruders.iter().map(|intruder| {
        let Intruder { comm, allowed, cgroup, policy, because, .. } = intruder;
        ROW_BYTES + [comm, allowed, cgroup, policy, because].map(|text| text_bytes(text)).iter().sum::<usize>()
    });
    ROW_BYTES + texts + advice.sum::<usize>() + intruders.sum::<usize>()
}

fn fix_bytes(fix: &Fix) -> usize {
    let Fix { cause, rule, evidence, remedy, source, verify, expect, .. } = fix;
    let texts = [&cause.name, rule, evidence, remedy, source, verify, expect].map(|text| text_bytes(text));
    ROW_BYTES + fix.cpus.len() * 8 + texts.iter().sum::<usize>()
}

pub(crate) fn raiser_bytes(raiser: &Raiser) -> usize {
    let texts = [&raiser.function, &raiser.syscall, &raiser.comm, &raiser.wakee].map(|text| text_bytes(text));
    ROW_BYTES + texts.iter().sum::<usize>() + texts_bytes(&raiser.kernel_stack) + texts_bytes(&raiser.user_stack)
}

pub(crate) fn loop_bytes(summary: &LoopSummary) -> usize {
    ROW_BYTES + text_bytes(&summary.name)
}

pub(crate) fn loop_gap_bytes(gap: &LoopGap) -> usize {
    let parts = gap.parts.iter().map(|part| ROW_BYTES + text_bytes(&part.cause.name) + texts_bytes(&part.raisers));
    ROW_BYTES + text_bytes(&gap.name) + parts.sum::<usize>()
}

pub(crate) fn notice_bytes(notice: &Notice) -> usize {
    text_bytes(&notice.text) + 64
}

fn texts_bytes(texts: &[String]) -> usize {
    texts.iter().map(|text| text_bytes(text)).sum()
}

/// A text with what is escaped in JSON, its quotation marks and comma, or with the struct that holds it.
pub(crate) fn text_bytes(text: &str) -> usize {
    let escaped = text.bytes().map(|byte| match byte {
        b'"' | b'\\' => 2,
        0..=0x1F => 6,
        _ => 1,
    });
    size_of::<String>() + escaped.sum::<usize>()
}
