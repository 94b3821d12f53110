//! `surefoot checkpoint settings`: which settings are in force, and where each was said.

use super::options::SettingsOptions;
use anyhow::Context;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use surefoot_checkpoint::Config;
use surefoot_checkpoint::config::{memory_default, memory_of};
use surefoot_checkpoint::inspect;
use surefoot_checkpoint::medium::Media;
use surefoot_checkpoint::settings::{Settings, Surroundings, Told, read_published};
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::table::Table;
use surefoot_model::CheckpointTier;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "setting")]
pub struct SettingLine<'a> {
    /// The directory of the job that was opened with it; `null` for one that is started here and now.
    job_directory: Option<&'a Path>,
    name: &'a str,
    value: &'a str,
    /// `default`, the file with its line, the variable, or `the program`.
    source: &'a str,
    /// Whether the job has the tier or the policy that it belongs to.
    is_in_force: bool,
}

pub fn run(options: &SettingsOptions) -> anyhow::Result<Outcome> {
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    if options.json {
        output::stream(&mut out, "checkpoint settings")?;
    }
    if options.directories.is_empty() {
        let here = Settings::of(&Surroundings::here(), "", memory_default())?;
        show(&mut out, options, None, &here.told())?;
        out.flush()?;
        // What no program has said yet, such as a tier, the program may still say.
        let media = here.to_open().and_then(Config::check).context("a job that is started here would be refused")?;
        if !options.json {
            tell_media(&mut out, here.config(), &media)?;
        }
        anyhow::ensure!(
            media.unlooked.is_empty(),
            "a new job that is started here would be refused: {}",
            media.unlooked.join("; ")
        );
    } else {
        let jobs = opened(&options.directories)?;
        for (directory, told) in &jobs {
            show(&mut out, options, Some(directory), told)?;
        }
        if jobs.is_empty() {
            out.flush()?;
            anyhow::bail!("{}", nothing_told(&options.directories)?);
        }
    }
    out.flush()?;
    Ok(Outcome::Done)
}

/// What the tiers lie on, and what a user should know of it.
fn tell_media(out: &mut impl Write, config: &Config, media: &Media) -> io::Result<()> {
    for tier in [CheckpointTier::Memory, CheckpointTier::Durable, CheckpointTier::Shared] {
        if let Some(medium) = media.of(tier) {
            writeln!(out, "{} is on {}", tier.as_str(), surefoot_model::one_line(&medium.said))?;
        }
    }
    media.notices(config).iter().try_for_each(|notice| writeln!(out, "Note: {}", surefoot_model::one_line(notice)))?;
    out.flush()
}

/// The jobs below these directories that say with what they were opened, each once. Jobs of earlier releases left it in the first of their
/// tiers alone: of one that has only a durable tier here, what it left in the memory of its user, where no setting says another directory.
fn opened(directories: &[PathBuf]) -> anyhow::Result<Vec<(PathBuf, Vec<Told>)>> {
    let survey = inspect::survey(directories)?;
    let mut found: BTreeMap<PathBuf, Vec<Told>> = BTreeMap::new();
    for (directory, _) in survey.journals {
        let told = read_published(&directory)
            .with_context(|| format!("the settings in {} cannot be read", directory.display()))?;
        found.extend(told.map(|told| (directory, told)));
    }
    for copy in survey.copies.iter().filter(|copy| !copy.is_astray()) {
        let is_of = |told: &Vec<Told>| told.iter().any(|told| is_tier_of(told, &copy.job_directory, &copy.job()));
        if found.contains_key(&copy.job_directory) || found.values().any(is_of) {
            continue;
        }
        for directory in [copy.job_directory.clone(), memory_of(copy.owner).join(copy.job())] {
            if let Some(told) = read_published(&directory).unwrap_or(None).filter(is_of) {
                found.insert(directory, told);
                break;
            }
        }
    }
    Ok(found.into_iter().collect())
}

/// Whether a setting names the tier that has this directory for the job.
fn is_tier_of(told: &Told, job_directory: &Path, job: &str) -> bool {
    let named = || fs::canonicalize(Path::new(&told.value).join(job));
    ["durable", "shared"].contains(&told.name.as_str())
        && fs::canonicalize(job_directory).is_ok_and(|directory| named().is_ok_and(|named| named == directory))
}

/// Why no settings are shown, and where they may be.
fn nothing_told(directories: &[PathBuf]) -> anyhow::Result<String> {
    let survey = inspect::survey(directories)?;
    let jobs: BTreeSet<(u32, String)> = survey.copies.iter().map(|copy| (copy.owner, copy.job())).collect();
    let Some((owner, job)) = jobs.first() else {
        return Ok("there is no checkpoint; without DIR, the command shows what a job started here would use".into());
    };
    let more = if jobs.len() > 1 { format!(", and {} more jobs", jobs.len() - 1) } else { String::new() };
    Ok(format!(
        "there are checkpoints of job {job:?} of user {owner}{more}, and no settings beside them: rank 0 leaves them in the tiers of its \
         node, earlier releases in the first tier alone. Name the job's directory there, such as {}",
        memory_of(*owner).join(job).display()
    ))
}

fn show(
    out: &mut impl Write,
    options: &SettingsOptions,
    directory: Option<&Path>,
    settings: &[Told],
) -> anyhow::Result<()> {
    if options.json {
        for told in settings {
            let Told { name, value, source, is_in_force } = told;
            let line = SettingLine { job_directory: directory, name, value, source, is_in_force: *is_in_force };
            output::line(out, &line)?;
        }
        return Ok(());
    }
    if let Some(directory) = directory {
        writeln!(out, "{}, when it was opened last:", surefoot_model::one_line(&directory.to_string_lossy()))?;
    }
    let mut table = Table::new(&["setting", "value", "said by"], &[0, 1, 2]);
    for told in settings {
        let source = if told.is_in_force { told.source.clone() } else { format!("{}; not in force", told.source) };
        table.row(vec![told.name.clone(), told.value.clone(), source]);
    }
    out.write_all(table.text().as_bytes())?;
    if settings.iter().any(|told| !told.is_in_force) {
        writeln!(out, "Not in force: the setting is for a tier or a policy that this job does not have.")?;
    }
    Ok(())
}
