//! Whether a database has one name. SQLite keeps the log beside the name by which the file was opened, links followed, and knows nothing of a
//! log beside any other: what was committed there alone would be missing, and the log then be lost.

use super::beside;
use crate::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Links that lead on to links, as many as the kernel follows.
const LINKS_MAX: usize = 40;

/// Refuses a database whose file has several names, or with a log beside a symbolic link to it. One that is not there has no name.
///
/// # Errors
/// [`Error::SeveralNames`] and [`Error::LogOfLink`].
pub(crate) fn refuse_other_names(path: &Path) -> Result<()> {
    if let Ok(held) = surefoot_foreign::hold(path)
        && held.about().is_regular()
        && held.about().names > 1
    {
        return Err(Error::SeveralNames { path: path.to_path_buf(), names: held.about().names });
    }
    let Ok(target) = fs::canonicalize(path) else { return Ok(()) };
    let mut link = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        let Ok(leads_to) = fs::read_link(&link) else { break };
        let log = beside(&link, "-wal");
        let is_elsewhere = || fs::canonicalize(&log).ok() != fs::canonicalize(beside(&target, "-wal")).ok();
        if fs::symlink_metadata(&log).is_ok_and(|about| about.len() > 0) && is_elsewhere() {
            return Err(Error::LogOfLink { link, target });
        }
        link = link.parent().map_or_else(PathBuf::new, Path::to_path_buf).join(leads_to);
    }
    Ok(())
}
