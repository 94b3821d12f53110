#![allow(clippy::unwrap_used)]

use super::*;
use surefoot_model::{Cause, CauseKind, CpuId, LoopGap, LoopSummary, Notice};

fn raiser(count: u64) -> Raiser {
    Raiser {
        comm: "stats".into(),
        tid: 7,
        kernel_stack: vec!["k".repeat(100); 40],
        user_stack: vec!["é".repeat(300); 40],
        is_sum: false,
        ..other(if count.is_multiple_of(3) { Certainty::Probable } else { Certainty::Certain }, count)
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
        while_idle_ns: 0,
        entry_exit_ns: None,
        intruders: Vec::new(),
        share_of_lost_ppm: 1,
        detail: vec!["d".into()],
        raisers: (1..=raisers).rev().map(raiser).collect(),
        unknown_raisers: 0,
        advice: Vec::new(),
    };
    WhoReport { interrupts: (0..interrupts).map(interrupt).collect(), ..WhoReport::default() }
}

fn limited(mut report: WhoReport, limits: &Limits) -> WhoReport {
    limit(&mut report, limits);
    report
}

/// By certainty: how often all raisers together were there.
fn counts(report: &WhoReport) -> BTreeMap<Certainty, u64> {
    let mut counts = BTreeMap::new();
    for raiser in report.interrupts.iter().flat_map(|interrupt| &interrupt.raisers) {
        *counts.entry(raiser.certainty).or_default() += raiser.count;
    }
    counts
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
    large.interrupts[0].raisers.push(other(Certainty::Certain, 77));
    let limits = Limits { raisers: 20, bytes: usize::MAX };
    let small = limited(large.clone(), &limits);
    assert_eq!(counts(&small), counts(&large));
    for interrupt in &small.interrupts {
        let sums = interrupt.raisers.iter().filter(|raiser| is_sum(raiser)).collect::<Vec<_>>();
        assert!(sums.iter().filter(|sum| !is_nameless(sum)).all(|sum| sum.comm == "stats"));
        let nameless = usize::from(interrupt.cause == large.interrupts[0].cause);
        let each = "a sum for each certainty of the one name, and of what had none";
        assert_eq!((interrupt.raisers.len(), sums.len()), (20 + 2 + nameless, 2 + nameless), "{each}");
        assert!(interrupt.raisers.is_sorted_by(|a, b| a.count >= b.count));
        let frame = &interrupt.raisers.iter().find(|raiser| !is_sum(raiser)).unwrap().user_stack[0];
        assert_eq!(frame.chars().count(), FRAME_CHARS + 3);
        assert!(interrupt.raisers.iter().all(|raiser| is_sum(raiser) || raiser.count > 480), "the most frequent stay");
    }
    assert_eq!(small.missing, ["960 rare raisers are counted together, for lack of room"]);
    assert_eq!(limited(small.clone(), &limits), small, "summing up twice changes nothing");
}

/// A build runs thousands of threads that live for a moment: together they are most of what there is, and have few names.
#[test]
fn rare_raisers_are_counted_together_by_their_names_first() {
    let mut large = report(1, 0);
    for tid in 1..=600u32 {
        // Names with the largest numbers raise most.
        let name = tid % 12;
        let raiser = raiser(u64::from(name) + 1);
        let comm = format!("cc{name}");
        large.interrupts[0].raisers.push(Raiser {
            comm,
            syscall: "munmap".into(),
            pid: tid,
            tid,
            certainty: Certainty::Certain,
            ..raiser
        });
    }
    let before = counts(&large);
    let small = limited(large, &Limits { raisers: 0, bytes: usize::MAX });
    assert_eq!(counts(&small), before);
    let rows: Vec<_> =
        small.interrupts[0].raisers.iter().map(|row| (row.comm.as_str(), row.syscall.as_str(), row.count)).collect();
    let call = |name| if name < 4 { "" } else { "munmap" };
    let wanted: Vec<_> = (0..12u64).rev().map(|name| (format!("cc{name}"), call(name), 50 * (name + 1))).collect();
    let wanted: Vec<_> = wanted.iter().map(|(comm, syscall, count)| (comm.as_str(), *syscall, *count)).collect();
    assert_eq!(rows, wanted);
    assert!(small.interrupts[0].raisers.iter().all(|row| row.pid == 0 && row.tid == 0), "of several processes");
    assert_eq!(limited(small.clone(), &Limits::EVENT), small, "summing up twice changes nothing");
}

/// Twelve names in nine system calls with two certainties are 216 kinds of rows: eight of them are little.
#[test]
fn nothing_is_called_other_while_its_names_are_few() {
    let mut large = report(1, 0);
    for tid in 1..=4_320u32 {
        let (comm, syscall) = (format!("cc{}", tid % 12), format!("call{}", tid / 12 % 9));
        large.interrupts[0].raisers.push(Raiser { comm, syscall, tid, ..raiser(u64::from(tid % 5) + 1) });
    }
    let before = counts(&large);
    let small = limited(large, &Limits { raisers: 200, bytes: usize::MAX });
    assert_eq!(counts(&small), before);
    let raisers = &small.interrupts[0].raisers;
    assert!(
        !raisers.iter().any(is_nameless),
        "{:?}",
        raisers.iter().map(|row| (&row.comm, row.count)).collect::<Vec<_>>()
    );
    assert!(raisers.len() <= 200 + NAMES_AND_CALLS + NAMES, "{}", raisers.len());
}

#[test]
fn whatever_comes_the_report_is_no_larger_than_was_said() {
    for (interrupts, raisers) in [(3, 200), (60, 3), (10_000, 0), (400, 2), (1, 300)] {
        let large = report(interrupts, raisers);
        let small = limited(large.clone(), &Limits::EVENT);
        let json_bytes = serde_json::to_vec(&small).unwrap().len();
        assert!(json_bytes <= Limits::EVENT.bytes, "{interrupts} x {raisers}: {json_bytes}");
        assert!(json_bytes > Limits::EVENT.bytes / 5, "{interrupts} x {raisers}: {json_bytes} wastes room");
        assert!(report_bytes(&small) <= Limits::EVENT.bytes, "{}", report_bytes(&small));
        if small.interrupts.len() == large.interrupts.len() {
            assert_eq!(counts(&small), counts(&large));
        } else {
            let missing = format!("{} kinds of interrupt, ", large.interrupts.len() - small.interrupts.len());
            assert!(small.missing[0].starts_with(&missing), "{:?}", small.missing);
            let cheapest = small.interrupts.iter().map(|interrupt| interrupt.total_ns).min().unwrap();
            assert_eq!(cheapest, 1_000 + (large.interrupts.len() - small.interrupts.len()) as u64);
        }
    }
}

/// The rarest of all go, not those of the interrupt that has many.
#[test]
fn of_several_interrupts_the_most_frequent_raisers_stay() {
    let mut large = report(3, 150);
    large.interrupts[1].raisers.iter_mut().for_each(|raiser| raiser.count += 10_000);
    let before = counts(&large);
    let small = limited(large, &Limits { raisers: usize::MAX, bytes: 1 << 20 });
    assert_eq!(counts(&small), before);
    let told_apart = |at: usize| small.interrupts[at].raisers.iter().filter(|raiser| !is_sum(raiser)).count();
    assert!(told_apart(0) == 0 && told_apart(1) > 30 && told_apart(2) == 0, "{} {}", told_apart(0), told_apart(1));
    let gone = 450 - told_apart(1);
    assert_eq!(small.missing, [format!("{gone} rare raisers are counted together, for lack of room")]);
}

#[test]
fn every_list_is_cut_and_what_went_is_said() {
    let gap = |duration_ns| LoopGap {
        pid: 1,
        tid: 1,
        name: "x".into(),
        cpu: None,
        start_ns: 0,
        duration_ns,
        parts: Vec::new(),
        unexplained_ns: duration_ns,
    };
    let summary = |total_ns| LoopSummary {
        pid: 1,
        tid: 1,
        name: "x".repeat(63),
        threshold_ns: 0,
        gap_count: 1,
        total_ns,
        overwritten: 0,
        not_listed: 0,
    };
    let mut large = report(50_000, 0);
    large.loop_gaps = (0..10_000).map(gap).collect();
    large.loops = (0..10_000).map(summary).collect();
    large.missing = vec!["x".repeat(100_000); 20];
    large.notices = vec![Notice { at_ns: 0, text: "y".repeat(100_000) }; 50];
    let small = limited(large.clone(), &Limits { raisers: usize::MAX, bytes: 4 << 20 });
    assert!(report_bytes(&small) <= 4 << 20);
    assert!(serde_json::to_vec(&small).unwrap().len() <= 4 << 20);
    for (gone, what) in [
        (50_000 - small.interrupts.len(), "kinds of interrupt"),
        (10_000 - small.loop_gaps.len(), "gaps of polling loops"),
        (10_000 - small.loops.len(), "polling loops"),
        (50 - small.notices.len(), "notices"),
        (20 - small.missing.iter().filter(|text| text.starts_with('x')).count(), "sentences"),
    ] {
        let said = format!("{gone} {what}");
        assert!(
            gone > 0 && small.missing.iter().any(|text| text.starts_with(&said)),
            "{said}: {:?}",
            small.missing.last()
        );
    }
    assert!(small.loop_gaps.iter().all(|gap| gap.duration_ns >= 10_000 - small.loop_gaps.len() as u64), "the longest");
}
