//! `surefoot checkpoint verify` and `scrub`.

use super::list::{ProblemLine, is_durable, tier_words};
use super::lost::Gone;
use super::options::DirectoriesOptions;
use super::progress::Bar;
use crate::account::Steps;
use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;
use surefoot_checkpoint::inspect::{self, Copy, Locks, Problem, State, Survey, Unread, Verdict};
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::table::Table;
use surefoot_model::one_line;

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
    /// Pages of data and of parity.
    pages_read_count: u64,
    /// Those of parity among them; 0 where the image has checksums alone.
    parity_pages_read_count: u64,
    pages_bad_count: u64,
    pages_refused_count: u64,
    pages_repaired_count: u64,
    tables_bad_count: u64,
    rows_lost_count: u64,
    why: &'a str,
}

fn problem_of(unread: &Unread) -> Problem {
    Problem { path: unread.path.clone(), why: unread.why.clone(), owner: unread.owner, is_link: false }
}

pub fn run(options: &DirectoriesOptions, act: Act) -> anyhow::Result<Outcome> {
    let mut survey = inspect::survey(&options.directories()?)?;
    survey.problems.extend(inspect::renamed(&survey).into_iter().map(|renamed| Problem {
        why: renamed.to_string(),
        path: renamed.directory,
        owner: renamed.owner,
        is_link: false,
    }));
    // Before the locks are held, which a running job would have.
    let gone = Gone::of(&survey);
    let unread: Vec<Problem> = gone.problems(&survey).map(problem_of).collect();
    survey.problems.extend(unread);
    // Held to the end, so that no job starts over what is being repaired.
    let locks = if act == Act::Scrub { inspect::lock(&survey.copies).map(Some) } else { Ok(None) };
    let locks = match locks {
        Err(error) if inspect::is_running(&error) => {
            surefoot_console::tell!("surefoot: left alone: {error}");
            return Ok(Outcome::Found);
        }
        other => other?,
    };
    let verdicts = read_all(&survey, locks.as_ref());
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    if options.json {
        output::stream(&mut out, if act == Act::Verify { "checkpoint verify" } else { "checkpoint scrub" })?;
        for (copy, verdict) in survey.copies.iter().zip(&verdicts) {
            output::line(&mut out, &line(copy, verdict))?;
        }
        gone.lines().try_for_each(|line| output::line(&mut out, &line))?;
        for problem in &survey.problems {
            output::line(&mut out, &ProblemLine { path: &problem.path, why: &problem.why })?;
        }
    } else {
        out.write_all(text(&survey, &verdicts, &gone).as_bytes())?;
    }
    out.flush()?;
    inspect::elsewhere(&survey).iter().for_each(|other| surefoot_console::tell!("surefoot: {other}"));
    // A scrub that leaves something bad has not done what it was asked for.
    let is_bad = |state: State| state == State::Lost || (act == Act::Scrub && state == State::Repairable);
    let is_any_bad = verdicts.iter().any(|verdict| is_bad(verdict.state)) || !gone.is_empty();
    // Nor has one that found nothing of any job: the name of the directory may be wrong.
    let is_nothing = verdicts.is_empty() && survey.journals.is_empty() && survey.placements.is_empty();
    let is_any_bad = is_any_bad || is_nothing;
    Ok(if is_any_bad || !survey.problems.is_empty() { Outcome::Found } else { Outcome::Done })
}

/// Verifies the copies; with their locks, repairs them too.
fn read_all(survey: &Survey, locks: Option<&Locks>) -> Vec<Verdict> {
    let bytes = |copy: &Copy| copy.manifest.as_ref().map_or(0, |manifest| manifest.payload_bytes);
    let total = survey.copies.iter().fold(0u64, |sum, copy| sum.saturating_add(bytes(copy)));
    let mut bar = Bar::new(if locks.is_none() { "verify" } else { "scrub" });
    let mut before = 0u64;
    let mut steps = locks.map(|_| Steps::new("scrubbed", survey.copies.len()));
    let mut read = |copy: &Copy| {
        steps.iter_mut().for_each(|steps| steps.begin(copy.image.to_string_lossy()));
        let progress = &mut |done: u64, _: u64| bar.show(before.saturating_add(done), total);
        let verdict = match locks {
            None => inspect::verify(copy, progress),
            Some(locks) => inspect::scrub(copy, locks, progress),
        };
        before = before.saturating_add(bytes(copy));
        steps.iter_mut().for_each(|steps| steps.end(verdict.state.label()));
        verdict
    };
    survey.copies.iter().map(&mut read).collect()
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
        parity_pages_read_count: parity_pages(copy, verdict),
        pages_bad_count: verdict.tally.pages_bad,
        pages_refused_count: verdict.tally.pages_refused,
        pages_repaired_count: verdict.tally.pages_repaired,
        tables_bad_count: verdict.tally.tables_bad,
        rows_lost_count: verdict.rows_lost,
        why: &verdict.why,
    }
}

/// Pages of parity that were read: rows are read whole.
fn parity_pages(copy: &Copy, verdict: &Verdict) -> u64 {
    let geometry = copy.manifest.as_ref().ok().and_then(|manifest| manifest.geometry().ok());
    let parity = geometry.map(|geometry| (geometry.protection().parity_columns() as u64, geometry.columns() as u64));
    parity.map_or(0, |(parity, columns)| verdict.tally.pages_read / columns * parity)
}

fn text(survey: &Survey, verdicts: &[Verdict], gone: &Gone) -> String {
    if survey.copies.is_empty() && survey.problems.is_empty() && gone.is_empty() {
        return "No checkpoints found: nothing was read.\n".into();
    }
    let header =
        ["job", "tier", "generation", "rank", "state", "pages", "parity", "bad", "refused", "tables bad", "rows lost"];
    let mut table = Table::new(&header, &[0, 1, 4]);
    for (copy, verdict) in survey.copies.iter().zip(verdicts) {
        let tally = &verdict.tally;
        table.row(vec![
            copy.job(),
            tier_words(copy.tier.label(), is_durable(&copy.image)).into(),
            copy.generation.map_or("-".to_owned(), |generation| generation.number.to_string()),
            copy.rank.to_string(),
            verdict.state.label().into(),
            (tally.pages_read - parity_pages(copy, verdict)).to_string(),
            parity_pages(copy, verdict).to_string(),
            tally.pages_bad.to_string(),
            tally.pages_refused.to_string(),
            tally.tables_bad.to_string(),
            verdict.rows_lost.to_string(),
        ]);
    }
    let mut text = if survey.copies.is_empty() { String::new() } else { table.text() };
    for (copy, verdict) in survey.copies.iter().zip(verdicts).filter(|(_, verdict)| !verdict.why.is_empty()) {
        text += &format!(
            "{}: {}: {}\n",
            surefoot_console::people::path(&copy.image),
            verdict.state.label(),
            one_line(&verdict.why)
        );
    }
    text += &gone.text();
    for problem in &survey.problems {
        text += &format!("Problem: {}: {}\n", surefoot_console::people::path(&problem.path), one_line(&problem.why));
    }
    if verdicts.is_empty() {
        return text + "No copy of a checkpoint was found.\n";
    }
    let count = |state| verdicts.iter().filter(|verdict| verdict.state == state).count();
    let states = [State::Whole, State::Repaired, State::Repairable, State::Lost, State::Unfinished, State::Changed];
    let counts = states.into_iter().filter(|&state| count(state) > 0);
    let counts: Vec<String> = counts.map(|state| format!("{} {}", count(state), state.label())).collect();
    let copies = if verdicts.len() == 1 { "copy" } else { "copies" };
    let besides = if gone.is_empty() { "" } else { "; what is gone is named above" };
    text + &format!("{} {copies}: {}{besides}\n", verdicts.len(), counts.join(", "))
}
