//! Files that a person names to be written, in directories that may be another user's: whoever put something there first
//! decides neither what is written over nor who reads it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

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
    match options(libc::O_NOFOLLOW).create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        created => return created.map(|file| Opened { file, is_new: true }),
    }
    let is_own_descriptor = leads_to_own_descriptor(path);
    let file = options(if is_own_descriptor { 0 } else { libc::O_NOFOLLOW }).open(path)?;
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

fn options(flags: libc::c_int) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600).custom_flags(flags | libc::O_NONBLOCK | libc::O_NOCTTY);
    options
}

/// Whether the kernel, and nobody else, says where a path leads: to what this process has open already.
fn leads_to_own_descriptor(path: &Path) -> bool {
    let is_number = |rest: &Path| rest.to_str().is_some_and(|text| text.parse::<u32>().is_ok());
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
    use std::fs;
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
