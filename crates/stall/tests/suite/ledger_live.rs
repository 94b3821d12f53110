//! The collector on the running kernel: the parts add up, the counts agree with the kernel's own table, and everything is
//! read once.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use surefoot_hostfs::Root;
use surefoot_model::{CpuId, Event, Report, Window};
use surefoot_probes::Flavour;
use surefoot_stall::who::WhoConfig;
use surefoot_stall::{Collector, Config, Error, SourceChoice};
use surefoot_testkit::not_run::not_run;

fn windows(source: SourceChoice, count: usize) -> Option<(Vec<Event>, Vec<Window>)> {
    let config = Config { source, window: Duration::from_millis(500), ..Config::default() };
    let mut collector = match Collector::start(&Root::host(), config) {
        Ok(collector) => collector,
        Err(Error::Probes(surefoot_probes::Error::Unsupported { why, .. })) => {
            not_run(&format!("the ledger on {source:?}"), &why);
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let mut events = collector.opening();
    for _ in 0..count {
        events.extend(collector.next_window(&AtomicBool::new(false)).unwrap());
    }
    let windows: Vec<Window> = events
        .iter()
        .filter_map(|event| match event {
            Event::Window(window) => Some(window.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(windows.len(), count);
    Some((events, windows))
}

fn parts_add_up(windows: &[Window]) {
    for window in windows {
        assert!(!window.cores.is_empty() || window.cost.torn > 0, "{window:?}");
        assert_eq!(window.faulty, [], "{window:?}");
        assert_eq!(window.cost.capped_rows, 0, "no occurrence lasts longer than all of them");
        for core in &window.cores {
            assert_eq!(core.fault(), None, "{core:?}");
            assert!(core.wall_ns > 0 && core.wall_ns <= window.length_ns(), "{core:?} in {} ns", window.length_ns());
        }
    }
    follow_each_other(windows.iter());
}

/// Each core's next window begins where its last one ended; those of all cores together overlap while cores are read.
fn follow_each_other<'a>(windows: impl Iterator<Item = &'a Window> + Clone) {
    for (earlier, later) in windows.clone().zip(windows.skip(1)) {
        assert!(later.start_ns <= earlier.end_ns, "no hole between {} and {}", earlier.end_ns, later.start_ns);
    }
}

#[test]
fn typed_tracepoints_account_for_all_time_and_agree_with_the_kernel_s_counts() {
    let Some((events, windows)) = windows(SourceChoice::Ebpf(Flavour::Btf), 6) else { return };
    parts_add_up(&windows);
    let report = Report::of(&events);
    for row in &report.completeness {
        // The table is read right after the cores, so a busy line may run ahead by a few.
        let slack = 12 + row.kernel_count / 50;
        assert!(row.kernel_count.abs_diff(row.probe_count) <= slack, "{row:?}");
    }
    assert!(report.completeness.iter().any(|row| row.row == "LOC" && row.probe_count > 0), "{:?}", report.completeness);
    let unexplained_ns: u64 = report.cores().iter().map(|core| core.unexplained_ns).sum();
    let wall_ns: u64 = report.cores().iter().map(|core| core.wall_ns).sum();
    assert!(unexplained_ns < wall_ns / 2, "{unexplained_ns} of {wall_ns} ns unexplained");
    assert!(report.cost.probes_ns() > 0);
}

#[test]
fn plain_tracepoints_account_for_all_time() {
    let Some((_, windows)) = windows(SourceChoice::Ebpf(Flavour::Plain), 3) else { return };
    parts_add_up(&windows);
}

#[test]
fn the_kernel_s_counters_alone_account_for_all_time_and_name_what_they_cannot_time() {
    let (events, windows) = windows(SourceChoice::Counters, 3).unwrap();
    parts_add_up(&windows);
    let Event::Host(host) = &events[0] else { panic!("{:?}", events[0]) };
    assert!(!host.missing.is_empty());
    assert!(windows.iter().any(|window| window.untimed.iter().any(|row| row.row == "LOC")));
    assert!(windows.iter().all(|window| window.completeness.is_empty()));
}

/// With raisers named and a polling loop in sight, the ledger, the watch and the gaps of loops all need the tapes, and the
/// ledger and the cost both need the slots.
#[test]
fn each_turn_and_each_slot_is_copied_once_for_all_who_need_it() {
    const TEST: &str = "each_turn_and_each_slot_is_copied_once_for_all_who_need_it";
    const WINDOWS: u64 = 10;
    let was_there = surefoot_inloop::directory().exists();
    let polls = surefoot_inloop::Loop::open("reads", Duration::from_millis(1)).unwrap();
    let who = WhoConfig {
        cpus: vec![CpuId(0)],
        pid: None,
        kernel_stacks: true,
        user_stacks: false,
        stacks_per_s: 100,
        timeline: false,
    };
    let config = Config { window: Duration::from_millis(100), who: Some(who), ..Config::default() };
    let mut collector = match Collector::start(&Root::host(), config) {
        Ok(collector) => collector,
        Err(Error::Probes(surefoot_probes::Error::Unsupported { why, .. })) => return not_run(TEST, &why),
        Err(error) => panic!("{error}"),
    };
    let mut windows = |count: u64| {
        for _ in 0..count {
            collector.next_window(&AtomicBool::new(false)).unwrap();
        }
        collector.reads().unwrap()
    };
    // The slot of a core is also read when a cause is on its tape for the first time, so the first windows may have more.
    let cores = possible_cores();
    let mut after = windows(5);
    let (mut slots, mut turns, mut written);
    // On a machine that stands still for a moment slots are read again, and turns are overwritten before they are read.
    let give_up = Instant::now() + Duration::from_secs(60);
    loop {
        let before = std::mem::replace(&mut after, windows(WINDOWS));
        slots = after.slots - before.slots;
        (turns, written) = (after.turns - before.turns, after.turns_written - before.turns_written);
        println!("{WINDOWS} windows of {cores} cores: {slots} slots, {turns} of {written} turns");
        let is_once = slots <= WINDOWS * cores * 3 / 2 && turns * 10 >= written * 9;
        if is_once || Instant::now() > give_up {
            break;
        }
    }
    drop(polls);
    if !was_there {
        // Stays if another test has made a loop meanwhile.
        let _ = std::fs::remove_dir(surefoot_inloop::directory());
    }
    assert!(slots <= WINDOWS * cores * 3 / 2, "{slots} slots in {WINDOWS} windows of {cores} cores");
    assert!(after.turns <= after.turns_written, "{after:?}");
    assert!(turns * 10 >= written * 9, "{turns} of {written} turns were read");
}

/// Cores that the arrays have room for.
fn possible_cores() -> u64 {
    surefoot_hostfs::cpus::possible(&Root::host()).unwrap().len() as u64
}

/// Nothing watches any more when the programs go, so the last window tells what that sent.
#[test]
fn the_last_window_counts_what_detaching_sent() {
    const TEST: &str = "the_last_window_counts_what_detaching_sent";
    let config = Config { source: SourceChoice::Ebpf(Flavour::Btf), cpus: vec![CpuId(0)], ..Config::default() };
    let mut collector = match Collector::start(&Root::host(), config) {
        Ok(collector) => collector,
        Err(error) => return not_run(TEST, &error.to_string()),
    };
    let first = collector.next_window(&AtomicBool::new(true)).unwrap();
    // The core that detaches has nothing sent to itself, but its own functions are counted; others may be idle.
    let last = collector.finish();
    let cost = |events: &[Event]| {
        let mut costs = events.iter().filter_map(|event| match event {
            Event::Window(window) => Some(window.cost.clone()),
            _ => None,
        });
        let cost = costs.next().unwrap();
        assert!(costs.next().is_none(), "one window");
        cost
    };
    assert!(cost(&first).attach_interrupts.is_some(), "the first window counts what attaching sent");
    assert!(cost(&last).attach_interrupts.is_some(), "{last:?}");
    let all: Vec<Event> = first.into_iter().chain(last).collect();
    let windows: Vec<&Window> = all
        .iter()
        .filter_map(|event| match event {
            Event::Window(window) => Some(window),
            _ => None,
        })
        .collect();
    follow_each_other(windows.into_iter());
}
