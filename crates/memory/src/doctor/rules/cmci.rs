//! Turned off at runtime, the interrupt for corrected errors leaves its banks to nobody.

use super::found;
use crate::doctor::{Facts, Found, Rule, Verdict};
use surefoot_model::{Certainty, Severity, Vendor};

pub(super) const RULE: Rule = Rule { name: "cmci-disabled-hole", check };

fn check(facts: &Facts) -> Verdict {
    if facts.vendor == Vendor::Amd {
        return Verdict::Fine("the processor has no CMCI".into());
    }
    if facts.has_mce("no_cmci") {
        return Verdict::Fine("the kernel was booted with mce=no_cmci, so every bank is polled".into());
    }
    match facts.is_cmci_disabled {
        None => Verdict::CannotTell("machinecheck0/cmci_disabled is not there".into()),
        Some(_) if !facts.is_cmci_hole() => Verdict::Fine("cmci_disabled is 0".into()),
        Some(_) => Verdict::Found(Found {
            // Read in the sources of Linux 6.12, and not tried on hardware.
            certainty: Certainty::Probable,
            ..found(
                Severity::Warning,
                "/sys/devices/system/machinecheck/machinecheck0/cmci_disabled is 1, and mce=no_cmci is not among the boot options".into(),
                "banks that had the interrupt were taken from the poll at boot and are not given back: they are neither interrupted for nor polled, and \
                 their corrected errors go unseen",
                "echo 0 > /sys/devices/system/machinecheck/machinecheck0/cmci_disabled; to poll, boot with mce=no_cmci and set check_interval",
            )
        }),
    }
}
