//! `surefoot-bench nic`: figures that are the same at each run, charts, and what is refused.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

fn bench(arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_surefoot-bench"));
    command.arg("nic").args(arguments.split_whitespace()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// With what is kept in `tests/golden`; `UPDATE_GOLDEN=1` writes it anew.
fn compare(name: &str, found: &str) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, found).unwrap();
    }
    assert_eq!(found, std::fs::read_to_string(&golden).unwrap_or_default(), "{name}");
}

const EXACT: &str = "--clock virtual --sizes 64,2048 --messages 60 --self-test 0.02 --span 0.05";

#[test]
fn figures_of_virtual_time_are_the_same_at_each_run() {
    for (name, more) in [("nic-bench-virtual.txt", ""), ("nic-bench-virtual.jsonl", " --json")] {
        let done = bench(&format!("{EXACT}{more}"));
        assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
        compare(name, &text(&done.stdout));
    }
}

#[test]
fn by_the_clock_every_way_has_its_figures_and_charts() {
    let directory = tempfile::tempdir().unwrap();
    let charts = directory.path().join("charts");
    let words = format!("--clock wall --sizes 256 --messages 20 --rounds 2 --json --charts {}", charts.display());
    let done = bench(&words);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let out = text(&done.stdout);
    let lines: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |stack: &str| lines.iter().find(|line| line["type"] == "figure" && line["stack"] == stack);
    for stack in ["gm", "fdgm", "ftgm", "ftgm_verified", "udp_loopback"] {
        let line = of(stack).unwrap_or_else(|| panic!("no {stack} in {out}"));
        assert_eq!(line["half_round_trip_ns"]["round_count"], 2, "{line}");
        assert!(line["half_round_trip_ns"]["median"].as_f64().unwrap() > 0.0, "{line}");
        assert!(line["bytes_per_s"]["median"].as_f64().unwrap() > 0.0, "{line}");
        assert_eq!(line["host_send_ns"].is_object(), stack != "udp_loopback", "{line}");
    }
    // Packets need a privilege; without it the reason is said.
    let is_said = lines.iter().any(|line| line["type"] == "not_run" && line["what"] == "veth_packets");
    assert!(of("veth_packets").is_some() != is_said, "{out}");
    for name in ["bandwidth.svg", "latency.svg", "host-cost.svg"] {
        assert!(std::fs::read_to_string(charts.join(name)).unwrap().contains("FTGM, verified"), "{name}");
    }
    assert!(!charts.join("self-test.svg").exists(), "drawn of nothing");
}

#[test]
fn what_cannot_be_measured_is_refused() {
    for (words, why) in [
        ("--sizes 40000", "40000 is not in"),
        ("--sizes 64 --self-test often", "'often' is no number of seconds"),
        ("--self-test 20", "give a longer one"),
        ("--clock virtual --sizes 64 --self-test none --charts /proc/1/charts", "--charts: cannot make /proc/1/charts"),
    ] {
        let refused = bench(words);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{words}: {said}");
        assert!(said.contains(why), "{words}: {said}");
    }
}
