//! What the drive beneath a job may still take, kept from one session of the job to the next beside its checkpoints: a
//! job that crashes in a loop would otherwise begin with a full budget each time.
//!
//! One small file in the job's directory, `budget`, framed as a commit is (letters, length, checksum, JSON). It is written
//! before the checkpoint that it counts, whole and durable, or not at all.

use super::Durable;
use crate::Error;
use crate::generation::{frame, read_framed, unframe};
use serde::{Deserialize, Serialize};

/// The first bytes of the file.
const MAGIC: [u8; 8] = *b"SFBUDG01";

/// Its name in the job's directory, and the one while it is written.
pub(crate) const BUDGET: &str = "budget";
pub(crate) const BUDGET_NEW: &str = "budget.new";

/// What may still be written, at some time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// Bytes; less than 0 where more was written than the drive bears.
    pub left_bytes: f64,
    /// When that was, `CLOCK_REALTIME`.
    pub realtime_ns: u64,
}

impl Durable {
    /// Keeps a budget for the next session of the job. Of those that share the directory one does.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub fn keep_budget(&self, budget: &Budget) -> Result<(), Error> {
        let bytes = frame(MAGIC, budget).map_err(|why| Error::Option { option: "budget", why })?;
        let name = self.directory.join(BUDGET);
        self.put_at(&name, &self.directory.join(BUDGET_NEW), &bytes)?;
        self.storage.sync_directory(&self.directory).map_err(Error::storage("sync", &self.directory))
    }

    /// What was kept; `None` where nothing was.
    ///
    /// # Errors
    /// [`Error::Storage`], [`Error::Damaged`].
    pub fn kept_budget(&self) -> Result<Option<Budget>, Error> {
        let path = self.directory.join(BUDGET);
        let bytes = match read_framed(&*self.storage, &path) {
            Err(error) if error.is_absence() => return Ok(None),
            read => read?,
        };
        let found = unframe(MAGIC, &bytes).and_then(|budget: Budget| match budget.left_bytes.is_finite() {
            true => Ok(Some(budget)),
            false => Err("it holds no number".into()),
        });
        found.map_err(|why| Error::Damaged { path, why })
    }
}
