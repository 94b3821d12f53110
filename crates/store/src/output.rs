//! Files that a person names to be written, in directories that may be another user's: whoever put something there first
//! decides neither what is written over nor who reads it.

mod replaced;

pub use replaced::Replaced;

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use surefoot_model::Digits;

/// A file that was opened to be written, its content still as it was.
#[derive(Debug)]
pub struct Opened {
    /// The file.
    pub file: File,
    /// Whether it was not there before.
    pub is_new: bool,
}

/// Opens a file to be written, and creates it, for its owner alone, if it is not there. No link is followed but those to
/// this process's own descriptors, such as `/dev/stdout`; a pipe that nobody reads is not waited for.
///
/// # Errors
/// What the kernel says; of kind `PermissionDenied` also for a regular file that belongs to another user, who could read
/// what is written, and for one that has a second name, which may be anywhere.
pub fn open(path: &Path) -> io::Result<Opened> {
    let is_own_descriptor = leads_to_own_descriptor(path);
    let directory = if is_own_descriptor { None } else { Some(directory(path)?) };
    let held = match (&directory, path.file_name()) {
        (Some(directory), Some(name)) => within(directory, name),
        _ => path.to_owned(),
    };
    match options(libc::O_NOFOLLOW).create_new(true).open(&held) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        created => return created.map(|file| Opened { file, is_new: true }),
    }
    let file = options(if is_own_descriptor { 0 } else { libc::O_NOFOLLOW }).open(&held)?;
    let found = file.metadata()?;
    let why = match () {
        () if is_own_descriptor || !found.is_file() => return Ok(Opened { file, is_new: false }),
        () if found.uid() != own_user()? => format!(
            "it belongs to the user with number {}, who could read what is written: name a new file",
            found.uid()
        ),
        () if found.nlink() > 1 => {
            "it has another name, too, under which it would be overwritten: name a new file".into()
        }
        () => return Ok(Opened { file, is_new: false }),
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// Opens the directory in which a file is to be. On its way root follows only links of root's, in directories in which nobody
/// else can put another one in their place: a stranger's link leads root anywhere.
///
/// # Errors
/// What the kernel says; of kind `PermissionDenied` for a link that is not followed.
pub fn directory(path: &Path) -> io::Result<File> {
    let path = std::path::absolute(path)?;
    let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let enter = |path: &Path, flags| {
        OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY | flags).open(path)
    };
    if own_user()? != 0 {
        return enter(parent, 0);
    }
    // Each part by the descriptor of the one before: a link that comes in between is refused, wherever it leads.
    let mut at = enter(Path::new("/"), 0)?;
    for part in without_links(parent)?.components() {
        if let Component::Normal(name) = part {
            at = enter(&within(&at, name), libc::O_NOFOLLOW)?;
        }
    }
    Ok(at)
}

/// A name in a directory that is held.
fn within(directory: &File, name: &OsStr) -> PathBuf {
    Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name)
}

/// Links that are followed, as many as the kernel follows.
const LINKS_MAX: usize = 40;

/// An absolute path with root's own links replaced by what they lead to.
fn without_links(path: &Path) -> io::Result<PathBuf> {
    let mut rest: VecDeque<OsString> = path.components().map(|part| part.as_os_str().to_owned()).collect();
    let (mut plain, mut links) = (PathBuf::from("/"), 0);
    while let Some(part) = rest.pop_front() {
        if part == ".." {
            plain.pop();
            continue;
        }
        let next = plain.join(&part);
        let found = fs::symlink_metadata(&next)?;
        if !found.is_symlink() {
            plain = next;
            continue;
        }
        links += 1;
        let holder = fs::symlink_metadata(&plain)?;
        let may_be_replaced = holder.mode() & 0o022 != 0 && holder.mode() & libc::S_ISVTX == 0;
        if found.uid() != 0 || holder.uid() != 0 || may_be_replaced {
            let why = format!(
                "root does not follow {}, a symbolic link that another user could turn; name the directory that it leads to",
                next.display()
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        if links > LINKS_MAX {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
        let target = fs::read_link(&next)?;
        target.components().rev().for_each(|part| rest.push_front(part.as_os_str().to_owned()));
    }
    Ok(plain)
}

fn options(flags: libc::c_int) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600).custom_flags(flags | libc::O_NONBLOCK | libc::O_NOCTTY);
    options
}

/// Whether the kernel, and nobody else, says where a path leads: to what this process has open already.
fn leads_to_own_descriptor(path: &Path) -> bool {
    let is_number = |rest: &Path| rest.to_str().is_some_and(|text| text.digits::<u32>().is_some());
    let folders = ["/dev/fd", "/proc/self/fd"];
    ["/dev/stdout", "/dev/stderr"].iter().any(|known| path == Path::new(known))
        || folders.iter().any(|folder| path.strip_prefix(folder).is_ok_and(is_number))
}

/// The user with whose rights this process writes.
fn own_user() -> io::Result<u32> {
    Ok(std::fs::metadata("/proc/self")?.uid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    #[test]
    fn a_new_file_is_private_and_an_old_one_keeps_its_content_until_it_is_written() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("out");
        assert!(open(&path).unwrap().is_new);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, "old").unwrap();
        assert!(!open(&path).unwrap().is_new);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    }

    #[test]
    fn links_and_files_of_others_are_not_written_to() {
        let home = tempfile::tempdir().unwrap();
        let (victim, path) = (home.path().join("victim"), home.path().join("out"));
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, &path).unwrap();
        assert_eq!(open(&path).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        fs::remove_file(&path).unwrap();
        symlink(home.path().join("none"), &path).unwrap();
        assert_eq!(open(&path).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        fs::remove_file(&path).unwrap();
        fs::hard_link(&victim, &path).unwrap();
        assert!(open(&path).unwrap_err().to_string().contains("another name"));
        fs::remove_file(&path).unwrap();
        if own_user().unwrap() == 0 {
            fs::write(&path, "").unwrap();
            chown(&path, Some(65_534), Some(65_534)).unwrap();
            assert!(open(&path).unwrap_err().to_string().contains("65534"));
        }
    }

    /// A directory of a stranger's may be written into, but not led out of.
    #[test]
    fn root_is_led_nowhere_by_a_stranger_s_link_on_the_way() {
        let home = tempfile::tempdir().unwrap();
        let [victim, theirs] = ["victim", "theirs"].map(|name| home.path().join(name));
        [&victim, &theirs].iter().for_each(|folder| fs::create_dir(folder).unwrap());
        fs::write(victim.join("out"), "precious").unwrap();
        symlink(&victim, theirs.join("way")).unwrap();
        symlink(&theirs, home.path().join("roots-link")).unwrap();
        if own_user().unwrap() != 0 {
            return assert!(open(&theirs.join("way/out")).is_ok(), "who writes for himself goes where he likes");
        }
        std::os::unix::fs::lchown(theirs.join("way"), Some(65_534), Some(65_534)).unwrap();
        chown(&theirs, Some(65_534), Some(65_534)).unwrap();
        for path in ["theirs/way/out", "theirs/way/new", "theirs/way/../theirs/way/out", "roots-link/way/out"] {
            let error = open(&home.path().join(path)).unwrap_err();
            assert!(error.to_string().contains("root does not follow"), "{path}: {error}");
        }
        assert_eq!(fs::read_to_string(victim.join("out")).unwrap(), "precious");
        assert!(!victim.join("new").exists());
        // A link of root's in his directory could be put in the place of another.
        std::os::unix::fs::lchown(theirs.join("way"), Some(0), Some(0)).unwrap();
        assert!(open(&theirs.join("way/new")).is_err());
        // Where nobody can turn the link it is followed, and a plain way is gone.
        assert!(open(&home.path().join("roots-link/new")).unwrap().is_new);
        assert!(open(&home.path().join("theirs/other")).unwrap().is_new);
    }

    #[test]
    fn only_links_to_own_descriptors_are_followed_below_dev() {
        for path in ["/dev/stdout", "/dev/stderr", "/dev/fd/1", "/proc/self/fd/7"] {
            assert!(leads_to_own_descriptor(Path::new(path)), "{path}");
        }
        for path in ["/dev/shm/out", "/dev/fd/1/x", "/dev/fd", "/dev/fd/../shm/x", "/proc/1/fd/1"] {
            assert!(!leads_to_own_descriptor(Path::new(path)), "{path}");
        }
        assert!(!open(Path::new("/dev/null")).unwrap().is_new);
    }
}
