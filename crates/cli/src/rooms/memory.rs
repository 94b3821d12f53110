//! Memory errors in the report of a run or of a recording.

pub mod happened;

use crate::memory::status::{corrected, rate, uncorrected};
use serde::Serialize;
use std::io::{self, Write};
use surefoot_console::output;
use surefoot_console::table::Table;
use surefoot_console::units::{counted, duration};
use surefoot_console::words::utc;
use surefoot_model::{CostBasis, Dimm, Severity, one_line};
use surefoot_rooms::memory::{Answer, State, findings};

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "MemoryLine"))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line<'a> {
    /// As `/api/v1/memory` answers, as of the end of the stream.
    Memory(#[cfg_attr(test, schemars(with = "std::collections::BTreeMap<String, serde_json::Value>"))] &'a Answer),
}

/// Prints what the looks and reports said, as of the end of the stream; nothing where the host tells of no memory errors.
pub fn print(out: &mut impl Write, state: &State, json: bool) -> io::Result<()> {
    let Some(look) = state.look_if_supported() else { return Ok(()) };
    let answer = Answer::at_end(state);
    if json {
        return output::line(out, &Line::Memory(&answer));
    }
    let whose = look.recorded_tree.as_ref().map_or(String::new(), |tree| format!(" of the recorded tree {tree}"));
    writeln!(out, "\nMemory errors{whose} at {} UTC:", utc(look.looked_realtime_ns))?;
    write!(out, "{}", table(&look.dimms))?;
    for finding in findings::of(state) {
        if finding.severity > Severity::Ok {
            writeln!(out, "{}: {}", finding.severity, finding.sentence)?;
        }
    }
    for cost in answer.costs.iter().filter(|cost| cost.per_day_ns.is_some_and(|ns| ns > 0)) {
        let basis = if cost.basis == CostBasis::Measured { "measured here" } else { "literature" };
        let (each, per_day) = (duration(cost.each_ns), duration(cost.per_day_ns.unwrap_or(0)));
        writeln!(out, "Reporting by {}: {per_day} per day at {each} each ({basis})", cost.what.replace('_', " "))?;
    }
    Ok(())
}

/// The modules with errors, and how many have none.
pub fn table(dimms: &[Dimm]) -> String {
    let has_errors = |dimm: &&Dimm| dimm.corrected() > 0 || dimm.uncorrected() > 0 || dimm.is_over_rate;
    let (bad, others): (Vec<&Dimm>, Vec<&Dimm>) = dimms.iter().partition(has_errors);
    let (unread, others): (Vec<&Dimm>, Vec<&Dimm>) = others.into_iter().partition(|dimm| findings::has_unread(dimm));
    let is_unplaced = |dimm: &&Dimm| !dimm.unplaced.is_empty() || !dimm.mixed_with.is_empty();
    let unplaced = others.iter().copied().filter(is_unplaced).count() as u64;
    let (unread, well) = (unread.len() as u64, others.len() as u64 - unplaced);
    let words = if bad.is_empty() { ("module", "modules") } else { ("more module", "more modules") };
    let mut text = format!("{}{} without errors\n", of_bad(&bad), counted(well, words.0, words.1));
    if unplaced > 0 {
        text += &format!("{} possibly with errors whose module is unknown\n", counted(unplaced, words.0, words.1));
    }
    if unread > 0 {
        text += &format!("{} with counters that cannot be read\n", counted(unread, words.0, words.1));
    }
    text
}

/// These modules, a line each.
pub fn of_bad(bad: &[&Dimm]) -> String {
    if bad.is_empty() {
        return String::new();
    }
    let header = ["module", "label", "corrected", "uncorrected", "rate/s", "worst/s", "fault", "counts"];
    let mut table = Table::new(&header, &[0, 1, 6, 7]);
    bad.iter().for_each(|dimm| table.row(row(dimm)));
    table.text()
}

fn row(dimm: &Dimm) -> Vec<String> {
    vec![
        one_line(&dimm.id),
        one_line(&dimm.label),
        corrected(dimm),
        uncorrected(dimm),
        rate(dimm, dimm.rate_per_s, dimm.rate_window_s),
        rate(dimm, dimm.worst_rate_per_s, dimm.worst_window_s),
        dimm.fault_mode.label().to_owned(),
        dimm.fidelity.label().to_owned(),
    ]
}
