//! Files that a command is to write at its end, opened at its beginning: what cannot be written is refused before any
//! work is done for it.

use anyhow::Context;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A file to be written once. Until then an existing file keeps its content, and one that had to be created goes away
/// again when nothing is written.
#[derive(Debug)]
pub struct Destination {
    path: PathBuf,
    file: File,
    is_regular: bool,
    is_new: bool,
    is_written: bool,
}

impl Destination {
    /// Opens the file that `option` names; it is readable by its owner alone, because stacks and timings of the kernel
    /// are.
    pub fn open(option: &str, path: &Path) -> anyhow::Result<Self> {
        let cannot = || format!("{option}: cannot write {}", path.display());
        let unfit = || format!("{option}: {} is not a file that can be written; name a regular file", path.display());
        let is_new = fs::symlink_metadata(path).is_err();
        // Standard output is a link; elsewhere another user may have put one. A pipe that nobody reads is not waited for.
        let no_links = if path.starts_with("/dev") { 0 } else { libc::O_NOFOLLOW };
        let mut options = OpenOptions::new();
        // What is there already is kept until there is something to replace it.
        options.write(true).create(true).truncate(false).mode(0o600);
        let opened = options.custom_flags(no_links | libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
        let file = opened.map_err(|error| match error.raw_os_error() {
            Some(libc::ENXIO | libc::ELOOP | libc::EISDIR) => anyhow::anyhow!(unfit()),
            _ => anyhow::Error::new(error).context(cannot()),
        })?;
        let found = file.metadata().with_context(cannot)?;
        let is_regular = found.is_file();
        anyhow::ensure!(is_regular || found.file_type().is_char_device(), unfit());
        Ok(Destination { path: path.to_owned(), file, is_regular, is_new, is_written: false })
    }

    /// Whether both are one file.
    pub fn is_same(&self, path: &Path) -> bool {
        let (Ok(own), Ok(other)) = (self.file.metadata(), fs::metadata(path)) else { return false };
        self.is_regular && (own.dev(), own.ino()) == (other.dev(), other.ino())
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the content. What could not be written whole is taken away again.
    pub fn write<T>(mut self, write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<T>) -> anyhow::Result<T> {
        let outcome = self.replace(write);
        self.is_written = outcome.is_ok();
        outcome.with_context(|| format!("cannot write {}; nothing of it is kept", self.path.display()))
    }

    fn replace<T>(&self, write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<T>) -> io::Result<T> {
        if self.is_regular {
            self.file.set_len(0)?;
        }
        let mut out = BufWriter::with_capacity(1 << 16, &self.file);
        let outcome = write(&mut out).and_then(|found| out.flush().map(|()| found));
        if outcome.is_err() && self.is_regular {
            // A cut file could be taken for the whole; where even this fails, the message has said so.
            let _ = self.file.set_len(0);
        }
        outcome
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        if self.is_new && self.is_regular && !self.is_written {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn a_file_is_replaced_only_when_there_is_something_to_replace_it() {
        let folder = folder();
        let path = folder.path().join("kept");
        fs::write(&path, "a long old content").unwrap();
        drop(Destination::open("--trace", &path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "a long old content");
        Destination::open("--trace", &path).unwrap().write(|out| out.write_all(b"new")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        let failed = Destination::open("--trace", &path).unwrap().write(|_| Err::<(), _>(io::Error::other("torn")));
        assert!(format!("{:#}", failed.unwrap_err()).contains("torn"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "", "a cut file is not left");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_new_file_is_its_owner_s_and_goes_away_when_nothing_is_written() {
        let folder = folder();
        let path = folder.path().join("new");
        let _ = fs::remove_file(&path);
        let destination = Destination::open("--trace", &path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(destination.is_same(&path) && !destination.is_same(Path::new("/dev/null")));
        drop(destination);
        assert!(!path.exists());
    }

    #[test]
    fn what_cannot_be_written_is_refused_by_option_and_name() {
        for path in ["/nowhere/at/all", "/proc", "/dev/log/x"] {
            let error = format!("{:#}", Destination::open("--trace", Path::new(path)).unwrap_err());
            assert!(error.contains("--trace") && error.contains(path), "{error}");
        }
        let full = Destination::open("--trace", Path::new("/dev/full")).unwrap();
        let error = format!("{:#}", full.write(|out| out.write_all(&[0; 1 << 17])).unwrap_err());
        assert!(error.contains("/dev/full") && error.contains("No space left"), "{error}");
    }
}
