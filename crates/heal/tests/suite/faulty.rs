//! The made-up disk as a storage of checkpoints.

use std::io;
use std::path::{Path, PathBuf};
use surefoot_heal::{Storage, StoredFile};
use surefoot_testkit::storage::{FaultyDisk, FaultyFile};

pub struct Faulty(pub FaultyDisk);

struct Opened(FaultyFile);

impl Storage for Faulty {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.0.create_directory(path)
    }

    fn expect_own_directory(&self, path: &Path) -> io::Result<()> {
        self.0.list_directory(path).map(drop)
    }

    fn create_file(&self, path: &Path, bytes: u64, _: bool) -> io::Result<Box<dyn StoredFile>> {
        Ok(Box::new(Opened(self.0.create_file(path, bytes)?)))
    }

    fn open_file(&self, path: &Path, writable: bool) -> io::Result<Box<dyn StoredFile>> {
        Ok(Box::new(Opened(self.0.open_file(path, writable)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.0.remove_file(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.0.remove_directory(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.0.sync_directory(path)
    }

    fn list_directory(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.0.list_directory(path)
    }

    fn lock(&self, _: &Path) -> io::Result<Box<dyn Send + Sync>> {
        Ok(Box::new(()))
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        self.0.free_bytes()
    }
}

impl StoredFile for Opened {
    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}
