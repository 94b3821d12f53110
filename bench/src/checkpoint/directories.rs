//! Directories of a run's own, which go away with it.

use anyhow::Context;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// A new directory, private to the user; dropping it removes it with all that is in it.
pub struct OwnDirectory(PathBuf);

impl OwnDirectory {
    /// Makes one below a directory that `option` names.
    pub fn below(option: &str, base: &Path) -> anyhow::Result<Self> {
        let base = base.canonicalize().with_context(|| format!("{option}: {}", base.display()))?;
        anyhow::ensure!(base.is_dir(), "{option}: {} is not a directory", base.display());
        let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().subsec_nanos();
        let path = base.join(format!("surefoot-bench-{}-{now_ns}", std::process::id()));
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.with_context(|| format!("{option}: cannot create {}", path.display()))?;
        Ok(OwnDirectory(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// An empty directory in it: what was there goes.
    pub fn fresh(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = self.0.join(name);
        let cannot = || format!("cannot make room in {}", path.display());
        if path.exists() {
            fs::remove_dir_all(&path).with_context(cannot)?;
        }
        DirBuilder::new().mode(0o700).create(&path).with_context(cannot)?;
        Ok(path)
    }
}

impl Drop for OwnDirectory {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            surefoot_console::tell!("surefoot: {} stays: {error}", self.0.display());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn it_is_private_and_goes_away() {
        use std::os::unix::fs::PermissionsExt;
        let own = OwnDirectory::below("--memory", &std::env::temp_dir()).unwrap();
        let path = own.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        fs::write(own.fresh("x").unwrap().join("file"), "1").unwrap();
        assert!(fs::read_dir(own.fresh("x").unwrap()).unwrap().next().is_none());
        drop(own);
        assert!(!path.exists());
        let refused = OwnDirectory::below("--memory", Path::new("/nowhere")).err().unwrap();
        assert!(format!("{refused:#}").contains("--memory: /nowhere"));
    }
}
