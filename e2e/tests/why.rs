//! `surefoot why`: the one finding that matters, and who takes a process's time.

use crate::undisturbed::wait_for_programs;
use serde_json::Value;
use surefoot_e2e::actor;
use surefoot_e2e::command::surefoot;
use surefoot_e2e::machine::{Need, turn};
use surefoot_e2e::report::{number, of_type};

/// Processor time that the intruder uses, milliseconds.
const INTRUDER_MS: u64 = 400;

/// The intruder's own count of its processor time, and the scheduler's count of the victim's wait, bound what is said.
#[test]
fn who_takes_the_time_of_a_process_is_named_and_held_against_the_scheduler() {
    let Some(_turn) = turn("who_takes_the_time_of_a_process_is_named_and_held_against_the_scheduler", Need::Ebpf)
    else {
        return;
    };
    actor::prepare();
    let spinner = actor::start("spinner", "spin 1 180000");
    let mut why = surefoot(&format!("why --json --duration 120s --pid {}", spinner.pid())).start();
    // What the intruder takes before the programs are attached is nobody's.
    wait_for_programs(&mut why);
    std::thread::sleep(std::time::Duration::from_secs(1));
    let truth = actor::run("intruder", &format!("burn 1 {INTRUDER_MS}"));
    std::thread::sleep(std::time::Duration::from_secs(2));
    why.ask_to_end();
    let told = why.finish();
    told.expect_code(0);
    let lines = told.json_lines();
    let line = of_type(&lines, "victim")[0];
    let used_ns = number(&truth, "cpu_ns") as f64;
    let takers = line["takers"].as_array().unwrap();
    let taken = |name: &str| {
        let of_name = takers.iter().filter(|taker| taker["name"] == name);
        of_name.map(|taker| number(taker, "total_ns")).sum::<u64>() as f64
    };
    assert!(taken("intruder") > 0.8 * used_ns, "{used_ns}: {line}");
    assert_eq!(taken("spinner"), 0.0, "it takes nothing from itself: {line}");
    let (waited, named) = (number(line, "waited_ns"), number(line, "named_ns"));
    assert!(waited as f64 > 0.8 * used_ns, "{line}");
    assert_eq!(number(line, "unnamed_ns"), waited.saturating_sub(named), "{line}");
    assert_eq!(named, takers.iter().map(|taker| number(taker, "total_ns")).sum::<u64>(), "{line}");
    // The hypervisor takes time from whoever runs, which the scheduler counts to the wait as well.
    assert!(named as f64 <= 1.1 * waited as f64 + 50e6, "{line}");
    assert_eq!((number(line, "lost_threads"), line["of"].as_str()), (0, Some(&*format!("process {}", spinner.pid()))));
}

/// Without a watch it looks itself, and what it cannot look at is said not to be known.
#[test]
fn what_matters_most_is_said_with_the_next_command() {
    let Some(_turn) = turn("what_matters_most_is_said_with_the_next_command", Need::Ebpf) else { return };
    let folder = tempfile::tempdir().unwrap();
    let ask = |words: &str| surefoot(words).arg("--run-directory").arg(folder.path());
    let looked = ask("why --duration 500ms").run();
    looked.expect_code(0);
    let text = &looked.stdout;
    assert!(text.contains("Not checked:") && text.contains("Checkpoints"), "{text}");
    assert!(text.ends_with("Measured for 500 ms; `surefoot watch` measures all the time.\n"), "{text}");
    let severity = text.split(',').next().unwrap();
    let has_command = text.contains("\nRun next: surefoot ");
    assert!(["OK", "NOTICE", "WARNING", "CRITICAL"].contains(&severity) && (has_command || severity == "OK"), "{text}");

    let mut watch = ask("watch --port 0 --interval 200ms --no-history").start();
    watch.line_where(|line| line.starts_with("page: "));
    let begun = std::time::Instant::now();
    let line = loop {
        let asked = ask("why --json").run();
        asked.expect_code(0);
        let line: Value = of_type(&asked.json_lines(), "why")[0].clone();
        // At the very first it has no data.
        if line["watch_age_ns"].is_u64() {
            break line;
        }
        assert!(begun.elapsed() < surefoot_e2e::command::PATIENCE, "{line}");
    };
    assert!(line["finding"]["sentence"].is_string(), "{line}");
    let unwatched: Vec<&str> =
        line["not_watched"].as_array().unwrap().iter().filter_map(|one| one["room"].as_str()).collect();
    assert!(unwatched.contains(&"checkpoint"), "{line}");
    watch.ask_to_end();
    watch.finish().expect_code(0);
}

/// Without eBPF it is known how long a process waited, and not for whom; no table is empty as if nobody took anything.
#[test]
fn without_ebpf_who_took_the_time_is_not_known() {
    let Some(_turn) = turn("without_ebpf_who_took_the_time_is_not_known", Need::Root) else { return };
    actor::prepare();
    let spinner = actor::start("spinner", "spin 1 60000");
    let of_spinner = format!("why --duration 500ms --pid {}", spinner.pid());
    let told = surefoot(&of_spinner).as_nobody().run();
    told.expect_code(0);
    assert!(
        told.stdout.contains("ran for") && told.stdout.contains("Who had the core while it waited is not known"),
        "{told:#?}"
    );
    let told = surefoot(&of_spinner).arg("--json").as_nobody().run();
    let line = of_type(&told.json_lines(), "victim")[0].clone();
    assert!(number(&line, "ran_ns") > 0, "{line}");
    assert!(["takers", "named_ns", "unnamed_ns"].iter().all(|field| line[field].is_null()), "{line}");
    surefoot("why --duration 500ms --comm spinner").as_nobody().run().expect_refusal(2, &["--comm", "eBPF"]);
    surefoot("why --duration 500ms --comm no-such-name")
        .run()
        .expect_refusal(2, &["--comm no-such-name", "no thread has"]);
    surefoot("why --duration 500ms --unit no-such-unit").run().expect_refusal(2, &["--unit no-such-unit"]);
}
