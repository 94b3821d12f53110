//! A core that goes offline while it is watched, and comes back.

use crate::probe::wait_for_the_loop;
use std::time::{Duration, Instant};
use surefoot_e2e::command::surefoot;
use surefoot_e2e::core_switch::{SwitchedOff, switch_off};
use surefoot_e2e::machine::{Need, turn};
use surefoot_e2e::report::{gap_line_sums_up, of_type};
use surefoot_e2e::watched::{Seen, watch};
use surefoot_model::{CpuId, Event, Window};
use surefoot_testkit::not_run::not_run;

const CORE: CpuId = CpuId(1);

/// Switches the core off; says that the test did not run where that is not possible.
fn off(test: &str) -> Option<SwitchedOff> {
    switch_off(CORE.0).map_err(|why| not_run(test, &format!("no core can be switched off here: {why}"))).ok()
}

fn is_notice(event: &Event, words: &str) -> bool {
    matches!(event, Event::Notice(notice) if notice.text.contains(words) && notice.text.contains(&CORE.to_string()))
}

fn has_core(window: &Window) -> bool {
    window.cores.iter().any(|core| core.cpu == CORE)
}

#[test]
fn a_watched_core_may_go_offline_and_come_back() {
    const TEST: &str = "a_watched_core_may_go_offline_and_come_back";
    let Some(_turn) = turn(TEST, Need::Ebpf) else { return };
    for source in ["ebpf", "plain", "counters"] {
        let mut watch = watch(&format!("--source {source}"));
        let Some(core) = off(TEST) else { return };
        watch.until(|event| is_notice(event, "offline"));
        watch.until(|event| matches!(event, Event::Window(window) if !has_core(window) && !window.cores.is_empty()));
        let gone = Instant::now();
        std::thread::sleep(Duration::from_secs(1));
        watch.catch_up();
        let gone_ns = gone.elapsed().as_nanos() as u64;
        core.switch_on();
        watch.until(|event| is_notice(event, "came back"));
        for _ in 0..3 {
            watch.until(|event| matches!(event, Event::Window(window) if has_core(window)));
        }
        adds_up(source, &watch.stop(), gone_ns);
    }
}

/// The core has a ledger for the time that it was there, and for no other.
fn adds_up(source: &str, seen: &Seen, gone_ns: u64) {
    let (stayed, went) = (seen.core(0), seen.core(CORE.0));
    assert!(stayed.sums_up() && went.sums_up());
    let length_ns = seen.report.end_ns - seen.report.start_ns;
    assert!(
        stayed.wall_ns <= length_ns + length_ns / 10 && stayed.wall_ns >= length_ns / 10 * 8,
        "{source}: {stayed:?}"
    );
    assert!(went.wall_ns + gone_ns / 2 < stayed.wall_ns, "{source}: gone for {gone_ns} ns: {went:?}");
    let text = &seen.finished.stderr;
    assert!(!text.contains("surefoot: "), "{source}: {text}");
}

#[test]
fn a_watch_that_begins_without_a_core_refuses_or_leaves_it_out() {
    const TEST: &str = "a_watch_that_begins_without_a_core_refuses_or_leaves_it_out";
    let Some(_turn) = turn(TEST, Need::Ebpf) else { return };
    let Some(core) = off(TEST) else { return };
    let refused = surefoot("stall report --duration 1s --cpu 1").run();
    refused.expect_refusal(2, &["core 1", "offline", "the cores online are"]);
    surefoot("stall probe --duration 1s --cpu 1").run().expect_refusal(2, &["core 1", "offline"]);
    let report = surefoot("stall report --duration 1s --json").run();
    report.expect_code(0);
    let lines = report.json();
    let cores: Vec<_> = of_type(&lines, "core").iter().map(|core| core["cpu"].clone()).collect();
    assert!(!cores.contains(&1.into()) && cores.contains(&0.into()), "{cores:?}");
    core.switch_on();
}

/// The loop cannot stay on a core that is gone: what it sees elsewhere must not be told as that core's.
#[test]
fn a_probe_whose_core_goes_offline_says_so_and_ends() {
    const TEST: &str = "a_probe_whose_core_goes_offline_says_so_and_ends";
    let Some(_turn) = turn(TEST, Need::Ebpf) else { return };
    let mut probe = surefoot("stall probe --cpu 1 --duration 4s --threshold 500us --json").start();
    wait_for_the_loop(&mut probe, CORE.0);
    std::thread::sleep(Duration::from_millis(500));
    let Some(core) = off(TEST) else { return };
    std::thread::sleep(Duration::from_millis(1500));
    core.switch_on();
    let finished = probe.finish();
    assert!(finished.took < Duration::from_secs(60), "{:?}", finished.took);
    let lines = finished.json();
    of_type(&lines, "gap").into_iter().for_each(gap_line_sums_up);
    let said = format!(
        "{}{}",
        finished.stderr,
        of_type(&lines, "summary").first().map_or(String::new(), |s| s["missing"].to_string())
    );
    assert!(said.contains("core 1") && said.contains("offline"), "not a word about it: {finished:#?}");
}
