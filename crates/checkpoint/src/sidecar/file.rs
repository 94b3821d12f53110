//! Files on this machine: which may be protected, who is at work on them, and what belongs to them beside their bytes.

use super::Progress;
use super::label::{Label, sidecar_bytes};
use super::protect::{changed, protect_in, with_end};
use super::repair::{Findings, Repaired, check_in, repair_in};
use crate::{Disk, Error};
use std::fs::{self, File, FileTimes, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What a sidecar's name ends with.
const END: &str = ".surefoot";

/// What protecting a file did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protected {
    /// It wrote a sidecar.
    New {
        /// Bytes of the file.
        file_bytes: u64,
        /// Bytes of the sidecar.
        sidecar_bytes: u64,
    },
    /// There is one for this file, which was not written to since.
    Before {
        /// Bytes of the file.
        file_bytes: u64,
    },
}

/// The sidecar's path.
pub fn sidecar_path(path: &Path) -> PathBuf {
    with_end(path, END)
}

/// Protects a file: writes its sidecar, durably. One that is there is replaced if the file was written to since, or if
/// `force` says so; then damage that came in between is taken for content.
///
/// Memory is bounded by a thousandth of the file's length and 2 MiB.
///
/// # Errors
/// [`Error::Storage`] when the file is no regular file, cannot be read, or there is no room; [`Error::Damaged`] when it
/// changes meanwhile, or when what has the sidecar's name is none.
pub fn protect(path: &Path, force: bool, progress: Progress<'_>) -> Result<Protected, Error> {
    let before = Stamp::of(path)?;
    if path.as_os_str().as_encoded_bytes().ends_with(END.as_bytes()) {
        return Err(refusal("protect", path, "it is a sidecar itself"));
    }
    let beside = sidecar_path(path);
    let _turn = Turn::take(path)?;
    if !force && fs::symlink_metadata(&beside).is_ok() {
        match Label::read_at(&Disk, &beside) {
            Ok((label, _)) if label.file_bytes == before.bytes && label.modified_realtime_ns == before.modified_ns => {
                return Ok(Protected::Before { file_bytes: before.bytes });
            }
            Ok((label, _)) if label.modified_realtime_ns == before.modified_ns => {
                let why = format!(
                    "it has {} bytes instead of {}, though it was not written to since: repair brings it back, --force \
                     protects it as it is",
                    before.bytes, label.file_bytes
                );
                return Err(Error::Damaged { path: path.to_owned(), why });
            }
            Ok(_) => {}
            Err(error) => {
                let why = format!("what has the sidecar's name cannot be read as one: {error}; --force replaces it");
                return Err(Error::Damaged { path: path.to_owned(), why });
            }
        }
    }
    let unchanged = |_: &Label| match Stamp::of(path)? == before {
        true => Ok(()),
        false => Err(changed(path)),
    };
    let dress = |new: &Path| fs::set_permissions(new, before.permissions_of_sidecar());
    let label = protect_in(&Disk, path, before.modified_ns, &unchanged, &dress, progress)?;
    Ok(Protected::New { file_bytes: label.file_bytes, sidecar_bytes: sidecar_bytes(label.file_bytes)? })
}

/// Reads a file and its sidecar and says what is bad; changes nothing.
///
/// # Errors
/// [`Error::Storage`] when one is not there or cannot be opened, [`Error::Damaged`] when nothing can be proved with the
/// sidecar.
pub fn check(path: &Path, progress: Progress<'_>) -> Result<Findings, Error> {
    let stamp = Stamp::of(path)?;
    check_in(&Disk, path, stamp.modified_ns, progress).map(|(findings, _)| findings)
}

/// Repairs a file and its sidecar. The repaired file gets the old one's permissions and, where they can be given, its
/// owner, and the time at which it was last written to when it was protected. It is a new file: other hard links, access
/// lists and extended attributes stay with the damaged one.
///
/// `force` brings back what was protected even where the file was written to since.
///
/// # Errors
/// As [`check`], and [`Error::Storage`] when there is no room for the repaired file.
pub fn repair(path: &Path, force: bool, progress: Progress<'_>) -> Result<Repaired, Error> {
    let before = Stamp::of(path)?;
    let _turn = Turn::take(path)?;
    let file = |new: &Path, label: &Label| before.dress(new, label);
    let sidecar = |new: &Path, _: &Label| fs::set_permissions(new, before.permissions_of_sidecar());
    repair_in(&Disk, path, before.modified_ns, force, [&file, &sidecar], progress)
}

fn refusal(action: &'static str, path: &Path, why: &str) -> Error {
    Error::storage(action, path)(io::Error::new(io::ErrorKind::InvalidInput, why))
}

/// What tells that a file is still the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    number: u64,
    bytes: u64,
    modified_ns: i64,
    changed_ns: i64,
    mode: u32,
    owner: (u32, u32),
}

impl Stamp {
    fn of(path: &Path) -> Result<Self, Error> {
        let found = fs::symlink_metadata(path).map_err(Error::storage("open", path))?;
        if found.is_symlink() {
            return Err(refusal("use", path, "it is a symbolic link; name the file that it leads to"));
        }
        if !found.is_file() {
            return Err(refusal("use", path, "it is no regular file"));
        }
        let ns = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        Ok(Stamp {
            device: found.dev(),
            number: found.ino(),
            bytes: found.len(),
            modified_ns: ns(found.mtime(), found.mtime_nsec()),
            changed_ns: ns(found.ctime(), found.ctime_nsec()),
            mode: found.mode() & 0o7777,
            owner: (found.uid(), found.gid()),
        })
    }

    /// Whoever may read the file may read its parity, which tells no more.
    fn permissions_of_sidecar(&self) -> Permissions {
        Permissions::from_mode(self.mode & 0o666 | 0o600)
    }

    fn dress(&self, new: &Path, label: &Label) -> io::Result<()> {
        // Only root may give files away; another user's repaired file is then the user's who repaired it, and private.
        let is_given = std::os::unix::fs::chown(new, Some(self.owner.0), Some(self.owner.1)).is_ok();
        fs::set_permissions(new, Permissions::from_mode(if is_given { self.mode } else { self.mode & 0o700 }))?;
        let nanoseconds = Duration::from_nanos(label.modified_realtime_ns.unsigned_abs());
        let modified = match label.modified_realtime_ns >= 0 {
            true => UNIX_EPOCH.checked_add(nanoseconds),
            false => UNIX_EPOCH.checked_sub(nanoseconds),
        };
        let times = FileTimes::new().set_modified(modified.unwrap_or_else(SystemTime::now));
        File::open(new)?.set_times(times)
    }
}

/// The right to write beside a file, until it is dropped.
struct Turn {
    path: PathBuf,
    _file: File,
}

impl Turn {
    fn take(path: &Path) -> Result<Self, Error> {
        const TRIES: usize = 10;
        let path = with_end(path, ".surefoot.lock");
        let busy = || refusal("take", &path, "another run is at work on this file");
        for _ in 0..TRIES {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(0o600);
            let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK).open(&path);
            let file = file.map_err(Error::storage("create", &path))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(fs::TryLockError::WouldBlock) => return Err(busy()),
                Err(fs::TryLockError::Error(error)) => return Err(Error::storage("take", &path)(error)),
            }
            // Whoever had it before removed it when done: then this is the lock of nothing.
            let own = file.metadata().map_err(Error::storage("look at", &path))?;
            let is_same =
                fs::symlink_metadata(&path).is_ok_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino()));
            if is_same {
                return Ok(Turn { path, _file: file });
            }
        }
        Err(busy())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
