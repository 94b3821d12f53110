//! Checkpoints in the report of a run or of a recording.

pub mod happened;

use serde::Serialize;
use std::io::{self, Write};
use surefoot_console::output;
use surefoot_console::table::Table;
use surefoot_console::words::{size, utc};
use surefoot_model::{Severity, one_line};
use surefoot_rooms::checkpoint::{Answer, JobView, State, findings};

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "CheckpointsLine"))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line<'a> {
    /// As `/api/v1/checkpoints` answers, as of the end of the stream.
    Checkpoints(#[cfg_attr(test, schemars(with = "std::collections::BTreeMap<String, serde_json::Value>"))] &'a Answer),
}

/// Prints what the looks found, as of the end of the stream; nothing where nobody looked.
pub fn print(out: &mut impl Write, state: &State, end_realtime_ns: u64, json: bool) -> io::Result<()> {
    let Some(look) = state.look() else { return Ok(()) };
    let answer = Answer::at_end(state, end_realtime_ns);
    if json {
        return output::line(out, &Line::Checkpoints(&answer));
    }
    let directories: Vec<&str> = look.directories.iter().map(|directory| directory.path.as_str()).collect();
    writeln!(out, "\nCheckpoints in {} at {} UTC:", one_line(&directories.join(", ")), utc(look.looked_realtime_ns))?;
    if answer.jobs.is_empty() {
        writeln!(out, "none")?;
    } else {
        let mut table =
            Table::new(&["job", "running", "ranks", "in memory", "durable", "takes", "decisions"], &[0, 1, 3, 4]);
        answer.jobs.iter().for_each(|job| table.row(row(job)));
        write!(out, "{}", table.text())?;
    }
    for finding in findings::of(state, end_realtime_ns) {
        if finding.severity > Severity::Ok {
            writeln!(out, "{}: {}", finding.severity, finding.sentence)?;
        }
    }
    Ok(())
}

fn row(job: &JobView) -> Vec<String> {
    let at = |realtime_ns: Option<u64>| realtime_ns.map_or("none".to_owned(), utc);
    let running = match job.seen.is_running {
        Some(true) => "yes",
        Some(false) => "no",
        None => "not known",
    };
    let decisions = job.state.as_ref().map_or(0, |state| state.decided.values().copied().fold(0, u64::saturating_add));
    vec![
        one_line(&job.seen.name),
        running.to_owned(),
        job.ranks.to_string(),
        at(job.memory_realtime_ns),
        at(job.durable_realtime_ns),
        size(job.stored_bytes.values().copied().fold(0, u64::saturating_add) as f64),
        decisions.to_string(),
    ]
}
