//! Where errors are polled for, an interval of 0 means never.

use super::found;
use crate::doctor::{Facts, Rule, Verdict};
use surefoot_model::Severity;

pub(super) const RULE: Rule = Rule { name: "polling-off", check };

fn check(facts: &Facts) -> Verdict {
    let Some(interval_s) = facts.check_interval_s else {
        return Verdict::CannotTell("machinecheck0/check_interval is not there or holds no number".into());
    };
    match (interval_s, facts.is_machine_check_polled()) {
        (0, true) => Verdict::Found(found(
            Severity::Warning,
            "/sys/devices/system/machinecheck/machinecheck0/check_interval is 0, and corrected errors are polled for on this host".into(),
            "the banks are not polled: corrected errors go unseen",
            "echo 300 > /sys/devices/system/machinecheck/machinecheck0/check_interval; `surefoot memory tune` chooses the interval",
        )),
        (0, false) => Verdict::Found(found(
            Severity::Notice,
            "/sys/devices/system/machinecheck/machinecheck0/check_interval is 0".into(),
            "banks without CMCI are not looked at; those with it interrupt as before",
            "",
        )),
        (interval_s, _) => Verdict::Fine(format!("check_interval is {interval_s} s")),
    }
}
