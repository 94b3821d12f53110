//! What each command does in namespaces, as docs/guide/namespaces.md says, by unshare(1): nothing is taken for something else, and what
//! is not seen is said.

use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use surefoot_e2e::actor;
use surefoot_e2e::command::{Finished, surefoot};
use surefoot_e2e::machine::{Need, turn};
use surefoot_e2e::report::{core_line_sums_up, number, of_type};
use surefoot_hostfs::clock;

const GUIDE: &str = include_str!("../../docs/guide/namespaces.md");

/// Clocks a day ahead.
const TIME: &str = "--time --monotonic 86400 --boottime 172800";
const PID: &str = "--pid --mount-proc";
const USER: &str = "--user --map-root-user";
/// All kinds that root may have at once, with the files of the new network.
const ALL: &str = "--time --monotonic 86400 --boottime 86400 --pid --mount-proc --net --mount --cgroup";
const ALL_NEW: &str = "mount -t sysfs none /sys; mount -t cgroup2 none /sys/fs/cgroup || true";

/// The rows of the guide's table: of each command what it does by kind of namespace.
fn table() -> BTreeMap<&'static str, Vec<&'static str>> {
    let rows = GUIDE.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    rows.map(|(name, cells)| (name, cells.trim_end_matches(" |").split(" | ").collect())).collect()
}

/// How each command is run here: quickly, and changing nothing. HERE is a folder of the test's own.
const EXAMPLES: &[(&str, &str)] = &[
    ("checkpoint drain", "nobody --memory HERE --durable HERE/durable"),
    ("checkpoint drive", "HERE"),
    ("checkpoint list", "HERE"),
    ("checkpoint plan", "--size 1GB"),
    ("checkpoint protect", "HERE/none"),
    ("checkpoint remove", "nobody --in HERE"),
    ("checkpoint repair", "HERE/none"),
    ("checkpoint restore", "--job nobody --to HERE/to HERE"),
    ("checkpoint scrub", "HERE"),
    ("checkpoint settings", "HERE"),
    ("checkpoint simulate", "--help"),
    ("checkpoint verify", "HERE"),
    ("config check", ""),
    ("config defaults", ""),
    ("config show", ""),
    ("demo", "--duration 500ms --no-page"),
    (
        "disturb drift",
        "--reference rtc --duration 1s --every 100ms --disturbance freeze:length=1ms,period=50ms,cores=1",
    ),
    ("disturb length", "--length 1ms --steps 3 --each 100ms"),
    ("disturb predict", "--help"),
    ("disturb report", "HERE/none"),
    (
        "disturb run",
        "--disturbance freeze:length=1ms,period=50ms,cores=1 --workload true --repetitions 2 --journals HERE",
    ),
    ("disturb workloads", ""),
    ("ecc coverage", "--help"),
    ("ecc verilog", "--help"),
    ("history", "--file HERE/none.db"),
    ("memory cleared", "none --reason x --host-root HERE"),
    ("memory cost", "--history HERE/none.db"),
    ("memory doctor", "--host-root HERE"),
    ("memory import", "HERE/none"),
    ("memory owner", ""),
    ("memory page-offline", "HERE/none"),
    ("memory repaired", "none --reason x --host-root HERE"),
    ("memory replaced", "none --reason x --host-root HERE"),
    ("memory simulate", "--help"),
    ("memory status", "--host-root HERE"),
    ("memory tune", "--help"),
    ("memory watch", "--host-root HERE --duration 100ms"),
    ("nic campaign", "--help"),
    ("nic campaign blocks", "--help"),
    ("nic campaign report", "HERE/none"),
    ("nic health", "--json"),
    ("nic inject", "--help"),
    ("nic run", "--help"),
    ("remedy agent", "--once --no-checks --health HERE/none.json --state HERE/agent --server unix:HERE/none.sock"),
    ("remedy approve", "1 --server unix:HERE/none.sock"),
    ("remedy cancel", "1 --server unix:HERE/none.sock"),
    ("fleet top", "--server unix:HERE/none.sock"),
    ("remedy cases", "--server unix:HERE/none.sock"),
    ("remedy check run", "--help"),
    ("remedy pause", "--server unix:HERE/none.sock"),
    ("remedy release", "n1 --server unix:HERE/none.sock"),
    ("remedy replaced", "1 --server unix:HERE/none.sock"),
    ("remedy resume", "--server unix:HERE/none.sock"),
    ("remedy serve", "--policy HERE/none.toml"),
    ("remedy show", "1 --server unix:HERE/none.sock"),
    ("remedy simulate", "--policy HERE/none.toml"),
    ("remedy tested-good", "1 --server unix:HERE/none.sock"),
    ("remedy trail", "--server unix:HERE/none.sock"),
    ("stall audit", "--cpu 1 --duration 100ms"),
    ("stall probe", "--cpu 1 --duration 100ms"),
    ("stall record", "--duration 300ms --interval 100ms --output HERE/recording --force"),
    ("stall replay", "RECORDING"),
    ("stall report", "--duration 300ms"),
    ("stall who", "--cpu 1 --duration 300ms"),
    ("status", "--run-directory HERE"),
    ("why", "--duration 300ms --run-directory HERE"),
    ("watch", "--no-page --no-history --run-directory HERE/run --duration 500ms --interval 250ms"),
];

fn example(name: &str, arguments: &str, here: &Path, inside: Option<(&'static str, &'static str)>) -> Finished {
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/recordings/troubled.surefoot");
    let words = arguments.replace("HERE", here.to_str().unwrap()).replace("RECORDING", recording);
    let command = surefoot(name).words(&words);
    match inside {
        Some((unshared, first)) => command.inside(unshared, first).run(),
        None => command.run(),
    }
}

fn says_namespace(finished: &Finished) -> bool {
    format!("{}{}", finished.stdout, finished.stderr).contains("namespace")
}

#[test]
fn each_command_does_in_namespaces_what_the_guide_says() {
    let Some(_turn) = turn("each_command_does_in_namespaces_what_the_guide_says", Need::Ebpf) else { return };
    let table = table();
    let examples: BTreeMap<&str, &str> = EXAMPLES.iter().copied().collect();
    assert_eq!(
        examples.keys().collect::<Vec<_>>(),
        table.keys().collect::<Vec<_>>(),
        "a command has an example here and a row in docs/guide/namespaces.md"
    );
    let here = tempfile::tempdir().unwrap();
    std::fs::set_permissions(here.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    for (name, arguments) in examples {
        let row = &table[name];
        assert_eq!(row.len(), 6, "{name}");
        let outside = example(name, arguments, here.path(), None);
        let together = example(name, arguments, here.path(), Some((ALL, ALL_NEW)));
        let user = example(name, arguments, here.path(), Some((USER, ":")));
        for run in [&outside, &together, &user] {
            assert!(run.code.is_some(), "{name} was ended by a signal: {run:#?}");
            run.expect_code(run.code.unwrap());
        }
        let without_user = [0, 1, 3, 4, 5].map(|kind| row[kind]);
        does_as_its_row_says(name, &without_user, &outside, &together);
        match row[2] {
            "same" => is_the_same(name, &outside, &user),
            "refused" => assert!(user.code == Some(3) && says_namespace(&user), "{}", both(name, &outside, &user)),
            _ => {}
        }
    }
}

/// In all namespaces that root may have at once.
fn does_as_its_row_says(name: &str, cells: &[&str], outside: &Finished, together: &Finished) {
    if cells.contains(&"refused") {
        assert!(together.code == Some(3) && says_namespace(together), "{}", both(name, outside, together));
    } else if cells.iter().any(|cell| *cell != "same") {
        // What is reduced still runs; where it asks for a word of the user's first, that is said with the reason.
        let is_told = together.code == Some(2) && says_namespace(together);
        let found = |finished: &Finished| matches!(finished.code, Some(0 | 1));
        let is_alike = together.code == outside.code || found(together) && found(outside);
        assert!(is_alike || is_told || name == "nic health", "{}", both(name, outside, together));
    } else if name == "checkpoint drive" {
        // What drives count goes on between two runs.
        assert_eq!(together.code, outside.code, "{}", both(name, outside, together));
    } else {
        is_the_same(name, outside, together);
    }
}

fn is_the_same(name: &str, outside: &Finished, inside: &Finished) {
    let is_same = (inside.code, &inside.stdout) == (outside.code, &outside.stdout);
    assert!(is_same, "{}", both(name, outside, inside));
}

/// What is told of a command that does something else: where the outputs part, and all of them.
fn both(name: &str, outside: &Finished, inside: &Finished) -> String {
    let lines = outside.stdout.lines().zip(inside.stdout.lines());
    let first = lines.enumerate().find(|(_, (outside, inside))| outside != inside);
    let parted = first.map(|(at, (outside, inside))| format!("line {}: {outside}\nbut inside: {inside}\n", at + 1));
    let parted = parted.unwrap_or_default();
    format!("`{name}` does something else in namespaces\n{parted}outside: {outside:#?}\ninside: {inside:#?}")
}

#[test]
fn times_in_a_time_namespace_are_the_hosts_and_add_up() {
    let Some(_turn) = turn("times_in_a_time_namespace_are_the_hosts_and_add_up", Need::Ebpf) else { return };
    let _busy = actor::on_every_core();
    for offsets in [TIME, "--time --monotonic 1000 --boottime -5"] {
        let before_ns = clock::monotonic_ns();
        let report = surefoot("stall report --duration 1s --json").inside(offsets, ":").run();
        let after_ns = clock::monotonic_ns();
        report.expect_code(0);
        let lines = report.json();
        let host = of_type(&lines, "host")[0];
        assert_eq!((&host["missing"], &host["source"]), (&Value::from(""), &Value::from("eBPF (BTF)")), "{host}");
        let (start_ns, end_ns) = (number(host, "start_ns"), number(host, "end_ns"));
        assert!(before_ns <= start_ns && start_ns < end_ns && end_ns <= after_ns, "{before_ns} {after_ns}: {host}");
        let off_ns = host["realtime_offset_ns"].as_i64().unwrap().abs_diff(clock::realtime_offset_ns());
        assert!(off_ns < 1_000_000_000, "off by {off_ns} ns: {host}");
        let cores = of_type(&lines, "core");
        assert!(!cores.is_empty());
        for core in cores {
            core_line_sums_up(core);
            let lost = core["lost"].as_array().unwrap();
            let timer = lost.iter().find(|row| row["name"] == "local_timer").unwrap_or_else(|| panic!("{core}"));
            let (count, total_ns) = (number(timer, "count"), number(timer, "total_ns"));
            assert!(total_ns > count * 100, "{count} interrupts in {total_ns} ns: {core}");
        }
    }
}

/// Two spinners share core 1 in a new PID namespace, and one of them is followed by the number that it has there.
#[test]
fn a_process_is_followed_by_its_number_in_the_namespace() {
    let Some(_turn) = turn("a_process_is_followed_by_its_number_in_the_namespace", Need::Ebpf) else { return };
    // The shell is process 1; the number of what it starts is told in the file, so that the test does not rely on it.
    // Both have begun before anything is measured, however busy the machine is.
    const SPIN: &str = "taskset -c 1 sh -c 'while :; do :; done' & one=$!\ntaskset -c 1 sh -c 'while :; do :; done' & two=$!\n\
                        for each in $one $two; do\n\
                        until [ \"$(cut -d ' ' -f 14 /proc/$each/stat)\" -ge 5 ]; do sleep 0.1; done\n\
                        done\n\
                        set -- \"$@\" --pid $one";
    let report = surefoot("stall report --cpu 1 --duration 3s --json").inside(PID, SPIN).run();
    report.expect_code(0);
    let lines = report.json();
    let host = of_type(&lines, "host")[0];
    let typed = host["workload"].as_str().unwrap().strip_prefix("process ").unwrap().parse::<u32>().unwrap();
    assert!(typed < 1_000, "a number of the namespace: {host}");
    let core = of_type(&lines, "core")[0];
    let lost = core["lost"].as_array().unwrap().iter().filter(|row| row["kind"] == "preemption");
    let lost_ns: u64 = lost.map(|row| number(row, "total_ns")).sum();
    let wall_ns = number(core, "wall_ns");
    // Another task takes its part on a busy machine; without one it is half.
    assert!(lost_ns * 5 > wall_ns, "lost {lost_ns} of {wall_ns} ns: {core}");

    surefoot("stall report --duration 300ms --pid 999999")
        .inside(PID, ":")
        .run()
        .expect_refusal(2, &["no such process"]);
}

#[test]
fn the_probe_knows_its_own_thread_and_names_nobody_outside_by_a_number_of_the_namespace() {
    let test = "the_probe_knows_its_own_thread_and_names_nobody_outside_by_a_number_of_the_namespace";
    let Some(_turn) = turn(test, Need::Ebpf) else { return };
    actor::prepare();
    let _intruder = actor::start("intruder", "spin 1 60000");
    let probe = surefoot("stall probe --cpu 1 --duration 2s --json").inside(PID, ":").run();
    probe.expect_code(0);
    let lines = probe.json();
    let gaps = of_type(&lines, "gap");
    let rows: Vec<&Value> = gaps.iter().flat_map(|gap| gap["causes"].as_array().unwrap()).collect();
    let preempted = rows.iter().filter(|row| row["kind"] == "preemption");
    let names: Vec<&str> = preempted.map(|row| row["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"intruder"), "its name is that of the kernel, whatever has its number here: {names:?}");
    for name in names {
        assert!(!name.contains("probe-1") && !name.ends_with(", gone"), "{name}");
    }
}

#[test]
fn what_needs_the_hosts_numbers_is_refused_in_a_pid_namespace() {
    let Some(_turn) = turn("what_needs_the_hosts_numbers_is_refused_in_a_pid_namespace", Need::Ebpf) else { return };
    for words in [
        "stall who --cpu 1 --duration 300ms",
        "stall report --who 1 --duration 300ms",
        "watch --no-page --no-history --who 1 --duration 300ms --interval 100ms",
        "stall report --duration 300ms --source plain",
    ] {
        let refused = surefoot(words).inside(PID, ":").run();
        refused.expect_refusal(3, &["PID namespace", "--pid=host"]);
        let attaches = refused.stderr.contains("attaching to");
        assert!(!attaches || !words.contains("who"), "nothing is announced that is refused: {refused:#?}");
    }
    let report = surefoot("stall report --duration 300ms --pid 4194303").inside(PID, ":").run();
    report.expect_refusal(2, &["no such process in this PID namespace"]);
    // /proc of the host: what is number 1 to the one is another process to the other.
    for words in ["stall report --duration 300ms --pid 1", "watch --no-page --duration 1s", "checkpoint list /nowhere"]
    {
        surefoot(words).inside("--pid", ":").run().expect_refusal(3, &["PID namespace", "--mount-proc"]);
    }

    let audit = surefoot("stall audit --cpu 1 --duration 100ms --json").inside(PID, ":").run();
    let lines = audit.json();
    let unknown = of_type(&lines, "check").into_iter().filter(|check| {
        check["actual"].as_str().is_some_and(|actual| actual.contains("PID namespace shows its own tasks alone"))
    });
    assert!(unknown.count() >= 3, "{audit:#?}");

    let run = "disturb run --disturbance freeze:length=1ms,period=50ms,cores=1 --workload true --repetitions 2";
    let run = surefoot(run).inside(PID, ":").run();
    run.expect_refusal(
        2,
        &["in use", "from this PID namespace the host's other processes are not seen", "--even-if-in-use"],
    );

    surefoot("remedy agent --orders --once --no-checks").inside(PID, ":").run().expect_refusal(3, &["PID namespace"]);
    surefoot("remedy agent --orders --once --no-checks").inside(USER, ":").run().expect_refusal(3, &["user namespace"]);
}

#[test]
fn root_of_a_user_namespace_is_told_what_is_missing_and_the_user_of_everybody_is_refused() {
    let test = "root_of_a_user_namespace_is_told_what_is_missing_and_the_user_of_everybody_is_refused";
    let Some(_turn) = turn(test, Need::Root) else { return };
    let report = surefoot("stall report --duration 300ms --json").inside(USER, ":").run();
    report.expect_code(0);
    let lines = report.json();
    let host = of_type(&lines, "host")[0];
    assert!(host["missing"].as_str().unwrap().contains("user namespace"), "{host}");
    surefoot("stall report --duration 300ms --source ebpf")
        .inside(USER, ":")
        .run()
        .expect_refusal(3, &["user namespace"]);
    let unmapped = surefoot("history --file /nowhere/none.db").inside("--user", ":").run();
    unmapped.expect_refusal(3, &["user namespace", "65534", "another user"]);
    surefoot("status").inside("--user", ":").run().expect_code(0);
    // Its root is root already, and becoming root changes nothing.
    let status = surefoot("status --json").inside(USER, ":").run();
    let advised: Vec<(String, String)> = of_type(&status.json(), "capability")
        .into_iter()
        .map(|row| ["id", "remedy"].map(|name| row[name].as_str().unwrap_or_default().to_owned()).into())
        .collect();
    assert!(advised.len() > 10, "{status:#?}");
    for (id, remedy) in &advised {
        assert!(!remedy.starts_with("run as root,") && !remedy.starts_with("run as root on"), "{id}: {remedy}");
    }
}

#[test]
fn interfaces_are_those_of_the_namespace_and_of_no_other() {
    let Some(_turn) = turn("interfaces_are_those_of_the_namespace_and_of_no_other", Need::Root) else { return };
    // The host's /sys in a network namespace of its own.
    let health = surefoot("nic health").inside("--net", "ip link add veth7 type veth peer veth8").run();
    health.expect_refusal(3, &["another network namespace", "ip netns exec"]);
    let first = "ip link add veth7 type veth peer veth8; mount -t sysfs none /sys";
    let health = surefoot("nic health --json").inside("--net --mount", first).run();
    assert!(health.stderr.contains("network namespace"), "{health:#?}");
    let lines = health.json();
    let mut names: Vec<&str> =
        of_type(&lines, "interface").iter().map(|line| line["name"].as_str().unwrap_or_default()).collect();
    names.sort_unstable();
    assert_eq!(names, ["veth7", "veth8"], "{health:#?}");
}

#[test]
fn status_tells_in_which_namespaces_it_is() {
    let Some(_turn) = turn("status_tells_in_which_namespaces_it_is", Need::Ebpf) else { return };
    let rows = |unshared: Option<&'static str>| -> BTreeMap<String, (String, String)> {
        let command = surefoot("status --json");
        let status = match unshared {
            Some(unshared) => command.inside(unshared, ":").run(),
            None => command.run(),
        };
        status.expect_code(0);
        let text = |row: &Value, field: &str| row[field].as_str().unwrap().to_owned();
        let row = |row: &Value| (text(row, "id"), (text(row, "state"), text(row, "reason")));
        let lines = status.json();
        of_type(&lines, "capability").into_iter().map(row).collect()
    };
    let outside = rows(None);
    for (kind, unshared) in
        [("time", TIME), ("pid", PID), ("user", USER), ("net", "--net"), ("mnt", "--mount"), ("cgroup", "--cgroup")]
    {
        let id = format!("host.namespace.{kind}");
        assert!(outside[&id].1.starts_with("the initial one") || outside[&id].1.starts_with("unknown"), "{outside:?}");
        let (state, reason) = &rows(Some(unshared))[&id];
        assert!(reason.starts_with("not the host's ("), "{kind}: {reason}");
        let is_reduced = matches!(kind, "pid" | "user" | "net");
        assert_eq!(state == "reduced", is_reduced, "{kind}: {state}: {reason}");
    }
    let time = &rows(Some(TIME))["host.namespace.time"].1;
    assert!(time.contains("86400.0 s and 172800.0 s"), "{time}");
    assert_eq!(rows(Some(PID))["stall.ledger"].0, "works");
    assert_eq!(rows(Some("--pid"))["stall.ledger"].0, "reduced", "the host's /proc");
}
