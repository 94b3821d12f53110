//! With the threshold of firmware the kernel hears of a corrected error only when there were enough.

use super::found;
use crate::doctor::{Facts, Rule, Verdict};
use surefoot_model::{Severity, Vendor};

pub(super) const RULE: Rule = Rule { name: "firmware-threshold", check };

fn check(facts: &Facts) -> Verdict {
    if facts.vendor == Vendor::Amd {
        return Verdict::Fine("the processor has no CMCI".into());
    }
    if !facts.has_mce("bios_cmci_threshold") {
        return Verdict::Fine(
            "the kernel interrupts at the first corrected error (mce=bios_cmci_threshold is not set)".into(),
        );
    }
    Verdict::Found(found(
        Severity::Notice,
        "the kernel was booted with mce=bios_cmci_threshold".into(),
        "a bank interrupts only at the count that firmware has set: fewer corrected errors are seen late or, after a reset, never",
        "take mce=bios_cmci_threshold out of the boot options, unless the vendor asks for it",
    ))
}
