//! The rows and how they are printed.

use crate::numbers::Spread;
use serde::Serialize;

/// Whether a limit is met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome", content = "reason")]
pub enum Outcome {
    /// The limit is met.
    Met,
    /// It is not.
    Missed,
    /// There is no limit; the row is shown for comparison.
    Shown,
    /// It was not measured, and why.
    NotRun(String),
}

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The benchmark, such as `loop`.
    pub benchmark: &'static str,
    /// What is measured.
    pub measure: String,
    /// What Surefoot does.
    pub ours: String,
    /// What it is compared with.
    pub against: String,
    /// Ours through the other's, over the rounds.
    pub ratio: Option<Spread>,
    /// The limit in words.
    pub limit: String,
    /// Whether it is met.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl Row {
    /// A row with nothing but its names.
    pub fn new(benchmark: &'static str, measure: impl Into<String>) -> Row {
        Row {
            benchmark,
            measure: measure.into(),
            ours: String::new(),
            against: String::new(),
            ratio: None,
            limit: String::new(),
            outcome: Outcome::Shown,
        }
    }

    /// What was measured here.
    pub fn ours(mut self, ours: impl Into<String>) -> Row {
        self.ours = ours.into();
        self
    }

    /// What it is compared with.
    pub fn against(mut self, against: impl Into<String>) -> Row {
        self.against = against.into();
        self
    }

    /// The ratio over the rounds.
    pub fn ratio(mut self, ratio: Option<Spread>) -> Row {
        self.ratio = ratio;
        self
    }

    /// Holds the median ratio against an upper limit.
    pub fn at_most(mut self, limit: f64, words: impl Into<String>) -> Row {
        self.limit = words.into();
        self.outcome = match self.ratio {
            Some(ratio) if ratio.median <= limit => Outcome::Met,
            Some(_) => Outcome::Missed,
            None => Outcome::NotRun("nothing was measured".into()),
        };
        self
    }

    /// Holds the median ratio against a lower limit.
    pub fn at_least(mut self, limit: f64, words: impl Into<String>) -> Row {
        self = self.at_most(limit, words);
        if let Some(ratio) = self.ratio {
            self.outcome = if ratio.median >= limit { Outcome::Met } else { Outcome::Missed };
        }
        self
    }

    /// Shows all numbers and holds each of them against an upper limit: one over it is one too many.
    pub fn none_over(mut self, limit: f64, numbers: &[f64], words: impl Into<String>) -> Row {
        self = self.ratio(Spread::of(numbers)).at_most(limit, words);
        if numbers.iter().any(|number| *number > limit) {
            self.outcome = Outcome::Missed;
        }
        self
    }

    /// A limit that is held against something else than the median.
    pub fn held(mut self, is_met: bool, words: impl Into<String>) -> Row {
        self.limit = words.into();
        self.outcome = if is_met { Outcome::Met } else { Outcome::Missed };
        self
    }

    /// A row that could not be measured.
    pub fn not_run(mut self, reason: impl Into<String>) -> Row {
        self.outcome = Outcome::NotRun(reason.into());
        self
    }

    fn cells(&self) -> [String; 6] {
        let ratio = self.ratio.map_or(String::new(), |ratio| {
            let digits = if ratio.median.abs() < 2.0 { 3 } else { 1 };
            let Spread { lower, median, upper, rounds } = ratio;
            format!("{median:.digits$} ({lower:.digits$} to {upper:.digits$}; {rounds})")
        });
        let met = match &self.outcome {
            Outcome::Met => "yes".to_owned(),
            Outcome::Missed => "NO".to_owned(),
            Outcome::Shown => String::new(),
            Outcome::NotRun(reason) => format!("not run: {reason}"),
        };
        let measure = format!("{}: {}", self.benchmark, self.measure);
        [measure, self.ours.clone(), self.against.clone(), ratio, self.limit.clone(), met]
    }
}

const HEADINGS: [&str; 6] = ["what", "ours", "against", "ratio (quartiles; how many)", "limit", "met"];

/// The table as Markdown, its columns aligned so that it also reads well in a terminal.
pub fn markdown(rows: &[Row]) -> String {
    let mut lines = vec![HEADINGS.map(str::to_owned)];
    lines.extend(rows.iter().map(Row::cells));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 6] = std::array::from_fn(width);
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        for (cell, width) in line.iter().zip(widths) {
            text += &format!("| {cell:<width$} ");
        }
        text += "|\n";
        if number == 0 {
            text += &widths.map(|width| format!("|{}", "-".repeat(width + 2))).concat();
            text += "|\n";
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_decide_by_the_median() {
        let row = |ratio: f64| Row::new("loop", "period").ratio(Spread::of(&[0.5, ratio, 9.0]));
        assert_eq!(row(1.15).at_most(1.15, "").outcome, Outcome::Met);
        assert_eq!(row(1.16).at_most(1.15, "").outcome, Outcome::Missed);
        assert_eq!(row(0.999).at_least(0.999, "").outcome, Outcome::Met);
        assert_eq!(row(0.998).at_least(0.999, "").outcome, Outcome::Missed);
        assert!(matches!(Row::new("loop", "period").at_least(1.0, "").outcome, Outcome::NotRun(_)));
        let each = |numbers: &[f64]| Row::new("who", "wrong").none_over(0.0, numbers, "0").outcome;
        assert_eq!((each(&[0.0, 0.0]), each(&[0.0, 0.0, 1.0])), (Outcome::Met, Outcome::Missed));
        assert!(matches!(each(&[]), Outcome::NotRun(_)));
    }

    #[test]
    fn the_table_is_aligned_markdown() {
        let rows = [Row::new("a", "b").ours("1").at_most(1.0, "x"), Row::new("long", "one").not_run("no peer")];
        let text = markdown(&rows);
        let widths: Vec<usize> = text.lines().map(str::len).collect();
        assert_eq!(widths.len(), 4);
        assert!(widths.iter().all(|width| *width == widths[0]), "{text}");
        assert!(text.contains("| not run: no peer "));
    }
}
