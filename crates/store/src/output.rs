//! Files that a person names to be written, in directories that may be another user's: whoever put something there first
//! decides neither what is written over nor who reads it.

mod replaced;

pub use replaced::Replaced;
/// Opens the directory in which a file is to be.
pub use surefoot_foreign::way::parent as directory;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use surefoot_foreign::way::{self, leads_to_own_descriptor, within};

/// A file that was opened to be written, its content still as it was.
#[derive(Debug)]
pub struct Opened {
    /// The file.
    pub file: File,
    /// Whether it was not there before.
    pub is_new: bool,
    /// The directory in which it is; `None` for a descriptor of this process.
    pub directory: Option<File>,
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
        created => return created.map(|file| Opened { file, is_new: true, directory }),
    }
    let file = options(if is_own_descriptor { 0 } else { libc::O_NOFOLLOW }).open(&held)?;
    let found = file.metadata()?;
    let why = match () {
        () if is_own_descriptor || !found.is_file() => return Ok(Opened { file, is_new: false, directory }),
        () if found.uid() != own_user()? => format!(
            "it belongs to the user with number {}, who could read what is written: name a new file",
            found.uid()
        ),
        () if found.nlink() > 1 => {
            "it has another name, too, under which it would be overwritten: name a new file".into()
        }
        () => return Ok(Opened { file, is_new: false, directory }),
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

fn options(flags: libc::c_int) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600).custom_flags(flags | libc::O_NONBLOCK | libc::O_NOCTTY);
    options
}

/// The user with whose rights this process writes.
fn own_user() -> io::Result<u32> {
    Ok(way::own_user())
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
    fn a_device_of_root_s_may_be_written_to() {
        assert!(!open(Path::new("/dev/null")).unwrap().is_new);
    }
}
