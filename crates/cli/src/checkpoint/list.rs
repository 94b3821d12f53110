//! `surefoot checkpoint list`.

use super::jobs::{self, JobLine};
use super::lost::Gone;
use super::options::DirectoriesOptions;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use surefoot_checkpoint::inspect::{self, Copy, Survey, Tier};
use surefoot_checkpoint::medium::Medium;
use surefoot_checkpoint::{Error, GenerationId, Manifest};
use surefoot_console::exit::Outcome;
use surefoot_console::table::Table;
use surefoot_console::units::rfc3339;
use surefoot_console::words::{size, utc};
use surefoot_console::{output, people};
use surefoot_model::one_line;

/// Copies of one checkpoint in one tier.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "generation")]
pub struct Row {
    job: String,
    /// The user whose the job's directory is.
    uid: u32,
    tier: &'static str,
    directory: PathBuf,
    generation: u64,
    nonce: String,
    taken_realtime_ns: Option<u64>,
    taken_realtime: Option<String>,
    /// Ranks that the job had; `null` where no manifest can be read.
    ranks: Option<u32>,
    ranks_here: Vec<u32>,
    /// Of the ranks that are here; `null` where the manifest of one cannot be read.
    payload_bytes: Option<u64>,
    stored_bytes: u64,
    protection: Option<&'static str>,
    /// Whether the directory survives a loss of power, by what it lies on; `null` where that is not known.
    is_durable: Option<bool>,
    /// `null` in memory, where nothing is marked.
    is_committed: Option<bool>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "problem")]
pub struct ProblemLine<'a> {
    pub path: &'a Path,
    pub why: &'a str,
}

/// What is whole and has lost its redundancy.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "repairable")]
pub struct RepairableLine<'a> {
    pub path: &'a Path,
    pub why: &'a str,
}

pub fn run(options: &DirectoriesOptions) -> anyhow::Result<Outcome> {
    let survey = inspect::survey(&options.directories()?)?;
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    let rows = rows(&survey);
    let mut problems = problems(&survey);
    let gone = Gone::of(&survey);
    problems.extend(gone.problems(&survey).map(|unread| (unread.path.clone(), unread.why.clone())));
    let jobs = inspect::jobs(&survey, &mut |error| problems.push(split(error)));
    let now_ns = jobs::now_ns();
    let jobs: Vec<JobLine> = jobs.iter().map(|job| JobLine::of(job, now_ns)).collect();
    if options.json {
        output::stream(&mut out, "checkpoint list")?;
        rows.iter().try_for_each(|row| output::line(&mut out, row))?;
        jobs.iter().try_for_each(|job| output::line(&mut out, job))?;
        gone.lines().try_for_each(|line| output::line(&mut out, &line))?;
        repairable(&survey).try_for_each(|(path, why)| output::line(&mut out, &RepairableLine { path, why }))?;
        for (path, why) in &problems {
            output::line(&mut out, &ProblemLine { path, why })?;
        }
    } else {
        out.write_all(text(&rows, problems.is_empty() && gone.is_empty()).as_bytes())?;
        if !jobs.is_empty() {
            write!(out, "\n{}", jobs::table(&jobs))?;
        }
        for job in &jobs {
            if let Some(weakness) = job.weakness.as_deref().filter(|weakness| !weakness.is_empty()) {
                writeln!(out, "Job {}: {weakness}", job.job)?;
            }
        }
        out.write_all(gone.text().as_bytes())?;
        for (path, why) in repairable(&survey) {
            let (path, why) = (people::path(path), one_line(why));
            writeln!(
                out,
                "{path}: repairable: one of the two copies of the manifest: {why}; `checkpoint scrub` rewrites it"
            )?;
        }
        for (path, why) in &problems {
            writeln!(out, "Problem: {}: {}", people::path(path), one_line(why))?;
        }
        if survey.problems_left_out > 0 {
            writeln!(out, "and {} more problems", survey.problems_left_out)?;
        }
    }
    out.flush()?;
    inspect::elsewhere(&survey).iter().for_each(|other| surefoot_console::tell!("surefoot: {other}"));
    // What could not be looked at may hold more.
    Ok(if problems.is_empty() && survey.problems_left_out == 0 && gone.is_empty() {
        Outcome::Done
    } else {
        Outcome::Found
    })
}

fn rows(survey: &Survey) -> Vec<Row> {
    // The newest run's first: a number of an older run may be the higher one.
    type Key<'a> = (&'a PathBuf, Reverse<(u64, GenerationId)>, Tier);
    let epochs = survey.epochs();
    let mut groups: BTreeMap<Key<'_>, Vec<&Copy>> = BTreeMap::new();
    for copy in &survey.copies {
        if let Some(generation) = copy.generation {
            let epoch = epochs.get(&generation).copied().unwrap_or(0);
            let key = (&copy.job_directory, Reverse((epoch, generation)), copy.tier);
            groups.entry(key).or_default().push(copy);
        }
    }
    groups
        .into_iter()
        .map(|((directory, generation, tier), copies)| row(directory, generation.0.1, tier, &copies))
        .collect()
}

fn row(directory: &Path, generation: GenerationId, tier: Tier, copies: &[&Copy]) -> Row {
    let manifests: Vec<&Manifest> = copies.iter().filter_map(|copy| copy.manifest.as_ref().ok()).collect();
    let first = manifests.first();
    let mut ranks_here: Vec<u32> = copies.iter().filter(|copy| copy.manifest.is_ok()).map(|copy| copy.rank).collect();
    ranks_here.dedup();
    Row {
        job: copies.first().map(|copy| copy.job()).unwrap_or_default(),
        uid: copies.first().map(|copy| copy.owner).unwrap_or_default(),
        tier: tier.label(),
        directory: directory.to_owned(),
        generation: generation.number,
        nonce: format!("{:016x}", generation.nonce),
        taken_realtime_ns: first.map(|manifest| manifest.taken_realtime_ns),
        taken_realtime: first.map(|manifest| rfc3339(manifest.taken_realtime_ns)),
        ranks: first.map(|manifest| manifest.ranks),
        ranks_here,
        payload_bytes: inspect::payload_bytes(copies.iter().copied()),
        stored_bytes: copies.iter().fold(0, |sum, copy| sum.saturating_add(copy.stored_bytes)),
        protection: first.map(|manifest| manifest.protection.label()),
        is_durable: match tier {
            Tier::Memory => Some(false),
            Tier::Durable => copies.first().and_then(|copy| is_durable(&copy.image)),
        },
        is_committed: (tier == Tier::Durable).then(|| copies.iter().any(|copy| copy.committed_ranks.is_some())),
    }
}

/// Whether a copy in a durable tier survives a loss of power, by what its image lies on; `None` where that is not known.
pub fn is_durable(image: &Path) -> Option<bool> {
    Medium::of_nearest(image).ok().and_then(|medium| medium.is_durable())
}

/// A tier in a table: one that keeps copies in memory is not called durable.
pub fn tier_words(tier: &'static str, is_durable: Option<bool>) -> &'static str {
    match (tier, is_durable) {
        ("durable", Some(false)) => "in memory, not durable",
        ("durable", None) => "durable (unknown medium)",
        (tier, _) => tier,
    }
}

/// Manifests of which one of two copies is left.
fn repairable(survey: &Survey) -> impl Iterator<Item = (&Path, &str)> {
    survey.copies.iter().filter_map(|copy| copy.manifest_bad.as_ref()).map(|(path, why)| (path.as_path(), why.as_str()))
}

fn problems(survey: &Survey) -> Vec<(PathBuf, String)> {
    let mut problems: Vec<(PathBuf, String)> =
        survey.problems.iter().map(|problem| (problem.path.clone(), problem.why.clone())).collect();
    for copy in &survey.copies {
        let path = copy.manifests.first().unwrap_or(&copy.image).clone();
        match &copy.manifest {
            Err(_) if copy.is_unfinished() => {}
            Err(why) => problems.push((path, why.clone())),
            Ok(_) => {}
        }
    }
    problems
        .extend(inspect::renamed(survey).into_iter().map(|renamed| (renamed.directory.clone(), renamed.to_string())));
    problems
}

/// Where an error is, and what it says.
fn split(error: Error) -> (PathBuf, String) {
    match error {
        Error::Storage { action, path, source } => {
            (path, format!("cannot {action} it: {}", surefoot_foreign::said(&source)))
        }
        other => (PathBuf::new(), other.to_string()),
    }
}

fn text(rows: &[Row], is_all_read: bool) -> String {
    match (rows.is_empty(), is_all_read) {
        (true, true) => return "No checkpoints found.\n".into(),
        (true, false) => return "No checkpoint here can be read:\n".into(),
        (false, _) => {}
    }
    let mut header =
        vec!["job", "tier", "generation", "ranks", "bytes", "stored", "taken (UTC)", "committed", "protection"];
    // Where a name alone does not say which job it is.
    let is_ambiguous = are_of_several(rows);
    if is_ambiguous {
        header.extend(["user", "directory"]);
    }
    let mut table = Table::new(&header, &[0, 1, 6, 7, 8, 10]);
    for row in rows {
        let ranks = row.ranks.map_or("-".to_owned(), |ranks| ranks.to_string());
        let mut cells = vec![
            row.job.clone(),
            tier_words(row.tier, row.is_durable).to_owned(),
            row.generation.to_string(),
            format!("{} of {ranks}", row.ranks_here.len()),
            row.payload_bytes.map_or("-".to_owned(), |bytes| size(bytes as f64)),
            size(row.stored_bytes as f64),
            row.taken_realtime_ns.map_or("-".to_owned(), utc),
            row.is_committed.map_or("-", |is_committed| if is_committed { "yes" } else { "no" }).into(),
            row.protection.unwrap_or("-").into(),
        ];
        if is_ambiguous {
            cells.extend([row.uid.to_string(), people::path(&row.directory)]);
        }
        table.row(cells);
    }
    table.text()
}

/// Whether one tier has a job of one name in several directories: of several users, or of one who moved it.
fn are_of_several(rows: &[Row]) -> bool {
    let mut directories: BTreeMap<(&str, &str), &Path> = BTreeMap::new();
    rows.iter().any(|row| *directories.entry((&row.job, row.tier)).or_insert(&row.directory) != row.directory)
}
