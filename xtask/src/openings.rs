//! Where files are opened: `surefoot-foreign` alone opens what another user may control, and one file opens SQLite.
//!
//! Every other place that opens a file is in the table, with the reason why no other user controls that file. A place that is
//! not in the table is a fault, also in a file that opened nothing before: use `surefoot_foreign::hold`, or say why not here.

use crate::rust_text;
use std::path::Path;

/// The only file that may open SQLite.
const SQLITE: &str = "crates/store/src/database/mod.rs";

/// What opens SQLite by a path.
const OPENS_SQLITE: &[&str] = &["Connection::open(", "Connection::open_with_flags("];

/// What opens a file by a path.
const OPENS: &[&str] = &[
    "File::open(",
    "File::options()",
    "OpenOptions::new()",
    "fs::read(",
    "fs::read_to_string(",
    "libc::open(",
    "libc::openat(",
    "SYS_openat",
];

/// Crates that open nothing of another user: tests alone, or files of a machine that is made up.
const FREE: &[&str] = &["crates/foreign", "crates/testkit"];

const KERNEL: &str = "files of the kernel";
const NEW: &str = "creates a new file, and opens none that is there";
const OWN: &str = "files of this user in a directory that was checked to be its own";
const LOCK: &str = "a lock of this user's in a directory that was checked to be its own";

/// Files that open others, how often, and why that is safe.
const OPENERS: &[(&str, usize, &str)] = &[
    ("crates/checkpoint/src/inspect/verify.rs", 1, NEW),
    ("crates/sys/src/answering/waits.rs", 3, "files of the kernel about a child; numbers of system calls"),
    ("crates/checkpoint/src/measure/tiers.rs", 1, NEW),
    ("crates/checkpoint/src/medium/device.rs", 3, KERNEL),
    ("crates/checkpoint/src/medium/mod.rs", 2, "holds the directories of a tier, and opens nothing"),
    ("crates/checkpoint/src/medium/mounts.rs", 2, KERNEL),
    ("crates/checkpoint/src/session/clock.rs", 3, KERNEL),
    ("crates/checkpoint/src/settings/published.rs", 1, NEW),
    ("crates/checkpoint/src/tier/ahead.rs", 1, NEW),
    ("crates/cli/src/checkpoint/drive.rs", 1, NEW),
    ("crates/experiment/src/drift/reference.rs", 2, KERNEL),
    ("crates/experiment/src/log/journal.rs", 2, OWN),
    ("crates/cli/src/disturb/predict/goal_file.rs", 1, NEW),
    ("crates/cli/src/ecc/verilog.rs", 1, "writes, and follows no link"),
    ("crates/memory/src/import/file.rs", 1, "a pipe of this process's own, by its descriptor"),
    ("crates/daemon/src/rooms/nic/campaign/result_file.rs", 1, "reopens what is open already, by its descriptor"),
    ("crates/cli/src/remedy/mod.rs", 1, KERNEL),
    ("crates/controller/src/agent.rs", 2, NEW),
    ("crates/daemon/src/rooms/checkpoint/key_file.rs", 2, NEW),
    ("crates/daemon/src/rooms/disturb/source/look.rs", 1, "holds a directory (O_PATH), and opens nothing"),
    ("crates/daemon/src/http/access.rs", 1, KERNEL),
    ("crates/daemon/src/keep/run_directory.rs", 2, LOCK),
    ("crates/disturb/src/cgroup.rs", 2, KERNEL),
    ("crates/disturb/src/disturbance/memory_error.rs", 2, KERNEL),
    ("crates/heal/src/limits.rs", 4, KERNEL),
    ("crates/heal/src/sidecar/folder.rs", 1, KERNEL),
    ("crates/heal/src/storage/beneath.rs", 1, NEW),
    ("crates/heal/src/storage/directory.rs", 1, "directories alone; for files it holds first"),
    ("crates/heal/src/storage/disk.rs", 3, OWN),
    ("crates/hostfs/src/apm.rs", 1, KERNEL),
    ("crates/hostfs/src/root.rs", 2, KERNEL),
    ("crates/sys/src/offlining.rs", 1, KERNEL),
    ("crates/sys/src/run_lock.rs", 2, LOCK),
    ("crates/sys/src/terminal.rs", 1, "reopens the terminal that standard output is, by its descriptor"),
    ("crates/hostfs/src/tracefs/mod.rs", 2, KERNEL),
    ("crates/hostfs/src/tracefs/own_mount.rs", 1, KERNEL),
    ("crates/http/src/socket.rs", 1, "holds a socket, and opens nothing"),
    ("crates/inloop/src/directory.rs", 2, "the directory itself, and a new file in it"),
    ("crates/inloop/src/reader/owner.rs", 2, KERNEL),
    ("crates/interfaces/src/act.rs", 1, KERNEL),
    ("crates/interfaces/src/baseline.rs", 1, NEW),
    (
        "crates/journal/src/deeds/file.rs",
        1,
        "in a directory that no stranger's link leads to; a file of this user with one name, or none",
    ),
    ("crates/journal/src/rotating.rs", 1, OWN),
    ("crates/journal/src/write.rs", 1, "reopens what is open already, by its descriptor"),
    ("crates/memory/src/follow/instance.rs", 2, KERNEL),
    ("crates/memory/src/tune/act.rs", 1, KERNEL),
    ("crates/nic-mutants/src/tests/mutant.rs", 1, OWN),
    ("crates/nic-mutants/src/tests/runner.rs", 3, OWN),
    ("crates/nic/src/live/directory.rs", 3, OWN),
    ("crates/nic/src/live/namespace.rs", 1, KERNEL),
    ("crates/nic/src/live/part.rs", 1, OWN),
    ("crates/nic/src/live/run.rs", 2, OWN),
    ("crates/probes/src/tracepoints.rs", 1, KERNEL),
    ("crates/remedy/src/act/own.rs", 1, KERNEL),
    ("crates/remedy/src/act/ticket.rs", 1, NEW),
    ("crates/stall/src/spin/run_delay.rs", 1, KERNEL),
    ("crates/stall/src/victim.rs", 3, KERNEL),
    ("crates/stall/src/who/host_facts.rs", 1, KERNEL),
    (
        "crates/store/src/database/in_place.rs",
        1,
        "O_PATH on the database that SQLite has open, to see whether it has a name left; nothing is read",
    ),
    ("crates/store/src/history/lock.rs", 1, LOCK),
    ("crates/store/src/history/schema.rs", 1, NEW),
    ("crates/store/src/output.rs", 1, "writes, and follows no link but those of `way`"),
    ("crates/store/src/output/replaced.rs", 1, NEW),
];

/// What a source file opens past `surefoot-foreign`. Its tests may open what they like.
pub fn faults(file: &Path, text: &str) -> Vec<String> {
    let is_test = file.file_stem().is_some_and(|stem| {
        ["tests", "schema"].iter().any(|test| stem == *test) || stem.to_string_lossy().ends_with("_tests")
    });
    let is_source = file.starts_with("crates") && file.components().any(|part| part.as_os_str() == "src");
    if !is_source || is_test || FREE.iter().any(|free| file.starts_with(free)) {
        return Vec::new();
    }
    let code = rust_text::code_only(&rust_text::without_tests(text));
    let mut faults = Vec::new();
    let mut opened = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let at = format!("{}:{}", file.display(), number + 1);
        if file != Path::new(SQLITE) && OPENS_SQLITE.iter().any(|words| has(line, words) > 0) {
            faults.push(format!("{at}: SQLite is opened in {SQLITE} alone, which decides whose files it may touch"));
        }
        let count: usize = OPENS.iter().map(|words| has(line, words)).sum();
        opened.extend(std::iter::repeat_n(at, count));
    }
    let name = file.to_string_lossy();
    let allowed = OPENERS.iter().find(|row| row.0 == name).map_or(0, |row| row.1);
    if opened.len() > allowed {
        let places = opened.join(", ");
        faults.push(format!(
            "{name}: opens {} files by name where {allowed} are known ({places}); use surefoot_foreign::hold, or say in \
             xtask/src/openings.rs why no other user controls them",
            opened.len()
        ));
    } else if opened.len() < allowed {
        faults.push(format!(
            "{name}: opens {} files by name; correct the {allowed} in xtask/src/openings.rs",
            opened.len()
        ));
    }
    faults
}

/// Rows of the table whose file is gone.
pub fn gone(files: &[std::path::PathBuf]) -> Vec<String> {
    let is_there = |name: &str| files.iter().any(|file| file == Path::new(name));
    let gone = OPENERS.iter().filter(|row| !is_there(row.0));
    gone.map(|row| format!("xtask/src/openings.rs: {} is gone; take its row out", row.0)).collect()
}

/// How often a line has these words, where they are not the end of a longer name such as `CountsFile::open`.
fn has(line: &str, words: &str) -> usize {
    let is_longer = |before: &str| before.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_');
    line.match_indices(words).filter(|(at, _)| !is_longer(&line[..*at])).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(file: &str, text: &str) -> Vec<String> {
        faults(Path::new(file), text)
    }

    #[test]
    fn a_file_that_is_opened_by_name_is_found() {
        for words in OPENS {
            let found = of("crates/daemon/src/new.rs", &format!("fn f() {{\n    let x = {words}path);\n}}\n"));
            assert!(found.len() == 1 && found[0].contains("crates/daemon/src/new.rs:2"), "{words}: {found:?}");
        }
        assert_eq!(of("crates/daemon/src/new.rs", "let x = std::fs::read(path);").len(), 1);
        assert_eq!(of("crates/daemon/src/new.rs", "let x = CountsFile::open(path); // File::open(path)"), [""; 0]);
        assert_eq!(
            of("crates/daemon/src/new.rs", "\n#[cfg(test)]\nmod tests { fn f() { File::open(path); } }"),
            [""; 0]
        );
        assert_eq!(of("crates/foreign/src/held.rs", "File::open(path)"), [""; 0]);
    }

    #[test]
    fn a_file_of_the_table_opens_no_more_and_no_fewer() {
        let (name, count, _) = OPENERS[0];
        let opens = |count: usize| "File::open(path);\n".repeat(count);
        assert_eq!(of(name, &opens(count)), [""; 0]);
        assert_eq!(of(name, &opens(count + 1)).len(), 1);
        assert_eq!(of(name, &opens(count - 1)).len(), 1);
        assert_eq!(gone(&[]).len(), OPENERS.len());
    }

    #[test]
    fn sqlite_is_opened_in_one_file() {
        for words in OPENS_SQLITE {
            let line = format!("let x = rusqlite::{words}path);");
            assert_eq!(of("crates/store/src/cases/sqlite.rs", &line).len(), 1, "{words}");
            assert_eq!(of(SQLITE, &line), [""; 0]);
        }
    }
}
