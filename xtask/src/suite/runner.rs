//! Runs test runners, one or more at the same time, and reads their counts.
//!
//! The tests of most crates wait as much as they compute, so two binaries at once take little more time than the
//! longer of them. What a binary prints comes in one piece when it has ended; what runs alone is shown as it goes.

use crate::counts::{self, Counts, Said};
use crate::workspace::Workspace;
use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// The environment variable of `surefoot_testkit::not_run`.
pub const NOT_RUN_FILE: &str = "SUREFOOT_NOT_RUN";

/// A test runner to be run.
pub struct Job {
    pub name: String,
    command: Command,
    /// Where its tests append what they left out.
    not_run_file: PathBuf,
}

impl Job {
    /// `make` gets the file that the runner's environment must name in [`NOT_RUN_FILE`]; a command that passes its
    /// environment on needs to do nothing about it.
    pub fn new(workspace: &Workspace, name: &str, make: impl FnOnce(&Path) -> Command) -> Self {
        let word = name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
        let not_run_file = workspace.target().join(format!("not-run-{}-{word}.txt", std::process::id()));
        let mut command = make(&not_run_file);
        command.env(NOT_RUN_FILE, &not_run_file).stdin(Stdio::null());
        Job { name: name.into(), command, not_run_file }
    }
}

/// A test runner that has ended.
pub struct Ran {
    pub name: String,
    pub took: Duration,
    /// Processor time of it and of the children that it has waited for, seconds.
    pub computed_s: f64,
    pub counts: Counts,
    /// The tests that failed, by name; empty as well where it ended badly without naming one.
    pub failed: Vec<String>,
    /// What it could not run here, by name, and why.
    pub left_out: BTreeMap<String, String>,
    /// How long each of its tests took, where it runs one at a time.
    pub tests: Vec<(String, Duration)>,
}

/// Jobs that run in their order, so many of them at the same time.
pub struct Lane {
    pub jobs: Vec<Job>,
    pub at_once: usize,
}

/// Runs the lanes beside each other, and hands each job that has ended to `ended` in this thread.
pub fn run(lanes: Vec<Lane>, mut ended: impl FnMut(Ran)) {
    let mut lanes: Vec<Lane> = lanes.into_iter().filter(|lane| !lane.jobs.is_empty()).collect();
    if let [lane] = &mut lanes[..]
        && (lane.at_once <= 1 || lane.jobs.len() == 1)
    {
        return lane.jobs.drain(..).for_each(|job| ended(run_one(job, Output::AsItGoes)));
    }
    let lanes: Vec<_> = lanes.into_iter().map(|lane| (Mutex::new(VecDeque::from(lane.jobs)), lane.at_once)).collect();
    let (sender, results) = mpsc::channel();
    std::thread::scope(|scope| {
        for queue in lanes.iter().flat_map(|(queue, at_once)| std::iter::repeat_n(queue, *at_once)) {
            let sender = sender.clone();
            scope.spawn(move || {
                let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                while let Some(job) = next() {
                    let mut text = Vec::new();
                    let ran = run_one(job, Output::Kept(&mut text));
                    // The receiver lives until this thread has ended.
                    let _ = sender.send((text, ran));
                }
            });
        }
        drop(sender);
        for (text, ran) in results {
            print!("\n{}", String::from_utf8_lossy(&text));
            ended(ran);
        }
    });
}

/// What becomes of what a runner prints.
enum Output<'a> {
    AsItGoes,
    /// Standard output and standard error in one, in the order in which they came.
    Kept(&'a mut Vec<u8>),
}

fn run_one(job: Job, output: Output) -> Ran {
    let began = Instant::now();
    let Job { name, command, not_run_file } = job;
    let one_at_a_time = command.get_args().any(|word| word == "--test-threads=1");
    let counted = std::fs::write(&not_run_file, "")
        .map_err(|error| format!("{} cannot be written: {error}", not_run_file.display()))
        .and_then(|()| run_and_count(command, output));
    let Ended { said, succeeded, tests, computed_s } = counted.unwrap_or_else(|why| {
        println!("{name}: {why}");
        Ended::default()
    });
    let tests = if one_at_a_time { tests } else { Vec::new() };
    let left_out = read_not_run(&not_run_file);
    // It lies under target and is of this process alone; one that stays does no harm.
    let _ = std::fs::remove_file(&not_run_file);
    let counts = settle(&said, succeeded, left_out.len() as u64);
    let left_out = said.ignored.into_iter().chain(left_out).collect();
    Ran { name, took: began.elapsed(), computed_s, counts, failed: said.failed, left_out, tests }
}

/// The time from one test's line to the next: how long the test took, if the runner runs one at a time.
type Times = Vec<(String, Duration)>;

/// How a command ended, and what it printed.
#[derive(Default)]
struct Ended {
    said: Said,
    succeeded: bool,
    tests: Times,
    computed_s: f64,
}

/// Runs a command and reads the counts in its standard output, line by line.
fn run_and_count(mut command: Command, mut output: Output) -> Result<Ended, String> {
    let program = format!("{:?}", command.get_program());
    let failed = |error| format!("{program}: {error}");
    let (reader, writer) = std::io::pipe().map_err(failed)?;
    if matches!(output, Output::Kept(_)) {
        command.stderr(writer.try_clone().map_err(failed)?);
    }
    let started = command.stdout(writer).spawn();
    let mut child = started.map_err(|error| format!("{program} cannot be started: {error}"))?;
    // It holds the pipe open, whose end is waited for.
    drop(command);
    let mut said = Said::default();
    let mut lines = BufReader::new(reader);
    let mut line = Vec::new();
    let (mut tests, mut since) = (Vec::new(), Instant::now());
    while lines.read_until(b'\n', &mut line).map_err(failed)? > 0 {
        let text = String::from_utf8_lossy(&line);
        said.read(&text);
        if let Some(name) = counts::ended_test(&text) {
            let now = Instant::now();
            tests.push((name.to_owned(), now - std::mem::replace(&mut since, now)));
        }
        match &mut output {
            Output::AsItGoes => print!("{text}"),
            Output::Kept(kept) => kept.extend_from_slice(&line),
        }
        line.clear();
    }
    let computed_s = computed_at_the_end(child.id());
    let status = child.wait().map_err(failed)?;
    Ok(Ended { said, succeeded: status.success(), tests, computed_s })
}

/// How often a child that has closed its output is asked whether it has ended, and for how long at most.
const ASKED_EVERY: Duration = Duration::from_millis(5);
const ASKED: u32 = 400;

/// The processor time of a child of ours that is about to end, which the kernel tells until it is waited for.
fn computed_at_the_end(process: u32) -> f64 {
    let stat = format!("/proc/{process}/stat");
    for _ in 0..ASKED {
        let text = std::fs::read_to_string(&stat).unwrap_or_default();
        if text.rsplit(") ").next().is_none_or(|fields| fields.is_empty() || fields.starts_with('Z')) {
            break;
        }
        std::thread::sleep(ASKED_EVERY);
    }
    super::processor_s(&stat)
}

/// The counts that go into the sum: what was left out did not pass, and what ends badly has failed.
///
/// A runner that gives no numbers counts as one test.
fn settle(said: &Said, succeeded: bool, left_out: u64) -> Counts {
    let mut counts = said.counts;
    if !succeeded && counts.failed == 0 {
        counts.failed = 1;
    }
    if succeeded && !said.summed_up {
        counts.passed = 1;
    }
    counts.passed = counts.passed.saturating_sub(left_out);
    counts.skipped += left_out;
    counts
}

/// The lines `NAME: REASON` of the file, one per name.
fn read_not_run(file: &Path) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(": "));
    lines.map(|(name, why)| (name.to_owned(), why.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn counts_come_from_what_a_runner_prints_and_how_it_ends() {
        let line = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        let count = |script: &str| run_and_count(shell(script), Output::AsItGoes).unwrap();
        let Ended { said, succeeded, .. } = count(&format!("echo '{line}'; echo '{line}'"));
        assert_eq!((said.counts, succeeded), (Counts { passed: 6, failed: 0, skipped: 2 }, true));
        let Ended { said, succeeded, .. } = count(&format!("echo '{line}'; exit 101"));
        assert!(!succeeded);
        assert_eq!(settle(&said, succeeded, 0), Counts { passed: 3, failed: 1, skipped: 1 });
    }

    #[test]
    fn a_test_that_was_left_out_has_not_passed() {
        let said = Said { counts: Counts { passed: 5, failed: 1, skipped: 1 }, summed_up: true, ..Said::default() };
        assert_eq!(settle(&said, false, 2), Counts { passed: 3, failed: 1, skipped: 3 });
        assert_eq!(settle(&Said::default(), true, 0), Counts { passed: 1, failed: 0, skipped: 0 });
        assert_eq!(settle(&Said::default(), false, 0), Counts { passed: 0, failed: 1, skipped: 0 });
        let nothing = Said { summed_up: true, ..Said::default() };
        assert_eq!(settle(&nothing, true, 0), Counts::default());
    }

    #[test]
    fn each_test_of_a_runner_has_its_own_time() {
        let script =
            "echo 'running 2 tests'; sleep 0.3; echo 'test slow ... ok'; echo 'words'; echo 'test quick ... FAILED'";
        let tests = run_and_count(shell(script), Output::AsItGoes).unwrap().tests;
        assert_eq!(tests.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["slow", "quick"]);
        // The clock starts once the process is started, which may be a little after its sleep begins.
        assert!(tests[0].1 >= Duration::from_millis(50) && tests[0].1 > tests[1].1, "{tests:?}");
    }

    #[test]
    fn what_a_runner_and_its_children_compute_is_counted() {
        let script = "exec 3>&1 >&-; i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done; (while [ $i -lt 400000 ]; do i=$((i + 1)); done)";
        let alone = run_and_count(shell("sleep 0.3"), Output::AsItGoes).unwrap().computed_s;
        let computed_s = run_and_count(shell(script), Output::AsItGoes).unwrap().computed_s;
        assert!(alone < 0.1 && computed_s > 0.1, "{alone} {computed_s}");
    }

    #[test]
    fn what_a_runner_prints_is_kept_whole_and_in_order() {
        let mut text = Vec::new();
        let ended = run_and_count(shell("echo one; echo two >&2; echo three"), Output::Kept(&mut text)).unwrap();
        assert!(ended.succeeded);
        assert_eq!(String::from_utf8(text).unwrap(), "one\ntwo\nthree\n");
    }

    #[test]
    fn as_many_jobs_run_at_once_as_may_and_each_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::here();
        // Each of two waits for the other one, so neither ends if they run one after another.
        let meets = |own: &str, other: &str| {
            let place = folder.path().display();
            format!(
                "touch {place}/{own}; n=0; until [ -e {place}/{other} ]; do sleep 0.01; n=$((n + 1)); [ $n -lt 2000 ]; done"
            )
        };
        let job = |name: &str, script: &str| Job::new(&workspace, name, |_| shell(&format!("set -e; {script}")));
        let jobs = || vec![job("first", &meets("a", "b")), job("second", &meets("b", "a")), job("third", "exit 3")];
        let split = || {
            let [first, second, third] = jobs().try_into().ok().unwrap();
            vec![Lane { jobs: vec![first, third], at_once: 1 }, Lane { jobs: vec![second], at_once: 1 }]
        };
        for lanes in [vec![Lane { jobs: jobs(), at_once: 2 }], split()] {
            for name in ["a", "b"] {
                let _ = std::fs::remove_file(folder.path().join(name));
            }
            let mut ended = Vec::new();
            run(lanes, |ran| ended.push((ran.name, ran.counts.passed, ran.counts.failed)));
            ended.sort();
            let expected = [("first", 1, 0), ("second", 1, 0), ("third", 0, 1)];
            assert_eq!(ended, expected.map(|(name, passed, failed)| (name.to_owned(), passed, failed)));
        }
    }
}
