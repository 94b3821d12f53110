//! Keeps a report small enough to flow, whatever the machine and its symbols are like: raisers beyond a limit are
//! summed up as one, and what even then does not fit is counted.

use surefoot_model::{Certainty, Interrupt, Raiser, WhoReport};

/// Characters of a stack frame's name that are kept; those of C++ and Rust can fill pages.
const FRAME_CHARS: usize = 240;

/// Bytes of JSON that a row takes besides its texts: names of fields, numbers, punctuation.
const ROW_BYTES: usize = 320;

/// How large a report may be.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Raisers that are told apart for each kind of interrupt on each core.
    pub raisers: usize,
    /// The interrupts with all that belongs to them, bytes of JSON.
    pub bytes: usize,
}

impl Limits {
    /// What flows as an event every few seconds: 200 raisers per interrupt and 2 MiB.
    pub const EVENT: Limits = Limits { raisers: 200, bytes: 2 << 20 };
    /// What a recording holds, and what is printed, so that both say the same: 10,000 raisers and 12 MiB, which is less
    /// than a frame of a recording even where it does not compress.
    pub const RECORDING: Limits = Limits { raisers: 10_000, bytes: 12 << 20 };
}

/// The report within its limits. Raisers are left out from the least frequent on, then interrupts from the cheapest on.
pub fn limited(mut report: WhoReport, limits: &Limits) -> WhoReport {
    let names = report.interrupts.iter_mut().flat_map(|interrupt| &mut interrupt.raisers);
    names.flat_map(|raiser| raiser.kernel_stack.iter_mut().chain(&mut raiser.user_stack)).for_each(shorten);
    let mut raisers = limits.raisers;
    loop {
        report.interrupts.iter_mut().for_each(|interrupt| keep_raisers(interrupt, raisers));
        if raisers == 0 || interrupts_bytes(&report) <= limits.bytes {
            break;
        }
        raisers /= 2;
    }
    keep_interrupts(&mut report, limits.bytes);
    report
}

fn shorten(frame: &mut String) {
    if let Some((at, _)) = frame.char_indices().nth(FRAME_CHARS) {
        frame.truncate(at);
        frame.push_str("...");
    }
}

/// Whether a row is the sum of others already.
fn is_sum(raiser: &Raiser) -> bool {
    raiser.comm == "(other)" && raiser.tid == 0
}

fn keep_raisers(interrupt: &mut Interrupt, limit: usize) {
    let (sums, mut kept): (Vec<Raiser>, Vec<Raiser>) =
        std::mem::take(&mut interrupt.raisers).into_iter().partition(is_sum);
    let beyond = kept.split_off(limit.min(kept.len()));
    let count = sums.iter().chain(&beyond).fold(0u64, |sum, raiser| sum.saturating_add(raiser.count));
    let certainty = sums.iter().chain(&beyond).map(|raiser| raiser.certainty).max();
    if let Some(certainty) = certainty {
        let sum = other(certainty, kept.len(), count);
        let at = kept.partition_point(|raiser| raiser.count >= count);
        kept.insert(at, sum);
    }
    interrupt.raisers = kept;
}

/// The row that stands for all raisers which are not told apart.
pub(super) fn other(certainty: Certainty, told_apart: usize, count: u64) -> Raiser {
    Raiser {
        certainty,
        function: format!("other raisers, beyond the {told_apart} that are told apart"),
        syscall: String::new(),
        comm: "(other)".to_owned(),
        pid: 0,
        tid: 0,
        wakee: String::new(),
        count,
        kernel_stack: Vec::new(),
        user_stack: Vec::new(),
    }
}

fn keep_interrupts(report: &mut WhoReport, bytes: usize) {
    if interrupts_bytes(report) <= bytes {
        return;
    }
    report.interrupts.sort_by_key(|interrupt| std::cmp::Reverse(interrupt.total_ns));
    let (mut used, mut kept) = (0, 0);
    while let Some(interrupt) = report.interrupts.get(kept) {
        used += interrupt_bytes(interrupt);
        if used > bytes {
            break;
        }
        kept += 1;
    }
    let left_out = report.interrupts.split_off(kept);
    let total_ns = left_out.iter().fold(0u64, |sum, interrupt| sum.saturating_add(interrupt.total_ns));
    report.missing.push(format!(
        "{} kinds of interrupts, {total_ns} ns together, because there are too many to tell",
        left_out.len()
    ));
    report.interrupts.sort_by(|a, b| a.cpu.cmp(&b.cpu).then(b.total_ns.cmp(&a.total_ns)));
}

fn interrupts_bytes(report: &WhoReport) -> usize {
    report.interrupts.iter().map(interrupt_bytes).sum()
}

fn interrupt_bytes(interrupt: &Interrupt) -> usize {
    let detail: usize = interrupt.detail.iter().map(|text| text_bytes(text)).sum();
    let advice = interrupt.advice.iter().flat_map(|row| [&row.rule, &row.remedy, &row.evidence, &row.source]);
    let advice: usize = advice.map(|text| text_bytes(text) + 16).sum();
    let raisers: usize = interrupt.raisers.iter().map(raiser_bytes).sum();
    ROW_BYTES + text_bytes(&interrupt.cause.name) + text_bytes(&interrupt.handler) + detail + advice + raisers
}

fn raiser_bytes(raiser: &Raiser) -> usize {
    let texts = [&raiser.function, &raiser.syscall, &raiser.comm, &raiser.wakee];
    let stacks = raiser.kernel_stack.iter().chain(&raiser.user_stack);
    ROW_BYTES + texts.into_iter().chain(stacks).map(|text| text_bytes(text)).sum::<usize>()
}

/// Bytes of a text as JSON, quotation marks and comma included.
fn text_bytes(text: &str) -> usize {
    let bytes = text.bytes().map(|byte| match byte {
        b'"' | b'\\' => 2,
        0..=0x1F => 6,
        _ => 1,
    });
    3 + bytes.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::{Cause, CauseKind, CpuId};

    fn raiser(count: u64) -> Raiser {
        Raiser {
            comm: "stats".into(),
            tid: 7,
            kernel_stack: vec!["k".repeat(100); 40],
            user_stack: vec!["é".repeat(1_000); 40],
            ..other(Certainty::Certain, 0, count)
        }
    }

    fn report(interrupts: u64, raisers: u64) -> WhoReport {
        let interrupt = |number| Interrupt {
            cpu: CpuId(number as u32 % 4),
            cause: Cause::new(CauseKind::TlbShootdown, format!("\u{1}{number}")),
            handler: "h".into(),
            count: raisers,
            total_ns: 1_000 + number,
            p50_ns: 1,
            p99_ns: 1,
            max_ns: 1,
            share_of_lost_ppm: 1,
            detail: vec!["d".into()],
            raisers: (1..=raisers).rev().map(raiser).collect(),
            unknown_raisers: 0,
            advice: Vec::new(),
        };
        WhoReport { interrupts: (0..interrupts).map(interrupt).collect(), ..WhoReport::default() }
    }

    fn counts(report: &WhoReport) -> u64 {
        report.interrupts.iter().flat_map(|interrupt| &interrupt.raisers).map(|raiser| raiser.count).sum()
    }

    #[test]
    fn a_report_within_its_limits_stays_as_it_is() {
        let mut small = report(2, 5);
        small.interrupts.iter_mut().flat_map(|i| &mut i.raisers).for_each(|raiser| raiser.user_stack.clear());
        assert_eq!(limited(small.clone(), &Limits::EVENT), small);
    }

    #[test]
    fn raisers_beyond_the_limit_are_summed_up_and_no_count_is_lost() {
        let mut large = report(2, 500);
        large.interrupts[0].raisers.push(other(Certainty::Certain, 10_000, 77));
        let limits = Limits { raisers: 20, bytes: usize::MAX };
        let small = limited(large.clone(), &limits);
        assert_eq!(counts(&small), counts(&large));
        for interrupt in &small.interrupts {
            assert_eq!(interrupt.raisers.len(), 21);
            let sums = interrupt.raisers.iter().filter(|raiser| is_sum(raiser)).collect::<Vec<_>>();
            assert_eq!(sums.len(), 1);
            assert!(sums[0].function.contains("beyond the 20 "), "{}", sums[0].function);
            assert!(interrupt.raisers.is_sorted_by(|a, b| a.count >= b.count));
            let frame = &interrupt.raisers[1].user_stack[0];
            assert_eq!(frame.chars().count(), FRAME_CHARS + 3);
        }
        assert_eq!(limited(small.clone(), &limits), small, "summing up twice changes nothing");
    }

    #[test]
    fn whatever_comes_in_the_json_is_no_larger_than_was_said() {
        for (interrupts, raisers) in [(3, 200), (60, 3), (10_000, 0)] {
            let large = report(interrupts, raisers);
            let small = limited(large.clone(), &Limits::EVENT);
            let json_bytes = serde_json::to_vec(&small.interrupts).unwrap().len();
            assert!(json_bytes <= Limits::EVENT.bytes, "{interrupts} x {raisers}: {json_bytes}");
            assert!(json_bytes > Limits::EVENT.bytes / 5, "{interrupts} x {raisers}: {json_bytes} wastes room");
            if small.interrupts.len() == large.interrupts.len() {
                assert_eq!(counts(&small), counts(&large));
            } else {
                let missing = format!("{} kinds of interrupts", large.interrupts.len() - small.interrupts.len());
                assert!(small.missing[0].starts_with(&missing), "{:?}", small.missing);
            }
        }
    }
}
