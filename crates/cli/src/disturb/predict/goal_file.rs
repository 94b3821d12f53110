//! `--goal` and `--write-goal`: jobs as GOAL files.

use super::options::PredictOptions;
use anyhow::Context;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use surefoot_console::people;
use surefoot_console::units::counted;
use surefoot_disturb::predict::goal::{self, Goal};

pub fn read(path: &Path) -> anyhow::Result<Goal> {
    let at = || format!("--goal {}", path.display());
    let file = surefoot_foreign::hold(path).and_then(|held| held.regular()?.open()).with_context(at)?;
    Goal::parse(BufReader::with_capacity(1 << 20, file)).with_context(at)
}

/// Writes the pattern of these options to a new file.
pub fn write(options: &PredictOptions, path: &Path) -> anyhow::Result<()> {
    let job = options.job()?;
    let at = || format!("--write-goal {}", path.display());
    let file = File::options()
        .write(true)
        .create_new(true)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
        .with_context(|| format!("{}: cannot make a new file there", at()))?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let written = goal::write(&job, &mut out)
        .map_err(anyhow::Error::from)
        .and_then(|count| out.flush().map(|()| count).map_err(anyhow::Error::from));
    let count = written.with_context(|| {
        // A cut file could be taken for the whole.
        let left = if fs::remove_file(path).is_ok() { "nothing of it is kept" } else { "what is there is cut" };
        format!("{}: {left}", at())
    })?;
    let (ranks, operations) = (counted(job.ranks(), "rank", "ranks"), counted(count, "operation", "operations"));
    people::tell!("surefoot: {} has {ranks} and {operations}", path.display());
    Ok(())
}
