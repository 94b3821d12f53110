//! Sockets in the file system: another way to the same answers, over which the kernel itself says who asks.
//!
//! Every user may connect, as to the port; what each may see or do depends on the user. That in the run directory appears under its
//! name once this process is the one that publishes there, as `health.json` does.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// The socket's name in the run directory.
pub const SOCKET_NAME: &str = "http.sock";

/// The file of the socket; taken away when dropped, unless another has taken its place.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Where it was made: a name that no other process uses.
    prepared: PathBuf,
    /// Which file it is: device and number.
    is: (u64, u64),
    is_published: bool,
}

impl SocketFile {
    /// A socket that listens and does not yet have the name under which others look for it.
    ///
    /// # Errors
    /// When the path names no file, the directory cannot be written, or the socket was exchanged while it was made.
    pub fn prepare(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "the path of a socket ends in a file name");
        let mut name = OsString::from(".");
        name.push(path.file_name().ok_or_else(no_name)?);
        name.push(format!(".{}", std::process::id()));
        // Held, so that everything below happens in one directory, however its path is changed meanwhile.
        let held = hold(directory, libc::O_DIRECTORY)?;
        let inside = by_descriptor(&held).join(&name);
        // Left behind by an earlier process of this number.
        match fs::remove_file(&inside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&inside)?;
        let (path, prepared) = (path.to_owned(), directory.join(&name));
        let about = open_to_all(&inside)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", prepared.display())))?;
        let file = SocketFile { path, prepared, is: (about.dev(), about.ino()), is_published: false };
        listener.set_nonblocking(true)?;
        Ok((listener, file))
    }

    /// Where it is once it is published.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it its name, in the place of one that a dead process left there. Does nothing the second time.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn publish(&mut self) -> io::Result<()> {
        if !self.is_published {
            fs::rename(&self.prepared, &self.path)?;
            self.is_published = true;
        }
        Ok(())
    }
}

/// Lets everybody connect to our socket of this name, by its descriptor: a link that takes the name is not followed.
fn open_to_all(socket: &Path) -> io::Result<fs::Metadata> {
    let held = hold(socket, libc::O_NOFOLLOW)?;
    let about = held.metadata()?;
    if !about.file_type().is_socket() || about.uid() != surefoot_hostfs::privilege::effective_user() {
        let why = "another file took the place of the socket; let no other user write to this directory";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    fs::set_permissions(by_descriptor(&held), fs::Permissions::from_mode(0o666))?;
    Ok(about)
}

/// A descriptor of the file itself, which reads and opens nothing.
fn hold(path: &Path, flags: i32) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_PATH | flags).open(path)
}

fn by_descriptor(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
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
    fn a_link_that_took_the_sockets_name_is_refused_and_its_target_keeps_its_mode() {
        let home = tempfile::tempdir().unwrap();
        let (secret, link) = (home.path().join("secret"), home.path().join("link"));
        fs::write(&secret, "").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&secret, &link).unwrap();
        for taken in [&link, &secret] {
            assert_eq!(open_to_all(taken).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        }
        assert_eq!(fs::metadata(&secret).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn it_takes_the_place_of_a_dead_one_and_leaves_another_alone() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(SOCKET_NAME);
        drop(UnixListener::bind(&path).unwrap());
        assert!(UnixStream::connect(&path).is_err(), "nobody listens any more");
        let (_listener, mut file) = SocketFile::prepare(&path).unwrap();
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
        let (_listener, mut file) = SocketFile::prepare(&path).unwrap();
        file.publish().unwrap();
        drop(file);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0, "nothing stays");
    }
}
