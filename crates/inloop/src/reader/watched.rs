//! One loop under observation: an open file, and how far it was read.

use super::owner::{self, Claim};
use crate::layout::{Described, Fault, GAP_BYTES, HEADER_BYTES, Header, file_bytes, u64_at};
use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{Ordering, fence};

/// How often the head is read until two readings agree; a reading through a file may come in two halves.
const HEAD_READINGS: usize = 8;

/// Why a file is not, or no longer, a loop that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// Its writer has not finished it.
    NotReady,
    /// No library of this version wrote it, or somebody cut or changed it since.
    Broken,
    /// The kernel refused to read it.
    Unreadable,
}

#[derive(Debug)]
pub(crate) struct Watched {
    file: File,
    /// What tells whether its thread runs, open.
    pub(crate) stat: Option<File>,
    pub(crate) described: Described,
    /// The user whose file it is.
    pub(crate) user: u32,
    /// The number of the next gap to read.
    cursor: u64,
}

/// What one look at a ring brings.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// (before, after), oldest first.
    pub(crate) gaps: Vec<(u64, u64)>,
    /// Gaps that were overwritten before they were read.
    pub(crate) overwritten: u64,
    /// Gaps that do not end after they begin.
    pub(crate) impossible: u64,
}

impl Watched {
    /// Takes a file that may be anything.
    pub(crate) fn new(file: File) -> Result<Self, Unusable> {
        let metadata = file.metadata().map_err(|_| Unusable::Unreadable)?;
        if !metadata.is_file() {
            return Err(Unusable::Broken);
        }
        let mut bytes = [0u8; HEADER_BYTES];
        if metadata.len() < HEADER_BYTES as u64 || file.read_exact_at(&mut bytes, 0).is_err() {
            return Err(Unusable::NotReady);
        }
        let described = Described::from_bytes(&bytes).map_err(|fault| match fault {
            Fault::NotReady => Unusable::NotReady,
            Fault::Version | Fault::Impossible => Unusable::Broken,
        })?;
        if metadata.len() != file_bytes(described.capacity) as u64 {
            return Err(Unusable::Broken);
        }
        Ok(Watched { file, stat: None, described, user: metadata.uid(), cursor: 0 })
    }

    /// Leaves out what was written so far.
    pub(crate) fn skip(&mut self) -> Result<(), Unusable> {
        self.cursor = self.head()?;
        Ok(())
    }

    /// Whether the file was removed, as the loop does when it ends.
    pub(crate) fn is_removed(&self) -> bool {
        self.file.metadata().map_or(true, |metadata| metadata.nlink() == 0)
    }

    /// Whether the thread still runs that opened the loop.
    pub(crate) fn runs(&self) -> Claim {
        match &self.stat {
            Some(stat) => owner::still_runs(stat),
            None => owner::runs(&self.described),
        }
    }

    /// Copies the gaps that were written since the last time. At most as many as the ring holds.
    pub(crate) fn take(&mut self) -> Result<Taken, Unusable> {
        let capacity = u64::from(self.described.capacity);
        let head = self.head()?;
        if head < self.cursor {
            return Err(Unusable::Broken);
        }
        let first = self.cursor.max(head.saturating_sub(capacity));
        let bytes = self.copy(first, head)?;
        // What was copied is older than the head that is read next.
        fence(Ordering::Acquire);
        let head_after = self.head()?;
        if head_after < head {
            return Err(Unusable::Broken);
        }
        // The place of the gap that may be in the making was that of gap `head_after - capacity`.
        let intact = first.max(head_after.saturating_add(1).saturating_sub(capacity)).min(head);
        let mut taken = Taken { overwritten: intact - self.cursor, ..Taken::default() };
        for number in intact..head {
            let at = (number - first) as usize * GAP_BYTES;
            let (before, after) = (u64_at(&bytes, at), u64_at(&bytes, at + 8));
            if after > before {
                taken.gaps.push((before, after));
            } else {
                taken.impossible += 1;
            }
        }
        self.cursor = head;
        Ok(taken)
    }

    fn head(&self) -> Result<u64, Unusable> {
        let read = || {
            let mut bytes = [0u8; 8];
            let read = self.file.read_exact_at(&mut bytes, offset_of!(Header, head) as u64);
            read.map(|()| u64::from_ne_bytes(bytes)).map_err(|_| Unusable::Broken)
        };
        let mut head = read()?;
        for _ in 1..HEAD_READINGS {
            let again = read()?;
            if again == head {
                break;
            }
            head = again;
        }
        Ok(head)
    }

    /// The bytes of the gaps from `first` on up to `end`, at most the whole ring, in the order in which they happened.
    fn copy(&self, first: u64, end: u64) -> Result<Vec<u8>, Unusable> {
        let capacity = u64::from(self.described.capacity);
        let mut bytes = vec![0u8; (end - first) as usize * GAP_BYTES];
        let place = first % capacity;
        let until_end = ((capacity - place) as usize * GAP_BYTES).min(bytes.len());
        let (old, new) = bytes.split_at_mut(until_end);
        let offset = HEADER_BYTES as u64 + place * GAP_BYTES as u64;
        self.file.read_exact_at(old, offset).map_err(|_| Unusable::Broken)?;
        self.file.read_exact_at(new, HEADER_BYTES as u64).map_err(|_| Unusable::Broken)?;
        Ok(bytes)
    }
}
