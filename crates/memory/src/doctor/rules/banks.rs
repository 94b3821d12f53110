//! A bank whose mask is 0 reports nothing.

use super::found;
use crate::counted;
use crate::doctor::{Facts, Rule, Verdict};
use surefoot_model::Severity;

pub(super) const RULE: Rule = Rule { name: "banks-masked", check };

/// Banks that the evidence names.
const NAMED_MAX: usize = 8;

fn check(facts: &Facts) -> Verdict {
    let Some(masked) = &facts.masked_banks else {
        return Verdict::CannotTell("machinecheck0/bank0 is not there, so the masks of the banks are not known".into());
    };
    if masked.is_empty() {
        return Verdict::Fine("no bank of the first processor is masked".into());
    }
    let named: Vec<String> = masked.iter().take(NAMED_MAX).map(|bank| format!("bank{bank}")).collect();
    let more = if masked.len() > NAMED_MAX { ", …" } else { "" };
    Verdict::Found(found(
        Severity::Warning,
        format!(
            "{} 0 in /sys/devices/system/machinecheck/machinecheck0: {}{more}",
            counted(masked.len() as u64, "bank mask is", "bank masks are"),
            named.join(", ")
        ),
        "no process reports errors of these banks; one of them may be of a memory controller",
        "write ffffffffffffffff to the file of each bank, for all processors, or find out who masks them",
    ))
}
