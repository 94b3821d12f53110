//! The journal of deeds: what Surefoot did to a machine, one line before an action and one after it.
//!
//! A host has one, [`FILE`], to which every command, agent and controller appends; a full one becomes [`OLDER`]. A command may
//! be told to use another file instead, which is never renamed.

mod before;

use crate::{Limits, NotLocked, NotWritten, Writer, newest};
use std::fmt;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use surefoot_foreign::way;
use surefoot_model::Deed;

/// The host's journal.
pub const FILE: &str = "/var/lib/surefoot/deeds.jsonl";
/// The one before it.
pub const OLDER: &str = "/var/lib/surefoot/deeds.1.jsonl";

/// How long a line and a file may be. A host's journal that is as long becomes the older one; another file has to be moved away.
pub const LIMITS: Limits = Limits { line_bytes: Deed::LINE_BYTES_MAX, file_bytes: 16 << 20 };
/// How much of the end of a journal is read, unless it does not reach back far enough.
const READ_BYTES: u64 = 1 << 20;
/// How far back is far enough: limits count the steps of an hour.
const BACK_NS: u64 = 2 * 3_600_000_000_000;

/// How often a journal is read that is rotated meanwhile.
const LOOKS_MAX: usize = 4;
/// Pause before the journal is tried again that another process is rotating.
const ROTATION_PAUSE: Duration = Duration::from_millis(20);

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
    /// The deeds.
    pub deeds: Vec<Deed>,
    /// Lines that could not be read. Each may be a deed that limits do not count.
    pub skipped_count: u64,
    /// Of those, the ones whose place is known: each as the number of deeds before it.
    places: Vec<usize>,
}

/// Times before this are of a clock that was not set: nothing was recorded before there was a journal.
const CLOCK_IS_SET_NS: u64 = 1_750_000_000_000_000_000;

impl Read {
    fn append(&mut self, newer: Read) {
        let before = self.deeds.len();
        self.places.extend(newer.places.iter().map(|place| before + place));
        self.deeds.extend(newer.deeds);
        self.skipped_count += newer.skipped_count;
    }

    /// Lines that could not be read and may have been written since this time. Lines are appended one after the other, so one before a
    /// deed that is older than that is older too: unless the clock was set back in between.
    pub fn unread_since(&self, since_realtime_ns: u64) -> u64 {
        let now_ns = clock_ns();
        let is_older = |place: &&usize| {
            // One from a time to come says nothing of when it was written.
            let before = self.deeds.iter().take(**place).map(|deed| deed.at_realtime_ns);
            let latest_before = before.filter(|at_ns| *at_ns <= now_ns).max();
            let floor = latest_before.unwrap_or(0).max(CLOCK_IS_SET_NS);
            let after = self.deeds.iter().skip(**place).map(|deed| deed.at_realtime_ns);
            after.into_iter().any(|at_ns| (floor..since_realtime_ns).contains(&at_ns))
        };
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
    /// Appends one deed; it is on the disk when this returns. A journal that it does not find it makes, for its owner alone.
    ///
    /// # Errors
    /// [`Unusable`] when the journal cannot be written, is not a regular file of this user's, is in a directory where other users may
    /// make files, is full, or stays locked by another process.
    pub fn append(&self, deed: &Deed) -> Result<(), Unusable> {
        self.locked(PATIENCE)?.write(deed)
    }

    /// Reads the journal, has it decided what is to be done, and appends that. No other process appends in between, so that what two
    /// decide at once counts for both.
    ///
    /// # Errors
    /// As of [`Record::append`], and when the journal cannot be read. What could not be appended is not to be done.
    pub fn decide(&self, decide: impl FnOnce(&Read) -> Option<Deed>) -> Result<Option<Deed>, Unusable> {
        let mut journal = self.locked(PATIENCE)?;
        let mut read = self.earlier()?;
        read.append(journal.read()?);
        let decided = decide(&read);
        if let Some(deed) = &decided {
            journal.write(deed)?;
        }
        Ok(decided)
    }

    /// Waits until no other process does what must not be done twice at a time; that lasts until the result is dropped. The
    /// journal itself is free meanwhile.
    ///
    /// # Errors
    /// [`Unusable`] when another one does not end, or the file for it cannot be made.
    pub fn alone(&self) -> Result<Alone, Unusable> {
        self.alone_within(PATIENCE)
    }

    fn alone_within(&self, patience: Duration) -> Result<Alone, Unusable> {
        let mut path = self.path().into_os_string();
        path.push(".lock");
        let path = PathBuf::from(path);
        let file = self.opened(&path)?;
        let limits = Limits { line_bytes: 0, file_bytes: 0 };
        let system = |error: io::Error| bad(&path, format!("cannot be used as a lock: {error}"));
        let mut writer = Writer::reopen(&file, limits).map_err(system)?;
        match writer.lock(patience) {
            Ok(()) => Ok(Alone { _writer: writer }),
            Err(NotLocked::Held) => {
                let why = format!("another surefoot process has held it for over {} s", patience.as_secs());
                Err(bad(&path, why))
            }
            Err(NotLocked::System(error)) => Err(system(error)),
        }
    }

    /// What is recorded, without a lock; nothing where there is no such file.
    ///
    /// # Errors
    /// [`Unusable`] when it exists and cannot be read.
    pub fn look(&self) -> Result<Read, Unusable> {
        self.look_while(|| {})
    }

    /// As [`Record::look`]; `between` runs after the older journals were read and before the present one is.
    fn look_while(&self, between: impl Fn()) -> Result<Read, Unusable> {
        let path = self.path();
        let named = || match fs::symlink_metadata(&path) {
            Ok(found) => Ok(Some((found.dev(), found.ino()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(bad(&path, format!("the journal cannot be read: {error}"))),
        };
        // A journal that is rotated between the two is in neither.
        for _ in 0..LOOKS_MAX {
            let before = named()?;
            let mut read = self.earlier()?;
            between();
            read.append(look(&path)?);
            if named()? == before {
                return Ok(read);
            }
        }
        Err(bad(&path, "the journal was rotated each time that it was read; try again".to_owned()))
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

    /// Waits until the names are on the medium that lead to the journal, as far as this made them.
    fn sync_names(&self) -> io::Result<()> {
        let path = self.path();
        let made = match self {
            Record::OfHost(root) => path.ancestors().skip(1).take_while(|folder| folder.starts_with(root)).count(),
            Record::File(_) => 1,
        };
        let absolute = std::path::absolute(&path)?;
        absolute.ancestors().skip(1).take(made).try_for_each(|folder| way::sync(&way::directory(folder)?))
    }

    fn opened(&self, path: &Path) -> Result<File, Unusable> {
        let cannot = |error: io::Error| bad(path, format!("cannot be written: {error}"));
        if let Record::OfHost(_) = self {
            make_folder(path).map_err(cannot)?;
        }
        let folder = path.parent().unwrap_or(Path::new("/"));
        // A file that a command named may lie in a directory such as /tmp, in which others replace only what is theirs.
        let others = match self {
            Record::OfHost(_) => way::others_in(folder),
            Record::File(_) => way::others_replace_in(folder),
        };
        if let Some(who) = others.map_err(cannot)? {
            return Err(bad(path, format!("{who}, and could take the journal away or put another in its place")));
        }
        open(path).map_err(cannot)
    }

    /// Whether another process has renamed the full journal and not yet locked the new one: it holds the older one's lock until then.
    fn is_being_rotated(&self) -> bool {
        let Record::OfHost(root) = self else { return false };
        let older = surefoot_foreign::hold_name(&below(root, OLDER)).and_then(|held| held.regular()?.open());
        older.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    fn locked(&self, patience: Duration) -> Result<Journal<'_>, Unusable> {
        let (path, until) = (self.path(), Instant::now() + patience);
        loop {
            let opened = self.opened(&path)?;
            let journal = Journal::locked(self, &opened, path.clone(), patience)?;
            // Who has just rotated it has decided by the full one, and is to append first.
            if self.is_being_rotated() {
                drop(journal);
                if Instant::now() >= until {
                    return Err(bad(&path, "another surefoot process does not end rotating the journal".to_owned()));
                }
                std::thread::sleep(ROTATION_PAUSE);
                continue;
            }
            // Another process may have rotated it while this one waited for the lock.
            let is_named = is_named(&opened, &path);
            match is_named.map_err(|error| bad(&path, format!("cannot be written: {error}")))? {
                true => return Ok(journal),
                false if matches!(self, Record::File(_)) => {
                    return Err(bad(&path, "the journal was moved away while it was locked".to_owned()));
                }
                false => {}
            }
        }
    }
}

/// That no other process does the same, see [`Record::alone`].
#[derive(Debug)]
pub struct Alone {
    _writer: Writer,
}

/// A journal, locked for this process until it is dropped.
struct Journal<'a> {
    of: &'a Record,
    writer: Writer,
    path: PathBuf,
}

impl<'a> Journal<'a> {
    fn locked(of: &'a Record, opened: &File, path: PathBuf, patience: Duration) -> Result<Journal<'a>, Unusable> {
        let system = |what: &str, error: io::Error| bad(&path, format!("the journal cannot be {what}: {error}"));
        let found = opened.metadata().map_err(|error| system("read", error))?;
        if !found.is_file() {
            return Err(bad(&path, "the journal is not a regular file".to_owned()));
        }
        // Who can write to it can invent deeds, or remove those that the limits count.
        if found.mode() & way::OTHERS_WRITE != 0 {
            let mode = found.mode() & 0o777;
            let why = format!(
                "other users may write to the journal (mode {mode:o}); run `chmod go-w` on it, or name a new one"
            );
            return Err(bad(&path, why));
        }
        // Who can open it can lock it, and so keep everything from being done.
        if found.mode() & 0o044 != 0 && matches!(of, Record::OfHost(_)) {
            opened
                .set_permissions(fs::Permissions::from_mode(0o600))
                .map_err(|error| system("closed to others", error))?;
        }
        let mut writer = Writer::reopen(opened, LIMITS).map_err(|error| system("written", error))?;
        writer.lock(patience).map_err(|why| match why {
            NotLocked::Held => bad(&path, "another surefoot process holds the journal".to_owned()),
            NotLocked::System(error) => system("locked", error),
        })?;
        if writer.bytes() == 0 {
            // Before the first line, whoever made the file: its maker may have ended before it came to this.
            of.sync_names().map_err(|error| system("written", error))?;
        }
        Ok(Journal { of, writer, path })
    }

    /// All that it says. Under the lock nobody is still writing the last line: without its end it is one that cannot be read.
    fn read(&self) -> Result<Read, Unusable> {
        let mut found = read(self.writer.file())
            .map_err(|error| bad(&self.path, format!("the journal cannot be read: {error}")))?;
        if self.writer.is_torn() {
            found.skipped_count += 1;
            found.places.push(found.deeds.len());
        }
        Ok(found)
    }

    fn write(&mut self, deed: &Deed) -> Result<(), Unusable> {
        let mut written = self.writer.append(deed);
        if let (Err(NotWritten::Full), Record::OfHost(root)) = (&written, self.of) {
            self.rotate(root)?;
            written = self.writer.append(deed);
        }
        let written = written.and_then(|()| Ok(self.writer.sync()?));
        written.map_err(|error| {
            let remedy = if matches!(error, NotWritten::Full) { "; move it away first" } else { "" };
            bad(&self.path, format!("a deed on {} is not recorded: {error}{remedy}", deed.subject))
        })
    }

    /// The full journal becomes the older one. It stays locked until the new one is, which others wait for then.
    fn rotate(&mut self, root: &Path) -> Result<(), Unusable> {
        let cannot = |error: io::Error| bad(&self.path, format!("the full journal cannot be rotated: {error}"));
        fs::rename(&self.path, below(root, OLDER)).map_err(cannot)?;
        let opened = self.of.opened(&self.path)?;
        *self = Journal::locked(self.of, &opened, self.path.clone(), PATIENCE)?;
        Ok(())
    }
}

/// What one file says.
///
/// # Errors
/// As of [`Record::look`].
pub fn look(path: &Path) -> Result<Read, Unusable> {
    let found = surefoot_foreign::hold_name(path).and_then(|held| held.regular()?.open()).and_then(|file| {
        expect_own(&file.metadata()?)?;
        read(&file)
    });
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

/// Reads the end of a journal: as much of it as reaches back [`BACK_NS`].
fn read(file: &File) -> io::Result<Read> {
    let (read, is_enough) = read_end(file, READ_BYTES)?;
    if is_enough { Ok(read) } else { Ok(read_end(file, LIMITS.file_bytes)?.0) }
}

/// So much of the end of a journal, and whether that is all of it or reaches back far enough.
fn read_end(file: &File, file_bytes: u64) -> io::Result<(Read, bool)> {
    let (mut places, mut count) = (Vec::new(), 0);
    let found = newest(file, Limits { file_bytes, ..LIMITS }, |line| {
        let deed = parse(line);
        match deed {
            Some(_) => count += 1,
            None => places.push(count),
        }
        deed
    })?;
    let mut read = Read { deeds: found.lines, skipped_count: found.skipped_count, places };
    let far = CLOCK_IS_SET_NS..clock_ns().saturating_sub(BACK_NS);
    let is_enough = !found.is_cut || read.deeds.iter().any(|deed| far.contains(&deed.at_realtime_ns));
    if !is_enough {
        // What was not read is as good as one more line that could not be, before all others.
        read.skipped_count += 1;
        read.places.insert(0, 0);
    }
    Ok((read, is_enough))
}

fn clock_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
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
    if found.is_file() {
        expect_own(&found)?;
    }
    if found.nlink() > 1 {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it has another name as well; name a new file"));
    }
    Ok(file)
}

/// Refuses the file of another user, root's apart.
fn expect_own(found: &fs::Metadata) -> io::Result<()> {
    if [0, way::own_user()].contains(&found.uid()) {
        return Ok(());
    }
    let why = format!("it belongs to UID {}; remove it, or run this as that user", found.uid());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// Refuses a journal that others than its owner and root could have written: what it says would be believed.
///
/// # Errors
/// Why it is not to be believed.
pub fn expect_trusted(found: &fs::Metadata) -> io::Result<()> {
    let refused = |why: String| Err(io::Error::other(why));
    if let Err(error) = expect_own(found) {
        return refused(error.to_string());
    }
    if found.nlink() > 1 {
        return refused("it has another name as well; remove that".into());
    }
    if found.mode() & way::OTHERS_WRITE != 0 {
        return refused(format!("other users may write it (mode {:o}); make it 600", found.mode() & 0o777));
    }
    Ok(())
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
    use surefoot_testkit::durable::{calls_of, is_synced_after};

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
    #[ignore = "runs in a child process under strace"]
    fn child_records_two_deeds_and_begins_a_new_file() {
        let root = PathBuf::from(std::env::var_os("SUREFOOT_TEST_FOLDER").unwrap());
        let record = Record::OfHost(root.clone());
        record.append(&deed(1)).unwrap();
        record.append(&deed(2)).unwrap();
        let full = fs::OpenOptions::new().write(true).open(below(&root, FILE)).unwrap();
        full.set_len(LIMITS.file_bytes).unwrap();
        record.append(&deed(3)).unwrap();
    }

    #[test]
    fn a_new_journal_s_name_is_on_the_medium_before_its_first_line() {
        let test = "deeds::tests::a_new_journal_s_name_is_on_the_medium_before_its_first_line";
        let child = "deeds::tests::child_records_two_deeds_and_begins_a_new_file";
        let home = tempfile::tempdir().unwrap();
        let Some(calls) = calls_of(test, child, home.path()) else { return };
        let path = below(home.path(), FILE);
        let is_line = |call: &str| call.contains("write(") && call.contains(&format!("<{}>", path.display()));
        let lines: Vec<usize> = (0..calls.len()).filter(|&at| is_line(&calls[at])).collect();
        assert_eq!(lines.len(), 3, "{calls:#?}");
        let is_made = |call: &str| call.contains("openat(") && call.contains("O_CREAT") && call.contains("deeds.jsonl");
        for folder in path.ancestors().skip(1).take_while(|folder| folder.starts_with(home.path())) {
            assert!(is_synced_after(&calls[..lines[0]], is_made, folder), "{}: {calls:#?}", folder.display());
        }
        let is_renamed = |call: &str| call.contains("rename(");
        assert!(is_synced_after(&calls[..lines[2]], is_renamed, path.parent().unwrap()), "{calls:#?}");
        // A journal that has lines has its name.
        let between = &calls[lines[0]..lines[1]];
        assert!(!between.iter().any(|call| call.contains("fsync(")), "{between:#?}");
    }

    #[test]
    fn what_was_written_is_read_in_the_next_run_and_torn_lines_take_no_other_with_them() {
        let home = tempfile::tempdir().unwrap();
        assert!(host(&home).look().unwrap().deeds.is_empty());
        let at = |number| CLOCK_IS_SET_NS + number;
        host(&home).append(&deed(at(1))).unwrap();
        let path = below(home.path(), FILE);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"at_realtime_ns\":2,").unwrap();
        host(&home).append(&deed(at(3))).unwrap();
        let read = host(&home).look().unwrap();
        assert_eq!((times(&read), read.skipped_count), (vec![at(1), at(3)], 1));
        assert_eq!(read.deeds[0], deed(at(1)));
        // The torn line stands before that of 3.
        assert_eq!([2, 3, 4].map(|since| read.unread_since(at(since))), [1, 1, 0]);
    }

    /// As many lines of one deed as leave room for less than one more.
    fn full(at_realtime_ns: u64) -> Vec<u8> {
        let line = [&serde_json::to_vec(&deed(at_realtime_ns)).unwrap()[..], b"\n"].concat();
        line.repeat(usize::try_from(LIMITS.file_bytes).unwrap() / line.len())
    }

    fn put(path: &Path, bytes: &[u8]) {
        make_folder(path).unwrap();
        fs::write(path, bytes).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    #[test]
    fn a_full_journal_becomes_the_older_one_and_both_are_read() {
        let home = tempfile::tempdir().unwrap();
        let (path, bytes) = (below(home.path(), FILE), full(1));
        put(&path, &bytes);
        host(&home).append(&deed(2)).unwrap();
        assert_eq!(fs::read(below(home.path(), OLDER)).unwrap().len(), bytes.len());
        assert_eq!(times(&look(&path).unwrap()), [2]);
        host(&home).append(&deed(3)).unwrap();
        let found = times(&host(&home).look().unwrap());
        assert_eq!((found[0], &found[found.len() - 3..]), (1, &[1, 2, 3][..]));
        // A file that a command named is the user's: it is not renamed.
        let own = home.path().join("own");
        put(&own, &bytes);
        let refused = Record::File(own).append(&deed(2)).unwrap_err().to_string();
        assert!(refused.ends_with("the journal has reached its size limit; move it away first"), "{refused}");
    }

    #[test]
    fn a_decision_sees_every_deed_of_the_last_hour_however_long_those_after_it_are() {
        let home = tempfile::tempdir().unwrap();
        let now_ns = clock_ns();
        host(&home).append(&deed(now_ns - 20)).unwrap();
        for at in 1..=20 {
            let reason = DeedReason::Seen { evidence: vec!["x".repeat(60_000)] };
            host(&home).append(&Deed { reason, ..deed(now_ns - 20 + at) }).unwrap();
        }
        let decide = |read: &Read| {
            assert_eq!((read.deeds.len(), read.deeds[0].at_realtime_ns), (21, now_ns - 20));
            None
        };
        assert_eq!(host(&home).decide(decide).unwrap(), None);
    }

    #[test]
    fn what_lies_beyond_what_is_read_counts_as_unread() {
        let home = tempfile::tempdir().unwrap();
        let now_ns = clock_ns();
        let path = home.path().join("own");
        let bytes = full(now_ns);
        put(&path, &[&bytes[..], &bytes[..]].concat());
        assert_eq!(look(&path).unwrap().unread_since(now_ns - 1), 1);
        // Unless what was read reaches back further than is asked for.
        put(&path, &[full(now_ns - 2 * BACK_NS), bytes].concat());
        assert_eq!(look(&path).unwrap().unread_since(now_ns - BACK_NS / 2), 1);
        let old = full(now_ns - 2 * BACK_NS);
        put(&path, &[&old[..], &old[..]].concat());
        assert_eq!(look(&path).unwrap().unread_since(now_ns - BACK_NS / 2), 0);
    }

    #[test]
    fn a_clock_that_was_set_back_makes_no_unreadable_line_an_old_one() {
        let now_ns = clock_ns();
        let since_ns = now_ns - 3_600_000_000_000;
        let unread = |deeds: &[u64], place: usize| {
            let deeds = deeds.iter().map(|at| deed(*at)).collect();
            Read { deeds, skipped_count: 1, places: vec![place] }.unread_since(since_ns)
        };
        assert_eq!(unread(&[since_ns - 1, now_ns], 0), 0, "it stands before a deed of long ago");
        assert_eq!(unread(&[now_ns], 0), 1);
        assert_eq!(unread(&[1_000, now_ns], 0), 1, "a clock that was not set");
        assert_eq!(unread(&[now_ns - 2, since_ns - 1, now_ns], 1), 1, "a clock that went back");
        assert_eq!(unread(&[since_ns - 2, since_ns - 1, now_ns], 1), 0);
        let ahead_ns = now_ns + 10 * BACK_NS;
        assert_eq!(unread(&[ahead_ns, since_ns - 1, now_ns], 1), 0, "a clock that was ahead once ages it all the same");
    }

    #[test]
    fn a_line_without_end_counts_as_unread_once_nobody_writes_it() {
        let home = tempfile::tempdir().unwrap();
        host(&home).append(&deed(1)).unwrap();
        fs::OpenOptions::new().append(true).open(below(home.path(), FILE)).unwrap().write_all(b"{\"at_").unwrap();
        assert_eq!(host(&home).look().unwrap().skipped_count, 0, "it may still be being written");
        let mut skipped = Vec::new();
        for at in 2..4 {
            let decide = |read: &Read| {
                skipped.push((read.skipped_count, read.unread_since(1)));
                Some(deed(at))
            };
            assert_eq!(host(&home).decide(decide).unwrap(), Some(deed(at)));
        }
        assert_eq!(skipped, [(1, 1), (1, 1)]);
    }

    #[test]
    fn who_may_only_read_the_hosts_journal_cannot_lock_it() {
        let home = tempfile::tempdir().unwrap();
        host(&home).append(&deed(1)).unwrap();
        let path = below(home.path(), FILE);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        host(&home).append(&deed(2)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_folder_where_others_may_make_files_is_refused() {
        let home = tempfile::tempdir().unwrap();
        host(&home).append(&deed(1)).unwrap();
        let folder = below(home.path(), FILE).parent().unwrap().to_owned();
        for mode in [0o777, 0o770, 0o1777] {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            let refused = host(&home).append(&deed(2)).unwrap_err().to_string();
            assert!(refused.contains("other users can create files in"), "{mode:o}: {refused}");
            let named = Record::File(folder.join(format!("named-{mode:o}"))).append(&deed(2));
            assert_eq!(named.is_ok(), mode == 0o1777, "{mode:o}: {named:?}");
        }
    }

    #[test]
    fn one_that_waits_while_the_journal_is_rotated_writes_to_the_new_one() {
        let home = tempfile::tempdir().unwrap();
        host(&home).append(&deed(1)).unwrap();
        let of = host(&home);
        let first = of.locked(PATIENCE).unwrap();
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
    fn a_journal_that_is_rotated_while_it_is_read_is_read_again() {
        let home = tempfile::tempdir().unwrap();
        host(&home).append(&deed(1)).unwrap();
        let rotations = std::cell::Cell::new(1);
        let rotate = || {
            if rotations.get() > 0 {
                rotations.set(rotations.get() - 1);
                fs::rename(below(home.path(), FILE), below(home.path(), OLDER)).unwrap();
                host(&home).append(&deed(2)).unwrap();
            }
        };
        assert_eq!(times(&host(&home).look_while(rotate).unwrap()), [1, 2]);
        rotations.set(usize::MAX);
        let refused = host(&home).look_while(rotate).unwrap_err().to_string();
        assert!(refused.contains("rotated each time"), "{refused}");
    }

    /// Both would decide by what the other does not know: two steps where the limit is one.
    #[test]
    fn nobody_decides_between_another_s_decision_and_its_line_in_a_new_journal() {
        let home = tempfile::tempdir().unwrap();
        put(&below(home.path(), FILE), &full(1));
        let (first, mut rotating) = (host(&home), None);
        // The first has decided, and renamed the full journal; it does not hold the new one yet.
        let journal = first.locked(PATIENCE).unwrap();
        fs::rename(below(home.path(), FILE), below(home.path(), OLDER)).unwrap();
        rotating.replace(journal);
        let second = host(&home);
        let decided = std::thread::spawn(move || {
            let mut seen = 0;
            let decide = |read: &Read| {
                seen = read.deeds.iter().filter(|deed| deed.at_realtime_ns == 2).count();
                None
            };
            second.decide(decide).unwrap();
            seen
        });
        std::thread::sleep(Duration::from_millis(300));
        let mut journal = rotating.take().unwrap();
        let opened = first.opened(&journal.path).unwrap();
        journal = Journal::locked(&first, &opened, journal.path.clone(), PATIENCE).unwrap();
        journal.write(&deed(2)).unwrap();
        drop(journal);
        assert_eq!(decided.join().unwrap(), 1, "it waits for the line of the first");
    }

    #[test]
    fn the_journal_is_free_while_somebody_acts_alone() {
        let home = tempfile::tempdir().unwrap();
        let first = host(&home).alone().unwrap();
        host(&home).append(&deed(1)).unwrap();
        let refused = host(&home).alone_within(Duration::from_millis(50)).unwrap_err().to_string();
        assert!(refused.contains("another surefoot process has held it"), "{refused}");
        drop(first);
        host(&home).alone().unwrap();
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
        host(&home).append(&deed(1)).unwrap();
        let of = host(&home);
        let _first = of.locked(PATIENCE).unwrap();
        let other = Record::File(of.path());
        let refused = other.locked(Duration::from_millis(50)).map(drop).unwrap_err().to_string();
        assert!(refused.ends_with("another surefoot process holds the journal"), "{refused}");
    }
}
