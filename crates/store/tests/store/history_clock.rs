//! Times of the history when the wall clock is set or the machine sleeps, gaps that are corrected, and rows that are of
//! no core.

use crate::any_event::{SECOND_NS, plausible_gap, plausible_host, plausible_window, realtime_ns};
use std::path::PathBuf;
use surefoot_model::{ClockChange, CpuId, Event, Gap, GapCorrection, Notice, Verdict};
use surefoot_store::history::{GapFilter, History, Limits, Resolution, View};

const ALL: std::ops::Range<i64> = i64::MIN..i64::MAX;
/// Less than an hour, after which seconds are let go.
const STEP_NS: i64 = 1_800 * SECOND_NS as i64;

fn at(directory: &tempfile::TempDir) -> PathBuf {
    directory.path().join("history.sqlite")
}

fn open(directory: &tempfile::TempDir) -> History {
    History::open(at(directory), Limits::default()).unwrap()
}

/// The clock is set at this time of the plausible host, which is so far off before and after.
fn set(at_ns: u64, before_ns: i64, after_ns: i64) -> Event {
    let offset_ns = realtime_ns(0);
    Event::Clock(ClockChange {
        at_ns,
        former_offset_ns: offset_ns + before_ns,
        realtime_offset_ns: offset_ns + after_ns,
        slept_ns: 0,
    })
}

fn notice(second: u64, text: &str) -> Event {
    Event::Notice(Notice { at_ns: second * SECOND_NS, text: text.into() })
}

#[test]
fn each_stretch_is_kept_by_the_clock_that_held_then() {
    let directory = tempfile::tempdir().unwrap();
    let mut history = open(&directory);
    history.record(&plausible_host(1)).unwrap();
    history.record(&plausible_window(10, 1)).unwrap();
    // Forward by half an hour in the middle of the next window, and further back later.
    history.record(&set(11 * SECOND_NS + SECOND_NS / 2, 0, STEP_NS)).unwrap();
    history.record(&plausible_window(11, 1)).unwrap();
    history.record(&plausible_window(12, 1)).unwrap();
    // Late, and of before the change.
    history.record(&plausible_gap(10, 70_000)).unwrap();
    history.record(&plausible_gap(12, 60_000)).unwrap();
    history.record(&set(20 * SECOND_NS, STEP_NS, -STEP_NS / 2)).unwrap();
    history.record(&plausible_window(20, 1)).unwrap();
    history.record(&notice(21, "after both")).unwrap();
    history.record(&notice(15, "between both")).unwrap();
    // The same change again, as after the history was opened anew.
    history.record(&set(20 * SECOND_NS, STEP_NS, -STEP_NS / 2)).unwrap();
    history.commit().unwrap();

    let view = View::open(at(&directory)).unwrap();
    let windows: Vec<(i64, i64)> =
        view.windows(ALL, Resolution::Second).unwrap().iter().map(|window| (window.start_ns, window.end_ns)).collect();
    let second = |second: u64, ahead_ns: i64| (realtime_ns(second) + ahead_ns, realtime_ns(second + 1) + ahead_ns);
    assert_eq!(windows, [second(20, -STEP_NS / 2), second(10, 0), second(11, 0), second(12, STEP_NS)]);
    let gaps: Vec<i64> = view.gaps(&GapFilter::default()).unwrap().iter().map(|gap| gap.start_ns).collect();
    assert_eq!(gaps, [realtime_ns(10) + 1_234, realtime_ns(12) + STEP_NS + 1_234]);
    let notices: Vec<i64> = view.notices(ALL).unwrap().iter().map(|notice| notice.0).collect();
    assert_eq!(notices, [realtime_ns(21) - STEP_NS / 2, realtime_ns(15) + STEP_NS]);

    let changes = view.clock_changes(ALL).unwrap();
    assert_eq!(changes.len(), 2, "{changes:?}");
    let [first, last] = [&changes[0], &changes[1]];
    assert_eq!(
        (first.former_realtime_ns, first.at_realtime_ns - first.former_realtime_ns),
        (realtime_ns(11) + 500_000_000, STEP_NS)
    );
    assert_eq!(Event::Clock(last.change), set(20 * SECOND_NS, STEP_NS, -STEP_NS / 2));
    let around = |from_ns: i64| view.clock_changes(from_ns..from_ns + 1).unwrap().len();
    assert_eq!((around(first.at_realtime_ns), around(first.former_realtime_ns), around(0)), (1, 1, 0));
}

#[test]
fn a_verdict_that_is_corrected_replaces_the_one_before_and_is_no_further_gap() {
    let corrected = |event: &Event| {
        let Event::Gap(gap) = event else { panic!("no gap") };
        let verdict = Verdict::CorrectedErrorLogging;
        let (former_verdict, former_certainty) = (gap.verdict, gap.certainty);
        let evidence = vec!["an error report followed within a second".to_owned()];
        Event::GapCorrection(GapCorrection {
            gap: Gap { verdict, evidence, ..gap.clone() },
            former_verdict,
            former_certainty,
        })
    };
    let directory = tempfile::tempdir().unwrap();
    let mut history = open(&directory);
    history.record(&plausible_host(1)).unwrap();
    let (written, waiting, other) = (plausible_gap(11, 70_000), plausible_gap(12, 80_000), plausible_gap(13, 80_000));
    history.record(&written).unwrap();
    history.commit().unwrap();
    for event in [&waiting, &other, &corrected(&waiting), &corrected(&written), &corrected(&plausible_gap(14, 5))] {
        history.record(event).unwrap();
    }
    history.commit().unwrap();
    let filter = |verdict| GapFilter { verdict: Some(verdict), ..GapFilter::default() };
    let starts = |verdict| -> Vec<i64> {
        let gaps = history.open_view().unwrap().gaps(&filter(verdict)).unwrap();
        assert!(gaps.iter().all(|kept| kept.gap.verdict == verdict));
        gaps.iter().map(|kept| kept.start_ns).collect()
    };
    let at = |second| realtime_ns(second) + 1_234;
    assert_eq!(starts(Verdict::CorrectedErrorLogging), [at(12), at(11)]);
    assert_eq!(starts(Verdict::HypervisorUnaccounted), [at(13)]);
    assert_eq!(history.dropped().total(), 0);
}

#[test]
fn rows_of_no_core_are_left_out_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let mut history = open(&directory);
    history.record(&plausible_host(2)).unwrap();
    for second in 10..140 {
        history.record(&plausible_window(second, 2)).unwrap();
    }
    history.commit().unwrap();
    drop(history);
    let spoil = "UPDATE core SET cpu = -1 WHERE cpu = 1 AND span = (SELECT max(id) FROM span WHERE resolution_s = 1);
                 UPDATE lost SET cpu = -1 WHERE cpu = 1 AND span = (SELECT max(id) FROM span WHERE resolution_s = 1);
                 UPDATE lost SET cause = 999 WHERE cpu = 0 AND cause = 1 AND span = (SELECT max(id) FROM span WHERE resolution_s = 1);";
    rusqlite::Connection::open(at(&directory)).unwrap().execute_batch(spoil).unwrap();
    let cores = |view: &View| {
        let windows = view.windows(ALL, Resolution::Second).unwrap();
        assert!(windows.iter().flat_map(|window| &window.cores).all(surefoot_model::CoreLedger::sums_up));
        let cores: Vec<CpuId> = windows.last().unwrap().cores.iter().map(|core| core.cpu).collect();
        (windows.len(), cores, windows.unknown_count)
    };
    // Of the last window: the row of the core, its two causes, and one of the other core.
    assert_eq!(cores(&View::open(at(&directory)).unwrap()), (130, vec![CpuId(0)], 4));
    // Nor do they keep its minute from being summed up.
    let mut history = open(&directory);
    history.record(&plausible_host(2)).unwrap();
    for second in 200..260 {
        history.record(&plausible_window(second, 2)).unwrap();
    }
    history.commit().unwrap();
    assert!(history.open_view().unwrap().windows(ALL, Resolution::Minute).unwrap().len() >= 3);
}

/// A host whose clock is far ahead when it starts loses nothing of what it kept, until a later start confirms the time.
#[test]
fn a_clock_that_is_far_ahead_behind_or_stopped_takes_nothing_of_what_was_kept() {
    const DAY: u64 = 86_400;
    let directory = tempfile::tempdir().unwrap();
    let texts = |at_s: &[u64], text: &str| -> Vec<String> {
        let mut history = open(&directory);
        history.record(&plausible_host(1)).unwrap();
        for &second in at_s {
            history.record(&notice(second, text)).unwrap();
        }
        history.commit().unwrap();
        drop(history);
        let view = View::open(at(&directory)).unwrap();
        view.notices(ALL).unwrap().iter().map(|(_, text)| text.clone()).collect()
    };
    assert_eq!(texts(&[1], "kept"), ["kept"]);
    assert_eq!(texts(&[60 * DAY], "ahead"), ["kept", "ahead"]);
    assert_eq!(texts(&[2, 2], "behind").len(), 4, "and stopped");
    assert_eq!(texts(&[60 * DAY + 1], "confirmed"), ["ahead", "confirmed"], "what is older than a month goes");
}
