//! The test binaries: which there are, in which environment they run, and which may run beside others.

use super::runner::{Job, NOT_RUN_FILE};
use crate::workspace::Workspace;
use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Packages whose tests load eBPF programs into the running kernel. They run as root where that is allowed, and one
/// at a time, so that what one measures is not what another does.
const KERNEL_PACKAGES: &[&str] = &["surefoot-probes", "surefoot-stall"];

/// The end-to-end tests: the real command, on the real kernel and in a real browser; as root, and one at a time.
const END_TO_END: &str = "surefoot-e2e";

/// Modules of the end-to-end tests that hold the command to what it says, writes and serves, and to nothing that the
/// kernel or a clock says at the same time: other tests may run beside them, and these groups beside each other. A module
/// that is not named here runs alone.
const BESIDE_OTHERS: &[(&str, &[&str])] = &[
    (
        "e2e tests in a browser",
        &["browser::", "checkpoint_page::", "experiments::page::", "memory::page::", "nic::page::", "remedy::page::"],
    ),
    ("e2e tests of checkpoints", &["checkpoint::", "checkpoint_bench::", "ecc::", "ecc_hardware::"]),
    ("e2e tests of remedies", &["remedy::"]),
    (
        "e2e tests in guests",
        &["disturb::", "memory::guest::", "nic::guest::", "nic::run::", "nic::veth::", "rollback::"],
    ),
    ("e2e tests of the watch", &["contained::", "cost::", "reduced::"]),
    (
        "e2e tests beside others",
        &[
            "experiments::",
            "foreign_files::",
            "history::",
            "install::",
            "memory::job::",
            "memory::status::",
            "page::",
            "recording::",
            "refusals::",
            "rooms::",
            "run_directory::",
            "strangers::",
        ],
    ),
];

/// Modules of the same kind that wait for what does not answer, or for deadlines, and compute next to nothing: a lane of their own, so
/// that they hold no place of one that computes.
const WAITING: (&str, &[&str]) = ("e2e tests that wait", &["answering::", "file_limits::", "namespaces::"]);

/// What takes longest begins first, so that nothing long is left for the end.
const LONGEST_FIRST: &[&str] = &[
    "e2e tests beside others",
    "e2e tests in guests",
    "e2e tests of remedies",
    "e2e tests of the watch",
    "e2e tests of checkpoints",
    "c tests",
    "e2e tests in a browser",
    "checkpoint tests",
];

/// A program that cargo built.
#[derive(Debug, PartialEq, Eq)]
pub struct Binary {
    package: String,
    /// The folder of its package, in which its tests run.
    folder: PathBuf,
    /// The name for people, such as `ecc unit tests`.
    pub name: String,
    pub path: PathBuf,
}

/// Builds what is tested, all in one go, and gives the test binaries.
pub fn build(workspace: &Workspace) -> Result<Vec<Binary>, String> {
    let messages = messages_of(workspace.cargo().args(["test", "--workspace", "--no-run", "--locked"]))?;
    let members = workspace.members()?;
    let package =
        |folder: &Path| members.iter().find(|member| member.folder == folder).map(|member| member.name.clone());
    Ok(messages.iter().filter_map(|message| test_binary(message, &package)).collect())
}

/// Builds the command as it is shipped, which compiles nothing where it asks for the same features as the tests.
pub fn build_command(workspace: &Workspace) -> Result<PathBuf, String> {
    let messages = messages_of(workspace.cargo().args(["build", "--locked", "--package", "surefoot-cli"]))?;
    let again: Vec<&str> = messages.iter().filter_map(compiled).collect();
    if !again.is_empty() {
        println!("compiled again, because the tests ask for more features of a package: {}", again.join(", "));
    }
    let path = messages.iter().find_map(|message| message["executable"].as_str().map(PathBuf::from));
    path.ok_or_else(|| "cargo does not say where the command is".into())
}

/// Runs cargo, which shows its progress and diagnostics, and gives its messages.
fn messages_of(cargo: &mut Command) -> Result<Vec<Value>, String> {
    cargo.arg("--message-format=json-render-diagnostics").stdin(Stdio::null()).stderr(Stdio::inherit());
    let done = cargo.output().map_err(|error| format!("cargo cannot be started: {error}"))?;
    if !done.status.success() {
        return Err(format!("cargo failed ({})", done.status));
    }
    let text = String::from_utf8_lossy(&done.stdout);
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// The name of what cargo has compiled, if this is the message about it.
fn compiled(message: &Value) -> Option<&str> {
    let is_new = message["reason"] == "compiler-artifact" && message["fresh"] == false;
    is_new.then(|| message["target"]["name"].as_str()).flatten()
}

/// The test binary that a message of cargo's is about.
fn test_binary(message: &Value, package: &dyn Fn(&Path) -> Option<String>) -> Option<Binary> {
    if message["profile"]["test"] != true {
        return None;
    }
    let path = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
    let package = package(&folder)?;
    let short = package.strip_prefix("surefoot-").unwrap_or(&package);
    let target = &message["target"];
    let name = match target["name"].as_str()? {
        _ if target["kind"][0] != "test" => format!("{short} unit tests"),
        // The usual name of the only one.
        target if target == "tests" || target == short => format!("{short} tests"),
        target => format!("{short} tests {target}"),
    };
    Some(Binary { package, folder, name, path })
}

/// The test binaries, put in groups of which one runs after the other.
pub struct Groups {
    /// May run at the same time.
    pub beside_others: Vec<Job>,
    /// May run beside those, and wait more than they compute.
    pub waiting: Vec<Job>,
    /// The tests in the documentation, which cargo compiles.
    pub documentation: Job,
    /// Load eBPF programs and measure.
    pub kernel: Vec<Job>,
    /// Measure the real command.
    pub end_to_end: Vec<Job>,
}

/// Puts them in groups. `root` are the words that start a program as root, none if we are root or may not be.
pub fn groups(workspace: &Workspace, binaries: &[Binary], command: &Path, root: &[String]) -> Groups {
    let start = Start { workspace, command, root };
    let documentation = Job::new(workspace, "documentation tests", |_| {
        let mut cargo = workspace.cargo();
        cargo.args(["test", "--doc", "--workspace", "--locked", "--no-fail-fast"]);
        cargo
    });
    let mut groups = Groups {
        beside_others: Vec::new(),
        waiting: Vec::new(),
        documentation,
        kernel: Vec::new(),
        end_to_end: Vec::new(),
    };
    for binary in binaries {
        if KERNEL_PACKAGES.contains(&binary.package.as_str()) {
            groups.kernel.push(start.as_root(&binary.name, binary, &["--test-threads=1"]));
        } else if binary.package == END_TO_END && !binary.name.ends_with("unit tests") {
            // Each run leaves out what the runs before it choose, by the same words, so each test runs once.
            let mut chosen = vec!["--test-threads=1"];
            for (name, modules) in BESIDE_OTHERS.iter().chain([&WAITING]) {
                let words = [&chosen, *modules].concat();
                let lane = if *name == WAITING.0 { &mut groups.waiting } else { &mut groups.beside_others };
                lane.push(start.as_root(name, binary, &words));
                chosen.extend(modules.iter().flat_map(|module| ["--skip", module]));
            }
            groups.end_to_end.push(start.as_root(&binary.name, binary, &chosen));
        } else {
            groups.beside_others.push(start.plain(binary));
        }
    }
    let place = |job: &Job| LONGEST_FIRST.iter().position(|name| *name == job.name).unwrap_or(LONGEST_FIRST.len());
    groups.beside_others.sort_by_key(place);
    groups
}

/// How test binaries are started.
struct Start<'a> {
    workspace: &'a Workspace,
    /// The command under test, never one that happens to be installed.
    command: &'a Path,
    root: &'a [String],
}

impl Start<'_> {
    fn plain(&self, binary: &Binary) -> Job {
        Job::new(self.workspace, &binary.name, |_| {
            let mut command = Command::new(&binary.path);
            command.current_dir(&binary.folder).envs(self.environment(binary));
            command
        })
    }

    fn as_root(&self, name: &str, binary: &Binary, arguments: &[&str]) -> Job {
        Job::new(self.workspace, name, |not_run_file| {
            let Some((program, words)) = self.root.split_first() else {
                let mut command = Command::new(&binary.path);
                command.args(arguments).current_dir(&binary.folder).envs(self.environment(binary));
                return command;
            };
            // sudo drops the environment; what the tests need of it is handed over by name.
            let mut command = Command::new(program);
            command.args(words).arg("env").current_dir(&binary.folder);
            let path = std::env::var_os("PATH").unwrap_or_default();
            let more = [(NOT_RUN_FILE, not_run_file.into()), ("PATH", path)];
            for (variable, value) in self.environment(binary).into_iter().chain(more) {
                let mut word = OsString::from(format!("{variable}="));
                word.push(value);
                command.arg(word);
            }
            command.arg(&binary.path).args(arguments);
            command
        })
    }

    /// What cargo itself would set, as far as the tests ask for it, and the command that they run.
    fn environment(&self, binary: &Binary) -> [(&'static str, OsString); 2] {
        [("CARGO_MANIFEST_DIR", binary.folder.clone().into()), ("SUREFOOT_BIN", self.command.into())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn artifact(folder: &str, kind: &str, target: &str, is_test: bool) -> Value {
        json!({
            "reason": "compiler-artifact", "manifest_path": format!("/w/{folder}/Cargo.toml"), "fresh": false,
            "target": {"kind": [kind], "name": target}, "profile": {"test": is_test},
            "executable": format!("/w/target/debug/deps/{target}-1"),
        })
    }

    fn binary(folder: &str, kind: &str, target: &str) -> Option<Binary> {
        let package = |folder: &Path| Some(format!("surefoot-{}", folder.file_name()?.to_str()?));
        test_binary(&artifact(folder, kind, target, true), &package)
    }

    #[test]
    fn binaries_are_named_after_their_package_and_kind() {
        for (folder, kind, target, name) in [
            ("crates/ecc", "lib", "surefoot_ecc", "ecc unit tests"),
            ("xtask", "bin", "surefoot-xtask", "xtask unit tests"),
            ("crates/ecc", "test", "tests", "ecc tests"),
            ("crates/store", "test", "store", "store tests"),
            ("crates/cli", "test", "audit", "cli tests audit"),
        ] {
            let binary = binary(folder, kind, target).unwrap();
            assert_eq!((binary.name.as_str(), binary.folder), (name, Path::new("/w").join(folder)));
        }
        let command = artifact("crates/cli", "bin", "surefoot", false);
        assert_eq!(test_binary(&command, &|_| Some("surefoot-cli".into())), None);
        assert_eq!(compiled(&command), Some("surefoot"));
    }

    #[test]
    fn each_binary_runs_in_one_group_and_the_end_to_end_tests_in_parts() {
        let workspace = Workspace::here();
        let binaries = [
            ("crates/ecc", "test", "tests"),
            ("crates/stall", "lib", "surefoot_stall"),
            ("crates/probes", "test", "tests"),
            ("e2e", "lib", "surefoot_e2e"),
            ("e2e", "test", "tests"),
            ("bindings/c", "test", "tests"),
        ]
        .map(|(folder, kind, target)| binary(folder, kind, target).unwrap());
        let groups = groups(&workspace, &binaries, Path::new("/w/surefoot"), &[]);
        let names = |jobs: &[Job]| jobs.iter().map(|job| job.name.clone()).collect::<Vec<_>>();
        let beside = [
            "e2e tests beside others",
            "e2e tests in guests",
            "e2e tests of remedies",
            "e2e tests of the watch",
            "e2e tests of checkpoints",
            "c tests",
            "e2e tests in a browser",
        ];
        assert_eq!(names(&groups.beside_others), [&beside[..], &["ecc tests", "e2e unit tests"]].concat());
        assert_eq!(names(&groups.waiting), [WAITING.0]);
        assert_eq!(names(&groups.kernel), ["stall unit tests", "probes tests"]);
        assert_eq!(names(&groups.end_to_end), ["e2e tests"]);
    }

    #[test]
    fn the_modules_that_run_beside_others_are_there() {
        let folder = Workspace::here().root.join("e2e/tests");
        for module in BESIDE_OTHERS.iter().chain([&WAITING]).flat_map(|(_, modules)| *modules) {
            let place = folder.join(module.trim_end_matches("::").replace("::", "/"));
            let is_there = place.with_extension("rs").is_file() || place.join("mod.rs").is_file();
            assert!(is_there, "{} is gone; what it was runs alone", place.display());
        }
    }
}
