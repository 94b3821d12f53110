//! The report of several workloads as text.

use super::lines::verdicts;
use super::report::Report;
use surefoot_console::table::{Table, paragraph};
use surefoot_console::units::{counted, duration};
use surefoot_disturb::plan::{Case, CaseOutcome, Compared, Measure, MeasureOutcome, NoResult};
use surefoot_disturb::preset::Row;

/// Behind an interval that shows no effect.
const STAR: &str = " *";
/// Where text ends.
const COLUMNS: usize = 120;

/// The report as text.
pub fn of(report: &Report<'_>) -> String {
    let took = duration(u64::try_from(report.took.as_nanos()).unwrap_or(u64::MAX));
    let runs: usize = report.outcome.cases.iter().map(|case| case.runs.len()).sum();
    let mut text = match report.preset {
        Some(preset) => format!("{}, repeated: {} in {took}\n", preset.source(), counted(runs as u64, "run", "runs")),
        None => format!("{}: {} in {took}\n", report.name, counted(runs as u64, "run", "runs")),
    };
    if report.rows.is_empty() {
        text += "\n";
        text += &effects(report);
    } else {
        text += &rows(report.rows);
    }
    text += &left_out(report);
    for warning in report.warnings {
        text += &format!("Warning: {warning}\n");
    }
    text
}

fn effects(report: &Report<'_>) -> String {
    let header = ["workload", "disturbance", "measure", "undisturbed", "disturbed", "effect", "interval", "stalled"];
    let mut table = Table::new(&header, &[0, 1, 2]);
    for (case, found) in report.plan.cases.iter().zip(&report.outcome.cases) {
        for (place, treatment) in case.treatments.iter().enumerate() {
            let treated = &found.treatments[place];
            for (measure, measured) in case.measures.iter().zip(&treated.measures) {
                let Some([effect, interval]) = effect(measured) else { continue };
                let stalled = match treatment.spec.what.has_lengths() {
                    true => format!("{:.2} %", treated.injected_share * 100.0),
                    false => "-".to_owned(),
                };
                let [undisturbed, disturbed] = measured.medians.map(|value| number(measure, value));
                let words = [&case.name, &treatment.name, &measure.name].map(Clone::clone);
                table.row([&words[..], &[undisturbed, disturbed, effect, interval, stalled]].concat());
            }
        }
    }
    let text = table.text();
    let note =
        if text.contains(STAR) { "* no effect is shown: the interval holds 1, or of a difference 0\n" } else { "" };
    text + note
}

/// The effect and its interval; with a star where none is shown.
fn effect(found: &MeasureOutcome) -> Option<[String; 2]> {
    let star = |is_shown: bool| if is_shown { "" } else { STAR };
    if let Some(effect) = found.effect {
        let interval = format!("{:.4} to {:.4}{}", effect.low, effect.high, star(effect.is_shown));
        return Some([format!("x {:.4}", effect.ratio), interval]);
    }
    let shift = found.shift?;
    let interval = format!("{:+.2} to {:+.2}{}", shift.low, shift.high, star(shift.is_shown));
    Some([format!("{:+.2}", shift.estimate), interval])
}

fn number(measure: &Measure, value: f64) -> String {
    match measure.metric {
        surefoot_disturb::workload::Metric::Wall => duration(value as u64),
        _ if measure.compared == Compared::Difference => format!("{value:.2}"),
        _ if value.abs() >= 1e6 => format!("{value:.3e}"),
        _ => format!("{value:.2}"),
    }
}

fn rows(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut tables: Vec<&str> = rows.iter().map(|row| row.table).collect();
    tables.dedup();
    for name in tables {
        text += &format!("\n{name}\n");
        for row in rows.iter().filter(|row| row.table == name) {
            text += &format!("  {:<74}  {}\n", row.row, row.verdict_words());
            text += &format!("      published  {}\n", paragraph(&row.published, 17, 17, COLUMNS));
            text += &format!("      here       {}\n", paragraph(&row.ours, 17, 17, COLUMNS));
        }
        let mut differs: Vec<&str> =
            rows.iter().filter(|row| row.table == name && !row.differs.is_empty()).map(|row| row.differs).collect();
        differs.dedup();
        for words in differs {
            text += &format!("  expected to differ: {}\n", paragraph(words, 22, 22, COLUMNS));
        }
    }
    text += "\n";
    verdicts(rows).iter().for_each(|words| text += &format!("{words}\n"));
    text
}

fn left_out(report: &Report<'_>) -> String {
    let mut text = String::new();
    for (case, found) in report.plan.cases.iter().zip(&report.outcome.cases) {
        text += &of_case(case, found);
    }
    text
}

fn of_case(case: &Case, found: &CaseOutcome) -> String {
    let mut text = match &found.gave_up {
        Some(NoResult::Unsupported(why)) => format!("{}: unsupported: {why}\n", case.name),
        Some(NoResult::Failed(why)) => format!("{}: failed: {why}\n", case.name),
        None => String::new(),
    };
    for (treatment, treated) in case.treatments.iter().zip(&found.treatments) {
        if let Some(why) = &treated.unsupported {
            text += &format!("{} under {}: unsupported: {why}\n", case.name, treatment.name);
        }
    }
    text
}
