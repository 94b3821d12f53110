//! One writer per history, kept by a lock that dies with its holder.

use crate::{Error, Result};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surefoot_model::Digits;

/// How often, and how far apart, a lock that is taken is tried again.
const LOCK_TRIES: usize = 10;
const LOCK_WAIT: Duration = Duration::from_millis(20);

/// An exclusive `flock` on `FILE.lock`, which holds the number of the process that has it.
///
/// A side file, because SQLite's own locks on the database come and go with each transaction. The file stays behind
/// when the history is closed: removing it could take it from under a process that has just opened it. It is empty
/// then; a number in it that nobody holds tells that its process died.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

/// How the history was left by whoever had it last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeftBehind {
    /// Closed in order, or never open.
    InOrder,
    /// Its process died, or found it damaged.
    InDoubt,
}

/// Who writes a history of this user's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writer {
    /// A process that has it open now.
    AtWork,
    /// A process that had it open.
    Gone,
    /// Nobody here had it ever, as far as can be told: it may have come from anywhere.
    Unknown,
}

impl Writer {
    /// Of a history in a directory in which nobody else can put files.
    pub(super) fn of(history: &Path) -> std::io::Result<Writer> {
        let path = side_file(history);
        let found = match surefoot_foreign::hold(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Writer::Unknown),
            found => found?.regular()?,
        };
        // Let go at once: a writer that starts meanwhile tries again.
        match found.open()?.try_lock_shared() {
            Ok(()) => Ok(Writer::Gone),
            Err(TryLockError::WouldBlock) => Ok(Writer::AtWork),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl Lock {
    pub(super) fn take(history: &Path) -> Result<(Lock, LeftBehind)> {
        let path = side_file(history);
        let open_error = |source| Error::Open { path: path.clone(), source };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW)
            .open(&path)
            .map_err(open_error)?;
        if let Some(what) = crate::file_kind::not_regular(&file.metadata().map_err(open_error)?) {
            return Err(Error::NotAFile { path: path.clone(), what });
        }
        match lock_soon(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::InUse { path: history.to_path_buf(), pid: read_pid(&mut file) });
            }
            Err(TryLockError::Error(source)) => {
                return Err(Error::Unsupported {
                    path: history.to_path_buf(),
                    why: format!("its file system has no locks: {source}"),
                });
            }
        }
        let empty = file.metadata().map_err(open_error)?.len() == 0;
        // The number makes the message of others clearer; a disk too full for it must not stop us.
        let _ = write_pid(&mut file);
        Ok((Lock { file }, if empty { LeftBehind::InOrder } else { LeftBehind::InDoubt }))
    }

    /// Says that the history was closed in order.
    pub(super) fn leave_in_order(&mut self) {
        // Where this fails, the next to open it checks it once more than needed.
        let _ = self.file.set_len(0);
    }
}

/// Takes the lock, also from one that is about to let go: a process that is being started by its holder has the
/// descriptor, too, until it runs its own program.
fn lock_soon(file: &File) -> Result<(), TryLockError> {
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_WAIT),
            other => return other,
        }
    }
    file.try_lock()
}

/// The same side file whichever way the history is reached, by a symbolic link for instance.
fn side_file(history: &Path) -> PathBuf {
    let mut path = history.canonicalize().unwrap_or_else(|_| history.to_path_buf()).into_os_string();
    path.push(".lock");
    path.into()
}

fn write_pid(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().digits()
}
