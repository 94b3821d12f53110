//! Small files of the kernel: one number or one line each.

use super::Problems;
use super::problem::reason;
use std::fs::{DirEntry, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use surefoot_foreign::said;
use surefoot_hostfs::{Error, Root};
use surefoot_model::{Digits, MemorySource, one_line};

/// What the kernel writes there fits into a page.
const FILE_BYTES_MAX: usize = 4096;

/// No number is as long. A counter is read hundreds of times, and clearing a page each time would cost more than reading.
const NUMBER_BYTES_MAX: usize = 128;

/// A label, the name of a controller: longer ones are cut.
const WORDS_MAX: usize = 128;

/// The highest number that an EDAC counter holds: they are 32 bits wide.
pub(super) const COUNT_MAX: u64 = u32::MAX as u64;

/// The entries of a folder, at most so many. That there are more, or that the listing broke off, is a problem: what is there besides is not
/// known.
pub(super) fn entries(
    source: MemorySource,
    folder: &Path,
    limit: usize,
    problems: &mut Problems,
) -> std::io::Result<Vec<DirEntry>> {
    let (found, rest) = whole(std::fs::read_dir(folder)?, limit);
    match rest {
        Rest::None => {}
        Rest::More => problems.add(
            source,
            folder,
            format!(
                "it has more than {limit} entries, and those beyond were not looked at: what they count is not known"
            ),
        ),
        Rest::Broken(error) => problems.add(
            source,
            folder,
            format!("its listing broke off ({}): what comes after is not known; look again", said(&error)),
        ),
    }
    Ok(found)
}

/// What a listing has beyond what was taken of it.
#[derive(Debug)]
enum Rest {
    None,
    More,
    Broken(std::io::Error),
}

fn whole<T>(entries: impl Iterator<Item = std::io::Result<T>>, limit: usize) -> (Vec<T>, Rest) {
    let mut found = Vec::new();
    for entry in entries {
        match entry {
            Ok(_) if found.len() == limit => return (found, Rest::More),
            Ok(entry) => found.push(entry),
            Err(error) => return (found, Rest::Broken(error)),
        }
    }
    (found, Rest::None)
}

/// A file that is read again and again.
#[derive(Debug)]
pub(super) struct Counter {
    pub path: PathBuf,
    /// The highest number that can be in it.
    max: u64,
    file: File,
}

/// Why a counter gives no number.
#[derive(Debug)]
pub(super) enum Failed {
    /// There is no such file.
    Absent,
    /// There is one, and this is wrong.
    Wrong(String),
}

impl Counter {
    pub fn open(root: &Root, path: PathBuf, max: u64) -> Result<Self, Failed> {
        match root.open_plain(&path) {
            Ok(file) => Ok(Counter { path, max, file }),
            Err(error) if error.is_absent() => Err(Failed::Absent),
            Err(error) => Err(Failed::Wrong(reason(&error))),
        }
    }

    pub fn read(&self) -> Result<u64, Failed> {
        let mut buffer = [0_u8; NUMBER_BYTES_MAX];
        let bytes = content(&self.file, &self.path, &mut buffer).map_err(|error| match error {
            error if error.is_absent() => Failed::Absent,
            error => Failed::Wrong(reason(&error)),
        })?;
        number(bytes, self.max).map_err(Failed::Wrong)
    }
}

/// The content of a file from its beginning.
fn content<'a>(file: &File, path: &Path, buffer: &'a mut [u8]) -> Result<&'a [u8], Error> {
    let mut length = 0;
    while length < buffer.len() {
        let read = file.read_at(&mut buffer[length..], length as u64);
        let read = read.map_err(|source| Error::Read { path: path.to_path_buf(), source })?;
        length += read;
        // The kernel ends such a file with a line end; asking once more would cost as much again.
        if read == 0 || buffer[length - 1] == b'\n' {
            return Ok(&buffer[..length]);
        }
    }
    Err(Error::TooLarge { path: path.to_path_buf(), limit_bytes: buffer.len() as u64 - 1 })
}

/// One line of text; what would command a terminal is replaced, what is too long is cut.
pub(super) fn line(root: &Root, path: &Path) -> Result<String, Error> {
    let file = root.open_plain(path)?;
    let mut buffer = [0_u8; FILE_BYTES_MAX];
    let bytes = content(&file, path, &mut buffer)?;
    let text = String::from_utf8_lossy(bytes);
    Ok(words(&text))
}

/// Text from outside as one line without blanks around it, cut where it is long.
fn words(text: &str) -> String {
    one_line(text.trim()).chars().take(WORDS_MAX).collect()
}

/// A number and nothing else.
pub(super) fn number(bytes: &[u8], max: u64) -> Result<u64, String> {
    let text = bytes.trim_ascii();
    if text.is_empty() {
        return Err("it is empty where a count should be; look again, and if it stays so reload the EDAC driver".into());
    }
    if text.iter().all(u8::is_ascii_digit) {
        let count = std::str::from_utf8(text).ok().and_then(|text| text.digits::<u64>());
        return count.filter(|count| *count <= max).ok_or_else(|| {
            format!("it holds {}, more than a counter of its kind can hold ({max}); it was not counted", short(text))
        });
    }
    if let [b'-', digits @ ..] = text
        && !digits.is_empty()
        && digits.iter().all(u8::is_ascii_digit)
    {
        return Err(format!("it holds {}, and a count is never negative; it was not counted", short(text)));
    }
    Err(format!("it holds '{}', which is no count; it was not counted", short(text)))
}

fn short(text: &[u8]) -> String {
    const LONGEST: usize = 40;
    let mut shown = one_line(&String::from_utf8_lossy(&text[..text.len().min(LONGEST)]));
    if text.len() > LONGEST {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    /// A listing that fails half-way is no shorter folder.
    #[test]
    fn a_listing_that_breaks_off_or_goes_on_is_told_from_one_that_ends() {
        let of = |bad_at: Option<usize>, limit: usize| {
            let broken = || std::io::Error::from_raw_os_error(5);
            whole((0..5).map(|at| if Some(at) == bad_at { Err(broken()) } else { Ok(at) }), limit)
        };
        assert!(matches!(of(None, 5), (all, Rest::None) if all.len() == 5));
        assert!(matches!(of(None, 4), (some, Rest::More) if some == [0, 1, 2, 3]));
        assert!(matches!(of(Some(2), 5), (some, Rest::Broken(_)) if some == [0, 1]));
    }

    #[test]
    fn only_a_number_that_a_counter_holds_is_one() {
        for (text, wanted) in [("0\n", 0), ("4294967295\n", COUNT_MAX), (" 7 \n", 7), ("0012", 12)] {
            assert_eq!(number(text.as_bytes(), COUNT_MAX), Ok(wanted), "{text:?}");
        }
        for (text, words) in [
            ("", "empty"),
            ("\n", "empty"),
            ("-1\n", "never negative"),
            ("4294967296\n", "more than a counter"),
            ("999999999999999999999999999999999999999999999\n", "…"),
            ("12 3", "'12 3', which is no count"),
            ("0x10", "no count"),
            ("\u{1b}[2J", "'?[2J'"),
            ("-", "no count"),
        ] {
            let why = number(text.as_bytes(), COUNT_MAX).unwrap_err();
            assert!(why.contains(words), "{text:?}: {why}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_number_or_a_reason_of_one_line(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            match number(&bytes, COUNT_MAX) {
                Ok(count) => prop_assert_eq!(
                    String::from_utf8(bytes).unwrap().trim().trim_start_matches('0').to_owned(),
                    if count == 0 { String::new() } else { count.to_string() }
                ),
                Err(why) => prop_assert!(!why.contains(char::is_control) && why.len() < 300),
            }
        }
    }
}
