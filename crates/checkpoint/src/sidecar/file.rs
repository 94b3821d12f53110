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
    refuse_directories_of_others(path)?;
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
    let dress = |new: &Path| open_own(new)?.set_permissions(before.permissions_of_sidecar());
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
    refuse_directories_of_others(path)?;
    let _turn = Turn::take(path)?;
    let file = |new: &Path, label: &Label| before.dress(new, label);
    let sidecar = |new: &Path, _: &Label| open_own(new)?.set_permissions(before.permissions_of_sidecar());
    repair_in(&Disk, path, before.modified_ns, force, [&file, &sidecar], progress)
}

fn refusal(action: &'static str, path: &Path, why: &str) -> Error {
    Error::storage(action, path)(io::Error::new(io::ErrorKind::InvalidInput, why))
}

/// The new file that this process has made beside the old one. What belongs to it beside its bytes is changed by its
/// descriptor, because its name may lead elsewhere by now.
fn open_own(new: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(new)?;
    let found = file.metadata()?;
    match found.is_file() && found.nlink() == 1 && found.uid() == effective_user() {
        true => Ok(file),
        false => Err(io::Error::other("somebody has put another file in the place of the new one")),
    }
}

fn effective_user() -> u32 {
    // SAFETY: the call takes nothing, touches no memory of ours and always succeeds.
    unsafe { libc::geteuid() }
}

/// Refuses as root to write where another user could put links and files in the way meanwhile: in a directory of
/// theirs, below one, or in one in which everybody may rename everything.
fn refuse_directories_of_others(path: &Path) -> Result<(), Error> {
    if effective_user() != 0 {
        return Ok(());
    }
    let absolute = fs::canonicalize(path).map_err(Error::storage("open", path))?;
    for directory in absolute.ancestors().skip(1) {
        let found = fs::metadata(directory).map_err(Error::storage("look at", directory))?;
        let (owner, mode) = (found.uid(), found.mode());
        if owner != 0 {
            let why = format!(
                "root does not write in {}, which belongs to the user with number {owner}; run this as that user: \
                 sudo -u '#{owner}' ...",
                directory.display()
            );
            return Err(refusal("use", path, &why));
        }
        if mode & 0o002 != 0 && mode & libc::S_ISVTX == 0 {
            let why = format!(
                "root does not write in {}, in which every user may replace files; take that right away: chmod o-w",
                directory.display()
            );
            return Err(refusal("use", path, &why));
        }
    }
    Ok(())
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
            return Err(refusal("use", path, "it is not a regular file"));
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
        let file = open_own(new)?;
        // Only root may give files away; another user's repaired file is then the user's who repaired it, and private.
        let is_given = std::os::unix::fs::fchown(&file, Some(self.owner.0), Some(self.owner.1)).is_ok();
        // Bits that make a program run as its owner are for the owner to give again.
        let mode = self.mode & if is_given { 0o777 } else { 0o700 };
        file.set_permissions(Permissions::from_mode(mode))?;
        let nanoseconds = Duration::from_nanos(label.modified_realtime_ns.unsigned_abs());
        let modified = match label.modified_realtime_ns >= 0 {
            true => UNIX_EPOCH.checked_add(nanoseconds),
            false => UNIX_EPOCH.checked_sub(nanoseconds),
        };
        let times = FileTimes::new().set_modified(modified.unwrap_or_else(SystemTime::now));
        file.set_times(times)
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_testkit::not_run::not_run;

    /// The user that owns nothing.
    const NOBODY: u32 = 65_534;

    #[test]
    fn root_writes_in_no_directory_of_another_user_and_says_who_may() {
        if effective_user() != 0 {
            return not_run("root_writes_in_no_directory_of_another_user_and_says_who_may", "it is about root");
        }
        let home = tempfile::tempdir().unwrap();
        let theirs = home.path().join("theirs");
        let below = theirs.join("below");
        fs::create_dir_all(&below).unwrap();
        let file = below.join("model.pt");
        fs::write(&file, [7; 10_000]).unwrap();
        protect(&file, false, &mut |_, _| {}).unwrap();
        std::os::unix::fs::chown(&theirs, Some(NOBODY), Some(NOBODY)).unwrap();
        for refused in [protect(&file, true, &mut |_, _| {}).err(), repair(&file, true, &mut |_, _| {}).err()] {
            let words = refused.unwrap().to_string();
            assert!(words.contains("sudo -u '#65534'") && words.contains("theirs"), "{words}");
        }
        std::os::unix::fs::chown(&theirs, Some(0), Some(0)).unwrap();
        fs::set_permissions(&theirs, Permissions::from_mode(0o777)).unwrap();
        let words = protect(&file, true, &mut |_, _| {}).unwrap_err().to_string();
        assert!(words.contains("chmod o-w"), "{words}");
        fs::set_permissions(&theirs, Permissions::from_mode(0o1777)).unwrap();
        protect(&file, true, &mut |_, _| {}).unwrap();
    }

    #[test]
    fn what_took_the_place_of_the_new_file_is_left_as_it_is() {
        let home = tempfile::tempdir().unwrap();
        let secret = home.path().join("secret");
        fs::write(&secret, "root only").unwrap();
        fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
        let link = home.path().join("model.pt.surefoot.repaired");
        std::os::unix::fs::symlink(&secret, &link).unwrap();
        let stamp = Stamp { mode: 0o666, ..Stamp::of(&secret).unwrap() };
        let label = Label { file_bytes: 0, modified_realtime_ns: 0, table_crc32c: 0 };
        assert!(stamp.dress(&link, &label).is_err(), "a symbolic link");
        fs::remove_file(&link).unwrap();
        fs::hard_link(&secret, &link).unwrap();
        assert!(stamp.dress(&link, &label).is_err(), "a second name of another file");
        assert_eq!(fs::metadata(&secret).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_repaired_program_does_not_run_as_its_owner() {
        let home = tempfile::tempdir().unwrap();
        let new = home.path().join("new");
        fs::write(&new, "x").unwrap();
        let stamp = Stamp { mode: 0o6755, ..Stamp::of(&new).unwrap() };
        stamp.dress(&new, &Label { file_bytes: 1, modified_realtime_ns: 0, table_crc32c: 0 }).unwrap();
        assert_eq!(fs::metadata(&new).unwrap().permissions().mode() & 0o7777, 0o755);
    }
}
