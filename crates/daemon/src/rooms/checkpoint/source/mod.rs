//! What lies in the directories of checkpoints, looked at every few seconds, and told as what changed.
//!
//! Directories, manifests and journals belong to whoever may write there, so that nothing in them is trusted and every
//! look has an end: so many copies, jobs, lines, bytes, seconds. Nothing here writes or takes a lock.

mod changes;
mod drives;
mod jobs;
mod locks;
mod look;
mod looks;
mod mounts;

use crate::sources::{End, Source, Start};
use changes::Changes;
pub(in crate::rooms) use look::Looker;
use looks::Looks;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surefoot_hostfs::Root;
use surefoot_model::Event;

/// The time between two looks, at least.
const PERIOD: Duration = Duration::from_secs(2);
/// A look that takes long is followed by a rest of so many times that, so that looking costs a tenth of a core at most.
const REST_FACTOR: u32 = 9;

/// The source of checkpoints: the jobs whose checkpoints lie in these directories, which are absolute. A directory that
/// cannot be looked at is part of what is seen, and no error.
pub fn source(root: &Root, directories: Vec<PathBuf>) -> Start {
    let looks = Looks::new(root.clone(), directories);
    Box::new(move || Ok(Box::new(Checkpoints { looks, changes: Changes::default() })))
}

struct Checkpoints {
    looks: Looks,
    changes: Changes,
}

impl Source for Checkpoints {
    fn turn(&mut self, end: &End) -> Result<Vec<Event>, String> {
        let Some((look, found)) = self.looks.look(end)? else { return Ok(Vec::new()) };
        Ok(self.changes.take(look, found).into_iter().map(Event::Checkpoint).collect())
    }

    fn rest(&self, took: Duration) -> Duration {
        PERIOD.max(took * REST_FACTOR)
    }
}

/// A path as text; what is not UTF-8 or no letter is replaced.
fn text(path: &Path) -> String {
    surefoot_model::one_line(&path.to_string_lossy())
}
