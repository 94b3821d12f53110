//! Programs of the user nobody that are made to hurt whoever names their functions, which root does. Each test runs an
//! honest program beside them, whose names must come, and holds the watch to an end in order and to an amount of memory.

use super::{frames, raisers, watch};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use surefoot_e2e::actor::{self, Actor, ODD, RAISER};
use surefoot_e2e::command::NOBODY;
use surefoot_e2e::machine::{Need, has_program, turn};
use surefoot_testkit::not_run::not_run;

/// What the watch and the process that reads for it may take together at any time: a watch that is not attacked takes some
/// 60 MiB, this program's own debugging data included, and the least of the attacks took 480 MB more.
const MEMORY_KIB_MAX: u64 = 320 << 10;

/// A folder of nobody's.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    folder
}

/// What was seen of a watch beside attackers.
struct Seen {
    lines: Vec<Value>,
    attackers: Vec<(Actor, Value)>,
}

impl Seen {
    /// The user stacks of an attacker in munmap.
    fn stacks(&self, attacker: usize) -> Vec<Vec<&str>> {
        let found = raisers(&self.lines, "tlb_shootdown", &self.attackers[attacker].1);
        found
            .into_iter()
            .filter(|raiser| raiser["syscall"] == "munmap")
            .map(|raiser| frames(raiser, "user_stack"))
            .collect()
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        for (attacker, _) in self.attackers.drain(..) {
            let map = format!("/tmp/perf-{}.map", attacker.pid());
            drop(attacker);
            // Most have none. One that is made over and over may be made anew until its shell sees that the program is gone.
            let _ = std::fs::remove_file(map);
        }
    }
}

/// Watches while each script does its work and an honest program after them.
fn watch_beside(folder: &Path, attacks: &[(&Path, &str)]) -> Seen {
    ODD.path();
    RAISER.path();
    let watch = watch("");
    let start = |(program, script): &(&Path, &str)| {
        let mut attacker = actor::start_script_as_nobody(script, program, folder);
        let truth = attacker.answer();
        (attacker, truth)
    };
    let mut seen = Seen { lines: Vec::new(), attackers: attacks.iter().map(start).collect() };
    let mut honest = RAISER.start("stdio 300 300 1 0");
    let truth = honest.answer();
    let memory_kib = peak_kib(watch.running.pid());
    let finished = watch.stop();
    seen.lines = finished.json();
    let found = raisers(&seen.lines, "tlb_shootdown", &truth);
    let found: Vec<&Value> = found.into_iter().filter(|raiser| raiser["syscall"] == "munmap").collect();
    assert!(!found.is_empty(), "the honest program is not seen: {:?}", seen.lines);
    for raiser in found {
        assert!(frames(raiser, "user_stack").contains(&"close_counter"), "the honest program has its names: {raiser}");
    }
    assert!(memory_kib < MEMORY_KIB_MAX, "{memory_kib} KiB at the most");
    seen
}

/// The most memory that a process and those that it started have had, as far as they still run.
fn peak_kib(pid: u32) -> u64 {
    let children = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let children = children.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<u32> = children
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect();
    let own = |pid: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().split(' ').next()?.parse().ok();
        line.map(|kib: u64| kib)
    };
    children.iter().chain([&pid]).filter_map(own).sum()
}

/// A copy of the raiser, changed by objcopy, that nobody may run.
pub fn changed(folder: &Path, name: &str, arguments: &[&str]) -> PathBuf {
    let path = folder.join(name);
    let done = Command::new("objcopy").args(arguments).arg(RAISER.path()).arg(&path).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    path
}

/// The place in the file of the section of this name.
pub fn section(program: &[u8], name: &str) -> usize {
    let number = |at: usize, bytes: usize| {
        program[at..at + bytes].iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte))
    };
    let (sections, count, names) = (number(40, 8), number(60, 2), number(62, 2));
    let header = |section: usize| sections + section * 64;
    let names = number(header(names) + 24, 8);
    let is_it = |section: &usize| {
        let at = names + number(header(*section), 4);
        program[at..].starts_with(name.as_bytes()) && program[at + name.len()] == 0
    };
    number(header((0..count).find(is_it).unwrap()) + 24, 8)
}

/// Whether somebody has a pipe open for reading, or waits to.
fn is_read(pipe: &Path) -> bool {
    let dd = Command::new("dd").args(["oflag=nonblock", "count=0"]).arg(format!("of={}", pipe.display())).output();
    dd.unwrap().status.success()
}

pub fn has_tools(test: &str) -> bool {
    let missing = ["objcopy", "mkfifo", "truncate", "dd"].into_iter().find(|tool| !has_program(tool));
    if let Some(tool) = missing {
        not_run(test, &format!("{tool} is not installed"));
    }
    missing.is_none()
}

#[test]
fn debugging_data_that_claim_any_size_cost_neither_memory_nor_names() {
    const NAME: &str = "debugging_data_that_claim_any_size_cost_neither_memory_nor_names";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    if !has_tools(NAME) {
        return;
    }
    let folder = folder();
    let mut programs = Vec::new();
    for (name, size) in [("large", 1u64 << 46), ("larger", u64::MAX), ("bomb", 0)] {
        let path = changed(folder.path(), name, &["--compress-debug-sections=zlib"]);
        let mut program = std::fs::read(&path).unwrap();
        let at = section(&program, ".debug_info");
        match size {
            // Not its word is wrong but its contents.
            0 => program[at + 24..at + 64].fill(0xA5),
            size => program[at + 8..at + 16].copy_from_slice(&size.to_le_bytes()),
        }
        std::fs::write(&path, program).unwrap();
        programs.push(path);
    }
    let script = "exec $program stdio 300 300 1 0";
    let attacks: Vec<(&Path, &str)> = programs.iter().map(|path| (path.as_path(), script)).collect();
    let seen = watch_beside(folder.path(), &attacks);
    for attacker in 0..attacks.len() {
        for stack in seen.stacks(attacker) {
            // The table of symbols is there, whatever the debugging data are.
            assert!(stack.contains(&"close_counter"), "{stack:?}");
        }
    }
}

#[test]
fn a_file_that_a_program_names_is_never_opened() {
    const NAME: &str = "a_file_that_a_program_names_is_never_opened";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    if !has_tools(NAME) {
        return;
    }
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let pipes = ["link", "alternative", "package.dwp"].map(path);
    for pipe in &pipes {
        assert!(Command::new("mkfifo").args(["-m", "666"]).arg(pipe).status().unwrap().success());
    }
    let mut link = pipes[0].display().to_string().into_bytes();
    link.resize((link.len() + 1).next_multiple_of(4) + 4, 0);
    std::fs::write(path("link.section"), link).unwrap();
    let mut alternative = pipes[1].display().to_string().into_bytes();
    alternative.extend([0; 21]);
    std::fs::write(path("alternative.section"), alternative).unwrap();
    let add = |section: &str, file: &str| format!("--add-section={section}={}", path(file).display());
    let programs = [
        changed(folder.path(), "linked", &[&add(".gnu_debuglink", "link.section")]),
        changed(folder.path(), "alternatively", &[&add(".gnu_debugaltlink", "alternative.section")]),
        changed(folder.path(), "package", &[]),
    ];
    let script = "exec $program stdio 300 300 1 0";
    let attacks: Vec<(&Path, &str)> = programs.iter().map(|path| (path.as_path(), script)).collect();
    let seen = watch_beside(folder.path(), &attacks);
    for pipe in &pipes {
        assert!(!is_read(pipe), "{} is open", pipe.display());
    }
    for attacker in 0..attacks.len() {
        for stack in seen.stacks(attacker) {
            assert!(stack.contains(&"close_counter"), "{stack:?}");
        }
    }
}

#[test]
fn lists_of_symbols_of_code_made_at_run_time_name_it_and_do_no_harm() {
    const NAME: &str = "lists_of_symbols_of_code_made_at_run_time_name_it_and_do_no_harm";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    if !cfg!(target_arch = "x86_64") {
        return not_run(NAME, "the test's machine code is for x86-64");
    }
    if !has_tools(NAME) {
        return;
    }
    let folder = folder();
    let program = folder.path().join("odd");
    std::fs::copy(ODD.path(), &program).unwrap();
    let made = |before: &str| format!("map=/tmp/perf-$$.map\n{before}\nexec $program made 300 300 1 0");
    let scripts = [
        made("echo '1 7fffffffffff made_by_nobody' >$map"),
        made("mkfifo $map"),
        made("ln -s /etc/shadow $map"),
        made("yes '1 1 a' | head -c 30000000 >$map"),
        made("yes '1 1 a' | head -c 60000000 >$map"),
        // Cut and filled again, over and over, for as long as the program lives.
        made(
            "(while kill -0 $$; do yes '1 1 a' | head -c 20000000 >$map; truncate -s 0 $map; done; rm -f $map) >/dev/null 2>&1 &",
        ),
    ];
    let attacks: Vec<(&Path, &str)> = scripts.iter().map(|script| (program.as_path(), script.as_str())).collect();
    let seen = watch_beside(folder.path(), &attacks);
    let stacks: Vec<Vec<Vec<&str>>> = (0..scripts.len()).map(|attacker| seen.stacks(attacker)).collect();
    let said = |attacker: usize, words: &str| {
        let stacks: &Vec<Vec<&str>> = &stacks[attacker];
        assert!(!stacks.is_empty() && stacks.iter().all(|stack| stack[0].contains(words)), "{words}: {stacks:?}");
    };
    said(0, "made_by_nobody");
    said(1, "it is not a regular file but a FIFO");
    said(2, "the list of its symbols was not read");
    said(3, "no symbol");
    said(4, "are read at most");
}

#[test]
fn a_name_that_doubles_with_every_word_is_cut() {
    const NAME: &str = "a_name_that_doubles_with_every_word_is_cut";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    if !has_tools(NAME) {
        return;
    }
    let folder = folder();
    let mut name = "_Z1f4pairIiiE".to_owned();
    for last in "0123456789ABCDEFGHIJKLMNOPQ".chars() {
        name += &format!("S_IS{last}_S{last}_E");
    }
    let program = changed(folder.path(), "doubling", &["-g", &format!("--redefine-sym=close_counter={name}")]);
    let seen = watch_beside(folder.path(), &[(&program, "exec $program stdio 300 300 1 0")]);
    let stacks = seen.stacks(0);
    assert!(!stacks.is_empty());
    for stack in stacks {
        let is_cut = |frame: &&str| {
            frame.starts_with("f(pair<int, int>, pair<") && (frame.ends_with('…') || frame.ends_with("..."))
        };
        assert!(stack.iter().any(is_cut), "{stack:?}");
    }
}
