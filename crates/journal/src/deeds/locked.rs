//! A journal that is locked for writing.

use super::file::{bad, below};
use super::read::Read;
use super::{LIMITS, OLDER, PATIENCE, Record, Unusable};
use crate::{NotLocked, NotWritten, Writer};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use surefoot_foreign::way;
use surefoot_model::Deed;

/// A journal, locked for this process until it is dropped.
pub(super) struct Journal<'a> {
    of: &'a Record,
    writer: Writer,
    pub(super) path: PathBuf,
}

impl<'a> Journal<'a> {
    pub(super) fn locked(
        of: &'a Record,
        opened: &File,
        path: PathBuf,
        patience: Duration,
    ) -> Result<Journal<'a>, Unusable> {
        let system = |what: &str, error: io::Error| bad(&path, format!("the journal cannot be {what}: {error}"));
        let found = opened.metadata().map_err(|error| system("read", error))?;
        if !found.is_file() {
            return Err(bad(&path, "the journal is not a regular file".to_owned()));
        }
        // A user who can write to it can invent deeds, or remove some that count against the limits.
        if found.mode() & way::OTHERS_WRITE != 0 {
            let mode = found.mode() & 0o777;
            let why = format!(
                "other users may write to the journal (mode {mode:o}); run `chmod go-w` on it, or name a new one"
            );
            return Err(bad(&path, why));
        }
        // A user who can open it can lock it, and so block every action.
        if found.mode() & 0o044 != 0 && matches!(of, Record::OfHost(_)) {
            opened
                .set_permissions(fs::Permissions::from_mode(0o600))
                .map_err(|error| system("closed to others", error))?;
        }
        let mut writer = Writer::reopen(opened, LIMITS).map_err(|error| system("written", error))?;
        writer.lock(patience).map_err(|why| match why {
            NotLocked::Held => bad(&path, "another surefoot process holds the journal".to_owned()),
            NotLocked::System(error) => system("locked", error),
        })?;
        if writer.bytes() == 0 {
            // Before the first line, also if another process created the file: it may have ended before it did this.
            of.sync_names().map_err(|error| system("written", error))?;
        }
        Ok(Journal { of, writer, path })
    }

    /// Its content. Under the lock no process is still writing the last line, so a line without its end is unreadable.
    pub(super) fn read(&self) -> Result<Read, Unusable> {
        let mut found = super::read::read(self.writer.file())
            .map_err(|error| bad(&self.path, format!("the journal cannot be read: {error}")))?;
        if self.writer.is_torn() {
            found.skipped_count += 1;
            found.places.push(found.deeds.len());
        }
        Ok(found)
    }

    pub(super) fn write(&mut self, deed: &Deed) -> Result<(), Unusable> {
        let mut written = self.writer.append(deed);
        if let (Err(NotWritten::Full), Record::OfHost(root)) = (&written, self.of) {
            self.rotate(root)?;
            written = self.writer.append(deed);
        }
        let written = written.and_then(|()| Ok(self.writer.sync()?));
        written.map_err(|error| {
            let remedy = if matches!(error, NotWritten::Full) { "; move it away first" } else { "" };
            bad(&self.path, format!("a deed on {} is not recorded: {error}{remedy}", deed.subject))
        })
    }

    /// Renames the full journal to the older one. It stays locked until the new one is locked, so that other processes wait for that.
    fn rotate(&mut self, root: &Path) -> Result<(), Unusable> {
        let cannot = |error: io::Error| bad(&self.path, format!("the full journal cannot be rotated: {error}"));
        fs::rename(&self.path, below(root, OLDER)).map_err(cannot)?;
        let opened = self.of.opened(&self.path)?;
        *self = Journal::locked(self.of, &opened, self.path.clone(), PATIENCE)?;
        Ok(())
    }
}
