//! What of a job's checkpoints is not where it was: ranks that are missing, and checkpoints of which nothing is left.

use serde::Serialize;
use std::path::{Path, PathBuf};
use surefoot_checkpoint::inspect::{self, Lost, Missing, Survey, Tier, Unread};
use surefoot_checkpoint::session::journal;
use surefoot_console::people;
use surefoot_model::one_line;

/// Ranks that a checkpoint should have here and has not.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "missing")]
pub struct MissingLine<'a> {
    job: &'a str,
    tier: &'static str,
    directory: &'a Path,
    generation: u64,
    ranks: u32,
    missing_count: u64,
    /// The first eight of them.
    first_missing: &'a [u32],
    /// Whether they are known to have been here. Without the job's file `nodes` they may be in the memory of other nodes.
    were_here: bool,
}

/// Checkpoints that a job had in one of its directories, and has no more.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "lost")]
pub struct LostLine<'a> {
    job: &'a str,
    uid: u32,
    tier: &'static str,
    directory: &'a Path,
    /// How it is known.
    why: &'a str,
}

/// What is not where it was.
pub struct Gone {
    pub missing: Vec<Missing>,
    pub lost: Vec<Lost>,
    /// Files that say what was here, and cannot be read.
    pub unread: Vec<Unread>,
}

/// A line of one or the other kind.
#[derive(Serialize)]
#[serde(untagged)]
pub enum GoneLine<'a> {
    Missing(MissingLine<'a>),
    Lost(LostLine<'a>),
}

impl Gone {
    /// What a survey shows to be gone.
    pub fn of(survey: &Survey) -> Self {
        let mut unread = survey.unread.clone();
        let mut history = |directory: &Path, owner| {
            let read = journal::read_of(directory, owner, usize::MAX);
            unread.extend(inspect::unread_journal(survey, directory, owner, &read));
            let history = read.ok().flatten();
            unread.extend(
                history.iter().filter_map(|history| inspect::unread_settings(survey, directory, owner, history)),
            );
            history
        };
        let lost = inspect::lost(survey, &mut history);
        Gone { missing: inspect::missing(survey), lost, unread }
    }

    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.lost.is_empty() && self.unread.is_empty()
    }

    /// What is no problem of the survey's yet.
    pub fn problems<'a>(&'a self, survey: &'a Survey) -> impl Iterator<Item = &'a Unread> {
        self.unread.iter().filter(|unread| survey.problems.iter().all(|problem| problem.path != unread.path))
    }

    pub fn lines(&self) -> impl Iterator<Item = GoneLine<'_>> {
        self.lines_of(|_| true, |_| true)
    }

    /// The lines of those of which this is so.
    pub fn lines_of(
        &self,
        is_lost: impl Fn(&Lost) -> bool,
        is_missing: impl Fn(&Missing) -> bool,
    ) -> impl Iterator<Item = GoneLine<'_>> {
        let missing = self.missing.iter().filter(move |row| is_missing(row)).map(|row| {
            GoneLine::Missing(MissingLine {
                job: &row.job,
                tier: row.tier.label(),
                directory: &row.directory,
                generation: row.generation.number,
                ranks: row.ranks,
                missing_count: row.missing_count,
                first_missing: &row.first_missing,
                were_here: row.were_here,
            })
        });
        let lost = self.lost.iter().filter(move |row| is_lost(row)).map(|row| {
            GoneLine::Lost(LostLine {
                job: &row.job,
                uid: row.owner,
                tier: row.tier.label(),
                directory: &row.directory,
                why: &row.why,
            })
        });
        missing.chain(lost)
    }

    /// A line for people for each.
    pub fn text(&self) -> String {
        self.missing.iter().map(missing_text).chain(self.lost.iter().map(lost_text)).collect()
    }
}

/// What a job had in these directories and has no more, or that it is not known, where it is asked for and nothing of it is found; a line each.
pub fn said(directories: &[PathBuf], job: &str, owner: Option<u32>) -> Vec<String> {
    let Ok(survey) = inspect::survey(directories) else { return Vec::new() };
    let gone = Gone::of(&survey);
    let is_of_job = |row: &&Lost| row.job == job && owner.is_none_or(|owner| owner == row.owner);
    let lost = gone.lost.iter().filter(is_of_job).map(|row| lost_text(row).trim_end().to_owned());
    lost.chain(survey.unread_of(&gone.unread, job, owner).map(|unread| unread_text(&unread))).collect()
}

pub fn missing_text(row: &Missing) -> String {
    let named: Vec<String> = row.first_missing.iter().map(u32::to_string).collect();
    let more = if row.missing_count > named.len() as u64 { ", ..." } else { "" };
    let ranks = if row.ranks == 1 { "rank" } else { "ranks" };
    let without = match &row.nodes_unreadable {
        None => "without the job's file nodes".to_owned(),
        Some(why) => format!("as the job's file nodes cannot be read ({}),", people::clean(why)),
    };
    let said = match (row.were_here, row.missing_count) {
        (true, 1) => "1 of them should be here and is not",
        (true, count) => &format!("{count} of them should be here and are not"),
        (false, 1) => &format!("1 of them is not here, and {without} it is not known on which node it is"),
        (false, count) => {
            &format!("{count} of them are not here, and {without} it is not known on which nodes they are")
        }
    };
    let state = if row.were_here { "lost" } else { "missing" };
    let directory = people::path(&row.directory);
    format!(
        "{directory}: {state}: generation {} has {} {ranks}, and {said}: rank {}{more}\n",
        row.generation.number,
        row.ranks,
        named.join(", ")
    )
}

/// A line for people.
pub fn lost_text(row: &Lost) -> String {
    let (directory, job, why) = (people::path(&row.directory), one_line(&row.job), one_line(&row.why));
    let what = match (row.tier, row.number) {
        (Tier::Durable, Some(number)) if row.has_older => {
            format!("had the complete checkpoint {number} here; only older ones are left")
        }
        (Tier::Memory, Some(number)) if row.has_older => {
            format!("had checkpoint {number} in memory here; only older ones are left")
        }
        (Tier::Durable, _) => "had complete checkpoints here, and none is left".to_owned(),
        (Tier::Memory, _) => "had checkpoints in memory here, and none is left".to_owned(),
    };
    format!("{directory}: lost: job {job} {what}: {why}\n")
}

/// A line for people, without its end.
pub fn unread_text(row: &Unread) -> String {
    format!("{}: {}", people::path(&row.path), one_line(&row.why))
}
