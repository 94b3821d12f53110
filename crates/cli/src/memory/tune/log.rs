//! The journal of `memory tune --apply`: a JSON line before and after each change.

use super::lines;
use anyhow::{Context, ensure};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use surefoot_hostfs::Root;
use surefoot_journal::{Limits, NotLocked, Writer};
use surefoot_memory::tune::act::{Applied, Step};
use surefoot_store::output::Opened;

/// A journal of this size is not appended to; it has to be moved away first.
const LIMITS: Limits = Limits { line_bytes: 64 << 10, file_bytes: 16 << 20 };

pub struct Journal {
    writer: Writer,
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
    /// Opens it before anything is done. An absolute path lies below the root; any other one in the current directory.
    pub fn open(root: &Root, path: &Path) -> anyhow::Result<Journal> {
        let path = if path.is_absolute() { root.path(path) } else { std::path::absolute(path)? };
        let at = || format!("--journal: cannot write {}; nothing was changed", path.display());
        // Asked first: opening a pipe without a reader only fails with "no such device".
        let is_other = fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file() && !found.is_symlink());
        ensure!(!is_other, "{}: it is not a regular file; name one, or a new file", at());
        // As other output files: no stranger's link or file is followed or written to.
        let Opened { file, .. } = surefoot_store::output::open(&path).with_context(at)?;
        let found = file.metadata().with_context(at)?;
        ensure!(found.is_file(), "{}: it is not a regular file", at());
        ensure!(found.len() < LIMITS.file_bytes, "{}: it is {} bytes long; move it away first", at(), found.len());
        let mut writer = Writer::reopen(&file, LIMITS).with_context(at)?;
        match writer.lock(Duration::ZERO) {
            Ok(()) => {}
            Err(NotLocked::Held) => {
                anyhow::bail!("{}: another `memory tune --apply` is writing to it; let that one end", at())
            }
            Err(NotLocked::System(error)) => return Err(error).with_context(at),
        }
        Ok(Journal { writer, path })
    }

    /// Before a step.
    pub fn begins(&mut self, step: &Step) -> anyhow::Result<()> {
        self.write(step, None)
    }

    /// After a step.
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
        let written = self.writer.append(&Entry { at_realtime, uid, step: said });
        written.and_then(|()| Ok(self.writer.sync()?)).with_context(|| {
            format!(
                "--journal: {} cannot be written; it lacks the line on {}",
                self.path.display(),
                step.path.display()
            )
        })
    }
}
