//! Files that are named at the start and read whenever somebody looks at the page: fault campaigns, predictions.
//!
//! One on a file system that answers without a server or a program stays open, and is read by this process. Any other is read by a child
//! with a deadline, by its path, and is not kept open here: a process cannot even end while such a file system does not answer.

use super::apart::{self, Apart, Never, Question};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use surefoot_hostfs::Root;
use surefoot_hostfs::mounts::Mounts;
use surefoot_http::lock;
use surefoot_journal::{GrowingFile, Position, RawLine};

/// Bytes of a file that a child reads at once.
const PIECE_BYTES: u64 = 4 << 20;

/// Where a child reads on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::rooms) struct From {
    place: Position,
    /// Where it stops.
    until: u64,
}

/// What a child read.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::rooms) struct Lines {
    /// Their numbers, and each line or what is wrong with it.
    lines: Vec<(u64, Result<String, String>)>,
    /// How far it is read now.
    place: Position,
    /// The length of the file; `None` where the file system does not answer.
    bytes: Option<u64>,
    /// Why it cannot be read.
    error: Option<String>,
}

/// The child's side: the files that it has open.
#[derive(Debug, Default)]
pub(in crate::rooms) struct Files(HashMap<PathBuf, GrowingFile>);

impl Files {
    /// Reads on in the file, of which there is one or, while it does not answer, none.
    pub(in crate::rooms) fn read_on(&mut self, files: &[PathBuf], from: From, begins: &mut dyn FnMut(usize)) -> Lines {
        let From { mut place, until } = from;
        let Some(path) = files.first() else { return Lines { place, ..Lines::default() } };
        begins(0);
        let mut lines = Vec::new();
        let bytes = self.read(path, &mut place, until, &mut lines);
        match bytes {
            Ok(bytes) => Lines { lines, place, bytes: Some(bytes), error: None },
            Err(error) => Lines { lines, place, bytes: Some(0), error: Some(error.to_string()) },
        }
    }

    fn read(
        &mut self,
        path: &Path,
        place: &mut Position,
        until: u64,
        lines: &mut Vec<(u64, Result<String, String>)>,
    ) -> io::Result<u64> {
        if !self.0.contains_key(path) {
            self.0.insert(path.to_owned(), GrowingFile::open(path)?);
        }
        let Some(file) = self.0.get(path) else { return Ok(0) };
        let bytes = file.bytes()?;
        if bytes >= place.bytes {
            surefoot_journal::read_on(file, place, until, |number, line| {
                let text = |line: &[u8]| String::from_utf8(line.to_vec()).map_err(|_| "it is not UTF-8".to_owned());
                lines.push((number, line.map_err(str::to_owned).and_then(text)));
            })?;
        }
        Ok(bytes)
    }
}

/// A file that the page shows.
#[derive(Debug)]
pub struct ShownFile {
    path: PathBuf,
    way: Way,
}

/// How it is read.
#[derive(Debug)]
enum Way {
    Held(GrowingFile),
    ByChild(Mutex<Apart<Lines>>),
}

impl ShownFile {
    /// Opens it, or finds that it is to be read by a child.
    ///
    /// # Errors
    /// As of [`GrowingFile::open`].
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = GrowingFile::open(path)?;
        let way = match apart::is_possible() && !answers(path) {
            false => Way::Held(file),
            // The child has another working directory.
            true => Way::ByChild(Mutex::new(Apart::new("reads files for the page", vec![std::path::absolute(path)?]))),
        };
        Ok(ShownFile { path: path.to_owned(), way })
    }

    /// The path that it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Hands on the whole lines from a place on, as [`surefoot_journal::read_on`]. The number of bytes that the file has is returned;
    /// where that is less than was read before, nothing is handed on.
    ///
    /// # Errors
    /// Why it cannot be read, or that its file system does not answer.
    pub(super) fn read_on(
        &self,
        place: &mut Position,
        bytes_max: u64,
        mut take: impl FnMut(u64, RawLine<'_>),
    ) -> Result<u64, NotRead> {
        let failed = |error: io::Error| NotRead::Failed(format!("cannot be read: {error}"));
        match &self.way {
            Way::Held(file) => {
                let bytes = file.bytes().map_err(failed)?;
                if bytes >= place.bytes {
                    surefoot_journal::read_on(file, place, bytes_max, take).map_err(failed)?;
                }
                Ok(bytes)
            }
            Way::ByChild(apart) => loop {
                let mut apart = lock(apart);
                let from = From { place: place.clone(), until: bytes_max.min(place.bytes.saturating_add(PIECE_BYTES)) };
                let ask =
                    |files: &[PathBuf], _: bool| Question::Lines { files: apart::bytes_of(files), from: from.clone() };
                let read = apart.look(&Never, ask).map_err(NotRead::Now)?.unwrap_or_default();
                let Some(bytes) = read.bytes else {
                    return Err(NotRead::Now("its file system does not answer; what it held before is shown".into()));
                };
                for (number, line) in &read.lines {
                    match line {
                        Ok(line) => take(*number, Ok(line.as_bytes())),
                        Err(_) => take(*number, Err("longer than 64 KiB, or not UTF-8")),
                    }
                }
                if let Some(error) = read.error {
                    return Err(NotRead::Failed(format!("cannot be read: {error}")));
                }
                let is_over = read.place.bytes == place.bytes || read.place.bytes >= bytes_max;
                *place = read.place;
                if is_over {
                    return Ok(bytes);
                }
            },
        }
    }
}

/// Why a file was not read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotRead {
    /// For good.
    Failed(String),
    /// This time.
    Now(String),
}

/// Whether the file system of a path answers without a server or a program.
fn answers(path: &Path) -> bool {
    let Ok(path) = path.canonicalize() else { return false };
    Mounts::read(&Root::host()).is_ok_and(|mounts| mounts.on(&path).is_some_and(|mount| mount.answers()))
}
