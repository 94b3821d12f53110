//! Reads a journal: a file of lines to which another process may still append.

use crate::Limits;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use surefoot_foreign::{Held, way};

/// A line is no longer than this; those who write such files have the same limit.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Read at once.
const PIECE_BYTES: usize = 256 << 10;

/// A file that grows, open for as long as it is read: what is read later needs no privilege, and no other file can take
/// its name.
#[derive(Debug)]
pub struct GrowingFile {
    path: PathBuf,
    file: File,
}

impl GrowingFile {
    /// Opens it to be read.
    ///
    /// # Errors
    /// Of the system, and when it is not a regular file, which is then not opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        GrowingFile::of(path, surefoot_foreign::hold(path)?)
    }

    /// Opens it in a directory in which others may have put links and mounts.
    ///
    /// # Errors
    /// As of [`GrowingFile::open`], and when it is a link, or a file system that is mounted there.
    pub fn open_no_link(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        GrowingFile::of(path, surefoot_foreign::hold_in(way::parent(path)?, name)?)
    }

    fn of(path: &Path, held: Held) -> io::Result<Self> {
        Ok(GrowingFile { path: path.to_owned(), file: held.regular()?.open()? })
    }

    /// One that was opened and checked already.
    pub fn of_file(path: &Path, file: File) -> Self {
        GrowingFile { path: path.to_owned(), file }
    }

    /// The file itself.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The path that it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its length now, bytes.
    pub fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}

/// How far a file is read.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Position {
    /// Behind the last whole line.
    pub bytes: u64,
    /// Lines before.
    pub lines: u64,
    /// The line here is too long, and is left out up to its end.
    is_in_long: bool,
}

/// A line, or what is wrong with it.
pub type RawLine<'a> = Result<&'a [u8], &'static str>;

/// Hands on the whole lines from a place on, until the file ends or this many bytes of it are read; a last line without its
/// end waits.
///
/// # Errors
/// When the file cannot be read.
pub fn read_on(
    of: &GrowingFile,
    place: &mut Position,
    bytes_max: u64,
    mut take: impl FnMut(u64, RawLine<'_>),
) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    while place.bytes < bytes_max {
        let read = of.file.read_at(&mut piece, place.bytes)?;
        let mut rest = &piece[..read];
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            place.lines += 1;
            place.bytes += end as u64 + 1;
            let is_long = std::mem::take(&mut place.is_in_long) || end >= LINE_BYTES_MAX;
            let line = if is_long { Err("longer than 64 KiB") } else { Ok(&rest[..end]) };
            take(place.lines, line);
            rest = &rest[end + 1..];
        }
        if rest.len() >= LINE_BYTES_MAX {
            place.bytes += rest.len() as u64;
            place.is_in_long = true;
        } else if read < PIECE_BYTES {
            break;
        }
    }
    Ok(())
}

/// The end of a journal.
#[derive(Debug)]
pub struct Newest<T> {
    /// The lines that could be used, oldest first.
    pub lines: Vec<T>,
    /// Lines that could not: too long, torn, or refused by the caller. An unfinished last line is not one of them; it may
    /// still be being written.
    pub skipped_count: u64,
    /// Whether there is more before these lines than [`Limits::file_bytes`] allow to be read.
    pub is_cut: bool,
}

/// Reads the newest lines of a journal, at most [`Limits::file_bytes`] of it. Empty lines are passed over.
///
/// # Errors
/// When the file cannot be read.
pub fn newest<T>(mut file: &File, limits: Limits, mut parse: impl FnMut(&[u8]) -> Option<T>) -> io::Result<Newest<T>> {
    let from = file.metadata()?.len().saturating_sub(limits.file_bytes);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(limits.file_bytes).read_to_end(&mut bytes)?;
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
    let mut found = Newest { lines: Vec::new(), skipped_count: 0, is_cut: from > 0 };
    let mut lines = bytes[..whole].split(|&byte| byte == b'\n');
    if found.is_cut {
        // The first one may begin before the part that is read, as those before it do.
        lines.next();
    }
    for line in lines.filter(|line| !line.is_empty()) {
        // One that is too long is refused by what parses it as well, which then knows its place.
        match parse(if line.len() < limits.line_bytes { line } else { b"" }) {
            Some(value) => found.lines.push(value),
            None => found.skipped_count += 1,
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::Write;

    fn lines(of: &GrowingFile, place: &mut Position) -> Vec<(u64, Option<usize>)> {
        let mut found = Vec::new();
        read_on(of, place, 1 << 30, |number, line| found.push((number, line.ok().map(<[u8]>::len)))).unwrap();
        found
    }

    #[test]
    fn a_file_that_grows_is_read_on_and_a_torn_line_waits_for_its_end() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let of = GrowingFile::open(file.path()).unwrap();
        let mut place = Position::default();
        assert!(lines(&of, &mut place).is_empty());
        file.write_all(b"one\ntw").unwrap();
        assert_eq!(lines(&of, &mut place), [(1, Some(3))]);
        file.write_all(b"o\n\n").unwrap();
        assert_eq!(lines(&of, &mut place), [(2, Some(3)), (3, Some(0))]);
        assert_eq!(place.bytes, of.bytes().unwrap());
    }

    #[test]
    fn a_line_without_end_is_left_out_whatever_its_length() {
        for long in [LINE_BYTES_MAX, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES + 5] {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(&vec![b'x'; long]).unwrap();
            file.write_all(b"\nafter\n").unwrap();
            let of = GrowingFile::open(file.path()).unwrap();
            assert_eq!(lines(&of, &mut Position::default()), [(1, None), (2, Some(5))], "{long}");
        }
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let just = vec![b'x'; LINE_BYTES_MAX - 1];
        file.write_all(&[&just[..], b"\n"].concat()).unwrap();
        let of = GrowingFile::open(file.path()).unwrap();
        assert_eq!(lines(&of, &mut Position::default()), [(1, Some(LINE_BYTES_MAX - 1))]);
    }

    #[test]
    fn no_more_is_read_than_was_allowed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        // A hole: bytes without end that take no room on the disk.
        file.as_file().set_len(1 << 40).unwrap();
        let of = GrowingFile::open(file.path()).unwrap();
        let mut place = Position::default();
        read_on(&of, &mut place, 4 << 20, |_, _| panic!("it has no line")).unwrap();
        assert_eq!(place.bytes, 4 << 20);
    }

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let home = tempfile::tempdir().unwrap();
        let error = GrowingFile::open(home.path()).unwrap_err().to_string();
        assert_eq!(error, "it is not a regular file but a directory");
        assert!(GrowingFile::open(Path::new("/dev/zero")).is_err());
    }

    #[test]
    fn the_end_of_a_file_is_read_and_what_cannot_be_used_is_counted() {
        let limits = Limits { line_bytes: 8, file_bytes: 24 };
        let number = |line: &[u8]| std::str::from_utf8(line).ok()?.parse::<u32>().ok();
        let read = |text: &[u8]| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text).unwrap();
            let found = newest(&file, limits, number).unwrap();
            (found.lines, found.skipped_count, found.is_cut)
        };
        assert_eq!(read(b""), (vec![], 0, false));
        assert_eq!(read(b"1\n\n2\n3"), (vec![1, 2], 0, false), "the last one is still being written");
        assert_eq!(read(b"1\n\xff\n0000001\n00000001\n2"), (vec![1, 1], 2, false));
        assert_eq!(read(b"1111111\n2222222\n3333333\n4\n"), (vec![2_222_222, 3_333_333, 4], 0, true));
        assert_eq!(read(&[b'9'; 100]), (vec![], 0, true), "no line ends there");
    }
}
