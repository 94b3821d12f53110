//! Follows a journal: each look reads what was appended since the last one.
//!
//! A file is known by its device and inode, and by the bytes before the place up to which it was read. Where one of these
//! differs, or the file is shorter than that, it is another file under the name and is read anew. The file that a full one
//! was renamed to is recognised and goes on where it was.

use super::{Entry, JournalEvent, LIMITS};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use surefoot_journal::{GrowingFile, Position, read_on};

/// Bytes before the place up to which a file was read that are compared at the next look.
const COMPARED_BYTES: u64 = 128;

/// One of a journal's two files.
#[derive(Debug, Default)]
struct Followed {
    /// Device and inode; `None` where there was no file.
    identity: Option<(u64, u64)>,
    place: Position,
    /// The bytes that end at the place.
    compared: Vec<u8>,
    /// The newest lines that could be read, as far as they are wanted.
    entries: VecDeque<Entry>,
    /// All lines that could be read, also those that are no longer held.
    count: u64,
    skipped: Skipped,
    /// Whether the last line is one that a kill may have cut.
    is_cut: bool,
}

/// Lines of a file that could not be read.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Skipped {
    /// The beginning of a line of JSON, or zeros, at the end of a session: as a kill or a loss of power leaves one at most.
    pub cut_count: u64,
    /// Anything else: too long, damaged, of a newer release, or not written by a job.
    pub unknown_count: u64,
}

impl Skipped {
    /// All of them.
    pub fn count(self) -> u64 {
        self.cut_count.saturating_add(self.unknown_count)
    }
}

/// A journal as one reader follows it.
#[derive(Debug, Default)]
pub(super) struct Tail {
    older: Followed,
    newer: Followed,
    /// Bytes read so far.
    pub(super) read_bytes: u64,
}

/// What is wanted of a journal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    /// The newest lines.
    pub(super) newest: usize,
    /// Whether all lines that are read for the first time are wanted as well, with the one before them.
    pub(super) fresh: bool,
    /// Bytes that may be read; what is beyond them is read by the next look.
    pub(super) bytes_max: u64,
}

/// The journal as it is known after a look.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) entries: Vec<Entry>,
    /// How many of them, the last ones, were read for the first time.
    pub(super) fresh_count: usize,
    /// Of the older file, and of the newer one.
    pub(super) skipped: [Skipped; 2],
    pub(super) left_out_count: u64,
}

impl Tail {
    /// Reads on in both files, and holds the lines of them that are wanted.
    pub(super) fn read(
        &mut self,
        [older, newer]: [Option<GrowingFile>; 2],
        wanted: Wanted,
        parse: &dyn Fn(&[u8]) -> Option<Entry>,
    ) -> io::Result<Known> {
        let older_identity = older.as_ref().map(|file| identity(file.file())).transpose()?;
        if older_identity.is_some() && older_identity == self.newer.identity {
            self.older = std::mem::take(&mut self.newer);
        }
        let mut fresh_count = self.read_both([&older, &newer], wanted.bytes_max, parse)?;
        // Lines that were let go are wanted again: more are asked for, or a file after them is gone.
        if self.held() < wanted.newest && (self.held() as u64) < self.older.count + self.newer.count {
            (self.older, self.newer) = Default::default();
            fresh_count = self.read_both([&older, &newer], wanted.bytes_max, parse)?;
        }
        let is_all_fresh = fresh_count as u64 >= self.older.count + self.newer.count;
        let fresh = if is_all_fresh { fresh_count } else { fresh_count + 1 };
        let held_max = if wanted.fresh { wanted.newest.max(fresh) } else { wanted.newest };
        let surplus = self.held().saturating_sub(held_max);
        let of_older = surplus.min(self.older.entries.len());
        self.older.entries.drain(..of_older);
        self.newer.entries.drain(..surplus - of_older);
        let entries: Vec<Entry> = self.older.entries.iter().chain(&self.newer.entries).cloned().collect();
        let left_out_count = self.older.count + self.newer.count - entries.len() as u64;
        let skipped = [self.older.skipped, self.newer.skipped];
        Ok(Known { fresh_count: fresh_count.min(entries.len()), entries, skipped, left_out_count })
    }

    fn held(&self) -> usize {
        self.older.entries.len() + self.newer.entries.len()
    }

    /// Returns how many lines were read for the first time.
    fn read_both(
        &mut self,
        files: [&Option<GrowingFile>; 2],
        bytes_max: u64,
        parse: &dyn Fn(&[u8]) -> Option<Entry>,
    ) -> io::Result<usize> {
        let (mut left, mut fresh_count) = (bytes_max, 0);
        let mut is_at_end = true;
        for (followed, file) in [&mut self.older, &mut self.newer].into_iter().zip(files) {
            let Some(file) = file else {
                *followed = Followed::default();
                continue;
            };
            // The lines of the newer file come after all of the older one.
            let read = followed.read(file, if is_at_end { left } else { 0 }, parse)?;
            self.read_bytes += read.bytes;
            left = left.saturating_sub(read.new_bytes);
            fresh_count += read.fresh_count;
            is_at_end &= read.is_at_end;
        }
        Ok(fresh_count)
    }
}

/// What a look read of a file.
#[derive(Debug, Default)]
struct Read {
    bytes: u64,
    /// Those that were not read before.
    new_bytes: u64,
    /// Lines.
    fresh_count: usize,
    is_at_end: bool,
}

/// Whether a line may follow one that was cut: a session begins, a command wrote it, or the session knows that it lost a line.
fn ends_cut(entry: &Entry) -> bool {
    let is_beginning = matches!(entry.event, JournalEvent::Opened { .. } | JournalEvent::Removed { .. });
    is_beginning || entry.lost_count > 0
}

/// Whether a line is the beginning of one.
fn is_cut(line: &[u8]) -> bool {
    let zeros = line.iter().rev().take_while(|&&byte| byte == 0).count();
    let begin = &line[..line.len() - zeros];
    begin.is_empty()
        || begin.starts_with(b"{")
            && serde_json::from_slice::<serde::de::IgnoredAny>(begin).is_err_and(|error| error.is_eof())
}

fn identity(file: &File) -> io::Result<(u64, u64)> {
    let found = file.metadata()?;
    Ok((found.dev(), found.ino()))
}

impl Followed {
    /// Reads on, so many bytes or a piece more.
    fn read(&mut self, file: &GrowingFile, bytes_max: u64, parse: &dyn Fn(&[u8]) -> Option<Entry>) -> io::Result<Read> {
        let found = file.file().metadata()?;
        let (identity, length) = ((found.dev(), found.ino()), found.len());
        let mut read_bytes = 0;
        let goes_on = self.identity == Some(identity)
            && length >= self.place.bytes
            && length - self.place.bytes <= LIMITS.file_bytes
            && self.is_still(file.file(), &mut read_bytes)?;
        let mut is_first_cut = false;
        if !goes_on && bytes_max == 0 {
            // Its turn comes with the next look.
            return Ok(Read { bytes: read_bytes, ..Read::default() });
        }
        if !goes_on {
            *self = Followed { identity: Some(identity), ..Followed::default() };
            self.place.bytes = length.saturating_sub(LIMITS.file_bytes);
            // The line there may begin before.
            is_first_cut = self.place.bytes > 0;
            self.skipped.cut_count = u64::from(is_first_cut);
        }
        let from = self.place.bytes;
        let count = self.count;
        let until = length.max(from).min(from.saturating_add(bytes_max));
        read_on(file, &mut self.place, until, |_, line| {
            if std::mem::take(&mut is_first_cut) || line == Ok(&[]) {
                return;
            }
            let is_zeros = line.is_ok_and(|line| line.iter().all(|&byte| byte == 0));
            let line = line.ok().filter(|line| line.len() < LIMITS.line_bytes || is_zeros);
            let parsed = line.and_then(parse);
            // A session goes on behind a line that it could not write whole, and counts it as lost.
            if std::mem::take(&mut self.is_cut) && !parsed.as_ref().is_some_and(ends_cut) {
                self.skipped.cut_count -= 1;
                self.skipped.unknown_count += 1;
            }
            match parsed {
                Some(entry) => {
                    self.count += 1;
                    self.entries.push_back(entry);
                }
                None if line.is_some_and(is_cut) => {
                    self.skipped.cut_count += 1;
                    self.is_cut = true;
                }
                None => self.skipped.unknown_count += 1,
            }
        })?;
        let fresh_count = (self.count - count) as usize;
        if self.place.bytes == from {
            // At most a part of a line.
            let is_at_end = until >= length;
            return Ok(Read { bytes: read_bytes + until - from, new_bytes: 0, fresh_count, is_at_end });
        }
        // Pieces are read whole, and may hold more than there was.
        let new_bytes = self.place.bytes.max(until) - from;
        read_bytes += new_bytes;
        let is_at_end = self.place.bytes.max(until) >= length;
        let compared_bytes = self.place.bytes.min(COMPARED_BYTES);
        self.compared.resize(compared_bytes as usize, 0);
        file.file().read_exact_at(&mut self.compared, self.place.bytes - compared_bytes)?;
        Ok(Read { bytes: read_bytes + compared_bytes, new_bytes, fresh_count, is_at_end })
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
