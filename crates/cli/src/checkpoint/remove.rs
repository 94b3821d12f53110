//! `surefoot checkpoint remove`.

use super::jobs::{JobLine, now_ns};
use super::options::{RemoveOptions, own_memory};
use crate::account::Steps;
use serde::Serialize;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use surefoot_checkpoint::inspect::{self, Job};
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::words::size;
use surefoot_model::did_you_mean;

/// What became of a job.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "removal")]
pub struct Line<'a> {
    job: &'a str,
    uid: u32,
    directories: &'a [PathBuf],
    bytes: u64,
    /// `null` where there is no checkpoint.
    age_s: Option<f64>,
    /// `would_remove` without `--yes`, `removed`, `left_alone`, or `not_all_removed`: some of it is gone, and it cannot be restored.
    outcome: &'static str,
    /// Why it was left alone; empty otherwise.
    why: &'a str,
    /// What lies in its directories and is not its own; it stays.
    left: &'a [PathBuf],
    /// Directories of the job that were not looked at, as it was opened with them; they stay.
    elsewhere: &'a [PathBuf],
    /// The job's journals elsewhere in which the removal could not be noted: by them, what is removed counts as lost.
    not_noted: Vec<&'a Path>,
}

/// A job, and what became of it.
struct Outcomes {
    job: JobLine,
    outcome: &'static str,
    why: String,
    left: Vec<PathBuf>,
    elsewhere: Vec<PathBuf>,
    /// Journals in which it could not be noted, and why.
    not_noted: Vec<(PathBuf, String)>,
}

impl Outcomes {
    fn line(&self) -> Line<'_> {
        Line {
            job: &self.job.job,
            uid: self.job.uid,
            directories: &self.job.directories,
            bytes: self.job.bytes(),
            age_s: self.job.age_s,
            outcome: self.outcome,
            why: &self.why,
            left: &self.left,
            elsewhere: &self.elsewhere,
            not_noted: self.not_noted.iter().map(|(path, _)| path.as_path()).collect(),
        }
    }
}

pub fn run(options: &RemoveOptions) -> anyhow::Result<Outcome> {
    let bases = bases(options)?;
    let mut problems = Vec::new();
    let mut jobs = match &options.job {
        Some(name) => inspect::job(&bases, name)?,
        // A user who has had no job yet has no directory.
        None if options.directories.is_empty() && !bases[0].exists() => Vec::new(),
        None => {
            let survey = inspect::survey(&bases)?;
            let links = survey.problems.iter().filter(|problem| problem.is_link);
            problems.extend(links.map(|link| format!("{}: {}", link.path.display(), link.why)));
            inspect::jobs(&survey, &mut |error| problems.push(error.to_string()))
        }
    };
    if let (Some(name), true) = (&options.job, jobs.is_empty()) {
        let places: Vec<String> = bases.iter().map(|base| base.display().to_string()).collect();
        // A directory that cannot be read has already failed the search for the job.
        let there = inspect::survey(&bases).map(|all| inspect::jobs(&all, &mut |_| {})).unwrap_or_default();
        let meant = did_you_mean(name, there.iter().map(|job| job.name.as_str()));
        anyhow::bail!("no job is called {name:?} in {}; --in names other directories{meant}", places.join(", "));
    }
    let now_ns = now_ns();
    if let Some(age_s) = options.older_than {
        jobs.retain(|job| now_ns.saturating_sub(job.newest_realtime_ns()) as f64 >= age_s * 1e9);
    }
    let mut steps = options.yes.then(|| Steps::new("removed", jobs.len()));
    let one = |job: Job| {
        steps.iter_mut().for_each(|steps| steps.begin(&job.name));
        let line = one(job, options, now_ns);
        steps.iter_mut().for_each(|steps| steps.end(&line.outcome.replace('_', " ")));
        line
    };
    let lines: Vec<Outcomes> = jobs.into_iter().map(one).collect();
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    if options.json {
        output::stream(&mut out, "checkpoint remove")?;
        lines.iter().try_for_each(|line| output::line(&mut out, &line.line()))?;
    } else {
        lines.iter().try_for_each(|line| tell(&mut out, line))?;
        let is_any = lines.iter().any(|line| line.outcome == "would_remove");
        match (lines.is_empty(), is_any) {
            (true, _) => writeln!(out, "No job is that old.")?,
            (false, true) => writeln!(out, "Nothing was removed; --yes does it.")?,
            (false, false) => {}
        }
    }
    out.flush()?;
    problems.iter().for_each(|problem| surefoot_console::tell!("surefoot: left alone: {problem}"));
    let is_part = |line: &Outcomes| ["left_alone", "not_all_removed"].contains(&line.outcome);
    let is_left = lines.iter().any(|line| is_part(line) || !line.left.is_empty() || !line.not_noted.is_empty());
    Ok(if is_left || !problems.is_empty() { Outcome::Found } else { Outcome::Done })
}

/// The directories of tiers. Without a name the user's own in memory, if it is there.
fn bases(options: &RemoveOptions) -> anyhow::Result<Vec<PathBuf>> {
    match options.directories.is_empty() {
        false => Ok(options.directories.clone()),
        true => Ok(vec![own_memory()?]),
    }
}

fn one(job: Job, options: &RemoveOptions, now_ns: u64) -> Outcomes {
    let line = JobLine::of(&job, now_ns);
    let strange: Vec<PathBuf> = job.directories.iter().flat_map(|found| found.strange().to_vec()).collect();
    let elsewhere = job.elsewhere();
    let told = |job, outcome, why: String, left| Outcomes {
        job,
        outcome,
        why,
        left,
        elsewhere: elsewhere.clone(),
        not_noted: Vec::new(),
    };
    if line.is_running {
        return told(line, "left_alone", "it is running, or another command is at work on it".into(), strange);
    }
    if !options.all_users && line.uid != inspect::own_user() {
        return told(line, "left_alone", "it belongs to another user; --all-users takes it, too".into(), strange);
    }
    if let Err(error) = job.expect_named() {
        return told(line, "left_alone", error.to_string(), strange);
    }
    if !options.yes {
        return told(line, "would_remove", String::new(), strange);
    }
    let mut is_begun = false;
    if job.may_be_elsewhere() {
        surefoot_console::tell!(
            "surefoot: {}: no settings lie beside it, so its other tiers are not known; if one has its journal, `list` will call what is removed \
             here lost",
            surefoot_model::one_line(&job.name)
        );
    }
    match job.remove_telling(options.all_users, &mut is_begun) {
        Ok(removal) => {
            Outcomes { not_noted: removal.not_noted, ..told(line, "removed", String::new(), removal.removed.left) }
        }
        Err(error) if is_begun => told(line, "not_all_removed", error.to_string(), strange),
        Err(error) => told(line, "left_alone", error.to_string(), strange),
    }
}

fn tell(out: &mut impl Write, line: &Outcomes) -> io::Result<()> {
    // A name of somebody else's must not begin a line of ours.
    let shown = |path: &Path| surefoot_model::one_line(&path.to_string_lossy());
    let name = surefoot_model::one_line(&line.job.job);
    match line.outcome {
        "removed" => {
            writeln!(out, "{name}: removed, {} given back", size(line.job.bytes() as f64))?;
        }
        "not_all_removed" => {
            writeln!(out, "{name}: not all of it could be removed, and what is left cannot be restored: {}", line.why)?;
        }
        "left_alone" => writeln!(out, "{name}: left alone: {}", line.why)?,
        _ => {
            writeln!(out, "{name}: would be removed: {}", line.job.words())?;
            line.job.paths().try_for_each(|path| writeln!(out, "  {}", shown(path)))?;
        }
    }
    line.elsewhere
        .iter()
        .try_for_each(|path| writeln!(out, "  stays, because --in does not name its tier: {}", shown(path)))?;
    line.not_noted.iter().try_for_each(|(path, why)| {
        let why = surefoot_model::one_line(why);
        let path = shown(path);
        writeln!(out, "  not noted in {path} ({why}): `list` and `verify` will call what was removed lost")
    })?;
    line.left.iter().try_for_each(|path| writeln!(out, "  stays, because it is not the job's: {}", shown(path)))
}
