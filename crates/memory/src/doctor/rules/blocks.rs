//! AMD's own counters, which firmware may lock.

use super::found;
use crate::doctor::{Facts, Found, Rule, Verdict};
use surefoot_model::{Certainty, Severity, Vendor};

pub(super) const RULE: Rule = Rule { name: "threshold-blocks-locked", check };

/// Zen and what came after it has a block for each memory controller.
const ZEN: u32 = 0x17;

fn check(facts: &Facts) -> Verdict {
    if facts.vendor == Vendor::Other && facts.has_machine_check {
        return Verdict::CannotTell("it is not known which counters a processor of this maker has".into());
    }
    if facts.vendor != Vendor::Amd || facts.family < ZEN {
        return Verdict::Fine("the processor has no threshold blocks of memory controllers".into());
    }
    if facts.hypervisor.is_some() {
        return Verdict::CannotTell("a virtual machine has no threshold blocks".into());
    }
    if !facts.has_machine_check {
        return Verdict::CannotTell("/sys/devices/system/machinecheck is not there".into());
    }
    let blocks = &facts.reading.blocks;
    if !blocks.is_empty() {
        let full: Vec<String> = blocks.iter().filter(|block| block.is_full()).map(|block| block.place()).collect();
        if full.is_empty() {
            return Verdict::Fine(format!("{} threshold blocks count", blocks.len()));
        }
        return Verdict::Found(found(
            Severity::Notice,
            format!("{} of {} threshold blocks stand at 4095: {}", full.len(), blocks.len(), full.join(", ")),
            "a block at 4095 has stopped counting, and its DIMMs have at least that many errors",
            "reboot when it suits: blocks restart at a boot; until then only EDAC counts, one per record",
        ));
    }
    Verdict::Found(Found {
        certainty: Certainty::Probable,
        ..found(
            Severity::Warning,
            "no folder umc_K/dram_ecc below /sys/devices/system/machinecheck, though this processor has such blocks"
                .into(),
            "amd64_edac counts 1 for each record, and the hardware's own counts are not to be had: counts are samples",
            "firmware has locked the blocks (MCA_MISC LOCKED): look for \"MCA error thresholding\" or \"platform first error handling\" in firmware setup",
        )
    })
}
