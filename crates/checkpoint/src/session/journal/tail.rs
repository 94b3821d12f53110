//! Follows a journal: each look reads what was appended since the last one.
//!
//! A file is known by its device and inode, and by the bytes before the place up to which it was read. Where one of these
//! differs, or the file is shorter than that, it is another file under the name and is read anew. The file that a full one
//! was renamed to is recognised and goes on where it was.

use super::{Entry, LIMITS};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use surefoot_journal::{GrowingFile, Place, read_on};

/// Bytes before the place up to which a file was read that are compared at the next look.
const COMPARED_BYTES: u64 = 128;

/// One of a journal's two files.
#[derive(Debug, Default)]
struct Followed {
    /// Device and inode; `None` where there was no file.
    identity: Option<(u64, u64)>,
    place: Place,
    /// The bytes that end at the place.
    compared: Vec<u8>,
    /// The newest lines that could be read.
    entries: VecDeque<Entry>,
    /// All lines that could be read, also those that are no longer held.
    count: u64,
    skipped_count: u64,
}

/// A journal as one reader follows it.
#[derive(Debug, Default)]
pub(super) struct Tail {
    older: Followed,
    newer: Followed,
    /// Bytes read so far.
    pub(super) read_bytes: u64,
}

/// The journal as it is known after a look.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) entries: Vec<Entry>,
    pub(super) skipped_count: u64,
    pub(super) left_out_count: u64,
}

impl Tail {
    /// Reads on in both files, and holds the newest `entries_max` lines of them.
    pub(super) fn read(
        &mut self,
        [older, newer]: [Option<GrowingFile>; 2],
        entries_max: usize,
        parse: &dyn Fn(&[u8]) -> Option<Entry>,
    ) -> io::Result<Known> {
        let older_identity = older.as_ref().map(|file| identity(file.file())).transpose()?;
        if older_identity.is_some() && older_identity == self.newer.identity {
            self.older = std::mem::take(&mut self.newer);
        }
        self.read_both([&older, &newer], entries_max, parse)?;
        // Lines that were let go are wanted again: more are asked for, or a file after them is gone.
        if self.held() < entries_max && (self.held() as u64) < self.older.count + self.newer.count {
            (self.older, self.newer) = Default::default();
            self.read_both([&older, &newer], entries_max, parse)?;
        }
        let surplus = self.held().saturating_sub(entries_max);
        let of_older = surplus.min(self.older.entries.len());
        self.older.entries.drain(..of_older);
        self.newer.entries.drain(..surplus - of_older);
        let entries: Vec<Entry> = self.older.entries.iter().chain(&self.newer.entries).cloned().collect();
        let left_out_count = self.older.count + self.newer.count - entries.len() as u64;
        Ok(Known { entries, skipped_count: self.older.skipped_count + self.newer.skipped_count, left_out_count })
    }

    fn held(&self) -> usize {
        self.older.entries.len() + self.newer.entries.len()
    }

    fn read_both(
        &mut self,
        files: [&Option<GrowingFile>; 2],
        entries_max: usize,
        parse: &dyn Fn(&[u8]) -> Option<Entry>,
    ) -> io::Result<()> {
        for (followed, file) in [&mut self.older, &mut self.newer].into_iter().zip(files) {
            match file {
                None => *followed = Followed::default(),
                Some(file) => self.read_bytes += followed.read(file, entries_max, parse)?,
            }
        }
        Ok(())
    }
}

fn identity(file: &File) -> io::Result<(u64, u64)> {
    let found = file.metadata()?;
    Ok((found.dev(), found.ino()))
}

impl Followed {
    /// Reads on; returns how many bytes were read.
    fn read(
        &mut self,
        file: &GrowingFile,
        entries_max: usize,
        parse: &dyn Fn(&[u8]) -> Option<Entry>,
    ) -> io::Result<u64> {
        let found = file.file().metadata()?;
        let (identity, length) = ((found.dev(), found.ino()), found.len());
        let mut read_bytes = 0;
        let goes_on = self.identity == Some(identity)
            && length >= self.place.bytes
            && length - self.place.bytes <= LIMITS.file_bytes
            && self.is_still(file.file(), &mut read_bytes)?;
        let mut is_first_cut = false;
        if !goes_on {
            *self = Followed { identity: Some(identity), ..Followed::default() };
            self.place.bytes = length.saturating_sub(LIMITS.file_bytes);
            // The line there may begin before.
            is_first_cut = self.place.bytes > 0;
            self.skipped_count = u64::from(is_first_cut);
        }
        let from = self.place.bytes;
        let mut take = |line: &[u8]| match (line.len() < LIMITS.line_bytes).then(|| parse(line)).flatten() {
            Some(entry) => {
                self.count += 1;
                self.entries.push_back(entry);
                if self.entries.len() > entries_max {
                    self.entries.pop_front();
                }
            }
            None => self.skipped_count += 1,
        };
        read_on(file, &mut self.place, length.max(from), |_, line| match line {
            _ if std::mem::take(&mut is_first_cut) => {}
            Ok([]) => {}
            Ok(line) => take(line),
            Err(_) => take(&[b' '; super::LINE_BYTES_MAX]),
        })?;
        if self.place.bytes == from {
            // At most a part of a line.
            return Ok(read_bytes + length - from);
        }
        read_bytes += length - from;
        let compared_bytes = self.place.bytes.min(COMPARED_BYTES);
        self.compared.resize(compared_bytes as usize, 0);
        file.file().read_exact_at(&mut self.compared, self.place.bytes - compared_bytes)?;
        Ok(read_bytes + compared_bytes)
    }

    /// Whether the bytes before the place are those of the last look.
    fn is_still(&self, file: &File, read_bytes: &mut u64) -> io::Result<bool> {
        let mut now = vec![0; self.compared.len()];
        let compared_bytes = now.len() as u64;
        *read_bytes += compared_bytes;
        match file.read_exact_at(&mut now, self.place.bytes - compared_bytes) {
            Ok(()) => Ok(now == self.compared),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }
}
