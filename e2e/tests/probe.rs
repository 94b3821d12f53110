//! The probe against stalls whose true times the test knows.

use serde_json::Value;
use std::time::{Duration, Instant};
use surefoot_e2e::actor;
use surefoot_e2e::command::{PATIENCE, Running, surefoot};
use surefoot_e2e::machine::{Need, turn};
use surefoot_e2e::report::{gap_line_sums_up, has_fields, number, of_type};
use surefoot_testkit::not_run::not_run;

/// How far the probe's clock, mapped from the time-stamp counter, may be from the kernel's.
const CLOCK_SLACK_NS: u64 = 20_000;

/// Waits until the loop of this core runs.
pub(crate) fn wait_for_the_loop(running: &mut Running, cpu: u32) {
    let deadline = Instant::now() + PATIENCE;
    let tasks = format!("/proc/{}/task", running.pid());
    let is_there = || {
        let tasks = std::fs::read_dir(&tasks).into_iter().flatten().flatten();
        let mut names = tasks.map(|task| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default());
        names.any(|name| name.trim() == format!("probe-{cpu}"))
    };
    while !is_there() {
        assert!(running.is_running(), "the probe ended before it began: {}", running.stderr());
        assert!(Instant::now() < deadline, "the probe does not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    // The loop measures its own granularity first.
    std::thread::sleep(Duration::from_millis(200));
}

#[test]
fn planted_stalls_are_found_with_their_length_and_cause() {
    const TEST: &str = "planted_stalls_are_found_with_their_length_and_cause";
    let Some(_turn) = turn(TEST, Need::Ebpf) else { return };
    actor::prepare();
    for source in ["ebpf", "plain"] {
        let probe = surefoot("stall probe --cpu 1 --duration 30s --threshold 500us --json --source").arg(source);
        let mut running = probe.start();
        wait_for_the_loop(&mut running, 1);
        let truth = actor::run("planted", "stall 1 20 5000 40");
        running.ask_to_end();
        let finished = running.finish();
        finished.expect_code(0);
        let lines = finished.json();
        let gaps = of_type(&lines, "gap");
        gaps.iter().for_each(|gap| gap_line_sums_up(gap));
        let stalls = truth["stalls"].as_array().unwrap();
        assert_eq!(stalls.len(), 20);
        let whole = stalls.iter().filter(|stall| is_found(stall, &gaps)).count();
        if whole == 0 {
            not_run(
                TEST,
                &format!("{source}: the machine was too busy to read the tape of any of the 20 stalls in time"),
            );
        }
        summary_fits(&lines, &gaps);
    }
}

/// The stall is in one gap, with who did it; whether the tape of its core was read in time, without which only a part can be named.
fn is_found(stall: &Value, gaps: &[&Value]) -> bool {
    let (start_ns, end_ns) = (stall[0].as_u64().unwrap(), stall[1].as_u64().unwrap());
    let contains = |gap: &&&Value| {
        let gap_start_ns = number(gap, "start_ns");
        let gap_end_ns = gap_start_ns + number(gap, "duration_ns");
        gap_start_ns <= start_ns + CLOCK_SLACK_NS && gap_end_ns + CLOCK_SLACK_NS >= end_ns
    };
    let found: Vec<_> = gaps.iter().filter(contains).collect();
    assert_eq!(found.len(), 1, "the stall from {start_ns} to {end_ns} is in {} gaps", found.len());
    let gap = found[0];
    assert_eq!(number(gap, "cpu"), 1);
    let causes = gap["causes"].as_array().unwrap();
    let tape_is_whole = !gap["evidence"].to_string().contains("does not show");
    let Some(planted) = causes.iter().find(|cause| cause["name"] == "planted") else {
        assert!(!tape_is_whole, "the one who did it is not named: {gap}");
        return false;
    };
    assert_eq!(planted["kind"], "preemption", "{gap}");
    // Interrupts within the stall have rows of their own, and the hypervisor may take some of it.
    let (named_ns, true_ns) = (number(planted, "duration_ns"), end_ns - start_ns);
    assert!(!tape_is_whole || named_ns * 2 > true_ns, "{named_ns} of {true_ns} ns are named: {gap}");
    assert!(named_ns <= number(gap, "duration_ns"), "{gap}");
    tape_is_whole
}

/// The closing line agrees with the lines before it.
fn summary_fits(lines: &[Value], gaps: &[&Value]) {
    let summaries = of_type(lines, "summary");
    assert_eq!(summaries.len(), 1);
    assert_eq!(lines.last().unwrap()["type"], "summary", "the summary closes the stream");
    let summary = summaries[0];
    assert_eq!(number(summary, "gap_count"), gaps.len() as u64);
    assert_eq!(number(summary, "gap_total_ns"), gaps.iter().map(|gap| number(gap, "duration_ns")).sum::<u64>());
    assert_eq!((number(summary, "threshold_ns"), number(summary, "dropped_gaps")), (500_000, 0));
    let core = &summary["cores"][0];
    let promised = ["cpu", "wall_ns", "gap_count", "gap_total_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns"];
    let granularity = ["loop_shortest_ns", "loop_median_ns"];
    let shares = ["named_ns", "judged_ns", "unexplained_ns", "over_20us_total_ns", "over_20us_explained_ns"];
    has_fields(core, &[promised.as_slice(), &granularity].concat(), &shares);
    let mut lengths_ns: Vec<u64> = gaps.iter().map(|gap| number(gap, "duration_ns")).collect();
    lengths_ns.sort_unstable();
    assert_eq!(number(core, "max_ns"), *lengths_ns.last().unwrap());
    let percentiles = ["p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns"].map(|field| number(core, field));
    assert!(percentiles.is_sorted() && percentiles.iter().all(|length| lengths_ns.contains(length)), "{core}");
    assert!(number(core, "loop_shortest_ns") > 0, "{core}");
    assert!(number(core, "loop_shortest_ns") <= number(core, "loop_median_ns"), "{core}");
    let parts_ns = ["named_ns", "judged_ns", "unexplained_ns"].map(|field| number(core, field));
    assert_eq!(parts_ns.iter().sum::<u64>(), number(core, "gap_total_ns"), "{core}");
}

#[test]
fn two_cores_can_be_probed_at_once_and_for_people() {
    let Some(_turn) = turn("two_cores_can_be_probed_at_once_and_for_people", Need::Ebpf) else { return };
    let finished = surefoot("stall probe --cpu 0-1 --duration 500ms --threshold 20us").run();
    finished.expect_code(0);
    for text in ["of spinning, gaps over 20.0 us", "p99.9", "unexplained"] {
        assert!(finished.stdout.contains(text), "'{text}': {}", finished.stdout);
    }
}
