//! The journal of recovery steps: one JSON line before and one after each step. The policy's limits count the steps in it, so
//! they hold from one run to the next.

use crate::Error;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use surefoot_hostfs::Root;
use surefoot_journal::{Limits, Newest, NotLocked, Writer, newest};
use surefoot_model::RecoveryStep;

/// The default path.
pub const DEFAULT: &str = "/var/lib/surefoot/nic-recovery.jsonl";
/// A journal of this size is not appended to; it has to be moved away first.
const LIMITS: Limits = Limits { line_bytes: 64 << 10, file_bytes: 16 << 20 };
/// How much of its end is read: many times the steps of an hour.
const READ: Limits = Limits { file_bytes: 1 << 20, ..LIMITS };

/// How long to wait for another process that holds the journal; a step takes seconds at most.
const PATIENCE: Duration = Duration::from_secs(5);

/// Makes the folder of [`DEFAULT`] if it does not exist.
///
/// # Errors
/// [`Error::File`] when it cannot be made.
pub fn make_folder(root: &Root) -> Result<(), Error> {
    let path = root.path(DEFAULT);
    let Some(folder) = path.parent().filter(|folder| !folder.exists()) else { return Ok(()) };
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| Error::File { path: folder.to_owned(), why: format!("it cannot be made: {error}") })
}

/// The journal, locked for this process.
#[derive(Debug)]
pub struct Journal {
    writer: Writer,
    path: PathBuf,
    /// The steps in it, oldest first.
    pub steps: Vec<RecoveryStep>,
    /// Lines that could not be read. Each may be a step that the limits do not count.
    pub skipped_count: u64,
}

impl Journal {
    /// Takes an open file before anything is done; `path` is its name.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be written, is not a regular file, is writable by other users, is full, or stays locked by
    /// another process.
    pub fn open(file: File, path: &Path) -> Result<Journal, Error> {
        Journal::open_within(&file, path, PATIENCE)
    }

    fn open_within(opened: &File, path: &Path, patience: Duration) -> Result<Journal, Error> {
        let bad = |why: String| Error::File { path: path.to_owned(), why: format!("{why}; nothing was changed") };
        let found = opened.metadata().map_err(|error| bad(error.to_string()))?;
        if !found.is_file() {
            return Err(bad("the journal is not a regular file".to_owned()));
        }
        if found.len() >= LIMITS.file_bytes {
            let most = LIMITS.file_bytes;
            return Err(bad(format!("the journal has reached its limit of {most} bytes; move it away first")));
        }
        // Who can write to it can make up steps, or remove those that the limits count.
        if found.mode() & 0o022 != 0 {
            let mode = found.mode() & 0o777;
            return Err(bad(format!(
                "other users may write to the journal (mode {mode:o}); run `chmod go-w` on it, or name a new one"
            )));
        }
        let writer = Writer::reopen(opened, LIMITS);
        let mut writer = writer.map_err(|error| bad(format!("the journal cannot be written: {error}")))?;
        writer.lock(patience).map_err(|why| match why {
            NotLocked::Held => bad("another surefoot is recovering interfaces".to_owned()),
            NotLocked::System(error) => bad(format!("the journal cannot be locked: {error}")),
        })?;
        let read = read(writer.file()).map_err(|error| bad(format!("the journal cannot be read: {error}")))?;
        Ok(Journal { writer, path: path.to_owned(), steps: read.lines, skipped_count: read.skipped_count })
    }

    /// Whether a step differs from the last one of the same interface; the time is not compared. A watch that withholds the same
    /// step at each look writes it once.
    pub fn is_news(&self, step: &RecoveryStep) -> bool {
        let last = self.steps.iter().rev().find(|last| last.interface == step.interface);
        last.is_none_or(|last| (last.kind, &last.target, last.outcome) != (step.kind, &step.target, step.outcome))
    }

    /// The steps in a journal, for a dry run; none if there is no journal.
    ///
    /// # Errors
    /// [`Error::File`] when it exists and cannot be read.
    pub fn look(root: &Root, path: &Path) -> Result<Vec<RecoveryStep>, Error> {
        let path = root.path(path);
        let bad =
            |error: io::Error| Error::File { path: path.clone(), why: format!("the journal cannot be read: {error}") };
        match surefoot_foreign::hold_name(&path).and_then(|held| held.regular()?.open()) {
            Ok(file) => read(&file).map(|read| read.lines).map_err(bad),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(bad(error)),
        }
    }

    /// Appends a step; it is on the disk when this returns.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be written.
    pub fn write(&mut self, step: &RecoveryStep) -> Result<(), Error> {
        let written = self.writer.append(step).and_then(|()| Ok(self.writer.sync()?));
        self.steps.push(step.clone());
        written.map_err(|error| Error::File {
            path: self.path.clone(),
            why: format!("the step on {} cannot be written to the journal: {error}", step.interface),
        })
    }
}

fn read(file: &File) -> io::Result<Newest<RecoveryStep>> {
    newest(file, READ, |line| serde_json::from_slice(line).ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    use surefoot_model::{RecoveryKind, RecoveryOutcome};
    use surefoot_testkit::HostTree;

    fn file_of(root: &Root) -> File {
        make_folder(root).unwrap();
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(root.path(DEFAULT)).unwrap()
    }

    fn open(root: &Root) -> Result<Journal, Error> {
        Journal::open(file_of(root), &root.path(DEFAULT))
    }

    fn step(at_realtime_ns: u64) -> RecoveryStep {
        RecoveryStep {
            at_realtime_ns,
            interface: "eth0".into(),
            kind: RecoveryKind::LinkCycle,
            target: "eth0".into(),
            reason: "it hangs".into(),
            outcome: RecoveryOutcome::Begun,
            detail: String::new(),
        }
    }

    #[test]
    fn what_was_written_is_read_in_the_next_run_and_torn_lines_are_left_out() {
        let tree = HostTree::new();
        let (root, path) = (Root::at(tree.path()), Path::new(DEFAULT));
        assert_eq!(Journal::look(&root, path).unwrap(), []);
        let mut journal = open(&root).unwrap();
        journal.write(&step(1)).unwrap();
        let error = Journal::open_within(&file_of(&root), path, Duration::from_millis(100)).unwrap_err().to_string();
        assert!(error.ends_with("another surefoot is recovering interfaces; nothing was changed"), "{error}");
        journal.writer.file().write_all(b"{\"at_realtime_ns\":2,\n").unwrap();
        journal.write(&step(3)).unwrap();
        drop(journal);
        assert_eq!(Journal::look(&root, path).unwrap(), [step(1), step(3)]);
        assert_eq!(open(&root).unwrap().steps, [step(1), step(3)]);
    }

    #[test]
    fn a_journal_that_is_no_file_or_that_others_may_write_stops_everything() {
        use std::os::unix::fs::PermissionsExt;
        let tree = HostTree::new().folder("var/lib/surefoot/nic-recovery.jsonl");
        let folder = File::open(tree.path().join("var/lib/surefoot/nic-recovery.jsonl")).unwrap();
        let error = Journal::open(folder, Path::new(DEFAULT)).unwrap_err().to_string();
        assert!(error.ends_with("nothing was changed"), "{error}");
        let tree = HostTree::new();
        let root = Root::at(tree.path());
        file_of(&root).set_permissions(std::fs::Permissions::from_mode(0o666)).unwrap();
        let error = open(&root).unwrap_err().to_string();
        assert!(error.contains("other users may write") && error.ends_with("nothing was changed"), "{error}");
    }

    #[test]
    fn a_torn_line_takes_no_other_with_it() {
        let tree = HostTree::new();
        let root = Root::at(tree.path());
        let mut journal = open(&root).unwrap();
        journal.write(&step(1)).unwrap();
        // The disk was full, or the power went.
        journal.writer.file().write_all(b"{\"at_realtime_ns\":2,").unwrap();
        drop(journal);
        open(&root).unwrap().write(&step(3)).unwrap();
        let journal = open(&root).unwrap();
        assert_eq!((&journal.steps[..], journal.skipped_count), (&[step(1), step(3)][..], 1));
    }

    #[test]
    fn another_watch_at_its_step_is_waited_for() {
        let tree = HostTree::new();
        let root = Root::at(tree.path());
        let mut first = open(&root).unwrap();
        let (other_root, seen) = (root.clone(), std::sync::mpsc::channel());
        let second = std::thread::spawn(move || {
            seen.0.send(()).unwrap();
            open(&other_root).map(|journal| journal.steps)
        });
        seen.1.recv().unwrap();
        std::thread::sleep(Duration::from_millis(200));
        first.write(&step(1)).unwrap();
        drop(first);
        assert_eq!(second.join().unwrap().unwrap(), [step(1)], "and what it did counts");
    }

    #[test]
    fn of_two_interfaces_that_hang_neither_makes_the_others_step_news() {
        let tree = HostTree::new();
        let mut journal = open(&Root::at(tree.path())).unwrap();
        let withheld = |name: &str| RecoveryStep {
            interface: name.into(),
            target: name.into(),
            outcome: RecoveryOutcome::Withheld,
            ..step(1)
        };
        for name in ["eth0", "eth1"] {
            assert!(journal.is_news(&withheld(name)));
            journal.write(&withheld(name)).unwrap();
        }
        assert!(!journal.is_news(&withheld("eth0")) && !journal.is_news(&withheld("eth1")));
        assert!(journal.is_news(&step(2)), "another outcome is");
    }

    #[test]
    fn a_pipe_is_no_journal_and_is_not_waited_for() {
        let tree = HostTree::new().folder("var/lib/surefoot");
        let made = std::process::Command::new("mkfifo").arg(tree.path().join("var/lib/surefoot/pipe")).status();
        assert!(made.unwrap().success());
        let error = Journal::look(&Root::at(tree.path()), Path::new("var/lib/surefoot/pipe")).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }
}
