//! Files that a command is to write at its end, opened at its beginning: what cannot be written is refused before any
//! work is done for it.

use anyhow::Context;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use surefoot_store::output::Opened;

/// A file to be written once. Until then an existing file keeps its content, and one that had to be created goes away
/// again when nothing is written.
#[derive(Debug)]
pub struct Destination {
    path: PathBuf,
    file: File,
    is_regular: bool,
    /// Where a file lies that was not there before.
    new: Option<Place>,
    is_written: bool,
}

/// A name in a directory that is held: another directory of its path does not take its place.
#[derive(Debug)]
struct Place {
    directory: File,
    name: OsString,
}

impl Place {
    fn of(path: &Path) -> io::Result<Self> {
        let directory = surefoot_store::output::directory(path)?;
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        Ok(Place { directory, name })
    }

    /// Removes the file if it still is what lies there.
    fn remove(&self, file: &File) -> io::Result<()> {
        let path = Path::new("/proc/self/fd").join(self.directory.as_raw_fd().to_string()).join(&self.name);
        let (own, there) = (file.metadata()?, fs::symlink_metadata(&path)?);
        if (own.dev(), own.ino()) == (there.dev(), there.ino()) { fs::remove_file(path) } else { Ok(()) }
    }
}

impl Destination {
    /// Opens the file that `option` names; it is readable by its owner alone, because stacks and timings of the kernel
    /// are.
    pub fn open(option: &str, path: &Path) -> anyhow::Result<Self> {
        let cannot = || format!("{option}: cannot write {}", path.display());
        let unfit = || format!("{option}: {} is not a file that can be written; name a regular file", path.display());
        // What is there already is kept until there is something to replace it.
        let opened = surefoot_store::output::open(path);
        let Opened { file, is_new, .. } = opened.map_err(|error| match error.raw_os_error() {
            Some(libc::ENXIO | libc::ELOOP | libc::EISDIR) => anyhow::anyhow!(unfit()),
            _ => anyhow::Error::new(error).context(cannot()),
        })?;
        let found = file.metadata().with_context(cannot)?;
        let is_regular = found.is_file();
        anyhow::ensure!(is_regular || found.file_type().is_char_device(), unfit());
        let new = if is_new && is_regular { Some(Place::of(path).with_context(cannot)?) } else { None };
        Ok(Destination { path: path.to_owned(), file, is_regular, new, is_written: false })
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
        if let (Some(new), false) = (&self.new, self.is_written) {
            let _ = new.remove(&self.file);
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
    fn what_took_the_place_of_an_unwritten_file_stays() {
        let folder = folder();
        let (place, moved) = (folder.path().join("d"), folder.path().join("e"));
        let victim = folder.path().join("victim");
        for directory in [&place, &victim] {
            fs::create_dir(directory).unwrap();
        }
        fs::write(victim.join("out"), "precious").unwrap();
        let destination = Destination::open("--trace", &place.join("out")).unwrap();
        fs::rename(&place, &moved).unwrap();
        std::os::unix::fs::symlink(&victim, &place).unwrap();
        drop(destination);
        assert_eq!(fs::read_to_string(victim.join("out")).unwrap(), "precious");
        assert!(!moved.join("out").exists());
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
