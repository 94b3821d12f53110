//! What was done for interfaces, written down before and after: a JSON line each. The limits of the policy hold over it, so they
//! hold from one run to the next.

use crate::Error;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use surefoot_hostfs::Root;
use surefoot_model::RecoveryStep;

/// Where it is unless somebody names another place.
pub const DEFAULT: &str = "/var/lib/surefoot/nic-recovery.jsonl";
/// A journal that has grown to this is not written on: a person is to put it away.
const BYTES_MAX: u64 = 16 << 20;
/// How much of its end is read: what an hour can hold many times over.
const READ_BYTES: u64 = 1 << 20;

/// How long another process is waited for, and how long between two looks.
const PATIENCE: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Makes the folder of [`DEFAULT`] where it is not there.
///
/// # Errors
/// [`Error::File`] where it cannot be made.
pub fn make_folder(root: &Root) -> Result<(), Error> {
    let path = root.path(DEFAULT);
    let Some(folder) = path.parent().filter(|folder| !folder.exists()) else { return Ok(()) };
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| Error::File { path: folder.to_owned(), why: format!("it cannot be made: {error}") })
}

/// The journal, locked for this process.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    /// What it holds, oldest first.
    pub steps: Vec<RecoveryStep>,
}

impl Journal {
    /// Takes a file that is open to be written on, before anything is done; the path is its name.
    ///
    /// # Errors
    /// [`Error::File`] where it cannot be written, is no regular file, may be written by other users, is full, or another process
    /// works with it for long.
    pub fn open(file: File, path: &Path) -> Result<Journal, Error> {
        Journal::open_within(&file, path, PATIENCE)
    }

    fn open_within(opened: &File, path: &Path, patience: Duration) -> Result<Journal, Error> {
        let bad = |why: String| Error::File { path: path.to_owned(), why: format!("{why}; nothing was changed") };
        let found = opened.metadata().map_err(|error| bad(error.to_string()))?;
        if !found.is_file() || found.len() >= BYTES_MAX {
            return Err(bad(format!("the journal is no regular file below {BYTES_MAX} bytes; put it away first")));
        }
        // Who can write on it makes up steps, or takes away those that the limits count.
        if found.mode() & 0o022 != 0 {
            let mode = found.mode() & 0o777;
            return Err(bad(format!(
                "other users may write on the journal (mode {mode:o}); `chmod go-w` or name a new one"
            )));
        }
        // The same file, whatever its name leads to by now; each line goes to its end.
        let own = Path::new("/proc/self/fd").join(opened.as_raw_fd().to_string());
        let file = OpenOptions::new().read(true).append(true).open(own);
        let file = file.map_err(|error| bad(format!("the journal cannot be written: {error}")))?;
        let until = Instant::now() + patience;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                // Another watch is at its step, which takes seconds at most.
                Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(LOCK_PAUSE),
                Err(TryLockError::WouldBlock) => {
                    return Err(bad("another surefoot is recovering interfaces".to_owned()));
                }
                Err(TryLockError::Error(error)) => return Err(bad(format!("the journal cannot be locked: {error}"))),
            }
        }
        let mut journal = Journal { file, path: path.to_owned(), steps: Vec::new() };
        let read = journal.read().map_err(|error| bad(format!("the journal cannot be read: {error}")));
        read.map(|()| journal)
    }

    fn read(&mut self) -> io::Result<()> {
        self.steps = read(&mut self.file)?;
        // A write that was torn is a line of its own, and takes the next one not with it.
        let mut last = [b'\n'];
        if self.file.metadata()?.len() > 0 {
            self.file.seek(SeekFrom::End(-1))?;
            self.file.read_exact(&mut last)?;
        }
        if last != [b'\n'] { self.file.write_all(b"\n") } else { Ok(()) }
    }

    /// Whether a step is another one than the last for the same interface; how long ago that was is not compared. A watch that
    /// withholds the same steps at each look writes each down once.
    pub fn is_news(&self, step: &RecoveryStep) -> bool {
        let last = self.steps.iter().rev().find(|last| last.interface == step.interface);
        last.is_none_or(|last| (last.kind, &last.target, last.outcome) != (step.kind, &step.target, step.outcome))
    }

    /// What a journal holds, for a dry run; nothing where there is none.
    ///
    /// # Errors
    /// [`Error::File`] where it is there and cannot be read.
    pub fn look(root: &Root, path: &Path) -> Result<Vec<RecoveryStep>, Error> {
        let path = root.path(path);
        let bad =
            |error: io::Error| Error::File { path: path.clone(), why: format!("the journal cannot be read: {error}") };
        match surefoot_foreign::hold_name(&path).and_then(|held| held.regular()?.open()) {
            Ok(mut file) => read(&mut file).map_err(bad),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(bad(error)),
        }
    }

    /// Writes a step down; it is on the disk when this returns.
    ///
    /// # Errors
    /// [`Error::File`] where the journal does not take it.
    pub fn write(&mut self, step: &RecoveryStep) -> Result<(), Error> {
        let mut line = serde_json::to_vec(step).unwrap_or_default();
        line.push(b'\n');
        let written = self.file.write_all(&line).and_then(|()| self.file.sync_data());
        self.steps.push(step.clone());
        written.map_err(|error| Error::File {
            path: self.path.clone(),
            why: format!("the journal does not take the line on {}: {error}", step.interface),
        })
    }
}

/// The steps at the end of a file. A line that is none, because a write was torn, say, is left out.
fn read(file: &mut File) -> io::Result<Vec<RecoveryStep>> {
    let bytes = file.metadata()?.len();
    file.seek(SeekFrom::Start(bytes.saturating_sub(READ_BYTES)))?;
    let mut text = Vec::new();
    file.take(READ_BYTES).read_to_end(&mut text)?;
    let lines = text.split(|&byte| byte == b'\n');
    Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
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
        journal.file.write_all(b"{\"at_realtime_ns\":2,\n").unwrap();
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
        journal.file.write_all(b"{\"at_realtime_ns\":2,").unwrap();
        drop(journal);
        open(&root).unwrap().write(&step(3)).unwrap();
        assert_eq!(open(&root).unwrap().steps, [step(1), step(3)]);
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
