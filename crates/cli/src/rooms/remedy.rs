//! Periodic checks in the report of a run or of a recording, and in the history.

use serde::Serialize;
use std::io::{self, Write};
use surefoot_console::output;
use surefoot_console::table::Table;
use surefoot_console::units::duration;
use surefoot_model::{HostCheck, one_line};
use surefoot_rooms::remedy::{Answer, State};
use surefoot_store::history::KeptRecord;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "RemedyLine"))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line<'a> {
    /// As `/api/v1/remedy` answers, as of the end of the stream.
    Remedy(#[cfg_attr(test, schemars(with = "std::collections::BTreeMap<String, serde_json::Value>"))] &'a Answer),
}

/// Prints what the checks said, as of the end of the stream; nothing where there were none.
pub fn print(out: &mut impl Write, state: &State, json: bool) -> io::Result<()> {
    if state.is_empty() {
        return Ok(());
    }
    let answer = Answer::at_end(state);
    if json {
        return output::line(out, &Line::Remedy(&answer));
    }
    writeln!(out, "\nPeriodic checks:")?;
    write!(out, "{}", table(answer.checks.iter().map(|check| &check.seen)))
}

/// Checks, a row each, and the evidence of those that are not well below.
pub fn table<'a>(checks: impl Iterator<Item = &'a HostCheck>) -> String {
    let mut table = Table::new(&["check", "state", "took", "processor", "finding"], &[0, 1, 4]);
    for check in checks {
        table.row(vec![
            check.name.clone(),
            check.state.as_str().to_owned(),
            duration(check.took_ns),
            duration(check.processor_ns),
            check.sentence.clone(),
        ]);
    }
    table.text()
}

/// What happened, in one line for people; `None` for a record of another release.
pub fn words_of(record: &KeptRecord) -> Option<String> {
    let body = record.body.clone();
    match record.kind.as_str() {
        "check" => serde_json::from_value(body).ok().map(|check: HostCheck| {
            format!("check {} is {}: {}", one_line(&check.name), check.state.as_str(), one_line(&check.sentence))
        }),
        _ => None,
    }
}
