//! The gaps that polling threads noted themselves, as text.

use crate::units::duration;
use surefoot_model::{LoopGap, LoopGapPart, LoopSummary, WhoReport};

/// Loops and, of each, gaps that the text shows.
const LOOPS_SHOWN: usize = 16;
const GAPS_SHOWN: usize = 3;

/// Causes that the text shows of each gap.
const PARTS_SHOWN: usize = 5;

/// The section, or nothing where no thread notes its gaps.
pub fn text(found: &WhoReport) -> String {
    if found.loops.is_empty() {
        return String::new();
    }
    let mut text = "\nGaps that the loops noted themselves\n".to_owned();
    for summary in found.loops.iter().take(LOOPS_SHOWN) {
        let listed: Vec<&LoopGap> = found.loop_gaps.iter().filter(|gap| is_of(gap, summary)).collect();
        text += &format!("  {}\n", summary_line(summary, &listed));
        for gap in listed.iter().take(GAPS_SHOWN) {
            text += &format!("    {}\n", gap_line(gap, found.start_ns));
        }
    }
    if found.loops.len() > LOOPS_SHOWN {
        text += &format!("  and {} more loops (--json)\n", found.loops.len() - LOOPS_SHOWN);
    }
    text
}

fn is_of(gap: &LoopGap, summary: &LoopSummary) -> bool {
    (gap.pid, gap.tid, &gap.name) == (summary.pid, summary.tid, &summary.name)
}

fn summary_line(summary: &LoopSummary, listed: &[&LoopGap]) -> String {
    let LoopSummary { name, tid, gap_count, threshold_ns, total_ns, .. } = summary;
    let threshold = duration(*threshold_ns);
    let mut line = format!("loop \"{name}\" (thread {tid}): {} gaps over {threshold}", grouped(*gap_count));
    if *gap_count > 0 {
        line += &format!(", {} in all", duration(*total_ns));
    }
    if let Some(main) = LoopGap::main_cause(listed) {
        let of = match summary.not_listed {
            0 => "them".to_owned(),
            _ => format!("the {} longest", grouped(listed.len() as u64)),
        };
        line += &format!("; {} of {of} with {}", grouped(main.gap_count), main.name);
        line += &main.raiser.map_or_else(String::new, |raiser| format!(", raised by {raiser}"));
    }
    if summary.overwritten > 0 {
        line += &format!("; {} more were overwritten before they were read", grouped(summary.overwritten));
    }
    line
}

fn gap_line(gap: &LoopGap, start_ns: u64) -> String {
    let mut parts: Vec<String> = gap.parts.iter().take(PARTS_SHOWN).map(part_text).collect();
    if let Some(more) = gap.parts.get(PARTS_SHOWN..).filter(|more| !more.is_empty()) {
        let more_ns = more.iter().map(|part| part.total_ns).sum();
        parts.push(format!("{} more causes {}", more.len(), duration(more_ns)));
    }
    if gap.unexplained_ns > 0 {
        parts.push(format!("unexplained {}", duration(gap.unexplained_ns)));
    }
    let place = gap.cpu.map_or_else(|| "on a core that is not known".to_owned(), |cpu| format!("on core {cpu}"));
    let after = duration(gap.start_ns.saturating_sub(start_ns));
    format!("{} {place} after {after}: {}", duration(gap.duration_ns), parts.join(", "))
}

fn part_text(part: &LoopGapPart) -> String {
    let times = if part.count > 1 { format!("{} x ", part.count) } else { String::new() };
    let raiser = part.raisers.first().map_or_else(String::new, |raiser| format!(" by {raiser}"));
    format!("{times}{} {}{raiser}", part.cause, duration(part.total_ns))
}

/// `1,203` for 1203.
fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::{Cause, CauseKind, CpuId};

    fn part(kind: CauseKind, name: &str, total_ns: u64, count: u64, raisers: &[&str]) -> LoopGapPart {
        let raisers = raisers.iter().map(|&raiser| raiser.to_owned()).collect();
        LoopGapPart { cause: Cause::new(kind, name), total_ns, count, raisers }
    }

    fn gap(parts: Vec<LoopGapPart>, unexplained_ns: u64) -> LoopGap {
        let duration_ns = parts.iter().map(|part| part.total_ns).sum::<u64>() + unexplained_ns;
        let name = "receive".to_owned();
        LoopGap { pid: 9, tid: 4711, name, cpu: Some(CpuId(1)), start_ns: 3_500, duration_ns, parts, unexplained_ns }
    }

    fn summary(gap_count: u64, not_listed: u64) -> LoopSummary {
        let name = "receive".to_owned();
        LoopSummary {
            pid: 9,
            tid: 4711,
            name,
            threshold_ns: 5_000,
            gap_count,
            total_ns: 18_300_000,
            overwritten: 0,
            not_listed,
        }
    }

    #[test]
    fn a_loop_is_told_with_its_main_cause_and_the_longest_gaps_with_theirs() {
        use CauseKind::{Timer, TlbShootdown};
        let by_stats = ["stats-4712 in munmap"];
        let shootdown = || {
            let flush = part(TlbShootdown, "flush_tlb_func", 3_100, 2, &by_stats);
            gap(vec![part(TlbShootdown, "entry and exit", 4_000, 1, &[]), flush], 900)
        };
        let tick = gap(vec![part(Timer, "local_timer", 6_000, 1, &[])], 0);
        let mut elsewhere = gap(Vec::new(), 7_000);
        elsewhere.cpu = None;
        let mut found = WhoReport { start_ns: 1_000, ..WhoReport::default() };
        assert_eq!(text(&found), "");
        found.loops = vec![summary(4, 0)];
        found.loop_gaps = vec![shootdown(), elsewhere, tick, shootdown()];
        assert_eq!(
            text(&found),
            "\nGaps that the loops noted themselves\n  \
             loop \"receive\" (thread 4711): 4 gaps over 5.00 us, 18.3 ms in all; 2 of them with flush_tlb_func, raised by \
             stats-4712 in munmap\n    \
             8.00 us on core 1 after 2.50 us: TLB shootdown entry and exit 4.00 us, 2 x TLB shootdown flush_tlb_func \
             3.10 us by stats-4712 in munmap, unexplained 900 ns\n    \
             7.00 us on a core that is not known after 2.50 us: unexplained 7.00 us\n    \
             6.00 us on core 1 after 2.50 us: timer local_timer 6.00 us\n"
        );
        found.loops = vec![summary(1_203, 1_199)];
        assert!(
            text(&found).contains("1,203 gaps over 5.00 us, 18.3 ms in all; 2 of the 4 longest with flush_tlb_func")
        );
    }

    #[test]
    fn a_quiet_loop_is_told_too_and_numbers_are_grouped() {
        let many = (0..9).map(|number| part(CauseKind::Softirq, &number.to_string(), 10, 1, &[])).collect();
        assert!(gap_line(&gap(many, 0), 0).ends_with("softirq 4 10 ns, 4 more causes 40 ns"));
        let mut found = WhoReport { loops: vec![summary(0, 0)], ..WhoReport::default() };
        found.loops[0].overwritten = 1_234_567;
        let line = "loop \"receive\" (thread 4711): 0 gaps over 5.00 us; 1,234,567 more were overwritten";
        assert!(text(&found).contains(line), "{}", text(&found));
        assert_eq!([0, 999, 1_000, 12_345].map(grouped), ["0", "999", "1,000", "12,345"]);
    }
}
