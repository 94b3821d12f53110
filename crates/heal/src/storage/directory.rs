//! Directories and files of strangers, by descriptor: no symbolic link is followed at any part of a path, nothing waits
//! for the other end of a pipe, and what was looked at is what is read.

use std::ffi::{CString, OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Bytes of entries that the kernel gives at once.
const LISTED_BYTES: usize = 32 << 10;
/// Where the type of an entry stands in what the kernel gives, and where its name begins.
const TYPE_AT: usize = 18;
const NAME_AT: usize = 19;

/// An open directory.
#[derive(Debug)]
pub struct Directory {
    file: File,
    found: Metadata,
}

/// What an entry is, as its directory says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// Something else.
    Other,
    /// Neither the directory nor the entry itself says: it is gone, or cannot be looked at.
    Unknown,
}

impl Kind {
    /// Whether it may be a directory.
    pub fn may_be_directory(self) -> bool {
        matches!(self, Kind::Directory | Kind::Unknown)
    }
}

impl Directory {
    /// Opens a directory by its absolute path, part by part.
    ///
    /// # Errors
    /// When a part is no directory, a symbolic link among them, or may not be passed.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut parts = path.components();
        if parts.next() != Some(Component::RootDir) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is not absolute"));
        }
        let mut at = open_at(libc::AT_FDCWD, OsStr::new("/"), libc::O_PATH | libc::O_DIRECTORY)?;
        for part in parts {
            let Component::Normal(name) = part else {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path has a part that leads upwards"));
            };
            at = open_at(at.as_fd().as_raw_fd(), name, libc::O_PATH | libc::O_DIRECTORY)?;
        }
        // A descriptor that only names it cannot be listed.
        Directory::from_descriptor(open_at(at.as_raw_fd(), OsStr::new("."), libc::O_DIRECTORY)?)
    }

    /// Opens a directory in this one.
    ///
    /// # Errors
    /// When it is something else, a symbolic link for instance, or a file system that is mounted there: its user may have done that; and
    /// when it may not be read.
    pub fn below(&self, name: &OsStr) -> io::Result<Self> {
        let held = surefoot_foreign::hold_in(&self.file, name)?;
        if !held.about().is_directory() {
            return Err(io::Error::from_raw_os_error(libc::ENOTDIR));
        }
        Directory::from_descriptor(open_at(held.as_fd().as_raw_fd(), OsStr::new("."), libc::O_DIRECTORY)?)
    }

    /// Opens a regular file in this directory for reading.
    ///
    /// # Errors
    /// When it is something else, a symbolic link or a pipe for instance, is mounted there, or may not be read.
    pub fn file(&self, name: &OsStr) -> io::Result<(File, Metadata)> {
        let file = surefoot_foreign::hold_in(&self.file, name)?.regular()?.open()?;
        let found = file.metadata()?;
        Ok((file, found))
    }

    /// The same directory by a descriptor of its own.
    pub fn of(file: &File) -> io::Result<Self> {
        Directory::from_descriptor(file.try_clone()?.into())
    }

    fn from_descriptor(descriptor: OwnedFd) -> io::Result<Self> {
        let file = File::from(descriptor);
        let found = file.metadata()?;
        Ok(Directory { file, found })
    }

    /// Its descriptor.
    pub fn as_file(&self) -> &File {
        &self.file
    }

    /// It as a path, by its descriptor: whatever becomes of its name, what is below this is below it.
    pub fn held_path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }

    /// What the kernel said of it when it was opened.
    pub fn found(&self) -> &Metadata {
        &self.found
    }

    /// The user that it belongs to.
    pub fn owner(&self) -> u32 {
        self.found.uid()
    }

    /// The user that an entry belongs to; a link's own.
    ///
    /// # Errors
    /// When it is gone.
    pub fn owner_of(&self, name: &OsStr) -> io::Result<u32> {
        let descriptor = open_at(self.file.as_raw_fd(), name, libc::O_PATH)?;
        Ok(File::from(descriptor).metadata()?.uid())
    }

    /// The bytes that a regular file in this directory takes; 0 where there is none.
    pub fn stored_bytes(&self, name: &OsStr) -> u64 {
        self.file_at(name).ok().flatten().map_or(0, |found| found.blocks().saturating_mul(512))
    }

    /// The length of a regular file in this directory; `None` where there is none.
    ///
    /// # Errors
    /// When that cannot be found out.
    pub fn length_of(&self, name: &OsStr) -> io::Result<Option<u64>> {
        Ok(self.file_at(name)?.map(|found| found.len()))
    }

    fn file_at(&self, name: &OsStr) -> io::Result<Option<Metadata>> {
        match open_at(self.file.as_raw_fd(), name, libc::O_PATH).and_then(|it| File::from(it).metadata()) {
            Ok(found) => Ok(Some(found).filter(Metadata::is_file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Tells each entry, in the order of the kernel, until `told` breaks off.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn list(&self, mut told: impl FnMut(OsString, Kind) -> ControlFlow<()>) -> io::Result<()> {
        // Opened anew, so that each listing begins at the first entry.
        let own = open_at(self.file.as_raw_fd(), OsStr::new("."), libc::O_DIRECTORY)?;
        let mut bytes = vec![0u8; LISTED_BYTES];
        loop {
            // SAFETY: the kernel writes at most as many bytes as the buffer has.
            let count =
                unsafe { libc::syscall(libc::SYS_getdents64, own.as_raw_fd(), bytes.as_mut_ptr(), bytes.len()) };
            let mut rest = match usize::try_from(count) {
                Err(_) => return Err(io::Error::last_os_error()),
                Ok(0) => return Ok(()),
                Ok(count) => &bytes[..count],
            };
            while let Some((name, kind, length)) = entry(rest) {
                rest = &rest[length..];
                if name == b"." || name == b".." {
                    continue;
                }
                let name = OsString::from_vec(name.to_vec());
                let kind = self.kind_of(&name, kind);
                if told(name, kind).is_break() {
                    return Ok(());
                }
            }
        }
    }
}

impl Directory {
    /// What an entry is: where the directory does not say, as in file systems that keep no types there, what it is itself.
    fn kind_of(&self, name: &OsStr, said: Kind) -> Kind {
        if said != Kind::Unknown {
            return said;
        }
        let found = open_at(self.file.as_raw_fd(), name, libc::O_PATH).and_then(|it| File::from(it).metadata());
        match found.map(|found| found.file_type()) {
            Ok(found) if found.is_dir() => Kind::Directory,
            Ok(found) if found.is_symlink() => Kind::Link,
            Ok(_) => Kind::Other,
            Err(_) => Kind::Unknown,
        }
    }
}

/// Name, kind and length of the entry that the bytes begin with: inode, offset, length, type, name and a zero.
fn entry(bytes: &[u8]) -> Option<(&[u8], Kind, usize)> {
    let length = usize::from(u16::from_ne_bytes([*bytes.get(16)?, *bytes.get(17)?]));
    let name = bytes.get(NAME_AT..length)?;
    let name = &name[..name.iter().position(|&byte| byte == 0)?];
    let kind = match bytes[TYPE_AT] {
        libc::DT_DIR => Kind::Directory,
        libc::DT_LNK => Kind::Link,
        libc::DT_UNKNOWN => Kind::Unknown,
        _ => Kind::Other,
    };
    Some((name, kind, length))
}

/// Opens for reading what has this name in the directory `at`, with these `O_` flags added; follows no link at its end and
/// waits for nobody.
///
/// # Errors
/// As `openat(2)`.
pub fn open_at(at: i32, name: &OsStr, flags: i32) -> io::Result<OwnedFd> {
    let name = CString::new(name.as_bytes())?;
    let flags = flags | libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
    // SAFETY: the name ends in a zero; the kernel keeps nothing of it.
    let descriptor = unsafe { libc::openat(at, name.as_ptr(), flags) };
    match descriptor {
        0.. => {
            // SAFETY: the kernel has just given it to us, and to nobody else.
            Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
        }
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn no_part_of_a_path_may_be_a_link_and_no_pipe_is_waited_for() {
        let home = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(home.path()).unwrap();
        fs::create_dir_all(base.join("real/below")).unwrap();
        fs::write(base.join("real/file"), "x").unwrap();
        symlink(base.join("real"), base.join("link")).unwrap();
        symlink(base.join("real/file"), base.join("real/other")).unwrap();
        let pipe = CString::new(base.join("real/pipe").as_os_str().as_bytes()).unwrap();
        // SAFETY: the path ends in a zero.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o666) }, 0);
        let real = Directory::open(&base.join("real")).unwrap();
        assert!(real.file(OsStr::new("file")).is_ok() && real.below(OsStr::new("below")).is_ok());
        assert!(real.file(OsStr::new("other")).is_err() && real.file(OsStr::new("below")).is_err());
        assert!(real.file(OsStr::new("pipe")).unwrap_err().to_string().contains("regular file"));
        assert!(Directory::open(&base.join("link")).is_err() && Directory::open(&base.join("link/below")).is_err());
        assert!(Directory::open(Path::new("a")).is_err() && Directory::open(&base.join("../x")).is_err());
    }

    #[test]
    fn each_entry_is_told_once_with_its_kind() {
        let home = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(home.path()).unwrap();
        fs::create_dir(base.join("a")).unwrap();
        for number in 0..2_000 {
            fs::write(base.join(format!("file-{number}")), "").unwrap();
        }
        let directory = Directory::open(&base).unwrap();
        for _ in 0..2 {
            let (mut names, mut directories) = (std::collections::BTreeSet::new(), 0);
            let told = |name, kind| {
                assert!(names.insert(name));
                directories += usize::from(kind == Kind::Directory);
                ControlFlow::Continue(())
            };
            directory.list(told).unwrap();
            assert_eq!((names.len(), directories), (2_001, 1));
        }
        let mut count = 0;
        let told = |_, _| {
            count += 1;
            ControlFlow::Break(())
        };
        directory.list(told).unwrap();
        assert_eq!(count, 1);
    }

    #[test]
    fn where_the_directory_does_not_say_what_an_entry_is_the_entry_does() {
        let home = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(home.path()).unwrap();
        fs::create_dir(base.join("directory")).unwrap();
        fs::write(base.join("file"), "").unwrap();
        symlink("directory", base.join("link")).unwrap();
        let directory = Directory::open(&base).unwrap();
        let names = ["directory", "file", "link", "gone"];
        let kinds = names.map(|name| directory.kind_of(OsStr::new(name), Kind::Unknown));
        assert_eq!(kinds, [Kind::Directory, Kind::Other, Kind::Link, Kind::Unknown]);
        assert_eq!(directory.kind_of(OsStr::new("file"), Kind::Directory), Kind::Directory);
    }
}
