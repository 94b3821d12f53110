//! The mark that a job has come to its end: what is not newer is a result, and no place to go on from.

use crate::generation::{Age, GenerationId, NAME_BYTES_MAX, OtherVersion, frame, unframe};
use crate::{Error, Storage};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Its name in the job's directory of each tier.
pub(crate) const COMPLETED: &str = "completed";
/// Its name while it is written.
pub(crate) const COMPLETED_NEW: &str = "completed.new";

const MAGIC: [u8; 8] = *b"SFDONE01";

/// The longest mark that is read.
const BYTES_MAX: usize = 64 << 10;

/// What the mark says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completed {
    /// The job, because a directory can be copied.
    pub job: String,
    /// The number of its last checkpoint.
    pub number: u64,
    /// When the run began that came to its end: later ones are not of the past, whatever their numbers.
    #[serde(default)]
    pub epoch: u64,
    /// When it ended, `CLOCK_REALTIME` nanoseconds.
    pub realtime_ns: u64,
}

impl Completed {
    /// Of all that is not newer the run is the end.
    pub(crate) fn age(&self) -> Age {
        Age { epoch: self.epoch, generation: GenerationId { number: self.number, nonce: u64::MAX } }
    }

    /// Puts the mark into a job's directory: whole and durable, or not at all.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub(crate) fn put(&self, storage: &dyn Storage, directory: &Path) -> Result<(), Error> {
        let bytes = frame(MAGIC, self).map_err(|why| Error::Option { option: "job", why })?;
        let (path, new) = (directory.join(COMPLETED), directory.join(COMPLETED_NEW));
        let _ = storage.remove_file(&new);
        let file = storage.create_file(&new, 0, false).map_err(Error::storage("create", &new))?;
        file.write_at(&bytes, 0).map_err(Error::storage("write", &new))?;
        file.sync().map_err(Error::storage("sync", &new))?;
        drop(file);
        storage.rename(&new, &path).map_err(Error::storage("rename", &new))?;
        storage.sync_directory(directory).map_err(Error::storage("sync", directory))
    }

    /// The mark in a job's directory. One that cannot be read marks nothing: then the job goes on from its end, and
    /// nothing is lost.
    pub(crate) fn read(storage: &dyn Storage, directory: &Path, job: &str) -> Option<Self> {
        let file = storage.open_file(&directory.join(COMPLETED), false).ok()?;
        Completed::from_file(&*file).filter(|found| found.job == job)
    }

    /// The mark in a job's directory, if it is of a version that this release does not know.
    pub(crate) fn other_version(storage: &dyn Storage, directory: &Path) -> Option<OtherVersion> {
        OtherVersion::among(storage, &directory.join(COMPLETED), &[MAGIC])
    }

    /// The mark in an open file.
    pub(crate) fn from_file(file: &dyn crate::StoredFile) -> Option<Self> {
        let mut bytes = vec![0; file.length().ok()?.min(BYTES_MAX as u64) as usize];
        file.read_at(&mut bytes, 0).ok()?;
        unframe(MAGIC, &bytes).ok().filter(|found: &Completed| found.job.len() <= NAME_BYTES_MAX)
    }

    /// Takes the mark away, so that the job goes on from its end.
    ///
    /// # Errors
    /// [`Error::Storage`]; that there is none is no error.
    pub(crate) fn remove(storage: &dyn Storage, directory: &Path) -> Result<(), Error> {
        let path = directory.join(COMPLETED);
        match storage.remove_file(&path) {
            Ok(()) => storage.sync_directory(directory).map_err(Error::storage("sync", directory)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Error::storage("remove", &path)(error)),
        }
    }
}
