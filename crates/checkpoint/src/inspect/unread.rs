//! What a job keeps beside its checkpoints to say what was saved where, and that cannot be read: whether something newer was there is not
//! known.

use super::jobs::is_job_running;
use super::survey::Survey;
use crate::Error;
use crate::session::journal::{History, JOURNAL_NAME, JournalEvent, OLDER_NAME, Skipped, claims, is_strange};
use crate::settings::{PUBLISHED_NAME, read_published};
use crate::tier::generation_of;
use std::path::{Path, PathBuf};
use surefoot_model::JournalEntry;

/// Something of a job's that cannot be read and may tell of a checkpoint that is not there, or hold one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// The job's directory in a tier, or one above it that cannot be listed.
    pub directory: PathBuf,
    /// The user whose directory it is.
    pub owner: u32,
    /// What cannot be read.
    pub path: PathBuf,
    /// Why, and what to do about it; without its full stop.
    pub why: String,
}

/// What a look at the journal in a job's directory says, where it cannot be read, or nothing in it can. Nothing of a job that runs: it has
/// just created it, perhaps.
pub fn unread_journal(
    survey: &Survey,
    directory: &Path,
    owner: u32,
    read: &Result<Option<History>, Error>,
) -> Option<Unread> {
    let unsure = "what this job saved, and whether a newer checkpoint was here, is not known";
    let mut name = JOURNAL_NAME;
    let why = match read {
        Ok(None) => return None,
        Ok(Some(history)) if is_readable(history) => return None,
        Ok(Some(history)) if history.entries.is_empty() => {
            format!("no line of it can be read: {unsure}; the job appends to it when it runs again")
        }
        Ok(Some(history)) => {
            let [older, newer] = history.skipped;
            if newer == Skipped::default() && older != newer {
                name = OLDER_NAME;
            }
            let strange = history.entries.iter().filter(|entry| is_strange(entry)).count() as u64;
            let unknown = older.unknown_count.saturating_add(newer.unknown_count).saturating_add(strange);
            let cut = older.cut_count.saturating_add(newer.cut_count);
            match (unknown, cut) {
                _ if history.is_newer_empty => format!("it is empty: {unsure}"),
                (0, cut) => format!("{}: {unsure}", lines(cut, "cut off")),
                (unknown, _) => {
                    format!("{}, so it is damaged or of a newer release: {unsure}", lines(unknown, "not understood"))
                }
            }
        }
        Err(Error::Storage { source, .. }) => {
            format!("it cannot be read ({}): {unsure}", surefoot_foreign::said(source))
        }
        Err(error) => format!("it cannot be read ({error}): {unsure}"),
    };
    let by_copy = survey.copies.iter().find(|copy| copy.job_directory == directory && !copy.is_astray());
    let last = || directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let job = by_copy.map_or_else(last, super::Copy::job);
    let path = directory.join(name);
    (!is_job_running(directory, &job)).then(|| Unread { directory: directory.to_owned(), owner, path, why })
}

/// What cannot be known where the job's settings cannot be read or are not there, and its journal says that a checkpoint was complete in a
/// durable tier: which directory that is.
pub fn unread_settings(survey: &Survey, directory: &Path, owner: u32, history: &History) -> Option<Unread> {
    let newest = claims(history.entries.iter().enumerate()).durable.into_values().max_by_key(|claim| claim.number)?;
    let is_it = |copy: &super::Copy| {
        let has_number = copy.generation.is_some_and(|generation| generation.number >= newest.number);
        copy.owner == owner && copy.tier == super::Tier::Durable && copy.committed_ranks.is_some() && has_number
    };
    let why = match read_published(directory) {
        Ok(Some(_)) => return None,
        _ if survey.copies.iter().any(is_it) => return None,
        // A program may leave no settings; who looks at this tier alone did not ask for another.
        Ok(None) if survey.directories.iter().all(|looked| directory.starts_with(looked)) => return None,
        Ok(None) => "it is not there".to_owned(),
        Err(error) => format!("it cannot be read ({})", surefoot_foreign::said(&error)),
    };
    let last = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let number = newest.number;
    let why = format!(
        "{why}: the journal says that checkpoint {number} was complete in a durable tier, and in which directory is not known; name that, too"
    );
    let path = directory.join(PUBLISHED_NAME);
    (!is_job_running(directory, &last)).then(|| Unread { directory: directory.to_owned(), owner, path, why })
}

/// So many lines, and what is wrong with them.
fn lines(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 line of it is {what}"),
        count => format!("{count} lines of it are {what}"),
    }
}

/// Whether all of a journal could be read but for lines that kills cut: each session leaves one at most. A whole line of an event that
/// this version does not know may tell of a newer checkpoint.
fn is_readable(history: &History) -> bool {
    let is_opening = |entry: &&JournalEntry| matches!(entry.event, JournalEvent::Opened { .. });
    let sessions = history.entries.iter().filter(is_opening).count().max(1) as u64;
    let has_lines = !history.entries.is_empty() || history.left_out_count > 0;
    let [older, newer] = history.skipped;
    let is_known = older.unknown_count == 0 && newer.unknown_count == 0 && !history.entries.iter().any(is_strange);
    let is_cut_by_kills = history.left_out_count > 0 || older.cut_count.saturating_add(newer.cut_count) <= sessions;
    has_lines && !history.is_newer_empty && is_known && is_cut_by_kills
}

impl Survey {
    /// Those of these that a job of this name and user may have something newer in; of directories that could not be listed as well.
    pub fn unread_of<'a>(
        &'a self,
        unread: &'a [Unread],
        job: &'a str,
        owner: Option<u32>,
    ) -> impl Iterator<Item = Unread> + 'a {
        let is_owners = move |of: u32| owner.is_none_or(|owner| owner == of);
        let is_of_job = move |directory: &Path| {
            let mut copies = self.copies.iter().filter(|copy| copy.job_directory == directory).peekable();
            match copies.peek() {
                // A directory that was renamed holds another job's.
                Some(_) => copies.any(|copy| copy.job() == job) || directory.ends_with(job),
                None => directory.ends_with(job),
            }
        };
        let is_of_another = move |path: &Path| {
            let below = |copy: &&super::Copy| path.starts_with(&copy.job_directory);
            let mut above = self.copies.iter().filter(below).peekable();
            above.peek().is_some() && above.all(|copy| copy.job() != job && !copy.job_directory.ends_with(job))
        };
        let records = unread.iter().filter(move |unread| is_owners(unread.owner) && is_of_job(&unread.directory));
        // One that has a checkpoint's name has its number, too.
        let is_numbered = |path: &Path| generation_of(Path::new(path.file_name().unwrap_or_default())).is_some();
        let is_meant = move |path: &Path| !is_numbered(path) && !is_of_another(path);
        let unlisted = self.unlisted.iter().filter(move |(path, of)| is_owners(*of) && is_meant(path));
        let unlisted = unlisted.map(|(path, owner)| Unread {
            directory: path.clone(),
            owner: *owner,
            path: path.clone(),
            why: "it cannot be listed: whether a newer checkpoint is in it is not known".into(),
        });
        records.cloned().chain(unlisted)
    }
}
