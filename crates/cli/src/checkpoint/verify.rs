//! `surefoot checkpoint verify` and `scrub`.

use super::list::ProblemLine;
use super::options::DirectoriesOptions;
use super::progress::Bar;
use crate::exit::Outcome;
use crate::output;
use crate::table::Table;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use surefoot_checkpoint::GenerationId;
use surefoot_checkpoint::inspect::{self, Copy, State, Survey, Tier, Verdict};

/// What is done with each copy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Act {
    Verify,
    Scrub,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "copy")]
pub struct Line<'a> {
    job: String,
    tier: &'static str,
    image: &'a Path,
    generation: Option<u64>,
    rank: u32,
    state: &'static str,
    pages_read_count: u64,
    pages_bad_count: u64,
    pages_refused_count: u64,
    pages_repaired_count: u64,
    tables_bad_count: u64,
    rows_lost_count: u64,
    why: &'a str,
}

/// Ranks of a committed checkpoint that are not there.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "missing")]
pub struct Missing {
    job: String,
    directory: std::path::PathBuf,
    generation: u64,
    ranks: u32,
    missing_count: u64,
}

pub fn run(options: &DirectoriesOptions, act: Act) -> anyhow::Result<Outcome> {
    let survey = inspect::survey(&options.directories)?;
    // Held to the end, so that no job starts over what is being repaired.
    let _locks = if act == Act::Scrub { Some(inspect::lock(&survey.copies)?) } else { None };
    let verdicts = read_all(&survey, act);
    let missing = missing(&survey);
    let mut out = io::BufWriter::new(crate::people::stdout());
    if options.json {
        output::stream(&mut out, if act == Act::Verify { "checkpoint verify" } else { "checkpoint scrub" })?;
        for (copy, verdict) in survey.copies.iter().zip(&verdicts) {
            output::line(&mut out, &line(copy, verdict))?;
        }
        missing.iter().try_for_each(|row| output::line(&mut out, row))?;
        for problem in &survey.problems {
            output::line(&mut out, &ProblemLine { path: &problem.path, why: &problem.why })?;
        }
    } else {
        out.write_all(text(&survey, &verdicts, &missing).as_bytes())?;
    }
    out.flush()?;
    let is_lost = verdicts.iter().any(|verdict| verdict.state == State::Lost) || !missing.is_empty();
    Ok(if is_lost { Outcome::Found } else { Outcome::Done })
}

fn read_all(survey: &Survey, act: Act) -> Vec<Verdict> {
    let bytes = |copy: &Copy| copy.manifest.as_ref().map_or(0, |manifest| manifest.payload_bytes);
    let total = survey.copies.iter().fold(0u64, |sum, copy| sum.saturating_add(bytes(copy)));
    let mut bar = Bar::new(if act == Act::Verify { "verify" } else { "scrub" });
    let mut before = 0u64;
    let mut read = |copy: &Copy| {
        let progress = &mut |done: u64, _: u64| bar.show(before.saturating_add(done), total);
        let verdict = if act == Act::Verify { inspect::verify(copy, progress) } else { inspect::scrub(copy, progress) };
        before = before.saturating_add(bytes(copy));
        verdict
    };
    survey.copies.iter().map(&mut read).collect()
}

fn missing(survey: &Survey) -> Vec<Missing> {
    let mut groups: BTreeMap<(&Path, GenerationId), (&Copy, u32, u64)> = BTreeMap::new();
    for copy in survey.copies.iter().filter(|copy| copy.tier == Tier::Durable) {
        if let (Some(generation), Some(ranks)) = (copy.generation, copy.committed_ranks) {
            let here = u64::from(copy.rank < ranks);
            groups.entry((&copy.directory, generation)).or_insert((copy, ranks, 0)).2 += here;
        }
    }
    let rows = groups.into_iter().filter(|(_, (_, ranks, here))| *here < u64::from(*ranks));
    rows.map(|((directory, generation), (copy, ranks, here))| Missing {
        job: copy.job(),
        directory: directory.to_owned(),
        generation: generation.number,
        ranks,
        missing_count: u64::from(ranks) - here,
    })
    .collect()
}

fn line<'a>(copy: &'a Copy, verdict: &'a Verdict) -> Line<'a> {
    Line {
        job: copy.job(),
        tier: copy.tier.label(),
        image: &copy.image,
        generation: copy.generation.map(|generation| generation.number),
        rank: copy.rank,
        state: verdict.state.label(),
        pages_read_count: verdict.tally.pages_read,
        pages_bad_count: verdict.tally.pages_bad,
        pages_refused_count: verdict.tally.pages_refused,
        pages_repaired_count: verdict.tally.pages_repaired,
        tables_bad_count: verdict.tally.tables_bad,
        rows_lost_count: verdict.rows_lost,
        why: &verdict.why,
    }
}

fn text(survey: &Survey, verdicts: &[Verdict], missing: &[Missing]) -> String {
    if survey.copies.is_empty() && survey.problems.is_empty() {
        return "No checkpoints found.\n".into();
    }
    let header = ["job", "tier", "generation", "rank", "state", "pages", "bad", "refused", "tables bad", "rows lost"];
    let mut table = Table::new(&header, &[0, 1, 4]);
    for (copy, verdict) in survey.copies.iter().zip(verdicts) {
        let tally = &verdict.tally;
        table.row(vec![
            copy.job(),
            copy.tier.label().into(),
            copy.generation.map_or("-".to_owned(), |generation| generation.number.to_string()),
            copy.rank.to_string(),
            verdict.state.label().into(),
            tally.pages_read.to_string(),
            tally.pages_bad.to_string(),
            tally.pages_refused.to_string(),
            tally.tables_bad.to_string(),
            verdict.rows_lost.to_string(),
        ]);
    }
    let mut text = if survey.copies.is_empty() { String::new() } else { table.text() };
    for (copy, verdict) in survey.copies.iter().zip(verdicts).filter(|(_, verdict)| !verdict.why.is_empty()) {
        text += &format!("{}: {}: {}\n", copy.image.display(), verdict.state.label(), verdict.why);
    }
    for row in missing {
        text += &format!(
            "{}: lost: {} of {} ranks of generation {} are missing\n",
            row.directory.display(),
            row.missing_count,
            row.ranks,
            row.generation
        );
    }
    for problem in &survey.problems {
        text += &format!("Problem: {}: {}\n", problem.path.display(), problem.why);
    }
    let count = |state| verdicts.iter().filter(|verdict| verdict.state == state).count();
    let states = [State::Whole, State::Repaired, State::Repairable, State::Lost, State::Unfinished, State::Changed];
    let counts = states.into_iter().filter(|&state| count(state) > 0);
    let counts: Vec<String> = counts.map(|state| format!("{} {}", count(state), state.label())).collect();
    text + &format!("{} copies: {}\n", verdicts.len(), counts.join(", "))
}
