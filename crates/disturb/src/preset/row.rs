//! A row of a preset's report, and how it is filled.

use crate::drift::Drift;
use crate::length::Length;
use crate::plan::{Case, Compared, MeasureOutcome, NoResult, Outcome, TreatmentOutcome};

/// Whether a finding came out again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It did.
    Reproduced,
    /// It did not.
    NotReproduced,
    /// This host lacks what it takes.
    CannotBeTested,
}

impl Verdict {
    /// The words in the report.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::NotReproduced => "not reproduced",
            Verdict::CannotBeTested => "cannot be tested here",
        }
    }

    /// By whether it did.
    pub(super) fn of(is_so: bool) -> Verdict {
        if is_so { Verdict::Reproduced } else { Verdict::NotReproduced }
    }
}

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
        /// What it says, or why it says nothing.
        found: Result<String, String>,
        /// Whether it has the shape that the paper gives it.
        has_shape: Option<bool>,
    },
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
    /// Of findings, and of numbers that were published.
    pub verdict: Option<Verdict>,
}

/// Half of an interval that is wider than this, in points of a hundred, holds almost any number.
const HALF_WIDTH_MAX: f64 = 10.0;

/// A number with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Number {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Number {
    /// Whether a published number lies within the interval and so much around it.
    pub(super) fn is_near(self, published: f64, tolerance: f64) -> bool {
        self.low - tolerance <= published && published <= self.high + tolerance
    }

    /// Whether the interval holds so much that nothing can be told from it.
    pub(super) fn is_too_wide(self) -> bool {
        (self.high - self.low) / 2.0 > HALF_WIDTH_MAX
    }

    /// Whether a published number came out again.
    pub(super) fn verdict(self, published: f64, tolerance: f64) -> Verdict {
        match self.is_near(published, tolerance) {
            false => Verdict::NotReproduced,
            true if self.is_too_wide() => Verdict::CannotBeTested,
            true => Verdict::Reproduced,
        }
    }

    /// As words, with a unit.
    pub(super) fn words(self, digits: usize, unit: &str) -> String {
        let Number { value, low, high } = self;
        format!("{value:.digits$}{unit} ({low:.digits$} to {high:.digits$})")
    }
}

/// The cases and what they came to.
pub(super) struct View<'a> {
    pub cases: &'a [Case],
    pub outcome: &'a Outcome,
}

impl View<'_> {
    /// A treatment of a case with a measure, or why there is nothing.
    pub(super) fn of(
        &self,
        case: &str,
        treatment: &str,
        measure: &str,
    ) -> Result<(&TreatmentOutcome, &MeasureOutcome), String> {
        let number = self.cases.iter().position(|known| known.name == case).ok_or("it was not run")?;
        let (known, found) = (&self.cases[number], &self.outcome.cases[number]);
        if let Some(NoResult::Unsupported(why) | NoResult::Failed(why)) = &found.gave_up {
            return Err(why.clone());
        }
        let place = known.treatments.iter().position(|known| known.name == treatment).ok_or("it was not run")?;
        let treated = &found.treatments[place];
        if let Some(why) = &treated.unsupported {
            return Err(why.clone());
        }
        let measured = known.measures.iter().position(|known| known.name == measure).ok_or("it was not measured")?;
        let measured = &treated.measures[measured];
        if measured.effect.is_none() && measured.shift.is_none() {
            return Err(format!("too few repetitions ({}): the time was over", measured.pairs));
        }
        Ok((treated, measured))
    }

    /// The speed under a treatment, as a share of that without, in percent less 100: below 0 where it is slower.
    pub(super) fn change(&self, case: &str, treatment: &str, measure: &str) -> Result<(Number, f64), String> {
        let (treated, measured) = self.of(case, treatment, measure)?;
        let effect = measured.effect.ok_or("it is compared by difference")?;
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        let number = if is_a_time(measure) {
            Number {
                value: percent(1.0 / effect.ratio),
                low: percent(1.0 / effect.high),
                high: percent(1.0 / effect.low),
            }
        } else {
            Number { value: percent(effect.ratio), low: percent(effect.low), high: percent(effect.high) }
        };
        Ok((number, treated.injected_share * 100.0))
    }

    /// By how much a share or a count rose.
    pub(super) fn rise(&self, case: &str, treatment: &str, measure: &str) -> Result<(Number, [f64; 2]), String> {
        let (_, measured) = self.of(case, treatment, measure)?;
        let shift = measured.shift.ok_or("it is compared by ratio")?;
        Ok((Number { value: shift.estimate, low: shift.low, high: shift.high }, measured.medians))
    }

    /// How far apart the undisturbed runs of a case lie: the largest over the smallest of each measure that is compared by
    /// ratio, the most of all measures.
    pub(super) fn spread(&self, case: &str) -> Result<f64, String> {
        let number = self.cases.iter().position(|known| known.name == case).ok_or("it was not run")?;
        let (known, found) = (&self.cases[number], &self.outcome.cases[number]);
        if let Some(NoResult::Unsupported(why) | NoResult::Failed(why)) = &found.gave_up {
            return Err(why.clone());
        }
        let own = || found.runs.iter().filter(|done| done.place.treatment.is_none() && done.place.repetition.is_some());
        let spread = |place: usize| {
            let values = || own().map(|done| done.values[place]);
            values().fold(f64::NEG_INFINITY, f64::max) / values().fold(f64::INFINITY, f64::min)
        };
        let ratios = known.measures.iter().enumerate().filter(|(_, measure)| measure.compared == Compared::Ratio);
        let most = ratios.map(|(place, _)| spread(place)).fold(0.0, f64::max);
        if own().count() < 2 { Err("too few repetitions".into()) } else { Ok(most) }
    }
}

/// Whether less of it is better.
fn is_a_time(measure: &str) -> bool {
    measure.ends_with("_ns") || measure.ends_with("_us") || measure.ends_with("_ms") || measure == "seconds"
}
