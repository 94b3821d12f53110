//! What the rooms find, at the end of a report.

use serde::Serialize;
use std::io::{self, Write};
use std::time::Duration;
use surefoot_console::output;
use surefoot_daemon::Server;
use surefoot_model::{Finding, Severity};
use surefoot_rooms::rules;

/// How long the judge may take nothing in before the findings are those of a part.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "FindingLine"))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line<'a> {
    /// What a room finds, above OK; the worst first.
    Finding(&'a Finding),
}

/// Prints what is above OK, the worst first, and which rooms looked at nothing.
pub fn print(out: &mut impl Write, judge: &Server, json: bool) -> io::Result<()> {
    if !judge.settle(PATIENCE) {
        surefoot_console::tell!(
            "surefoot: this machine was too busy to judge all events; the findings are of those before them"
        );
    }
    let (_, findings) = judge.findings();
    let unwatched = judge.rooms().into_iter().filter(|(_, why)| why.is_some()).map(|(room, _)| room);
    let unwatched: Vec<surefoot_model::Room> = unwatched.collect();
    let is_told = |finding: &&Finding| finding.severity > Severity::Ok;
    let told = findings.iter().filter(is_told).map(|finding| match rules::of(finding) {
        Some(rule) if !rule.since.is_empty() => finding.clone(),
        // When it was first looked at the events says nothing of when they were.
        _ => finding.clone().since(0),
    });
    let told: Vec<Finding> = told.collect();
    if json {
        return told.iter().try_for_each(|finding| output::line(out, &Line::Finding(finding)));
    }
    match told.as_slice() {
        [] => writeln!(out, "\nNo finding above OK.")?,
        told => {
            writeln!(out, "\nFindings:")?;
            for finding in told {
                let severity = finding.severity.as_str().to_uppercase();
                writeln!(out, "{severity}, {}: {}", finding.certainty.label(), finding.sentence)?;
            }
        }
    }
    if !unwatched.is_empty() {
        let rooms: Vec<&str> = unwatched.iter().map(|room| room.label()).collect();
        writeln!(out, "Not checked: {}.", rooms.join(", "))?;
    }
    Ok(())
}
