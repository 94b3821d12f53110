//! The number that a run comes to.

use regex_lite::Regex;
use serde_json::Value;
use std::str::FromStr;
use surefoot_model::Digits;

/// An expression may be so long.
const PATTERN_BYTES_MAX: usize = 1_000;

/// Where the number is.
#[derive(Debug, Clone)]
pub enum Metric {
    /// How long the workload took.
    Wall,
    /// What the first group of an expression matches in its output, or all of the match where it has no group; the last match
    /// counts.
    Regex(Regex),
    /// A number in the last line of its output that is JSON, or in all of its output: names and places, with dots between.
    Json(Vec<String>),
}

impl FromStr for Metric {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "wall" => Ok(Metric::Wall),
            Some(("regex", pattern)) if pattern.len() > PATTERN_BYTES_MAX => {
                Err(format!("the expression has {} bytes: {PATTERN_BYTES_MAX} are possible", pattern.len()))
            }
            Some(("regex", pattern)) => match Regex::new(pattern) {
                Ok(regex) => Ok(Metric::Regex(regex)),
                Err(error) => Err(format!("'{pattern}' is no regular expression: {error}")),
            },
            Some(("json", path)) if !path.is_empty() => Ok(Metric::Json(path.split('.').map(str::to_owned).collect())),
            _ => Err(format!("'{text}' is no metric: write wall, regex:EXPRESSION or json:NAME.NAME")),
        }
    }
}

impl Metric {
    /// As it was asked for.
    pub fn words(&self) -> String {
        match self {
            Metric::Wall => "wall".into(),
            Metric::Regex(regex) => format!("regex:{regex}"),
            Metric::Json(path) => format!("json:{}", path.join(".")),
        }
    }

    /// The number of a run that took so long and printed this. A ratio needs one above 0.
    ///
    /// # Errors
    /// Says what is missing.
    pub fn of(&self, wall_ns: u64, printed: &str) -> Result<f64, String> {
        let value = self.number(wall_ns, printed)?;
        if value > 0.0 {
            Ok(value)
        } else {
            Err(format!("its metric is {value}: an effect is a ratio, which needs numbers above 0"))
        }
    }

    /// The number of a run that took so long and printed this; it may be 0 or below.
    ///
    /// # Errors
    /// Says what is missing.
    pub fn number(&self, wall_ns: u64, printed: &str) -> Result<f64, String> {
        let value = match self {
            Metric::Wall => wall_ns as f64,
            Metric::Regex(regex) => {
                let found = regex.captures_iter(printed).last();
                let found = found.and_then(|groups| groups.get(1).or_else(|| groups.get(0)).map(|text| text.as_str()));
                let text = found.ok_or_else(|| format!("its output has nothing that matches '{regex}'"))?;
                text.trim().parse().map_err(|_| format!("'{regex}' matches '{}', which is no number", short(text)))?
            }
            Metric::Json(path) => json(path, printed)?,
        };
        if value.is_finite() { Ok(value) } else { Err(format!("its metric is {value}, which is no number")) }
    }
}

fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

fn json(path: &[String], printed: &str) -> Result<f64, String> {
    let whole = serde_json::from_str::<Value>(printed).ok();
    let is_json = |line: &str| serde_json::from_str::<Value>(line).ok().filter(Value::is_object);
    let value = whole.or_else(|| printed.lines().rev().find_map(is_json)).ok_or("its output holds no JSON")?;
    let mut at = &value;
    for (place, name) in path.iter().enumerate() {
        let next = match at {
            Value::Array(values) => name.digits::<usize>().and_then(|index| values.get(index)),
            other => other.get(name),
        };
        at = next.ok_or_else(|| format!("its JSON has no '{}'", path[..=place].join(".")))?;
    }
    at.as_f64().ok_or_else(|| format!("'{}' of its JSON is no number", path.join(".")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(metric: &str, printed: &str) -> Result<f64, String> {
        metric.parse::<Metric>().unwrap().of(2_000, printed)
    }

    #[test]
    fn the_number_is_found_where_it_was_said_to_be() {
        assert_eq!(of("wall", ""), Ok(2_000.0));
        assert_eq!(of("regex:([0-9.]+) ops", "1.5 ops\nlast 2.5 ops"), Ok(2.5));
        assert_eq!(of("regex:[0-9]+", "7"), Ok(7.0));
        assert_eq!(of("json:end.sums.1", "{\"end\":{\"sums\":[1,2e3]}}"), Ok(2_000.0));
        assert_eq!(of("json:rate", "begin\n{\"rate\":1}\n{\"rate\":3}\nthe end"), Ok(3.0));
    }

    #[test]
    fn what_is_missing_is_said() {
        for (metric, printed, said) in [
            ("regex:x=([0-9]+)", "y=1", "nothing that matches 'x=([0-9]+)'"),
            ("regex:x=(.*)", "x=fast", "matches 'fast', which is no number"),
            ("regex:x=(.*)", "x=0", "needs numbers above 0"),
            ("regex:x=(.*)", "x=nan", "its metric is NaN, which is no number"),
            ("json:a.b", "{\"a\":1}", "no 'a.b'"),
            ("json:a", "{\"a\":\"fast\"}", "'a' of its JSON is no number"),
            ("json:a", "none", "no JSON"),
        ] {
            let error = of(metric, printed).unwrap_err();
            assert!(error.contains(said), "{metric}: {error}");
        }
        for (metric, said) in [("time", "no metric"), ("json:", "no metric"), ("regex:(", "no regular expression")] {
            assert!(metric.parse::<Metric>().unwrap_err().contains(said), "{metric}");
        }
        assert!(format!("regex:{}", "x".repeat(2_000)).parse::<Metric>().is_err());
    }
}
