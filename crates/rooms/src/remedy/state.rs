//! The fold over checks; pure, so that a recording folds to the same.

use crate::viewer::Private;
use crate::viewer::Viewer;
use std::collections::BTreeMap;
use surefoot_model::{Event, HostCheck};

/// Checks that are kept; a host has fewer.
const CHECKS_MAX: usize = 256;

/// What is known now.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// The newest run of each check, by its name.
    pub checks: BTreeMap<String, HostCheck>,
    /// Processor time of all runs.
    pub processor_ns: u64,
    /// Runs that ended.
    pub run_count: u64,
    /// Checks that are not kept, because there are too many.
    pub left_out_count: u64,
}

impl State {
    /// Takes an event in; whether it is of this room.
    pub fn take(&mut self, event: &Event) -> bool {
        match event {
            Event::Check(check) => self.checked(check),
            _ => return false,
        }
        true
    }

    fn checked(&mut self, check: &HostCheck) {
        self.run_count += 1;
        self.processor_ns = self.processor_ns.saturating_add(check.processor_ns);
        if self.checks.len() >= CHECKS_MAX && !self.checks.contains_key(&check.name) {
            self.left_out_count += 1;
            return;
        }
        self.checks.insert(check.name.clone(), check.clone());
    }

    /// Whether nothing was told yet.
    pub fn is_empty(&self) -> bool {
        self.checks.is_empty()
    }
}

/// Of root's checks, everybody sees names, numbers and states.
impl Private for State {
    fn seen_by(mut self, viewer: Viewer) -> Self {
        if !viewer.sees_all {
            self.checks = self.checks.into_iter().map(|(name, check)| (name, check.for_everybody())).collect();
        }
        self
    }
}
