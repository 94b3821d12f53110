//! The socket in the run directory: another way to the same answers, over which the kernel itself says who asks.
//!
//! Everybody may connect, as to the port; what each sees is decided by his user in the same way. It appears under its name
//! once this process is the one that publishes in the directory, as `health.json` does.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// The socket's name in the run directory.
pub const SOCKET_NAME: &str = "http.sock";

/// The file of the socket; taken away when dropped, unless another has taken its place.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Where it was made: a name that no other process uses.
    prepared: PathBuf,
    /// Which file it is: device and number.
    is: (u64, u64),
    is_published: bool,
}

impl SocketFile {
    /// A socket that listens and has no name yet under which others look for it.
    ///
    /// # Errors
    /// When the directory cannot be written, or its path is longer than a socket's may be (some 100 bytes).
    pub(crate) fn prepare(directory: &Path) -> io::Result<(UnixListener, SocketFile)> {
        let prepared = directory.join(format!(".{SOCKET_NAME}.{}", std::process::id()));
        // Left behind by an earlier process of this number.
        match fs::remove_file(&prepared) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&prepared)?;
        let about = fs::symlink_metadata(&prepared)?;
        let path = directory.join(SOCKET_NAME);
        let file = SocketFile { path, prepared, is: (about.dev(), about.ino()), is_published: false };
        listener.set_nonblocking(true)?;
        fs::set_permissions(&file.prepared, fs::Permissions::from_mode(0o666))?;
        Ok((listener, file))
    }

    /// Gives it its name, in the place of one that a dead process left there. Does nothing the second time.
    pub(crate) fn publish(&mut self) -> io::Result<()> {
        if !self.is_published {
            fs::rename(&self.prepared, &self.path)?;
            self.is_published = true;
        }
        Ok(())
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let path = if self.is_published { &self.path } else { &self.prepared };
        if fs::symlink_metadata(path).is_ok_and(|about| (about.dev(), about.ino()) == self.is) {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn it_takes_the_place_of_a_dead_one_and_leaves_another_alone() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(SOCKET_NAME);
        drop(UnixListener::bind(&path).unwrap());
        assert!(UnixStream::connect(&path).is_err(), "nobody listens any more");
        let (_listener, mut file) = SocketFile::prepare(home.path()).unwrap();
        assert!(UnixStream::connect(&path).is_err(), "it has no name yet");
        file.publish().unwrap();
        file.publish().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
        assert!(UnixStream::connect(&path).is_ok());
        fs::remove_file(&path).unwrap();
        let another = UnixListener::bind(&path).unwrap();
        drop(file);
        assert!(UnixStream::connect(&path).is_ok(), "that one is not ours to remove");
        drop(another);
        let (_listener, mut file) = SocketFile::prepare(home.path()).unwrap();
        file.publish().unwrap();
        drop(file);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0, "nothing stays");
    }
}
