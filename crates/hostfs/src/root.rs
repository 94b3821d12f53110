use crate::Error;
use crate::kept::Kept;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Where /proc, /sys and /dev are found: on the host itself, or in a recorded tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    base: PathBuf,
    host: bool,
    kept: Kept,
}

impl Root {
    /// How much of one file [`Root::read`] takes, bytes.
    pub const READ_LIMIT_BYTES: u64 = 16 << 20;

    /// The running host.
    pub fn host() -> Self {
        Root { base: PathBuf::from("/"), host: true, kept: Kept::default() }
    }

    /// A recorded or made-up tree with `proc`, `sys`, `dev`, `run` under `base`.
    pub fn at(base: impl Into<PathBuf>) -> Self {
        Root { base: base.into(), host: false, kept: Kept::default() }
    }

    /// Whether this is the running host, so that CPUID and system calls speak of the same machine as the files.
    pub fn is_host(&self) -> bool {
        self.host
    }

    /// A path below the root; a leading `/` is ignored.
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        let relative = relative.as_ref();
        self.base.join(relative.strip_prefix("/").unwrap_or(relative))
    }

    /// A path below /proc.
    pub fn proc(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.below("proc", relative.as_ref())
    }

    /// A path below /sys.
    pub fn sys(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.below("sys", relative.as_ref())
    }

    /// A path below /dev.
    pub fn dev(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.below("dev", relative.as_ref())
    }

    fn below(&self, top: &str, relative: &Path) -> PathBuf {
        // Joining an absolute path would leave the root.
        self.base.join(top).join(relative.strip_prefix("/").unwrap_or(relative))
    }

    /// The text of a file, up to [`Root::READ_LIMIT_BYTES`]. Bytes that are not UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// [`Error::Read`] or [`Error::TooLarge`], naming the path.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<String, Error> {
        self.read_up_to(path, Self::READ_LIMIT_BYTES)
    }

    /// As [`Root::read`], with another limit.
    ///
    /// # Errors
    /// [`Error::Read`] or [`Error::TooLarge`], naming the path.
    pub fn read_up_to(&self, path: impl AsRef<Path>, limit_bytes: u64) -> Result<String, Error> {
        let path = path.as_ref();
        let file = open(path).map_err(|source| Error::Read { path: path.to_path_buf(), source })?;
        read_file(file, path, limit_bytes)
    }

    /// As [`Root::read`], for a file of the kernel that is read again and again: on the host it stays open, for this root
    /// and its clones, because a file that is closed is freed through RCU, and that interrupts every busy core.
    ///
    /// # Errors
    /// [`Error::Read`] or [`Error::TooLarge`], naming the path.
    pub fn read_again(&self, path: impl AsRef<Path>) -> Result<String, Error> {
        self.read_again_up_to(path, Self::READ_LIMIT_BYTES)
    }

    /// As [`Root::read_again`], with another limit.
    ///
    /// # Errors
    /// [`Error::Read`] or [`Error::TooLarge`], naming the path.
    pub fn read_again_up_to(&self, path: impl AsRef<Path>, limit_bytes: u64) -> Result<String, Error> {
        let path = path.as_ref();
        // Files of a recorded tree may be replaced by others of the same name.
        if self.host { self.kept.read(path, limit_bytes) } else { self.read_up_to(path, limit_bytes) }
    }

    /// Opens a file for reading, without waiting; a symbolic link in the last place is refused, so that a name that a stranger may
    /// have put there chooses no other file. For who reads a file again and again and keeps it open.
    ///
    /// # Errors
    /// [`Error::Read`], naming the path.
    pub fn open_plain(&self, path: impl AsRef<Path>) -> Result<File, Error> {
        let path = path.as_ref();
        let flags = libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
        opened.map_err(|source| Error::Read { path: path.to_path_buf(), source })
    }

    #[cfg(test)]
    pub(crate) fn kept_files(&self) -> usize {
        self.kept.count()
    }

    /// As [`Root::read`], but a file that is not there gives `None`.
    ///
    /// # Errors
    /// [`Error::Read`] or [`Error::TooLarge`] for a file that is there and cannot be read.
    pub fn read_if_present(&self, path: impl AsRef<Path>) -> Result<Option<String>, Error> {
        match self.read(path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The text of an open file up to a limit; the path is for messages.
pub(crate) fn read_file(file: File, path: &Path, limit_bytes: u64) -> Result<String, Error> {
    let mut bytes = Vec::new();
    let taken = file.take(limit_bytes.saturating_add(1)).read_to_end(&mut bytes);
    taken.map_err(|source| Error::Read { path: path.to_path_buf(), source })?;
    text(bytes, path, limit_bytes)
}

/// The text of a file's bytes, if they are not beyond the limit.
pub(crate) fn text(bytes: Vec<u8>, path: &Path, limit_bytes: u64) -> Result<String, Error> {
    if bytes.len() as u64 > limit_bytes {
        return Err(Error::TooLarge { path: path.to_path_buf(), limit_bytes });
    }
    Ok(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

/// Opens for reading without waiting: a named pipe in a hostile tree must not stop us.
///
/// # Errors
/// As the kernel reports them.
pub fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn no_relative_path_leaves_the_root() {
        let root = Root::at("/tree");
        assert_eq!(root.proc("/stat"), Path::new("/tree/proc/stat"));
        assert_eq!(root.sys("kernel/btf"), Path::new("/tree/sys/kernel/btf"));
        assert_eq!(root.path("/run/.containerenv"), Path::new("/tree/run/.containerenv"));
    }

    #[test]
    fn a_file_over_the_limit_is_refused_and_named() {
        let tree = tempfile::tempdir().unwrap();
        let path = tree.path().join("long");
        std::fs::write(&path, "12345").unwrap();
        let root = Root::at(tree.path());
        assert_eq!(root.read_up_to(&path, 5).unwrap(), "12345");
        let error = root.read_up_to(&path, 4).unwrap_err();
        assert_eq!(error.to_string(), format!("{} is longer than 4 bytes and was not read", path.display()));
    }

    #[test]
    fn a_link_is_not_opened_where_a_plain_file_is_wanted() {
        let tree = tempfile::tempdir().unwrap();
        let (file, link) = (tree.path().join("file"), tree.path().join("link"));
        std::fs::write(&file, "7").unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        let root = Root::at(tree.path());
        assert!(root.open_plain(&file).is_ok());
        let refused = root.open_plain(&link).unwrap_err();
        assert!(refused.is_link() && !refused.is_absent(), "{refused}");
        assert_eq!(root.read(&link).unwrap(), "7");
    }

    #[test]
    fn a_missing_file_is_absent_and_named() {
        let tree = tempfile::tempdir().unwrap();
        let root = Root::at(tree.path());
        let error = root.read(root.proc("stat")).unwrap_err();
        assert!(error.is_absent() && !error.is_denied());
        assert!(error.to_string().contains("proc/stat"), "{error}");
        assert!(root.read_if_present(root.proc("stat")).unwrap().is_none());
    }
}
