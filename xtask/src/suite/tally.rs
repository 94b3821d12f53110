//! The steps that ran, how long each took, and what passed, failed and could not run.

use super::processor_s;
use super::runner::{self, Job, Lane, Ran};
use crate::counts::Counts;
use crate::workspace::{Checked, Workspace};
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// How many of the slowest parts are listed at the end.
const SLOWEST: usize = 10;

/// How the names of the steps begin that only compile.
pub const BUILD: &str = "build";

/// A check of this program's own.
pub type Check = fn(&Workspace) -> Result<Checked, String>;

/// One step that ran, for the table at the end.
struct Step {
    name: String,
    took: Duration,
    /// Processor time of this process and of those that it has waited for, seconds: what all cores could not do less of.
    computed_s: f64,
    result: String,
}

/// What ran so far.
pub struct Suite<'a> {
    pub workspace: &'a Workspace,
    steps: Vec<Step>,
    /// Steps, and the test binaries of steps that run several, with their times.
    parts: Vec<(String, Duration)>,
    /// The processor time of each test runner.
    computed: Vec<(String, Duration)>,
    pub counts: Counts,
    /// Tests of binaries that run one at a time, with their times.
    tests: Vec<(String, Duration)>,
    /// Steps and test binaries that failed, with the names of the tests that did.
    failed: Vec<(String, Vec<String>)>,
    /// What could not run here, by name, and why.
    pub left_out: BTreeMap<String, String>,
}

impl<'a> Suite<'a> {
    pub fn new(workspace: &'a Workspace) -> Self {
        let counts = Counts::default();
        Suite {
            workspace,
            steps: Vec::new(),
            parts: Vec::new(),
            computed: Vec::new(),
            tests: Vec::new(),
            counts,
            failed: Vec::new(),
            left_out: BTreeMap::new(),
        }
    }

    pub fn not_run(&mut self, name: &str, why: &str) {
        println!("not run: {name}: {why}");
        self.counts.skipped += 1;
        self.left_out.insert(name.into(), why.into());
    }

    pub fn check(&mut self, name: &str, check: Check) {
        let began = Began::announce(name);
        match check(self.workspace) {
            Ok(Checked::Clean(summary)) => {
                println!("{summary}");
                self.note_one(name, began, true);
            }
            Ok(Checked::Faults(faults)) => {
                faults.iter().for_each(|fault| println!("{fault}"));
                println!("{} faults", faults.len());
                self.note_one(name, began, false);
            }
            Ok(Checked::NotRun(why)) => self.not_run(name, &why),
            Err(error) => {
                println!("{error}");
                self.note_one(name, began, false);
            }
        }
    }

    /// Runs a command that counts as one test; tells whether it succeeded.
    pub fn command(&mut self, name: &str, command: &mut Command) -> bool {
        let began = Began::announce(name);
        let status = command.stdin(Stdio::null()).status();
        let passed = status.as_ref().is_ok_and(|status| status.success());
        if let Err(error) = status {
            println!("{:?} cannot be started: {error}", command.get_program());
        }
        self.note_one(name, began, passed);
        passed
    }

    /// A step that gives a value, or says why it failed; it counts as one test.
    pub fn value<T>(&mut self, name: &str, make: impl FnOnce() -> Result<T, String>) -> Option<T> {
        let began = Began::announce(name);
        let made = make();
        if let Err(why) = &made {
            println!("{why}");
        }
        self.note_one(name, began, made.is_ok());
        made.ok()
    }

    /// Runs test runners, `at_once` of them at the same time, as one step; shows what they print and takes their counts.
    pub fn tests(&mut self, name: &str, jobs: Vec<Job>, at_once: usize) {
        self.lanes(name, vec![Lane { jobs, at_once }]);
    }

    /// The same for several lanes beside each other.
    pub fn lanes(&mut self, name: &str, lanes: Vec<Lane>) {
        let began = Began::announce(name);
        let only_one = lanes.iter().map(|lane| lane.jobs.len()).sum::<usize>() == 1;
        let mut sum = Counts::default();
        runner::run(lanes, |Ran { name, took, computed_s, counts, failed, left_out, tests }| {
            self.tests.extend(tests);
            self.computed.push((name.clone(), Duration::from_secs_f64(computed_s)));
            if counts.failed > 0 {
                self.failed.push((name.clone(), failed));
            }
            if !only_one {
                let took_s = took.as_secs_f64();
                println!("-- {name}: {}, {took_s:.1} s, {computed_s:.1} s of processors", result_of(counts));
                self.parts.push((name, took));
            }
            sum.add(counts);
            self.left_out.extend(left_out);
        });
        self.counts.add(sum);
        self.note(name, began, result_of(sum), only_one);
    }

    fn note_one(&mut self, name: &str, began: Began, passed: bool) {
        self.counts.add(Counts { passed: u64::from(passed), failed: u64::from(!passed), skipped: 0 });
        if !passed {
            self.failed.push((name.into(), Vec::new()));
        }
        self.note(name, began, if passed { "passed" } else { "FAILED" }.into(), true);
    }

    fn note(&mut self, name: &str, began: Began, result: String, is_a_part: bool) {
        let (took, computed_s) = (began.at.elapsed(), processor_s("/proc/self/stat") - began.processor_s);
        println!("-- {name}: {result}, {:.1} s", took.as_secs_f64());
        if is_a_part {
            self.parts.push((name.into(), took));
        }
        self.steps.push(Step { name: name.into(), took, computed_s, result });
    }

    pub fn finish(mut self) -> ExitCode {
        if self.steps.len() > 1 {
            println!("\n== {} steps", self.steps.len());
            for step in &self.steps {
                let (took_s, computed_s) = (step.took.as_secs_f64(), step.computed_s);
                println!("{:<26} {took_s:>7.1} s {computed_s:>7.1} s of processors  {}", step.name, step.result);
            }
        }
        if let Some(line) = self.building() {
            println!("{line}");
        }
        if self.parts.len() > SLOWEST {
            print_longest("steps and test binaries, by the clock", &mut self.parts);
            print_longest("test binaries, by what they compute", &mut self.computed);
            print_longest("tests of binaries that run one test at a time", &mut self.tests);
            println!();
        }
        for (name, why) in &self.left_out {
            println!("not run: {name}: {why}");
        }
        for (name, tests) in &self.failed {
            println!("failed: {name}{}{}", if tests.is_empty() { "" } else { ": " }, tests.join(", "));
        }
        if let Some(line) = self.look_at_first() {
            println!("{line}");
        }
        println!("{}", self.counts);
        if self.counts.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

impl Suite<'_> {
    /// How long the steps took that only compile; `None` if there were none.
    fn building(&self) -> Option<String> {
        let steps: Vec<&Step> = self.steps.iter().filter(|step| step.name.starts_with(BUILD)).collect();
        let took_s: f64 = steps.iter().map(|step| step.took.as_secs_f64()).sum();
        let computed_s: f64 = steps.iter().map(|step| step.computed_s).sum();
        (!steps.is_empty()).then(|| format!("building took {took_s:.0} s and {computed_s:.0} s of processor time"))
    }

    /// The step or test binary to look at first: the first that failed, else the one that takes longest.
    fn look_at_first(&self) -> Option<String> {
        if let Some((name, tests)) = self.failed.first() {
            let test = tests.first().map(|test| format!(", test {test}")).unwrap_or_default();
            return Some(format!("look first at: {name}{test}"));
        }
        let whole: Duration = self.steps.iter().map(|step| step.took).sum();
        let (name, took) = self.parts.iter().max_by_key(|(_, took)| *took)?;
        let (took, whole) = (took.as_secs_f64(), whole.as_secs_f64());
        (self.parts.len() > SLOWEST)
            .then(|| format!("to make this faster, look first at: {name}, {took:.0} of {whole:.0} s"))
    }
}

fn print_longest(of: &str, took: &mut [(String, Duration)]) {
    println!("\n== the longest of {} {of}", took.len());
    took.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
    for (name, took) in took.iter().take(SLOWEST) {
        println!("{name:<26} {:>7.1} s", took.as_secs_f64());
    }
}

fn result_of(counts: Counts) -> String {
    format!("{}{counts}", if counts.failed > 0 { "FAILED: " } else { "" })
}

/// When a step began.
struct Began {
    at: Instant,
    processor_s: f64,
}

impl Began {
    fn announce(name: &str) -> Began {
        println!("\n== {name}");
        // What a command prints itself must come after its heading.
        let _ = std::io::stdout().flush();
        Began { at: Instant::now(), processor_s: processor_s("/proc/self/stat") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::runner::NOT_RUN_FILE;

    fn shell(name: &str, script: &str) -> Job {
        Job::new(&Workspace::here(), name, |_| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        })
    }

    #[test]
    fn a_suite_collects_what_tests_leave_out() {
        let workspace = Workspace::here();
        let mut suite = Suite::new(&workspace);
        let result = "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        let script = format!(
            "echo 'one: no root' >> \"${NOT_RUN_FILE}\"; echo 'one: again' >> \"${NOT_RUN_FILE}\"; echo '{result}'"
        );
        suite.tests("made up", vec![shell("made up", &script)], 1);
        assert_eq!(suite.counts, Counts { passed: 2, failed: 0, skipped: 1 });
        assert_eq!(suite.left_out.get("one").map(String::as_str), Some("again"));
        assert!(!suite.command(
            "fails",
            Command::new("sh").args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done; exit 3"])
        ));
        assert!(suite.steps.last().unwrap().computed_s > 0.0, "what a step computed is in the table");
        assert_eq!(suite.building(), None);
        suite.value("build of nothing", || Ok(()));
        suite.steps.last_mut().unwrap().computed_s = 7.0;
        assert_eq!(suite.building().as_deref(), Some("building took 0 s and 7 s of processor time"));
        suite.check("broken", |_| Ok(Checked::Faults(vec!["x".into()])));
        assert_eq!(suite.counts.failed, 2);
        assert_eq!(suite.look_at_first().as_deref(), Some("look first at: fails"));
        assert_eq!(suite.finish(), ExitCode::FAILURE);
    }

    #[test]
    fn each_binary_of_a_step_is_a_part_and_the_step_is_not_counted_again() {
        let workspace = Workspace::here();
        let mut suite = Suite::new(&workspace);
        let result = "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        let script = format!("echo '{result}'");
        suite.tests("tests", vec![shell("first", &script), shell("second", &script), shell("ends badly", "exit 1")], 2);
        suite.tests("alone", vec![shell("its only binary", &script)], 1);
        assert_eq!(suite.counts, Counts { passed: 6, failed: 1, skipped: 0 });
        let mut names: Vec<&str> = suite.parts.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["alone", "ends badly", "first", "second"]);
        assert_eq!(suite.steps.iter().map(|step| step.name.as_str()).collect::<Vec<_>>(), ["tests", "alone"]);
        let names = "echo 'test a ... ok'; echo 'test b ... FAILED'";
        suite.tests("named", vec![shell("with names", &format!("{names}; exit 101"))], 1);
        assert_eq!(suite.failed, [("ends badly".to_owned(), vec![]), ("with names".to_owned(), vec!["b".to_owned()])]);
        assert_eq!(suite.steps[0].result, "FAILED: 4 passed, 1 failed, 0 skipped");
    }
}
