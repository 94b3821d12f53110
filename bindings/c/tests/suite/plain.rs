//! A program of one process, in C.

use super::build::{Linked, can_run, compile};
use super::run::{Running, Tiers, kill, line, said, send, text_of};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn example(test: &str, linked: Linked, into: &Path) -> Option<PathBuf> {
    can_run(test, &["cc"], "install gcc or clang")
        .then(|| compile("cc", &["-std=gnu11"], "examples/checkpoint.c", linked, into))
}

fn log(tiers: &Tiers) -> String {
    fs::read_to_string(tiers.path("memory/example/files-00000/log.txt")).unwrap()
}

#[test]
fn killed_again_and_again_it_ends_with_the_same_bits() {
    let whole = Tiers::new();
    let test = "killed_again_and_again_it_ends_with_the_same_bits";
    let Some(program) = example(test, Linked::Static, &whole.path("tmp")) else { return };
    let steps = "300";
    let expected = text_of(Command::new(&program).arg(steps).args(whole.settings(&["policy=memory"])));

    let tiers = Tiers::new();
    let settings = tiers.settings(&["policy=memory"]);
    let mut kills = 0;
    for attempt in 0..6 {
        let mut running = Running::start(Command::new(&program).arg(steps).args(&settings));
        let mut left = 2 + attempt;
        while left > 0 && running.until(|line| line.contains(": checkpoint ")).is_some() {
            left -= 1;
        }
        if left > 0 {
            break;
        }
        // Wherever it is now: in a step, in its file, or in the next save. On a busy machine it may have come to its end.
        std::thread::sleep(std::time::Duration::from_millis(7 * attempt));
        if running.has_ended() {
            break;
        }
        kill(running.process(), &program);
        kills += u32::from(!running.end());
    }
    assert!(kills >= 3, "{kills} kills");
    let after = text_of(Command::new(&program).arg(steps).args(&settings));
    assert!(line(&after, "restarted at step ").contains("from memory"), "{after}");
    assert_eq!(line(&after, "after 300 steps"), line(&expected, "after 300 steps"));
    assert!(log(&tiers) == log(&whole), "its file is another: {}", log(&tiers));
}

/// The newest generation that is said to be durable.
fn last_durable(text: &str) -> u64 {
    let said = text.lines().filter_map(|line| line.strip_prefix("generation ")?.split_once(" is durable"));
    said.filter_map(|(number, _)| number.parse().ok()).max().unwrap_or_else(|| panic!("none is durable: {text}"))
}

#[test]
fn a_durable_checkpoint_survives_the_loss_of_memory() {
    let tiers = Tiers::new();
    let test = "a_durable_checkpoint_survives_the_loss_of_memory";
    let Some(program) = example(test, Linked::Shared, &tiers.path("tmp")) else { return };
    let settings = tiers.settings(&["durable=SSD", "staleness_max_s=0.001"]);
    let first = text_of(Command::new(&program).arg("40").args(&settings));
    // Which of them is the last one, and after which steps they are taken, depends on how fast the machine is.
    let taken = format!(": checkpoint {} is in memory and soon on the SSD", last_durable(&first));
    let step = first.lines().find_map(|line| line.strip_suffix(&taken)?.strip_prefix("step "));
    let step = step.unwrap_or_else(|| panic!("no '{taken}' in {first}"));
    fs::remove_dir_all(tiers.path("memory/example")).unwrap();
    let second = text_of(Command::new(&program).arg("60").args(&settings));
    assert!(line(&second, &format!("restarted at step {step}: ")).contains("from the SSD"), "{second}");
}

#[test]
fn told_to_end_it_saves_and_goes_on_elsewhere() {
    let tiers = Tiers::new();
    let test = "told_to_end_it_saves_and_goes_on_elsewhere";
    let Some(program) = example(test, Linked::Static, &tiers.path("tmp")) else { return };
    let settings = tiers.settings(&["policy=memory", "durable=SSD", "sigterm=checkpoint"]);
    let mut running = Running::start(Command::new(&program).arg("100000").args(&settings));
    assert!(running.until(|line| line.contains(": checkpoint 2 ")).is_some(), "{:?}", running.seen);
    send(libc::SIGTERM, running.process(), &program);
    assert!(running.end(), "it ends well");
    let seen = running.seen.join("\n");
    let step = line(&seen, "told to end at step ").rsplit(' ').next().unwrap();
    assert!(seen.contains(&format!("step {step}: checkpoint ")) && seen.contains(" is durable"), "{seen}");
    // On another node there is nothing in memory.
    fs::remove_dir_all(tiers.path("memory/example")).unwrap();
    let again = text_of(Command::new(&program).arg((step.parse::<u64>().unwrap() + 10).to_string()).args(&settings));
    assert!(line(&again, &format!("restarted at step {step}")).contains("from the SSD"), "{again}");
}

#[test]
fn what_is_wrong_is_said() {
    let tiers = Tiers::new();
    let Some(program) = example("what_is_wrong_is_said", Linked::Static, &tiers.path("tmp")) else { return };
    for (setting, text) in [
        ("colour=red", "there is no setting \"colour\""),
        ("durable", "the value is NULL"),
        ("memory.slots=1", "2 to 16"),
        ("memory=/proc/nothing", "/proc/nothing"),
    ] {
        let output = Command::new(&program).args(["10"]).args(tiers.settings(&[setting])).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{setting}: {}", said(&output));
        assert!(said(&output).contains(text), "{setting}: {}", said(&output));
    }
    // Nothing intact: not restarted with wrong data, and not begun anew without asking.
    let settings = tiers.settings(&["policy=memory"]);
    text_of(Command::new(&program).arg("30").args(&settings));
    for slot in 0..2 {
        fs::write(tiers.path(&format!("memory/example/rank-00000/slot-{slot}.image")), "short").unwrap();
    }
    let output = Command::new(&program).arg("40").args(&settings).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("no checkpoint can be restored: generation 3"), "{}", said(&output));
}

#[test]
fn a_program_that_never_asks_for_an_earlier_run_is_told_that_it_saves_over_it() {
    let tiers = Tiers::new();
    let test = "a_program_that_never_asks_for_an_earlier_run_is_told_that_it_saves_over_it";
    if !can_run(test, &["cc"], "install gcc or clang") {
        return;
    }
    let source = "tests/programs/never_restarts.c";
    let program = compile("cc", &["-std=gnu11"], source, Linked::Static, &tiers.path("tmp"));
    // A watch of this host may have left its file behind, which is a notice.
    let health = ("SUREFOOT_CHECKPOINT_HEALTH_FILE", tiers.path("health.json"));
    let run = || text_of(Command::new(&program).arg(tiers.path("memory")).env(health.0, &health.1));
    assert_eq!(run(), "", "there is nothing before the first run");
    let told = run();
    let said = line(&told, "generation 3 of an earlier run is there");
    assert!(said.contains("Call restart before the first save"), "once: {told}");
    assert!(said.contains("surefoot checkpoint remove forgetful"), "{told}");
}
