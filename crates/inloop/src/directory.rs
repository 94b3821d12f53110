//! The directory in which the files of all loops lie, shared by users who need not trust each other.

use crate::Error;
use std::ffi::{CString, OsStr};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Where loops lie when [`DIRECTORY_VARIABLE`] says nothing else.
pub const DIRECTORY_DEFAULT: &str = "/dev/shm/surefoot-loops";

/// The environment variable that names another directory.
pub const DIRECTORY_VARIABLE: &str = "SUREFOOT_LOOP_DIR";

/// Everybody may make files, only the owner of a file may remove it; as /tmp.
const MODE_SHARED: u32 = 0o1777;

const STICKY: u32 = 0o1000;
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The file systems without a disk behind them, by what statfs calls them.
const TMPFS_MAGIC: i64 = 0x0102_1994;
const RAMFS_MAGIC: i64 = 0x8584_58f6;

/// The directory of loops: what `SUREFOOT_LOOP_DIR` names, or `/dev/shm/surefoot-loops`.
///
/// A program that runs with more rights than its caller does not look at the variable.
pub fn directory() -> PathBuf {
    // SAFETY: reads a number that the kernel gave this process at its start.
    let privileged = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    let named = std::env::var_os(DIRECTORY_VARIABLE).filter(|named| !privileged && !named.is_empty());
    named.map_or_else(|| PathBuf::from(DIRECTORY_DEFAULT), PathBuf::from)
}

/// An open directory of loops. What is done in it goes to this very directory, whatever its path leads to by then.
#[derive(Debug)]
pub(crate) struct Directory {
    file: File,
}

impl Directory {
    /// Opens the directory, and does not follow a link that stands in its place.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        Ok(Directory { file: OpenOptions::new().read(true).custom_flags(flags).open(path)? })
    }

    /// Opens the directory for a new file, and makes it where it is missing.
    pub(crate) fn open_or_make(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Directory { path: path.to_owned(), source };
        if !path.is_absolute() {
            let why = "it must be an absolute path, because the file is removed by it at the end";
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, why)));
        }
        let made = match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(failed(error)),
        };
        let directory = Self::open(path).map_err(failed)?;
        let mut metadata = directory.file.metadata().map_err(failed)?;
        if made && metadata.uid() == effective_user() {
            directory.file.set_permissions(Permissions::from_mode(MODE_SHARED)).map_err(failed)?;
            metadata = directory.file.metadata().map_err(failed)?;
        }
        if metadata.mode() & WRITABLE_BY_OTHERS != 0 && metadata.mode() & STICKY == 0 {
            return Err(Error::UnsafeDirectory { path: path.to_owned() });
        }
        if !is_in_memory(&directory.file).map_err(failed)? {
            return Err(Error::NotInMemory { path: path.to_owned() });
        }
        Ok(directory)
    }

    /// Makes a new file that only this user can open so far.
    pub(crate) fn make(&self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        options.custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC).open(self.entry(OsStr::new(name)))
    }

    /// Opens a regular file for reading; no link is followed, and nothing else is opened.
    pub(crate) fn read(&self, name: &OsStr) -> io::Result<File> {
        surefoot_foreign::hold_in(&self.file, name)?.regular()?.open()
    }

    /// Removes a name; never a directory.
    pub(crate) fn remove(&self, name: &OsStr) -> io::Result<()> {
        let name = CString::new(name.as_bytes())?;
        // SAFETY: the descriptor is open as long as `self`, and the name ends in NUL.
        let failed = unsafe { libc::unlinkat(self.file.as_raw_fd(), name.as_ptr(), 0) };
        if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// The names in it, in the kernel's order.
    pub(crate) fn names(&self) -> io::Result<impl Iterator<Item = io::Result<std::ffi::OsString>>> {
        Ok(fs::read_dir(self.entry(OsStr::new("")))?.map(|entry| entry.map(|entry| entry.file_name())))
    }

    /// A path that begins at the open directory and not at its name.
    fn entry(&self, name: &OsStr) -> PathBuf {
        Path::new("/proc/self/fd").join(self.file.as_raw_fd().to_string()).join(name)
    }
}

/// The user as whom this process makes files.
pub(crate) fn effective_user() -> u32 {
    // SAFETY: cannot fail and touches no memory.
    unsafe { libc::geteuid() }
}

fn is_in_memory(file: &File) -> io::Result<bool> {
    // SAFETY: all zeros is a valid statfs, which holds numbers only.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open as long as `file`, and `found` may be written.
    if unsafe { libc::fstatfs(file.as_raw_fd(), &mut found) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // The width of this number differs between processors and C libraries.
    #[allow(clippy::unnecessary_cast)]
    let kind = found.f_type as i64;
    Ok(kind == TMPFS_MAGIC || kind == RAMFS_MAGIC)
}
