//! Input that makes no sense: the right exit code, one clear line, nothing lost.

use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use surefoot_e2e::command::{Surefoot, binary, surefoot};
use surefoot_e2e::machine::{Need, turn};

/// Runs that must end before they begin, with what their message must say.
fn refuses(cases: &[(&str, &[&str])]) {
    for (words, said) in cases {
        surefoot(words).run().expect_refusal(2, said);
    }
}

#[test]
fn cores_that_are_none_are_refused() {
    let Some(_turn) = turn("cores_that_are_none_are_refused", Need::Nothing) else { return };
    refuses(&[
        ("stall report --duration 1s --cpu 8191", &["core 8191", "does not exist", "online"]),
        ("stall probe --duration 1s --cpu 8191", &["core 8191", "does not exist", "online"]),
        ("stall probe --duration 1s --cpu 0,8191", &["core 8191", "does not exist"]),
        ("watch --no-page --duration 1s --cpu 8191", &["core 8191", "does not exist"]),
        ("stall report --duration 1s --cpu 3-1", &["--cpu", "3-1", "backwards"]),
        ("stall report --duration 1s --cpu x", &["--cpu", "'x'", "neither a number nor a range"]),
        ("stall report --duration 1s --cpu 1-", &["--cpu", "'1-'"]),
        ("stall report --duration 1s --cpu 0-4294967296", &["--cpu", "4294967296"]),
        ("stall report --duration 1s --sentinel 8191", &["core 8191", "does not exist"]),
        ("stall report --duration 1s --sentinel 0:0", &["--sentinel", "1 to 100 %"]),
        ("stall report --duration 1s --sentinel 0:101", &["--sentinel", "101 %", "1 to 100 %"]),
        ("stall report --duration 1s --sentinel x", &["--sentinel", "'x' is not a core"]),
    ]);
    surefoot("stall report --duration 1s --cpu").arg("").run().expect_refusal(2, &["--cpu", "no core"]);
    surefoot("stall probe --duration 1s").run().expect_code(2);
}

#[test]
fn times_that_are_none_are_refused() {
    let Some(_turn) = turn("times_that_are_none_are_refused", Need::Nothing) else { return };
    for command in ["stall report", "stall probe --cpu 0", "watch --no-page"] {
        let with = |time: &str| surefoot(command).arg(format!("--duration={time}"));
        with("0s").run().expect_refusal(2, &["--duration", "is zero", "such as 10s"]);
        with("-1s").run().expect_refusal(2, &["--duration", "'-1s'", "such as 10s"]);
        // A number alone is seconds: these are more than a report may take.
        with("604801").run().expect_refusal(2, &["--duration", "7 days"]);
        with("10x").run().expect_refusal(2, &["--duration", "'x' is not a unit", "such as 10s"]);
        with("").run().expect_refusal(2, &["--duration", "such as 10s"]);
        with("1e30s").run().expect_refusal(2, &["--duration", "such as 10s"]);
        with("99999999999999999999999s").run().expect_refusal(2, &["--duration", "longer than can be counted"]);
        with("8d").run().expect_refusal(2, &["--duration", "7 days"]);
        with("1ns").run().expect_refusal(2, &["duration", "1ns"]);
    }
    refuses(&[
        ("stall probe --cpu 0 --duration 1s --threshold 0s", &["--threshold", "is zero"]),
        ("stall probe --cpu 0 --duration 1s --threshold 1ns", &["threshold", "100 ns to 60 s"]),
        ("stall probe --cpu 0 --duration 1s --threshold 1000d", &["threshold", "100 ns to 60 s"]),
        ("stall report --duration 1s --min-gap 1ns", &["min-gap", "100 ns to 60 s"]),
        ("watch --no-page --duration 1s --interval 1ms", &["interval", "100ms to 1h"]),
        ("watch --no-page --duration 1s --port 7000", &["--no-page", "--port"]),
        ("watch --no-page --duration 1s --page-group root", &["--no-page", "--page-group"]),
        ("watch --no-page --duration 1s --interval 2h", &["interval", "100ms to 1h"]),
        ("stall probe --cpu 0 --duration 1s --fifo 0", &["--fifo"]),
        ("stall probe --cpu 0 --duration 1s --fifo 100", &["--fifo"]),
    ]);
}

#[test]
fn workloads_and_kinds_that_are_none_are_refused() {
    let Some(_turn) = turn("workloads_and_kinds_that_are_none_are_refused", Need::Nothing) else { return };
    refuses(&[
        ("stall report --duration 1s --pid 4194304", &["--pid 4194304", "no such process"]),
        ("watch --no-page --duration 1s --pid 4194304", &["--pid 4194304", "no such process"]),
        ("stall report --duration 1s --pid 0", &["--pid"]),
        ("stall report --duration 1s --pid 1 --source counters", &["pid", "cannot follow", "--source counters"]),
        ("watch --no-page --duration 1s --comm init --source counters", &["comm", "cannot follow"]),
        ("stall report --duration 1s --pid x", &["--pid"]),
        ("stall report --duration 1s --comm 0123456789abcdef", &["--comm", "1 to 15 bytes", "16"]),
        ("stall report --duration 1s --pid 1 --comm init", &["--pid", "--comm"]),
        ("stall report --duration 1s --kinds nonsense", &["--kinds", "'nonsense'", "tlb_shootdown"]),
        ("stall report --duration 1s --source nonsense", &["--source", "nonsense"]),
        ("stall nonsense", &["nonsense"]),
        ("watch --port 65536", &["--port"]),
    ]);
    surefoot("stall report --comm").arg("").run().expect_refusal(2, &["--comm", "1 to 15 bytes"]);
    surefoot("").run().expect_code(2);
}

/// Commands that take a file or a directory: the words before it, and what stands before it in its own word.
const FILES: &[(&str, &str)] = &[
    ("stall replay", ""),
    ("stall who --replay", ""),
    ("stall who --cpu 0 --duration 1s --compare", ""),
    ("watch --no-page --replay", ""),
    ("history --file", ""),
    ("memory import", ""),
    ("memory simulate --errors", "trace:"),
    ("nic campaign report", ""),
    ("nic campaign --preset send-chunk --program", ""),
    ("nic campaign --experiment", ""),
    ("disturb report", ""),
    ("disturb predict --noise freeze:length=2ms,period=1s,phase=random --goal", ""),
    ("ecc coverage --merge", ""),
    ("checkpoint protect", ""),
    ("checkpoint repair", ""),
    ("checkpoint list", ""),
    ("checkpoint verify", ""),
    ("checkpoint scrub", ""),
    ("checkpoint remove j --in", ""),
    ("checkpoint drive", ""),
    ("remedy simulate --policy", ""),
    ("remedy check run --checks", ""),
    ("remedy serve --store sqlite:/proc/nothing --policy", ""),
    ("remedy cases --store", "sqlite:"),
    ("nonsense", ""),
    ("stall report --duration 1s", "--"),
];

#[test]
fn no_name_of_a_file_begins_a_line_of_ours() {
    let Some(_turn) = turn("no_name_of_a_file_begins_a_line_of_ours", Need::Nothing) else { return };
    let folder = tempfile::tempdir().unwrap();
    let hostile = folder.path().join("x\nsurefoot: all is well\u{1b}[2J\u{202e}\u{9b}y");
    for is_there in [false, true] {
        if is_there {
            std::fs::write(&hostile, "x\nsurefoot: all is well\u{1b}[2J\u{202e}").unwrap();
        }
        let mut shown = 0;
        for (words, before) in FILES {
            let finished = surefoot(words).arg(format!("{before}{}", hostile.display())).run();
            for text in [&finished.stdout, &finished.stderr] {
                assert!(!text.lines().any(|line| line.starts_with("surefoot: all")), "{finished:#?}");
                assert!(!text.contains(['\u{1b}', '\u{202e}', '\u{9b}']), "{finished:#?}");
                shown += usize::from(text.contains("x?surefoot: all is well?[2J?"));
            }
            assert!(finished.code.is_some_and(|code| code <= 3), "{finished:#?}");
        }
        assert!(shown * 3 >= FILES.len() * 2, "only {shown} commands name the file");
    }
}

/// A run of the page that ends by itself, in a folder of its own.
fn page(options: &str) -> Surefoot {
    surefoot("watch --duration 2s --source counters").words(options)
}

#[test]
fn a_taken_port_is_named_with_the_way_out() {
    let Some(_turn) = turn("a_taken_port_is_named_with_the_way_out", Need::Nothing) else { return };
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let refused = page("--no-history --port").arg(&port).run();
    refused.expect_refusal(2, &[&port, "taken", "`--port 0`"]);
}

#[test]
fn the_second_instance_on_a_port_leaves_the_first_alone() {
    let Some(_turn) = turn("the_second_instance_on_a_port_leaves_the_first_alone", Need::Nothing) else { return };
    let run_directory = tempfile::tempdir().unwrap();
    let start = |port: &str| {
        surefoot("watch --no-history --source counters --run-directory")
            .arg(run_directory.path())
            .arg("--port")
            .arg(port)
    };
    let mut first = start("0").start();
    let page = first.line_where(|line| line.starts_with("page: http://127.0.0.1:"));
    let port = page.trim_end().trim_end_matches('/').rsplit(':').next().unwrap().to_owned();
    start(&port).run().expect_refusal(2, &[&port, "taken", &format!("http://127.0.0.1:{port}/")]);
    assert!(first.is_running());
    let answer = surefoot_e2e::http::get(&format!("127.0.0.1:{port}"), "/api/v1/snapshot");
    assert_eq!(answer.status, 200);
    first.signal("TERM");
    first.finish().expect_code(0);
}

#[test]
fn closed_and_full_outputs_are_no_panic() {
    let Some(_turn) = turn("closed_and_full_outputs_are_no_panic", Need::Nothing) else { return };
    for words in [
        "watch --no-page --duration 600s --source counters",
        "watch --json --no-page --duration 600s --source counters",
    ] {
        let mut running = surefoot(words).start();
        running.line().unwrap();
        running.close_stdout();
        // Waits for less than the ten minutes.
        let finished = running.finish();
        finished.expect_code(0);
        assert_eq!(finished.stderr.matches("surefoot:").count(), 0, "{finished:#?}");
    }
    for words in ["status", "stall report --duration 200ms --source counters"] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let finished = surefoot(words).stdout(full).run();
        finished.expect_code(2);
        assert!(finished.stderr.contains("No space left on device"), "{finished:#?}");
    }
}

/// How the command ends whose standard output is closed.
fn with_closed_output(words: &str) -> Output {
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$0\" \"$@\" >&-"]).arg(binary()).args(words.split_whitespace());
    shell.stdin(Stdio::null()).output().unwrap()
}

/// The commands that the help of this one lists.
fn below(help: &str) -> Vec<String> {
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = list.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).filter(|name| name != "help").collect()
}

#[test]
fn output_that_cannot_be_written_fails_every_help_and_every_table() {
    let Some(_turn) = turn("output_that_cannot_be_written_fails_every_help_and_every_table", Need::Nothing) else {
        return;
    };
    let (mut left, mut commands) = (vec![String::new()], Vec::new());
    while let Some(command) = left.pop() {
        let words = format!("{command} --help");
        let help = surefoot(&words).run();
        help.expect_code(0);
        left.extend(below(&help.stdout).iter().map(|name| format!("{command} {name}").trim().to_owned()));
        commands.push(words);
    }
    assert!(commands.len() > 40, "only {commands:?}");
    for words in ["--version", "config defaults", "config show --json", "ecc verilog", "status", "status --json"] {
        commands.push(words.to_owned());
    }
    for words in &commands {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let full = surefoot(words).stdout(full).run();
        full.expect_code(2);
        assert!(full.stderr.contains("stdout cannot be written"), "{full:#?}");
        assert!(full.stderr.contains("No space left on device") && !full.stderr.contains("os error"), "{full:#?}");
        let closed = with_closed_output(words);
        let said = String::from_utf8_lossy(&closed.stderr);
        assert_eq!(closed.status.code(), Some(2), "{words}: {said}");
        assert!(said.contains("stdout cannot be written") && said.contains("it is closed"), "{words}: {said}");
    }
    // A reader that has seen enough is none of that.
    let (read, write) = std::io::pipe().unwrap();
    drop(read);
    let gone = surefoot("--help").stdout(write).run();
    gone.expect_code(0);
    assert_eq!(gone.stderr, "");
    // Whoever wants no output says so.
    surefoot("status")
        .stdout(std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").unwrap())
        .run()
        .expect_code(0);
}

#[test]
fn a_process_that_may_open_few_files_says_so_and_nothing_of_the_host() {
    let Some(_turn) = turn("a_process_that_may_open_few_files_says_so_and_nothing_of_the_host", Need::Nothing) else {
        return;
    };
    for words in ["nic health", "memory status", "status", "stall audit --cpu 0"] {
        for limit in [6, 8, 16, 31] {
            let mut shell = Command::new("sh");
            let limited = format!("ulimit -n {limit}; exec \"$0\" \"$@\"");
            shell.args(["-c", &limited]).arg(binary()).args(words.split_whitespace());
            let output = shell.stdin(Stdio::null()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{words} with {limit}: {said}");
            assert!(said.contains("may open only") && said.contains("ulimit -n"), "{words} with {limit}: {said}");
        }
    }
}
