//! The kernel's corrected-errors collector stands before EDAC in the chain and keeps what it takes.

use super::found;
use crate::doctor::{Facts, Found, Rule, Verdict};
use surefoot_model::{Certainty, Severity};

pub(super) const RULE: Rule = Rule { name: "cec-swallows-errors", check };

fn check(facts: &Facts) -> Verdict {
    if facts.ras_options.iter().any(|option| option == "cec_disable") {
        return Verdict::Fine("the kernel was booted with ras=cec_disable".into());
    }
    let behind = facts.reading.controllers.iter().find(|one| one.driver.is_behind_collector());
    let Some(controller) = behind else {
        return Verdict::Fine("no controller here has a driver that the collector stands before (Intel's have)".into());
    };
    match facts.reading.is_collected {
        Some(false) => Verdict::Fine(
            "the kernel has no corrected-errors collector (/sys/kernel/debug/ras/cec is not there)".into(),
        ),
        None => Verdict::CannotTell(
            "debugfs cannot be looked into, so it is not known whether the collector runs; mount debugfs, or run as root of the host"
                .into(),
        ),
        Some(true) => Verdict::Found(Found {
            certainty: Certainty::Certain,
            ..found(
                Severity::Warning,
                format!(
                    "/sys/kernel/debug/ras/cec is there, and {} is driven by {}",
                    controller.id,
                    controller.driver.module()
                ),
                "the collector takes corrected errors with an address before EDAC counts them: the counts per module stay \
                 near 0 while a DIMM degrades",
                "boot with ras=cec_disable; until then follow mce:mce_record (surefoot memory watch), which comes before the collector",
            )
        }),
    }
}
