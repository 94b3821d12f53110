//! The journal of deeds: what Surefoot did to a machine, one line before an action and one after it.
//!
//! A host has one, [`FILE`], to which every command, agent and controller appends; a full one becomes [`OLDER`]. A command may
//! be told to use another file instead, which is never renamed.

mod before;
mod file;
mod locked;
mod read;
#[cfg(test)]
mod tests;

pub use file::{below, expect_trusted};
pub use read::{Read, find, look, parse};

use crate::{Limits, NotLocked, Writer};
use file::{bad, is_named, make_folder, open};
use locked::Journal;
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use surefoot_foreign::way;
use surefoot_model::Deed;

/// The host's journal.
pub const FILE: &str = "/var/lib/surefoot/deeds.jsonl";
/// The one before it.
pub const OLDER: &str = "/var/lib/surefoot/deeds.1.jsonl";

/// The longest line and file. A host's journal is rotated at this length; another file has to be moved away.
pub const LIMITS: Limits = Limits { line_bytes: Deed::LINE_BYTES_MAX, file_bytes: 16 << 20 };
/// How often to read a journal that is rotated meanwhile.
const LOOKS_MAX: usize = 4;
/// Pause before another try while another process rotates the journal.
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

/// Where deeds are recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// The journal of the host below this root (`/` but in tests).
    OfHost(PathBuf),
    /// This file.
    File(PathBuf),
}

impl Record {
    /// Appends one deed, which is on the disk when this returns. A missing journal is created, for its owner alone.
    ///
    /// # Errors
    /// [`Unusable`] when the journal cannot be written, is not a regular file of this user's, is in a directory where other users may
    /// make files, is full, or stays locked by another process.
    pub fn append(&self, deed: &Deed) -> Result<(), Unusable> {
        self.locked(PATIENCE)?.write(deed)
    }

    /// Reads the journal, lets `decide` choose what to do, and appends that. No other process appends in between, so each of two
    /// processes that decide at the same time sees the decision of the other.
    ///
    /// # Errors
    /// Those of [`Record::append`], and when the journal cannot be read. What could not be appended must not be done.
    pub fn decide(&self, decide: impl FnOnce(&Read) -> Option<Deed>) -> Result<Option<Deed>, Unusable> {
        let mut journal = self.locked(PATIENCE)?;
        let mut read = self.earlier(&look)?;
        read.append(journal.read()?);
        let decided = decide(&read);
        if let Some(deed) = &decided {
            journal.write(deed)?;
        }
        Ok(decided)
    }

    /// Takes the lock for actions that must not run twice at the same time, until the result is dropped. Other processes can still use
    /// the journal meanwhile.
    ///
    /// # Errors
    /// [`Unusable`] when another process keeps the lock, or its file cannot be created.
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

    /// Reads the journal without locking it; empty if there is none.
    ///
    /// # Errors
    /// [`Unusable`] when it exists and cannot be read.
    pub fn look(&self) -> Result<Read, Unusable> {
        self.look_while(|| {})
    }

    /// Reads all of the journal and of the older ones, however old, without locking them, and gives the deeds that `is_wanted` picks. A
    /// file that others could have written is refused.
    ///
    /// # Errors
    /// [`Unusable`] when a file exists and cannot be read, or is not trusted.
    pub fn find(&self, is_wanted: impl Fn(&Deed) -> bool) -> Result<Read, Unusable> {
        self.steady(&|path| find(path, &is_wanted), || {})
    }

    /// As [`Record::look`]; `between` runs after the older journals were read and before the current one is.
    fn look_while(&self, between: impl Fn()) -> Result<Read, Unusable> {
        self.steady(&look, between)
    }

    fn steady(&self, look: &dyn Fn(&Path) -> Result<Read, Unusable>, between: impl Fn()) -> Result<Read, Unusable> {
        let path = self.path();
        let named = || match fs::symlink_metadata(&path) {
            Ok(found) => Ok(Some((found.dev(), found.ino()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(bad(&path, format!("the journal cannot be read: {error}"))),
        };
        // A journal that is rotated between the two reads would be in neither.
        for _ in 0..LOOKS_MAX {
            let before = named()?;
            let mut read = self.earlier(look)?;
            between();
            read.append(look(&path)?);
            if named()? == before {
                return Ok(read);
            }
        }
        Err(bad(&path, "the journal was rotated each time that it was read; try again".to_owned()))
    }

    /// The deeds in the host's older journals.
    fn earlier(&self, look: &dyn Fn(&Path) -> Result<Read, Unusable>) -> Result<Read, Unusable> {
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

    /// Syncs the directories that lead to the journal, as far as this created them.
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
        // A file that was named on the command line may be in a directory such as /tmp, where users can replace only their own files.
        let others = match self {
            Record::OfHost(_) => way::others_in(folder),
            Record::File(_) => way::others_replace_in(folder),
        };
        if let Some(who) = others.map_err(cannot)? {
            return Err(bad(path, format!("{who}, and could take the journal away or put another in its place")));
        }
        open(path).map_err(cannot)
    }

    /// Whether another process has renamed the full journal and not yet locked the new one. Until then it holds the lock of the older one.
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
            // The process that has just rotated it decided by the full one, and must append first.
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

/// The lock of [`Record::alone`].
#[derive(Debug)]
pub struct Alone {
    _writer: Writer,
}
