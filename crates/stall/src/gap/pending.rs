//! Gaps between being found and being reported: which of them are the same, which came together, which are kept, and
//! where the ledger books them.

use crate::gap::judge::UnjudgedGap;
use crate::gap::verdict::Others;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use surefoot_model::{Cause, CauseKind, Certainty, CpuId, Gap, GapSource, Verdict};

/// Gaps that a window reports; of more the longest are kept and the rest is counted.
const GAPS_PER_WINDOW: usize = 256;

/// A gap that waits for the counters around it to settle.
pub(crate) struct Pending {
    pub(crate) found: UnjudgedGap,
    pub(crate) while_idle: bool,
}

/// A gap as it was found, with nothing known around it.
pub(crate) fn found(source: GapSource, cpu: CpuId, start_ns: u64, end_ns: u64, own: Option<u32>) -> UnjudgedGap {
    let (peers, tape) = (Others::NotSeen, Vec::new());
    let (idle, another_stopped, waited_ns) = (false, false, None);
    UnjudgedGap { source, cpu, start_ns, end_ns, own, idle, peers, another_stopped, tape, waited_ns }
}

/// Several timers can be late for the same reason: of overlapping gaps of a core the first found is kept.
pub(crate) fn merge(mut pending: Vec<Pending>) -> Vec<Pending> {
    pending.sort_by_key(|each| (each.found.cpu, each.found.start_ns, Reverse(each.found.end_ns)));
    let mut kept: Vec<Pending> = Vec::with_capacity(pending.len());
    for mut each in pending {
        each.found.idle = each.while_idle;
        match kept.last() {
            Some(last) if last.found.cpu == each.found.cpu && each.found.start_ns < last.found.end_ns => {}
            _ => kept.push(each),
        }
    }
    kept
}

/// Two gaps that end within this time, and within a fifth of their length, end in the same instant.
const SAME_INSTANT_NS: u64 = 1_000_000;

/// Whether two gaps end in the same instant and are of about one length: the one is at least a quarter of the other. Of one
/// stop of two cores they need not begin together, because each begins when the core's first timer was due.
pub(crate) fn end_together(one: (u64, u64), other: (u64, u64)) -> bool {
    let (one_ns, other_ns) = (one.1 - one.0, other.1 - other.0);
    let shorter_ns = one_ns.min(other_ns);
    one.1.abs_diff(other.1) <= SAME_INSTANT_NS.min(shorter_ns / 5) && shorter_ns >= one_ns.max(other_ns) / 4
}

/// Marks the gaps during which all watched cores have one, each of which covers at least four fifths of it; and those that end in
/// the same instant as one of another core.
pub(crate) fn stopped_together(ready: &mut [Pending], watched: usize) {
    let spans: Vec<(CpuId, u64, u64)> =
        ready.iter().map(|each| (each.found.cpu, each.found.start_ns, each.found.end_ns)).collect();
    let longest_ns = spans.iter().map(|span| span.2 - span.1).max().unwrap_or(0);
    let mut by_start = spans.clone();
    by_start.sort_by_key(|span| span.1);
    for each in ready.iter_mut() {
        let (start_ns, end_ns) = (each.found.start_ns, each.found.end_ns);
        let mut covered: BTreeMap<CpuId, u64> = BTreeMap::new();
        let from = by_start.partition_point(|span| span.1 + longest_ns < start_ns);
        for span in by_start[from..].iter().take_while(|span| span.1 < end_ns).filter(|span| span.0 != each.found.cpu) {
            *covered.entry(span.0).or_default() += span.2.min(end_ns).saturating_sub(span.1.max(start_ns));
            each.found.another_stopped |= end_together((start_ns, end_ns), (span.1, span.2));
        }
        let stopped = covered.values().filter(|&&ns| ns * 5 >= (end_ns - start_ns) * 4).count();
        if watched > 1 && stopped + 1 == watched {
            each.found.peers = Others::Stopped;
        }
    }
}

/// Sorts gaps by how likely an SMI was their cause: of many, those that are judged first claim the SMIs that were counted.
/// An SMI stops all cores, and is longer than most of what else is there.
pub(crate) fn likelier_smi(pending: &Pending) -> (bool, Reverse<u64>) {
    let found = &pending.found;
    (found.peers != Others::Stopped, Reverse(found.end_ns - found.start_ns))
}

/// Keeps the longest gaps in the order of time; returns how many it dropped.
pub(crate) fn keep_longest(gaps: &mut Vec<Gap>) -> u64 {
    let beyond = gaps.len().saturating_sub(GAPS_PER_WINDOW);
    if beyond > 0 {
        gaps.sort_by_key(|gap| Reverse(gap.duration_ns));
        gaps.truncate(GAPS_PER_WINDOW);
    }
    gaps.sort_by_key(|gap| (gap.start_ns, gap.cpu));
    beyond as u64
}

/// Under which cause the ledger books the uncovered part of a gap; `None` leaves it unexplained, as does a verdict that
/// cannot be told apart from others here: a row of the ledger carries no doubt.
pub(crate) fn hidden_cause(verdict: Verdict, certainty: Certainty) -> Option<Cause> {
    if certainty == Certainty::CannotTellApartHere {
        return None;
    }
    match verdict {
        Verdict::Smi => Some(Cause::new(CauseKind::Smi, "counted")),
        // Both are one row: which of them it was may become known only after the window.
        Verdict::SmiLike | Verdict::CorrectedErrorLogging => Some(Cause::new(CauseKind::Smi, "probable")),
        Verdict::HypervisorScheduled => Some(Cause::new(CauseKind::Hypervisor, "scheduled another task")),
        Verdict::HypervisorUnaccounted => Some(Cause::new(CauseKind::Hypervisor, "unaccounted")),
        Verdict::PauseOrSmi => Some(Cause::new(CauseKind::Hypervisor, "pause or SMI")),
        Verdict::Traced | Verdict::HardwareThisCore | Verdict::Undetermined => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(cpu: u32, start_ns: u64, end_ns: u64) -> Pending {
        Pending { found: found(GapSource::TimerLateness, CpuId(cpu), start_ns, end_ns, None), while_idle: false }
    }

    #[test]
    fn of_timers_that_are_late_for_the_same_reason_one_is_kept() {
        let kept = merge(vec![pending(0, 150, 300), pending(0, 100, 300), pending(0, 300, 400), pending(1, 120, 300)]);
        let spans: Vec<_> = kept.iter().map(|each| (each.found.cpu.0, each.found.start_ns)).collect();
        assert_eq!(spans, [(0, 100), (0, 300), (1, 120)]);
    }

    #[test]
    fn cores_stop_together_only_if_all_of_them_do() {
        let peers = |gaps: Vec<Pending>, watched| {
            let mut gaps = merge(gaps);
            stopped_together(&mut gaps, watched);
            gaps.iter().map(|each| each.found.peers).collect::<Vec<_>>()
        };
        let both = || vec![pending(0, 1_000, 2_000), pending(1, 1_100, 2_050)];
        assert_eq!(peers(both(), 2), [Others::Stopped, Others::Stopped]);
        assert_eq!(peers(both(), 3), [Others::NotSeen, Others::NotSeen]);
        assert_eq!(peers(vec![pending(0, 1_000, 2_000), pending(1, 1_500, 5_000)], 2), [Others::NotSeen; 2]);
        assert_eq!(peers(vec![pending(0, 1_000, 2_000)], 1), [Others::NotSeen]);
    }

    #[test]
    fn of_one_stop_the_gaps_end_together_and_need_not_begin_together() {
        let marked = |gaps: Vec<Pending>| {
            let mut gaps = merge(gaps);
            stopped_together(&mut gaps, 3);
            gaps.iter().map(|each| each.found.another_stopped).collect::<Vec<_>>()
        };
        let ms = |cpu, from: u64, to: u64| pending(cpu, from * 1_000_000, to * 1_000_000);
        assert_eq!(marked(vec![ms(0, 100, 160), ms(1, 130, 160)]), [true; 2]);
        assert_eq!(marked(vec![ms(0, 100, 160), ms(1, 130, 162)]), [false; 2], "2 ms later");
        assert_eq!(marked(vec![ms(0, 100, 160), ms(1, 150, 160)]), [false; 2], "a sixth of the length");
        assert_eq!(marked(vec![pending(0, 1_000, 2_000), pending(1, 1_000, 2_300)]), [false; 2], "a short one");
        assert_eq!(marked(vec![ms(0, 100, 160), ms(0, 161, 170)]), [false; 2], "the same core");
    }

    #[test]
    fn a_stop_of_all_cores_claims_an_smi_first_and_then_the_longest_gap() {
        let mut gaps = [pending(0, 100, 200), pending(0, 300, 900), pending(0, 1_000, 1_050)];
        gaps[2].found.peers = Others::Stopped;
        gaps.sort_by_key(likelier_smi);
        assert_eq!(gaps.iter().map(|gap| gap.found.start_ns).collect::<Vec<_>>(), [1_000, 300, 100]);
    }

    #[test]
    fn what_cannot_be_told_apart_is_no_named_loss() {
        for verdict in [
            Verdict::Traced,
            Verdict::Smi,
            Verdict::SmiLike,
            Verdict::CorrectedErrorLogging,
            Verdict::HypervisorScheduled,
            Verdict::HypervisorUnaccounted,
            Verdict::PauseOrSmi,
            Verdict::HardwareThisCore,
            Verdict::Undetermined,
        ] {
            assert_eq!(hidden_cause(verdict, Certainty::CannotTellApartHere), None, "{verdict:?}");
        }
        assert!(hidden_cause(Verdict::HypervisorUnaccounted, Certainty::Probable).is_some());
    }

    #[test]
    fn the_longest_gaps_are_kept_in_the_order_of_time() {
        let gap = |start_ns: u64, duration_ns: u64| Gap {
            cpu: CpuId(0),
            source: GapSource::Probe,
            start_ns,
            duration_ns,
            causes: Vec::new(),
            unexplained_ns: 0,
            verdict: Verdict::Traced,
            certainty: Certainty::Certain,
            evidence: Vec::new(),
        };
        let mut gaps: Vec<Gap> = (0..300).map(|number| gap(number, 1_000 + number)).collect();
        assert_eq!(keep_longest(&mut gaps), 44);
        assert_eq!((gaps.len(), gaps[0].start_ns, gaps[255].start_ns), (256, 44, 299));
    }
}
