//! A setting that somebody changed and no driver reads.

use super::found;
use crate::doctor::{DriverSeen, Facts, Rule, Verdict};
use surefoot_model::Severity;

pub(super) const RULE: Rule = Rule { name: "poll-interval-unread", check };

/// What the kernel sets, milliseconds.
const DEFAULT_MS: u64 = 1000;

fn check(facts: &Facts) -> Verdict {
    let Some(poll_ms) = facts.poll_ms else {
        return Verdict::CannotTell("edac_core has no edac_mc_poll_msec here".into());
    };
    let module = match facts.driver() {
        DriverSeen::Told(module) => module,
        DriverSeen::None => return Verdict::CannotTell("there is no controller that could be polled".into()),
        DriverSeen::Polls(module) => {
            return Verdict::Fine(format!("edac_mc_poll_msec is {poll_ms}, and {module} is a driver that polls"));
        }
        DriverSeen::Unknown(module) => {
            let driver = if module.is_empty() { "this driver" } else { module };
            return Verdict::CannotTell(format!(
                "edac_mc_poll_msec is {poll_ms}; whether {driver} polls is not known: the kernel's log does not say (\"Giving out device\")"
            ));
        }
    };
    if poll_ms == DEFAULT_MS {
        return Verdict::Fine(format!(
            "edac_mc_poll_msec is as the kernel sets it ({DEFAULT_MS}); {module} does not read it"
        ));
    }
    Verdict::Found(found(
        Severity::Warning,
        format!("/sys/module/edac_core/parameters/edac_mc_poll_msec is {poll_ms}, and {module} does not poll"),
        "the setting has no effect: errors come by interrupt or by the machine-check poll, contrary to what its setting suggests",
        "set check_interval of machinecheck instead (with mce=no_cmci on Intel); `surefoot memory tune` says what the interval is on this platform",
    ))
}
