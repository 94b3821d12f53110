#![allow(clippy::unwrap_used)]

use super::*;
use crate::limit::{Limits, limit as cut};
use surefoot_model::{Cause, CauseKind, LoopGap, Notice};

const S: u64 = 1_000_000_000;

fn raiser(comm: &str, tid: u32, count: u64) -> Raiser {
    let sum = limit::of_one_name(Certainty::Certain, comm, tid, count);
    Raiser { function: "flush_tlb_func".into(), syscall: "munmap".into(), tid, is_sum: false, ..sum }
}

fn report(end_s: u64, raisers: Vec<Raiser>) -> WhoReport {
    let count = raisers.iter().map(|raiser| raiser.count).sum();
    let cause = Cause::new(CauseKind::TlbShootdown, "flush_tlb_func");
    let interrupt = Interrupt { raisers, ..Interrupt::new(CpuId(1), cause, count, count * 1_000) };
    let core = WhoCore { cpu: CpuId(1), wall_ns: end_s * S, idle_ns: 0, lost_ns: count * 1_000 };
    WhoReport {
        end_ns: end_s * S,
        cores: vec![core],
        interrupts: vec![interrupt],
        called_count: count,
        ..WhoReport::default()
    }
}

fn counts(report: &WhoReport) -> Vec<(&str, u32, u64)> {
    let raisers = report.interrupts.iter().flat_map(|one| &one.raisers);
    raisers.map(|raiser| (raiser.comm.as_str(), raiser.tid, raiser.count)).collect()
}

#[test]
fn a_range_has_the_counts_since_its_start_and_what_is_advised_for_them() {
    let unnamed = |raiser: Raiser, stack: &str| Raiser { user_stack: vec![stack.to_owned()], ..raiser };
    let before = report(807, vec![raiser("old", 5, 900), unnamed(raiser("stats", 7, 100), "0x1 (not named yet)")]);
    let mut after =
        report(867, vec![raiser("old", 5, 900), unnamed(raiser("stats", 7, 104), "munmap"), raiser("new", 9, 3)]);
    after.notices = vec![Notice { at_ns: S, text: "early".into() }, Notice { at_ns: 810 * S, text: "late".into() }];
    let gap = |start_ns| LoopGap {
        pid: 1,
        tid: 1,
        name: String::new(),
        cpu: None,
        start_ns,
        duration_ns: 1,
        parts: Vec::new(),
        unexplained_ns: 1,
    };
    after.loop_gaps = vec![gap(S), gap(808 * S)];
    let found = since(&after, &Mark::of(&before));
    assert_eq!(counts(&found), [("stats", 7, 4), ("new", 9, 3)]);
    assert_eq!((found.start_ns, found.duration_ns(), found.watch_start_ns), (807 * S, 60 * S, Some(0)));
    let interrupt = &found.interrupts[0];
    assert_eq!((interrupt.count, interrupt.total_ns, interrupt.share_of_lost_ppm), (7, 7_000, 1_000_000));
    assert_eq!((found.called_count, found.cores[0].wall_ns, found.cores[0].lost_ns), (7, 60 * S, 7_000));
    assert_eq!((found.notices.len(), found.loop_gaps.len(), found.missing.len()), (1, 1, 0));
    // Of the 867 s, most were raised by a thread that raises nothing now.
    let advice = &interrupt.advice[0];
    assert_eq!((advice.rule.as_str(), advice.count), ("memory-mapping-beside-a-polling-thread", 7));
    assert_eq!(found.fix_first[0].count, 7);
    assert!(found.fix_first[0].evidence.contains("7 of 7"), "{}", found.fix_first[0].evidence);
}

#[test]
fn a_kind_that_did_not_come_in_the_range_has_no_row() {
    let same = report(10, vec![raiser("stats", 7, 100)]);
    let later = WhoReport { end_ns: 20 * S, ..same.clone() };
    assert!(since(&later, &Mark::of(&same)).interrupts.is_empty());
    let other_watch = WhoReport { start_ns: S, ..same };
    assert_eq!(since(&later, &Mark::of(&other_watch)), later, "a mark of another watch says nothing");
}

/// Rows come and go as raisers overtake each other: whatever was cut where, the counts of each name are those of the range.
#[test]
fn counts_by_name_are_exact_whatever_had_a_row() {
    let limits = Limits { raisers: 5, bytes: usize::MAX };
    let name = |tid: u32| format!("cc{}", tid % 6);
    let whole = |end_s: u64, of: fn(u32) -> u64| {
        report(end_s, (1..=60).map(|tid| raiser(&name(tid), tid, of(tid))).filter(|raiser| raiser.count > 0).collect())
    };
    let early: fn(u32) -> u64 = |tid| u64::from(tid % 7);
    let late: fn(u32) -> u64 = |tid| u64::from(tid % 7 + tid * tid % 11);
    let (mut before, mut after) = (whole(10, early), whole(20, late));
    cut(&mut before, &limits);
    cut(&mut after, &limits);
    let found = since(&after, &Mark::of(&before));
    let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
    counts(&found).iter().for_each(|&(comm, _, count)| *by_name.entry(comm).or_default() += count);
    for number in 0..6 {
        let want: u64 = (1..=60).filter(|tid| tid % 6 == number).map(|tid| late(tid) - early(tid)).sum();
        assert_eq!(by_name.get(name(number).as_str()).copied().unwrap_or(0), want, "cc{number}");
    }
    let missing = |report: &WhoReport| report.missing.iter().any(|text| text.contains("before the range"));
    assert!(!missing(&found), "{:?}", found.missing);
    assert_eq!(found.interrupts[0].count, by_name.values().sum::<u64>());
}

#[test]
fn what_had_no_name_then_is_said() {
    let before = report(10, vec![limit::other(Certainty::Certain, 50)]);
    let after = report(20, vec![raiser("new", 9, 60)]);
    let found = since(&after, &Mark::of(&before));
    assert_eq!(counts(&found), [("new", 9, 60)]);
    assert!(found.missing.iter().any(|text| text.starts_with("up to 50 arrivals before")), "{:?}", found.missing);
    // As is a mark whose report was cut.
    let mut cut_short = before;
    cut_short.interrupts.clear();
    let found = since(&after, &Mark::of(&cut_short));
    assert!(found.missing.iter().any(|text| text.contains("no room for all kinds")), "{:?}", found.missing);
}
