//! In a storm the kernel takes one record a second from a bank, whatever happens meanwhile.

use super::found;
use crate::counted;
use crate::doctor::{Facts, Found, Rule, Verdict};
use surefoot_model::{Certainty, Severity};

pub(super) const RULE: Rule = Rule { name: "storm-mode", check };

fn check(facts: &Facts) -> Verdict {
    let log = match &facts.log {
        Ok(log) => log,
        Err(why) => return Verdict::CannotTell(format!("the kernel's log cannot be read: {why}")),
    };
    if log.storms.is_empty() {
        return Verdict::Fine(match log.storm_count {
            0 => format!("no storm in {} of the kernel's log", counted(log.lines, "line", "lines")),
            count => format!("{} in the kernel's log, subsided", counted(count, "storm", "storms")),
        });
    }
    let banks: Vec<&str> =
        log.storms.iter().take(4).map(|name| if name.is_empty() { "all banks" } else { name }).collect();
    Verdict::Found(Found {
        // The end of a storm may be in a part of the log that was overwritten.
        certainty: Certainty::Probable,
        ..found(
            Severity::Warning,
            format!(
                "the kernel logged \"CMCI storm detected\" and no end of it: {} ({} storms in all)",
                banks.join(", "),
                log.storm_count
            ),
            "these banks are polled once a second: one record and one address for all errors of that second; where they are shows in no sample",
            "find the module with `surefoot memory status` and take it out of service; the kernel ends the storm on its own",
        )
    })
}
