//! Records that the kernel itself says it lost.

use super::found;
use crate::counted;
use crate::doctor::{Facts, Rule, Verdict};
use surefoot_model::Severity;

pub(super) const RULE: Rule = Rule { name: "records-lost", check };

fn check(facts: &Facts) -> Verdict {
    match &facts.log {
        Err(why) => Verdict::CannotTell(format!("the kernel's log cannot be read: {why}")),
        Ok(log) => match &log.lost {
            None => {
                Verdict::Fine(format!("no lost record in {} of the kernel's log", counted(log.lines, "line", "lines")))
            }
            Some((line, count)) => Verdict::Found(found(
                Severity::Warning,
                format!(
                    "the kernel logged {} that records were lost, last \"{line}\"",
                    counted(*count, "time", "times")
                ),
                "errors came faster than they were handed on: counts and places of these errors are missing",
                "take the failing module out of service; raise threshold or interval only for good reason (`surefoot memory tune`)",
            )),
        },
    }
}
