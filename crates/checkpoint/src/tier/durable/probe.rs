//! A small file by which ranks find out whether they see one directory: one rank writes it, the others look for it.
//!
//! Its name and its content are a nonce that no other opening uses, so no cache of a network file system can know it
//! before it is there. It is removed as soon as all ranks have looked; one that a crashed run left is removed by the next.

use super::Durable;
use crate::Error;
use std::io;
use std::path::PathBuf;

/// What its name in the job's directory begins with; sixteen hexadecimal digits follow.
const PREFIX: &str = "probe-";

/// Whether a file of this name in a job's directory is one.
pub(crate) fn is_probe(name: &str) -> bool {
    let digits = name.strip_prefix(PREFIX).unwrap_or_default();
    digits.len() == 16 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn content(nonce: u64) -> String {
    format!("{nonce:016x}\n")
}

impl Durable {
    fn probe_path(&self, nonce: u64) -> PathBuf {
        self.directory.join(format!("{PREFIX}{nonce:016x}"))
    }

    /// Writes the file, after removing those of runs that crashed.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub(crate) fn write_probe(&self, nonce: u64) -> Result<(), Error> {
        self.expect_opened()?;
        let names = self.storage.list_directory(&self.directory).map_err(Error::storage("list", &self.directory))?;
        for name in names.iter().filter(|name| name.to_str().is_some_and(is_probe)) {
            // One that stays does no harm: no opening looks for its nonce again.
            let _ = self.storage.remove_file(&self.directory.join(name));
        }
        let path = self.probe_path(nonce);
        let file = self.storage.create_file(&path, 0, false).map_err(Error::storage("create", &path))?;
        file.write_at(content(nonce).as_bytes(), 0).map_err(Error::storage("write", &path))?;
        file.sync().map_err(Error::storage("sync", &path))
    }

    /// Whether the file is there.
    ///
    /// # Errors
    /// [`Error::Storage`] where that cannot be seen.
    pub(crate) fn sees_probe(&self, nonce: u64) -> Result<bool, Error> {
        self.expect_opened()?;
        // Opening the directory makes a client of NFS ask its server what is in it, whatever it has in its cache.
        self.storage.list_directory(&self.directory).map_err(Error::storage("list", &self.directory))?;
        let (path, wanted) = (self.probe_path(nonce), content(nonce));
        let read = self.storage.open_file(&path, false).and_then(|file| {
            let mut bytes = vec![0; wanted.len()];
            file.read_at(&mut bytes, 0).map(|()| bytes)
        });
        match read {
            Ok(bytes) => Ok(bytes == wanted.as_bytes()),
            // It may be there before its content is.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof) => Ok(false),
            Err(error) => Err(Error::storage("read", &path)(error)),
        }
    }

    /// Removes the file, if it is there and can be removed; the next opening tries again.
    pub(crate) fn remove_probe(&self, nonce: u64) {
        let _ = self.storage.remove_file(&self.probe_path(nonce));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::Disk;
    use crate::tier::{Durable, DurableOptions, JobDirectory};
    use std::fs;
    use std::sync::Arc;

    #[test]
    fn a_probe_is_seen_by_its_own_nonce_alone_and_belongs_to_the_job() {
        let home = tempfile::tempdir().unwrap();
        let tier = Durable::open(Arc::new(Disk), home.path(), "job", DurableOptions::default()).unwrap();
        assert!(!tier.sees_probe(7).unwrap());
        tier.write_probe(7).unwrap();
        assert!(tier.sees_probe(7).unwrap() && !tier.sees_probe(8).unwrap());
        // Its content comes later than its name, and another one is not it.
        let path = home.path().join("job/probe-0000000000000007");
        for content in ["", "0000", "0000000000000008\n"] {
            fs::write(&path, content).unwrap();
            assert!(!tier.sees_probe(7).unwrap(), "{content:?}");
        }
        tier.write_probe(9).unwrap();
        assert!(!path.exists() && tier.sees_probe(9).unwrap());
        let directory = JobDirectory::open(home.path(), "job").unwrap().unwrap();
        assert!(directory.strange().is_empty(), "{:?}", directory.strange());
        let locks = directory.lock(false).unwrap();
        directory.remove(&locks).unwrap();
        assert!(!home.path().join("job").exists());
    }
}
