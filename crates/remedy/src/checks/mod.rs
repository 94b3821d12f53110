//! Periodic checks of a host, beside what its rooms find anyway: small questions, each with a period, a time limit and a cost that is
//! measured. A check changes nothing.
//!
//! | check | what it asks | default period |
//! |---|---|---|
//! | `read-only` | which file systems the kernel turned read-only for an error | 1 min |
//! | `clock` | whether the wall clock is disciplined, and how far it is off | 1 min |
//! | `bmc-log` | what the baseboard controller wrote down in the last day; whoever wires the checks brings it | 10 min |
//! | any executable | what its owner likes, in the JSON of [`program`] | 5 min |
//!
//! ```
//! use surefoot_remedy::checks::{Check, Runner, built_in};
//! let checks: Vec<Check> = built_in();
//! let mut runner = Runner::new(checks, 7);
//! let results = runner.once();
//! assert_eq!(results.len(), 2);
//! ```

mod clock;
mod config;
mod event_log;
mod latest;
pub mod program;
mod read_only;
mod runner;

pub use config::{CheckFile, Rule};
pub use event_log::judge as judge_event_log;
pub use latest::Checks;
pub use runner::{Counts, Runner};

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use surefoot_hostfs::Root;
use surefoot_model::CheckState;

/// The check of file systems that became read-only.
pub const READ_ONLY: &str = "read-only";
/// The check of the wall clock.
pub const CLOCK: &str = "clock";
/// The check of the baseboard controller's event log.
pub const EVENT_LOG: &str = "bmc-log";

/// Lines of evidence that are kept of a check.
pub const EVIDENCE_LINES_MAX: usize = 16;
/// The longest line or sentence, in characters.
pub const LINE_CHARACTERS_MAX: usize = 400;

/// What one run of a check says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    /// How it is.
    pub state: CheckState,
    /// One sentence, with its full stop.
    pub sentence: String,
    /// What it rests on, a line each.
    pub evidence: Vec<String>,
    /// Processor time of programs that were run for it; that of the check's own thread is measured by the runner.
    pub processor: Duration,
}

impl Said {
    /// What it says without evidence.
    pub fn new(state: CheckState, sentence: impl Into<String>) -> Self {
        Said { state, sentence: sentence.into(), ..Said::default() }
    }

    /// The same with this evidence.
    pub fn with_evidence(self, evidence: Vec<String>) -> Self {
        Said { evidence, ..self }
    }

    /// That nobody knows, and why: words without a full stop.
    pub fn unknown(why: impl fmt::Display) -> Self {
        Said::new(CheckState::Unknown, format!("{why}."))
    }

    /// The same within the limits, on lines that a terminal may show.
    fn within_limits(mut self) -> Self {
        let left_out = self.evidence.len().saturating_sub(EVIDENCE_LINES_MAX);
        if left_out > 0 {
            self.evidence.truncate(EVIDENCE_LINES_MAX - 1);
            self.evidence.push(format!("{} more lines", left_out + 1));
        }
        self.evidence.iter_mut().for_each(|line| *line = shortened(line));
        self.sentence = shortened(&self.sentence);
        self
    }
}

/// Text of a stranger on one line, cut.
fn shortened(text: &str) -> String {
    let mut shown: String = surefoot_model::one_line(text).chars().take(LINE_CHARACTERS_MAX).collect();
    if text.chars().count() > LINE_CHARACTERS_MAX {
        shown.push_str(" ...");
    }
    shown
}

/// Asks a question; gives up soon when the flag is set.
pub type Ask = Arc<dyn Fn(&AtomicBool) -> Said + Send + Sync>;

/// A check.
#[derive(Clone)]
pub struct Check {
    /// Its name: lower-case letters, digits and hyphens.
    pub name: String,
    /// How often it is run.
    pub period: Duration,
    /// It counts as hanging when it takes longer; a program is ended then.
    pub time_limit: Duration,
    ask: Ask,
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Check { name, period, time_limit, .. } = self;
        f.debug_struct("Check").field("name", name).field("period", period).field("time_limit", time_limit).finish()
    }
}

impl Check {
    /// A check by this rule that asks so.
    pub fn new(rule: &Rule, ask: impl Fn(&AtomicBool) -> Said + Send + Sync + 'static) -> Self {
        Check { name: rule.name.clone(), period: rule.period, time_limit: rule.time_limit, ask: Arc::new(ask) }
    }

    /// The check of a rule that this crate can do by itself; `None` for the event log, which whoever wires it asks.
    pub fn of_rule(rule: &Rule, root: &Root) -> Option<Self> {
        let root = root.clone();
        match (&rule.program, rule.name.as_str()) {
            (Some(path), _) => {
                let (path, time_limit): (PathBuf, _) = (path.clone(), rule.time_limit);
                Some(Check::new(rule, move |stop| program::ask(&path, time_limit, stop)))
            }
            (None, READ_ONLY) => Some(Check::new(rule, move |_| read_only::ask(&root))),
            (None, CLOCK) => {
                let (warning, critical) = (rule.warning, rule.critical);
                Some(Check::new(rule, move |_| clock::ask(warning, critical)))
            }
            (None, _) => None,
        }
    }
}

/// The checks of this crate on this host, by their usual rules.
pub fn built_in() -> Vec<Check> {
    CheckFile::default().rules.iter().filter_map(|rule| Check::of_rule(rule, &Root::host())).collect()
}
