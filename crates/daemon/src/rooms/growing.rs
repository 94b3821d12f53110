//! A file of lines that somebody else may still append to, read on from where it was read before.

use std::fs::File;
use std::io;
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
    pub(super) fn open_no_link(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        GrowingFile::of(path, surefoot_foreign::hold_in(way::parent(path)?, name)?)
    }

    fn of(path: &Path, held: Held) -> io::Result<Self> {
        Ok(GrowingFile { path: path.to_owned(), file: held.regular()?.open()? })
    }

    /// The file itself.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Its length now, bytes.
    pub(super) fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}

/// How far a file is read.
#[derive(Debug, Default)]
pub(super) struct Place {
    /// Behind the last whole line.
    pub(super) bytes: u64,
    /// Lines before.
    pub(super) lines: u64,
    /// The line here is too long, and is left out up to its end.
    is_in_long: bool,
}

/// A line, or what is wrong with it.
pub(super) type Line<'a> = Result<&'a [u8], &'static str>;

/// Hands on the whole lines from a place on, until the file ends or this many bytes of it are read; a last line without its
/// end waits.
///
/// # Errors
/// When the file cannot be read.
pub(super) fn read_on(
    of: &GrowingFile,
    place: &mut Place,
    bytes_max: u64,
    mut take: impl FnMut(u64, Line<'_>),
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::Write;

    fn lines(of: &GrowingFile, place: &mut Place) -> Vec<(u64, Option<usize>)> {
        let mut found = Vec::new();
        read_on(of, place, 1 << 30, |number, line| found.push((number, line.ok().map(<[u8]>::len)))).unwrap();
        found
    }

    #[test]
    fn a_file_that_grows_is_read_on_and_a_torn_line_waits_for_its_end() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let of = GrowingFile::open(file.path()).unwrap();
        let mut place = Place::default();
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
            assert_eq!(lines(&of, &mut Place::default()), [(1, None), (2, Some(5))], "{long}");
        }
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let just = vec![b'x'; LINE_BYTES_MAX - 1];
        file.write_all(&[&just[..], b"\n"].concat()).unwrap();
        let of = GrowingFile::open(file.path()).unwrap();
        assert_eq!(lines(&of, &mut Place::default()), [(1, Some(LINE_BYTES_MAX - 1))]);
    }

    #[test]
    fn no_more_is_read_than_was_allowed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        // A hole: bytes without end that take no room on the disk.
        file.as_file().set_len(1 << 40).unwrap();
        let of = GrowingFile::open(file.path()).unwrap();
        let mut place = Place::default();
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
}
