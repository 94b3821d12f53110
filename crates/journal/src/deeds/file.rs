//! The files of journals: how they are created and opened, and whose they must be.

use super::Unusable;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use surefoot_foreign::way;

/// A path of the host below a root.
pub fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

pub(super) fn make_folder(path: &Path) -> io::Result<()> {
    match path.parent().filter(|folder| !folder.exists()) {
        Some(folder) => DirBuilder::new().recursive(true).mode(0o700).create(folder),
        None => Ok(()),
    }
}

/// Opens or creates a journal: a regular file of this user with a single name. No link of another user leads root to it.
pub(super) fn open(path: &Path) -> io::Result<File> {
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

/// Refuses a file of another user, unless that is root.
pub(super) fn expect_own(found: &fs::Metadata) -> io::Result<()> {
    if [0, way::own_user()].contains(&found.uid()) {
        return Ok(());
    }
    let why = format!("it belongs to UID {}; remove it, or run this as that user", found.uid());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// Refuses a journal that users other than its owner and root could have written, because readers trust what it says.
///
/// # Errors
/// Why it is not trusted.
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
pub(super) fn is_named(file: &File, path: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (own.dev(), own.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

pub(super) fn bad(path: &Path, why: String) -> Unusable {
    Unusable { path: path.to_owned(), why }
}
