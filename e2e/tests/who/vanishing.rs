//! What is watched goes away: the process, the core.

use super::{raisers, sum, watch, watch_as};
use std::time::Duration;
use surefoot_e2e::actor::{self, RAISER};
use surefoot_e2e::core_switch::switch_off;
use surefoot_e2e::machine::{Need, turn};
use surefoot_e2e::report::{number, of_type};
use surefoot_testkit::not_run::not_run;

#[test]
fn a_process_that_ends_under_the_watch_is_told_and_ends_nothing() {
    const NAME: &str = "a_process_that_ends_under_the_watch_is_told_and_ends_nothing";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    actor::prepare();
    RAISER.path();
    for options in ["", "--json"] {
        let spinner = actor::start("spinner", "spin 1 60000");
        let pid = spinner.pid();
        let watch = watch_as(&format!("{options} --pid {pid}"));
        std::thread::sleep(Duration::from_millis(200));
        drop(spinner);
        // The watch goes on: what happens afterwards is still seen.
        let truth = RAISER.start("membarrier 300 300 1 0").answer();
        let finished = watch.stop();
        let said = format!("{}{}", finished.stdout, finished.stderr);
        assert!(said.contains(&format!("process {pid} ended")), "not a word about it: {finished:#?}");
        if !options.is_empty() {
            let lines = finished.json();
            assert!(sum(&raisers(&lines, "call_function", &truth)) > 15, "{lines:?}");
        }
    }
}

#[test]
fn a_core_that_goes_offline_is_told_and_its_counts_stay_sane() {
    const NAME: &str = "a_core_that_goes_offline_is_told_and_its_counts_stay_sane";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    RAISER.path();
    let watch = watch("");
    let truth = RAISER.start("membarrier 300 300 1 0").answer();
    let core = match switch_off(1) {
        Ok(core) => core,
        Err(why) => return not_run(NAME, &format!("no core can be switched off here: {why}")),
    };
    std::thread::sleep(Duration::from_millis(700));
    core.switch_on();
    std::thread::sleep(Duration::from_millis(300));
    let finished = watch.stop();
    let said = format!("{}{}", finished.stdout, finished.stderr);
    assert!(said.contains("core 1") && said.contains("offline"), "not a word about it: {finished:#?}");
    let lines = finished.json();
    // What was seen before it went is not lost with it.
    assert!(sum(&raisers(&lines, "call_function", &truth)) > 15, "{lines:?}");
    let watched_ns = number(of_type(&lines, "who")[0], "duration_ns");
    let lost_ns: u64 = of_type(&lines, "interrupt").iter().map(|line| number(line, "total_ns")).sum();
    assert!(lost_ns <= watched_ns, "lost {lost_ns} ns of {watched_ns} ns: {lines:?}");
}
