//! The directories and links on the way to a file: who owns each step decides whether root takes it.
//!
//! Whoever owns a link chooses what it leads to. So root follows only links of root's, in directories where nobody else can put
//! another one in their place. A user who is not root has nothing to lose that the kernel does not guard, and goes
//! wherever the kernel lets them.

use crate::held::{About, denied, open_at, path_of};
use std::collections::VecDeque;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

/// As many links as the kernel follows.
const LINKS_MAX: usize = 40;

/// The write bits of the group and of everybody.
pub const OTHERS_WRITE: u32 = 0o022;

/// The user whose rights this process has.
pub fn own_user() -> u32 {
    // SAFETY: it only reads a number.
    unsafe { libc::geteuid() }
}

/// The path without links, each of which is followed by the rule. What is not there is left as it is named.
///
/// # Errors
/// What the kernel says; [`io::ErrorKind::PermissionDenied`] for a link that root does not follow.
pub fn plain(path: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(path)?;
    if own_user() != 0 {
        return match fs::canonicalize(&absolute) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(absolute),
            plain => plain,
        };
    }
    let mut rest: VecDeque<OsString> = absolute.components().map(|part| part.as_os_str().to_owned()).collect();
    let (mut plain, mut links) = (PathBuf::from("/"), 0);
    while let Some(part) = rest.pop_front() {
        if part == ".." {
            plain.pop();
            continue;
        }
        let next = plain.join(&part);
        let found = match about(&next) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(rest.iter().fold(next, |path, part| path.join(part)));
            }
            found => found?,
        };
        if !found.is_link() {
            plain = next;
            continue;
        }
        links += 1;
        let holder = about(&plain)?;
        let may_be_replaced = holder.mode & OTHERS_WRITE != 0 && holder.mode & libc::S_ISVTX == 0;
        if found.owner != 0 || holder.owner != 0 || may_be_replaced {
            return Err(denied(format!(
                "root does not follow {}, a symbolic link that another user could turn; name what it leads to instead",
                next.display()
            )));
        }
        if links > LINKS_MAX {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
        let target = fs::read_link(&next)?;
        target.components().rev().for_each(|part| rest.push_front(part.as_os_str().to_owned()));
    }
    Ok(plain)
}

/// Of what a path names; of a link itself.
fn about(path: &Path) -> io::Result<About> {
    About::of(OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW).open(path)?)
}

/// Holds a directory. A link on the way is followed by the rule of this module, also at the end.
///
/// # Errors
/// What the kernel says; [`io::ErrorKind::PermissionDenied`] for a link that root does not follow.
pub fn directory(path: &Path) -> io::Result<File> {
    enter(&plain(path)?)
}

/// Holds the directory in which a file is to be, as [`directory`].
///
/// # Errors
/// As [`directory`].
pub fn parent(path: &Path) -> io::Result<File> {
    let path = std::path::absolute(path)?;
    directory(path.parent().ok_or(io::ErrorKind::InvalidInput)?)
}

/// Holds a directory whose path has no links. Root takes each step by the descriptor of the one before: a link that comes in
/// between is refused, wherever it leads.
pub(crate) fn enter(plain: &Path) -> io::Result<File> {
    let open = |path: &Path| OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(path);
    if own_user() != 0 {
        return open(plain);
    }
    let mut at = open(Path::new("/"))?;
    for part in plain.components() {
        if let Component::Normal(name) = part {
            at = open_at(at.as_fd(), name, libc::O_DIRECTORY | libc::O_NOFOLLOW)?.into();
        }
    }
    Ok(at)
}

/// A name in a directory that is held, as a path that leads there whatever becomes of the directory's own name.
pub fn within(directory: &File, name: &OsStr) -> PathBuf {
    path_of(directory.as_fd()).join(name)
}

/// Renames within a directory that is held, where nothing has the new name: otherwise the error is
/// [`io::ErrorKind::AlreadyExists`], and both stay as they are.
///
/// # Errors
/// What the kernel says.
pub fn rename_new(directory: &File, from: &OsStr, to: &OsStr) -> io::Result<()> {
    let names = [CString::new(from.as_bytes())?, CString::new(to.as_bytes())?];
    let [old, new] = [names[0].as_ptr(), names[1].as_ptr()];
    let at = directory.as_fd().as_raw_fd();
    // SAFETY: both names end in a zero; the kernel keeps nothing of them.
    if unsafe { libc::renameat2(at, old, at, new, libc::RENAME_NOREPLACE) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    // A file system without this, such as some of FUSE and of networks: a link takes no place of a file either.
    if !matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP)) {
        return Err(error);
    }
    let [old, new] = [from, to].map(|name| within(directory, name));
    fs::hard_link(&old, &new).and_then(|()| fs::remove_file(&old))
}

/// Waits until the names in a directory that is held are on the medium, so that a new or renamed file is still there after a
/// power failure.
///
/// # Errors
/// What the kernel says: also that this user may not list the directory, without which it cannot be opened for this.
pub fn sync(directory: &File) -> io::Result<()> {
    // A descriptor that only names a directory cannot be synchronised; what is opened through it is the same directory.
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_DIRECTORY);
    match options.open(path_of(directory.as_fd()).join("."))?.sync_all() {
        // A file system that keeps no names apart from files, such as some network file systems, has nothing to wait for.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        synced => synced,
    }
}

/// Whether the kernel, and nobody else, says where a path leads: to what this process has open already.
pub fn leads_to_own_descriptor(path: &Path) -> bool {
    let is_number = |rest: &Path| {
        rest.to_str().is_some_and(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
    };
    ["/dev/stdin", "/dev/stdout", "/dev/stderr"].iter().any(|known| path == Path::new(known))
        || ["/dev/fd", "/proc/self/fd"].iter().any(|folder| path.strip_prefix(folder).is_ok_and(is_number))
}

/// Why other users could put files into a directory, or replace the directory; `None` if only root and this user can.
///
/// Any write bit of the group counts, also of the group that this process has: its members are other users. A POSIX ACL shows its
/// mask in those bits, so an ACL in which a named user or group has write access counts as well.
///
/// # Errors
/// What the kernel says.
pub fn others_in(directory: &Path) -> io::Result<Option<String>> {
    others(&plain(directory)?, false)
}

/// Why other users could remove or replace what this user has in a directory: as [`others_in`], but a directory with the sticky bit
/// is fit for it.
///
/// # Errors
/// What the kernel says.
pub fn others_replace_in(directory: &Path) -> io::Result<Option<String>> {
    others(&plain(directory)?, true)
}

/// Why other users could change a file, or put another one in its place; `None` if only root and this user can.
///
/// # Errors
/// What the kernel says.
pub fn others_change(file: &Path) -> io::Result<Option<String>> {
    let file = plain(file)?;
    let about = about(&file)?;
    let shown = file.display();
    if about.owner != 0 && about.owner != own_user() {
        return Ok(Some(format!("{shown} belongs to user {}", about.owner)));
    }
    if about.mode & OTHERS_WRITE != 0 {
        return Ok(Some(format!("other users can write to {shown} (mode {:03o})", about.mode & 0o7777)));
    }
    others(file.parent().ok_or(io::ErrorKind::InvalidInput)?, true)
}

/// As [`others_in`] of a path without links.
fn others(directory: &Path, is_sticky_enough: bool) -> io::Result<Option<String>> {
    let own = own_user();
    for part in directory.ancestors() {
        let about = About::of(enter(part)?)?;
        // In a directory above, such as /tmp, the sticky bit keeps others from replacing what is not theirs.
        let is_sticky = (is_sticky_enough || part != directory) && about.mode & libc::S_ISVTX != 0;
        if about.owner != 0 && about.owner != own {
            return Ok(Some(format!("{} belongs to user {}", part.display(), about.owner)));
        }
        if about.mode & OTHERS_WRITE != 0 && !is_sticky {
            let (path, mode) = (part.display(), about.mode & 0o7777);
            return Ok(Some(format!("other users can create files in {path} (mode {mode:o})")));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    #[test]
    fn root_follows_no_link_that_another_user_could_turn() {
        if own_user() != 0 {
            return surefoot_testkit::not_run::not_run("links of another user", "only root can give a link away");
        }
        let home = tempfile::tempdir().unwrap();
        let at = |path: &str| home.path().join(path);
        for folder in ["victim", "theirs"] {
            fs::create_dir(at(folder)).unwrap();
        }
        symlink(at("victim"), at("theirs/way")).unwrap();
        symlink(at("theirs"), at("roots-link")).unwrap();
        lchown(at("theirs/way"), Some(65_534), Some(65_534)).unwrap();
        chown(at("theirs"), Some(65_534), Some(65_534)).unwrap();
        for path in ["theirs/way", "theirs/way/x", "theirs/way/../theirs/way", "roots-link/way"] {
            let why = directory(&at(path)).unwrap_err().to_string();
            assert!(why.contains("root does not follow"), "{path}: {why}");
            assert!(plain(&at(path)).is_err() && parent(&at(path).join("x")).is_err(), "{path}");
        }
        // A link of root's in another user's directory can be replaced; in root's own it cannot.
        lchown(at("theirs/way"), Some(0), Some(0)).unwrap();
        assert!(directory(&at("theirs/way")).is_err());
        assert_eq!(plain(&at("roots-link/new")).unwrap(), plain(&at("theirs")).unwrap().join("new"));
        assert!(directory(&at("roots-link")).is_ok());
    }

    #[test]
    fn a_directory_is_one_s_own_where_nobody_else_can_put_files() {
        let home = tempfile::tempdir().unwrap();
        let own = home.path().join("own");
        fs::create_dir(&own).unwrap();
        let mode = |mode| fs::set_permissions(&own, fs::Permissions::from_mode(mode)).unwrap();
        mode(0o700);
        assert_eq!(others_in(&own).unwrap(), None);
        // The sticky bit keeps others from replacing files, and not from adding some.
        mode(0o1777);
        assert!(others_in(&own).unwrap().unwrap().contains("other users can create files"));
        fs::create_dir(own.join("below")).unwrap();
        fs::set_permissions(own.join("below"), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(others_in(&own.join("below")).unwrap(), None);
        mode(0o777);
        assert!(others_in(&own.join("below")).unwrap().is_some());
        // The group of this process has other members too, and the mask of an ACL looks like this.
        for shared in [0o770, 0o775, 0o2770] {
            mode(shared);
            assert!(others_in(&own).unwrap().is_some(), "{shared:o}");
            assert!(others_in(&own.join("below")).unwrap().is_some(), "{shared:o}");
        }
        mode(0o755);
        assert_eq!(others_in(&own).unwrap(), None);
        if chown(&own, Some(65_534), Some(65_534)).is_ok() {
            assert!(others_in(&own.join("below")).unwrap().unwrap().contains("65534"));
        }
    }

    #[test]
    fn a_file_is_one_s_own_where_nobody_else_can_change_or_replace_it() {
        let home = tempfile::tempdir().unwrap();
        let own = home.path().join("own");
        let file = own.join("file");
        fs::create_dir(&own).unwrap();
        fs::write(&file, "").unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        // The mode of the directory and of the file, and what is wrong with them.
        for (of_directory, of_file, wrong) in [
            (0o755, 0o644, None),
            (0o1777, 0o600, None),
            (0o755, 0o664, Some("can write to")),
            (0o755, 0o646, Some("can write to")),
            (0o775, 0o600, Some("can create files in")),
            (0o777, 0o600, Some("can create files in")),
        ] {
            mode(&own, of_directory);
            mode(&file, of_file);
            let said = others_change(&file).unwrap();
            let is_right =
                said.as_deref().map_or(wrong.is_none(), |said| wrong.is_some_and(|wrong| said.contains(wrong)));
            assert!(is_right, "{of_directory:o} {of_file:o}: {said:?}");
            assert_eq!(
                others_replace_in(&own).unwrap().is_some(),
                of_directory & 0o1022 != 0 && of_directory & 0o1000 == 0
            );
        }
        mode(&own, 0o755);
        mode(&file, 0o600);
        if chown(&file, Some(65_534), None).is_ok() {
            assert!(others_change(&file).unwrap().unwrap().contains("belongs to user 65534"));
        }
        assert!(others_change(&own.join("none")).is_err());
    }

    /// The kernel keeps `user:65534:rwx` as an attribute; the mode then has the mask where the group's bits were.
    #[test]
    fn an_acl_with_a_named_writer_counts_as_others() {
        let home = tempfile::tempdir().unwrap();
        let own = home.path().join("own");
        fs::create_dir(&own).unwrap();
        let acl = |named: u16| -> Vec<u8> {
            let entry = |tag: u16, permissions: u16, id: u32| {
                [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
            };
            let none = u32::MAX;
            let entries = [(1, 7, none), (2, named, 65_534), (4, 5, none), (0x10, named, none), (0x20, 5, none)];
            let entries = entries.into_iter().flat_map(|(tag, permissions, id)| entry(tag, permissions, id));
            2_u32.to_le_bytes().into_iter().chain(entries).collect()
        };
        let set = |acl: &[u8]| {
            let path = std::ffi::CString::new(own.as_os_str().as_encoded_bytes()).unwrap();
            let name = c"system.posix_acl_access";
            // SAFETY: both names end with a zero, and the length is that of the value.
            unsafe { libc::setxattr(path.as_ptr(), name.as_ptr(), acl.as_ptr().cast(), acl.len(), 0) }
        };
        if set(&acl(5)) != 0 {
            return surefoot_testkit::not_run::not_run("an ACL", "the file system of the temporary directory has none");
        }
        assert_eq!(others_in(&own).unwrap(), None, "a named reader");
        assert_eq!(set(&acl(7)), 0);
        assert!(others_in(&own).unwrap().unwrap().contains("other users can create files"));
    }

    #[test]
    fn only_links_to_own_descriptors_are_the_kernel_s() {
        for path in ["/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/fd/1", "/proc/self/fd/7"] {
            assert!(leads_to_own_descriptor(Path::new(path)), "{path}");
        }
        for path in ["/dev/shm/out", "/dev/fd/1/x", "/dev/fd", "/dev/fd/../shm/x", "/proc/1/fd/1"] {
            assert!(!leads_to_own_descriptor(Path::new(path)), "{path}");
        }
    }
}
