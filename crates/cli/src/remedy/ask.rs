//! `surefoot remedy approve`, `pause`, `resume` and `cancel`.

use super::lines::{CaseRow, EverythingLine};
use super::place::PlaceOptions;
use clap::Args;
use std::io::{self, Write};
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_controller::{CaseLine, Reason, word, words};
use surefoot_remedy::decide::Request;

#[derive(Args)]
pub struct AskOptions {
    /// The case's number
    #[arg(value_name = "CASE")]
    id: u64,
    #[command(flatten)]
    how: HowOptions,
}

#[derive(Args)]
pub struct ApproveOptions {
    /// The case's number
    #[arg(value_name = "CASE")]
    id: u64,
    /// The step to approve; refused if the case now waits for another one. `return` returns the host to service
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
    #[command(flatten)]
    how: HowOptions,
}

#[derive(Args)]
pub struct AskAllOptions {
    /// The case's number; without one, everything
    #[arg(value_name = "CASE")]
    id: Option<u64>,
    #[command(flatten)]
    how: HowOptions,
}

#[derive(Args)]
pub struct ReleaseOptions {
    /// The host name, as agents report it
    #[arg(value_name = "HOST", value_parser = host_name)]
    host: String,
    #[command(flatten)]
    place: PlaceOptions,
    /// Why, for the audit trail
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

pub(super) fn host_name(text: &str) -> Result<String, String> {
    surefoot_controller::host_name(text).ok_or_else(|| "not a host name; `surefoot remedy cases` has the names".into())
}

pub fn release(options: &ReleaseOptions) -> anyhow::Result<Outcome> {
    let outcome = options.place.open()?.release(&options.host, &options.reason)?;
    writeln!(surefoot_console::people::stdout(), "{}.", surefoot_model::one_line(&outcome))?;
    Ok(Outcome::Done)
}

#[derive(Args)]
struct HowOptions {
    #[command(flatten)]
    place: PlaceOptions,
    /// Why, for the audit trail
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// Print the case as a JSON line
    #[arg(long)]
    json: bool,
}

pub fn one(options: &AskOptions, asked: Request) -> anyhow::Result<Outcome> {
    of_case(options.id, &options.how, asked, None)
}

pub fn approve(options: &ApproveOptions) -> anyhow::Result<Outcome> {
    of_case(options.id, &options.how, Request::Approve, options.step.clone())
}

pub fn all(options: &AskAllOptions, asked: Request) -> anyhow::Result<Outcome> {
    let Some(id) = options.id else {
        let is_paused = asked == Request::Pause;
        options.how.place.open()?.pause(is_paused, &options.how.reason)?;
        let mut out = surefoot_console::people::stdout();
        if options.how.json {
            output::stream(&mut out, &format!("remedy {}", word(asked)))?;
            output::line(&mut out, &EverythingLine { is_paused })?;
        } else if is_paused {
            writeln!(
                out,
                "Everything is paused: steps that are under way go on to their end, and nothing new is begun."
            )?;
        } else {
            writeln!(out, "Everything goes on.")?;
        }
        return Ok(Outcome::Done);
    };
    of_case(id, &options.how, asked, None)
}

fn of_case(id: u64, how: &HowOptions, asked: Request, step: Option<String>) -> anyhow::Result<Outcome> {
    let case: CaseLine = how.place.open()?.request(id, asked, &Reason { reason: how.reason.clone(), step })?;
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    if how.json {
        output::stream(&mut out, &format!("remedy {}", word(asked)))?;
        output::line(&mut out, &CaseRow::of(&case))?;
    } else {
        let step = if case.step.is_empty() { String::new() } else { format!(", next step {}", case.step) };
        writeln!(out, "Case {} of {}: {}{step}.", case.id, case.host, words::label(case.state, case.ends_as))?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}
