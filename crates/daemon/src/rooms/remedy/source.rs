//! The source of periodic checks.

use crate::sources::{End, Source, Start};
use std::time::Duration;
use surefoot_hostfs::{Root, clock};
use surefoot_memory::bmc::event_log::{self, Controller};
use surefoot_model::{CheckState, Event, HostCheck};
use surefoot_remedy::checks::{Check, CheckFile, EVENT_LOG, Rule, Runner, Said, judge_event_log};
use surefoot_sys::program;

/// The checks of a file as they are run on this host: those that the remedies know, and the event log, which the room of memory errors
/// reads.
pub fn checks(file: &CheckFile, root: &Root) -> Vec<Check> {
    let one = |rule: &Rule| match Check::of_rule(rule, root) {
        None if rule.name == EVENT_LOG => {
            let patience = rule.time_limit;
            Some(Check::new(rule, move |_| ask_event_log(patience)))
        }
        known => known,
    };
    file.rules.iter().filter_map(one).collect()
}

/// Asks this machine's own baseboard controller, where it has one.
fn ask_event_log(patience: Duration) -> Said {
    if program::find("ipmitool").is_none() {
        return Said::new(
            CheckState::Unknown,
            "The baseboard controller's log is read through ipmitool, which is not installed.",
        );
    }
    // Both questions that the list takes must come within the limit.
    match event_log::list(&Controller::Own, patience / 2) {
        Ok(text) => judge_event_log(&text, clock::realtime_ns()),
        Err(problem) => Said::unknown(format!("The {}: {}", problem.path, problem.why)),
    }
}

pub(super) fn source(root: &Root, file: CheckFile) -> Start {
    let checks = checks(&file, root);
    // Hosts that start together ask at other times; nothing of this is secret.
    let seed = clock::realtime_ns() ^ u64::from(std::process::id());
    Box::new(move || Ok(Box::new(Checks { runner: Runner::new(checks, seed) })))
}

struct Checks {
    runner: Runner,
}

impl Source for Checks {
    fn turn(&mut self, _: &End) -> Result<Vec<Event>, String> {
        Ok(self.runner.turn().into_iter().map(|check: HostCheck| Event::Check(Box::new(check))).collect())
    }

    fn rest(&self, _: Duration) -> Duration {
        self.runner.rest()
    }
}
