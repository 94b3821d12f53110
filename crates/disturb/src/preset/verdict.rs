//! The rules of verdicts: each sentence of a row is one test of a sample, or several of which all must hold. Pure.
//!
//! The rows of a table are a family: of m rows with a rule, each gets an interval of 1 - 0.05/m (Bonferroni), so that in 19 of 20
//! tables in which every sentence is false none is called true. What was measured and what a model gave are families of their own.
//! An interval is that of the signed-rank test over the repetitions, which few repetitions cannot make: then the verdict says so,
//! with the number that suffices.

use crate::effect::Shift;
use crate::student::student;

/// How often a whole table may call a sentence true where all are false.
const ERROR: f64 = 0.05;
/// "Each" means that no more than this share is missed.
pub(super) const MISSED_MAX: f64 = 0.05;

/// Where the numbers of a row come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// From runs on this machine.
    Measured,
    /// From a model.
    Simulated,
    /// From a model whose inputs were picked so that the published value comes out, so that it tests nothing.
    Fitted,
}

impl Evidence {
    /// The word in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Evidence::Measured => "measured",
            Evidence::Simulated => "simulated",
            Evidence::Fitted => "fitted",
        }
    }
}

/// What a sentence claims of a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule {
    /// "About X", X published as a number from `low` to `high`: the interval meets these, and holds neither 0 nor twice X.
    About {
        /// The least that the published number may stand for, by its rounding or its stated deviation.
        low: f64,
        /// The most.
        high: f64,
    },
    /// "From `low` to `high`": the interval lies between these.
    Within {
        /// The lower end.
        low: f64,
        /// The upper end.
        high: f64,
    },
    /// "More": the interval lies above 0. If all of it lies below `least`, there is none.
    Above {
        /// What is no difference to anybody.
        least: f64,
    },
    /// "Less": the interval lies below 0. If all of it lies above -`least`, there is none.
    Below {
        /// What is no difference to anybody.
        least: f64,
    },
    /// "Changes": the interval lies on one side of 0.
    Changes,
    /// "Does not" and "is the same": the interval lies within this margin on both sides of 0.
    Equivalent {
        /// The margin.
        margin: f64,
    },
    /// What "does not" needs beside it: an effect that the same runs show. Where they do not, nothing is told.
    Control,
    /// "Each": every run counts no fewer than there were, and hardly more.
    Each,
    /// No sentence: the number is shown only.
    Shown,
}

impl Rule {
    /// The word in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Rule::About { .. } => "about",
            Rule::Within { .. } => "within",
            Rule::Above { .. } => "above",
            Rule::Below { .. } => "below",
            Rule::Changes => "changes",
            Rule::Equivalent { .. } => "equivalent",
            Rule::Control => "control",
            Rule::Each => "each",
            Rule::Shown => "shown",
        }
    }

    /// Its numbers, from the lower to the higher one, in the unit of the row.
    pub fn bounds(self) -> [Option<f64>; 2] {
        match self {
            Rule::About { low, high } | Rule::Within { low, high } => [Some(low), Some(high)],
            Rule::Above { least } => [Some(0.0), Some(least)],
            Rule::Below { least } => [Some(-least), Some(0.0)],
            Rule::Equivalent { margin } => [Some(-margin), Some(margin)],
            Rule::Changes | Rule::Control | Rule::Each | Rule::Shown => [None, None],
        }
    }

    /// The rule in words, in the unit of its row.
    pub fn words(self) -> String {
        match self {
            Rule::About { low, high } => {
                format!("the interval meets {low:.1} to {high:.1} and contains neither no effect nor twice that effect")
            }
            Rule::Within { low, high } => format!("the interval lies within {low} to {high}"),
            Rule::Above { least } => {
                format!("the interval lies above 0; if all of it lies below {least}, it does not hold")
            }
            Rule::Below { least } => {
                format!("the interval lies below 0; if all of it lies above -{least}, it does not hold")
            }
            Rule::Changes => "the interval excludes 0".into(),
            Rule::Equivalent { margin } => format!("the interval lies within -{margin} to +{margin}"),
            Rule::Control => "control: the same runs show an effect where there is one".into(),
            Rule::Each => format!(
                "every run counts at least as many as there were and at most {:.0} % more; enough are counted to exclude {:.0} % missed",
                MISSED_MAX * 100.0,
                MISSED_MAX * 100.0
            ),
            Rule::Shown => "no test".into(),
        }
    }
}

/// How a sample's numbers are shown; 0 is no effect in all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Logarithms of ratios, shown as a change in percent.
    Change,
    /// Logarithms of ratios, shown in percent of the undisturbed number.
    Speed,
    /// As they are.
    Plain,
}

impl Scale {
    /// The word in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Scale::Change => "change_percent",
            Scale::Speed => "speed_percent",
            Scale::Plain => "plain",
        }
    }

    fn shown(self, value: f64) -> f64 {
        match self {
            Scale::Change => value.exp_m1() * 100.0,
            Scale::Speed => value.exp() * 100.0,
            Scale::Plain => value,
        }
    }

    /// A number as shown, as it is in the sample.
    fn inner(self, shown: f64) -> f64 {
        match self {
            Scale::Change => (shown / 100.0).ln_1p(),
            Scale::Speed => (shown / 100.0).ln(),
            Scale::Plain => shown,
        }
    }

    /// A distance from no effect.
    fn distance(self, shown: f64) -> f64 {
        match self {
            Scale::Change | Scale::Speed => (shown / 100.0).ln_1p(),
            Scale::Plain => shown,
        }
    }
}

/// What a sentence is tested with.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Data {
    /// A number of each repetition.
    Runs(Vec<f64>),
    /// An estimate with half of its interval of 95 %, by Student's t with so many degrees of freedom.
    Estimate { value: f64, reach: f64, freedom: u64 },
    /// Of each run: what was counted, and how many there were.
    Counts(Vec<(f64, f64)>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sample {
    pub data: Data,
    pub scale: Scale,
}

/// A number with its interval, as it is shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Number {
    /// The number.
    pub value: f64,
    /// Where the true one lies.
    pub low: f64,
    /// Where the true one lies.
    pub high: f64,
}

impl Number {
    /// As words, with a unit.
    pub(super) fn words(self, digits: usize, unit: &str) -> String {
        let Number { value, low, high } = self;
        format!("{value:.digits$}{unit} ({low:.digits$} to {high:.digits$})")
    }
}

/// Whether a sentence came out again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Its test holds.
    Reproduced,
    /// The numbers exclude it.
    NotReproduced,
    /// The interval leaves both open.
    TooNoisy,
    /// There are too few runs for an interval of the confidence that the row needs.
    TooFewRuns {
        /// So many there are.
        runs: u64,
        /// So many are enough.
        needed: u64,
    },
    /// This host lacks what it takes.
    CannotBeTested,
}

impl Verdict {
    /// The words in the report: those of a model are never those of a measurement.
    pub fn words(self, evidence: Evidence) -> String {
        let is_measured = evidence == Evidence::Measured;
        match self {
            Verdict::Reproduced if is_measured => "reproduced".into(),
            Verdict::Reproduced => "the model agrees".into(),
            Verdict::NotReproduced if is_measured => "not reproduced".into(),
            Verdict::NotReproduced => "the model disagrees".into(),
            Verdict::TooNoisy if is_measured => "too noisy to tell".into(),
            Verdict::TooNoisy => "the model leaves it open".into(),
            Verdict::TooFewRuns { runs, needed } => {
                format!("too few {}: {runs} of {needed}", if is_measured { "runs" } else { "draws" })
            }
            Verdict::CannotBeTested if is_measured => "cannot be tested here".into(),
            Verdict::CannotBeTested => "cannot be simulated".into(),
        }
    }

    /// That of a sentence whose parts have these: all must hold, and one that does not settles it.
    pub(super) fn of_all(parts: impl Iterator<Item = Verdict> + Clone) -> Verdict {
        let has = |is_it: fn(&Verdict) -> bool| parts.clone().find(is_it);
        let few = parts.clone().filter_map(|part| match part {
            Verdict::TooFewRuns { runs, needed } => Some((needed, runs)),
            _ => None,
        });
        has(|part| *part == Verdict::NotReproduced)
            .or_else(|| has(|part| *part == Verdict::CannotBeTested))
            .or_else(|| few.max().map(|(needed, runs)| Verdict::TooFewRuns { runs, needed }))
            .or_else(|| has(|part| *part == Verdict::TooNoisy))
            .unwrap_or(Verdict::Reproduced)
    }
}

/// A test that was done.
#[derive(Debug, Clone, PartialEq)]
pub struct Tested {
    /// By which rule.
    pub rule: Rule,
    /// What was found; none of fewer than two runs.
    pub number: Option<Number>,
    /// How the interval's ends are shown; the rule is in the same unit.
    pub scale: Scale,
    /// How often an interval made like this holds the truth.
    pub confidence: f64,
    /// How often it has to.
    pub confidence_needed: f64,
    /// Runs or steps behind it.
    pub runs: u64,
    /// What that says.
    pub verdict: Verdict,
}

/// The confidence of each row of a family.
pub(super) fn confidence(rows: usize) -> f64 {
    1.0 - ERROR / rows.max(1) as f64
}

/// Repetitions that a signed-rank interval of this confidence takes: of n the widest has 1 - 2 / 2^n.
fn runs_needed(confidence: f64) -> u64 {
    (2..64).find(|runs| has(1.0 - 2.0 * 0.5f64.powi(*runs as i32), confidence)).unwrap_or(64)
}

fn has(confidence: f64, needed: f64) -> bool {
    confidence >= needed - 1e-12
}

/// An interval on the scale of the sample.
struct Interval {
    value: f64,
    low: f64,
    high: f64,
    confidence: f64,
}

impl Sample {
    /// Tests it.
    pub(super) fn test(&self, rule: Rule, confidence: f64) -> Tested {
        let (runs, needed) = match &self.data {
            Data::Runs(values) => (values.len() as u64, runs_needed(confidence)),
            Data::Estimate { freedom, .. } => (freedom + 1, 2),
            Data::Counts(runs) => (runs.len() as u64, counted_runs_needed(runs, confidence)),
        };
        let found = self.interval(confidence);
        let verdict = match (&found, rule) {
            (_, Rule::Shown) => Verdict::CannotBeTested,
            // That something is missed, or counted and not there, one run shows.
            (_, Rule::Each) if !self.is_counted() => Verdict::NotReproduced,
            (Some(found), _) if has(found.confidence, confidence) && runs >= needed => judged(rule, self.scale, found),
            _ => Verdict::TooFewRuns { runs, needed },
        };
        let shown = |found: &Interval| {
            let [value, low, high] = [found.value, found.low, found.high].map(|number| self.scale.shown(number));
            Number { value, low, high }
        };
        Tested {
            rule,
            number: found.as_ref().map(shown),
            scale: self.scale,
            confidence: found.map_or(0.0, |found| found.confidence),
            confidence_needed: confidence,
            runs,
            verdict,
        }
    }

    fn interval(&self, confidence: f64) -> Option<Interval> {
        match &self.data {
            Data::Runs(values) => {
                let Shift { estimate, low, high, confidence, .. } = Shift::at(values, confidence)?;
                Some(Interval { value: estimate, low, high, confidence })
            }
            Data::Estimate { value, reach, freedom } => {
                let reach = reach / student(0.95, *freedom) * student(confidence, *freedom);
                Some(Interval { value: *value, low: value - reach, high: value + reach, confidence })
            }
            // The share that is counted, in percent; where all are, the exact bound.
            Data::Counts(runs) => {
                let (counted, there) = sums(runs);
                (there > 0.0).then(|| Interval {
                    value: counted / there * 100.0,
                    low: (1.0 - confidence).powf(1.0 / there) * 100.0,
                    high: 100.0,
                    confidence,
                })
            }
        }
    }

    fn is_counted(&self) -> bool {
        let Data::Counts(runs) = &self.data else { return false };
        let (counted, there) = sums(runs);
        runs.iter().all(|(counted, there)| counted >= there) && counted <= there * (1.0 + MISSED_MAX)
    }
}

fn sums(runs: &[(f64, f64)]) -> (f64, f64) {
    runs.iter().fold((0.0, 0.0), |(counted, there), run| (counted + run.0, there + run.1))
}

/// Runs after which none missed excludes that [`MISSED_MAX`] are.
fn counted_runs_needed(runs: &[(f64, f64)], confidence: f64) -> u64 {
    let stalls = (1.0 - confidence).ln() / (1.0 - MISSED_MAX).ln();
    let each = sums(runs).1 / runs.len().max(1) as f64;
    if each > 0.0 { (stalls / each).ceil() as u64 } else { u64::MAX }
}

fn judged(rule: Rule, scale: Scale, found: &Interval) -> Verdict {
    let Interval { low, high, .. } = *found;
    let of = |holds: bool, is_excluded: bool| match (holds, is_excluded) {
        (true, _) => Verdict::Reproduced,
        (false, true) => Verdict::NotReproduced,
        (false, false) => Verdict::TooNoisy,
    };
    match rule {
        Rule::About { low: least, high: most } => {
            let (least, most) = (scale.inner(least), scale.inner(most));
            let twice = least + most;
            let (from, to) = (twice.min(0.0), twice.max(0.0));
            let meets = low <= most && least <= high;
            of(meets && from < low && high < to, !meets)
        }
        Rule::Within { low: least, high: most } => {
            let (least, most) = (scale.inner(least), scale.inner(most));
            of(least <= low && high <= most, high < least || most < low)
        }
        Rule::Above { least } => of(low > 0.0, high < scale.distance(least)),
        Rule::Below { least } => of(high < 0.0, low > -scale.distance(least)),
        Rule::Changes => of(low > 0.0 || high < 0.0, false),
        Rule::Equivalent { margin } => {
            let margin = scale.distance(margin);
            of(-margin < low && high < margin, high < -margin || margin < low)
        }
        Rule::Control if low > 0.0 || high < 0.0 => Verdict::Reproduced,
        Rule::Control | Rule::Shown => Verdict::CannotBeTested,
        Rule::Each => Verdict::Reproduced,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(values: &[f64]) -> Sample {
        Sample { data: Data::Runs(values.to_vec()), scale: Scale::Plain }
    }

    fn verdict(rule: Rule, values: &[f64]) -> Verdict {
        runs(values).test(rule, 0.95).verdict
    }

    #[test]
    fn about_x_holds_x_and_excludes_none_and_twice_as_much() {
        let rule = Rule::About { low: 9.5, high: 10.5 };
        assert_eq!(verdict(rule, &[9.0, 9.5, 10.0, 10.5, 11.0, 10.2]), Verdict::Reproduced);
        assert_eq!(verdict(rule, &[1.0, 5.0, 10.0, 15.0, 22.0, 9.0]), Verdict::TooNoisy);
        assert_eq!(verdict(rule, &[-1.0, 5.0, 10.0, 15.0, 12.0, 9.0]), Verdict::TooNoisy);
        assert_eq!(verdict(rule, &[11.0, 11.1, 11.2, 11.3, 11.4, 11.5]), Verdict::NotReproduced);
        let lost = Sample { data: Data::Runs([0.47f64.ln(); 6].to_vec()), scale: Scale::Speed };
        assert_eq!(lost.test(Rule::About { low: 46.5, high: 47.5 }, 0.95).verdict, Verdict::Reproduced);
        assert_eq!(lost.test(Rule::About { low: 60.5, high: 61.5 }, 0.95).verdict, Verdict::NotReproduced);
    }

    #[test]
    fn does_not_is_no_lack_of_proof() {
        let rule = Rule::Equivalent { margin: 3.0 };
        assert_eq!(verdict(rule, &[-1.0, 0.0, 1.0, 2.0, -2.0, 0.5]), Verdict::Reproduced);
        assert_eq!(verdict(rule, &[-9.0, 0.0, 8.0, 2.0, -2.0, 0.5]), Verdict::TooNoisy);
        assert_eq!(verdict(rule, &[-50.0, -51.0, -49.0, -50.0, -50.5, -49.5]), Verdict::NotReproduced);
        assert_eq!(verdict(Rule::Control, &[-1.0, 0.0, 1.0, 2.0, -2.0, 0.5]), Verdict::CannotBeTested);
    }

    #[test]
    fn more_is_a_difference_that_excludes_none() {
        let rule = Rule::Above { least: 1.0 };
        assert_eq!(verdict(rule, &[0.1, 5.0, 2.0, 3.0, 4.0, 2.5]), Verdict::Reproduced);
        assert_eq!(verdict(rule, &[-0.1, 5.0, 2.0, 3.0, 4.0, 2.5]), Verdict::TooNoisy);
        assert_eq!(verdict(rule, &[-0.1, 0.2, 0.1, -0.2, 0.0, 0.1]), Verdict::NotReproduced);
        assert_eq!(verdict(rule, &[-3.0, -5.0, -2.0, -3.0, -4.0, -2.5]), Verdict::NotReproduced);
    }

    #[test]
    fn few_runs_say_how_many_are_enough() {
        let rule = Rule::Above { least: 1.0 };
        assert_eq!(verdict(rule, &[5.0, 6.0, 7.0]), Verdict::TooFewRuns { runs: 3, needed: 6 });
        assert_eq!(verdict(rule, &[5.0]), Verdict::TooFewRuns { runs: 1, needed: 6 });
        let of_eight = runs(&[5.0; 8]).test(rule, confidence(8)).verdict;
        assert_eq!(of_eight, Verdict::TooFewRuns { runs: 8, needed: 9 });
        assert_eq!(runs(&[5.0; 9]).test(rule, confidence(8)).verdict, Verdict::Reproduced);
    }

    #[test]
    fn each_is_a_count_against_the_truth() {
        let of = |runs: &[(f64, f64)]| {
            let sample = Sample { data: Data::Counts(runs.to_vec()), scale: Scale::Plain };
            sample.test(Rule::Each, 0.95).verdict
        };
        // 0.95^59 is below 0.05, and 0.95^58 is not.
        assert_eq!(of(&[(20.0, 20.0), (20.0, 20.0), (19.0, 19.0)]), Verdict::Reproduced);
        assert_eq!(of(&[(4.0, 4.0); 3]), Verdict::TooFewRuns { runs: 3, needed: 15 });
        assert_eq!(of(&[(20.0, 20.0), (18.0, 20.0), (22.0, 20.0)]), Verdict::NotReproduced);
        assert_eq!(of(&[(40.0, 20.0); 3]), Verdict::NotReproduced);
    }

    #[test]
    fn all_parts_must_hold() {
        use Verdict::{CannotBeTested, NotReproduced, Reproduced, TooFewRuns, TooNoisy};
        let few = |needed| TooFewRuns { runs: 3, needed };
        let of = |parts: &[Verdict]| Verdict::of_all(parts.iter().copied());
        assert_eq!(of(&[Reproduced, Reproduced]), Reproduced);
        assert_eq!(of(&[Reproduced, TooNoisy]), TooNoisy);
        assert_eq!(of(&[few(8), TooNoisy, few(9)]), few(9));
        assert_eq!(of(&[few(8), CannotBeTested]), CannotBeTested);
        assert_eq!(of(&[CannotBeTested, NotReproduced, Reproduced]), NotReproduced);
    }
}
