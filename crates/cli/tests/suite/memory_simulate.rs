//! `surefoot memory simulate` and `tune` as a program: the same bytes for a seed, shards, traces, and what is refused.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use surefoot_model::{Deed, DramLocation, ErrorReport, ErrorSeverity, Event, Fidelity, MemoryEvent, MemorySource};
use surefoot_store::recording::{Existing, Writer};

fn run(command: &str, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_surefoot")).args(["memory", command]).args(words).output().unwrap()
}

fn out(command: &str, words: &[&str]) -> String {
    let output = run(command, words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The last line.
fn last(text: &str) -> Value {
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

#[test]
fn a_run_ends_with_its_result_and_a_seed_gives_the_same_bytes() {
    let words = |seed: &'static str| {
        [
            "--mechanism",
            "polling",
            "--errors",
            "poisson:10/s",
            "--counter-bits",
            "8",
            "--threshold",
            "1",
            "--interval",
            "30s",
            "--duration",
            "1h",
            "--seed",
            seed,
            "--json",
        ]
    };
    let text = out("simulate", &words("1"));
    assert_eq!(text, out("simulate", &words("1")));
    assert_ne!(text, out("simulate", &words("2")));
    let result = last(&text);
    assert_eq!(result["type"], "result");
    let count = |name: &str| result[name].as_u64().unwrap();
    assert_eq!(count("arrived_count"), count("reported_count") + count("missed_count"));
    // 120 polls of 300 errors and a counter of 255.
    assert_eq!((count("report_count"), count("stall_longest_ns")), (120, 42_200_000));
    assert_eq!(count("stall_total_ns"), 120 * 42_200_000);
    assert!((4000..7000).contains(&count("missed_count")), "{result}");
}

#[test]
fn shards_merge_to_the_bytes_of_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let base = [
        "--hosts",
        "700",
        "--errors",
        "pareto:1/h",
        "--faulty-share",
        "0.4",
        "--duration",
        "2d",
        "--counter-bits",
        "3",
    ];
    let files: Vec<String> =
        (1..=3).map(|number| folder.path().join(number.to_string()).display().to_string()).collect();
    for (number, file) in files.iter().enumerate() {
        let shard = format!("{}/3", number + 1);
        std::fs::write(file, out("simulate", &[&base[..], &["--shard", &shard]].concat())).unwrap();
    }
    let merged = |files: &[String], json: &[&str]| {
        let words: Vec<&str> =
            ["--merge"].into_iter().chain(files.iter().map(String::as_str)).chain(json.iter().copied()).collect();
        run("simulate", &words)
    };
    for json in [&[][..], &["--json"]] {
        let whole = out("simulate", &[&base[..], json].concat());
        assert_eq!(String::from_utf8(merged(&files, json).stdout).unwrap(), whole);
    }
    let said = |output: Output| (output.status.code(), String::from_utf8(output.stderr).unwrap());
    let (code, error) = said(merged(&files[..2], &[]));
    assert!(code == Some(2) && error.contains("2 of 3 shards"), "{error}");
    let (code, error) = said(merged(&[files[0].clone(), files[0].clone()], &[]));
    assert!(code == Some(2) && error.contains("already"), "{error}");
    let text = std::fs::read_to_string(&files[1]).unwrap();
    for (from, to, expected) in [
        ("\"seed\":1", "\"seed\":2", "another run"),
        ("\"counter_bits\":3", "\"counter_bits\":99", "99 bits"),
        ("\"missed_count\":", "\"missed_count\":9", "do not add up"),
        ("\n{", "", "not a header"),
    ] {
        std::fs::write(&files[1], text.replacen(from, to, 1)).unwrap();
        let (code, error) = said(merged(&files, &[]));
        assert!(code == Some(2) && error.contains(expected), "{expected}: {error}");
    }
}

fn trace(words: &[&str], path: &Path) -> Output {
    let errors = format!("trace:{}", path.display());
    run("simulate", &[&["--errors", errors.as_str(), "--json"], words].concat())
}

#[test]
fn a_trace_is_replayed_from_lines_and_from_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("trace.csv");
    std::fs::write(&csv, "seconds,counter,errors\n0,0,200\n10,0,100\n70.5,1,7\n").unwrap();
    let result = last(&String::from_utf8(trace(&["--counter-bits", "8"], &csv).stdout).unwrap());
    assert_eq!((&result["arrived_count"], &result["missed_count"]), (&307.into(), &45.into()), "{result}");
    assert_eq!(result["report_count"], 2);
    let recording = folder.path().join("night.surefoot");
    let mut writer = Writer::create(&recording, Existing::Refuse).unwrap();
    for (at_ns, dimm, count) in [(5_000_000_000, "A1", 200), (15_000_000_000, "A1", 100), (75_500_000_000, "B2", 7)] {
        let report = ErrorReport {
            at_realtime_ns: 1_700_000_000_000_000_000,
            at_ns: Some(at_ns),
            source: MemorySource::McEvent,
            severity: ErrorSeverity::Corrected,
            dimm: Some(dimm.into()),
            label: String::new(),
            count,
            fidelity: Fidelity::Exact,
            location: DramLocation::default(),
            detail: String::new(),
        };
        writer.append(&Event::Memory(MemoryEvent::Report(report))).unwrap();
    }
    writer.finish().unwrap();
    let again = last(&String::from_utf8(trace(&["--counter-bits", "8"], &recording).stdout).unwrap());
    for field in ["arrived_count", "missed_count", "report_count", "stall_total_ns", "stall_longest_ns"] {
        assert_eq!(result[field], again[field], "{field}");
    }
    std::fs::write(&csv, "1\n2\nx,1\n").unwrap();
    let bad = trace(&[], &csv);
    let said = String::from_utf8(bad.stderr).unwrap();
    assert!(bad.status.code() == Some(2) && said.contains("trace.csv: line 3: 'x'"), "{said}");
}

#[test]
fn figures_are_drawn_as_pictures() {
    let folder = tempfile::tempdir().unwrap();
    for number in ["4", "6", "8", "9", "10", "11", "12"] {
        let file = folder.path().join(number);
        let words = ["--figure", number, "--duration", "30m", "--svg", file.to_str().unwrap(), "--json"];
        let text = out("simulate", &words);
        let points = text.lines().filter(|line| line.contains("\"type\":\"figure_point\"")).count();
        let picture = std::fs::read_to_string(&file).unwrap();
        assert!(points > 5 && picture.starts_with("<svg") && picture.ends_with("</svg>\n"), "{number}: {points}");
        assert!(!picture.contains("NaN") && !picture.contains("inf"), "{number}");
    }
    let none = run("simulate", &["--figure", "5"]);
    assert!(none.status.code() == Some(2) && String::from_utf8(none.stderr).unwrap().contains("4, 6, 8"));
}

#[test]
fn tune_ends_with_its_choice_and_says_when_there_is_none() {
    // `tune` takes this host's cores where none are named, `simulate` none of it.
    let choice = last(&out("tune", &["--counter-bits", "8", "--cores", "36", "--json"]));
    assert_eq!((&choice["type"], &choice["missed_count"]), (&"choice".into(), &0.into()));
    assert_eq!(choice["binding_constraint"], "loss");
    let interval = format!("{}s", choice["interval_s"]);
    let result = last(&out("simulate", &["--counter-bits", "8", "--interval", &interval, "--json"]));
    for field in ["arrived_count", "missed_count", "stall_total_ns", "stall_longest_ns", "report_count"] {
        assert_eq!(choice[field], result[field], "{field}");
    }
    let none = run("tune", &["--counter-bits", "0", "--json"]);
    let said = last(&String::from_utf8(none.stdout).unwrap());
    assert!(
        none.status.code() == Some(1) && said["interval_s"].is_null() && said["binding_constraint"] == "proof_of_rate"
    );
}

/// A tree whose name is mistyped has no platform to choose for.
#[test]
fn tune_of_a_tree_that_is_not_there_is_refused() {
    let none = run("tune", &["--duration", "10m", "--host-root", "/no/such/tree"]);
    let said = String::from_utf8(none.stderr).unwrap();
    assert!(none.status.code() == Some(2) && said.contains("there is no such folder"), "{said}");
}

#[test]
fn apply_shows_first_and_writes_down_what_it_does() {
    let tree = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        let path = tree.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let interval = "sys/devices/system/machinecheck/machinecheck0/check_interval";
    let log = "sys/module/edac_core/parameters/edac_mc_log_ce";
    put("proc/cpuinfo", "vendor_id\t: AuthenticAMD\n");
    put("proc/interrupts", " MCP:  3 4   Machine check polls\n");
    put(interval, "300\n");
    put(log, "1\n");
    put("var/log/keep", "");
    let base = ["--host-root", tree.path().to_str().unwrap(), "--apply", "--longest", "2s", "--verify", "100ms"];
    let held = |name: &str| std::fs::read_to_string(tree.path().join(name)).unwrap();
    let shown = out("tune", &base);
    assert!(shown.contains("Would write 2 to") && shown.contains("--yes does it"), "{shown}");
    assert_eq!(held(interval), "300\n");
    // Nothing polls in this tree: the old value is set back, and the outcome says so.
    let done = run("tune", &[&base[..], &["--yes", "--log", "off"]].concat());
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    assert_eq!((held(interval).as_str(), held(log).as_str()), ("300\n", "0\n"));
    let journal = held("var/lib/surefoot/deeds.jsonl");
    let deeds: Vec<Deed> = journal.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let outcomes: Vec<&str> = deeds.iter().map(|deed| deed.outcome.as_str()).collect();
    assert_eq!(outcomes, ["begun", "taken_back", "begun", "done"]);
    assert!(deeds[1].words().starts_with("change a setting (") && deeds[1].words().contains("300 -> 2"), "{journal}");
    // A run that was killed while it looked for the effect is told of by the next one.
    let begun = journal.lines().next().unwrap();
    put("var/lib/surefoot/deeds.jsonl", &format!("{journal}{begun}\n"));
    put(interval, "2\n");
    let next = run("tune", &[&base[..], &["--yes"]].concat());
    let said = String::from_utf8(next.stderr).unwrap();
    assert!(said.contains("from 300 to 2 ended before its effect was seen") && said.contains("echo 300 > "), "{said}");
    put(interval, "300\n");
    // A signal ends the wait; the old value is written again, and recorded.
    let long = [&base[..4], &["2s", "--verify", "60s", "--yes"]].concat();
    let mut command = Command::new(env!("CARGO_BIN_EXE_surefoot"));
    let child = command.args(["memory", "tune"]).args(&long).stdout(Stdio::piped()).spawn().unwrap();
    let begun_at = Instant::now();
    while held(interval) != "2\n" {
        assert!(begun_at.elapsed() < Duration::from_secs(60), "it does not write");
        std::thread::sleep(Duration::from_millis(10));
    }
    let told = Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(told.success());
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), held(interval).as_str()), (Some(1), "300\n"), "{ended:?}");
    let last = held("var/lib/surefoot/deeds.jsonl").lines().last().unwrap().to_owned();
    assert!(last.contains("taken_back") && last.contains("a signal ended the wait"), "{last}");
    // Without a place for the journal nothing is done.
    let nowhere =
        run("tune", &[&base[..], &["--yes", "--log", "on", "--log-only", "--journal", "/nowhere/x"]].concat());
    assert_eq!((nowhere.status.code(), held(log).as_str()), (Some(2), "0\n"));
}

/// As any path that is typed: it begins where the command was started, in `/` as well.
#[test]
fn a_relative_journal_lies_where_the_command_was_started() {
    let (tree, here) = (interrupting(), tempfile::tempdir().unwrap());
    let tune = |state: &str, journal: &str, folder: &Path| {
        let words = ["memory", "tune", "--apply", "--yes", "--log-only", "--log", state, "--journal", journal];
        let mut command = Command::new(env!("CARGO_BIN_EXE_surefoot"));
        let done = command.args(words).arg("--host-root").arg(tree.path()).current_dir(folder).output().unwrap();
        assert!(done.status.success(), "{journal} in {}: {done:?}", folder.display());
    };
    let lines = |file: &Path| std::fs::read_to_string(file).unwrap().lines().count();
    std::fs::create_dir(here.path().join("logs")).unwrap();
    tune("off", "logs/tune.jsonl", here.path());
    assert_eq!(lines(&here.path().join("logs/tune.jsonl")), 2);
    let from_the_top = here.path().strip_prefix("/").unwrap().join("top.jsonl");
    tune("on", from_the_top.to_str().unwrap(), Path::new("/"));
    assert_eq!(lines(&here.path().join("top.jsonl")), 2);
    // An absolute one is not moved into the tree either.
    let whole = here.path().join("whole.jsonl");
    tune("off", whole.to_str().unwrap(), Path::new("/"));
    assert_eq!(lines(&whole), 2);
    assert!(!tree.path().join("logs").exists() && !tree.path().join(&from_the_top).exists());
}

/// A tree of a host whose errors interrupt, which prints them.
fn interrupting() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("proc/cpuinfo", "vendor_id\t: GenuineIntel\n"),
        ("sys/devices/system/machinecheck/machinecheck0/check_interval", "300\n"),
        ("sys/module/edac_core/parameters/edac_mc_log_ce", "1\n"),
        ("var/log/keep", ""),
    ] {
        let path = tree.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    tree
}

#[test]
fn where_no_interval_applies_tune_says_so_and_console_logging_can_still_be_set() {
    let tree = interrupting();
    let held = |name: &str| std::fs::read_to_string(tree.path().join("sys").join(name)).unwrap();
    let base = ["--host-root", tree.path().to_str().unwrap()];
    let said = out("tune", &base).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("No interval applies here: errors interrupt") && !said.contains("Interval:"), "{said}");
    let choice = last(&out("tune", &[&base[..], &["--json"]].concat()));
    assert_eq!(choice["applies_here"], false);
    // The interval alone has nowhere to go.
    assert_eq!(run("tune", &[&base[..], &["--apply"]].concat()).status.code(), Some(3));
    let done = run("tune", &[&base[..], &["--apply", "--log", "off", "--yes"]].concat());
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert_eq!(held("module/edac_core/parameters/edac_mc_log_ce"), "0\n");
    assert_eq!(held("devices/system/machinecheck/machinecheck0/check_interval"), "300\n");
    // Nothing is printed there now, and no line is priced.
    let quiet = out("tune", &base);
    assert!(quiet.lines().any(|line| line.starts_with("logged line") && line.contains(" 0 ")), "{quiet}");
}

#[test]
fn a_poll_does_not_empty_amd_s_counters_and_longest_is_named() {
    let tree = interrupting();
    std::fs::write(tree.path().join("proc/cpuinfo"), "vendor_id\t: AuthenticAMD\n").unwrap();
    let base = ["--host-root", tree.path().to_str().unwrap(), "--longest", "2m", "--errors", "poisson:1000/s"];
    let said = out("tune", &base).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("not emptied by them") && said.contains("Interval: 120 s"), "{said}");
    assert!(said.contains("--longest, or the file that sets it") && said.contains("the longest time between polls"));
    let choice = last(&out("tune", &[&base[..], &["--json"]].concat()));
    assert_eq!((&choice["missed_count"], &choice["applies_here"]), (&0.into(), &true.into()));
    // Counters that a poll empties, of the width that AMD's have, would lose most of these.
    let emptied = last(&out("tune", &[&base[..], &["--counter-bits", "12", "--json"]].concat()));
    assert!(emptied["interval_s"].as_f64().unwrap() < 5.0, "{emptied}");
}

#[test]
fn polls_and_interrupts_are_priced_alike_with_the_line_and_without() {
    let each = |words: &[&str]| {
        let result =
            last(&out("simulate", &[words, &["--errors", "poisson:1/h", "--duration", "10h", "--json"]].concat()));
        let [total, lines, reports] =
            ["stall_total_ns", "stall_of_lines_ns", "report_count"].map(|name| result[name].as_u64().unwrap());
        let polls = result["poll_count"].as_u64().unwrap();
        assert!(reports > 0, "{result}");
        ((total - polls * 9_200_000) / reports, lines / reports)
    };
    for mechanism in ["polling", "cmci"] {
        let words = ["--mechanism", mechanism, "--interval", "1m"];
        let words = if mechanism == "polling" { &words[..] } else { &words[..2] };
        assert_eq!(each(words), (33_000_000, 32_225_000), "{mechanism}");
        assert_eq!(each(&[words, &["--line-cost", "0"]].concat()), (775_000, 0), "{mechanism}");
    }
}

/// Who names an option believes that it does something.
#[test]
fn an_option_that_means_nothing_for_the_mechanism_is_refused() {
    for (mechanism, option, value) in [
        ("polling", "--smi-cost", "1ms"),
        ("polling", "--cmci-cost", "1ms"),
        ("polling", "--storms", "linux-6.8"),
        ("cmci", "--poll-cost", "1ms"),
        ("cmci", "--poll-core-cost", "1ms"),
        ("smi", "--line-cost", "1ms"),
        ("smi", "--storms", "never"),
    ] {
        let refused = run("simulate", &["--mechanism", mechanism, option, value]);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(refused.status.code() == Some(2) && said.contains(option) && said.contains("means nothing"), "{said}");
    }
    // One form for all mechanisms: said, and not refused.
    let told = run("simulate", &["--mechanism", "smi", "--interval", "1m", "--threshold", "2", "--duration", "1m"]);
    let said = String::from_utf8(told.stderr).unwrap();
    assert!(told.status.success() && said.contains("--interval means nothing"), "{said}");
    // Costs of other mechanisms stand in no table.
    let table = out("simulate", &["--mechanism", "smi", "--duration", "1m"]);
    assert!(table.contains("\nsmi ") && !table.contains("scanned core") && !table.contains("logged line"), "{table}");
}
