//! What was changed on a host, written down before and after: a JSON line each, appended.

use super::lines;
use crate::output;
use anyhow::{Context, ensure};
use serde::Serialize;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use surefoot_hostfs::Root;
use surefoot_memory::tune::act::{Applied, Step};
use surefoot_store::output::Opened;

/// A journal that has grown to this is not written on: a person is to put it away.
const BYTES_MAX: u64 = 16 << 20;

pub struct Journal {
    file: File,
    path: PathBuf,
}

#[derive(Serialize)]
struct Entry<'a> {
    at_realtime: String,
    uid: u32,
    #[serde(flatten)]
    step: lines::StepLine<'a>,
}

impl Journal {
    /// Opens it, before anything is done: an absolute path is one below the root, any other one begins where the command was started.
    pub fn open(root: &Root, path: &Path) -> anyhow::Result<Journal> {
        let path = if path.is_absolute() { root.path(path) } else { std::path::absolute(path)? };
        let at = || format!("--journal: cannot write {}; nothing was changed", path.display());
        // Asked first: to open a pipe that nobody reads says no more than that there is no such device.
        let is_other = fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file() && !found.is_symlink());
        ensure!(!is_other, "{}: it is not a regular file; name one, or a name at which there is nothing yet", at());
        // As other output files: no stranger's link or file is followed or written to.
        let Opened { mut file, .. } = surefoot_store::output::open(&path).with_context(at)?;
        let found = file.metadata().with_context(at)?;
        ensure!(found.is_file(), "{}: it is not a regular file", at());
        ensure!(found.len() < BYTES_MAX, "{}: it is {} bytes long; put it away first", at(), found.len());
        ensure!(file.try_lock().is_ok(), "{}: another `memory tune --apply` is writing to it; let that one end", at());
        file.seek(SeekFrom::End(0)).with_context(at)?;
        Ok(Journal { file, path })
    }

    /// A step is about to be done.
    pub fn begins(&mut self, step: &Step) -> anyhow::Result<()> {
        self.write(step, None)
    }

    /// A step was done.
    pub fn ends(&mut self, step: &Step, outcome: &Applied) -> anyhow::Result<()> {
        self.write(step, Some(outcome))
    }

    fn write(&mut self, step: &Step, outcome: Option<&Applied>) -> anyhow::Result<()> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_realtime = crate::units::rfc3339(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX));
        let uid = surefoot_checkpoint::inspect::own_user();
        let mut said = lines::step(step, outcome);
        if outcome.is_none() {
            said.outcome = "about_to_write";
        }
        let mut line = Vec::new();
        output::line(&mut line, &Entry { at_realtime, uid, step: said })?;
        self.file.write_all(&line).and_then(|()| self.file.sync_data()).with_context(|| {
            format!("--journal: {} does not take the line on {}", self.path.display(), step.path.display())
        })
    }
}
