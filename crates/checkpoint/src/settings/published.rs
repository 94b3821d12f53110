//! The settings with which a job was opened, for whoever asks later: `settings.json` beside its journal, and in each of rank 0's other tiers.
//!
//! It is private to the user, replaced at each opening and never synced: it tells, and nothing depends on it.

use super::Told;
use crate::storage::Named;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use surefoot_foreign::{About, Held};

/// The name of the file.
pub const PUBLISHED_NAME: &str = "settings.json";

/// The name that it has until it is whole.
pub(crate) const NEW_NAME: &str = "settings.json.new";

/// The longest that is read, bytes: thirty settings, and paths as long as paths may be.
const BYTES_MAX: u64 = 256 << 10;

#[derive(Serialize, Deserialize)]
struct Published<Settings> {
    version: u32,
    settings: Settings,
}

/// Puts the settings into a job's directory.
pub(crate) fn publish(directory: &Path, settings: &[Told]) -> io::Result<()> {
    let directory = Named::directory(directory)?;
    let new = directory.join(NEW_NAME);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(&serde_json::to_vec(&Published { version: 1, settings })?)?;
    fs::rename(&new, directory.join(PUBLISHED_NAME))
}

/// The settings with which the job of this directory was opened last; `None` where nobody wrote them down.
///
/// # Errors
/// When the file cannot be read, is not the job's user's or root's own, or is something else.
pub fn read_published(directory: &Path) -> io::Result<Option<Vec<Told>>> {
    let wrong = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    // The directory is held: the file is of the directory whose owner is asked for.
    let directory = surefoot_foreign::way::directory(directory)?;
    let found = match surefoot_foreign::hold_in(&directory, OsStr::new(PUBLISHED_NAME)).and_then(Held::regular) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            return Err(wrong("it is no file of the job's user"));
        }
        found => found?,
    };
    if ![0, About::of(&directory)?.owner].contains(&found.about().owner) {
        return Err(wrong("it is no file of the job's user"));
    }
    let bytes = found.read(BYTES_MAX).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => wrong("it is longer than such a file can be"),
        _ => error,
    })?;
    let published: Published<Vec<Told>> = serde_json::from_slice(&bytes)?;
    if published.version != 1 {
        return Err(wrong("it is of a newer version"));
    }
    Ok(Some(published.settings))
}
