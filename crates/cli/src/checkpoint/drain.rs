//! `surefoot checkpoint drain`.

use super::list::ProblemLine;
use super::lost::{self, Gone};
use super::options::{DrainOptions, durable_of, own_memory};
use super::progress::Bar;
use crate::account;
use anyhow::Context;
use serde::Serialize;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use surefoot_checkpoint::Error;
use surefoot_checkpoint::inspect::{self, Drains, Lost, Missing, Tier, Unread};
use surefoot_checkpoint::medium::Medium;
use surefoot_checkpoint::settings::PUBLISHED_NAME;
use surefoot_checkpoint::tier::DurableOptions;
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::units::rfc3339;
use surefoot_console::words::{size, utc};

/// A checkpoint that was copied to the durable tier.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "drained")]
pub struct Line<'a> {
    job: &'a str,
    directory: &'a Path,
    generation: u64,
    taken_realtime_ns: u64,
    taken_realtime: String,
    ranks: u32,
    ranks_here: &'a [u32],
    /// 0 where it was there already.
    written_bytes: u64,
    pages_repaired_count: u64,
    refused: &'a [String],
    /// Whether memory has what was complete and is newer, or may be: the work since this checkpoint is in no durable copy.
    is_older: bool,
    /// The number of a complete checkpoint in this directory that is newer and that a restart takes instead; `null` where
    /// there is none.
    newer_there: Option<u64>,
    /// Whether this directory says that the job came to its end in the same or a later run: no restart takes this checkpoint.
    is_ended_there: bool,
    /// What was there of it that was damaged, and was written anew.
    replaced: &'a [String],
    /// What the directory lies on, such as `ext4 on sda1`; `null` where it could not be looked at.
    medium: Option<&'a str>,
    /// Whether that survives a loss of power; `null` where it is not known.
    is_durable: Option<bool>,
}

pub fn run(options: &DrainOptions) -> anyhow::Result<Outcome> {
    let memory = options.memory.clone().map_or_else(own_memory, Ok)?;
    let known = || -> anyhow::Result<PathBuf> {
        let known = durable_of(&memory, &options.job)?.into_iter().next();
        known.with_context(|| {
            format!("{} has no durable tier, or its directory is not recorded: name it with --durable DIR", options.job)
        })
    };
    let durable = options.durable.clone().map_or_else(known, Ok)?;
    let keep = options.keep.unwrap_or(DurableOptions::default().keep);
    let wish = Drains {
        job: options.job.clone(),
        memory,
        durable: durable.clone(),
        options: DurableOptions { keep, allow_memory: options.allow_memory, ..DurableOptions::default() },
        is_part: options.part,
        prunes: options.keep.is_some(),
    };
    let mut bar = Bar::new("drain");
    let known = |done: u64, total: u64| {
        format!(
            "{} is not known to be drained to {} ({} of {} were written; it counts when all are); what is in memory stays, and the same \
             command does it again",
            options.job,
            durable.display(),
            size(done as f64),
            size(total as f64)
        )
    };
    account::say(&known(0, 0));
    let drained = inspect::drain(&wish, &mut |done, total| {
        bar.show(done, total);
        account::say(&known(done, total));
    });
    drop(bar);
    if let Ok(drained) = &drained {
        account::say(&format!("generation {} of {} is drained", drained.generation.number, options.job));
    }
    let drained = match drained {
        Err(error) if inspect::is_running(&error) => {
            surefoot_console::tell!(
                "surefoot: {}: left alone: {error}; a job that runs does this itself, by `finish`",
                options.job
            );
            return Ok(Outcome::Found);
        }
        Err(Error::NothingIntact { why }) => {
            let survey = inspect::survey(&[wish.memory.join(&options.job)]).unwrap_or_default();
            for missing in inspect::missing(&survey).iter().filter(|missing| missing.were_here) {
                surefoot_console::tell!("surefoot: {}", lost::missing_text(missing).trim_end());
            }
            surefoot_console::tell!("surefoot: nothing of {} is drained: {why}", options.job);
            return Ok(Outcome::Found);
        }
        Err(error) => {
            let lost = match &error {
                Error::Option { option: "job", .. } => {
                    lost::said(&[wish.memory.join(&options.job)], &options.job, None)
                }
                _ => Vec::new(),
            };
            if lost.is_empty() {
                return Err(error.into());
            }
            lost.iter().for_each(|text| surefoot_console::tell!("surefoot: {text}"));
            surefoot_console::tell!("surefoot: nothing of {} is drained", options.job);
            return Ok(Outcome::Found);
        }
        Ok(drained) => drained,
    };
    // What says which checkpoints were here, and cannot be read.
    let survey = inspect::survey(&[wish.memory.join(&options.job)])?;
    let gone = Gone::of(&survey);
    // The settings say nothing of what was in memory.
    let is_of_memory = |unread: &Unread| unread.path.file_name().is_none_or(|name| name != PUBLISHED_NAME);
    let unread: Vec<Unread> = survey.unread_of(&gone.unread, &options.job, None).filter(is_of_memory).collect();
    let number = drained.generation.number;
    // Ranks that ran here and are not on another node; and what memory had that is newer.
    let missing: Vec<&Missing> = gone.missing.iter().filter(|missing| missing.were_here).collect();
    let is_newer = |lost: &Lost| lost.tier == Tier::Memory && lost.number.is_some_and(|lost| lost > number);
    let newer: Vec<&Lost> = gone.lost.iter().filter(|lost| is_newer(lost)).collect();
    let is_all = unread.is_empty() && missing.is_empty() && newer.is_empty() && !drained.is_older;
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    if options.json {
        output::stream(&mut out, "checkpoint drain")?;
        output::line(
            &mut out,
            &Line {
                job: &options.job,
                directory: &durable,
                generation: number,
                taken_realtime_ns: drained.taken_realtime_ns,
                taken_realtime: rfc3339(drained.taken_realtime_ns),
                ranks: drained.ranks,
                ranks_here: &drained.ranks_here,
                written_bytes: drained.bytes,
                pages_repaired_count: drained.healed_pages,
                refused: &drained.refused,
                is_older: drained.is_older,
                newer_there: drained.newer_there,
                is_ended_there: drained.is_ended_there,
                replaced: &drained.replaced,
                medium: drained.medium.as_ref().map(|medium| medium.said.as_str()),
                is_durable: drained.medium.as_ref().and_then(Medium::is_durable),
            },
        )?;
        gone.lines_of(is_newer, |missing| missing.were_here).try_for_each(|line| output::line(&mut out, &line))?;
        for unread in &unread {
            output::line(&mut out, &ProblemLine { path: &unread.path, why: &unread.why })?;
        }
    } else {
        drained.refused.iter().try_for_each(|refused| writeln!(out, "Not taken: {refused}"))?;
        drained.replaced.iter().try_for_each(|replaced| writeln!(out, "Rewritten: {replaced}"))?;
        let written = match drained.bytes {
            0 => "was there already".to_owned(),
            bytes => format!("{} written", size(bytes as f64)),
        };
        let repaired = match drained.healed_pages {
            0 => String::new(),
            pages => format!(", {pages} bad pages repaired on the way"),
        };
        writeln!(
            out,
            "Generation {number} of {} UTC is {}: {} of {} ranks, {written}{repaired}",
            utc(drained.taken_realtime_ns),
            place(&durable, drained.medium.as_ref()),
            drained.ranks_here.len(),
            drained.ranks,
        )?;
    }
    if let (Some(newer), false) = (drained.newer_there, options.json) {
        writeln!(
            out,
            "Not the newest there: {} has generation {newer} of {}, which is newer, and a restart takes that one. Where they are \
             of two jobs, drain this one to another directory",
            durable.display(),
            options.job
        )?;
    }
    if drained.is_ended_there && !options.json {
        writeln!(
            out,
            "No restart takes it: by the file `completed` in {}, {} came to its end in the same or a later run. Its files come out with \
             `surefoot checkpoint restore {} --job {} --generation {number} --to DIR`",
            durable.display(),
            options.job,
            durable.display(),
            options.job
        )?;
    }
    if drained.is_older && !options.json {
        writeln!(out, "Lost: memory has a checkpoint that cannot be drained and is newer, or may be")?;
    }
    if !options.json {
        missing.iter().try_for_each(|missing| write!(out, "{}", lost::missing_text(missing)))?;
        newer.iter().try_for_each(|newer| write!(out, "{}", lost::lost_text(newer)))?;
        unread.iter().try_for_each(|unread| writeln!(out, "Problem: {}", lost::unread_text(unread)))?;
        if !unread.is_empty() && !drained.is_older {
            writeln!(out, "Whether generation {number} is the newest that the job had in memory is not known")?;
        }
    }
    out.flush()?;
    Ok(if is_all { Outcome::Done } else { Outcome::Found })
}

/// Where it is, and how durable that is.
fn place(directory: &Path, medium: Option<&Medium>) -> String {
    let directory = directory.display();
    let said = medium.map_or("it could not be looked at", |medium| medium.said.as_str());
    match medium.and_then(Medium::is_durable) {
        Some(true) => format!("durable in {directory}"),
        Some(false) => format!("in {directory}, which is in memory ({said}), so it is not durable"),
        None => format!("in {directory}, an unknown medium ({said})"),
    }
}
