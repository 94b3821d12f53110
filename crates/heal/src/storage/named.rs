//! Where a path leads, for one operation.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::ops::Deref;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use surefoot_foreign::way;

/// A path by which an operation reaches what was asked for. Root holds the directory of it, and comes there step by step by the
/// rules of [`way`]: another user who owns a directory on the way, and puts a link in its place, cannot lead root elsewhere
/// between two operations, nor within one. For other users it is the path as it is.
#[derive(Debug)]
pub struct Named {
    path: PathBuf,
    _directory: Option<File>,
}

impl Named {
    /// What a path names: in its last part no link is followed here.
    ///
    /// # Errors
    /// What the kernel says of the directories on the way; [`io::ErrorKind::PermissionDenied`] for a link that root does not follow.
    pub fn of(path: &Path) -> io::Result<Self> {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        match path.file_name() {
            Some(name) if needs_care(parent) => {
                let directory = way::directory(parent)?;
                Ok(Named { path: way::within(&directory, name), _directory: Some(directory) })
            }
            _ => Ok(Named { path: path.to_owned(), _directory: None }),
        }
    }

    /// A directory itself. Its last part may be a link, by the same rules.
    ///
    /// # Errors
    /// As [`Named::of`].
    pub fn directory(path: &Path) -> io::Result<Self> {
        if !needs_care(path) {
            return Ok(Named { path: path.to_owned(), _directory: None });
        }
        let directory = way::directory(path)?;
        Ok(Named { path: way::within(&directory, OsStr::new(".")), _directory: Some(directory) })
    }
}

/// Whether another user could lead an operation on what is in a directory elsewhere. What is named by a descriptor is held already.
fn needs_care(directory: &Path) -> bool {
    let operation = OPERATIONS.fetch_add(1, Ordering::Relaxed);
    way::own_user() == 0 && !directory.starts_with(OWN_DESCRIPTORS) && !is_roots(directory, LINKS_MAX, operation)
}

const OWN_DESCRIPTORS: &str = "/proc/self/fd";

/// As many links as are looked through for that.
const LINKS_MAX: u32 = 8;

/// Directories that were found to be root's all the way, which nobody but root can change, and in which operation.
static OF_ROOT: Mutex<BTreeMap<PathBuf, u64>> = Mutex::new(BTreeMap::new());
const OF_ROOT_MAX: usize = 256;

/// For how many operations it is taken for true, since root may give a directory away.
const OF_ROOT_FOR: u64 = 64;

/// How many operations there were.
static OPERATIONS: AtomicU64 = AtomicU64::new(0);

/// Whether nobody but root can put anything else in the place of a directory, or of one on the way.
fn is_roots(directory: &Path, links: u32, operation: u64) -> bool {
    let known = || OF_ROOT.lock().unwrap_or_else(PoisonError::into_inner);
    if known().get(directory).is_some_and(|found| operation.saturating_sub(*found) < OF_ROOT_FOR) {
        return true;
    }
    let is_plain = directory.is_absolute() && !directory.components().any(|part| part == Component::ParentDir);
    let Ok(found) = fs::symlink_metadata(directory) else { return false };
    let above = directory.parent();
    if !is_plain || found.uid() != 0 || !above.is_none_or(|above| is_roots(above, links, operation)) {
        return false;
    }
    let is_kept = match above.filter(|_| found.is_symlink() && links > 0) {
        Some(above) => fs::read_link(directory).is_ok_and(|target| is_roots(&above.join(target), links - 1, operation)),
        // The sticky bit keeps what is root's there for root.
        None => {
            found.is_dir()
                && (found.mode() & surefoot_foreign::way::OTHERS_WRITE == 0 || found.mode() & libc::S_ISVTX != 0)
        }
    };
    if is_kept {
        let mut known = known();
        if known.len() >= OF_ROOT_MAX {
            known.clear();
        }
        known.insert(directory.to_owned(), operation);
    }
    is_kept
}

impl Deref for Named {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl AsRef<Path> for Named {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}
