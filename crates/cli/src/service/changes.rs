//! Which changes of findings are worth a line in a journal that is kept for months. Pure: no clock, no I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use surefoot_model::{Finding, Severity};

/// A finding has ended when it was not there for this long, and is better when it was so for this long: one that comes and goes
/// gets two lines a minute at most.
const LASTING: Duration = Duration::from_secs(60);

/// Lines in a minute. A host in trouble has many findings at once, and a journal drops what comes too fast.
const LINES_MAX: u32 = 30;
const MINUTE: Duration = Duration::from_secs(60);

/// Findings that are followed at a time.
const KNOWN_MAX: usize = 4096;

/// How a finding changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Began,
    Worse,
    Better,
    Ended,
}

impl Change {
    pub fn as_str(self) -> &'static str {
        match self {
            Change::Began => "began",
            Change::Worse => "worse",
            Change::Better => "better",
            Change::Ended => "ended",
        }
    }
}

/// A line of the journal.
#[derive(Debug, Clone, PartialEq)]
pub enum LogLine {
    /// Of a finding, as it is now, or as it was last.
    Finding { change: Change, finding: Finding, lasted: Duration },
    /// So many lines were left out in the minute before.
    LeftOut(u32),
}

#[derive(Debug)]
struct Known {
    finding: Finding,
    /// What the journal says of it.
    told: Severity,
    began: Duration,
    seen: Duration,
    /// Since when it is better than the journal says.
    better: Option<Duration>,
}

/// What the journal was told, and what changed since.
#[derive(Debug, Default)]
pub struct Changes {
    known: BTreeMap<String, Known>,
    minute: Duration,
    written: u32,
    left_out: u32,
}

impl Changes {
    /// The lines that these findings ask for, `now` after the start.
    pub fn of(&mut self, findings: &[Finding], now: Duration) -> Vec<LogLine> {
        let mut lines = Vec::new();
        if now >= self.minute + MINUTE {
            if self.left_out > 0 {
                lines.push(LogLine::LeftOut(self.left_out));
            }
            (self.minute, self.written, self.left_out) = (now, 0, 0);
        }
        for finding in findings.iter().filter(|finding| finding.severity > Severity::Ok) {
            if let Some((change, lasted)) = self.change_of(finding, now) {
                self.add(&mut lines, LogLine::Finding { change, finding: finding.clone(), lasted });
            }
        }
        let ended: BTreeSet<String> =
            self.known.iter().filter(|(_, known)| now >= known.seen + LASTING).map(|(key, _)| key.clone()).collect();
        for key in ended {
            if let Some(known) = self.known.remove(&key) {
                let lasted = known.seen.saturating_sub(known.began);
                self.add(&mut lines, LogLine::Finding { change: Change::Ended, finding: known.finding, lasted });
            }
        }
        lines
    }

    fn change_of(&mut self, finding: &Finding, now: Duration) -> Option<(Change, Duration)> {
        let is_full = self.known.len() >= KNOWN_MAX;
        let Some(known) = self.known.get_mut(&finding.key) else {
            if is_full {
                self.left_out += 1;
                return None;
            }
            let (finding, told) = (finding.clone(), finding.severity);
            self.known.insert(finding.key.clone(), Known { finding, told, began: now, seen: now, better: None });
            return Some((Change::Began, Duration::ZERO));
        };
        known.finding.clone_from(finding);
        known.seen = now;
        let change = if finding.severity > known.told {
            Change::Worse
        } else if finding.severity == known.told {
            known.better = None;
            return None;
        } else if now >= *known.better.get_or_insert(now) + LASTING {
            Change::Better
        } else {
            return None;
        };
        known.told = finding.severity;
        known.better = None;
        Some((change, now.saturating_sub(known.began)))
    }

    fn add(&mut self, lines: &mut Vec<LogLine>, line: LogLine) {
        if self.written < LINES_MAX {
            self.written += 1;
            lines.push(line);
        } else {
            self.left_out += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::{Room, Subject, SubjectKind};

    fn finding(name: &str, severity: Severity) -> Finding {
        let subject = Subject::new(SubjectKind::Core, name);
        Finding::new(Room::Stall, "lost-time", subject, severity, format!("Core {name} lost time."))
    }

    fn words(lines: &[LogLine]) -> Vec<String> {
        let word = |line: &LogLine| match line {
            LogLine::Finding { change, finding, .. } => {
                format!("{} {} {}", change.as_str(), finding.subject.name, finding.severity)
            }
            LogLine::LeftOut(lines) => format!("{lines} left out"),
        };
        lines.iter().map(word).collect()
    }

    /// The words of each second that has any.
    fn told(findings: impl Fn(u64) -> Vec<Finding>, seconds: u64) -> Vec<(u64, Vec<String>)> {
        let mut changes = Changes::default();
        let at =
            (0..seconds).map(|second| (second, words(&changes.of(&findings(second), Duration::from_secs(second)))));
        at.filter(|(_, words)| !words.is_empty()).collect()
    }

    #[test]
    fn a_line_is_written_when_a_finding_begins_changes_or_ends_and_none_in_between() {
        use Severity::{Critical, Notice, Ok, Warning};
        let told = told(
            |second| match second {
                0..10 => vec![finding("0", Ok)],
                10..1000 => vec![finding("0", Warning)],
                1000..2000 => vec![finding("0", Critical), finding("1", Notice)],
                2000..3000 => vec![finding("0", Notice)],
                _ => vec![],
            },
            4000,
        );
        let expected = [
            (10, vec!["began 0 warning"]),
            (1000, vec!["worse 0 critical", "began 1 notice"]),
            (2059, vec!["ended 1 notice"]),
            (2060, vec!["better 0 notice"]),
            (3059, vec!["ended 0 notice"]),
        ];
        let expected =
            expected.map(|(second, words)| (second, words.into_iter().map(str::to_owned).collect::<Vec<_>>()));
        assert_eq!(told, expected);
    }

    #[test]
    fn one_that_comes_and_goes_every_second_is_told_once() {
        use Severity::{Critical, Warning};
        let told = told(|second| (0..second % 2).map(|_| finding("0", Warning)).collect(), 3600);
        assert_eq!(told, [(1, vec!["began 0 warning".to_owned()])]);
        let swinging = |second| vec![finding("0", if second % 2 == 0 { Warning } else { Critical })];
        let lines: usize = super::tests::told(swinging, 3600).iter().map(|(_, words)| words.len()).sum();
        assert_eq!(lines, 2, "it began and became worse");
    }

    #[test]
    fn a_minute_has_thirty_lines_and_the_rest_is_counted() {
        let told =
            told(|second| (0..100).map(|core| finding(&format!("{second}-{core}"), Severity::Notice)).collect(), 61);
        let lines: usize = told.iter().filter(|(second, _)| *second < 60).map(|(_, words)| words.len()).sum();
        assert_eq!(lines, 30);
        // The newest have not been followed, because so many are.
        assert_eq!(told.last().map(|(second, words)| (*second, words[0].as_str())), Some((60, "5970 left out")));
    }
}
