//! One disturber at a time.

use crate::Fault;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use surefoot_foreign::way::OTHERS_WRITE;
use surefoot_hostfs::Root;

/// Where the lock lies: only root can put anything there.
const DIRECTORY: &str = "run/surefoot";
const NAME: &str = "disturb.lock";

/// Held while cores are disturbed. The kernel lets go of it when its process ends, however that ends.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code, reason = "held, not looked at")] File);

impl Lock {
    /// Takes it.
    ///
    /// # Errors
    /// [`Fault::Busy`] when another process has it, [`Fault::Unsupported`] for a user who may not make it, [`Fault::File`] when it
    /// cannot be made, or is in a place where another user could have made it.
    pub fn take(root: &Root) -> Result<Lock, Fault> {
        let directory = root.path(DIRECTORY);
        let own = surefoot_hostfs::privilege::effective_user();
        Self::take_in(&directory, own).map_err(|error| match error {
            Ok(owner) => Fault::Busy { owner },
            Err(source) => no_lock(directory.join(NAME), own, source),
        })
    }

    fn take_in(directory: &PathBuf, own: u32) -> Result<Lock, Result<String, io::Error>> {
        match DirBuilder::new().mode(0o755).create(directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(Err(error)),
            _ => {}
        }
        is_of_own(directory, own).map_err(Err)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let opened = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(directory.join(NAME));
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
        Ok(Lock(file))
    }
}

/// Who is not root lacks a privilege where the lock is another's; root has found a place that is not safe.
fn no_lock(path: PathBuf, user: u32, source: io::Error) -> Fault {
    if user == 0 || source.kind() != io::ErrorKind::PermissionDenied {
        return Fault::File { path, source };
    }
    let why = format!("user {user} may not disturb cores, which takes the lock {}: {source}", path.display());
    let remedy = "run as root, or disturb the workload alone: stop:length=2ms,period=1s".into();
    Fault::Unsupported { why, remedy }
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

    fn own() -> u32 {
        surefoot_hostfs::privilege::effective_user()
    }

    #[test]
    fn who_is_not_root_is_told_that_a_privilege_is_missing() {
        let refused = |user, kind: io::ErrorKind| no_lock("/run/a/lock".into(), user, kind.into());
        let denied = refused(1_000, io::ErrorKind::PermissionDenied);
        assert!(denied.is_unsupported(), "{denied}");
        assert!(
            denied.to_string().contains("user 1000 may not disturb cores")
                && denied.to_string().contains("run as root")
        );
        assert!(!refused(0, io::ErrorKind::PermissionDenied).is_unsupported());
        assert!(!refused(1_000, io::ErrorKind::StorageFull).is_unsupported());
    }

    #[test]
    fn there_is_one_at_a_time_and_the_other_is_told_who_has_it() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("surefoot");
        let held = Lock::take_in(&directory, own()).unwrap();
        let told = Lock::take_in(&directory, own()).unwrap_err().unwrap();
        assert_eq!(told, format!("process {}", std::process::id()));
        drop(held);
        Lock::take_in(&directory, own()).unwrap();
    }

    #[test]
    fn a_place_that_others_could_have_prepared_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("surefoot");
        fs::create_dir(&directory).unwrap();
        let refused = || Lock::take_in(&directory, own()).unwrap_err().unwrap_err();
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
        assert!(Lock::take_in(&link, own()).is_err());
    }
}
