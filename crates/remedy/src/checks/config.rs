//! The file of checks, in TOML:
//!
//! ```toml
//! [[check]]                      # a built-in one: another period, other limits, or none of it
//! name = "clock"
//! period = "5m"
//! warning_ms = 50
//! critical_ms = 500
//!
//! [[check]]
//! name = "read-only"
//! enabled = false
//!
//! [[check]]                      # one of the host's owner
//! name = "fans"
//! run = "/usr/lib/surefoot/checks/fans"
//! period = "5m"
//! time_limit = "10s"
//! ```
//!
//! What the file does not name keeps its defaults.

use super::{CLOCK, EVENT_LOG, READ_ONLY};
use crate::Result;
use crate::policy::table::{Source, Table, text_of};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The most checks of a host.
const CHECKS_MAX: usize = 200;
/// The largest file.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The shortest period: a check is no probe.
const PERIOD_MIN: Duration = Duration::from_secs(1);
/// The longest time limit.
const TIME_LIMIT_MAX: Duration = Duration::from_secs(3_600);

/// How a check is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Its name.
    pub name: String,
    /// The executable; `None` for a built-in one.
    pub program: Option<PathBuf>,
    /// How often.
    pub period: Duration,
    /// How long it may take.
    pub time_limit: Duration,
    /// From where on the clock is a warning.
    pub warning: Duration,
    /// From where on it is critical.
    pub critical: Duration,
}

impl Rule {
    fn new(name: &str, period_s: u64, time_limit_s: u64) -> Self {
        Rule {
            name: name.to_owned(),
            program: None,
            period: Duration::from_secs(period_s),
            time_limit: Duration::from_secs(time_limit_s),
            warning: Duration::from_millis(100),
            critical: Duration::from_secs(1),
        }
    }
}

/// The checks of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckFile {
    /// Those that are run.
    pub rules: Vec<Rule>,
}

impl Default for CheckFile {
    /// The built-in ones.
    fn default() -> Self {
        CheckFile { rules: vec![Rule::new(READ_ONLY, 60, 10), Rule::new(CLOCK, 60, 5), Rule::new(EVENT_LOG, 600, 30)] }
    }
}

impl CheckFile {
    /// Reads a file of checks.
    ///
    /// # Errors
    /// [`Error::PolicyFile`](crate::Error::PolicyFile) where it cannot be read, otherwise as [`CheckFile::parse`].
    pub fn read(path: &Path) -> Result<Self> {
        CheckFile::parse(&text_of(path, FILE_BYTES_MAX)?, &path.display().to_string())
    }

    /// Reads the text of a file of checks; its name is for messages.
    ///
    /// # Errors
    /// [`Error::Policy`](crate::Error::Policy) with the line and field of the first thing that is wrong.
    pub fn parse(text: &str, file: &str) -> Result<Self> {
        let source = Source { file, text };
        let root = source.root()?;
        let top = Table::top(source, &root);
        let mut checks = CheckFile::default();
        let mut named: Vec<String> = Vec::new();
        for table in top.tables("check")? {
            let (rule, is_enabled) = rule(&table, &checks)?;
            if named.contains(&rule.name) {
                return Err(table.error(format!("there is a check '{}' already", rule.name)));
            }
            if named.len() == CHECKS_MAX {
                return Err(table.error(format!("there are more than {CHECKS_MAX} checks")));
            }
            table.finish()?;
            named.push(rule.name.clone());
            checks.rules.retain(|other| other.name != rule.name);
            if is_enabled {
                checks.rules.push(rule);
            }
        }
        top.finish()?;
        Ok(checks)
    }
}

fn rule(table: &Table<'_>, so_far: &CheckFile) -> Result<(Rule, bool)> {
    let value = table.need("name")?;
    let name = value.name()?;
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.len() > 60 || !name.bytes().all(is_plain) {
        return Err(value.error("a check's name has up to 60 lower-case letters, digits and hyphens"));
    }
    let run = table.find("run");
    let built_in = so_far.rules.iter().find(|rule| rule.name == name && rule.program.is_none());
    let mut rule = match (&run, built_in) {
        (None, Some(rule)) => rule.clone(),
        (Some(run), None) => Rule { program: Some(run.path()?), ..Rule::new(&name, 300, 30) },
        (Some(run), Some(_)) => return Err(run.error(format!("'{name}' is a built-in check; give yours another name"))),
        (None, None) => {
            let known = [READ_ONLY, CLOCK, EVENT_LOG].join(", ");
            return Err(value.error(format!("no such built-in check ({known}); for a program of your own set 'run'")));
        }
    };
    let time = |name, least: Duration, most: Duration, default| {
        let Some(value) = table.find(name) else { return Ok(default) };
        let time = Duration::from_nanos(value.time_ns()?);
        if time < least || time > most {
            return Err(value.error(format!("it must be from {least:?} to {most:?}")));
        }
        Ok(time)
    };
    rule.period = time("period", PERIOD_MIN, Duration::from_secs(7 * 86_400), rule.period)?;
    rule.time_limit = time("time_limit", Duration::from_secs(1), TIME_LIMIT_MAX, rule.time_limit)?;
    if name == CLOCK {
        let milliseconds = |name, default| -> Result<Duration> {
            let Some(value) = table.find(name) else { return Ok(default) };
            Ok(Duration::from_millis(value.whole(1..=3_600_000)?))
        };
        rule.warning = milliseconds("warning_ms", rule.warning)?;
        rule.critical = milliseconds("critical_ms", rule.critical)?;
        if rule.critical < rule.warning {
            return Err(table.error("'critical_ms' must not be below 'warning_ms'"));
        }
    }
    let is_enabled = table.find("enabled").map_or(Ok(true), |value| value.flag())?;
    Ok((rule, is_enabled))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_the_file_does_not_name_keeps_its_defaults() {
        let text = "[[check]]\nname = \"clock\"\nwarning_ms = 50\n[[check]]\nname = \"read-only\"\nenabled = false\n\
                    [[check]]\nname = \"fans\"\nrun = \"/usr/lib/fans\"\nperiod = \"2m\"\n";
        let checks = CheckFile::parse(text, "checks.toml").unwrap();
        let names: Vec<&str> = checks.rules.iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!(names, [EVENT_LOG, CLOCK, "fans"]);
        assert_eq!(
            (checks.rules[1].warning, checks.rules[1].period),
            (Duration::from_millis(50), Duration::from_secs(60))
        );
        assert_eq!(checks.rules[2].period, Duration::from_secs(120));
        assert_eq!(CheckFile::parse("", "x").unwrap(), CheckFile::default());
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line_and_field() {
        for (text, words) in [
            ("[[check]]\nname = \"fan\"", "line 2, check[0].name"),
            ("[[check]]\nname = \"Fan\"\nrun = \"/x\"", "lower-case"),
            ("[[check]]\nname = \"fan\"\nrun = \"x\"", "absolute"),
            ("[[check]]\nname = \"clock\"\nrun = \"/x\"", "is a built-in check"),
            ("[[check]]\nname = \"fan\"\nrun = \"/x\"\nperiod = \"0s\"", "line 4, check[0].period"),
            ("[[check]]\nname = \"fan\"\nrun = \"/x\"\nperoid = \"1s\"", "did you mean 'period'"),
            ("[[check]]\nname = \"clock\"\nwarning_ms = 5000", "must not be below"),
            ("[[check]]\nname = \"a\"\nrun = \"/x\"\n[[check]]\nname = \"a\"\nrun = \"/x\"", "already"),
            ("[[chek]]", "did you mean 'check'"),
        ] {
            let error = CheckFile::parse(text, "checks.toml").unwrap_err().to_string();
            assert!(error.contains("checks.toml") && error.contains(words), "{text}: {error}");
        }
    }
}
