//! Runs the fuzzer on every target of `fuzz/`, for a time each, and prints what it came to.
//!
//! The stable compiler counts branches for it (LLVM's pass is called by its name), so nothing else need be installed. The
//! address sanitizer, which is for the few targets with `unsafe` behind them, needs a nightly one.

use crate::workspace::{Workspace, output};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Time for each target unless said otherwise.
const SECONDS_DEFAULT: u64 = 60;

/// Memory that reading an input may take; with the sanitizer, which takes some for each byte of it, more.
const MEMORY_MIB_MAX: &str = "512";
const MEMORY_SANITIZED_MIB_MAX: &str = "2048";

/// What is kept of a target in the repository, besides the inputs that were faults.
const KEPT_BYTES_MAX: u64 = 64 << 10;
const KEPT_FILES_MAX: usize = 100;

/// How the names of those begin, which stay whatever they cover.
const FAULT: &str = "was-";

const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    seconds: u64,
    /// All where there is none.
    targets: Vec<String>,
    sanitize: bool,
    /// Whether to put what was found worth keeping into the repository.
    keep: bool,
}

/// A target as `fuzz/src/lib.rs` lists it.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    name: String,
    bytes_max: u64,
}

/// `cargo xtask fuzz [--sanitize] [--keep] [SECONDS] [TARGET...]`.
pub fn run(workspace: &Workspace, arguments: &[String]) -> ExitCode {
    match wanted(arguments).and_then(|wanted| fuzz(workspace, &wanted)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("fuzz: {why}");
            ExitCode::from(2)
        }
    }
}

fn wanted(arguments: &[String]) -> Result<Wanted, String> {
    let mut wanted = Wanted { seconds: SECONDS_DEFAULT, targets: Vec::new(), sanitize: false, keep: false };
    for argument in arguments {
        match argument.as_str() {
            "--sanitize" => wanted.sanitize = true,
            "--keep" => wanted.keep = true,
            number if number.parse::<u64>().is_ok_and(|seconds| seconds > 0) => {
                wanted.seconds = number.parse().unwrap_or(SECONDS_DEFAULT);
            }
            option if option.starts_with('-') => return Err(format!("there is no option '{option}'")),
            name => wanted.targets.push(name.to_owned()),
        }
    }
    Ok(wanted)
}

/// The rows of the table in the library's source.
fn targets(source: &str) -> Vec<Target> {
    let row = |line: &str| {
        let rest = line.trim().strip_prefix("Target { name: \"")?;
        let (name, rest) = rest.split_once('"')?;
        let (_, bytes) = rest.split_once("bytes_max: ")?;
        let (count, _) = bytes.split_once(" << 10")?;
        Some(Target { name: name.to_owned(), bytes_max: count.parse::<u64>().ok()? << 10 })
    };
    source.lines().filter_map(row).collect()
}

/// The machine that is built for: this one.
fn triple() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

fn fuzz(workspace: &Workspace, wanted: &Wanted) -> Result<bool, String> {
    let source = workspace.text(Path::new("fuzz/src/lib.rs")).ok_or("fuzz/src/lib.rs cannot be read")?;
    let all = targets(&source);
    if let Some(strange) = wanted.targets.iter().find(|name| all.iter().all(|target| target.name != **name)) {
        let names: Vec<&str> = all.iter().map(|target| target.name.as_str()).collect();
        return Err(format!("there is no target '{strange}'; there are {}", names.join(", ")));
    }
    let binary = build(workspace, wanted.sanitize)?;
    let mut is_well = true;
    let mut table = vec!["| target | executions | features | faults |".to_owned(), "|---|---|---|---|".to_owned()];
    for target in all.iter().filter(|target| wanted.targets.is_empty() || wanted.targets.contains(&target.name)) {
        println!("{}: {} s", target.name, wanted.seconds);
        let (row, is_good) = one(workspace, &binary, target, wanted)?;
        table.push(row);
        is_well &= is_good;
        if wanted.keep {
            keep(workspace, &binary, target)?;
        }
    }
    println!("\n{}", table.join("\n"));
    Ok(is_well)
}

/// Builds the fuzzer beside everything else, with counters.
fn build(workspace: &Workspace, sanitize: bool) -> Result<PathBuf, String> {
    if output(Command::new("c++").arg("--version")).is_err() {
        return Err("there is no C++ compiler, which libFuzzer is built with; Debian's package is called g++".into());
    }
    let mut cargo = if sanitize {
        let nightly = output(Command::new("rustup").args(["run", "nightly", "rustc", "--version"]));
        nightly.map_err(|_| {
            "the address sanitizer needs a nightly compiler, and none is installed: `rustup toolchain install nightly`; \
             without --sanitize the stable one is enough"
                .to_owned()
        })?;
        let mut cargo = Command::new("rustup");
        cargo.args(["run", "nightly", "cargo"]).current_dir(&workspace.root);
        cargo
    } else {
        workspace.cargo()
    };
    let (folder, flags) = match sanitize {
        true => ("fuzz/sanitized", format!("{COVERAGE} -Zsanitizer=address")),
        false => ("fuzz/build", COVERAGE.to_owned()),
    };
    let folder = workspace.target().join(folder);
    cargo.args(["build", "--release", "--locked", "--manifest-path", "fuzz/coverage/Cargo.toml"]);
    // Told for which machine, cargo leaves what runs at build time without counters.
    cargo.args(["--target", &triple(), "--target-dir"]).arg(&folder).env("RUSTFLAGS", flags);
    match cargo.status() {
        Ok(status) if status.success() => Ok(folder.join(triple()).join("release/surefoot-fuzz-coverage")),
        Ok(status) => Err(format!("the fuzzer cannot be built ({status})")),
        Err(error) => Err(format!("cargo cannot be started: {error}")),
    }
}

/// The fuzzer on one target, after everything else that the machine has to do.
fn fuzzer(binary: &Path, target: &Target) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", "19"]).arg(binary).arg(format!("-max_len={}", target.bytes_max));
    command.env("SUREFOOT_FUZZ", &target.name).stdin(Stdio::null());
    command
}

fn made(path: PathBuf) -> Result<PathBuf, String> {
    fs::create_dir_all(&path).map_err(|error| format!("{} cannot be made: {error}", path.display()))?;
    Ok(path)
}

fn names(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Runs one target; its row of the table, and whether no fault was found.
fn one(workspace: &Workspace, binary: &Path, target: &Target, wanted: &Wanted) -> Result<(String, bool), String> {
    let folder = workspace.target().join("fuzz");
    let work = made(folder.join("work").join(&target.name))?;
    let found = made(folder.join("found").join(&target.name))?;
    let before = names(&found).len();
    let memory = if wanted.sanitize { MEMORY_SANITIZED_MIB_MAX } else { MEMORY_MIB_MAX };
    let mut command = fuzzer(binary, target);
    command.arg(work).arg(workspace.root.join("fuzz/corpus").join(&target.name));
    command.arg(format!("-max_total_time={}", wanted.seconds)).arg(format!("-rss_limit_mb={memory}"));
    // An input that takes a second of processor time is a fault by the fuzzer's own word; this is for one that waits.
    command.args(["-timeout=30", "-print_final_stats=1"]).arg(format!("-artifact_prefix={}/", found.display()));
    let done = command.output().map_err(|error| format!("the fuzzer cannot be started: {error}"))?;
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    let faults = names(&found).len() - before;
    let is_well = done.status.success() && faults == 0;
    if !is_well {
        let last: Vec<&str> = said.lines().rev().take(40).collect();
        last.iter().rev().for_each(|line| println!("{line}"));
        println!("{}: what did it is in {}", target.name, found.display());
    }
    let executions = last_number(&said, "stat::number_of_executed_units:").unwrap_or(0);
    let features = last_number(&said, " ft: ").unwrap_or(0);
    Ok((format!("| {} | {executions} | {features} | {faults} |", target.name), is_well))
}

/// The number that stands last behind these words.
fn last_number(text: &str, words: &str) -> Option<u64> {
    let rest = text.rsplit_once(words)?.1.trim_start();
    rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// Makes the corpus of a target anew: of all inputs some of the shortest that cover as much, as far as there is room.
fn keep(workspace: &Workspace, binary: &Path, target: &Target) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("the corpus of {} cannot be written: {error}", target.name);
    let corpus = made(workspace.root.join("fuzz/corpus").join(&target.name))?;
    let folder = workspace.target().join("fuzz");
    let merged = folder.join("merged").join(&target.name);
    let _ = fs::remove_dir_all(&merged);
    let merged = made(merged)?;
    let mut command = fuzzer(binary, target);
    command.arg("-merge=1").arg(&merged).arg(&corpus).arg(folder.join("work").join(&target.name));
    output(&mut command).map_err(|why| format!("{}: {why}", target.name))?;
    let is_fault = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(FAULT));
    for old in names(&corpus).iter().filter(|path| !is_fault(path)) {
        fs::remove_file(old).map_err(failed)?;
    }
    let length = |path: &PathBuf| fs::metadata(path).map_or(0, |file| file.len());
    let mut new = names(&merged);
    new.sort_by_key(length);
    let mut room = KEPT_BYTES_MAX;
    // Some of each length: the shortest alone never get far.
    for path in new.iter().step_by(new.len().div_ceil(KEPT_FILES_MAX).max(1)) {
        let Some(left) = room.checked_sub(length(path)) else { break };
        room = left;
        fs::copy(path, corpus.join(path.file_name().unwrap_or_default())).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_targets_is_read_from_the_source() {
        let found = targets(include_str!("../../fuzz/src/lib.rs"));
        assert!(found.len() >= 8, "{found:?}");
        assert!(found.contains(&Target { name: "journal".into(), bytes_max: 8 << 10 }), "{found:?}");
    }

    #[test]
    fn options_are_understood_or_refused() {
        let of = |words: &str| wanted(&words.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let plain = Wanted { seconds: 60, targets: vec![], sanitize: false, keep: false };
        assert_eq!(of(""), Ok(plain));
        let all = Wanted { seconds: 5, targets: vec!["frames".into()], sanitize: true, keep: true };
        assert_eq!(of("--sanitize --keep 5 frames"), Ok(all));
        assert!(of("--for 5").is_err());
    }

    #[test]
    fn what_the_fuzzer_says_at_its_end_is_read() {
        let said = "#2\tINITED cov: 3 ft: 4 corp: 1/1b\n#9\tNEW cov: 8 ft: 19 corp: 2/4b\nstat::number_of_executed_units: 1234\n";
        assert_eq!(
            (last_number(said, " ft: "), last_number(said, "stat::number_of_executed_units:")),
            (Some(19), Some(1234))
        );
        assert_eq!(last_number(said, "none"), None);
    }
}
