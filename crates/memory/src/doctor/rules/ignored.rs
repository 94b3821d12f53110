//! Corrected errors that the kernel was told to leave or to drop.

use super::found;
use crate::doctor::{Facts, Rule, Verdict};
use surefoot_model::Severity;

pub(super) const RULE: Rule = Rule { name: "errors-ignored", check };

fn check(facts: &Facts) -> Verdict {
    if facts.has_mce("off") {
        return Verdict::Found(found(
            Severity::Warning,
            "the kernel was booted with mce=off".into(),
            "no machine check is handled: uncorrected errors go unseen into programs and files",
            "take mce=off out of the boot options",
        ));
    }
    let (Some(is_ignored), Some(is_not_logged)) = (facts.is_ignored, facts.is_not_logged) else {
        return Verdict::CannotTell("machinecheck0/ignore_ce and dont_log_ce are not there".into());
    };
    if is_ignored {
        return Verdict::Found(found(
            Severity::Warning,
            "/sys/devices/system/machinecheck/machinecheck0/ignore_ce is 1".into(),
            "corrected errors are neither polled nor interrupted for: they stay in the banks until firmware or an agent takes them",
            "echo 0 > /sys/devices/system/machinecheck/machinecheck0/ignore_ce, and take mce=ignore_ce out of the boot options; leave it where the \
             vendor asks for it and read the management controller's event log instead",
        ));
    }
    if is_not_logged {
        return Verdict::Found(found(
            Severity::Warning,
            "/sys/devices/system/machinecheck/machinecheck0/dont_log_ce is 1".into(),
            "corrected errors without a usable address are cleared and not counted",
            "echo 0 > /sys/devices/system/machinecheck/machinecheck0/dont_log_ce, and take mce=dont_log_ce out of the boot options",
        ));
    }
    Verdict::Fine("ignore_ce and dont_log_ce are 0".into())
}
