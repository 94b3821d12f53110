//! Is the accounting of memory errors itself working? A table of rules over what the host's files say.
//!
//! Each rule is a file of `rules`, a pure function over [`Facts`]. A count of 0 is worth nothing where a rule has found something.
//!
//! ```
//! use surefoot_hostfs::Root;
//! match surefoot_memory::doctor::check(&Root::host()) {
//!     Ok(checks) => checks.iter().for_each(|check| println!("{}: {}", check.rule, check.evidence)),
//!     Err(unsupported) => println!("{unsupported}"),
//! }
//! ```

mod facts;
mod hest;
mod log;
mod mode;
mod rules;

pub use facts::{Facts, Trace};
pub use hest::Hest;
pub use log::KernelLog;
pub(crate) use log::messages as kernel_messages;
pub use mode::{DriverSeen, Mode};

use surefoot_hostfs::{Root, Unsupported};
use surefoot_model::{Certainty, CheckResult, MemoryCheck, Severity};

/// What a rule says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All is well; what was looked at.
    Fine(String),
    /// The host does not show what the rule asks; why.
    CannotTell(String),
    /// Something is worth knowing or wrong.
    Found(Found),
}

/// What a rule has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// How bad.
    pub severity: Severity,
    /// How sure.
    pub certainty: Certainty,
    /// What, with the file that says so.
    pub evidence: String,
    /// What follows from it.
    pub consequence: String,
    /// What to do; empty where nothing has to be done.
    pub remedy: String,
}

/// A rule: its stable name, and what it says of a host.
pub(crate) struct Rule {
    pub name: &'static str,
    pub check: fn(&Facts) -> Verdict,
}

/// All rules on this host or tree: the worst first, then in the order of the table.
///
/// # Errors
/// [`Unsupported`] where there is neither a controller nor a machine-check folder, so that no rule can be held.
pub fn check(root: &Root) -> Result<Vec<MemoryCheck>, Unsupported> {
    let facts = Facts::read(root);
    facts.is_anything_there()?;
    let checks = rules::ALL.iter().map(|rule| said(rule, (rule.check)(&facts)));
    // What could not be looked at is named where it should be.
    let in_tree = |check: MemoryCheck| match check.result {
        CheckResult::NotChecked => MemoryCheck { evidence: in_tree(root, &check.evidence), ..check },
        CheckResult::Found | CheckResult::Passed => check,
    };
    let mut checks: Vec<MemoryCheck> = checks.map(in_tree).collect();
    checks.sort_by_key(|check| std::cmp::Reverse(check.severity));
    Ok(checks)
}

/// The names of all rules, in the order of the table.
pub fn rule_names() -> Vec<&'static str> {
    rules::ALL.iter().map(|rule| rule.name).collect()
}

/// Evidence of a recorded tree, whose files are below its folder.
fn in_tree(root: &Root, evidence: &str) -> String {
    if root.is_host() {
        return evidence.to_owned();
    }
    let is_of_host = |word: &str| ["/sys/", "/proc/"].iter().any(|begin| word.starts_with(begin));
    let named = |word: &str| {
        let start = word.find(|letter: char| letter != '(').unwrap_or(0);
        let (before, path) = word.split_at(start);
        match is_of_host(path) {
            true => format!("{before}{}", root.path(path.trim_start_matches('/')).display()),
            false => word.to_owned(),
        }
    };
    evidence.split(' ').map(named).collect::<Vec<_>>().join(" ")
}

fn said(rule: &Rule, verdict: Verdict) -> MemoryCheck {
    let (result, found) = match verdict {
        Verdict::Found(found) => (CheckResult::Found, found),
        Verdict::Fine(evidence) => (CheckResult::Passed, nothing(Certainty::Certain, evidence)),
        Verdict::CannotTell(why) => (CheckResult::NotChecked, nothing(Certainty::CannotTellApartHere, why)),
    };
    MemoryCheck {
        rule: rule.name.to_owned(),
        result,
        severity: found.severity,
        certainty: found.certainty,
        evidence: surefoot_model::one_line(&found.evidence),
        consequence: found.consequence,
        remedy: found.remedy,
    }
}

fn nothing(certainty: Certainty, evidence: String) -> Found {
    Found { severity: Severity::Ok, certainty, evidence, consequence: String::new(), remedy: String::new() }
}
