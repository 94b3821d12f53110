//! `surefoot checkpoint restore`.

use super::list::is_durable;
use super::lost;
use super::options::RestoreOptions;
use super::progress::Bar;
use crate::account;
use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;
use surefoot_checkpoint::Error;
use surefoot_checkpoint::inspect::{self, RankFiles, Tier, Wanted};
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::units::rfc3339;
use surefoot_console::words::{size, utc};

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "rank")]
pub struct Line<'a> {
    job: &'a str,
    generation: u64,
    taken_realtime_ns: u64,
    taken_realtime: String,
    rank: u32,
    tier: &'static str,
    /// Whether it was read from where a loss of power leaves it; `null` where that is not known.
    is_durable: Option<bool>,
    directory: &'a Path,
    /// The user that the job's directory belongs to.
    uid: u32,
    /// The job's directory from which the part was read.
    from: &'a Path,
    file_count: u64,
    payload_bytes: u64,
    pages_repaired_count: u64,
    refused: &'a [String],
}

pub fn run(options: &RestoreOptions) -> anyhow::Result<Outcome> {
    let survey = inspect::survey(&options.directories)?;
    let owner = (!options.all_users).then(|| options.user.unwrap_or_else(inspect::own_user));
    let wanted = Wanted { job: options.job.clone(), generation: options.generation, rank: options.rank, owner };
    let mut bar = Bar::new("restore");
    let known = |done: u64, total: u64| {
        format!(
            "{to} is not known to be there ({} of {} were written); if it is not, what was written is in {to}.restoring-{}: remove that, and \
             restore again",
            size(done as f64),
            size(total as f64),
            std::process::id(),
            to = options.to.display(),
        )
    };
    account::say(&known(0, 0));
    let restored = inspect::restore(&survey, &wanted, &options.to, &mut |done, total| {
        bar.show(done, total);
        account::say(&known(done, total));
    });
    drop(bar);
    if let Ok(restored) = &restored {
        account::say(&format!("generation {} is in {}", restored.generation.number, options.to.display()));
    }
    let restored = match restored {
        Err(Error::NothingIntact { why }) => {
            surefoot_console::tell!("surefoot: no checkpoint of {:?} can be restored: {why}", options.job);
            return Ok(Outcome::Found);
        }
        Err(error) => {
            lost::tell(&options.directories, &options.job);
            return Err(error.into());
        }
        Ok(restored) => restored,
    };
    for renamed in inspect::renamed(&survey) {
        if restored.ranks.iter().any(|files| files.job_directory == renamed.directory) {
            surefoot_console::tell!("surefoot: {renamed}");
        }
    }
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    if options.json {
        output::stream(&mut out, "checkpoint restore")?;
    }
    for files in &restored.ranks {
        if options.json {
            output::line(
                &mut out,
                &Line {
                    job: &options.job,
                    generation: restored.generation.number,
                    taken_realtime_ns: restored.taken_realtime_ns,
                    taken_realtime: rfc3339(restored.taken_realtime_ns),
                    rank: files.rank,
                    tier: files.tier.label(),
                    is_durable: durable(files),
                    directory: &options.to,
                    uid: files.owner,
                    from: &files.job_directory,
                    file_count: files.file_count,
                    payload_bytes: files.payload_bytes,
                    pages_repaired_count: files.tally.pages_repaired,
                    refused: &restored.refused,
                },
            )?;
            continue;
        }
        let repaired = match files.tally.pages_repaired {
            0 => String::new(),
            pages => format!(", {pages} bad pages repaired on the way"),
        };
        writeln!(
            out,
            "rank {}: {} files, {}, from {} ({} of user {}){repaired}",
            files.rank,
            files.file_count,
            size(files.payload_bytes as f64),
            place(files),
            surefoot_console::people::path(&files.job_directory),
            files.owner
        )?;
    }
    if !options.json {
        restored.refused.iter().try_for_each(|refused| writeln!(out, "Refused: {refused}"))?;
        let (number, taken) = (restored.generation.number, utc(restored.taken_realtime_ns));
        writeln!(out, "Generation {number} of {taken} UTC is in {}", surefoot_console::people::path(&options.to))?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

/// Whether a part was read from where a loss of power leaves it.
fn durable(files: &RankFiles) -> Option<bool> {
    match files.tier {
        Tier::Memory => Some(false),
        Tier::Durable => is_durable(&files.image),
    }
}

/// Where a part was read, in the middle of a sentence.
fn place(files: &RankFiles) -> &'static str {
    match (files.tier, durable(files)) {
        (Tier::Memory, _) => "memory",
        (Tier::Durable, Some(true)) => "durable",
        (Tier::Durable, Some(false)) => "the durable directory, which is in memory",
        (Tier::Durable, None) => "the durable directory (unknown medium)",
    }
}
