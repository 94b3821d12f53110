//! The settings with which a job was opened, for whoever asks later: `settings.json` beside its journal.
//!
//! It is private to the user, replaced at each opening and never synced: it tells, and nothing depends on it.

use super::Told;
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The name of the file.
pub const PUBLISHED_NAME: &str = "settings.json";

/// The name that it has until it is whole.
pub(crate) const NEW_NAME: &str = "settings.json.new";

/// The longest that is read, bytes: thirty settings, and paths as long as paths may be.
const BYTES_MAX: u64 = 256 << 10;

#[derive(Serialize, Deserialize)]
struct Published {
    version: u32,
    settings: Vec<Told>,
}

/// Puts the settings into a job's directory.
pub(crate) fn publish(directory: &Path, settings: Vec<Told>) -> io::Result<()> {
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
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK);
    let file = match options.open(directory.join(PUBLISHED_NAME)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let found = file.metadata()?;
    let wrong = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    if !found.is_file() || ![0, fs::metadata(directory)?.uid()].contains(&found.uid()) {
        return Err(wrong("it is no file of the job's user"));
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(wrong("it is longer than such a file can be"));
    }
    let published: Published = serde_json::from_slice(&bytes)?;
    if published.version != 1 {
        return Err(wrong("it is of a newer version"));
    }
    Ok(Some(published.settings))
}
