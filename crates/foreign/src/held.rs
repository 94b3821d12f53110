//! A file that is held before it is opened.

use crate::way;
use std::ffi::{CStr, CString, OsStr};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Attributes of a file, as the kernel has them in its cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// Type and permissions, as `st_mode`.
    pub mode: u32,
    /// The user that it belongs to.
    pub owner: u32,
    /// The group that it belongs to.
    pub group: u32,
    /// How many names it has.
    pub names: u32,
    /// The ID of its file system, as `st_dev`.
    pub device: u64,
    /// The ID of the mount on which it was found; 0 on kernels before 5.8.
    pub mount: u64,
    /// Its inode.
    pub inode: u64,
    /// Its length.
    pub bytes: u64,
    /// When its attributes changed last, nanoseconds since 1970.
    pub changed_ns: i64,
    /// When its content changed last, nanoseconds since 1970.
    pub modified_ns: i64,
}

impl About {
    /// Of an open or held file.
    ///
    /// # Errors
    /// What `statx` says.
    pub fn of(file: impl AsFd) -> io::Result<Self> {
        About::at(file.as_fd(), c"", libc::AT_EMPTY_PATH)
    }

    /// Of what has this name in a directory, without holding it: a look at many names opens nothing. What it is by the time that it
    /// is held may be something else.
    ///
    /// # Errors
    /// What `statx` says.
    pub fn in_directory(directory: impl AsFd, name: &OsStr) -> io::Result<Self> {
        About::at(directory.as_fd(), &CString::new(name.as_bytes())?, libc::AT_SYMLINK_NOFOLLOW)
    }

    fn at(file: BorrowedFd<'_>, name: &CStr, how: libc::c_int) -> io::Result<Self> {
        // SAFETY: statx is made of integers for which zero is a value.
        let mut found: libc::statx = unsafe { std::mem::zeroed() };
        let flags = how | libc::AT_STATX_DONT_SYNC | libc::AT_NO_AUTOMOUNT;
        let wanted = libc::STATX_BASIC_STATS | libc::STATX_MNT_ID;
        let number = file.as_raw_fd();
        // SAFETY: the name ends in a zero, and the kernel writes no more than the structure that both outlive the call.
        if unsafe { libc::statx(number, name.as_ptr(), flags, wanted, &raw mut found) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let ns = |at: libc::statx_timestamp| at.tv_sec.saturating_mul(1_000_000_000).saturating_add(at.tv_nsec.into());
        let mount = if found.stx_mask & libc::STATX_MNT_ID != 0 { found.stx_mnt_id } else { 0 };
        Ok(About {
            mode: found.stx_mode.into(),
            owner: found.stx_uid,
            group: found.stx_gid,
            names: found.stx_nlink,
            device: libc::makedev(found.stx_dev_major, found.stx_dev_minor),
            mount,
            inode: found.stx_ino,
            bytes: found.stx_size,
            changed_ns: ns(found.stx_ctime),
            modified_ns: ns(found.stx_mtime),
        })
    }

    fn is(&self, kind: u32) -> bool {
        self.mode & libc::S_IFMT == kind
    }

    /// Whether it is a regular file.
    pub fn is_regular(&self) -> bool {
        self.is(libc::S_IFREG)
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.is(libc::S_IFDIR)
    }

    /// Whether it is a symbolic link.
    pub fn is_link(&self) -> bool {
        self.is(libc::S_IFLNK)
    }

    /// Its type with an article, unless it is a regular file.
    pub fn not_regular(&self) -> Option<&'static str> {
        Some(match self.mode & libc::S_IFMT {
            libc::S_IFREG => return None,
            libc::S_IFDIR => "a directory",
            libc::S_IFIFO => "a FIFO",
            libc::S_IFSOCK => "a socket",
            libc::S_IFCHR => "a character device",
            libc::S_IFBLK => "a block device",
            libc::S_IFLNK => "a symbolic link",
            _ => "a special file",
        })
    }
}

/// A file, directory, link or device that is held and not open.
#[derive(Debug)]
pub struct Held {
    held: OwnedFd,
    about: About,
}

impl Held {
    fn new(held: OwnedFd) -> io::Result<Self> {
        let about = About::of(&held)?;
        Ok(Held { held, about })
    }

    /// What another process holds and has sent.
    ///
    /// # Errors
    /// What `statx` says.
    pub fn of(held: OwnedFd) -> io::Result<Self> {
        Held::new(held)
    }

    /// Its attributes.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// It, if it is a regular file.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] that says what it is.
    pub fn regular(self) -> io::Result<Regular> {
        match self.about.not_regular() {
            None => Ok(Regular(self)),
            Some(what) => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is not a regular file but {what}")))
            }
        }
    }
}

impl AsFd for Held {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.held.as_fd()
    }
}

/// A regular file that is held and not open yet.
#[derive(Debug)]
pub struct Regular(Held);

impl Regular {
    /// Its attributes.
    pub fn about(&self) -> &About {
        &self.0.about
    }

    /// It, if it belongs to this user.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`].
    pub fn of_user(self, user: u32) -> io::Result<Self> {
        match self.about().owner {
            owner if owner == user => Ok(self),
            owner => Err(denied(format!("it belongs to user {owner}, not to user {user}"))),
        }
    }

    /// It, if it is no longer than this.
    ///
    /// # Errors
    /// [`io::ErrorKind::FileTooLarge`].
    pub fn at_most(self, bytes_max: u64) -> io::Result<Self> {
        let bytes = self.about().bytes;
        if bytes <= bytes_max { Ok(self) } else { Err(too_long(bytes, bytes_max)) }
    }

    /// It, if no other name leads to it: a second one may be anywhere.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`].
    pub fn of_one_name(self) -> io::Result<Self> {
        match self.about().names {
            ..=1 => Ok(self),
            names => Err(denied(format!("it has {names} names; the others may be in any directory"))),
        }
    }

    /// Opens it for reading. Nothing can have taken its place, and nobody's lease on it is waited for.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open(&self) -> io::Result<File> {
        self.reopen(OpenOptions::new().read(true))
    }

    /// Opens it for reading and writing.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open_to_write(&self) -> io::Result<File> {
        self.reopen(OpenOptions::new().read(true).write(true))
    }

    fn reopen(&self, options: &mut OpenOptions) -> io::Result<File> {
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
        options.custom_flags(flags).open(path_of(self.0.held.as_fd()))
    }

    /// Its content.
    ///
    /// # Errors
    /// What the kernel says; [`io::ErrorKind::FileTooLarge`] when there is more than this.
    pub fn read(&self, bytes_max: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open()?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 <= bytes_max {
            return Ok(bytes);
        }
        Err(too_long(self.about().bytes.max(bytes_max.saturating_add(1)), bytes_max))
    }
}

impl AsFd for Regular {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Holds what a path leads to, by the rule of [`way`]. What the path itself names is followed by the same rule where it is a
/// link, and the kernel's own links (`/dev/stdin`, `/proc/self/fd/3`) as the kernel follows them.
///
/// # Errors
/// What the kernel says; [`io::ErrorKind::PermissionDenied`] for a link that is not followed.
pub fn hold(path: &Path) -> io::Result<Held> {
    if way::leads_to_own_descriptor(path) {
        return hold_link(path);
    }
    let plain = way::plain(path)?;
    match (plain.parent(), plain.file_name()) {
        (Some(parent), Some(name)) => {
            let held = open_at(way::enter(parent)?.as_fd(), name, libc::O_NOFOLLOW)?;
            Held::new(held)?.not_a_link()
        }
        _ => Held::new(way::enter(&plain)?.into()),
    }
}

/// Holds what a path names, and no link. The caller answers for the directories above: they are its own, or it holds them.
///
/// # Errors
/// What the kernel says, `ELOOP` for a link.
pub fn hold_name(path: &Path) -> io::Result<Held> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    Held::new(open_path(libc::AT_FDCWD, &name, libc::O_NOFOLLOW)?)?.not_a_link()
}

/// Holds what has this name in a directory: on the directory's own mount, because a user can mount a file system over any
/// file of theirs, and no link.
///
/// # Errors
/// What the kernel says; [`io::ErrorKind::InvalidInput`] for a link, [`io::ErrorKind::PermissionDenied`] for what is mounted there.
pub fn hold_in(directory: impl AsFd, name: &OsStr) -> io::Result<Held> {
    if name.as_bytes().contains(&b'/') || name == ".." {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a name in the directory"));
    }
    let held = Held::new(open_at(directory.as_fd(), name, libc::O_NOFOLLOW)?)?;
    let of_directory = About::of(directory)?;
    // On an overlay the device of a file is not that of its directory.
    let is_other = match (held.about.mount, of_directory.mount) {
        (0, _) | (_, 0) => held.about.device != of_directory.device,
        (mount, of_directory) => mount != of_directory,
    };
    if is_other {
        return Err(denied("a file system is mounted on it, which may be another user's and may not answer".into()));
    }
    held.not_a_link()
}

/// Holds what a link of the kernel's leads to, such as those of `/proc/PID/map_files` and `/proc/PID/fd`.
///
/// # Errors
/// What the kernel says.
pub fn hold_link(link: &Path) -> io::Result<Held> {
    let link = CString::new(link.as_os_str().as_bytes())?;
    Held::new(open_path(libc::AT_FDCWD, &link, 0)?)
}

/// Holds what lies beneath a directory, as if that were the root: no link is followed, and no `..` leads out of it.
///
/// # Errors
/// What the kernel says.
pub fn hold_beneath(top: impl AsFd, path: &Path) -> io::Result<Held> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: open_how is made of three numbers for which zero is a value.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC) as u64;
    how.resolve = libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_MAGICLINKS;
    let (top, bytes) = (top.as_fd().as_raw_fd(), size_of::<libc::open_how>());
    // SAFETY: the path ends with a zero byte and `how` has the size that is given; both outlive the call.
    match unsafe { libc::syscall(libc::SYS_openat2, top, path.as_ptr(), &raw const how, bytes) } {
        // SAFETY: the kernel has just given it to us, and to nobody else.
        descriptor @ 0.. => Held::new(unsafe { OwnedFd::from_raw_fd(descriptor as libc::c_int) })?.not_a_link(),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The text of a regular file that a path leads to; bytes that are not UTF-8 become U+FFFD.
///
/// # Errors
/// As [`hold`], [`Held::regular`] and [`Regular::read`].
pub fn text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let bytes = hold(path)?.regular()?.read(bytes_max)?;
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

impl Held {
    fn not_a_link(self) -> io::Result<Self> {
        if self.about.is_link() { Err(io::Error::from_raw_os_error(libc::ELOOP)) } else { Ok(self) }
    }
}

/// Where the kernel lets a held file be opened.
pub(crate) fn path_of(held: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()))
}

pub(crate) fn open_at(at: BorrowedFd<'_>, name: &OsStr, flags: i32) -> io::Result<OwnedFd> {
    open_path(at.as_raw_fd(), &CString::new(name.as_bytes())?, flags)
}

fn open_path(at: i32, name: &CStr, flags: i32) -> io::Result<OwnedFd> {
    // SAFETY: the name ends in a zero; the kernel keeps nothing of it.
    match unsafe { libc::openat(at, name.as_ptr(), libc::O_PATH | libc::O_CLOEXEC | flags) } {
        // SAFETY: the kernel has just given it to us, and to nobody else.
        descriptor @ 0.. => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        _ => Err(io::Error::last_os_error()),
    }
}

pub(crate) fn denied(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

fn too_long(bytes: u64, bytes_max: u64) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("it has {bytes} bytes; {bytes_max} are read at most"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::openings::Openings;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn fifo(path: &Path) {
        let path = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: the path ends in a zero.
        assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o666) }, 0);
    }

    #[test]
    fn only_a_regular_file_can_be_opened() {
        let home = tempfile::tempdir().unwrap();
        fifo(&home.path().join("fifo"));
        let _socket = std::os::unix::net::UnixListener::bind(home.path().join("socket")).unwrap();
        for (path, what) in
            [("fifo", "a FIFO"), ("socket", "a socket"), (".", "a directory"), ("/dev/null", "a character")]
        {
            let path = home.path().join(path);
            let openings = Openings::of(&path);
            let why = hold(&path).unwrap().regular().unwrap_err();
            // Every process of the machine may open /dev/null in between.
            assert!(what == "a character" || !openings.any(), "{path:?} was opened");
            assert!(why.kind() == io::ErrorKind::InvalidInput && why.to_string().contains(what), "{path:?}: {why}");
        }
        fs::write(home.path().join("file"), "words").unwrap();
        let openings = Openings::of(&home.path().join("file"));
        assert_eq!(text(&home.path().join("file"), 5).unwrap(), "words");
        assert_eq!(text(&home.path().join("file"), 4).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert!(openings.any(), "no opening is seen");
        assert_eq!(hold(&home.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    /// The name leads to another file by the time the file is opened.
    #[test]
    fn what_was_checked_is_what_is_opened() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("file");
        fs::write(&path, "checked").unwrap();
        let regular = hold(&path).unwrap().regular().unwrap();
        fs::remove_file(&path).unwrap();
        fifo(&path);
        assert_eq!(regular.read(100).unwrap(), b"checked");
    }

    #[test]
    fn a_rule_that_a_file_breaks_is_named() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("file");
        fs::write(&path, "12345").unwrap();
        let regular = || hold(&path).unwrap().regular().unwrap();
        assert!(regular().of_user(way::own_user()).and_then(Regular::of_one_name).and_then(|it| it.at_most(5)).is_ok());
        assert!(regular().at_most(4).unwrap_err().to_string().contains("4 are read at most"));
        assert!(regular().of_user(4_242).unwrap_err().to_string().contains("not to user 4242"));
        fs::hard_link(&path, home.path().join("other")).unwrap();
        assert!(regular().of_one_name().unwrap_err().to_string().contains("2 names"));
    }

    #[test]
    fn no_link_and_no_mount_is_taken_for_a_file_of_its_directory() {
        let home = tempfile::tempdir().unwrap();
        let directory = way::directory(home.path()).unwrap();
        fs::write(home.path().join("file"), "x").unwrap();
        symlink("file", home.path().join("link")).unwrap();
        assert!(hold_in(&directory, OsStr::new("file")).unwrap().regular().is_ok());
        assert_eq!(hold_in(&directory, OsStr::new("link")).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        assert!(hold_in(&directory, OsStr::new("../file")).is_err() && hold_in(&directory, OsStr::new("..")).is_err());
        // /proc is a mount in every directory that has it.
        let top = way::directory(Path::new("/")).unwrap();
        let why = hold_in(&top, OsStr::new("proc")).unwrap_err();
        assert!(why.to_string().contains("a file system is mounted on it"), "{why}");
        // A link that its user follows by a path is followed, to the file that is held.
        assert_eq!(text(&home.path().join("link"), 5).unwrap(), "x");
    }
}
