//! The ledger against an oracle: time lines that a program in another language rebuilds from the kernel's own trace of the
//! same stretch of time (`e2e/oracle`).

use serde_json::Value;
use std::process::Command;
use surefoot_e2e::actor::{ACTOR, TRUTH};
use surefoot_e2e::command::binary;
use surefoot_e2e::machine::{Need, turn};
use surefoot_e2e::report::{number, of_type};
use surefoot_testkit::not_run::not_run;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/oracle/oracle.py");

/// Runs a case; its table, and its lines as JSON. `None` where this machine cannot record, which is said.
fn rebuilt(test: &str, case: &str, seconds: u64, more: &[&str]) -> Option<(String, Vec<Value>)> {
    let folder = tempfile::tempdir().unwrap();
    let lines = folder.path().join("lines.json");
    let mut command = Command::new("python3");
    command.args(["-B", PROGRAM, "--case", case, "--seconds", &seconds.to_string()]).args(more);
    command.arg("--surefoot").arg(binary()).arg("--actor").arg(ACTOR.path()).arg("--truth").arg(TRUTH.path());
    let output = match command.arg("--json").arg(&lines).output() {
        Ok(output) => output,
        Err(error) => {
            not_run(test, &format!("python3: {error}"));
            return None;
        }
    };
    let words = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) {
        not_run(test, words.trim());
        return None;
    }
    assert!(output.status.success(), "{words}");
    let text = std::fs::read_to_string(&lines).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    Some((String::from_utf8_lossy(&output.stdout).into_owned(), lines))
}

/// What the kernel kept from the programs: it counts, and says of which interrupts, at least.
fn untraced(summary: &Value) -> u64 {
    of_type(summary["completeness"].as_array().unwrap(), "completeness")
        .iter()
        .map(|row| number(row, "kernel_count").saturating_sub(number(row, "probe_count")))
        .sum()
}

/// The kernel's recorder and the programs see the same moments, whatever else the machine does meanwhile. They differ by
/// what one needs to note an event, at each of them, and by what the kernel keeps from one of them.
#[test]
fn the_time_of_each_cause_is_that_of_the_kernels_own_trace() {
    const TEST: &str = "the_time_of_each_cause_is_that_of_the_kernels_own_trace";
    const EACH_NS: u64 = 300;
    let Some(_turn) = turn(TEST, Need::Ebpf) else { return };
    let Some((table, lines)) = rebuilt(TEST, "mixed", 4, &[]) else { return };
    let summary = of_type(&lines, "summary")[0];
    // Where a switch is not seen, what is under way around it may lose its other end: an interrupt, a device's handler inside it, its softirq,
    // a called function on top.
    const AT_ONCE: u64 = 4;
    let unpaired = summary["unpaired"].as_array().unwrap().len() as u64;
    assert!(unpaired <= AT_ONCE * number(summary, "unseen_switches"), "{table}");
    let missed = untraced(summary);
    let mut kinds: Vec<&str> = Vec::new();
    for row in of_type(&lines, "cause") {
        let (oracle_ns, ours_ns) = (number(row, "oracle_ns"), number(row, "ours_ns"));
        let counts = row["oracle_count"].as_array().unwrap();
        let most = counts[1].as_u64().unwrap();
        let unseen_ns = number(&summary["unseen_ns"], &row["core"].to_string());
        // A wait counts whole when it ends, and not at all where the task is moved to another core meanwhile.
        let share = match (row["kind"] == "waiting", ours_ns < oracle_ns) {
            (true, true) => 2,
            (true, false) => 5,
            _ => 20,
        };
        let slack_ns = oracle_ns / share + 300_000 + most * EACH_NS + missed * 20_000 + unseen_ns;
        assert!(oracle_ns.abs_diff(ours_ns) <= slack_ns, "{row}\n{table}");
        if !["idle", "task", "waiting"].contains(&row["kind"].as_str().unwrap()) {
            let count = row["ours_count"].as_u64().unwrap_or(0);
            let least = counts[0].as_u64().unwrap();
            let slack = 3 + most / 100 + missed;
            assert!((least.saturating_sub(slack)..=most + slack).contains(&count), "{row}\n{table}");
        }
        if oracle_ns > 0 {
            kinds.push(row["kind"].as_str().unwrap());
        }
    }
    for kind in ["timer", "softirq", "call_function", "tlb_shootdown", "kernel_thread", "task"] {
        assert!(kinds.contains(&kind), "nothing of {kind} to compare\n{table}");
    }
}

/// What the kernel says itself that each task has waited, against the same rebuilt: the oracle can be wrong, too.
#[test]
fn the_waiting_of_each_task_is_what_the_kernel_says_of_it() {
    const TEST: &str = "the_waiting_of_each_task_is_what_the_kernel_says_of_it";
    let Some(_turn) = turn(TEST, Need::Ebpf) else { return };
    let Some((table, lines)) = rebuilt(TEST, "mixed", 3, &[]) else { return };
    let waits = of_type(&lines, "wait");
    // Some guests keep the switches of their agent's threads from the recorder.
    let followed: Vec<_> = waits.iter().filter(|wait| wait["followed"] == true).collect();
    assert!(followed.iter().any(|wait| number(wait, "schedstat_ns") > 1_000_000), "nobody waited\n{table}");
    // The reading of the one and the end of the other's wait are two moments.
    let agree = |wait: &Value| {
        let (rebuilt, told) = (number(wait, "oracle_ns"), number(wait, "schedstat_ns"));
        rebuilt.abs_diff(told) <= told / 10 + 100_000_000
    };
    let agreeing = followed.iter().filter(|wait| agree(wait)).count();
    assert!(agreeing * 4 >= followed.len() * 3, "{agreeing} of {}: {followed:#?}\n{table}", followed.len());
}

/// Prints the tables of all cases, a minute of the mixed one; for people: `cargo xtask oracle`.
#[test]
#[ignore = "a measurement"]
fn the_tables_of_all_cases() {
    let Some(_turn) = turn("the_tables_of_all_cases", Need::Ebpf) else { return };
    // Called last, the oracle's own time is on the other side of ours.
    let called_last = ["--called-last"].as_slice();
    for (case, seconds) in [("mixed", 8), ("quiet", 10)] {
        if let Some((table, _)) = rebuilt(case, case, seconds, called_last) {
            println!("called last: {table}");
        }
    }
    for (case, seconds) in [
        ("mixed", 60),
        ("quiet", 20),
        ("throttled", 10),
        ("realtime", 10),
        ("crowd", 10),
        ("stopped", 10),
        ("offline", 10),
    ] {
        if let Some((table, _)) = rebuilt(case, case, seconds, &[]) {
            println!("{table}");
        }
    }
}
