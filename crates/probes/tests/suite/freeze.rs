//! Cores held for known times, on the running kernel.

use super::raisers::{PATIENCE, pin};
use std::time::{Duration, Instant};
use surefoot_model::CpuId;
use surefoot_probes::{Error, FREEZE_LEAD_NS, FREEZE_RECORDS, FreezePlan, FreezeRecord, Freezer};
use surefoot_testkit::not_run::not_run;

fn load(test: &str) -> Option<Freezer> {
    match Freezer::load() {
        Ok(freezer) => Some(freezer),
        Err(Error::Unsupported { why, .. }) => {
            not_run(test, &why);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local timespec; CLOCK_MONOTONIC always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn plan(length_us: u64, period_ms: u64, count: u64) -> FreezePlan {
    FreezePlan {
        start_ns: now_ns() + 20_000_000,
        length_ns: length_us * 1_000,
        period_ns: period_ms * 1_000_000,
        count,
        lead_ns: FREEZE_LEAD_NS,
        ..FreezePlan::default()
    }
}

/// Waits until all stalls of the plan were or were missed.
fn all(freezer: &Freezer, cpu: CpuId, count: u64) -> (FreezePlan, Vec<FreezeRecord>) {
    let give_up = Instant::now() + PATIENCE;
    loop {
        let plan = freezer.plan(cpu).unwrap();
        if plan.done + plan.missed >= count {
            let mut records = Vec::new();
            assert_eq!(freezer.read(cpu, 0, &mut records), (plan.done, 0));
            return (plan, records);
        }
        assert!(Instant::now() < give_up, "{plan:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A plan of 25 stalls, what came of it, and when the loop of a program on that core stood still.
fn held(freezer: &Freezer, cpu: CpuId) -> (FreezePlan, FreezePlan, Vec<FreezeRecord>, Vec<(u64, u64)>) {
    let asked = plan(300, 20, 25);
    freezer.arm(cpu, &asked).unwrap();
    let (mut gaps, mut before) = (Vec::new(), now_ns());
    while before < asked.start_ns + 25 * asked.period_ns {
        let now = now_ns();
        if now - before > 200_000 {
            gaps.push((before, now));
        }
        before = now;
    }
    let (done, records) = all(freezer, cpu, 25);
    (asked, done, records, gaps)
}

#[test]
fn a_core_is_held_at_the_times_of_its_plan_and_not_after() {
    let Some(freezer) = load("a_core_is_held_at_the_times_of_its_plan_and_not_after") else { return };
    let cpu = CpuId(0);
    pin(cpu.0);
    let give_up = Instant::now() + PATIENCE;
    let (asked, records, gaps) = loop {
        let (asked, done, records, gaps) = held(&freezer, cpu);
        assert_eq!((done.done + done.missed, done.cut, done.moved, done.refused), (25, 0, 0, 0), "{done:?}");
        // A guest that its host stops for a while misses those of that time.
        if done.done >= 10 {
            break (asked, records, gaps);
        }
        assert!(Instant::now() < give_up, "{done:?}");
    };
    for record in &records {
        assert_eq!((record.target_ns - asked.start_ns) % asked.period_ns, 0);
        assert!(record.left_ns >= record.target_ns + asked.length_ns, "never shorter than to its end: {record:?}");
        let is_within = |gap: &&(u64, u64)| gap.0 <= record.entered_ns + 50_000 && record.left_ns <= gap.1;
        assert!(gaps.iter().any(|gap| is_within(&gap)), "{record:?} in {gaps:?}");
    }
    let mut ends: Vec<u64> = records.iter().map(|record| record.left_ns - record.target_ns - asked.length_ns).collect();
    ends.sort_unstable();
    // A host may take its time at any of them, and makes none end sooner.
    assert!(ends[0] < 20_000, "they end on time: {ends:?}");
    // Stopped in the middle, none follows.
    freezer.arm(cpu, &plan(100, 10, 1_000)).unwrap();
    std::thread::sleep(Duration::from_millis(60));
    freezer.disarm(cpu).unwrap();
    let stopped = freezer.plan(cpu).unwrap();
    assert!(stopped.done + stopped.missed > 0 && stopped.done < 1_000, "{stopped:?}");
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(freezer.plan(cpu).unwrap(), stopped);
}

#[test]
fn a_core_is_let_go_when_nobody_tells_that_he_still_drives_it() {
    let Some(freezer) = load("a_core_is_let_go_when_nobody_tells_that_he_still_drives_it") else { return };
    let cpu = CpuId(0);
    pin(cpu.0);
    let asked = plan(100, 10, 1_000);
    let until_ns = asked.start_ns + 100_000_000;
    freezer.arm(cpu, &FreezePlan { until_ns, ..asked }).unwrap();
    let ended = || {
        let give_up = Instant::now() + PATIENCE;
        while freezer.plan(cpu).unwrap().lapsed == 0 {
            assert!(Instant::now() < give_up, "{:?}", freezer.plan(cpu));
            std::thread::sleep(Duration::from_millis(5));
        }
        freezer.plan(cpu).unwrap()
    };
    let plan = ended();
    assert!(plan.done <= 12, "of 1,000, those of 100 ms: {plan:?}");
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(freezer.plan(cpu).unwrap(), plan, "none follows");
    // Who tells so is obeyed, and armed anew it begins anew.
    // From a second on: what lets it go on comes before its end.
    let asked = FreezePlan { start_ns: now_ns() + 1_000_000_000, ..self::plan(100, 10, 20) };
    freezer.arm(cpu, &FreezePlan { until_ns: asked.start_ns, ..asked }).unwrap();
    freezer.go_on_until(cpu, asked.start_ns + 60_000_000_000);
    let (done, _) = all(&freezer, cpu, 20);
    assert_eq!(done.lapsed, 0, "{done:?}");
}

/// The timer alone, with nothing to wait for.
#[test]
fn more_than_is_kept_is_counted_as_dropped() {
    let Some(freezer) = load("more_than_is_kept_is_counted_as_dropped") else { return };
    let cpu = CpuId(0);
    pin(cpu.0);
    let count = FREEZE_RECORDS as u64 + 200;
    let asked = FreezePlan { period_ns: 100_000, interrupts_on: 1, ..plan(0, 1, count) };
    freezer.arm(cpu, &asked).unwrap();
    let give_up = Instant::now() + PATIENCE;
    while freezer.plan(cpu).is_some_and(|plan| plan.done + plan.missed < count) {
        assert!(Instant::now() < give_up, "{:?}", freezer.plan(cpu));
        std::thread::sleep(Duration::from_millis(20));
    }
    let done = freezer.plan(cpu).unwrap().done;
    let mut records = Vec::new();
    let (next, dropped) = freezer.read(cpu, 0, &mut records);
    assert_eq!((next, records.len() as u64 + dropped), (done, done));
    assert!(done < FREEZE_RECORDS as u64 || dropped > 0, "{done} done, {dropped} dropped");
}

#[test]
fn a_plan_that_cannot_be_kept_is_refused() {
    let Some(freezer) = load("a_plan_that_cannot_be_kept_is_refused") else { return };
    pin(0);
    for (asked, said) in
        [(plan(2_000, 2, 1), "shorter than their period"), (plan(500_000, 1_000, 1), "at most 450000000")]
    {
        let error = freezer.arm(CpuId(0), &asked).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    let error = freezer.arm(CpuId(1_000_000), &plan(1, 1, 1)).unwrap_err().to_string();
    assert!(error.contains("there is no core 1000000"), "{error}");
    let elsewhere = freezer.arm(CpuId(1), &plan(100, 10, 1));
    assert!(elsewhere.is_err(), "this thread is on core 0");
}
