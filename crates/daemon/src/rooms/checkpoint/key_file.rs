//! The key of the IDs of jobs. It lies beside `health.json`, for its owner alone, until the next boot empties that directory.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use surefoot_foreign::way;
use surefoot_rooms::checkpoint::ids::{Ids, KEY_BYTES, random_key};

/// The key's file in the run directory.
const NAME: &str = "job-ids.key";
/// Bits that only its owner may have on the file.
const OTHERS: u32 = 0o077;

/// IDs with the key of this run directory, which is made where there is none. Where it can be neither read nor made, the IDs are
/// other ones after the next start.
pub(super) fn ids_of(directory: &Path) -> Ids {
    let directory = directory.to_owned();
    Ids::published(move || kept(&directory).ok())
}

/// The key in a file, made where there is none or a cut one: whole, or not at all.
fn kept(directory: &Path) -> io::Result<[u8; KEY_BYTES]> {
    let path = directory.join(NAME);
    let mut options = OpenOptions::new();
    match options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(&path) {
        Ok(file) => match read(&file) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => make(directory, &path),
            key => key,
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(directory, &path),
        Err(error) => Err(error),
    }
}

fn make(directory: &Path, path: &Path) -> io::Result<[u8; KEY_BYTES]> {
    let new = directory.join(format!("{NAME}.{}", std::process::id()));
    let key = random_key();
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(&key)?;
        std::fs::rename(&new, path)
    };
    // One that stays, of a process that was killed here, is of another number.
    write().inspect_err(|_| _ = std::fs::remove_file(&new))?;
    Ok(key)
}

/// A key that others could have read or written is none.
fn read(mut file: &File) -> io::Result<[u8; KEY_BYTES]> {
    let found = file.metadata()?;
    if !found.is_file() || found.uid() != way::own_user() || found.mode() & OTHERS != 0 || found.nlink() != 1 {
        return Err(io::Error::from(io::ErrorKind::PermissionDenied));
    }
    let mut key = [0; KEY_BYTES];
    file.read_exact(&mut key)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_guessed_name_cannot_be_confirmed_and_an_id_outlives_a_restart() {
        let home = tempfile::tempdir().unwrap();
        let (first, again) = (ids_of(home.path()), ids_of(home.path()));
        let id = first.of(Some(1000), "train");
        assert!(id.len() == 12 && id.starts_with("job-"), "{id}");
        assert_eq!(again.of(Some(1000), "train"), id);
        assert_eq!(fs::metadata(home.path().join(NAME)).unwrap().permissions().mode() & 0o777, 0o600);
        // Whoever knows user and name has another key.
        let elsewhere = tempfile::tempdir().unwrap();
        for other in [ids_of(elsewhere.path()), Ids::default(), Ids::default()] {
            assert_ne!(other.of(Some(1000), "train"), id);
        }
        let users = [None, Some(0), Some(1000)].map(|uid| first.of(uid, "train"));
        assert!(users[0] != users[1] && users[1] != users[2], "{users:?}");
    }

    #[test]
    fn a_key_that_others_could_read_is_not_used_and_one_that_is_cut_short_is_made_anew() {
        let home = tempfile::tempdir().unwrap();
        let id = || ids_of(home.path()).of(Some(0), "train");
        let kept = id();
        let path = home.path().join(NAME);
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert_ne!(id(), kept);
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(id(), kept);
        fs::write(&path, [0; KEY_BYTES - 1]).unwrap();
        let anew = id();
        assert!(anew != kept && id() == anew, "it is whole again");
        let names = fs::read_dir(home.path()).unwrap().count();
        assert_eq!(names, 1, "nothing else is left");
        // Nothing is made before a job has to be named.
        let idle = tempfile::tempdir().unwrap();
        drop(ids_of(idle.path()));
        assert_eq!(fs::read_dir(idle.path()).unwrap().count(), 0);
    }
}
