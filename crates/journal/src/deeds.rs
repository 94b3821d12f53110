//! The journal of deeds: what Surefoot did to a machine, one line before an action and one after it.
//!
//! A host has one, [`FILE`], to which every command, agent and controller appends; a full one becomes [`OLDER`]. A command may
//! be told to use another file instead, which is never renamed.

mod before;

use crate::{Limits, NotLocked, NotWritten, Writer, newest};
use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use surefoot_foreign::way;
use surefoot_model::Deed;

/// The host's journal.
pub const FILE: &str = "/var/lib/surefoot/deeds.jsonl";
/// The one before it.
pub const OLDER: &str = "/var/lib/surefoot/deeds.1.jsonl";

/// How long a line and a file may be. A host's journal that is as long becomes the older one; another file has to be moved away.
pub const LIMITS: Limits = Limits { line_bytes: Deed::LINE_BYTES_MAX, file_bytes: 16 << 20 };
/// How much of the end of a journal is read: many times the deeds of an hour.
const READ: Limits = Limits { file_bytes: 1 << 20, ..LIMITS };

/// How long to wait for another process that holds the journal.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A journal that cannot be used.
#[derive(Debug)]
pub struct Unusable {
    /// The journal.
    pub path: PathBuf,
    /// Why, and what to do.
    pub why: String,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.why)
    }
}

impl std::error::Error for Unusable {}

/// What a journal says, oldest first.
#[derive(Debug, Default)]
pub struct Read {
    /// The newest deeds.
    pub deeds: Vec<Deed>,
    /// Lines that could not be read. Each may be a deed that limits do not count.
    pub skipped_count: u64,
    /// Of those, the ones whose place is known: each as the number of deeds before it.
    places: Vec<usize>,
}

impl Read {
    fn append(&mut self, newer: Read) {
        let before = self.deeds.len();
        self.places.extend(newer.places.iter().map(|place| before + place));
        self.deeds.extend(newer.deeds);
        self.skipped_count += newer.skipped_count;
    }

    /// Lines that could not be read and may have been written since this time. Lines are appended in the order of time, so one before a
    /// deed that is older is older too.
    pub fn unread_since(&self, since_realtime_ns: u64) -> u64 {
        let is_older =
            |place: &&usize| self.deeds.iter().skip(**place).any(|deed| deed.at_realtime_ns < since_realtime_ns);
        self.skipped_count.saturating_sub(self.places.iter().filter(is_older).count() as u64)
    }
}

/// Where deeds are recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// The journal of the host below this root (`/` but in tests).
    OfHost(PathBuf),
    /// This file.
    File(PathBuf),
}

impl Record {
    /// Opens the journal and locks it; what it does not find it makes, for its owner alone.
    ///
    /// # Errors
    /// [`Unusable`] when it cannot be written, is not a regular file of this user's, is writable by other users, is full, or stays locked
    /// by another process.
    pub fn open(&self) -> Result<Journal, Unusable> {
        self.open_within(PATIENCE)
    }

    fn open_within(&self, patience: Duration) -> Result<Journal, Unusable> {
        let path = self.path();
        let cannot = |error: io::Error| bad(&path, format!("cannot be written: {error}"));
        if let Record::OfHost(_) = self {
            make_folder(&path).map_err(cannot)?;
        }
        loop {
            let opened = open(&path).map_err(cannot)?;
            let mut journal = Journal::locked(&opened, &path, patience)?;
            let is_full = journal.writer.bytes() >= LIMITS.file_bytes;
            match self {
                Record::File(_) if is_full => {
                    let limit = LIMITS.file_bytes;
                    return Err(bad(
                        &path,
                        format!("the journal has reached its limit of {limit} bytes; move it away first"),
                    ));
                }
                // Another process rotated it while this one waited for the lock.
                Record::OfHost(_) if !is_named(&opened, &path).map_err(cannot)? => {}
                Record::OfHost(root) if is_full => fs::rename(&path, below(root, OLDER)).map_err(cannot)?,
                Record::File(_) | Record::OfHost(_) => {
                    let mut read = self.earlier()?;
                    read.append(std::mem::take(&mut journal.read));
                    return Ok(Journal { read, ..journal });
                }
            }
        }
    }

    /// Appends one deed.
    ///
    /// # Errors
    /// As of [`Record::open`] and [`Journal::write`].
    pub fn append(&self, deed: &Deed) -> Result<(), Unusable> {
        self.open()?.write(deed)
    }

    /// What is recorded, without a lock; nothing where there is no such file.
    ///
    /// # Errors
    /// [`Unusable`] when it exists and cannot be read.
    pub fn look(&self) -> Result<Read, Unusable> {
        let mut read = self.earlier()?;
        read.append(look(&self.path())?);
        Ok(read)
    }

    /// What the host's journals before the present one say.
    fn earlier(&self) -> Result<Read, Unusable> {
        let Record::OfHost(root) = self else { return Ok(Read::default()) };
        let mut read = look(&below(root, before::FILE))?;
        read.append(look(&below(root, OLDER))?);
        Ok(read)
    }

    /// The file.
    pub fn path(&self) -> PathBuf {
        match self {
            Record::OfHost(root) => below(root, FILE),
            Record::File(path) => path.clone(),
        }
    }
}

/// A journal, locked for this process until it is dropped.
#[derive(Debug)]
pub struct Journal {
    writer: Writer,
    path: PathBuf,
    /// What it said when it was opened, and what was written since.
    pub read: Read,
}

impl Journal {
    fn locked(opened: &File, path: &Path, patience: Duration) -> Result<Journal, Unusable> {
        let system = |what: &str, error: io::Error| bad(path, format!("the journal cannot be {what}: {error}"));
        let found = opened.metadata().map_err(|error| system("read", error))?;
        if !found.is_file() {
            return Err(bad(path, "the journal is not a regular file".to_owned()));
        }
        // Who can write to it can invent deeds, or remove those that the limits count.
        if found.mode() & 0o022 != 0 {
            let mode = found.mode() & 0o777;
            let why = format!(
                "other users may write to the journal (mode {mode:o}); run `chmod go-w` on it, or name a new one"
            );
            return Err(bad(path, why));
        }
        let mut writer = Writer::reopen(opened, LIMITS).map_err(|error| system("written", error))?;
        writer.lock(patience).map_err(|why| match why {
            NotLocked::Held => bad(path, "another surefoot process holds the journal".to_owned()),
            NotLocked::System(error) => system("locked", error),
        })?;
        let read = read(writer.file()).map_err(|error| system("read", error))?;
        Ok(Journal { writer, path: path.to_owned(), read })
    }

    /// Appends a deed; it is on the disk when this returns.
    ///
    /// # Errors
    /// [`Unusable`] when it cannot be written.
    pub fn write(&mut self, deed: &Deed) -> Result<(), Unusable> {
        let written = self.writer.append(deed).and_then(|()| Ok(self.writer.sync()?));
        self.read.deeds.push(deed.clone());
        written.map_err(|error: NotWritten| {
            bad(&self.path, format!("a deed on {} is not recorded: {error}", deed.subject))
        })
    }

    /// Its name.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// What one file says.
///
/// # Errors
/// As of [`Record::look`].
pub fn look(path: &Path) -> Result<Read, Unusable> {
    let found = surefoot_foreign::hold_name(path).and_then(|held| held.regular()?.open()).and_then(|file| read(&file));
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Read::default()),
        found => found.map_err(|error| bad(path, format!("the journal cannot be read: {error}"))),
    }
}

/// A line as a deed; `None` for one that is none, or of another release.
pub fn parse(line: &[u8]) -> Option<Deed> {
    serde_json::from_slice(line).ok().or_else(|| before::parse(line))
}

/// A path of the host below a root.
pub fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

fn read(file: &File) -> io::Result<Read> {
    let (mut places, mut count) = (Vec::new(), 0);
    let found = newest(file, READ, |line| {
        let deed = parse(line);
        match deed {
            Some(_) => count += 1,
            None => places.push(count),
        }
        deed
    })?;
    Ok(Read { deeds: found.lines, skipped_count: found.skipped_count, places })
}

fn make_folder(path: &Path) -> io::Result<()> {
    match path.parent().filter(|folder| !folder.exists()) {
        Some(folder) => DirBuilder::new().recursive(true).mode(0o700).create(folder),
        None => Ok(()),
    }
}

/// Opens or makes a journal: a regular file of this user with one name, and no link to one. Root is led to it by nobody else's link.
fn open(path: &Path) -> io::Result<File> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let directory = way::parent(path)?;
    let mut options = fs::OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600);
    options.custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK);
    let file = options.open(way::within(&directory, name))?;
    let found = file.metadata()?;
    if found.is_file() && found.uid() != way::own_user() {
        let why = format!("it belongs to UID {}; remove it, or run this as that user", found.uid());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    if found.nlink() > 1 {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it has another name as well; name a new file"));
    }
    Ok(file)
}

/// Whether the name still leads to this file.
fn is_named(file: &File, path: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (own.dev(), own.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn bad(path: &Path, why: String) -> Unusable {
    Unusable { path: path.to_owned(), why }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    use surefoot_model::{Actor, DeedAction, DeedOutcome, DeedReason, DeedTarget, Room, Subject, SubjectKind};

    fn deed(at_realtime_ns: u64) -> Deed {
        Deed {
            at_realtime_ns,
            begun_realtime_ns: at_realtime_ns,
            room: Room::Nic,
            subject: Subject::new(SubjectKind::Interface, "eth0"),
            actor: Actor::Command { uid: 0 },
            action: DeedAction::LinkCycle,
            target: DeedTarget::Subject,
            reason: DeedReason::Seen { evidence: vec!["its send queue is stuck".into()] },
            outcome: DeedOutcome::Begun,
        }
    }

    fn host(home: &tempfile::TempDir) -> Record {
        Record::OfHost(home.path().to_owned())
    }

    fn times(read: &Read) -> Vec<u64> {
        read.deeds.iter().map(|deed| deed.at_realtime_ns).collect()
    }

    #[test]
    fn what_was_written_is_read_in_the_next_run_and_torn_lines_take_no_other_with_them() {
        let home = tempfile::tempdir().unwrap();
        assert!(host(&home).look().unwrap().deeds.is_empty());
        host(&home).append(&deed(1)).unwrap();
        let path = below(home.path(), FILE);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"at_realtime_ns\":2,").unwrap();
        host(&home).append(&deed(3)).unwrap();
        let read = host(&home).look().unwrap();
        assert_eq!((times(&read), read.skipped_count), (vec![1, 3], 1));
        assert_eq!(read.deeds[0], deed(1));
        // The torn line stands before that of 3.
        assert_eq!([2, 3, 4].map(|since| read.unread_since(since)), [1, 1, 0]);
    }

    #[test]
    fn a_full_journal_becomes_the_older_one_and_both_are_read() {
        let home = tempfile::tempdir().unwrap();
        host(&home).append(&deed(1)).unwrap();
        let path = below(home.path(), FILE);
        // A hole in front of the newest line takes no room on the disk.
        let line = fs::read(&path).unwrap();
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[b"\n", &line[..]].concat(), LIMITS.file_bytes).unwrap();
        host(&home).append(&deed(2)).unwrap();
        assert_eq!(fs::metadata(below(home.path(), OLDER)).unwrap().len(), LIMITS.file_bytes + 1 + line.len() as u64);
        assert_eq!(times(&host(&home).open().unwrap().read), [1, 2]);
        assert_eq!(times(&host(&home).look().unwrap()), [1, 2]);
    }

    #[test]
    fn one_that_waits_while_the_journal_is_rotated_writes_to_the_new_one() {
        let home = tempfile::tempdir().unwrap();
        let first = host(&home).open().unwrap();
        let record = host(&home);
        let (sender, begun) = std::sync::mpsc::channel();
        let second = std::thread::spawn(move || {
            sender.send(()).unwrap();
            record.append(&deed(2))
        });
        begun.recv().unwrap();
        std::thread::sleep(Duration::from_millis(200));
        fs::rename(below(home.path(), FILE), below(home.path(), OLDER)).unwrap();
        drop(first);
        second.join().unwrap().unwrap();
        assert_eq!(times(&look(&below(home.path(), FILE)).unwrap()), [2]);
    }

    #[test]
    fn steps_of_earlier_releases_are_read_as_deeds() {
        let home = tempfile::tempdir().unwrap();
        host(&home).append(&deed(9)).unwrap();
        let step = |at: u64, kind: &str, target: &str, outcome: &str, detail: &str| {
            format!(
                "{{\"at_realtime_ns\":{at},\"interface\":\"eth0\",\"kind\":\"{kind}\",\"target\":\"{target}\",\
                 \"reason\":\"a; b\",\"outcome\":\"{outcome}\",\"detail\":\"{detail}\"}}\n"
            )
        };
        let text = [
            step(1, "reporter_recover", "pci/0 tx", "failed", "no"),
            step(2, "link_cycle", "eth0", "begun", ""),
            step(2, "link_cycle", "eth0", "planets", ""),
            step(3, "function_reset", "pci/0", "withheld", "in use"),
        ];
        fs::write(below(home.path(), before::FILE), text.concat()).unwrap();
        let read = host(&home).look().unwrap();
        assert_eq!((times(&read), read.skipped_count), (vec![1, 2, 3, 9], 1));
        assert_eq!(read.deeds[0].outcome, DeedOutcome::Failed { error: "no".into() });
        assert_eq!(read.deeds[0].target, DeedTarget::Part { name: "pci/0 tx".into() });
        assert_eq!((&read.deeds[1].target, &read.deeds[1].outcome), (&DeedTarget::Subject, &DeedOutcome::Begun));
        assert_eq!(read.deeds[2].outcome.detail(), "in use");
    }

    #[test]
    fn a_journal_that_is_no_file_or_that_others_may_write_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let said = |error: Unusable| error.to_string();
        assert!(Record::File(home.path().to_owned()).append(&deed(1)).is_err(), "a folder");
        host(&home).append(&deed(1)).unwrap();
        let path = below(home.path(), FILE);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(said(host(&home).append(&deed(2)).unwrap_err()).contains("other users may write"));
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        assert!(host(&home).append(&deed(2)).is_err(), "no link is followed");
        fs::remove_file(&path).unwrap();
        fs::write(home.path().join("precious"), "").unwrap();
        fs::hard_link(home.path().join("precious"), &path).unwrap();
        assert!(said(host(&home).append(&deed(2)).unwrap_err()).contains("another name"));
        fs::remove_file(&path).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        assert!(said(host(&home).append(&deed(2)).unwrap_err()).contains("not a regular file"));
        assert!(said(host(&home).look().unwrap_err()).contains("not a regular file"));
    }

    #[test]
    fn another_process_that_holds_the_journal_is_waited_for_and_then_told() {
        let home = tempfile::tempdir().unwrap();
        let first = host(&home).open().unwrap();
        let other = Record::File(first.path().to_owned());
        let refused = other.open_within(Duration::from_millis(50)).unwrap_err().to_string();
        assert!(refused.ends_with("another surefoot process holds the journal"), "{refused}");
    }
}
