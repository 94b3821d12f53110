//! Reading a journal: its end, as far back as limits count.

use super::file::{bad, expect_own, expect_trusted};
use super::{LIMITS, Unusable, before};
use crate::{Limits, newest};
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use surefoot_model::Deed;

/// How much of the end of a journal is read, unless it does not reach back far enough.
const READ_BYTES: u64 = 1 << 20;
/// How far back is far enough: limits count the steps of an hour.
pub(super) const BACK_NS: u64 = 2 * 3_600_000_000_000;

/// The content of a journal, oldest first.
#[derive(Debug, Default)]
pub struct Read {
    /// The deeds.
    pub deeds: Vec<Deed>,
    /// Unreadable lines. Each may be a deed that counts against a limit.
    pub skipped_count: u64,
    /// The places of those of them whose place is known: the number of deeds before each.
    pub(super) places: Vec<usize>,
}

/// An earlier time is from a clock that was not set: it is before the first release with a journal.
pub(super) const CLOCK_IS_SET_NS: u64 = 1_750_000_000_000_000_000;

impl Read {
    pub(super) fn append(&mut self, newer: Read) {
        let before = self.deeds.len();
        self.places.extend(newer.places.iter().map(|place| before + place));
        self.deeds.extend(newer.deeds);
        self.skipped_count += newer.skipped_count;
    }

    /// How many unreadable lines may have been written since this time. Lines are appended in order, so a line before an older deed is
    /// older too, unless the clock was set back in between.
    pub fn unread_since(&self, since_realtime_ns: u64) -> u64 {
        let now_ns = clock_ns();
        let is_older = |place: &&usize| {
            // A time in the future does not tell when the line was written.
            let before = self.deeds.iter().take(**place).map(|deed| deed.at_realtime_ns);
            let latest_before = before.filter(|at_ns| *at_ns <= now_ns).max();
            let floor = latest_before.unwrap_or(0).max(CLOCK_IS_SET_NS);
            let after = self.deeds.iter().skip(**place).map(|deed| deed.at_realtime_ns);
            after.into_iter().any(|at_ns| (floor..since_realtime_ns).contains(&at_ns))
        };
        self.skipped_count.saturating_sub(self.places.iter().filter(is_older).count() as u64)
    }
}

/// The deeds in one file.
///
/// # Errors
/// [`Unusable`] when the file exists and cannot be read.
pub fn look(path: &Path) -> Result<Read, Unusable> {
    let found = surefoot_foreign::hold_name(path).and_then(|held| held.regular()?.open()).and_then(|file| {
        expect_own(&file.metadata()?)?;
        read(&file)
    });
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Read::default()),
        found => found.map_err(|error| bad(path, format!("the journal cannot be read: {error}"))),
    }
}

/// The deeds of one file that `is_wanted` picks, however old. The lines of others are counted only if they are no deeds.
///
/// # Errors
/// [`Unusable`] when the file exists and cannot be read, or others could have written it.
pub fn find(path: &Path, is_wanted: &dyn Fn(&Deed) -> bool) -> Result<Read, Unusable> {
    let found = surefoot_foreign::hold_name(path).and_then(|held| held.regular()?.open()).and_then(|file| {
        expect_trusted(&file.metadata()?)?;
        newest(&file, LIMITS, |line| parse(line).map(|deed| is_wanted(&deed).then_some(deed)))
    });
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Read::default()),
        Err(error) => Err(bad(path, format!("the journal cannot be read: {error}"))),
        Ok(found) => Ok(Read {
            deeds: found.lines.into_iter().flatten().collect(),
            skipped_count: found.skipped_count,
            places: Vec::new(),
        }),
    }
}

/// A line as a deed; `None` if it is none, or one of another release.
pub fn parse(line: &[u8]) -> Option<Deed> {
    serde_json::from_slice(line).ok().or_else(|| before::parse(line))
}

/// Reads the end of a journal, back to [`BACK_NS`] ago.
pub(super) fn read(file: &File) -> io::Result<Read> {
    let (read, is_enough) = read_end(file, READ_BYTES)?;
    if is_enough { Ok(read) } else { Ok(read_end(file, LIMITS.file_bytes)?.0) }
}

/// Reads this much of the end of a journal, and tells whether that is all of it or reaches back far enough.
fn read_end(file: &File, file_bytes: u64) -> io::Result<(Read, bool)> {
    let (mut places, mut count) = (Vec::new(), 0);
    let found = newest(file, Limits { file_bytes, ..LIMITS }, |line| {
        let deed = parse(line);
        match deed {
            Some(_) => count += 1,
            None => places.push(count),
        }
        deed
    })?;
    let mut read = Read { deeds: found.lines, skipped_count: found.skipped_count, places };
    let far = CLOCK_IS_SET_NS..clock_ns().saturating_sub(BACK_NS);
    let is_enough = !found.is_cut || read.deeds.iter().any(|deed| far.contains(&deed.at_realtime_ns));
    if !is_enough {
        // The rest, which was not read, counts as one more unreadable line before all others.
        read.skipped_count += 1;
        read.places.insert(0, 0);
    }
    Ok((read, is_enough))
}

pub(super) fn clock_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
