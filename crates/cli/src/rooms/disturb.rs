//! Experiments in the report of a run or of a recording.

pub mod happened;

use crate::checkpoint::words::utc;
use crate::output;
use crate::table::Table;
use serde::Serialize;
use std::io::{self, Write};
use surefoot_daemon::rooms::disturb::{Answer, ExperimentView, State, findings};
use surefoot_model::{Severity, one_line};

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "DisturbLine"))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line<'a> {
    /// As `/api/v1/disturb` answers, as of the end of the stream.
    Disturb(#[cfg_attr(test, schemars(with = "std::collections::BTreeMap<String, serde_json::Value>"))] &'a Answer),
}

/// Prints the experiments, as of the end of the stream; nothing where there are none.
pub fn print(out: &mut impl Write, state: &State, end_realtime_ns: u64, json: bool) -> io::Result<()> {
    if state.is_empty() {
        return Ok(());
    }
    let answer = Answer::at_end(state);
    if json {
        return output::line(out, &Line::Disturb(&answer));
    }
    writeln!(out, "\nExperiments:")?;
    let header = ["began (UTC)", "state", "what it does", "workload", "runs", "ratio", "interval", "stood still"];
    let mut table = Table::new(&header, &[0, 1, 2, 3]);
    answer.experiments.iter().rev().for_each(|one| table.row(row(one)));
    write!(out, "{}", table.text())?;
    for finding in findings::of(state, end_realtime_ns) {
        if finding.severity > Severity::Ok {
            writeln!(out, "{}: {}", finding.severity, finding.sentence)?;
        }
    }
    Ok(())
}

fn row(one: &ExperimentView) -> Vec<String> {
    let effect = one.ended.as_ref().and_then(|ended| ended.effect.as_deref());
    let [ratio, interval, share] = effect.map_or_else(
        || ["-"; 3].map(str::to_owned),
        |effect| {
            let (low, high) = (effect.interval_low, effect.interval_high);
            let share = format!("{:.2} %", effect.injected_share * 100.0);
            [format!("{:.4}", effect.ratio), format!("{low:.4} to {high:.4}"), share]
        },
    );
    vec![
        if one.began.at_realtime_ns == 0 { "-".to_owned() } else { utc(one.began.at_realtime_ns) },
        one.standing.to_owned(),
        one_line(&one.what),
        one_line(&one.began.workload),
        format!("{}/{}", one.runs_done, one.began.run_count),
        ratio,
        interval,
        share,
    ]
}
