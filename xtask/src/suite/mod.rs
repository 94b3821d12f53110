//! Runs checks and tests one after another, keeps count, and sums up at the end.
//!
//! A check counts as one test. A test runner counts as the tests that it says it ran; if it ends badly without
//! naming a failed test, that is one failure. A test that cannot run on this machine appends `NAME: REASON` to the
//! file that the environment variable `SUREFOOT_NOT_RUN` names (see `surefoot_testkit::not_run`) and then counts as
//! skipped, not as passed. The last line is always `N passed, N failed, N skipped`.

mod binaries;
mod runner;
mod tally;

use crate::workspace::{Workspace, output};
use crate::{header, layers, licences, links, page, producers, rooms, tidy, words};
use runner::{Job, Lane};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use tally::{Check, Suite};

/// How many test binaries run at once that may: some compute while others wait, and the end-to-end tests mostly wait.
const AT_ONCE: usize = 3;

/// How long the advisory database may take to come, in seconds; a network that answers nothing must not hold up the rest.
const FETCH_LIMIT_S: &str = "60";

/// Scripts that shellcheck reads.
const SHELL_SCRIPTS: &[&str] = &[
    "xtask/setup.sh",
    "xtask/run.sh",
    "xtask/install.sh",
    "xtask/package.sh",
    "contrib/package/postinst",
    "contrib/package/prerm",
    "contrib/package/postrm",
    "e2e/package.sh",
    "crates/nic/tests/riscv-tests.sh",
    "crates/disturb/workloads/collectives.sh",
    "crates/disturb/workloads/compile.sh",
    "crates/disturb/workloads/network.sh",
    "crates/disturb/workloads/unseen.sh",
    ".ci/run",
];

/// Every check and every test.
pub fn test(workspace: &Workspace) -> ExitCode {
    let mut suite = Suite::new(workspace);
    checks(&mut suite);
    page_checks(&mut suite);
    let lints = cargo_checks(workspace);
    let binaries = suite.value(tally::BUILD, || binaries::build(workspace));
    let command = suite.value(&format!("{} of surefoot", tally::BUILD), || binaries::build_command(workspace));
    if let (Some(binaries), Some(command)) = (binaries, command) {
        let root = root_words();
        let groups = binaries::groups(workspace, &binaries, &command, &root);
        // Cargo lets one of these wait for the other, so they have a lane of their own.
        let cargo = Lane { jobs: lints.into_iter().chain([groups.documentation]).collect(), at_once: 1 };
        let waiting = Lane { jobs: groups.waiting, at_once: 1 };
        suite.lanes("tests", vec![cargo, waiting, Lane { jobs: groups.beside_others, at_once: AT_ONCE }]);
        suite.tests("kernel tests", groups.kernel, 1);
        suite.tests("end-to-end tests", groups.end_to_end, 1);
    } else {
        suite.tests("lints", lints, 1);
        suite.not_run("tests", "the build failed");
    }
    suite.finish()
}

/// The checks without the tests.
pub fn lint(workspace: &Workspace) -> ExitCode {
    let mut suite = Suite::new(workspace);
    checks(&mut suite);
    suite.tests("lints", cargo_checks(workspace), 1);
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

/// The reliability of checkpoints at full size, the engine of remedies through 10,000 runs with faults, the watch as it is shipped beside 10,000 programs that come and go and for a
/// minute beside attackers, ranks of Python that make different calls, and the planted faults of the modelled interface; prints what each kind of fault came to, and what the watch held.
pub fn soak(workspace: &Workspace) -> ExitCode {
    let checkpoints = soak_checkpoints(workspace);
    let remedies = soak_remedies(workspace);
    let watch = soak_watch(workspace);
    let ranks = soak_ranks_apart(workspace);
    let mutants = soak_mutants(workspace);
    let library = library_size(workspace);
    [checkpoints, remedies, watch, ranks, mutants].into_iter().find(|end| *end != ExitCode::SUCCESS).unwrap_or(library)
}

/// Every pair of different calls of Python's ranks, for each number of ranks and each transport.
fn soak_ranks_apart(workspace: &Workspace) -> ExitCode {
    let mut command = workspace.cargo();
    command.args(["test", "--locked", "--package", "surefoot-c", "--test", "tests", "--"]);
    command.args(["suite::python::python_ranks_of_mpi_that_are_apart"]);
    command.args(["suite::python::python_ranks_of_gloo_that_are_apart", "--nocapture"]);
    command.env("SUREFOOT_SOAK", "10000");
    exit_of(command)
}

/// Every planted fault of the modelled interface's library, daemon and control program, each with the test that finds it.
fn soak_mutants(workspace: &Workspace) -> ExitCode {
    let mut command = workspace.cargo();
    command.args(["test", "--locked", "--package", "surefoot-nic-mutants", "--lib", "--", "runner::", "--nocapture"]);
    command.env("SUREFOOT_SOAK", "10000");
    exit_of(command)
}

/// The size of the library as it is installed, whose optimisation takes too long for every test run.
fn library_size(workspace: &Workspace) -> ExitCode {
    let mut command = workspace.cargo();
    command.args(["test", "--locked", "--package", "surefoot-c", "--test", "tests", "--"]);
    command.args(["--ignored", "suite::install::the_library_as_it_is_installed"]);
    exit_of(command)
}

fn soak_remedies(workspace: &Workspace) -> ExitCode {
    let mut command = workspace.cargo();
    command.args(["test", "--release", "--locked", "--package", "surefoot-remedy", "--test", "tests", "--"]);
    command.args(["suite::faults::", "--nocapture"]);
    command.env("SUREFOOT_SOAK", "10000");
    exit_of(command)
}

/// The watch as it is shipped, beside 10,000 programs, and beside attackers.
fn soak_watch(workspace: &Workspace) -> ExitCode {
    let mut build = workspace.cargo();
    build.args(["build", "--release", "--locked", "--package", "surefoot-cli"]);
    let built = exit_of(build);
    if built != ExitCode::SUCCESS {
        return built;
    }
    let mut command = workspace.cargo();
    command.args([
        "test",
        "--locked",
        "--package",
        "surefoot-e2e",
        "--test",
        "tests",
        "--",
        "who::churn::programs",
        "hostile_host::",
    ]);
    command.args(["--nocapture", "--test-threads=1"]);
    command.env("SUREFOOT_SOAK", "10000").env("SUREFOOT_BIN", workspace.target().join("release/surefoot"));
    exit_of(command)
}

fn soak_checkpoints(workspace: &Workspace) -> ExitCode {
    let mut command = workspace.cargo();
    command.args(["test", "--release", "--locked", "--package", "surefoot-checkpoint", "--test", "tests", "--"]);
    command.args(["suite::reliability::", "suite::kill::", "suite::poison::", "--nocapture"]);
    command.env("SUREFOOT_SOAK", "10000");
    exit_of(command)
}

/// Rebuilds the time lines of several loads from the kernel's own trace, and prints what the ledger says beside them.
pub fn oracle(workspace: &Workspace) -> ExitCode {
    let mut command = workspace.cargo();
    command.args(["test", "--locked", "--package", "surefoot-e2e", "--test", "tests", "oracle::the_tables"]);
    command.args(["--", "--ignored", "--nocapture"]);
    exit_of(command)
}

/// Tests that boot a kernel in a guest: their crate, their names, and further options.
type InGuests = (&'static str, &'static [&'static str], &'static [&'static str]);

const IN_GUESTS: &[InGuests] = &[
    ("surefoot-probes", &["older_kernel::"], &[]),
    ("surefoot-sys", &["drives::"], &[]),
    ("surefoot-checkpoint", &["poison::what_memory_loses"], &[]),
    ("surefoot-e2e", &["disturb::", "memory::guest::", "nic::guest::"], &[]),
    // It takes too long for every test run.
    ("surefoot-e2e", &["disturb::tracers::"], &["--ignored"]),
];

/// The tests that boot a kernel in a guest, alone. But for the last ones they are part of every test run, too; one that finds no guest says *not run*.
pub fn guest(workspace: &Workspace) -> ExitCode {
    let run = |(package, names, more): &InGuests| {
        let mut command = workspace.cargo();
        command.args(["test", "--locked", "--package", package, "--test", "tests", "--"]).args(*names);
        command.args(["--nocapture", "--test-threads=1"]).args(*more);
        exit_of(command)
    };
    let ends: Vec<ExitCode> = IN_GUESTS.iter().map(run).collect();
    ends.into_iter().find(|end| *end != ExitCode::SUCCESS).unwrap_or(ExitCode::SUCCESS)
}

/// The tests with a real Kubernetes API server, alone. They are part of every test run, too, where that server was built; else *not run*.
pub fn kubernetes(workspace: &Workspace) -> ExitCode {
    let mut command = workspace.cargo();
    command.args([
        "test",
        "--locked",
        "--package",
        "surefoot-remedy",
        "--test",
        "tests",
        "--",
        "kubernetes::",
        "--nocapture",
    ]);
    exit_of(command)
}

/// The tests with real Prometheus servers and their tools, alone. They are part of every test run, too, with those that are there.
pub fn prometheus(workspace: &Workspace) -> ExitCode {
    let mut command = workspace.cargo();
    command.args(["test", "--locked", "--package", "surefoot-daemon", "--package", "surefoot-remedy"]);
    command.args(["--lib", "--test", "daemon", "--", "dashboards::", "prom", "alerts::", "--nocapture"]);
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
    suite.check("producers", producers::check);
    suite.check("words", words::check);
    suite.check("rooms", rooms::check);
    suite.check("header", header::check);
    if installed("shellcheck") {
        suite.command("shell", Command::new("shellcheck").current_dir(&workspace.root).args(SHELL_SCRIPTS));
    } else {
        suite.not_run("shell", "shellcheck is not installed");
    }
    deny(suite);
}

/// The checks for which cargo compiles everything once more: minutes of two cores, for which tests leave room while they wait.
fn cargo_checks(workspace: &Workspace) -> Vec<Job> {
    let niced = |name: &str, words: &[&str]| {
        Job::new(workspace, name, |_| {
            let cargo = workspace.cargo();
            let mut niced = Command::new("nice");
            niced.arg("-n10").arg(cargo.get_program()).args(words).current_dir(&workspace.root);
            niced.env("RUSTDOCFLAGS", "-D warnings").envs(clippy_variables(workspace).into_iter().flatten());
            niced
        })
    };
    vec![
        niced("clippy", &["clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"]),
        niced("documentation", &["doc", "--workspace", "--no-deps", "--locked", "--quiet"]),
    ]
}

/// What `cargo clippy -- -D warnings` sets for the compiler. Where it is set for the documentation, too, cargo takes what clippy
/// has checked instead of checking every crate of ours once more. `None` where clippy is not beside the compiler.
fn clippy_variables(workspace: &Workspace) -> Option<[(&'static str, PathBuf); 2]> {
    let folder = output(Command::new("rustc").args(["--print", "sysroot"]).current_dir(&workspace.root)).ok()?;
    let driver = Path::new(folder.trim()).join("bin/clippy-driver");
    let hacked = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";
    driver.is_file().then(|| [("RUSTC_WORKSPACE_WRAPPER", driver), ("CLIPPY_ARGS", hacked.into())])
}

/// Types, tests and freshness of the page; the commands are those of ui/package.json.
fn page_checks(suite: &mut Suite) {
    let workspace = suite.workspace;
    if let Some(why) = page::missing(workspace) {
        suite.not_run("page", &why);
    } else if suite.command("packages of the page", &mut page::npm(workspace, &["ci", "--no-fund", "--no-audit"])) {
        let job = Job::new(workspace, "page", |_| page::npm(workspace, &["run", "check"]));
        suite.tests("page", vec![job], 1);
    }
}

/// What cargo-deny knows beyond our own check of licences: sources, bans, and advisories about the packages.
fn deny(suite: &mut Suite) {
    let workspace = suite.workspace;
    // The set-up builds it there; another one that is installed goes first.
    let own = workspace.target().join("tools/cargo-deny/bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::env::split_paths(&path).chain([own])).unwrap_or(path);
    let deny = |words: &[&str]| {
        let mut cargo = workspace.cargo();
        cargo.env("PATH", &path).arg("deny").args(words);
        cargo
    };
    if output(&mut deny(&["--version"])).is_err() {
        suite.not_run("deny", "cargo-deny is not installed; the step licences checks the same list");
        suite.not_run("advisories", "cargo-deny is not installed");
        return;
    }
    suite.command("deny", &mut deny(&["check", "licenses", "bans", "sources"]));
    let fetch = deny(&["fetch", "db"]);
    // It runs git, which ends with it: timeout ends a whole group of processes.
    let mut limited = Command::new("timeout");
    limited.args(["--kill-after=5", FETCH_LIMIT_S]).arg(fetch.get_program()).args(fetch.get_args());
    limited.current_dir(&workspace.root).env("PATH", &path).env("GIT_TERMINAL_PROMPT", "0");
    match output(limited.stdin(Stdio::null())) {
        Ok(_) => drop(suite.command("advisories", &mut deny(&["check", "advisories"]))),
        Err(why) => {
            let why = why.lines().last().unwrap_or_default();
            suite.not_run("advisories", &format!("the advisory database cannot be fetched: {}", why.trim()));
        }
    }
}

/// The words that start a program as root, if we are not and may be; else none.
///
/// `SUDO` names the program that gives root; empty means: never ask for it.
fn root_words() -> Vec<String> {
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
    vec![sudo]
}

/// Processor time of a process and of the children that it has waited for, from its `stat` in procfs; 0 where the kernel does not say.
fn processor_s(stat: &str) -> f64 {
    let stat = std::fs::read_to_string(stat).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    // utime, stime, cutime and cstime, which the kernel counts in hundredths of a second on every machine.
    let ticks: u64 = fields.skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks as f64 / 100.0
}

fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
