//! Whether the kernel's log has corrected errors at all.

use super::found;
use crate::doctor::{Facts, Rule, Verdict};
use surefoot_model::Severity;

pub(super) const RULE: Rule = Rule { name: "errors-not-printed", check };

fn check(facts: &Facts) -> Verdict {
    match facts.is_printed {
        None => Verdict::CannotTell("edac_core has no edac_mc_log_ce here".into()),
        Some(true) => Verdict::Fine("edac_mc_log_ce is 1: the kernel prints each corrected error".into()),
        Some(false) => Verdict::Found(found(
            Severity::Notice,
            "/sys/module/edac_core/parameters/edac_mc_log_ce is 0".into(),
            "the kernel's log has no corrected errors, so that tools that read it see none; counters and trace events go on",
            "nothing, where only counters and trace events are read; else echo 1 > /sys/module/edac_core/parameters/edac_mc_log_ce",
        )),
    }
}
