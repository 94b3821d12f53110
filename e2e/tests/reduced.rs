//! Where less is allowed: without privilege, BTF or tracefs.

use serde_json::Value;
use surefoot_e2e::actor;
use surefoot_e2e::command::{Finished, Surefoot, surefoot};
use surefoot_e2e::machine::{Need, turn};
use surefoot_e2e::report::{core_line_sums_up, of_type};

const TRACEFS: &[&str] = &["/sys/kernel/tracing", "/sys/kernel/debug"];
const BTF: &[&str] = &["/sys/kernel/btf"];

/// The host line's word about what is missing, which must be one line for people and say how to get it.
fn missing(lines: &[Value]) -> String {
    let missing = of_type(lines, "host")[0]["missing"].as_str().unwrap().to_owned();
    assert!(!missing.contains('\n'), "more than one line: {missing}");
    assert!(missing.len() < 250, "{} bytes for one line: {missing}", missing.len());
    for noise in ["libbpf:", "RLIMIT_MEMLOCK"] {
        assert!(!missing.contains(noise), "'{noise}' means nothing to its reader: {missing}");
    }
    missing
}

/// The counters know sums of kinds of interrupts and steal, the scheduler how long a thread waited, and nothing by name.
fn claims_nothing(lines: &[Value]) {
    for core in of_type(lines, "core") {
        core_line_sums_up(core);
        for row in core["lost"].as_array().unwrap() {
            let name = row["name"].as_str().unwrap();
            assert!(name.contains("not told apart") || name == "steal", "{row}");
            assert_eq!(row["count"], Value::Null, "the counters do not count occurrences: {row}");
        }
    }
    for gap in of_type(lines, "gap") {
        // The scheduler alone says something: how long the thread that found the gap waited for its core, not for whom.
        let causes = gap["causes"].as_array().unwrap();
        assert!(causes.iter().all(|cause| cause["kind"] == "preemption"), "{gap}");
        assert!(causes.is_empty() || gap["evidence"].to_string().contains("the scheduler counts"), "{gap}");
        assert!(gap["verdict"] != "traced" || !causes.is_empty(), "{gap}");
    }
    assert!(of_type(lines, "completeness").is_empty());
}

fn nobody(words: &str) -> Finished {
    surefoot(words).as_nobody().run()
}

#[test]
fn nobody_watches_from_counters_and_is_told_what_is_missing() {
    let Some(_turn) = turn("nobody_watches_from_counters_and_is_told_what_is_missing", Need::Root) else { return };
    let watched = nobody("watch --no-page --duration 2s");
    watched.expect_code(0);
    let reduced: Vec<&str> = watched.stdout.lines().filter(|line| line.starts_with("reduced: ")).collect();
    assert_eq!(reduced.len(), 1, "{watched:#?}");
    assert!(reduced[0].contains("CAP_BPF") && reduced[0].contains("root"), "{watched:#?}");
    assert!(watched.stdout.lines().count() >= 2, "a line for each window: {watched:#?}");

    let report = nobody("stall report --duration 2s --json");
    report.expect_code(0);
    let lines = report.json();
    assert!(missing(&lines).contains("CAP_BPF"));
    claims_nothing(&lines);
    assert_eq!(of_type(&lines, "host")[0]["source"], "kernel counters");
}

#[test]
fn nobody_probes_and_asks_for_the_status() {
    let Some(_turn) = turn("nobody_probes_and_asks_for_the_status", Need::Root) else { return };
    let probe = nobody("stall probe --cpu 0 --duration 500ms --json");
    probe.expect_code(0);
    let lines = probe.json();
    claims_nothing(&lines);
    let summary = of_type(&lines, "summary")[0];
    let missing = summary["missing"].as_array().unwrap();
    assert!(missing.iter().any(|why| why.as_str().unwrap().starts_with("tracing: ")), "{summary}");

    let status = nobody("status --json");
    status.expect_code(0);
    let lines = status.json();
    let state = |id: &str| {
        let row = of_type(&lines, "capability").into_iter().find(|row| row["id"] == id).cloned();
        row.unwrap_or_else(|| panic!("no capability {id}: {lines:?}"))
    };
    let ledger = state("stall.ledger");
    assert_eq!(ledger["state"], "reduced", "{ledger}");
    assert!(
        !ledger["reason"].as_str().unwrap().is_empty() && !ledger["remedy"].as_str().unwrap().is_empty(),
        "{ledger}"
    );
    for row in of_type(&lines, "capability") {
        assert!(row["reason"].as_str().unwrap().len() < 250, "too long to read: {row}");
    }
}

#[test]
fn nobody_who_insists_on_ebpf_is_refused() {
    let Some(_turn) = turn("nobody_who_insists_on_ebpf_is_refused", Need::Root) else { return };
    for words in [
        "stall report --duration 1s --source ebpf",
        "watch --no-page --duration 1s --source ebpf",
        "stall probe --cpu 0 --duration 1s --source ebpf",
    ] {
        nobody(words).expect_refusal(3, &["eBPF is not available", "root", "CAP_BPF"]);
    }
    // Mounted or not, what is missing is the permission.
    nobody("stall report --duration 1s --source plain").expect_refusal(3, &["root"]);
    nobody("stall probe --cpu 0 --duration 1s --fifo 50").expect_refusal(3, &["real-time", "CAP_SYS_NICE"]);
}

#[test]
fn without_btf_plain_tracepoints_are_used_and_status_says_reduced() {
    let Some(_turn) = turn("without_btf_plain_tracepoints_are_used_and_status_says_reduced", Need::Ebpf) else {
        return;
    };
    let busy = actor::on_every_core();
    let report = surefoot("stall report --duration 1s --json").hiding(BTF).run();
    drop(busy);
    report.expect_code(0);
    let lines = report.json();
    assert_eq!(of_type(&lines, "host")[0]["source"], "eBPF (plain tracepoints)");
    let cores = of_type(&lines, "core");
    cores.iter().for_each(|core| core_line_sums_up(core));
    assert!(cores[0]["lost"].as_array().unwrap().iter().any(|row| row["name"] == "local_timer"), "{}", cores[0]);

    let status = surefoot("status --json").hiding(BTF).run();
    status.expect_code(0);
    let lines = status.json();
    let ledger = of_type(&lines, "capability").into_iter().find(|row| row["id"] == "stall.ledger").unwrap();
    assert_eq!(ledger["state"], "reduced", "{ledger}");
    assert!(ledger["reason"].as_str().unwrap().contains("plain tracepoints"), "{ledger}");
    assert!(ledger["remedy"].as_str().unwrap().contains("BTF"), "{ledger}");

    let refused = surefoot("stall report --duration 1s --source ebpf").hiding(BTF).run();
    refused.expect_refusal(3, &["BTF"]);
}

#[test]
fn no_visible_tracefs_is_needed() {
    let Some(_turn) = turn("no_visible_tracefs_is_needed", Need::Ebpf) else { return };
    let report = surefoot("stall report --duration 1s --json --source plain").hiding(TRACEFS).run();
    report.expect_code(0);
    let lines = report.json();
    assert_eq!(of_type(&lines, "host")[0]["source"], "eBPF (plain tracepoints)");
    of_type(&lines, "core").into_iter().for_each(core_line_sums_up);
    let probe = surefoot("stall probe --cpu 0 --duration 500ms --json --source plain").hiding(TRACEFS).run();
    probe.expect_code(0);
    let (state, reason) = tracefs_row(surefoot("status --json").hiding(TRACEFS));
    assert_eq!(state, "works");
    assert!(reason.contains("detached mount") || reason.contains("private mount namespace"), "{reason}");
}

/// State and reason of the row of `status` that says where tracefs is.
fn tracefs_row(status: Surefoot) -> (String, String) {
    let status = status.run();
    status.expect_code(0);
    let lines = status.json();
    let row = of_type(&lines, "capability").into_iter().find(|row| row["id"] == "stall.tracefs").unwrap();
    (row["state"].as_str().unwrap().to_owned(), row["reason"].as_str().unwrap().to_owned())
}

#[test]
fn without_tracefs_typed_tracepoints_still_work_and_plain_ones_say_why_not() {
    let Some(_turn) = turn("without_tracefs_typed_tracepoints_still_work_and_plain_ones_say_why_not", Need::Ebpf)
    else {
        return;
    };
    let without = |words: &str| surefoot(words).hiding(TRACEFS).unable_to_mount();
    let refused = without("stall report --duration 1s --source plain").run();
    refused.expect_refusal(3, &["tracefs", "CAP_SYS_ADMIN", "mount -t tracefs"]);
    let (state, reason) = tracefs_row(without("status --json"));
    assert!(state == "unsupported" && reason.contains("tracefs is not mounted"), "{state}: {reason}");
    let report = without("stall report --duration 1s --json").run();
    report.expect_code(0);
    let lines = report.json();
    assert_eq!(of_type(&lines, "host")[0]["source"], "eBPF (BTF)");
    of_type(&lines, "core").into_iter().for_each(core_line_sums_up);
}

#[test]
fn without_btf_and_tracefs_the_counters_are_left() {
    let Some(_turn) = turn("without_btf_and_tracefs_the_counters_are_left", Need::Ebpf) else { return };
    let both: Vec<&'static str> = [BTF, TRACEFS].concat();
    let without = |words: &str| surefoot(words).hiding(&both).unable_to_mount();
    let report = without("stall report --duration 1s --json").run();
    report.expect_code(0);
    let lines = report.json();
    assert_eq!(of_type(&lines, "host")[0]["source"], "kernel counters");
    let why = missing(&lines);
    assert!(why.contains("BTF") || why.contains("tracefs"), "{why}");
    claims_nothing(&lines);
    without("status").run().expect_code(0);
}
