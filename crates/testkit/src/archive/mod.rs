//! A tree of files as one text: a made-up machine is one file of the repository, which a change shows line by line.
//!
//! ```text
//! surefoot-tree 1
//! file proc/stat
//! |cpu  10 20 30
//! |cpu0 10 20 30
//! file dev/cpu/0/msr
//! >\x25\x00
//! folder sys/fs/cgroup
//! link proc/self/ns/pid pid:[4026531836]
//! ```
//!
//! - The first line names the format and its version.
//! - `file PATH` begins a file. Its content follows: `|` before each line, `>` before the last one if that has no line
//!   end. A file without such lines is empty.
//! - `folder PATH` is a folder with nothing in it; the folders of files need no line.
//! - `link PATH TARGET` is a symbolic link. Its target may point nowhere, but not out of the tree.
//! - `\xNN` is the byte NN in lower-case hexadecimal, `\\` a backslash. Control characters but the tab, and what is not
//!   UTF-8, are written so everywhere; in paths and targets the blank and the tab, too.
//! - Paths are relative, without `.` and `..`; none is named twice or lies below a file or a link.
//! - Permissions, owners and times are not kept.
//!
//! [`Archive::parse`] refuses anything else and names the line.

mod disk;
mod escape;
#[cfg(test)]
mod tests;

use escape::{escape, unescape};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::ops::Bound::{Excluded, Unbounded};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

const FIRST_LINE: &str = "surefoot-tree 1";

/// The most files, folders and links; a mistaken path must not pack a whole disk.
const ENTRIES_MAX: usize = 10_000;

/// The most bytes of content of all files.
const BYTES_MAX: usize = 64 << 20;

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    File(Vec<u8>),
    Folder,
    Link(PathBuf),
}

/// A tree of files, folders and symbolic links in memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Archive {
    /// Sorted by the names along the path, so what lies below an entry follows it at once.
    entries: BTreeMap<PathBuf, Entry>,
}

/// Why a text is no archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for Malformed {}

impl Archive {
    /// Reads the text of an archive.
    ///
    /// # Errors
    /// [`Malformed`] with the first line that does not belong.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let mut archive = Archive::default();
        let mut open: Option<OpenFile> = None;
        let mut left = BYTES_MAX;
        let mut lines = text.split('\n').enumerate();
        if lines.next().is_none_or(|(_, first)| first != FIRST_LINE) {
            return Err(Malformed { line: 1, reason: format!("'{FIRST_LINE}' is missing") });
        }
        let mut is_ended = false;
        for (index, line) in lines {
            let bad = |reason: String| Malformed { line: index + 1, reason };
            if is_ended {
                return Err(bad("an empty line; an empty line of a file is '|'".into()));
            }
            match line.chars().next() {
                None => is_ended = true,
                Some('|' | '>') => {
                    let file = open.as_mut().ok_or_else(|| bad("content without a file before it".into()))?;
                    file.add(line, &mut left).map_err(bad)?;
                }
                Some(_) => {
                    archive.close(open.take());
                    open = archive.begin(line).map_err(bad)?;
                }
            }
        }
        if !is_ended {
            let reason = "the last line has no line end; the archive was cut off".into();
            return Err(Malformed { line: text.split('\n').count(), reason });
        }
        archive.close(open);
        Ok(archive)
    }

    /// The text that [`Archive::parse`] reads back.
    pub fn to_text(&self) -> String {
        let mut text = format!("{FIRST_LINE}\n");
        for (path, entry) in &self.entries {
            let path = escape(path.as_os_str().as_bytes(), true);
            match entry {
                Entry::Folder => text += &format!("folder {path}\n"),
                Entry::Link(target) => {
                    text += &format!("link {path} {}\n", escape(target.as_os_str().as_bytes(), true))
                }
                Entry::File(content) => {
                    text += &format!("file {path}\n");
                    for line in content.split_inclusive(|&byte| byte == b'\n') {
                        let (mark, line) = line.strip_suffix(b"\n").map_or(('>', line), |line| ('|', line));
                        text += &format!("{mark}{}\n", escape(line, false));
                    }
                }
            }
        }
        text
    }

    /// The content of a file; `None` where no file is.
    pub fn file(&self, path: impl AsRef<Path>) -> Option<&[u8]> {
        match self.entries.get(path.as_ref())? {
            Entry::File(content) => Some(content),
            _ => None,
        }
    }

    /// Reads the first line of an entry. A file is kept open for its content.
    fn begin(&mut self, line: &str) -> Result<Option<OpenFile>, String> {
        let mut words = line.split(' ');
        let (kind, path, target) = (words.next().unwrap_or_default(), words.next(), words.next());
        let rest = words.next();
        let path = || -> Result<PathBuf, String> {
            Ok(PathBuf::from(OsString::from_vec(unescape(path.ok_or("the path is missing")?)?)))
        };
        let (path, entry) = match (kind, target, rest) {
            ("file", None, None) => {
                let path = path()?;
                self.add(path.clone(), Entry::File(Vec::new()))?;
                return Ok(Some(OpenFile { path, content: Vec::new(), is_complete: false }));
            }
            ("folder", None, None) => (path()?, Entry::Folder),
            ("link", Some(target), None) => {
                (path()?, Entry::Link(PathBuf::from(OsString::from_vec(unescape(target)?))))
            }
            ("link", None, _) => return Err("the target of the link is missing".into()),
            ("file" | "folder" | "link", _, _) => return Err("too many words; a blank in a path is \\x20".into()),
            _ => return Err("neither 'file', 'folder', 'link', nor content, which begins with '|' or '>'".into()),
        };
        self.add(path, entry)?;
        Ok(None)
    }

    fn close(&mut self, open: Option<OpenFile>) {
        if let Some(OpenFile { path, content, .. }) = open {
            self.entries.insert(path, Entry::File(content));
        }
    }

    /// Adds what may stand there beside all others.
    fn add(&mut self, path: PathBuf, entry: Entry) -> Result<(), String> {
        let shown = path.display();
        check_path(&path)?;
        if let Entry::Link(target) = &entry {
            check_target(&path, target)?;
        }
        if self.entries.len() == ENTRIES_MAX {
            return Err(format!("more than {ENTRIES_MAX} files, folders and links"));
        }
        if self.entries.contains_key(&path) {
            return Err(format!("'{shown}' is there already"));
        }
        let mut above = path.ancestors().skip(1);
        if let Some(other) =
            above.find(|above| matches!(self.entries.get(*above), Some(Entry::File(_) | Entry::Link(_))))
        {
            return Err(format!("'{shown}' is below '{}', which is not a folder", other.display()));
        }
        let next = self.entries.range::<Path, _>((Excluded(path.as_path()), Unbounded)).next();
        if entry != Entry::Folder && next.is_some_and(|(next, _)| next.starts_with(&path)) {
            return Err(format!("'{shown}' is a folder already"));
        }
        self.entries.insert(path, entry);
        Ok(())
    }
}

/// A file whose content is being read.
struct OpenFile {
    path: PathBuf,
    content: Vec<u8>,
    is_complete: bool,
}

impl OpenFile {
    fn add(&mut self, line: &str, left: &mut usize) -> Result<(), String> {
        if self.is_complete {
            return Err("content after the line without a line end".into());
        }
        let before = self.content.len();
        self.content.extend(unescape(&line[1..])?);
        self.is_complete = line.starts_with('>');
        if self.is_complete && self.content.len() == before {
            return Err("a last line without a line end must not be empty".into());
        }
        if !self.is_complete {
            self.content.push(b'\n');
        }
        let added = self.content.len() - before;
        *left = left.checked_sub(added).ok_or_else(|| format!("more than {BYTES_MAX} bytes in all files"))?;
        Ok(())
    }
}

fn check_path(path: &Path) -> Result<(), String> {
    let bytes = path.as_os_str().as_bytes();
    let is_plain = |name: &[u8]| !matches!(name, b"" | b"." | b"..");
    if bytes.contains(&0) || !bytes.split(|&byte| byte == b'/').all(is_plain) {
        return Err(format!("'{}' is not a path below the tree", path.display()));
    }
    Ok(())
}

/// By its words alone: a target that goes through another link may still lead out. Nothing is written through links.
fn check_target(path: &Path, target: &Path) -> Result<(), String> {
    let bytes = target.as_os_str().as_bytes();
    let mut depth = path.components().count() as isize - 1;
    let stays = bytes.split(|&byte| byte == b'/').all(|name| {
        depth += match name {
            b"" | b"." => 0,
            b".." => -1,
            _ => 1,
        };
        depth >= 0
    });
    if bytes.is_empty() || bytes.contains(&0) || target.is_absolute() || !stays {
        return Err(format!("the link '{}' leads out of the tree, to '{}'", path.display(), target.display()));
    }
    Ok(())
}
