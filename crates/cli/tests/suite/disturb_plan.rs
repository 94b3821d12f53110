//! `surefoot disturb run --experiment` and the ready-made workloads: several workloads under several disturbances, what fails, what
//! is resumed, and that namespaces, links and settings are as they were, also after kill -9.

use super::disturb_run::{self, FREEZE, turn};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use surefoot_disturb::plan::Compared;
use surefoot_disturb::workload::ready::{Ready, Setting, named};
use surefoot_testkit::not_run::not_run;

/// With it one of the first two runs of a workload under three disturbances is undisturbed.
const SEED_UNDISTURBED_FIRST: u64 = 1;

/// Stops the workload alone, so that it needs no privilege and disturbs nobody.
const STOP: &str = "stop:length=40ms,period=100ms";

fn command(file: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_surefoot"));
    command.args(["disturb", "run", "--experiment"]).arg(file).args(more);
    in_own_journals(command)
}

/// The host's own watch need not hear of it, unless the test says where its journals lie.
fn in_own_journals(mut command: Command) -> Command {
    if !command.get_args().any(|word| word == "--journals") {
        command.arg(concat!("--journals=", env!("CARGO_TARGET_TMPDIR"), "/experiments"));
    }
    command
}

/// What `disturb report --json` says of a file: the experiment, and its rows.
fn reported(file: &Path) -> (Value, Vec<Value>) {
    let mut report = Command::new(env!("CARGO_BIN_EXE_surefoot"));
    let output = report.args(["disturb", "report", "--json"]).arg(file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines = lines(&output);
    let [answer] = &of(&lines, "disturb")[..] else { panic!("{lines:?}") };
    let [experiment] = &answer["experiments"].as_array().unwrap()[..] else { panic!("{answer}") };
    let rows = of(&lines, "disturb_row").into_iter().map(|row| {
        let mut row = row.clone();
        row.as_object_mut().unwrap().remove("experiment");
        row
    });
    (experiment.clone(), rows.collect())
}

fn written(home: &Path, experiment: &Value) -> std::path::PathBuf {
    let path = home.join("experiment.json");
    std::fs::write(&path, experiment.to_string()).unwrap();
    path
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn lines(output: &Output) -> Vec<Value> {
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == kind).collect()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < give_up, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn each_workload_is_compared_under_each_disturbance_and_one_that_fails_stops_no_other() {
    let home = tempfile::tempdir().unwrap();
    let experiment = json!({
        "repetitions": 2,
        "disturbances": [{"name": "half", "spec": STOP}, {"name": "little", "spec": "stop:length=2ms,period=100ms"}],
        "workloads": [
            {"name": "sleeper", "command": "sleep 0.25; echo lost=0", "measures": [
                {"name": "time", "metric": "wall"},
                {"name": "lost", "metric": "regex:lost=([0-9]+)", "compared": "difference"}]},
            {"name": "broken", "command": "echo oh no >&2; exit 7", "disturbances": ["half"]},
            {"name": "endless", "command": "sleep 600", "disturbances": ["half"]},
            {"name": "silent", "command": "true", "disturbances": ["half"],
             "measures": [{"name": "x", "metric": "json:x"}]},
        ],
        "time_limit": "5s",
    });
    let place = |name: &str| home.path().join(name);
    let words =
        ["--json", "--record", place("recording").to_str().unwrap(), "--html", place("page.html").to_str().unwrap()]
            .map(str::to_owned);
    let words: Vec<&str> = words.iter().map(String::as_str).chain(["--journals"]).collect();
    let journals = place("journals");
    let words = [&words[..], &[journals.to_str().unwrap()]].concat();
    let output = command(&written(home.path(), &experiment), &words).output().unwrap();
    // It ran, and some of it failed.
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    std::fs::write(place("lines.jsonl"), &output.stdout).unwrap();
    let lines = lines(&output);
    let runs = of(&lines, "run");
    // One that warms up, and of both repetitions one undisturbed and two disturbed ones.
    assert_eq!(runs.len(), 1 + 2 * 3, "{runs:?}");
    let effects = of(&lines, "effect");
    let words: BTreeSet<(&str, &str)> =
        effects.iter().map(|line| (line["disturbance"].as_str().unwrap(), line["measure"].as_str().unwrap())).collect();
    assert_eq!(words, BTreeSet::from([("half", "time"), ("little", "time")]), "{effects:?}");
    assert!(effects.iter().all(|line| line["interval_low"].as_f64() <= line["ratio"].as_f64()), "{effects:?}");
    let differences = of(&lines, "difference");
    assert!(differences.len() == 2 && differences.iter().all(|line| line["difference"] == 0.0), "{differences:?}");
    let given_up = of(&lines, "given_up");
    for (workload, said) in
        [("broken", "code 7: oh no"), ("endless", "did not end within"), ("silent", "its output holds no JSON")]
    {
        let line = given_up.iter().find(|line| line["workload"] == workload).unwrap_or_else(|| panic!("{workload}"));
        assert!(line["why"].as_str().unwrap().contains(said) && line["unsupported"] == false, "{line}");
    }
    assert_eq!(lines.last().unwrap()["type"], "summary");
    // The lines, the recording and the journal tell the same of it.
    let journal = std::fs::read_dir(&journals).unwrap().next().unwrap().unwrap().path();
    let (told, rows) = reported(&place("lines.jsonl"));
    assert_eq!((told["series"].as_str(), told["standing"].as_str()), (Some("experiment"), Some("finished")), "{told}");
    assert!(told["ended"]["summary"].as_str().unwrap().contains("3 workloads given up"), "{told}");
    assert_eq!(rows.len(), effects.len() + differences.len() + given_up.len());
    for file in [place("recording"), journal] {
        let (other, same) = reported(&file);
        assert_eq!((&same, other["runs_done"].as_u64()), (&rows, Some(runs.len() as u64)), "{file:?}");
        for key in ["series", "workload", "disturbance", "run_count", "standing"] {
            assert_eq!(other[key], told[key], "{key} of {file:?}");
        }
        assert_eq!(other["ended"]["summary"], told["ended"]["summary"]);
    }
    let page = std::fs::read_to_string(place("page.html")).unwrap();
    for wanted in ["Each number", "sleeper", "little", "failed: run", "<svg"] {
        assert!(page.contains(wanted), "{wanted}: {page}");
    }
}

/// Whatever a preset cannot test here, it has a row for it, with what was published; and all of it is told to whoever asks later.
#[test]
fn a_preset_answers_each_of_its_rows_on_the_page_as_in_the_lines() {
    const TEST: &str = "a_preset_answers_each_of_its_rows_on_the_page_as_in_the_lines";
    let _turn = turn();
    let home = tempfile::tempdir().unwrap();
    let place = |name: &str| home.path().join(name);
    let mut command = Command::new(env!("CARGO_BIN_EXE_surefoot"));
    // The time is over before the first run.
    command.args([
        "disturb",
        "run",
        "--preset",
        "slides",
        "--quick",
        "--total-limit",
        "1ms",
        "--even-if-in-use",
        "--json",
    ]);
    command.arg("--record").arg(place("recording")).arg("--html").arg(place("page.html"));
    let output = in_own_journals(command).output().unwrap();
    if output.status.code() == Some(3) {
        return not_run(TEST, &text(&output.stderr));
    }
    // No answer at all is no success.
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let lines = lines(&output);
    let rows = of(&lines, "row");
    assert!(rows.len() > 60, "{}", rows.len());
    for row in &rows {
        let published = row["published"].as_str().unwrap();
        let is_known = published != "no number known to us" && !published.starts_with("left open");
        assert!(!row["ours"].as_str().unwrap().is_empty() && (!is_known || row["verdict"].is_string()), "{row}");
    }
    let drift = rows.iter().find(|row| row["row"] == "wall clocks drift apart").unwrap();
    assert_eq!(drift["verdict"], "cannot be tested here", "{drift}");
    let (told, kept) = reported(&place("recording"));
    assert_eq!(told["series"], "slides");
    let published: Vec<&Value> = kept.iter().filter(|row| row["published"].is_string()).collect();
    assert_eq!(published.len(), rows.len());
    let page = std::fs::read_to_string(place("page.html")).unwrap();
    for row in rows {
        let name = row["row"].as_str().unwrap().replace('\'', "&#39;");
        assert!(page.contains(&name), "{name}");
    }
    assert!(page.contains("cannot be tested here") && page.contains("10.9 %"), "{page}");
}

#[test]
fn an_experiment_leaves_a_host_alone_that_looks_in_use() {
    let _turn = turn();
    let home = tempfile::tempdir().unwrap();
    let server = home.path().join("postgres");
    std::os::unix::fs::symlink("/bin/sleep", &server).unwrap();
    let mut server = Command::new(&server).arg("600").spawn().unwrap();
    let experiment = json!({
        "repetitions": 2,
        "disturbances": [{"name": "a", "spec": FREEZE}],
        "workloads": [{"command": "true"}],
    });
    let output = command(&written(home.path(), &experiment), &["--json"]).output().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    if output.status.code() == Some(3) {
        return not_run("an_experiment_leaves_a_host_alone_that_looks_in_use", &text(&output.stderr));
    }
    let error = text(&output.stderr);
    assert!(output.status.code() == Some(2) && error.contains("postgres runs: it is a database server"), "{error}");
    assert!(output.stdout.is_empty(), "{output:?}");
}

/// By timers, by real-time threads and by the freezer by turns, killed while one of them is at it.
#[test]
fn kill_9_of_an_experiment_leaves_cores_groups_and_settings_as_they_were() {
    const TEST: &str = "kill_9_of_an_experiment_leaves_cores_groups_and_settings_as_they_were";
    let _turn = turn();
    let home = tempfile::tempdir().unwrap();
    let count = home.path().join("count");
    // The run that warms up and the next two end at once; what follows goes on until it is killed.
    let workload = format!(
        "echo >>{0}; [ $(wc -l <{0}) -le 3 ] || {{ (setsid sleep 86395.25 &); sleep 86395.25; }}",
        count.display()
    );
    let experiment = json!({
        "repetitions": 2,
        "seed": SEED_UNDISTURBED_FIRST,
        "disturbances": [
            {"name": "timers", "spec": FREEZE},
            {"name": "threads", "spec": "spin:length=1ms,period=50ms,cores=0"},
            {"name": "group", "spec": "cgroup-freeze:length=5ms,period=50ms"}],
        "workloads": [{"command": workload}],
    });
    let before = disturb_run::state_of_the_host();
    let file = written(home.path(), &experiment);
    let words = ["--json", "--even-if-in-use"];
    let mut running = command(&file, &words).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let told = BufReader::new(running.stdout.take().unwrap()).lines().map_while(Result::ok);
    let runs: Vec<String> = told.filter(|line| line.contains("\"type\":\"run\"")).take(3).collect();
    if runs.len() < 3 {
        return not_run(TEST, &format!("not all of it can be done here: {:?}", running.wait()));
    }
    assert!(runs.iter().any(|line| line.contains("\"undisturbed\"")), "what is killed is a disturbed one: {runs:?}");
    wait_until("the workload runs", || disturb_run::processes_with("sleep\086395.25").len() >= 2);
    running.kill().unwrap();
    running.wait().unwrap();
    wait_until("the workload is ended", || disturb_run::processes_with("sleep\086395.25").is_empty());
    wait_until("the host is as it was", || {
        disturb_run::state_of_the_host() == before && disturb_run::groups_of(running.id()).is_empty()
    });
}

#[test]
fn an_experiment_that_was_killed_goes_on_from_the_runs_that_it_had_done() {
    let home = tempfile::tempdir().unwrap();
    let kept = home.path().join("kept.jsonl");
    let experiment = json!({
        "repetitions": 2,
        "disturbances": [{"name": "half", "spec": STOP}],
        "workloads": [{"name": "sleeper", "command": "sleep 0.2"}],
    });
    let file = written(home.path(), &experiment);
    let words = ["--json", "--resume", kept.to_str().unwrap()];
    let mut running = command(&file, &words).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut told = BufReader::new(running.stdout.take().unwrap()).lines();
    // The warm-up and one run of a repetition are over.
    let of_a_run = |line: &String| line.contains("\"type\":\"run\"");
    assert!((0..2).all(|_| told.any(|line| line.is_ok_and(|line| of_a_run(&line)))));
    running.kill().unwrap();
    running.wait().unwrap();
    // A line that was being written.
    let before = std::fs::read_to_string(&kept).unwrap();
    std::fs::write(&kept, format!("{before}{{\"type\":\"run\",\"wor")).unwrap();
    let done = before.lines().filter(|line| line.contains("\"type\":\"run\"")).count();
    let output = command(&file, &words).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(text(&output.stderr).contains(&format!("{done} of 5 runs are known")), "{output:?}");
    let lines = lines(&output);
    // Every run is there once, also those of before.
    let numbers: BTreeSet<u64> = of(&lines, "run").iter().map(|line| line["run"].as_u64().unwrap()).collect();
    assert_eq!((of(&lines, "run").len(), numbers), (5, (0..5).collect()));
    assert_eq!(of(&lines, "effect")[0]["repetitions"], 2);
    // Nothing is left to do: it is told again, from the file alone.
    let again = command(&file, &words).output().unwrap();
    assert!(again.status.success() && text(&again.stderr).contains("5 of 5 runs are known"), "{again:?}");
    // What is no file of runs stays as it is.
    for (name, text_of_file) in [("diary", "my diary\n"), ("other.json", "{\"my\":\"data\"}"), ("torn", "{")] {
        let path = home.path().join(name);
        std::fs::write(&path, text_of_file).unwrap();
        let refused = command(&file, &["--resume", path.to_str().unwrap()]).output().unwrap();
        assert!(refused.status.code() == Some(2) && text(&refused.stderr).contains("no file of runs"), "{refused:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text_of_file);
    }
    let refused = command(&file, &["--resume", "/dev/null"]).output().unwrap();
    assert!(text(&refused.stderr).contains("not a regular file"), "{refused:?}");
    // Another experiment does not go on from it.
    let other = command(&file, &["--repetitions", "3", "--resume", kept.to_str().unwrap()]).output().unwrap();
    let error = text(&other.stderr);
    assert!(other.status.code() == Some(2) && error.contains("line 1 is of another experiment"), "{error}");
}

#[test]
fn a_file_that_is_wrong_is_refused_with_its_place() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("experiment.json");
    for (text_of_file, said) in [
        ("{", "line 1"),
        ("{\"workloads\": []}", "missing field `disturbances`"),
        ("{\"disturbances\": [], \"workloads\": []}", "0 workloads"),
        (
            "{\"disturbances\":\n[{\"name\":\"a\",\"spec\":\"freeze:length=2s,period=1s\"}],\n\"workloads\":[{\"command\":\"true\"}]}",
            "disturbance 'a'",
        ),
        (
            "{\"disturbances\":\n[{\"name\":\"a\",\"spec\":\"melt:length=2s,period=1s\"}],\n\"workloads\":[{\"command\":\"true\"}]}",
            "line 2",
        ),
        (
            "{\"disturbances\":[{\"name\":\"a\",\"spec\":\"stop:length=1ms,period=1s\"}],\"workloads\":[{\"command\":\" \"}]}",
            "workloads[0].command: it is empty",
        ),
        (
            "{\"disturbances\":[{\"name\":\"a\",\"spec\":\"stop:length=1ms,period=1s\"}],\"workloads\":[{\"command\":\"true\",\"disturbances\":[\"a\",\"a\"]}]}",
            "workloads[0].disturbances: 'a' is there twice",
        ),
    ] {
        std::fs::write(&file, text_of_file).unwrap();
        let output = command(&file, &[]).output().unwrap();
        let error = text(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains(said), "{text_of_file}: {error}");
    }
    let pipe = home.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let refused = command(&pipe, &[]).output().unwrap();
    assert!(refused.status.code() == Some(2) && text(&refused.stderr).contains("not a regular file"), "{refused:?}");
    let absent = command(&home.path().join("absent"), &[]).output().unwrap();
    assert!(absent.status.code() == Some(2) && text(&absent.stderr).contains("absent"), "{absent:?}");
}

/// What the workloads with namespaces could leave: links, mounts, settings of the network and of the scheduler, processes.
fn state_of_the_host() -> BTreeSet<String> {
    let mut state = BTreeSet::new();
    let links = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    for link in links {
        let name = link.file_name().to_string_lossy().into_owned();
        let ours = ["node", "port", "switch"].iter().any(|word| name.starts_with(word));
        if ours {
            state.insert(format!("link {name}"));
        }
    }
    for folder in ["net/core", "net/ipv4", "kernel"] {
        let files = std::fs::read_dir(Path::new("/proc/sys").join(folder)).into_iter().flatten().flatten();
        for file in files.filter(|file| file.path().is_file()) {
            let name = file.file_name().to_string_lossy().into_owned();
            // The kernel's own counts, and what others on this machine change, are no settings.
            if folder != "kernel" || name.starts_with("sched_") || name.contains("watchdog") {
                let value = std::fs::read_to_string(file.path()).unwrap_or_default();
                state.insert(format!("{folder}/{name} = {}", value.trim()));
            }
        }
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    state.extend(mounts.lines().filter(|line| line.contains(" /tmp ") || line.contains(" /sys ")).map(str::to_owned));
    state
}

/// Who holds a namespace while a workload uses it.
const SLEEPER: &str = "sleep\086400";

/// Processes whose command line holds this word.
fn processes_with(word: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| text(line).contains(word)).count()
}

#[test]
fn kill_9_in_the_middle_of_a_link_between_namespaces_leaves_nothing_of_it() {
    const TEST: &str = "kill_9_in_the_middle_of_a_link_between_namespaces_leaves_nothing_of_it";
    let listed =
        Command::new(env!("CARGO_BIN_EXE_surefoot")).args(["disturb", "workloads", "--json"]).output().unwrap();
    let tcp = lines(&listed).into_iter().find(|line| line["name"] == "tcp").unwrap();
    if let Some(why) = tcp["unsupported"].as_str() {
        return not_run(TEST, why);
    }
    let _turn = turn();
    let home = tempfile::tempdir().unwrap();
    let experiment = json!({
        "repetitions": 2,
        "warm_up": false,
        "disturbances": [{"name": "half", "spec": "stop:length=1ms,period=100ms"}],
        // Long enough to be killed in its middle.
        "workloads": [{"preset": "tcp"}],
    });
    let file = written(home.path(), &experiment);
    let (before, sleepers) = (state_of_the_host(), processes_with(SLEEPER));
    let mut running = command(&file, &["--json"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // The client asks the server, so that both namespaces, their link and its queues are there.
    wait_until("iperf3 asks", || processes_with("iperf3\0-c\u{0}10.77.0.2") > 0);
    running.kill().unwrap();
    running.wait().unwrap();
    wait_until("iperf3 is ended", || {
        processes_with("iperf3\0-c\u{0}10.77.0.2") == 0 && processes_with(SLEEPER) <= sleepers
    });
    let after = state_of_the_host();
    let changed: Vec<&String> = before.symmetric_difference(&after).collect();
    assert!(changed.is_empty(), "{changed:?}");
}

/// Each once, as short as makes sense and at the same time, so that a tool whose output has changed is noticed.
#[test]
fn ready_made_workloads_come_to_their_numbers() {
    const TEST: &str = "ready_made_workloads_come_to_their_numbers";
    let cores = surefoot_hostfs::cpus::online(&surefoot_hostfs::Root::host()).unwrap();
    let setting = Setting { cores, is_quick: true };
    let run = |ready: &Ready| {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &ready.command]).env("SUREFOOT", env!("CARGO_BIN_EXE_surefoot"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut running = Vec::new();
    for name in [
        "pipe-latency",
        "pipe-bandwidth",
        "process",
        "connect",
        "cpu-integer",
        "cpu-float",
        "memory",
        "udp",
        "mpi-2",
        "deadline",
    ] {
        let ready = named(name, &setting).unwrap();
        match &ready.unsupported {
            Some(why) => not_run(TEST, &format!("{name}: {why}")),
            None => running.push((run(&ready), ready)),
        }
    }
    for (child, ready) in running {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}: {output:?}", ready.name);
        let printed = text(&output.stdout);
        for measure in ready.measures {
            let value =
                measure.metric.number(1, &printed).unwrap_or_else(|why| panic!("{}: {why}: {printed}", ready.name));
            // On a busy machine nothing may be on time.
            let may_be_none = measure.compared == Compared::Difference || ready.name == "deadline";
            assert!(value > 0.0 || value == 0.0 && may_be_none, "{}: {printed}", ready.name);
        }
    }
}
