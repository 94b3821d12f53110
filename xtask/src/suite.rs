//! Runs checks and tests one after another, keeps count, and sums up at the end.
//!
//! A check counts as one test. A test runner counts as the tests that it says it ran; if it ends badly without
//! naming a failed test, that is one failure. A test that cannot run on this machine appends `NAME: REASON` to the
//! file that the environment variable `SUREFOOT_NOT_RUN` names (see `surefoot_testkit::not_run`) and then counts as
//! skipped, not as passed. The last line is always `N passed, N failed, N skipped`.

use crate::counts::{Counts, Said};
use crate::workspace::{Checked, Workspace, output};
use crate::{header, layers, licences, links, page, tidy};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The environment variable of `surefoot_testkit::not_run`.
const NOT_RUN_FILE: &str = "SUREFOOT_NOT_RUN";

/// Packages whose tests load eBPF programs into the running kernel. They run as root where that is allowed, and one
/// at a time, so that what one measures is not what another does.
const KERNEL_PACKAGES: &[&str] = &["surefoot-probes", "surefoot-stall"];

/// The end-to-end tests: the real command, on the real kernel and in a real browser; also one at a time.
const END_TO_END: &str = "surefoot-e2e";

/// Scripts that shellcheck reads.
const SHELL_SCRIPTS: &[&str] = &["xtask/setup.sh", "xtask/run.sh", ".ci/run"];

type Check = fn(&Workspace) -> Result<Checked, String>;

/// Every check and every test.
pub fn test(workspace: &Workspace) -> ExitCode {
    let mut suite = Suite::new(workspace);
    checks(&mut suite);
    page_checks(&mut suite);
    let built = suite.command("build", &mut tests(workspace, &["--workspace", "--no-run"]))
        && suite
            .command("build of surefoot", workspace.cargo().args(["build", "--locked", "--package", "surefoot-cli"]));
    if built {
        run_tests(&mut suite);
    } else {
        suite.not_run("tests", "the build failed");
    }
    suite.finish()
}

/// The checks without the tests.
pub fn lint(workspace: &Workspace) -> ExitCode {
    let mut suite = Suite::new(workspace);
    checks(&mut suite);
    suite.finish()
}

/// One check, as a command of its own.
pub fn one(workspace: &Workspace, name: &str, check: Check) -> ExitCode {
    let mut suite = Suite::new(workspace);
    suite.check(name, check);
    suite.finish()
}

/// The benchmarks of crates that measure themselves, beside those of `surefoot-bench`: crate and benchmark.
const OWN_BENCHMARKS: &[(&str, &str)] = &[("surefoot-ecc", "speed"), ("surefoot-checkpoint", "save")];

/// The comparison with other people's tools, in the profile that is shipped. With arguments, only what they name.
pub fn bench(workspace: &Workspace, arguments: &[String]) -> ExitCode {
    let mut command = workspace.cargo();
    command.args(["run", "--release", "--locked", "--package", "surefoot-bench", "--"]).args(arguments);
    let mut failed = exit_of(command) != ExitCode::SUCCESS;
    if arguments.is_empty() {
        for (package, name) in OWN_BENCHMARKS {
            let mut command = workspace.cargo();
            command.args(["bench", "--locked", "--package", package, "--bench", name]);
            failed |= exit_of(command) != ExitCode::SUCCESS;
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The reliability of checkpoints at full size; prints what each kind of fault came to.
pub fn soak(workspace: &Workspace) -> ExitCode {
    let mut command = workspace.cargo();
    command.args(["test", "--release", "--locked", "--package", "surefoot-checkpoint", "--test", "tests", "--"]);
    command.args(["suite::reliability::", "suite::kill::", "suite::poison::", "--nocapture"]);
    command.env("SUREFOOT_SOAK", "10000");
    exit_of(command)
}

/// Runs a command that stands for the whole.
fn exit_of(mut command: Command) -> ExitCode {
    match command.status() {
        Ok(status) => ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)),
        Err(error) => {
            eprintln!("cargo cannot be started: {error}");
            ExitCode::FAILURE
        }
    }
}

fn checks(suite: &mut Suite) {
    let workspace = suite.workspace;
    suite.command("format", workspace.cargo().args(["fmt", "--all", "--check"]));
    suite.check("layers", layers::check);
    suite.check("licences", licences::check);
    suite.check("tidy", tidy::check);
    suite.check("links", links::check);
    suite.check("header", header::check);
    if installed("shellcheck") {
        suite.command("shell", Command::new("shellcheck").current_dir(&workspace.root).args(SHELL_SCRIPTS));
    } else {
        suite.not_run("shell", "shellcheck is not installed");
    }
    if output(workspace.cargo().args(["deny", "--version"])).is_ok() {
        suite.command("deny", workspace.cargo().args(["deny", "check", "licenses", "bans", "sources"]));
    } else {
        suite.not_run("deny", "cargo-deny is not installed; the step licences checks the same list");
    }
    let mut clippy = workspace.cargo();
    clippy.args(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]);
    suite.command("clippy", &mut clippy);
    let mut documentation = workspace.cargo();
    documentation.args(["doc", "--workspace", "--no-deps", "--locked", "--quiet"]).env("RUSTDOCFLAGS", "-D warnings");
    suite.command("documentation", &mut documentation);
}

/// Types, tests and freshness of the page; the commands are those of ui/package.json.
fn page_checks(suite: &mut Suite) {
    let workspace = suite.workspace;
    if let Some(why) = page::missing(workspace) {
        suite.not_run("page", &why);
    } else if suite.command("packages of the page", &mut page::npm(workspace, &["ci", "--no-fund", "--no-audit"])) {
        suite.tests("page", &mut page::npm(workspace, &["run", "check"]));
    }
}

fn run_tests(suite: &mut Suite) {
    let workspace = suite.workspace;
    let mut apart = vec!["--workspace", "--no-fail-fast", "--exclude", END_TO_END];
    for package in KERNEL_PACKAGES {
        apart.extend(["--exclude", package]);
    }
    suite.tests("tests", &mut tests(workspace, &apart));

    let root = root_runner(suite);
    let mut kernel = vec!["--no-fail-fast"];
    for package in KERNEL_PACKAGES {
        kernel.extend(["--package", package]);
    }
    for (name, packages) in
        [("kernel tests", kernel), ("end-to-end tests", vec!["--no-fail-fast", "--package", END_TO_END])]
    {
        let mut command = tests(workspace, &packages);
        command.args(&root).args(["--", "--test-threads=1"]);
        // The tests run the command that was built above, never one that happens to be installed.
        command.env("SUREFOOT_BIN", workspace.target().join("debug/surefoot"));
        suite.tests(name, &mut command);
    }
}

fn tests(workspace: &Workspace, options: &[&str]) -> Command {
    let mut command = workspace.cargo();
    command.args(["test", "--locked"]).args(options);
    command
}

/// Options of cargo that start test binaries as root, if we are not and may be; else none.
///
/// `SUDO` names the program that gives root; empty means: never ask for it.
fn root_runner(suite: &Suite) -> Vec<String> {
    let sudo = std::env::var("SUDO").unwrap_or_else(|_| "sudo".into());
    let is_root = output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    if is_root || sudo.is_empty() || !installed(&sudo) {
        return Vec::new();
    }
    println!("the next tests load eBPF programs, which needs root: using {sudo}; without it: `make test SUDO=`");
    let free = output(Command::new(&sudo).args(["-n", "true"])).is_ok();
    let asked = || {
        let terminal = std::io::stdin().is_terminal();
        terminal && Command::new(&sudo).arg("-v").status().is_ok_and(|status| status.success())
    };
    if !free && !asked() {
        println!("{sudo} refused; these tests run without root and say what they leave out");
        return Vec::new();
    }
    // sudo drops the environment; what the tests need of it is handed over by name.
    let folder = suite.workspace.root.join("e2e");
    let mut words = vec![sudo, "env".into(), format!("CARGO_MANIFEST_DIR={}", folder.display())];
    words.push(format!("{NOT_RUN_FILE}={}", suite.not_run_file.display()));
    words.push(format!("SUREFOOT_BIN={}", suite.workspace.target().join("debug/surefoot").display()));
    words.push(format!("PATH={}", std::env::var("PATH").unwrap_or_default()));
    let quoted: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
    vec!["--config".into(), format!("target.\"cfg(all())\".runner=[{}]", quoted.join(","))]
}

fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// One step that ran, for the table at the end.
struct Step {
    name: String,
    took: Duration,
    result: String,
}

struct Suite<'a> {
    workspace: &'a Workspace,
    steps: Vec<Step>,
    counts: Counts,
    /// What could not run here, by name, and why.
    left_out: BTreeMap<String, String>,
    /// Where tests append what they left out.
    not_run_file: PathBuf,
}

impl<'a> Suite<'a> {
    fn new(workspace: &'a Workspace) -> Self {
        let not_run_file = workspace.target().join(format!("not-run-{}.txt", std::process::id()));
        let (steps, counts) = (Vec::new(), Counts::default());
        Suite { workspace, steps, counts, left_out: BTreeMap::new(), not_run_file }
    }

    fn not_run(&mut self, name: &str, why: &str) {
        println!("not run: {name}: {why}");
        self.counts.skipped += 1;
        self.left_out.insert(name.into(), why.into());
    }

    fn check(&mut self, name: &str, check: Check) {
        let began = announce(name);
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
    fn command(&mut self, name: &str, command: &mut Command) -> bool {
        let began = announce(name);
        let status = command.stdin(Stdio::null()).status();
        let passed = status.as_ref().is_ok_and(|status| status.success());
        if let Err(error) = status {
            println!("{:?} cannot be started: {error}", command.get_program());
        }
        self.note_one(name, began, passed);
        passed
    }

    /// Runs a test runner, shows what it prints, and takes its counts.
    fn tests(&mut self, name: &str, command: &mut Command) {
        let began = announce(name);
        if let Err(error) = std::fs::write(&self.not_run_file, "") {
            println!("{} cannot be written: {error}", self.not_run_file.display());
            return self.note_one(name, began, false);
        }
        command.env(NOT_RUN_FILE, &self.not_run_file).stdin(Stdio::null());
        match run_and_count(command) {
            Ok((said, succeeded)) => {
                let left_out = read_not_run(&self.not_run_file);
                let counts = settle(&said, succeeded, left_out.len() as u64);
                let failed = counts.failed > 0;
                self.counts.add(counts);
                self.left_out.extend(said.ignored);
                self.left_out.extend(left_out);
                let result = format!("{} passed, {} failed, {} skipped", counts.passed, counts.failed, counts.skipped);
                self.note(name, began, if failed { format!("FAILED: {result}") } else { result });
            }
            Err(error) => {
                println!("{error}");
                self.note_one(name, began, false);
            }
        }
        // It lies under target and is of this process alone; one that stays does no harm.
        let _ = std::fs::remove_file(&self.not_run_file);
    }

    fn note_one(&mut self, name: &str, began: Instant, passed: bool) {
        self.counts.add(Counts { passed: u64::from(passed), failed: u64::from(!passed), skipped: 0 });
        self.note(name, began, if passed { "passed" } else { "FAILED" }.into());
    }

    fn note(&mut self, name: &str, began: Instant, result: String) {
        let took = began.elapsed();
        println!("-- {name}: {result}, {:.1} s", took.as_secs_f64());
        self.steps.push(Step { name: name.into(), took, result });
    }

    fn finish(self) -> ExitCode {
        if self.steps.len() > 1 {
            println!("\n== {} steps", self.steps.len());
            for step in &self.steps {
                println!("{:<22} {:>7.1} s  {}", step.name, step.took.as_secs_f64(), step.result);
            }
        }
        for (name, why) in &self.left_out {
            println!("not run: {name}: {why}");
        }
        let Counts { passed, failed, skipped } = self.counts;
        println!("{passed} passed, {failed} failed, {skipped} skipped");
        if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

fn announce(name: &str) -> Instant {
    println!("\n== {name}");
    // What a command prints itself must come after its heading.
    let _ = std::io::stdout().flush();
    Instant::now()
}

/// Runs a command, passes its standard output through line by line, and reads the counts in it.
fn run_and_count(command: &mut Command) -> Result<(Said, bool), String> {
    let program = format!("{:?}", command.get_program());
    let started = command.stdout(Stdio::piped()).spawn();
    let mut child = started.map_err(|error| format!("{program} cannot be started: {error}"))?;
    let mut said = Said::default();
    let mut lines = BufReader::new(child.stdout.take().expect("standard output was asked for"));
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).map_err(|error| format!("{program}: {error}"))? > 0 {
        let text = String::from_utf8_lossy(&line);
        print!("{text}");
        said.read(&text);
        line.clear();
    }
    let status = child.wait().map_err(|error| format!("{program}: {error}"))?;
    Ok((said, status.success()))
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
        let (said, succeeded) = run_and_count(&mut shell(&format!("echo '{line}'; echo '{line}'"))).unwrap();
        assert_eq!((said.counts, succeeded), (Counts { passed: 6, failed: 0, skipped: 2 }, true));
        let (said, succeeded) = run_and_count(&mut shell(&format!("echo '{line}'; exit 101"))).unwrap();
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
    fn a_suite_collects_what_tests_leave_out() {
        let workspace = Workspace::here();
        let folder = tempfile::tempdir().unwrap();
        let mut suite = Suite::new(&workspace);
        suite.not_run_file = folder.path().join("not run");
        let result = "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        let script = format!(
            "echo 'one: no root' >> \"${NOT_RUN_FILE}\"; echo 'one: again' >> \"${NOT_RUN_FILE}\"; echo '{result}'"
        );
        suite.tests("made up", &mut shell(&script));
        assert_eq!(suite.counts, Counts { passed: 2, failed: 0, skipped: 1 });
        assert_eq!(suite.left_out.get("one").map(String::as_str), Some("again"));
        assert!(!suite.command("fails", &mut shell("exit 3")));
        suite.check("broken", |_| Ok(Checked::Faults(vec!["x".into()])));
        assert_eq!(suite.counts.failed, 2);
        assert_eq!(suite.finish(), ExitCode::FAILURE);
    }
}
