//! One disturber at a time.

use crate::Fault;
use std::io;
use std::path::PathBuf;
use surefoot_hostfs::Root;
use surefoot_sys::run_lock::{DISTURB, NotTaken, RunLock};

/// Held while cores are disturbed.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code, reason = "held, not looked at")] RunLock);

impl Lock {
    /// Takes it.
    ///
    /// # Errors
    /// [`Fault::Busy`] when another process has it, [`Fault::Unsupported`] for a user who may not make it, [`Fault::File`] when it
    /// cannot be made, or is in a place where another user could have made it.
    pub fn take(root: &Root) -> Result<Lock, Fault> {
        RunLock::take(root, DISTURB).map(Lock).map_err(|why| match why {
            NotTaken::Held { owner, .. } => Fault::Busy { owner },
            NotTaken::Failed { path, source } => no_lock(path, surefoot_hostfs::privilege::effective_user(), source),
        })
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
