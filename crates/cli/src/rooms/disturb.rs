//! Experiments in the report of a run or of a recording.

pub mod happened;

use serde::Serialize;
use std::io::{self, Write};
use surefoot_console::output;
use surefoot_console::table::Table;
use surefoot_console::units::counted;
use surefoot_console::words::utc;
use surefoot_model::{ExperimentRow, Severity, one_line};
use surefoot_rooms::disturb::{Answer, Experiment, ExperimentView, State, findings};

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "DisturbLine"))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line<'a> {
    /// As `/api/v1/disturb` answers, as of the end of the stream.
    Disturb(#[cfg_attr(test, schemars(with = "std::collections::BTreeMap<String, serde_json::Value>"))] &'a Answer),
    /// A number of an experiment with several workloads or disturbances.
    DisturbRow {
        /// The experiment.
        experiment: &'a str,
        #[serde(flatten)]
        row: &'a ExperimentRow,
    },
}

/// Rows of experiments that are printed; the page has all that are kept.
const ROWS_MAX: usize = 2_000;
/// Letters of a published row's words in the table.
const LETTERS_MAX: usize = 60;

/// Prints the experiments that ran in the time of the stream, `CLOCK_REALTIME`; nothing where there are none. The source reads all
/// journals of the host, of whatever day.
pub fn print_between(out: &mut impl Write, all: &State, time: (u64, u64), json: bool) -> io::Result<()> {
    let (state, left_out) = all.between(time.0, time.1);
    print_these(out, &state, left_out, time.1, json)
}

/// Prints the experiments, as of the end of the stream; nothing where there are none.
pub fn print(out: &mut impl Write, state: &State, end_realtime_ns: u64, json: bool) -> io::Result<()> {
    print_these(out, state, 0, end_realtime_ns, json)
}

fn print_these(
    out: &mut impl Write,
    state: &State,
    left_out: usize,
    end_realtime_ns: u64,
    json: bool,
) -> io::Result<()> {
    if state.is_empty() {
        return Ok(());
    }
    let answer = Answer::at_end(state).without(left_out);
    let rows = || state.experiments().flat_map(|one| one.rows.iter().map(move |row| (one, row))).take(ROWS_MAX);
    if json {
        output::line(out, &Line::Disturb(&answer))?;
        let line = |(one, row): (&'_ Experiment, _)| {
            output::line(out, &Line::DisturbRow { experiment: &one.began.experiment, row })
        };
        return rows().try_for_each(line);
    }
    writeln!(out, "\nExperiments:")?;
    let header = ["began (UTC)", "state", "what it does", "workload", "runs", "ratio", "interval", "stalled"];
    let mut table = Table::new(&header, &[0, 1, 2, 3]);
    answer.experiments.iter().rev().for_each(|one| table.row(row(one)));
    write!(out, "{}", table.text())?;
    let (published, own): (Vec<_>, Vec<_>) =
        rows().map(|(_, row)| row).partition(|row| !row.published.is_empty() || !row.verdict.is_empty());
    if !published.is_empty() {
        let mut table = Table::new(&["published, and found here", "published", "here", "verdict"], &[0, 1, 2, 3]);
        published.into_iter().for_each(|row| table.row(published_row(row)));
        write!(out, "\n{}", table.text())?;
    }
    if !own.is_empty() {
        let header = ["workload", "disturbance", "number", "effect", "interval", "stalled"];
        let mut table = Table::new(&header, &[0, 1, 2]);
        own.into_iter().for_each(|row| table.row(own_row(row)));
        write!(out, "\n{}", table.text())?;
    }
    if left_out > 0 {
        writeln!(out, "{} of other times not shown", counted(left_out as u64, "experiment", "experiments"))?;
    }
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
        one_line(if one.began.series.is_empty() { &one.began.workload } else { &one.began.series }),
        format!("{}/{}", one.runs_done, one.began.run_count),
        ratio,
        interval,
        share,
    ]
}

fn published_row(row: &ExperimentRow) -> Vec<String> {
    let verdict = if row.verdict.is_empty() { "-" } else { &row.verdict };
    vec![short(&row.measure), short(&row.published), short(&row.ours), short(verdict)]
}

fn own_row(row: &ExperimentRow) -> Vec<String> {
    let (effect, interval) = match (row.effect, row.interval_low, row.interval_high) {
        (Some(effect), Some(low), Some(high)) if row.compared == "ratio" => {
            (format!("x {effect:.4}"), format!("{low:.4} to {high:.4}"))
        }
        (Some(effect), Some(low), Some(high)) => (format!("{effect:+.4}"), format!("{low:+.4} to {high:+.4}")),
        _ => (String::new(), String::new()),
    };
    let number = if row.effect.is_some() { &row.measure } else { &row.why };
    let share = row.effect.map_or(String::new(), |_| format!("{:.2} %", row.injected_share * 100.0));
    vec![short(&row.case), short(&row.treatment), short(number), effect, interval, share]
}

/// A stranger's words, in one line of a table.
fn short(words: &str) -> String {
    let words = one_line(words);
    match words.char_indices().nth(LETTERS_MAX) {
        None => words,
        Some((end, _)) => format!("{}...", &words[..end]),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use serde_json::{from_value, json};
    use surefoot_model::{DisturbEvent, ExperimentBegan, ExperimentEnded};

    const S: u64 = 1_000_000_000;

    fn printed(is_json: bool) -> String {
        let mut state = State::default();
        for (name, began_s, ended_s) in [
            ("yesterday", 100, Some(200)),
            ("over", 100, Some(1_005)),
            ("runs", 1_005, None),
            ("tomorrow", 2_000, None),
        ] {
            let began: ExperimentBegan = from_value(json!({
                "experiment": name, "at_ns": 1, "at_realtime_ns": began_s * S, "pid": 3, "disturbance": "freeze", "method": "bpf",
                "is_of_cores": true, "cores": [0], "length_ns": 1000, "period_ns": 1_000_000, "workload": name, "metric": "wall",
                "run_count": 3,
            }))
            .unwrap();
            state.take(&DisturbEvent::Began(Box::new(began)));
            if let Some(ended_s) = ended_s {
                let ended: ExperimentEnded = from_value(
                    json!({"experiment": name, "at_ns": 1, "at_realtime_ns": ended_s * S, "outcome": "finished"}),
                )
                .unwrap();
                state.take(&DisturbEvent::Ended(ended));
            }
        }
        let mut out = Vec::new();
        print_between(&mut out, &state, (1_000 * S, 1_010 * S), is_json).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// The journals of a host hold experiments of many days; a report is of its own time.
    #[test]
    fn a_report_shows_the_experiments_of_its_own_time() {
        let said = printed(false);
        assert!(said.contains("over") && said.contains("runs"), "{said}");
        assert!(!said.contains("yesterday") && !said.contains("tomorrow"), "{said}");
        assert!(said.contains("2 experiments of other times not shown"), "{said}");
        let line: serde_json::Value = serde_json::from_str(printed(true).lines().next().unwrap()).unwrap();
        assert_eq!(line["experiments"].as_array().unwrap().len(), 2);
        assert_eq!(line["experiments_left_out"], 2);
    }
}
