#![allow(clippy::unwrap_used)]

use super::claims::{JOINED_PER_LOOK, LOOPS};
use super::timeline::{ANCHOR_ERROR_NS, CALIBRATION, span};
use super::*;
use crate::gap::judge::Judge;
use crate::gap::witness::Witness;
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use surefoot_hostfs::clock::TscClock;
use surefoot_hostfs::identity::Identity;
use surefoot_inloop::{Loop, Options};
use surefoot_model::LoopGap;
use surefoot_probes::Probes;
use surefoot_probes::layout::Turn;
use surefoot_sys::thread;
use surefoot_testkit::not_run::not_run;

fn directory() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("surefoot-test-").tempdir_in("/dev/shm").unwrap()
}

/// Loops over a timeline without tapes, as if the watch had begun at this counter reading.
fn loops(start_ticks: u64) -> Loops {
    let clock = TscClock::calibrate_for(Duration::from_millis(5)).unwrap();
    let start_ns = clock.ns(start_ticks);
    let judge = Judge::new(Witness::open(&Root::host(), &Identity::read(&Root::host()), None), true);
    let claims = Claims::since(&Root::host(), start_ns);
    Loops {
        root: Root::host(),
        cpus: vec![CpuId(1)],
        reader: None,
        unusable: None,
        next_poll_ns: 0,
        are_there: false,
        timeline: Some(Timeline {
            clock,
            anchored_ns: 0,
            worst_anchor_ns: 0,
            judge,
            lost_turns_before: 0,
            lost_turns: 0,
        }),
        arrivals: Arrivals::default(),
        claims,
        kept: Kept::new(GAPS_LISTED),
    }
}

fn of_loop(tid: u32, gaps: &[(u64, u64)]) -> LoopGaps {
    LoopGaps {
        pid: 1,
        tid,
        name: "receive".into(),
        threshold_ticks: 10_000,
        gaps: gaps.to_vec(),
        overwritten: 0,
        ended: false,
    }
}

/// Their directory stays after the last one; a watch that read the rings often for its sake did so for ever.
#[test]
fn only_loops_that_run_are_a_reason_to_look_often() {
    const TEST: &str = "only_loops_that_run_are_a_reason_to_look_often";
    let mut traced = match Probes::attach(&surefoot_probes::Options::default()) {
        Ok(probes) => Traced::new(&Root::host(), probes, &[CpuId(0)]),
        Err(error) => return not_run(TEST, &error.to_string()),
    };
    let directory = directory();
    let mut loops = Loops::open(&Root::host(), &mut traced, &[CpuId(0)], directory.path().to_path_buf());
    loops.poll(&mut traced);
    if loops.timeline.is_none() {
        return not_run(TEST, "gaps of loops cannot be placed here");
    }
    assert!(!loops.are_followed(), "there were some once");
    let options = Options { directory: directory.path().to_path_buf(), ..Options::new(Duration::from_millis(1)) };
    let noting = Loop::open_with("poller", &options).unwrap();
    let mut follows = |wanted: bool| {
        (0..1_000).any(|_| {
            loops.last_poll_follows();
            loops.poll(&mut traced);
            std::thread::sleep(Duration::from_millis(5));
            loops.are_followed() == wanted
        })
    };
    assert!(follows(true), "it runs");
    drop(noting);
    assert!(follows(false), "it has ended");
}

#[test]
fn gaps_that_cannot_have_been_do_not_count() {
    let now = clock::tsc();
    let mut loops = loops(now - 1_000_000);
    let claims = [
        (now - 900_000, now - 800_000),
        // Within the last, over it, never over, backwards.
        (now - 850_000, now - 840_000),
        (now - 870_000, now - 700_000),
        (now - 700_000, now + 1_000_000_000),
        (now - 600_000, now - 650_000),
        (now - 500_000, now - 400_000),
    ];
    loops.take(of_loop(7, &claims), now);
    assert_eq!(loops.claims.impossible, 4);
    let summary = &loops.claims.noted[0].summary;
    assert_eq!((summary.gap_count, loops.claims.waiting.len()), (2, 2));
    assert!(loops.missing()[0].starts_with("4 gaps that loops claim"), "{:?}", loops.missing());
}

#[test]
fn time_before_the_watch_is_cut_off() {
    let now = clock::tsc();
    let mut loops = loops(now - 1_000_000);
    loops.take(of_loop(7, &[(0, 5), (10, now - 500_000), (now - 400_000, now - 300_000)]), now);
    let half_ns = loops.timeline.as_ref().unwrap().clock.duration_ns(500_000);
    let summary = loops.claims.noted[0].summary.clone();
    assert_eq!(summary.gap_count, 2, "the one that was over before does not count");
    let longest = &loops.claims.waiting[0];
    assert_eq!(longest.start_ns, loops.claims.start_ns);
    assert!((longest.end_ns - longest.start_ns).abs_diff(half_ns) <= 2, "{half_ns}");
    assert_eq!(summary.total_ns, loops.claims.waiting.iter().map(|gap| gap.end_ns - gap.start_ns).sum::<u64>());
}

#[test]
fn loops_beyond_the_limit_are_counted_together() {
    let now = clock::tsc();
    let mut loops = loops(now - 1_000_000);
    for tid in 0..LOOPS as u32 + 3 {
        loops.take(of_loop(tid, &[(now - 900, now - 800), (now - 700, now - 600)]), now);
    }
    assert_eq!((loops.claims.noted.len(), loops.claims.numbers.len(), loops.claims.of_more_loops), (LOOPS, LOOPS, 6));
}

#[test]
fn a_look_joins_the_longest_and_counts_the_rest() {
    let now = clock::tsc();
    let mut loops = loops(now - 100_000_000);
    let count = JOINED_PER_LOOK as u64 + 100;
    let gaps: Vec<(u64, u64)> = (0..count)
        .map(|number| (now - 90_000_000 + number * 50_000, now - 90_000_000 + number * 50_000 + 9_000 + number * 9))
        .collect();
    loops.take(of_loop(7, &gaps), now);
    loops.claims.choose(0);
    assert_eq!((loops.claims.waiting.len(), loops.claims.noted[0].summary.not_listed), (JOINED_PER_LOOK, 100));
    let shortest = loops.claims.waiting.iter().map(|gap| gap.end_ns - gap.start_ns).min().unwrap();
    assert!(shortest >= loops.timeline.as_ref().unwrap().clock.duration_ns(9_000 + 99 * 9));
}

#[test]
fn where_the_counter_is_not_vouched_for_nothing_is_converted_and_that_is_said() {
    let tree = surefoot_testkit::HostTree::new()
        .file("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n");
    let now = clock::tsc();
    let mut loops = loops(now - 1_000_000);
    loops.timeline = None;
    loops.root = Root::at(tree.path());
    assert!(!clock::trusted(&loops.root));
    loops.unusable = Some("the kernel keeps time by hpet".into());
    loops.take(of_loop(7, &[(now - 900, now - 800)]), now);
    loops.take(of_loop(8, &[(now - 900, now - 800), (now - 700, now - 600)]), now);
    let mut report = WhoReport::default();
    loops.report(&mut report, GAPS_LISTED);
    assert!(report.loops.is_empty() && report.loop_gaps.is_empty());
    loops.reader = Some(Reader::open(directory().path()).unwrap());
    assert_eq!(loops.missing(), ["3 gaps of 2 polling threads: the kernel keeps time by hpet"]);
}

proptest! {
    /// Whatever loops claim: what is counted is listed, waits, or is counted as not listed, and no time is made up.
    #[test]
    fn every_gap_is_counted_once_and_no_loop_gets_more_time_than_there_was(
        claims in prop::collection::vec((0u32..3, any::<u32>(), any::<u32>()), 0..300),
    ) {
        let now = clock::tsc();
        let mut loops = loops(now.saturating_sub(1 << 31));
        let total = claims.len() as u64;
        for (tid, before, length) in claims {
            let before = (now - (1 << 31)).saturating_add(u64::from(before) / 2);
            loops.take(of_loop(tid, &[(before, before + u64::from(length) / 64)]), now);
        }
        loops.claims.choose(0);
        let counted: u64 = loops.claims.noted.iter().map(|noted| noted.summary.gap_count).sum();
        let not_listed: u64 = loops.claims.noted.iter().map(|noted| noted.summary.not_listed).sum();
        prop_assert!(counted + loops.claims.impossible <= total);
        prop_assert_eq!(loops.claims.waiting.len() as u64 + not_listed, counted);
        let wall_ns = loops.timeline.as_ref().unwrap().clock.duration_ns(1 << 31) + 1_000;
        prop_assert!(loops.claims.noted.iter().all(|noted| noted.summary.total_ns <= wall_ns));
    }

    /// Converting keeps the order of instants and the length of gaps, and a new anchor moves an instant of the last
    /// few milliseconds by less than a microsecond.
    #[test]
    fn an_anchor_moves_no_instant_far(ages in prop::collection::vec(0u64..50_000_000, 1..40), length in 1u64..10_000_000) {
        let mut clock = TscClock::calibrate_for(Duration::from_millis(2)).unwrap();
        let now = clock::tsc();
        let mut ticks: Vec<u64> = ages.iter().map(|age| now - age).collect();
        ticks.sort_unstable();
        let before: Vec<u64> = ticks.iter().map(|&ticks| clock.ns(ticks)).collect();
        prop_assert!(before.is_sorted());
        for &ticks in &ticks {
            let converted_ns = clock.ns(ticks + length) - clock.ns(ticks);
            prop_assert!(converted_ns.abs_diff(clock.duration_ns(length)) <= 2);
        }
        clock.reanchor();
        prop_assume!(clock.anchor_error_ns() < ANCHOR_ERROR_NS);
        for (ticks, before_ns) in ticks.iter().zip(before) {
            prop_assert!(clock.ns(*ticks).abs_diff(before_ns) < 1_000, "{} and {before_ns}", clock.ns(*ticks));
        }
    }
}

/// An interrupt of the thread: when the tape has it begin and end.
fn interruptions(turns: &[Turn], tid: u32) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    let mut began = None;
    for turn in turns {
        let is_work = turn.depth == 0 && turn.pid == tid;
        match (began, is_work) {
            (None, false) => began = Some(turn.at_ns),
            (Some(start_ns), true) => {
                found.push((start_ns, turn.at_ns));
                began = None;
            }
            _ => {}
        }
    }
    found
}

/// A span lies where the real clock says, to a microsecond, all through a run with its anchors. This holds the conversion
/// to its bound: the tape alone cannot, because a guest's entry and exit pad a gap by more than that on either side.
#[test]
fn a_span_lies_between_readings_of_the_real_clock_to_a_microsecond() {
    const NAME: &str = "a_span_lies_between_readings_of_the_real_clock_to_a_microsecond";
    let mut clock = TscClock::calibrate_for(CALIBRATION).unwrap();
    let bracketed = || {
        let (early_ns, ticks, late_ns) = (clock::monotonic_ns(), surefoot_inloop::ticks(), clock::monotonic_ns());
        (early_ns, ticks, late_ns)
    };
    let mut checked = 0;
    let begun = std::time::Instant::now();
    for turn in 0u64.. {
        if turn >= 200 && checked > 20 {
            break;
        }
        if begun.elapsed() > Duration::from_secs(120) {
            return not_run(NAME, "this thread is held up all the time");
        }
        let from = bracketed();
        std::thread::sleep(Duration::from_millis(5));
        let to = bracketed();
        clock.reanchor();
        // This thread may be held up between two readings, or while an anchor is taken.
        if [from, to].iter().any(|read| read.2 - read.0 > 2_000) || clock.anchor_error_ns() > ANCHOR_ERROR_NS {
            continue;
        }
        let (start_ns, end_ns) = span(&clock, from.1, to.1);
        for (found_ns, read) in [(start_ns, from), (end_ns, to)] {
            assert!(found_ns + 1_000 >= read.0 && found_ns <= read.2 + 1_000, "{found_ns} is not in {read:?}");
        }
        checked += 1;
    }
}

/// The loop and the ledger meet: each interruption on the tape, those of a thread of ours among them, lies in a gap that
/// the loop noted.
#[test]
fn what_the_tape_shows_lies_in_the_gaps_of_the_loop() {
    const NAME: &str = "what_the_tape_shows_lies_in_the_gaps_of_the_loop";
    const THRESHOLD: Duration = Duration::from_micros(1);
    let probes = match surefoot_probes::Probes::attach(&surefoot_probes::Options::default()) {
        Ok(probes) => probes,
        Err(error) => return not_run(NAME, &error.to_string()),
    };
    let cores = surefoot_hostfs::cpus::online(&Root::host()).unwrap();
    if cores.len() < 2 || !clock::trusted(&Root::host()) {
        return not_run(NAME, "needs two cores and a counter that the kernel vouches for");
    }
    let cpu = *cores.last().unwrap();
    let directory = directory();
    let mut traced = Traced::new(&Root::host(), probes, &[cpu]);
    let mut loops = Loops::open(&Root::host(), &mut traced, &[cpu], directory.path().to_owned());
    let stop = AtomicBool::new(false);
    let intrusions = AtomicU32::new(0);
    let (tid, turns, waiting) = std::thread::scope(|scope| {
        let poller = scope.spawn(|| {
            thread::pin_to(cpu).unwrap();
            let options = Options { directory: directory.path().to_owned(), threshold: THRESHOLD, capacity: 4_096 };
            let mut gaps = Loop::open_with("poll", &options).unwrap();
            gaps.restart();
            while !stop.load(Ordering::Relaxed) {
                gaps.turn();
            }
            thread::current_tid()
        });
        // It takes the core for long enough to be among the gaps that are joined, however many shorter ones a busy
        // hypervisor makes and however rare the machine's own interruptions are.
        scope.spawn(|| {
            thread::pin_to(cpu).unwrap();
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(4));
                let begun = std::time::Instant::now();
                while begun.elapsed() < Duration::from_micros(300) {}
                intrusions.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut all = Vec::new();
        let mut turns = Vec::new();
        let begun = std::time::Instant::now();
        for look in 0.. {
            let is_enough = look >= 200 && intrusions.load(Ordering::Relaxed) >= 100;
            if is_enough || begun.elapsed() > Duration::from_secs(60) {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
            loops.poll(&mut traced);
            all.extend(loops.claims.waiting.iter().map(|gap| (gap.start_ns, gap.end_ns)));
            traced.tapes.read(&traced.probes, &[cpu]);
            turns.extend_from_slice(traced.tapes.fresh(cpu).0);
            loops.join(&mut traced, |_| {});
        }
        stop.store(true, Ordering::Relaxed);
        (poller.join().unwrap(), turns, all)
    });
    let from_ns = waiting.iter().map(|gap| gap.0).min().unwrap_or(0);
    let to_ns = waiting.iter().map(|gap| gap.1).max().unwrap_or(0);
    // What is shorter than its threshold the loop notes only as far as entry and exit make it longer; and of more gaps than
    // can be listed the shortest are not joined.
    let least_ns = loops.kept.shortest_ns().unwrap_or(0).max(THRESHOLD.as_nanos() as u64);
    let is_noted = |span: &(u64, u64)| span.1 - span.0 > least_ns;
    let is_within = |span: &(u64, u64)| span.0 > from_ns && span.1 < to_ns && is_noted(span);
    let on_tape: Vec<(u64, u64)> = interruptions(&turns, tid).into_iter().filter(is_within).collect();
    let holds = |span: &(u64, u64), slack_ns: u64| {
        waiting.iter().any(|gap| gap.0 <= span.0 + slack_ns && span.1 <= gap.1 + slack_ns)
    };
    assert!(on_tape.len() > 20, "{} interruptions, {} gaps", on_tape.len(), waiting.len());
    let held: Vec<(u64, u64)> = on_tape.iter().copied().filter(|span| holds(span, 1_000)).collect();
    // A kernel may not report every switch: one of a Firecracker guest has none away from the threads of its agent, in
    // its own trace (events/sched/sched_switch) neither. Then the tape has the agent run on while the loop does, up to
    // the next switch: an interruption that was none, over many gaps that have no causes.
    assert!(
        held.len() * 100 >= on_tape.len() * 97,
        "{} of {} interruptions lie in {} gaps",
        held.len(),
        on_tape.len(),
        waiting.len()
    );

    let mut report = WhoReport::default();
    loops.report(&mut report, GAPS_LISTED);
    assert_eq!(report.loops.len(), 1, "{:?}", report.missing);
    let summary = &report.loops[0];
    assert_eq!(summary.gap_count, report.loop_gaps.len() as u64 + summary.not_listed);
    assert!(summary.threshold_ns.abs_diff(1_000) <= 5, "{summary:?}");
    for gap in &report.loop_gaps {
        assert_eq!(
            gap.parts.iter().map(|part| part.total_ns).sum::<u64>() + gap.unexplained_ns,
            gap.duration_ns,
            "{gap:?}"
        );
        assert_eq!((gap.tid, gap.name.as_str()), (tid, "poll"));
    }
    let placed = report.loop_gaps.iter().filter(|gap| gap.cpu == Some(cpu)).count();
    assert!(placed * 100 >= report.loop_gaps.len() * 95, "{placed} of {}", report.loop_gaps.len());
    // A gap without an interruption on the tape is the hypervisor's or the processor's, and stays unexplained.
    let touched =
        |gap: &LoopGap| held.iter().any(|span| span.0 < gap.start_ns + gap.duration_ns && gap.start_ns < span.1);
    let (with, without): (Vec<&LoopGap>, Vec<&LoopGap>) = report.loop_gaps.iter().partition(|gap| touched(gap));
    let named = with.iter().filter(|gap| !gap.parts.is_empty()).count();
    assert!(
        with.len() > 20 && named * 100 >= with.len() * 90,
        "{named} of {} gaps with an interruption have causes; {} gaps have none",
        with.len(),
        without.len()
    );
}
