//! SQLite's log of writes (`FILE-wal`): what was committed and is not in the database yet.
//!
//! The format is SQLite's, <https://www.sqlite.org/fileformat2.html#the_write_ahead_log>: a header of 32 bytes, then frames of 24
//! bytes and a page each. A frame counts if its salt is the header's and its sum goes on from that of the frame before; what counts
//! reaches to the last frame that ends a commit.

use std::collections::BTreeMap;
use std::io::{self, Read};

pub(super) const HEADER_BYTES: usize = 32;
pub(super) const FRAME_HEADER_BYTES: usize = 24;
const MAGIC: u32 = 0x377f_0682;
const VERSION: u32 = 3_007_000;

/// Where a database says which journal it was written with, and what stands there for one without a log.
const VERSIONS_AT: std::ops::Range<usize> = 18..20;

/// Says that the database has no log, so that it can be opened in memory.
pub(super) fn without_log(database: &mut [u8]) {
    if let Some(versions) = database.get_mut(VERSIONS_AT).filter(|versions| **versions == [2, 2]) {
        versions.copy_from_slice(&[1, 1]);
    }
}

/// Says that the database is written through a log.
pub(super) fn with_log(database: &mut [u8]) {
    if let Some(versions) = database.get_mut(VERSIONS_AT).filter(|versions| **versions == [1, 1]) {
        versions.copy_from_slice(&[2, 2]);
    }
}

/// Writes the committed pages of a log into the bytes of its database. A log that was never written to has none. Whether it is a log.
///
/// # Errors
/// What is wrong with it, where its pages do not fit.
pub(super) fn fold(database: &mut Vec<u8>, log: &[u8], bytes_max: u64) -> Result<bool, String> {
    let Some(mut frames) = Frames::of(log).map_err(|error| error.to_string())? else {
        // SQLite writes nothing behind a header before that is on the disk.
        return Ok(log.len() <= HEADER_BYTES);
    };
    let page_bytes = frames.page_bytes();
    let (mut pending, mut committed, mut pages, mut at) = (Vec::new(), BTreeMap::new(), None, HEADER_BYTES);
    while let Some(frame) = frames.next().map_err(|error| error.to_string())? {
        pending.push((frame.number, at + FRAME_HEADER_BYTES));
        if let Some(pages_now) = frame.commits {
            committed.extend(pending.drain(..));
            pages = Some(pages_now);
        }
        at += FRAME_HEADER_BYTES + page_bytes;
    }
    let Some(pages) = pages else { return Ok(true) };
    let length = u64::from(pages) * page_bytes as u64;
    // SQLite need not write pages that were freed in the transaction that made them, so there may be more of them than the files
    // hold. Many times more is a claim, made to have much memory set aside.
    let bytes_max = bytes_max.min(4 * (database.len() + log.len()) as u64 + (1 << 20));
    let length = usize::try_from(length).ok().filter(|_| length <= bytes_max);
    let Some(length) = length else { return Err(format!("its log claims a length of {pages} pages")) };
    database.resize(length, 0);
    for (number, at) in committed {
        let place = (number as usize).checked_sub(1).map(|index| index * page_bytes);
        // A page behind the end belonged to what was cut off since.
        let page = place.and_then(|place| database.get_mut(place..place + page_bytes));
        if let Some(page) = page {
            page.copy_from_slice(&log[at..at + page_bytes]);
        }
    }
    Ok(true)
}

/// A page that the log holds.
pub(super) struct Frame {
    /// The number of the page, from 1.
    pub(super) number: u32,
    /// The pages of the database from here on, where the frame ends a commit.
    pub(super) commits: Option<u32>,
}

/// The frames of a log that count, one after the other, also those of a commit that was never ended.
pub(super) struct Frames<R> {
    log: R,
    header: Header,
    sums: [u32; 2],
    frame: Vec<u8>,
}

impl<R: Read> Frames<R> {
    /// `None` where it does not begin as a log does.
    pub(super) fn of(mut log: R) -> io::Result<Option<Self>> {
        let mut bytes = [0; HEADER_BYTES];
        if !fill(&mut log, &mut bytes)? {
            return Ok(None);
        }
        Ok(Header::read(&bytes).map(|header| Frames {
            frame: vec![0; FRAME_HEADER_BYTES + header.page_bytes],
            sums: header.sums,
            log,
            header,
        }))
    }

    pub(super) fn page_bytes(&self) -> usize {
        self.header.page_bytes
    }

    /// The page of the frame that came last.
    pub(super) fn page(&self) -> &[u8] {
        &self.frame[FRAME_HEADER_BYTES..]
    }

    pub(super) fn next(&mut self) -> io::Result<Option<Frame>> {
        if !fill(&mut self.log, &mut self.frame)? {
            return Ok(None);
        }
        let (header, frame) = (&self.header, &self.frame);
        self.sums = header.sum(header.sum(self.sums, &frame[..8]), &frame[FRAME_HEADER_BYTES..]);
        if [word(frame, 8), word(frame, 12)] != header.salt || [word(frame, 16), word(frame, 20)] != self.sums {
            return Ok(None);
        }
        let commits = Some(word(frame, 4)).filter(|&pages| pages > 0);
        Ok(Some(Frame { number: word(frame, 0), commits }))
    }
}

/// Whether so many bytes were left.
pub(super) fn fill(log: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match log.read_exact(bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        filled => filled.map(|()| true),
    }
}

pub(super) struct Header {
    pub(super) page_bytes: usize,
    pub(super) salt: [u32; 2],
    /// The sum of the header, with which that of the first frame begins.
    pub(super) sums: [u32; 2],
    is_big_endian: bool,
}

impl Header {
    pub(super) fn read(log: &[u8]) -> Option<Self> {
        let bytes = log.get(..HEADER_BYTES)?;
        let magic = word(bytes, 0);
        let page_bytes = word(bytes, 8) as usize;
        let is_one = magic & !1 == MAGIC
            && word(bytes, 4) == VERSION
            && page_bytes.is_power_of_two()
            && (512..=65_536).contains(&page_bytes);
        let mut header = Header {
            page_bytes,
            salt: [word(bytes, 16), word(bytes, 20)],
            sums: [0, 0],
            is_big_endian: magic & 1 == 1,
        };
        header.sums = header.sum([0, 0], &bytes[..24]);
        (is_one && header.sums == [word(bytes, 24), word(bytes, 28)]).then_some(header)
    }

    /// The sum goes on over words of the machine that wrote the log.
    pub(super) fn sum(&self, [mut first, mut second]: [u32; 2], bytes: &[u8]) -> [u32; 2] {
        for pair in bytes.chunks_exact(8) {
            let word = |at| if self.is_big_endian { word(pair, at) } else { word(pair, at).swap_bytes() };
            first = first.wrapping_add(word(0)).wrapping_add(second);
            second = second.wrapping_add(word(4)).wrapping_add(first);
        }
        [first, second]
    }
}

/// A word of four bytes, the highest first.
pub(super) fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of one frame, whose commit claims so many pages.
    fn log(pages: u32) -> Vec<u8> {
        let mut log = [MAGIC, VERSION, 512, 0, 7, 9].map(u32::to_be_bytes).concat();
        let mut header = Header { page_bytes: 512, salt: [7, 9], sums: [0, 0], is_big_endian: false };
        header.sums = header.sum([0, 0], &log);
        log.extend(header.sums.map(u32::to_be_bytes).concat());
        let begin = [1, pages].map(u32::to_be_bytes).concat();
        let page = [5; 512];
        let sums = header.sum(header.sum(header.sums, &begin), &page);
        log.extend([&begin[..], &[7u32, 9, sums[0], sums[1]].map(u32::to_be_bytes).concat(), &page].concat());
        log
    }

    #[test]
    fn a_small_log_that_claims_a_long_database_has_no_memory_set_aside() {
        let mut database = vec![1; 512];
        fold(&mut database, &log(3), 512 << 20).unwrap();
        assert_eq!(database, [vec![5; 512], vec![0; 1024]].concat(), "pages that were freed at once are not written");
        let mut database = vec![1; 512];
        let why = fold(&mut database, &log(1 << 20), 512 << 20).unwrap_err();
        assert_eq!((why.as_str(), database.len()), ("its log claims a length of 1048576 pages", 512));
    }
}
