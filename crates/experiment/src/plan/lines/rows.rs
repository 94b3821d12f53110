//! What a preset's source published beside what was found here, and what all of it comes to.

use super::super::report::Report;
use serde::{Deserialize, Serialize};
use surefoot_console::units::{counted, duration};
use surefoot_disturb::preset::{Evidence, Preset, Row, Rule, Tested, Verdict};
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
    /// `measured`, `simulated` or `fitted`: of a model whose inputs were picked so that the published value comes out.
    evidence: String,
    /// The rule of the verdict in words; `null` where nothing was published.
    rule: Option<String>,
    /// The tests that the rule takes, all of which must hold.
    tests: Vec<TestLine>,
    /// Measured: `reproduced`, `not reproduced`, `too noisy to tell`, `too few runs: N of M` or `cannot be tested here`. Simulated: `the
    /// model agrees`, `the model disagrees`, `the model leaves it open`, `too few draws: N of M` or `cannot be simulated`. `no test: the model
    /// was fitted to it`; `null` where nothing was published.
    verdict: Option<String>,
}

/// A test of a row.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename = "test")]
pub struct TestLine {
    /// `about`, `within`, `above`, `below`, `changes`, `equivalent`, `control` or `each`; `shown` of a number that is not tested.
    rule: String,
    /// The rule's numbers; `null` where it has none. `about`: what the published number may stand for; `above`, `below`: no effect, and the
    /// least that counts as one.
    bound_low: Option<f64>,
    bound_high: Option<f64>,
    /// `change_percent` and `speed_percent` of a ratio, whose intervals are of logarithms; `plain`.
    scale: String,
    value: Option<f64>,
    interval_low: Option<f64>,
    interval_high: Option<f64>,
    /// Of the interval.
    confidence: f64,
    /// What the row takes: 1 - 0.05 / m, with m rows that have a rule in its table and of its evidence.
    confidence_needed: f64,
    /// Runs, steps or draws behind it.
    runs: u64,
    /// As of the row; `null` of a number that is not tested.
    verdict: Option<String>,
}

impl TestLine {
    fn of(test: &Tested, evidence: Evidence) -> TestLine {
        let [bound_low, bound_high] = test.rule.bounds();
        TestLine {
            rule: test.rule.name().into(),
            bound_low,
            bound_high,
            scale: test.scale.name().into(),
            value: test.number.map(|number| number.value),
            interval_low: test.number.map(|number| number.low),
            interval_high: test.number.map(|number| number.high),
            confidence: test.confidence,
            confidence_needed: test.confidence_needed,
            runs: test.runs,
            verdict: (test.rule != Rule::Shown).then(|| test.verdict.words(evidence)),
        }
    }
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
            evidence: row.evidence.name().into(),
            rule: Some(row.rule_words()).filter(|words| !words.is_empty()),
            tests: row.tests.iter().map(|test| TestLine::of(test, row.evidence)).collect(),
            verdict: (row.verdict.is_some() || row.evidence == Evidence::Fitted).then(|| row.verdict_words()),
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
            evidence: self.evidence.clone(),
            rule: self.rule.clone().unwrap_or_default(),
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
    /// Rows that were measured, by their verdict.
    measured: VerdictCounts,
    /// Rows that a model gave, by theirs.
    simulated: VerdictCounts,
    /// Rows of a model that was fitted to what was published: no test.
    fitted_count: u64,
    /// Workloads that failed or cannot be run here.
    #[serde(default)]
    given_up_count: u64,
    /// What to keep in mind.
    pub warnings: Vec<String>,
}

/// Rows by their verdict; of a model, those that agree count as reproduced.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename = "verdict_counts")]
pub struct VerdictCounts {
    reproduced_count: u64,
    not_reproduced_count: u64,
    too_noisy_count: u64,
    too_few_runs_count: u64,
    cannot_be_tested_count: u64,
}

impl VerdictCounts {
    fn of(rows: &[Row], evidence: Evidence) -> VerdictCounts {
        let mut counts = VerdictCounts::default();
        for verdict in rows.iter().filter(|row| row.evidence == evidence).filter_map(|row| row.verdict) {
            *match verdict {
                Verdict::Reproduced => &mut counts.reproduced_count,
                Verdict::NotReproduced => &mut counts.not_reproduced_count,
                Verdict::TooNoisy => &mut counts.too_noisy_count,
                Verdict::TooFewRuns { .. } => &mut counts.too_few_runs_count,
                Verdict::CannotBeTested => &mut counts.cannot_be_tested_count,
            } += 1;
        }
        counts
    }

    /// In words, if there is any.
    fn words(self, evidence: Evidence) -> Option<String> {
        let is_measured = evidence == Evidence::Measured;
        let parts = match is_measured {
            true => ["reproduced", "not reproduced", "too noisy to tell", "with too few runs", "cannot be tested here"],
            false => ["agree", "disagree", "left open", "with too few draws", "cannot be simulated"],
        };
        let counts = [
            self.reproduced_count,
            self.not_reproduced_count,
            self.too_noisy_count,
            self.too_few_runs_count,
            self.cannot_be_tested_count,
        ];
        let all: u64 = counts.iter().sum();
        let said =
            counts.iter().zip(parts).filter(|(count, _)| **count > 0).map(|(count, words)| format!("{count} {words}"));
        let said = said.collect::<Vec<_>>().join(", ");
        let rows = counted(all, "row", "rows");
        (all > 0).then(|| format!("{rows} {}: {said}", if is_measured { "measured" } else { "of a model" }))
    }
}

/// How the rows of a report came out, measured ones and those of models apart; none without rows.
pub fn verdicts(rows: &[Row]) -> Vec<String> {
    let counts =
        [Evidence::Measured, Evidence::Simulated].map(|evidence| (evidence, VerdictCounts::of(rows, evidence)));
    said(counts, fitted(rows))
}

fn said(counts: [(Evidence, VerdictCounts); 2], fitted: u64) -> Vec<String> {
    let mut said: Vec<String> = counts.into_iter().filter_map(|(evidence, counts)| counts.words(evidence)).collect();
    if fitted > 0 {
        said.push(format!("{} of a model fitted to the published value: no test", counted(fitted, "row", "rows")));
    }
    said
}

fn fitted(rows: &[Row]) -> u64 {
    rows.iter().filter(|row| row.evidence == Evidence::Fitted).count() as u64
}

impl SummaryLine {
    /// The line that ends the stream.
    pub fn of(report: &Report<'_>) -> SummaryLine {
        let cases = &report.outcome.cases;
        SummaryLine {
            name: report.name.to_owned(),
            took_ns: u64::try_from(report.took.as_nanos()).unwrap_or(u64::MAX),
            run_count: cases.iter().map(|case| case.runs.len() as u64).sum(),
            left_out: report.outcome.left_out,
            measured: VerdictCounts::of(report.rows, Evidence::Measured),
            simulated: VerdictCounts::of(report.rows, Evidence::Simulated),
            fitted_count: fitted(report.rows),
            given_up_count: cases.iter().filter(|case| case.gave_up.is_some()).count() as u64,
            warnings: report.warnings.to_vec(),
        }
    }

    /// What it came to, in a few words.
    pub fn words(&self) -> String {
        let mut words = format!("{} in {}", counted(self.run_count, "run", "runs"), duration(self.took_ns));
        let counts = [(Evidence::Measured, self.measured), (Evidence::Simulated, self.simulated)];
        let said = said(counts, self.fitted_count);
        if !said.is_empty() {
            words += &format!(": {}", said.join("; "));
        }
        if self.given_up_count > 0 {
            words += &format!("; {} given up", counted(self.given_up_count, "workload", "workloads"));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_disturb::preset::{Number, Scale};

    fn row(evidence: Evidence, verdict: Option<Verdict>) -> Row {
        let rule = Rule::About { low: -2.5, high: -1.5 };
        let number = Number { value: -2.0, low: -2.1, high: -1.9 };
        let tested = verdict.map(|verdict| Tested {
            rule,
            number: Some(number),
            scale: Scale::Change,
            confidence: 0.996,
            confidence_needed: 0.995,
            runs: 10,
            verdict,
        });
        Row {
            table: "Processor",
            row: "integer".into(),
            published: "-2 %".into(),
            ours: "-2.0 %".into(),
            value: Some(-2.0),
            interval: Some([-2.1, -1.9]),
            differs: "",
            evidence,
            rules: verdict.map(|_| rule).into_iter().collect(),
            tests: tested.into_iter().collect(),
            verdict,
        }
    }

    #[test]
    fn verdicts_of_models_are_other_words_and_another_count() {
        let few = Verdict::TooFewRuns { runs: 3, needed: 9 };
        let rows = [
            row(Evidence::Measured, Some(Verdict::Reproduced)),
            row(Evidence::Measured, Some(few)),
            row(Evidence::Measured, None),
            row(Evidence::Simulated, Some(Verdict::Reproduced)),
            row(Evidence::Fitted, None),
        ];
        let said = verdicts(&rows);
        let expected = [
            "2 rows measured: 1 reproduced, 1 with too few runs",
            "1 row of a model: 1 agree",
            "1 row of a model fitted to the published value: no test",
        ];
        assert_eq!(said, expected);
        let words = rows.each_ref().map(|row| RowLine::of(None, row).verdict);
        let expected = [
            Some("reproduced"),
            Some("too few runs: 3 of 9"),
            None,
            Some("the model agrees"),
            Some("no test: the model was fitted to it"),
        ];
        assert_eq!(words.each_ref().map(Option::as_deref), expected);
        let line = RowLine::of(None, &rows[0]);
        let test = &line.tests[0];
        assert_eq!((test.rule.as_str(), test.bound_low, test.interval_low), ("about", Some(-2.5), Some(-2.1)));
        let told = line.told();
        assert_eq!((told.evidence.as_str(), told.verdict.as_str()), ("measured", "reproduced"));
        assert!(told.rule.contains("twice that effect"), "{told:?}");
    }
}
