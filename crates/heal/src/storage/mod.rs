//! The file operations that checkpoints need, and no others: so that a test can stop, tear or refuse each of them.

pub mod beneath;
mod directory;
mod disk;
mod named;

pub use directory::open_at;
pub use directory::{Directory, Kind};
pub use disk::Disk;
pub use disk::allocate;
pub use named::Named;

use std::io;
use std::path::{Path, PathBuf};

/// A file system. Paths are absolute. Nothing here follows a symbolic link in the last part of a path, and everything
/// that is created is private to the user.
pub trait Storage: Send + Sync {
    /// Creates a directory, private to the user. That it exists already is an error of kind `AlreadyExists`.
    fn create_directory(&self, path: &Path) -> io::Result<()>;

    /// Refuses what is there if it is no directory, or a link to one, or belongs to another user: whoever can change it
    /// could change what comes back.
    fn expect_own_directory(&self, path: &Path) -> io::Result<()>;

    /// Creates a new file for reading and writing with room for `bytes`, private to the user; an existing one is an
    /// error. With `direct`, reads and writes pass the page cache where the file system can do that.
    fn create_file(&self, path: &Path, bytes: u64, direct: bool) -> io::Result<Box<dyn StoredFile>>;

    /// Opens a file for reading, and for writing if asked to.
    fn open_file(&self, path: &Path, writable: bool) -> io::Result<Box<dyn StoredFile>>;

    /// Renames; an existing target is replaced at once.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    fn remove_directory(&self, path: &Path) -> io::Result<()>;

    /// Makes the entries of a directory durable.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;

    /// Names in a directory, sorted; [`LISTED_MAX`] at most, more is an error.
    fn list_directory(&self, path: &Path) -> io::Result<Vec<PathBuf>>;

    /// Takes a file for this process alone, creating it if it is not there, until what is returned is dropped. That
    /// another has it is an error of kind `WouldBlock`.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;

    /// Bytes that can still be written below a directory, for this user; [`u64::MAX`] where the file system has no limit or does not
    /// report its size (0 blocks), as some of FUSE: then only a write finds out.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;
}

/// The most names that a directory of ours may have.
pub const LISTED_MAX: usize = 65_536;

/// An open file. Closing is dropping; what must be known before it is known by [`StoredFile::sync`].
pub trait StoredFile: Send + Sync {
    /// Length in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Reads exactly as many bytes as the buffer holds.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all bytes. Through a direct file, address, offset and length are multiples of 4096.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Writes all bytes, which are whole pages, and where their room can no longer be written to, gives them other room
    /// first.
    fn renew_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_at(bytes, offset)
    }

    /// Frees the room of a file that is about to be removed, if it has no other name. Otherwise a process that the program
    /// forked, and that still has it open, would keep the room for as long as it runs.
    fn release(&self) -> io::Result<()> {
        Ok(())
    }

    /// Makes the content and the length durable. After an error the file must be given up.
    fn sync(&self) -> io::Result<()>;
}
