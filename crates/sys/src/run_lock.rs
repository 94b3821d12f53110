//! Locks in the run directory: what one process at a time does, whichever command it belongs to.
//!
//! Not on the kernel's own files: whoever may read a file can lock it, and keep root from it.

use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use surefoot_foreign::way::OTHERS_WRITE;
use surefoot_hostfs::Root;

/// Where the locks lie: only root can put anything there.
const DIRECTORY: &str = "run/surefoot";

/// Held by who disturbs cores.
pub const DISTURB: &str = "disturb.lock";
/// Held by who changes how memory errors are reported.
pub const REPORTING: &str = "reporting.lock";

/// A lock that is held. The kernel lets go of it when its process ends, however that ends.
#[derive(Debug)]
pub struct RunLock(#[allow(dead_code, reason = "held, not looked at")] File);

/// Why a lock is not held.
#[derive(Debug)]
pub enum NotTaken {
    /// Another process holds it.
    Held {
        /// The lock.
        path: PathBuf,
        /// Who, such as `process 812`.
        owner: String,
    },
    /// It cannot be made, or is in a place where another user could have made it.
    Failed {
        /// The lock.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl fmt::Display for NotTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotTaken::Held { path, owner } => write!(f, "{owner} holds {}", path.display()),
            NotTaken::Failed { path, source } => {
                write!(f, "the lock {} cannot be taken: {}", path.display(), surefoot_foreign::said(source))
            }
        }
    }
}

impl std::error::Error for NotTaken {}

impl RunLock {
    /// Takes the lock of this name.
    ///
    /// # Errors
    /// [`NotTaken`].
    pub fn take(root: &Root, name: &str) -> Result<RunLock, NotTaken> {
        let directory = root.path(DIRECTORY);
        let own = surefoot_hostfs::privilege::effective_user();
        Self::take_in(&directory, name, own).map_err(|error| match error {
            Ok(owner) => NotTaken::Held { path: directory.join(name), owner },
            Err(source) => NotTaken::Failed { path: directory.join(name), source },
        })
    }

    fn take_in(directory: &Path, name: &str, own: u32) -> Result<RunLock, Result<String, io::Error>> {
        DirBuilder::new().recursive(true).mode(0o755).create(directory).map_err(Err)?;
        is_of_own(directory, own).map_err(Err)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let opened = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(directory.join(name));
        let mut file = opened.map_err(Err)?;
        if !file.metadata().is_ok_and(|about| about.is_file() && about.uid() == own && about.nlink() == 1) {
            return Err(Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "it is another user's, or no regular file",
            )));
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                let _ = (&mut file).take(16).read_to_string(&mut owner);
                return Err(Ok(format!("process {}", owner.trim())));
            }
            Err(TryLockError::Error(error)) => return Err(Err(error)),
        }
        // For whoever comes next; the lock does not depend on it.
        let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(RunLock(file))
    }
}

/// A directory in which nobody else can put a file, and no link to one.
fn is_of_own(directory: &Path, own: u32) -> io::Result<()> {
    let flags = libc::O_NOFOLLOW | libc::O_DIRECTORY;
    let about = OpenOptions::new().read(true).custom_flags(flags).open(directory)?.metadata()?;
    if about.uid() == own && about.mode() & OTHERS_WRITE == 0 {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        "its directory belongs to another user, or others may write there",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    const NAME: &str = "a.lock";

    fn own() -> u32 {
        surefoot_hostfs::privilege::effective_user()
    }

    #[test]
    fn there_is_one_at_a_time_and_the_other_is_told_who_has_it() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("surefoot");
        let held = RunLock::take_in(&directory, NAME, own()).unwrap();
        let told = RunLock::take_in(&directory, NAME, own()).unwrap_err().unwrap();
        assert_eq!(told, format!("process {}", std::process::id()));
        drop(held);
        RunLock::take_in(&directory, NAME, own()).unwrap();
    }

    #[test]
    fn a_place_that_others_could_have_prepared_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("surefoot");
        fs::create_dir(&directory).unwrap();
        let refused = || RunLock::take_in(&directory, NAME, own()).unwrap_err().unwrap_err();
        let victim = home.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, directory.join(NAME)).unwrap();
        refused();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        fs::remove_file(directory.join(NAME)).unwrap();
        fs::hard_link(&victim, directory.join(NAME)).unwrap();
        refused();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        fs::remove_file(directory.join(NAME)).unwrap();
        fs::set_permissions(&directory, Permissions::from_mode(0o777)).unwrap();
        assert!(refused().to_string().contains("others may write there"));
        let link = home.path().join("link");
        fs::set_permissions(&directory, Permissions::from_mode(0o755)).unwrap();
        symlink(&directory, &link).unwrap();
        assert!(RunLock::take_in(&link, NAME, own()).is_err());
    }
}
