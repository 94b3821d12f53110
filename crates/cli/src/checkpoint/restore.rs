//! `surefoot checkpoint restore`.

use super::list::{ProblemLine, is_durable};
use super::lost::{self, Gone};
use super::options::RestoreOptions;
use super::progress::Bar;
use crate::account;
use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;
use surefoot_checkpoint::Error;
use surefoot_checkpoint::inspect::{
    self, Elsewhere, Lost, Missing, RankFiles, RestoredFiles, Survey, Tier, Unread, Wanted,
};
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::units::rfc3339;
use surefoot_console::words::{size, time, utc};

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

/// A checkpoint that was once complete, is newer than the one that was restored, or may be, and could not be restored.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "newer")]
pub struct NewerLine<'a> {
    job: &'a str,
    /// `null` where nothing that can be read says it.
    generation: Option<u64>,
    taken_realtime_ns: Option<u64>,
    taken_realtime: Option<String>,
    /// How it is known, where nothing of it is left here or it is in a tier that was not named; otherwise `null`.
    why: Option<&'a str>,
}

/// What is newer than the restored checkpoint and is not whole here.
struct Newer {
    generation: Option<u64>,
    taken_realtime_ns: Option<u64>,
    why: Option<String>,
    /// Whether it is in a tier that was not named.
    is_elsewhere: bool,
}

/// What is known to be newer than the restored checkpoint, and what may be.
struct Later {
    newer: Vec<Newer>,
    unread: Vec<Unread>,
    /// Tiers that were not named and are gone: nobody can say what was in them.
    gone: Vec<Elsewhere>,
}

impl Later {
    /// By what is here, and by what the job's journal and its file of nodes say, or would say if they could be read.
    fn of(survey: &Survey, restored: &RestoredFiles, options: &RestoreOptions, owner: Option<u32>) -> Later {
        if options.generation.is_some() {
            return Later { newer: Vec::new(), unread: Vec::new(), gone: Vec::new() };
        }
        let here = restored.newer.iter().map(|newer| Newer {
            generation: newer.generation,
            taken_realtime_ns: newer.taken_realtime_ns,
            why: None,
            is_elsewhere: false,
        });
        let mut newer: Vec<Newer> = here.collect();
        let number = restored.generation.number;
        let owner = owner.or_else(|| restored.ranks.first().map(|rank| rank.owner));
        let is_of_job = |lost: &Lost| lost.job == options.job && owner.is_none_or(|owner| owner == lost.owner);
        let gone = Gone::of(survey);
        for lost in gone.lost.iter().filter(|lost| is_of_job(lost)) {
            let is_known = |newer: &Newer| lost.number.is_some() && newer.generation == lost.number;
            if lost.number.is_none_or(|lost| lost > number) && !newer.iter().any(is_known) {
                let why = Some(lost::lost_text(lost).trim_end().to_owned());
                newer.push(Newer { generation: lost.number, taken_realtime_ns: None, why, is_elsewhere: false });
            }
        }
        let unread = survey.unread_of(&gone.unread, &options.job, owner).collect();
        let elsewhere = inspect::elsewhere(survey).into_iter().filter(|other| other.job == options.job);
        let (there, gone): (Vec<Elsewhere>, Vec<Elsewhere>) = elsewhere.partition(|other| other.newer.is_some());
        newer.extend(there.into_iter().map(|other| Newer {
            generation: other.newer,
            taken_realtime_ns: None,
            why: Some(other.to_string()),
            is_elsewhere: true,
        }));
        Later { newer, unread, gone }
    }

    fn is_none(&self) -> bool {
        self.newer.is_empty() && self.unread.is_empty()
    }

    /// What follows the sentence that says which checkpoint was restored.
    fn older(&self) -> &'static str {
        match self.newer.iter().any(|newer| newer.generation.is_some()) {
            true => "; it is not the newest that the job had",
            false if self.is_none() => "",
            false => "; whether it is the newest that the job had is not known",
        }
    }
}

impl Newer {
    fn text(&self, restored: &RestoredFiles) -> String {
        let which = match self.generation {
            Some(number) => format!("generation {number}"),
            None => "a checkpoint whose number is not known".to_owned(),
        };
        let taken = self.taken_realtime_ns.map(|at_ns| {
            let later_s = at_ns.saturating_sub(restored.taken_realtime_ns) as f64 / 1e9;
            format!(" of {} UTC, {} later,", utc(at_ns), time(later_s))
        });
        if let Some((why, true)) = self.why.as_ref().map(|why| (why, self.is_elsewhere)) {
            return format!("Not the newest: {why}\n");
        }
        let why = self.why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        if self.generation.is_none() && self.why.is_none() {
            return "Lost: a checkpoint whose manifest cannot be read, named above, may be newer\n".to_owned();
        }
        format!("Lost: {which}{} was complete and cannot be restored from here{why}\n", taken.unwrap_or_default())
    }
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
            let option = if let Error::Option { option, .. } = &error { *option } else { "" };
            // What is there and is not taken is its own reason.
            let is_there = survey.copies.iter().any(|copy| copy.job() == options.job);
            let missing = inspect::missing(&survey);
            let is_lost = |row: &&Missing| row.job == options.job && row.were_here;
            let lost: Vec<String> = match option {
                "rank" => missing.iter().filter(is_lost).map(lost::missing_text).collect(),
                "job" if !is_there => lost::said(&options.directories, &options.job, owner),
                _ => Vec::new(),
            };
            if lost.is_empty() {
                return Err(error.into());
            }
            lost.iter().for_each(|text| surefoot_console::tell!("surefoot: {}", text.trim_end()));
            surefoot_console::tell!("surefoot: nothing of {} is restored", options.job);
            return Ok(Outcome::Found);
        }
        Ok(restored) => restored,
    };
    let later = Later::of(&survey, &restored, options, owner);
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
    if options.json {
        for Newer { generation, taken_realtime_ns, why, .. } in &later.newer {
            let (generation, taken_realtime_ns, why) = (*generation, *taken_realtime_ns, why.as_deref());
            let taken_realtime = taken_realtime_ns.map(rfc3339);
            let line = NewerLine { job: &options.job, generation, taken_realtime_ns, taken_realtime, why };
            output::line(&mut out, &line)?;
        }
        for unread in &later.unread {
            output::line(&mut out, &ProblemLine { path: &unread.path, why: &unread.why })?;
        }
    } else {
        restored.refused.iter().try_for_each(|refused| writeln!(out, "Refused: {refused}"))?;
        let (number, taken) = (restored.generation.number, utc(restored.taken_realtime_ns));
        later.newer.iter().try_for_each(|newer| write!(out, "{}", newer.text(&restored)))?;
        later.unread.iter().try_for_each(|unread| writeln!(out, "Problem: {}", lost::unread_text(unread)))?;
        let older = later.older();
        writeln!(
            out,
            "Generation {number} of {taken} UTC is in {}{older}",
            surefoot_console::people::path(&options.to)
        )?;
    }
    out.flush()?;
    later.gone.iter().for_each(|gone| surefoot_console::tell!("surefoot: {gone}"));
    // What is in the directory is whole; the work since is lost, and a script must not go on as if it were not.
    Ok(if later.is_none() { Outcome::Done } else { Outcome::Found })
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
