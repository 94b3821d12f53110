//! A file system that fails.

use crate::{Disk, Storage, StoredFile};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A directory that fails in one way; how many images were begun in it; and the free bytes that it reports, if not 0.
#[derive(Default)]
pub(crate) struct Failing(pub(crate) AtomicU32, pub(crate) AtomicU32, pub(crate) AtomicU64);

/// What fails, with `EIO`.
pub(crate) const NOTHING: u32 = 0;
pub(crate) const LISTING: u32 = 1;
pub(crate) const LOOKING: u32 = 2;
pub(crate) const SYNCING: u32 = 3;
pub(crate) const ALL: u32 = 4;
pub(crate) const CREATING: u32 = 5;
/// Files by which ranks see that a directory is one cannot be read.
pub(crate) const PROBES: u32 = 6;
/// Nothing can be locked in the file system, because it can only be read.
pub(crate) const READ_ONLY: u32 = 7;
/// The directory of a generation with number 2 cannot be listed.
pub(crate) const LISTING_SECOND: u32 = 8;
/// Such a file is seen late: the first so many times it is looked for, it is not there.
pub(crate) const LATE: u32 = 100;

impl Failing {
    fn check(&self, what: u32) -> io::Result<()> {
        let failing = self.0.load(Ordering::Relaxed);
        if failing == what || failing == ALL { Err(io::Error::from_raw_os_error(libc::EIO)) } else { Ok(()) }
    }
}

impl Storage for Failing {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.check(ALL).and_then(|()| Disk.create_directory(path))
    }

    fn expect_own_directory(&self, path: &Path) -> io::Result<()> {
        self.check(LOOKING).and_then(|()| Disk.expect_own_directory(path))
    }

    fn create_file(&self, path: &Path, bytes: u64, direct: bool) -> io::Result<Box<dyn StoredFile>> {
        self.1.fetch_add(u32::from(path.extension().is_some_and(|kind| kind == "image")), Ordering::Relaxed);
        self.check(ALL).and_then(|()| self.check(CREATING)).and_then(|()| Disk.create_file(path, bytes, direct))
    }

    fn open_file(&self, path: &Path, writable: bool) -> io::Result<Box<dyn StoredFile>> {
        let is_probe = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"probe-"));
        if is_probe {
            self.check(PROBES)?;
            let is_late = self.0.load(Ordering::Relaxed) > LATE;
            if is_late && self.0.fetch_sub(1, Ordering::Relaxed) > LATE {
                return Err(io::ErrorKind::NotFound.into());
            }
        }
        self.check(ALL).and_then(|()| Disk.open_file(path, writable))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check(ALL).and_then(|()| Disk.rename(from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.check(ALL).and_then(|()| Disk.remove_file(path))
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.check(ALL).and_then(|()| Disk.remove_directory(path))
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.check(SYNCING).and_then(|()| Disk.sync_directory(path))
    }

    fn list_directory(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        if name.starts_with(b"0000000002-") {
            self.check(LISTING_SECOND)?;
        }
        self.check(LISTING).and_then(|()| Disk.list_directory(path))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        if self.0.load(Ordering::Relaxed) == READ_ONLY && path.components().any(|part| part.as_os_str() == "pfs") {
            return Err(io::Error::from_raw_os_error(libc::EROFS));
        }
        self.check(ALL).and_then(|()| Disk.lock(path))
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        match self.2.load(Ordering::Relaxed) {
            0 => self.check(ALL).and_then(|()| Disk.free_bytes(path)),
            bytes => Ok(bytes),
        }
    }
}
