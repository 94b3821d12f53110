//! A row of a preset's report, and how it is filled.

use super::verdict::{Data, Evidence, Number, Rule, Sample, Scale, Tested, Verdict, confidence};
use crate::drift::Drift;
use crate::length::Length;
use crate::plan::{Case, Compared, Done, NoResult, Outcome};
use std::collections::BTreeMap;

/// A number that the plan's runs do not give.
#[derive(Debug, Clone)]
pub enum Extra {
    /// The length of stalls by counting them.
    Length {
        /// What it was to be.
        asked_ns: u64,
        /// What was found, or why nothing was.
        found: Result<Length, String>,
    },
    /// What long stalls do to the wall clock, and the kernel's clock source.
    Drift {
        /// What was found, or why nothing was.
        found: Result<(Drift, String), String>,
    },
    /// A figure that the model of memory errors draws anew.
    Figure {
        /// Its number in ICPE'20.
        number: u32,
        /// What was drawn, or why nothing was.
        found: Result<Drawn, String>,
    },
}

/// What a model's figure shows.
#[derive(Debug, Clone)]
pub struct Drawn {
    /// In words.
    pub words: String,
    /// For each part of what the paper says of it: differences along the figure that are above 0 if it is so.
    pub above_zero: Vec<Vec<f64>>,
    /// The model's inputs were picked so that the figure comes out.
    pub is_fitted: bool,
}

/// A row: what was published, and what was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The table, figure or finding that it belongs to.
    pub table: &'static str,
    /// What it is about.
    pub row: String,
    /// What the source says.
    pub published: String,
    /// What was found here, in words.
    pub ours: String,
    /// What was found, in the unit of the words; of rows that are one number.
    pub value: Option<f64>,
    /// Where the true value lies.
    pub interval: Option<[f64; 2]>,
    /// Where the emulation is expected to differ from the source's machines.
    pub differs: &'static str,
    /// Where the numbers come from.
    pub evidence: Evidence,
    /// What the sentence claims; none where nothing was published.
    pub rules: Vec<Rule>,
    /// Its tests, in the order of the rules; none where there is nothing to test with.
    pub tests: Vec<Tested>,
    /// Of findings, and of numbers that were published.
    pub verdict: Option<Verdict>,
}

impl Row {
    /// The verdict in words.
    pub fn verdict_words(&self) -> String {
        match (self.verdict, self.evidence) {
            (Some(verdict), evidence) => verdict.words(evidence),
            (None, Evidence::Fitted) => "no test: the model was fitted to it".into(),
            (None, _) => "nothing to compare with".into(),
        }
    }

    /// The rules in words.
    pub fn rule_words(&self) -> String {
        self.rules
            .iter()
            .filter(|rule| **rule != Rule::Shown)
            .map(|rule| rule.words())
            .collect::<Vec<_>>()
            .join("; and ")
    }
}

/// The numbers of a row in words.
type Words<'a> = Box<dyn Fn(&[Number]) -> String + 'a>;

/// A row before its family is known.
pub(super) struct Draft<'a> {
    table: &'static str,
    row: String,
    published: String,
    differs: &'static str,
    evidence: Evidence,
    rules: Vec<Rule>,
    samples: Result<Vec<Sample>, String>,
    words: Words<'a>,
    is_one_number: bool,
}

impl<'a> Draft<'a> {
    /// A row whose first sample is its number; each sample is tested by its rule.
    pub(super) fn new(
        table: &'static str,
        row: impl Into<String>,
        published: impl Into<String>,
        rules: impl Into<Vec<Rule>>,
        samples: Result<Vec<Sample>, String>,
        words: impl Fn(&[Number]) -> String + 'a,
    ) -> Draft<'a> {
        let (row, published, rules, words) = (row.into(), published.into(), rules.into(), Box::new(words));
        let (differs, evidence, is_one_number) = ("", Evidence::Measured, true);
        Draft { table, row, published, differs, evidence, rules, samples, words, is_one_number }
    }

    pub(super) fn differs(self, differs: &'static str) -> Draft<'a> {
        Draft { differs, ..self }
    }

    /// Where its numbers come from, if not from runs.
    pub(super) fn from(self, evidence: Evidence) -> Draft<'a> {
        Draft { evidence, ..self }
    }

    /// Its numbers are several.
    pub(super) fn of_several(self) -> Draft<'a> {
        Draft { is_one_number: false, ..self }
    }

    fn has_sentence(&self) -> bool {
        self.rules.iter().any(|rule| *rule != Rule::Shown)
    }

    fn is_of(&self, other: &Draft<'_>) -> bool {
        (self.table, self.evidence) == (other.table, other.evidence)
    }

    fn judged(&self, family: usize) -> Row {
        let (mut ours, mut tests) = (String::new(), Vec::new());
        let verdict = match &self.samples {
            Err(why) => {
                ours.clone_from(why);
                Some(Verdict::CannotBeTested)
            }
            Ok(samples) => {
                let tested = samples.iter().zip(&self.rules);
                tests = tested.map(|(sample, rule)| sample.test(*rule, confidence(family))).collect();
                let numbers: Vec<Number> = tests.iter().filter_map(|test: &Tested| test.number).collect();
                ours = match numbers.len() == tests.len() {
                    true => (self.words)(&numbers),
                    false => "fewer than two repetitions: the time was over".into(),
                };
                let parts = tests.iter().filter(|test| test.rule != Rule::Shown).map(|test| test.verdict);
                Some(Verdict::of_all(parts)).filter(|_| self.has_sentence())
            }
        };
        let number = tests.first().and_then(|test| test.number).filter(|_| self.is_one_number);
        Row {
            table: self.table,
            row: self.row.clone(),
            published: self.published.clone(),
            ours,
            value: number.map(|number| number.value),
            interval: number.map(|number| [number.low, number.high]),
            differs: self.differs,
            evidence: self.evidence,
            rules: self.rules.clone(),
            tests,
            verdict: verdict.filter(|_| self.evidence != Evidence::Fitted),
        }
    }
}

/// Judges rows, each with the confidence that its family takes.
pub(super) fn judged(drafts: &[Draft<'_>]) -> Vec<Row> {
    let family = |own: &Draft<'_>| drafts.iter().filter(|other| own.is_of(other) && other.has_sentence()).count();
    drafts.iter().map(|draft| draft.judged(family(draft))).collect()
}

/// The cases and what they came to.
pub(super) struct View<'a> {
    pub cases: &'a [Case],
    pub outcome: &'a Outcome,
}

/// A number of each repetition.
pub(super) type Each = BTreeMap<u64, f64>;

/// A sample of logarithms of ratios.
pub(super) fn logs(each: &Each, scale: Scale) -> Sample {
    Sample { data: Data::Runs(each.values().copied().collect()), scale }
}

/// A sample of plain numbers.
pub(super) fn plain(each: &Each) -> Sample {
    logs(each, Scale::Plain)
}

/// Of the repetitions that both have.
pub(super) fn both(one: &Each, other: &Each, of: impl Fn(f64, f64) -> f64) -> Each {
    one.iter().filter_map(|(repetition, value)| Some((*repetition, of(*value, *other.get(repetition)?)))).collect()
}

impl<'a> View<'a> {
    /// A case and a treatment of it, by their places, or why there is nothing.
    fn found(&self, case: &str, treatment: &str) -> Result<(usize, usize), String> {
        let number = self.cases.iter().position(|known| known.name == case).ok_or("it was not run")?;
        let (known, found) = (&self.cases[number], &self.outcome.cases[number]);
        if let Some(NoResult::Unsupported(why) | NoResult::Failed(why)) = &found.gave_up {
            return Err(why.clone());
        }
        let place = known.treatments.iter().position(|known| known.name == treatment).ok_or("it was not run")?;
        match &found.treatments[place].unsupported {
            Some(why) => Err(why.clone()),
            None => Ok((number, place)),
        }
    }

    /// The runs of a case that count, undisturbed or under a treatment.
    fn runs(&self, case: usize, treatment: Option<usize>) -> impl Iterator<Item = (u64, &'a Done)> {
        let runs = self.outcome.cases[case].runs.iter().filter(move |done| done.place.treatment == treatment);
        runs.filter_map(|done| Some((done.place.repetition?, done)))
    }

    fn measure(&self, case: usize, measure: &str) -> Result<(usize, Compared), String> {
        let all = &self.cases[case].measures;
        let place = all.iter().position(|known| known.name == measure).ok_or("it was not measured")?;
        Ok((place, all[place].compared))
    }

    /// The numbers of a measure in each repetition, undisturbed and under a treatment.
    pub(super) fn pairs(&self, case: &str, treatment: &str, measure: &str) -> Result<[Each; 2], String> {
        let (number, treated) = self.found(case, treatment)?;
        let (place, _) = self.measure(number, measure)?;
        let of = |treatment| self.runs(number, treatment).map(|(repetition, done)| (repetition, done.values[place]));
        Ok([of(None).collect(), of(Some(treated)).collect()])
    }

    /// The logarithm of the speed under a treatment over that without, in each repetition: below 0 where it is slower.
    pub(super) fn change(&self, case: &str, treatment: &str, measure: &str) -> Result<Each, String> {
        let [without, with] = self.pairs(case, treatment, measure)?;
        let sign = if is_a_time(measure) { -1.0 } else { 1.0 };
        Ok(both(&with, &without, |with, without| sign * (with / without).ln()))
    }

    /// By how much a share or a count rose, in each repetition.
    pub(super) fn rise(&self, case: &str, treatment: &str, measure: &str) -> Result<Each, String> {
        let [without, with] = self.pairs(case, treatment, measure)?;
        Ok(both(&with, &without, |with, without| with - without))
    }

    /// The medians of a measure without and with a treatment.
    pub(super) fn medians(&self, case: &str, treatment: &str, measure: &str) -> [f64; 2] {
        let pairs = self.pairs(case, treatment, measure).unwrap_or_default();
        pairs.map(|each| crate::effect::median(each.into_values().collect()))
    }

    /// The share of each disturbed run that its cores were stalled, in percent.
    pub(super) fn share(&self, case: &str, treatment: &str) -> Result<Each, String> {
        let (number, treated) = self.found(case, treatment)?;
        Ok(self.runs(number, Some(treated)).map(|(at, done)| (at, done.run.injected_share * 100.0)).collect())
    }

    /// The stalls of each disturbed run.
    pub(super) fn stalls(&self, case: &str, treatment: &str) -> Result<Each, String> {
        let (number, treated) = self.found(case, treatment)?;
        Ok(self.runs(number, Some(treated)).map(|(at, done)| (at, done.run.stall_count as f64)).collect())
    }

    /// The share of the disturbed runs' time that was stalled, in words.
    pub(super) fn stalled(&self, case: &str, treatment: &str) -> String {
        let share = self
            .found(case, treatment)
            .map(|(case, treated)| self.outcome.cases[case].treatments[treated].injected_share * 100.0);
        share.map_or(String::new(), |share| format!(", stalled {share:.1} % of the time"))
    }
}

/// Whether less of it is better.
fn is_a_time(measure: &str) -> bool {
    measure.ends_with("_ns") || measure.ends_with("_us") || measure.ends_with("_ms") || measure == "seconds"
}
