//! What a preset's source published beside what was found here, and what all of it comes to.

use super::super::report::Report;
use serde::{Deserialize, Serialize};
use surefoot_console::units::{counted, duration};
use surefoot_disturb::preset::{Preset, Row, Verdict};
use surefoot_model::ExperimentRow;

/// What a source published beside what was found here.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "row")]
pub struct RowLine {
    /// `slides` or `icpe20`.
    preset: Option<String>,
    table: String,
    row: String,
    published: String,
    ours: String,
    /// What was found, in the unit of the words; `null` where that is not one number.
    value: Option<f64>,
    interval_low: Option<f64>,
    interval_high: Option<f64>,
    /// Where the emulation is expected to differ from the source's machines.
    expected_difference: String,
    /// `reproduced`, `not reproduced` or `cannot be tested here`; `null` where nothing was published.
    verdict: Option<String>,
}

impl RowLine {
    /// The line of a row.
    pub fn of(preset: Option<Preset>, row: &Row) -> RowLine {
        RowLine {
            preset: preset.map(|preset| preset.name().into()),
            table: row.table.into(),
            row: row.row.clone(),
            published: row.published.clone(),
            ours: row.ours.clone(),
            value: row.value,
            interval_low: row.interval.map(|interval| interval[0]),
            interval_high: row.interval.map(|interval| interval[1]),
            expected_difference: row.differs.into(),
            verdict: row.verdict.map(|verdict| verdict.words().into()),
        }
    }

    /// As the journal has it.
    pub fn told(&self) -> ExperimentRow {
        ExperimentRow {
            case: self.table.clone(),
            measure: self.row.clone(),
            effect: self.value,
            interval_low: self.interval_low,
            interval_high: self.interval_high,
            published: self.published.clone(),
            ours: self.ours.clone(),
            expected_to_differ: self.expected_difference.clone(),
            verdict: self.verdict.clone().unwrap_or_default(),
            ..ExperimentRow::default()
        }
    }
}

/// The last line.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "summary")]
pub struct SummaryLine {
    /// The name of the experiment.
    pub name: String,
    took_ns: u64,
    run_count: u64,
    /// Runs for which there was no time.
    left_out: u64,
    reproduced_count: u64,
    not_reproduced_count: u64,
    cannot_be_tested_count: u64,
    /// Workloads that failed or cannot be run here.
    #[serde(default)]
    given_up_count: u64,
    /// What to keep in mind.
    pub warnings: Vec<String>,
}

impl SummaryLine {
    /// The line that ends the stream.
    pub fn of(report: &Report<'_>) -> SummaryLine {
        let count = |verdict: Verdict| report.rows.iter().filter(|row| row.verdict == Some(verdict)).count() as u64;
        let cases = &report.outcome.cases;
        SummaryLine {
            name: report.name.to_owned(),
            took_ns: u64::try_from(report.took.as_nanos()).unwrap_or(u64::MAX),
            run_count: cases.iter().map(|case| case.runs.len() as u64).sum(),
            left_out: report.outcome.left_out,
            reproduced_count: count(Verdict::Reproduced),
            not_reproduced_count: count(Verdict::NotReproduced),
            cannot_be_tested_count: count(Verdict::CannotBeTested),
            given_up_count: cases.iter().filter(|case| case.gave_up.is_some()).count() as u64,
            warnings: report.warnings.to_vec(),
        }
    }

    /// What it came to, in a few words.
    pub fn words(&self) -> String {
        let (yes, no, cannot) = (self.reproduced_count, self.not_reproduced_count, self.cannot_be_tested_count);
        let mut words = format!("{} in {}", counted(self.run_count, "run", "runs"), duration(self.took_ns));
        if [yes, no, cannot].iter().any(|count| *count > 0) {
            words += &format!(": {} reproduced, {no} not, {cannot} cannot be tested here", counted(yes, "row", "rows"));
        }
        if self.given_up_count > 0 {
            words += &format!("; {} given up", counted(self.given_up_count, "workload", "workloads"));
        }
        words
    }
}
