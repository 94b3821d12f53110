//! Network interfaces in the report of a run or of a recording.

pub mod happened;

use serde::Serialize;
use std::io::{self, Write};
use surefoot_console::output;
use surefoot_console::table::Table;
use surefoot_console::words::utc;
use surefoot_model::Severity;
use surefoot_rooms::nic::{Answer, State, findings};

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "NicLine"))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line<'a> {
    /// As `/api/v1/nic` answers, as of the end of the stream.
    Nic(#[cfg_attr(test, schemars(with = "std::collections::BTreeMap<String, serde_json::Value>"))] &'a Answer),
}

/// Prints what the looks said, as of the end of the stream; nothing where the host has no interfaces.
pub fn print(out: &mut impl Write, state: &State, json: bool) -> io::Result<()> {
    let Some(look) = state.look_if_supported() else { return Ok(()) };
    if json {
        return output::line(out, &Line::Nic(&Answer::at_end(state)));
    }
    writeln!(out, "\nNetwork interfaces at {} UTC:", utc(look.looked_realtime_ns))?;
    let mut table = Table::new(&["interface", "driver", "state", "evidence"], &[0, 1, 2, 3]);
    for one in &look.interfaces {
        table.row(vec![
            one.name.clone(),
            one.driver.clone().unwrap_or_else(|| "-".into()),
            one.state.as_str().to_owned(),
            one.evidence.join("; "),
        ]);
    }
    write!(out, "{}", table.text())?;
    for finding in findings::of(state) {
        if finding.severity > Severity::Ok {
            writeln!(out, "{}: {}", finding.severity, finding.sentence)?;
        }
    }
    Ok(())
}
