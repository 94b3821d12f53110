//! What the history keeps, how it sums up, and what it lets go.

use crate::any_event::{self, SECOND_NS, plausible_gap, plausible_host, plausible_window, realtime_ns};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use surefoot_model::{
    Cause, CauseKind, CoreLedger, CpuId, Event, FaultyCore, FaultySum, Gap, LedgerFault, Lost, Notice, SelfCost,
    Verdict, Window,
};
use surefoot_store::Error;
use surefoot_store::history::{GapFilter, History, Limits, Resolution};

const ALL: std::ops::Range<i64> = i64::MIN..i64::MAX;
const MINUTE_NS: i64 = 60 * SECOND_NS as i64;

fn at(directory: &tempfile::TempDir) -> PathBuf {
    directory.path().join("history.sqlite")
}

fn open(path: &Path) -> History {
    History::open(path, Limits::default()).unwrap()
}

/// The ledgers of a window as the history gives them back.
fn cores_of(event: &Event) -> Vec<CoreLedger> {
    let Event::Window(window) = event else { panic!("no window") };
    let mut cores = window.cores.clone();
    for lost in cores.iter_mut().flat_map(|core| &mut core.lost) {
        lost.histogram.0.clear();
    }
    cores
}

fn notice(at_ns: u64, text: &str) -> Event {
    Event::Notice(Notice { at_ns, text: text.into() })
}

#[test]
fn a_history_in_memory_is_read_beside_its_writer_and_is_no_other_one() {
    let mut history = History::in_memory(Limits::default()).unwrap();
    let other = History::in_memory(Limits::default()).unwrap();
    history.record(&plausible_host(2)).unwrap();
    let view = history.open_view().unwrap();
    for second in 10..200 {
        history.record(&plausible_window(second, 2)).unwrap();
        history.commit().unwrap();
        let seen = view.windows(ALL, Resolution::Second).unwrap();
        assert_eq!(seen.rows.last().unwrap().cores, cores_of(&plausible_window(second, 2)));
    }
    assert_eq!(history.dropped().total(), 0);
    assert!(!view.windows(ALL, Resolution::Minute).unwrap().is_empty());
    assert!(other.open_view().unwrap().windows(ALL, Resolution::Second).unwrap().is_empty());
    assert!(!std::path::Path::new("history-0").exists());
}

#[test]
fn windows_gaps_notices_and_hosts_come_back_at_their_time_of_day() {
    let directory = tempfile::tempdir().unwrap();
    let mut history = open(&at(&directory));
    history.record(&plausible_host(2)).unwrap();
    for second in 10..14 {
        history.record(&plausible_window(second, 2)).unwrap();
    }
    history.record(&plausible_gap(11, 70_000)).unwrap();
    history.record(&notice(12 * SECOND_NS, "core 3 went offline")).unwrap();
    history.commit().unwrap();

    let windows = history.open_view().unwrap().windows(realtime_ns(11)..realtime_ns(13), Resolution::Second).unwrap();
    assert_eq!(windows.len(), 2);
    for (window, second) in windows.iter().zip(11..) {
        assert_eq!((window.start_ns, window.end_ns), (realtime_ns(second), realtime_ns(second + 1)));
        assert_eq!(window.cores, cores_of(&plausible_window(second, 2)));
        assert!(window.cores.iter().all(CoreLedger::sums_up));
    }
    let gaps = history.open_view().unwrap().gaps(&GapFilter::default()).unwrap();
    assert_eq!(gaps.len(), 1);
    assert_eq!(gaps[0].start_ns, realtime_ns(11) + 1_234);
    assert_eq!(Event::Gap(gaps[0].gap.clone()), plausible_gap(11, 70_000));
    assert_eq!(
        history.open_view().unwrap().notices(ALL).unwrap(),
        [(realtime_ns(12), "core 3 went offline".to_owned())]
    );
    let hosts = history.open_view().unwrap().hosts().unwrap();
    assert_eq!(hosts.len(), 1);
    assert_eq!((hosts[0].0, Event::Host(hosts[0].1.clone())), (realtime_ns(10), plausible_host(2)));
}

#[test]
fn the_offset_of_the_last_host_holds() {
    let directory = tempfile::tempdir().unwrap();
    let mut history = open(&at(&directory));
    let Event::Host(mut host) = plausible_host(1) else { panic!("no host") };
    for (offset_ns, text) in [(1_000, "before the reboot"), (5_000_000, "after the reboot")] {
        host.realtime_offset_ns = offset_ns;
        history.record(&Event::Host(host.clone())).unwrap();
        history.record(&notice(7, text)).unwrap();
    }
    history.commit().unwrap();
    let times: Vec<i64> =
        history.open_view().unwrap().notices(ALL).unwrap().into_iter().map(|notice| notice.0).collect();
    assert_eq!(times, [1_007, 5_000_007]);
}

#[test]
fn an_event_before_its_host_is_refused_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let mut history = open(&at(&directory));
    assert!(matches!(history.record(&plausible_window(1, 1)), Err(Error::NoHostYet { dropped_events: 1, .. })));
    assert!(matches!(history.record(&plausible_gap(1, 5)), Err(Error::NoHostYet { dropped_events: 2, .. })));
    assert_eq!((history.dropped().windows, history.dropped().gaps), (1, 1));
}

/// The sums that the history should show per minute, made the plain way.
fn minutes_of(seconds: std::ops::Range<u64>, cores: u32) -> BTreeMap<i64, Vec<CoreLedger>> {
    let mut minutes: BTreeMap<i64, Vec<CoreLedger>> = BTreeMap::new();
    for second in seconds {
        let minute = realtime_ns(second).div_euclid(MINUTE_NS) * MINUTE_NS;
        let new = cores_of(&plausible_window(second, cores));
        let Some(sums) = minutes.get_mut(&minute) else {
            minutes.insert(minute, new);
            continue;
        };
        for (sum, core) in sums.iter_mut().zip(new) {
            sum.wall_ns += core.wall_ns;
            sum.idle_ns += core.idle_ns;
            sum.user_ns += core.user_ns;
            sum.kernel_ns += core.kernel_ns;
            sum.unexplained_ns += core.unexplained_ns;
            if let Some(waiting) = &core.waiting {
                sum.waiting.get_or_insert_default().add(waiting);
            }
            for (sum, lost) in sum.lost.iter_mut().zip(core.lost) {
                sum.count += lost.count;
                sum.total_ns += lost.total_ns;
                sum.max_ns = sum.max_ns.max(lost.max_ns);
                sum.while_idle_ns += lost.while_idle_ns;
            }
        }
    }
    minutes.pop_last();
    minutes
}

/// Whatever the commits and restarts, a minute is the sum of its seconds, once each.
#[test]
fn minutes_are_the_sums_of_their_seconds_across_restarts() {
    for (commit_every, restart_every) in [(1, 2_000), (7, 23), (2_000, 2_000), (61, 40), (700, 900)] {
        let directory = tempfile::tempdir().unwrap();
        let mut history = open(&at(&directory));
        history.record(&plausible_host(2)).unwrap();
        for second in 0..1_500 {
            history.record(&plausible_window(second, 2)).unwrap();
            if second % commit_every == 0 {
                history.commit().unwrap();
            }
            if second % restart_every == restart_every - 1 {
                drop(history);
                history = open(&at(&directory));
                history.record(&plausible_host(2)).unwrap();
            }
        }
        history.commit().unwrap();
        let shown = history.open_view().unwrap().windows(ALL, Resolution::Minute).unwrap();
        let expected = minutes_of(0..1_500, 2);
        assert_eq!(shown.len(), expected.len(), "commits every {commit_every}, restarts every {restart_every}");
        for (window, (minute, cores)) in shown.into_iter().zip(expected) {
            assert_eq!((window.start_ns, window.end_ns), (minute, minute + MINUTE_NS));
            assert!(window.cores.iter().all(CoreLedger::sums_up));
            assert_eq!(window.cores, cores);
        }
        assert_eq!(history.open_view().unwrap().windows(ALL, Resolution::Second).unwrap().len(), 1_500);
    }
}

/// The clock was set back: the seconds of a minute come in two visits, and the minute has them all.
#[test]
fn a_minute_that_comes_twice_holds_both() {
    let directory = tempfile::tempdir().unwrap();
    let mut history = open(&at(&directory));
    for _ in 0..2 {
        history.record(&plausible_host(1)).unwrap();
        for second in 0..200 {
            history.record(&plausible_window(second, 1)).unwrap();
        }
        history.commit().unwrap();
    }
    let minutes = history.open_view().unwrap().windows(ALL, Resolution::Minute).unwrap();
    let expected = minutes_of(0..200, 1);
    // The last minute of the first visit became whole when the clock was set back.
    assert_eq!(minutes.len(), expected.len() + 1);
    for (minute, once) in minutes.iter().zip(expected.values()) {
        assert!(minute.cores[0].sums_up());
        assert_eq!(minute.cores[0].wall_ns, 2 * once[0].wall_ns);
        assert_eq!(minute.cores[0].lost[0].count, 2 * once[0].lost[0].count);
    }
}

#[test]
fn age_takes_seconds_after_an_hour_and_the_rest_after_a_month() {
    let directory = tempfile::tempdir().unwrap();
    let limits = Limits { second_spans_kept_s: 100, minute_spans_kept_s: 600, notices_max: 3, ..Limits::default() };
    let mut history = History::open(at(&directory), limits).unwrap();
    history.record(&plausible_host(1)).unwrap();
    for second in 0..1_000 {
        history.record(&plausible_window(second, 1)).unwrap();
        if second % 50 == 0 {
            history.record(&plausible_gap(second, second + 1)).unwrap();
            history.record(&notice(second * SECOND_NS, "a notice")).unwrap();
        }
    }
    history.commit().unwrap();
    let now_ns = realtime_ns(1_000);
    history.prune(now_ns).unwrap();
    let pruned = history.pruned();

    let seconds = history.open_view().unwrap().windows(ALL, Resolution::Second).unwrap();
    assert_eq!(seconds.first().unwrap().start_ns, realtime_ns(900));
    assert_eq!((seconds.len(), pruned.seconds_by_age), (100, 900));
    let minutes = history.open_view().unwrap().windows(ALL, Resolution::Minute).unwrap();
    assert!(minutes.iter().all(|minute| minute.start_ns >= now_ns - 10 * MINUTE_NS));
    assert_eq!(minutes.len() as u64 + pruned.minutes_by_age, minutes_of(0..1_000, 1).len() as u64);
    assert!(pruned.minutes_by_age > 0);
    let gaps = history.open_view().unwrap().gaps(&GapFilter::default()).unwrap();
    assert!(gaps.iter().all(|gap| gap.start_ns >= now_ns - 10 * MINUTE_NS));
    assert_eq!(gaps.len(), 12);
    assert_eq!(history.open_view().unwrap().notices(ALL).unwrap().len(), 3);
    assert_eq!(history.prune(now_ns).unwrap().seconds_by_age, 0);
}

#[test]
fn seconds_stay_until_they_are_in_their_minute() {
    let directory = tempfile::tempdir().unwrap();
    let mut history = open(&at(&directory));
    history.record(&plausible_host(1)).unwrap();
    for second in 0..30 {
        history.record(&plausible_window(second, 1)).unwrap();
    }
    history.prune(realtime_ns(10_000_000)).unwrap();
    let expected = minutes_of(0..30, 1).len();
    let left = history.open_view().unwrap().windows(ALL, Resolution::Second).unwrap().len();
    assert!(left > 0, "the running minute is lost");
    for second in 30..200 {
        history.record(&plausible_window(second, 1)).unwrap();
    }
    history.commit().unwrap();
    let minutes: Vec<_> = history
        .open_view()
        .unwrap()
        .windows(ALL, Resolution::Minute)
        .unwrap()
        .into_iter()
        .map(|window| window.cores)
        .collect();
    // The first prune took whole minutes of the first 30 s, if there was one, for their age.
    assert_eq!(minutes, minutes_of(0..200, 1).into_values().skip(expected).collect::<Vec<_>>());
}

#[test]
fn the_longest_gaps_of_each_day_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let limits = Limits { gaps_per_day_max: 20, ..Limits::default() };
    let mut history = History::open(at(&directory), limits).unwrap();
    history.record(&plausible_host(1)).unwrap();
    for day in 0..3 {
        for number in 0..200u64 {
            let duration_ns = 1_000 + day * 1_000 + number * 77 % 200;
            history.record(&plausible_gap(day * 86_400 + number, duration_ns)).unwrap();
            if number % 30 == 0 {
                history.commit().unwrap();
            }
        }
        history.commit().unwrap();
    }
    let everything = GapFilter { limit: 1_000, ..GapFilter::default() };
    let lengths: Vec<u64> =
        history.open_view().unwrap().gaps(&everything).unwrap().into_iter().map(|kept| kept.gap.duration_ns).collect();
    let expected: Vec<u64> =
        (0..3).rev().flat_map(|day| (180..200).rev().map(move |number| 1_000 + day * 1_000 + number)).collect();
    assert_eq!(lengths, expected);
    assert_eq!(history.pruned().gaps_for_longer, 3 * 180);
}

#[test]
fn gaps_are_found_by_core_length_verdict_and_time() {
    let directory = tempfile::tempdir().unwrap();
    let mut history = open(&at(&directory));
    history.record(&plausible_host(4)).unwrap();
    for second in 0..40 {
        let Event::Gap(gap) = plausible_gap(second, 1_000 + second) else { panic!("no gap") };
        let verdict = if second % 2 == 0 { Verdict::Smi } else { Verdict::Traced };
        let cpu = CpuId((second % 4) as u32);
        history.record(&Event::Gap(Gap { cpu, verdict, ..gap })).unwrap();
    }
    history.commit().unwrap();
    let count = |filter: GapFilter| history.open_view().unwrap().gaps(&filter).unwrap().len();
    assert_eq!(count(GapFilter::default()), 40);
    assert_eq!(count(GapFilter { limit: 7, ..GapFilter::default() }), 7);
    assert_eq!(count(GapFilter { cpu: Some(CpuId(2)), ..GapFilter::default() }), 10);
    assert_eq!(count(GapFilter { verdict: Some(Verdict::Smi), ..GapFilter::default() }), 20);
    assert_eq!(count(GapFilter { duration_ns_min: 1_030, ..GapFilter::default() }), 10);
    assert_eq!(count(GapFilter { range: Some(realtime_ns(5)..realtime_ns(9)), ..GapFilter::default() }), 4);
    let both = GapFilter { cpu: Some(CpuId(1)), verdict: Some(Verdict::Smi), ..GapFilter::default() };
    assert_eq!(count(both), 0);
}

#[test]
fn the_file_stays_within_its_size_and_the_oldest_goes_first() {
    let directory = tempfile::tempdir().unwrap();
    let limits = Limits { size_bytes_max: 1 << 20, second_spans_kept_s: 1_000_000, ..Limits::default() };
    let mut history = History::open(at(&directory), limits.clone()).unwrap();
    history.record(&plausible_host(8)).unwrap();
    let mut largest = 0;
    for second in 0..8_000 {
        history.record(&plausible_window(second, 8)).unwrap();
        if second % 20 == 0 {
            history.commit().unwrap();
            largest = largest.max(history.size_bytes().unwrap());
        }
    }
    history.commit().unwrap();
    assert!(largest <= limits.size_bytes_max, "{largest}");
    let seconds = history.open_view().unwrap().windows(ALL, Resolution::Second).unwrap();
    let minutes = history.open_view().unwrap().windows(ALL, Resolution::Minute).unwrap();
    assert_eq!(seconds.last().unwrap().start_ns, realtime_ns(7_999));
    assert!(seconds.len() > 500, "{}", seconds.len());
    let whole_minutes = minutes_of(0..8_000, 1).len() as u64;
    assert_eq!(seconds.len() as u64 + minutes.len() as u64 + history.pruned().spans_by_size, 8_000 + whole_minutes);
    assert!(history.pruned().spans_by_size > 1_000);
    assert_eq!(history.dropped().total(), 0);
}

#[test]
fn a_smaller_limit_shrinks_an_existing_file() {
    let directory = tempfile::tempdir().unwrap();
    let mut history = open(&at(&directory));
    history.record(&plausible_host(16)).unwrap();
    for second in 0..4_000 {
        history.record(&plausible_window(second, 16)).unwrap();
    }
    history.commit().unwrap();
    drop(history);
    let limits = Limits { size_bytes_max: 3 << 20, second_spans_kept_s: 1_000_000, ..Limits::default() };
    let mut history = History::open(at(&directory), limits).unwrap();
    let before = history.size_bytes().unwrap();
    assert!(before > 5 << 20, "{before}");
    history.prune(realtime_ns(4_000)).unwrap();
    drop(history);
    let after = std::fs::metadata(at(&directory)).unwrap().len();
    assert!(after <= 4 << 20, "{before} became {after}");
    let history = open(&at(&directory));
    assert!(history.open_view().unwrap().windows(ALL, Resolution::Second).unwrap().len() > 500);
}

#[test]
fn causes_beyond_the_limit_are_kept_by_kind() {
    let directory = tempfile::tempdir().unwrap();
    let mut history = open(&at(&directory));
    history.record(&plausible_host(1)).unwrap();
    let lost = |number| Lost::new(Cause::new(CauseKind::Preemption, format!("task {number}")), 1, 10, 10);
    let core = CoreLedger {
        cpu: CpuId(0),
        wall_ns: 120_000,
        idle_ns: 0,
        user_ns: 0,
        kernel_ns: 0,
        lost: (0..12_000).map(lost).collect(),
        unexplained_ns: 0,
        waiting: None,
    };
    let window = Window {
        start_ns: 0,
        end_ns: SECOND_NS,
        cores: vec![core],
        faulty: Vec::new(),
        untimed: vec![],
        completeness: vec![],
        cost: SelfCost::default(),
    };
    history.record(&Event::Window(window)).unwrap();
    history.commit().unwrap();
    let windows = history.open_view().unwrap().windows(ALL, Resolution::Second).unwrap();
    let core = &windows[0].cores[0];
    assert!(core.sums_up());
    assert_eq!(core.lost.len(), 10_001);
    assert_eq!(core.lost[0].cause, Cause::new(CauseKind::Preemption, "(other names)"));
    assert_eq!((core.lost[0].count, core.lost[0].total_ns), (2_000, 20_000));
}

#[test]
fn a_view_in_another_thread_reads_while_the_history_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let mut history = open(&at(&directory));
    history.record(&plausible_host(2)).unwrap();
    history.commit().unwrap();
    let view = history.open_view().unwrap();
    let reader = std::thread::spawn(move || {
        let mut seen = 0;
        while seen < 300 {
            let windows = view.windows(ALL, Resolution::Second).unwrap();
            assert!(windows.len() >= seen);
            assert!(
                windows.iter().all(|window| window.cores.len() == 2 && window.cores.iter().all(CoreLedger::sums_up))
            );
            seen = windows.len();
        }
    });
    for second in 0..300 {
        history.record(&plausible_window(second, 2)).unwrap();
        history.commit().unwrap();
    }
    reader.join().unwrap();
}

#[test]
fn a_reader_that_never_ends_cannot_make_the_log_grow_for_ever() {
    let directory = tempfile::tempdir().unwrap();
    let limits = Limits { size_bytes_max: 2 << 20, waiting_bytes_max: 20_000, ..Limits::default() };
    let mut history = History::open(at(&directory), limits).unwrap();
    history.record(&plausible_host(8)).unwrap();
    history.record(&plausible_window(0, 8)).unwrap();
    history.commit().unwrap();
    let view = history.open_view().unwrap();
    let mut refused = None;
    view.for_each_window(ALL, Resolution::Second, |_| {
        for second in 1..2_000 {
            // It commits too, where the last commit is a second ago.
            refused = history.record(&plausible_window(second, 8)).err().or(refused.take());
            refused = history.commit().err().or(refused.take());
            if history.dropped().windows > 10 {
                break;
            }
        }
        ControlFlow::Break(())
    })
    .unwrap();
    let refused = refused.expect("the log has no limit").to_string();
    assert!(refused.contains("its log is at its limit"), "{refused}");
    assert!(history.size_bytes().unwrap() < 3 << 20);
    assert!(history.dropped().windows > 10);
    history.record(&plausible_window(2_000, 8)).unwrap();
    history.commit().unwrap();
    let notices = history.open_view().unwrap().notices(ALL).unwrap();
    assert!(notices.iter().any(|notice| notice.1.contains("could not be written for a while")), "{notices:?}");
}

/// Once a minute, and so with the first commit, the history looks after the age of what it holds by itself.
#[test]
fn age_is_kept_without_being_asked_and_a_strange_time_takes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let Event::Host(mut host) = plausible_host(1) else { panic!("no host") };
    let now_ns = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as i64;
    host.realtime_offset_ns = now_ns - 8_001 * SECOND_NS as i64;
    let mut history = open(&at(&directory));
    history.record(&Event::Host(host.clone())).unwrap();
    for second in [0, 60, 120, 8_000] {
        history.record(&plausible_window(second, 1)).unwrap();
    }
    history.commit().unwrap();
    assert_eq!(history.open_view().unwrap().windows(ALL, Resolution::Second).unwrap().len(), 1);
    assert_eq!(history.open_view().unwrap().windows(ALL, Resolution::Minute).unwrap().len(), 3);
    drop(history);

    let mut history = open(&at(&directory));
    history.record(&Event::Host(host)).unwrap();
    let year_2200 = 5_500_000_000 * SECOND_NS;
    history.record(&notice(year_2200, "from a clock that is set wrong")).unwrap();
    history.commit().unwrap();
    assert_eq!(
        history.open_view().unwrap().windows(ALL, Resolution::Minute).unwrap().len(),
        3,
        "{:?}",
        history.pruned()
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn no_event_is_too_strange_to_keep(events in prop::collection::vec(any_event::event(), 0..12), now in any::<i64>()) {
        let directory = tempfile::tempdir().unwrap();
        let limits = Limits { minute_spans_kept_s: u64::MAX, second_spans_kept_s: u64::MAX, ..Limits::default() };
        let mut history = History::open(at(&directory), limits).unwrap();
        history.record(&plausible_host(1)).unwrap();
        for event in &events {
            history.record(event).unwrap();
        }
        history.commit().unwrap();
        let kept: Vec<Gap> = history.open_view().unwrap().gaps(&GapFilter::default()).unwrap().into_iter().map(|kept| kept.gap).collect();
        for event in &events {
            if let Event::Gap(gap) = event {
                prop_assert!(kept.contains(gap));
            }
        }
        let windows = events.iter().filter(|event| matches!(event, Event::Window(_))).count();
        prop_assert!(history.open_view().unwrap().windows(ALL, Resolution::Second).unwrap().len() <= windows);
        history.prune(now).unwrap();
    }
}

#[test]
fn windows_longer_than_a_minute_are_whole_in_the_minutes_too() {
    let directory = tempfile::tempdir().unwrap();
    let mut history = open(&at(&directory));
    history.record(&plausible_host(2)).unwrap();
    for number in 0..4u64 {
        let Event::Window(mut window) = plausible_window(number * 300, 2) else { panic!() };
        window.end_ns = window.start_ns + 300 * SECOND_NS;
        for core in &mut window.cores {
            core.wall_ns += 299 * SECOND_NS;
            core.idle_ns += 299 * SECOND_NS;
        }
        history.record(&Event::Window(window)).unwrap();
    }
    history.commit().unwrap();
    let minutes = history.open_view().unwrap().windows(ALL, Resolution::Minute).unwrap();
    assert_eq!(minutes.len(), 3, "the last one is still open");
    for minute in minutes.iter() {
        assert_eq!(minute.faulty, []);
        assert!(minute.cores.len() == 2 && minute.cores.iter().all(|core| core.wall_ns == 300 * SECOND_NS));
    }
}

#[test]
fn ledgers_that_were_left_out_of_a_window_stay_known_in_seconds_and_minutes() {
    let directory = tempfile::tempdir().unwrap();
    let mut history = open(&at(&directory));
    let fault = LedgerFault::Sum { parts_ns: 1_300_000_000, wall_ns: SECOND_NS };
    let later = LedgerFault::WhileIdle { while_idle_ns: 2, total_ns: 1 };
    history.record(&plausible_host(3)).unwrap();
    for second in 0..130 {
        let Event::Window(mut window) = plausible_window(second, 3) else { panic!() };
        if second % 10 == 3 {
            window.cores.remove(1);
            window.faulty.push(FaultyCore { cpu: CpuId(1), fault: if second < 60 { fault } else { later } });
        }
        history.record(&Event::Window(window)).unwrap();
    }
    history.commit().unwrap();
    let faulty = |count: u64, fault: LedgerFault| FaultySum { cpu: CpuId(1), count, fault };
    let seconds = history.open_view().unwrap().windows(ALL, Resolution::Second).unwrap();
    let told: Vec<&FaultySum> = seconds.iter().flat_map(|second| &second.faulty).collect();
    assert_eq!(told.len(), 13);
    assert_eq!((*told[0], *told[12]), (faulty(1, fault), faulty(1, later)));
    drop(history);
    // Another run of the program adds to the minutes, and the numbers go on.
    let history = open(&at(&directory));
    let minutes = history.open_view().unwrap().windows(ALL, Resolution::Minute).unwrap();
    let told: Vec<FaultySum> = minutes.iter().flat_map(|minute| minute.faulty.clone()).collect();
    // The time of day of these seconds begins 20 s into a minute.
    assert_eq!(told, [faulty(4, fault), faulty(6, fault)]);
    assert!(minutes.iter().all(|minute| minute.cores.len() == 3), "the other seconds of the core are in the sums");
}
