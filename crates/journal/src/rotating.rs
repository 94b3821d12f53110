//! A journal that never grows beyond two files.

use crate::{Limits, NotWritten, Writer};
use serde::Serialize;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Appends to a file in a directory of its writer's; a full file takes the place of the one before it, and a new one begins.
#[derive(Debug)]
pub struct Rotating {
    directory: PathBuf,
    name: &'static str,
    older_name: &'static str,
    limits: Limits,
    writer: Option<Writer>,
    lost_count: u64,
}

impl Rotating {
    /// Neither the directory nor the file is touched before the first line.
    pub fn new(directory: PathBuf, name: &'static str, older_name: &'static str, limits: Limits) -> Self {
        Rotating { directory, name, older_name, limits, writer: None, lost_count: 0 }
    }

    /// The directory of the files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Closes the file; the next line opens it again.
    pub fn close(&mut self) {
        self.writer = None;
    }

    /// Lines that could not be written.
    pub fn lost_count(&self) -> u64 {
        self.lost_count
    }

    /// Appends what `line` makes of [`Rotating::lost_count`], or counts it as lost. Each new file that is begun because one was
    /// full starts with `opening`, if there is one. Whether the line is written.
    pub fn append<T: Serialize>(
        &mut self,
        line: impl FnOnce(u64) -> T,
        opening: Option<impl FnOnce(u64) -> T>,
    ) -> bool {
        let made = line(self.lost_count);
        let done = self.try_append(&made, opening);
        if done.is_err() {
            self.lost_count += 1;
            // The file may have been removed, or the disk remounted: the next line opens it anew.
            self.writer = None;
        }
        done.is_ok()
    }

    fn try_append<T: Serialize>(&mut self, line: &T, opening: Option<impl FnOnce(u64) -> T>) -> Result<(), NotWritten> {
        match self.opened()?.append(line) {
            Err(NotWritten::Full) => {}
            done => return done,
        }
        self.writer = None;
        fs::rename(self.directory.join(self.name), self.directory.join(self.older_name))?;
        let lost_count = self.lost_count;
        let writer = self.opened()?;
        if let Some(opening) = opening {
            writer.append(&opening(lost_count))?;
        }
        writer.append(line)
    }

    fn opened(&mut self) -> io::Result<&mut Writer> {
        let writer = match self.writer.take() {
            Some(writer) => writer,
            None => Writer::new(open(&self.directory, self.name)?, self.limits)?,
        };
        Ok(self.writer.insert(writer))
    }
}

/// Opens or makes the file; it is a regular one of the directory's owner, and no link to one.
fn open(directory: &Path, name: &str) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o600);
    options.custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK);
    let file = options.open(directory.join(name))?;
    let found = file.metadata()?;
    if !found.is_file() || found.uid() != fs::symlink_metadata(directory)?.uid() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user, or is not a file"));
    }
    Ok(file)
}
