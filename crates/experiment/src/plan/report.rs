//! All that is told at the end of several workloads.

use super::lines::{DifferenceLine, EffectLine, GivenUpLine, RowLine, SummaryLine};
use crate::log::Log;
use std::io::{self, Write};
use std::time::Duration;
use surefoot_console::output;
use surefoot_disturb::plan::{Outcome, Plan};
use surefoot_disturb::preset::{Preset, Row};
use surefoot_model::ExperimentRow;

/// What is found at the end.
pub struct Report<'a> {
    /// The name of the experiment.
    pub name: &'a str,
    /// The preset, if it is one.
    pub preset: Option<Preset>,
    /// What was planned.
    pub plan: &'a Plan,
    /// What was found.
    pub outcome: &'a Outcome,
    /// The rows of the preset.
    pub rows: &'a [Row],
    /// What a reader must keep in mind.
    pub warnings: &'a [String],
    /// How long all of it took.
    pub took: Duration,
}

/// Each of them is a line of JSON and a row of the record.
enum Line {
    GivenUp(GivenUpLine),
    Effect(Box<EffectLine>),
    Difference(DifferenceLine),
    Row(RowLine),
}

/// All lines of a report.
pub struct Lines {
    lines: Vec<Line>,
    summary: SummaryLine,
}

impl Report<'_> {
    /// Its lines.
    pub fn lines(&self) -> Lines {
        let mut lines = Vec::new();
        for (case, found) in self.plan.cases.iter().zip(&self.outcome.cases) {
            lines.extend(GivenUpLine::of(case, None, found.gave_up.as_ref()).map(Line::GivenUp));
            for (treatment, treated) in case.treatments.iter().zip(&found.treatments) {
                lines.extend(GivenUpLine::of_treatment(case, treatment, treated).map(Line::GivenUp));
                for (measure, measured) in case.measures.iter().zip(&treated.measures) {
                    let effect = EffectLine::of(self.plan, case, treatment, treated, measure, measured);
                    lines.extend(effect.map(|effect| Line::Effect(effect.into())));
                    let difference = DifferenceLine::of(case, treatment, treated, measure, measured);
                    lines.extend(difference.map(Line::Difference));
                }
            }
        }
        lines.extend(self.rows.iter().map(|row| Line::Row(RowLine::of(self.preset, row))));
        Lines { lines, summary: SummaryLine::of(self) }
    }
}

impl Lines {
    /// As lines of JSON.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for line in &self.lines {
            match line {
                Line::GivenUp(line) => output::line(out, line),
                Line::Effect(line) => output::line(out, line),
                Line::Difference(line) => output::line(out, line),
                Line::Row(line) => output::line(out, line),
            }?;
        }
        output::line(out, &self.summary)
    }

    /// For the journal, the recording and the page; the experiment has ended with it.
    pub fn record(&self, log: &mut Log) {
        let rows = self.lines.iter().map(|line| -> ExperimentRow {
            match line {
                Line::GivenUp(line) => line.told(),
                Line::Effect(line) => line.told(),
                Line::Difference(line) => line.told(),
                Line::Row(line) => line.told(),
            }
        });
        rows.for_each(|row| log.row(row));
        log.rows_finished(self.summary.words(), self.summary.warnings.clone());
    }
}
