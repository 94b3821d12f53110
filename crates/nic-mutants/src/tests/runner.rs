//! Tries the faults, each in a process of its own.

use crate::list::{MUTANTS, Mutant, Outcome, Part};
use crate::mutant;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A test that is not over by then has found something, too: a loop.
const LIMIT: Duration = Duration::from_secs(600);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TestEnd {
    Nothing,
    Something,
    Loop,
}

/// Runs a test of this program: `NAME`, or `NAME@N` for storm N.
fn try_test(test: &str, number: Option<usize>, elf: Option<&Path>) -> TestEnd {
    let (name, storm) = test.split_once('@').map_or((test, None), |(name, storm)| (name, Some(storm)));
    let output = tempfile::NamedTempFile::new().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--ignored", "--test-threads=1"]);
    command.stdout(output.reopen().unwrap()).stderr(Stdio::null()).env("RUST_BACKTRACE", "0");
    command.env_remove(mutant::NUMBER).env_remove(mutant::ELF).env_remove("SUREFOOT_STORMS");
    storm.map(|storm| command.env("SUREFOOT_STORM", storm));
    number.map(|number| command.env(mutant::NUMBER, number.to_string()));
    elf.map(|elf| command.env(mutant::ELF, elf));
    let mut child = command.spawn().unwrap();
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if begun.elapsed() > LIMIT => {
                child.kill().unwrap();
                child.wait().unwrap();
                return TestEnd::Loop;
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let said = std::fs::read_to_string(output.path()).unwrap();
    let ended = |end: &str| said.contains(end);
    match (status.success(), ended("1 passed; 0 failed"), ended("0 passed; 1 failed")) {
        (true, true, false) => TestEnd::Nothing,
        (false, false, true) => TestEnd::Something,
        // One that overflows its stack or is killed says neither.
        (false, false, false) if number.is_some() && said.contains("running 1 test") => TestEnd::Something,
        _ => panic!("{test} did not run: {status}\n{said}"),
    }
}

/// The control program with a fault; `None` without a compiler for it.
fn compiled(mutant: &Mutant, folder: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../firmware/ncp");
    let has = |program: &str| Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok();
    if !has("clang") || !has("ld.lld") {
        return None;
    }
    for part in ["src", "include"] {
        std::fs::create_dir(folder.join(part)).unwrap();
        for entry in std::fs::read_dir(source.join(part)).unwrap().map(Result::unwrap) {
            std::fs::copy(entry.path(), folder.join(part).join(entry.file_name())).unwrap();
        }
    }
    for file in ["link.ld", "build.sh"] {
        std::fs::copy(source.join(file), folder.join(file)).unwrap();
    }
    let file = folder.join("src").join(mutant.file);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace(mutant.from, mutant.to)).unwrap();
    // What a fault leaves unused is no fault of its own.
    let script = std::fs::read_to_string(folder.join("build.sh")).unwrap();
    let script = script.replace("plain detecting tolerant", "tolerant").replace("-Wall -Wextra -Wconversion", "-w");
    std::fs::write(folder.join("build.sh"), script).unwrap();
    let status = Command::new("sh").arg(folder.join("build.sh")).status().unwrap();
    assert!(status.success(), "{}: it does not compile", mutant.name);
    Some(folder.join("built/tolerant.elf"))
}

/// Runs a test with a fault; `None` without a compiler.
fn try_mutant(number: usize, test: &str) -> Option<TestEnd> {
    let mutant = &MUTANTS[number];
    let folder = tempfile::tempdir().unwrap();
    match mutant.part {
        Part::Firmware => Some(try_test(test, Some(number), Some(&compiled(mutant, folder.path())?))),
        Part::Library | Part::Daemon => Some(try_test(test, Some(number), None)),
    }
}

#[test]
fn every_planted_fault_is_found_by_its_test() {
    let all = std::env::var_os("SUREFOOT_SOAK").is_some();
    let (mut missed, mut not_run, mut tests) = (Vec::new(), Vec::new(), BTreeSet::new());
    let (mut found_count, mut equal_count) = (0, 0);
    for (number, mutant) in MUTANTS.iter().enumerate().filter(|(_, mutant)| all || mutant.is_sample) {
        let Outcome::FoundBy(test) = mutant.outcome else {
            equal_count += 1;
            continue;
        };
        tests.insert(test);
        let begun = Instant::now();
        let found = try_mutant(number, test);
        println!("{:?} {}: {found:?} by {test}, {} ms", mutant.part, mutant.name, begun.elapsed().as_millis());
        match found {
            None => not_run.push(mutant.name),
            Some(TestEnd::Nothing) => missed.push(mutant.name),
            Some(_) => found_count += 1,
        }
    }
    let wrong: Vec<_> = tests.into_iter().filter(|test| try_test(test, None, None) != TestEnd::Nothing).collect();
    assert!(wrong.is_empty(), "these fail without a fault: {wrong:?}");
    println!("{found_count} planted faults found, {equal_count} change nothing, {} not run (no clang)", not_run.len());
    assert!(missed.is_empty(), "not found: {missed:?}");
    if !not_run.is_empty() {
        surefoot_testkit::not_run::not_run(
            "every_planted_fault_is_found_by_its_test",
            &format!("{not_run:?}: no clang with lld for riscv32"),
        );
    }
}

/// For a new fault: which of these tests find it. `SUREFOOT_MUTANTS` and `SUREFOOT_MUTANT_TESTS` are words apart by spaces.
#[test]
#[ignore = "runs in a child process, by hand"]
fn which_tests_find_it() {
    let words = |name: &str| std::env::var(name).unwrap_or_default();
    let (names, tests) = (words("SUREFOOT_MUTANTS"), words("SUREFOOT_MUTANT_TESTS"));
    for name in names.split_whitespace() {
        let number = MUTANTS.iter().position(|mutant| mutant.name == name).expect("no such mutant");
        for test in tests.split_whitespace() {
            let begun = Instant::now();
            println!("{name} {test} {:?} {} ms", try_mutant(number, test), begun.elapsed().as_millis());
        }
    }
}

#[test]
fn the_list_has_forty_faults_ten_of_them_the_sample_and_each_its_own_name() {
    let names: BTreeSet<_> = MUTANTS.iter().map(|mutant| mutant.name).collect();
    assert_eq!(names.len(), MUTANTS.len());
    let found = MUTANTS.iter().filter(|mutant| matches!(mutant.outcome, Outcome::FoundBy(_)));
    assert!(found.count() >= 40);
    assert_eq!(MUTANTS.iter().filter(|mutant| mutant.is_sample).count(), 10);
    for part in [Part::Library, Part::Daemon, Part::Firmware] {
        assert!(MUTANTS.iter().any(|mutant| mutant.part == part));
    }
}
