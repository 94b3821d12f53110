//! The newest result of each check, as findings.

use super::{Check, Runner};
use std::collections::{BTreeMap, BTreeSet};
use surefoot_model::{CheckState, Finding, HostCheck};

/// Checks that run, and the newest finding of each.
pub struct Checks {
    runner: Option<Runner>,
    names: BTreeSet<String>,
    ended: BTreeSet<String>,
    found: BTreeMap<String, Finding>,
}

impl Checks {
    /// Runs these, spread by this seed.
    pub fn new(checks: Vec<Check>, seed: u64) -> Checks {
        let names = checks.iter().map(|check| check.name.clone()).collect();
        let runner = (!checks.is_empty()).then(|| Runner::new(checks, seed));
        Checks { runner, names, ended: BTreeSet::new(), found: BTreeMap::new() }
    }

    /// The number of checks.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is no check.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Runs the checks that are due, and takes the results of those that ended.
    pub fn turn(&mut self) {
        let results = self.runner.as_mut().map(Runner::turn).unwrap_or_default();
        results.into_iter().for_each(|result| self.take(&result));
    }

    /// Runs each check once, and waits for all.
    pub fn once(&mut self) {
        let results = self.runner.as_mut().map(Runner::once).unwrap_or_default();
        results.into_iter().for_each(|result| self.take(&result));
    }

    fn take(&mut self, result: &HostCheck) {
        self.ended.insert(result.name.clone());
        match result.state {
            // A check that cannot tell reports nothing; the finding before may still hold.
            CheckState::Unknown => {}
            // Success is reported, too: without a watch nothing else ends the finding before.
            CheckState::Ok | CheckState::Warning | CheckState::Critical => {
                self.found.insert(result.name.clone(), result.finding());
            }
        }
    }

    /// Whether each has finished once: before that, findings of an earlier process cannot be ended.
    pub fn are_known(&self) -> bool {
        self.ended.len() >= self.names.len()
    }

    /// The newest finding of each check, by name; `None` where there is no check.
    pub fn found(&self) -> Option<Vec<Finding>> {
        self.runner.as_ref().map(|_| self.found.values().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_cannot_tell_leaves_what_was_found() {
        let names = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        let mut checks = Checks { runner: None, names, ended: BTreeSet::new(), found: BTreeMap::new() };
        let mut said = |name: &str, state| {
            checks.take(&HostCheck { name: name.into(), state, sentence: "It is so.".into(), ..HostCheck::default() });
            let found = checks.found.iter().map(|(name, finding)| format!("{name} {}", finding.severity.as_str()));
            (checks.are_known(), found.collect::<Vec<_>>().join(", "))
        };
        assert_eq!(said("a", CheckState::Unknown), (false, String::new()));
        assert_eq!(said("a", CheckState::Critical), (false, "a critical".to_owned()));
        assert_eq!(said("b", CheckState::Unknown), (true, "a critical".to_owned()));
        assert_eq!(said("a", CheckState::Unknown), (true, "a critical".to_owned()));
        assert_eq!(said("a", CheckState::Ok), (true, "a ok".to_owned()));
    }
}
