//! AMD's own counters, which firmware may lock.

use super::found;
use crate::doctor::{Facts, Found, Rule, Verdict};
use crate::read::{Block, Controller, Driver};
use std::collections::BTreeSet;
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
    if let Some(missing) = missing(facts) {
        return Verdict::Found(Found {
            certainty: Certainty::Probable,
            ..found(
                Severity::Warning,
                missing,
                "errors of these channels are counted by amd64_edac alone, 1 for each record: their counts are samples",
                "firmware has locked these blocks (MCA_MISC LOCKED), or the channel is switched off: look for \"MCA error thresholding\" in \
                 firmware setup",
            )
        });
    }
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

/// What blocks are not there though others are: gaps in the numbers of a node's blocks, or fewer blocks than channels with modules.
fn missing(facts: &Facts) -> Option<String> {
    let reading = &facts.reading;
    let nodes: BTreeSet<Option<u32>> = reading.blocks.iter().map(|block| block.node).collect();
    for node in nodes {
        let own: Vec<&Block> = reading.blocks.iter().filter(|block| block.node == node).collect();
        let numbers: BTreeSet<u32> = own.iter().filter_map(|block| block.channel).collect();
        let gaps: Vec<String> = (0..numbers.last().copied().unwrap_or(0))
            .filter(|number| !numbers.contains(number))
            .map(|number| format!("umc_{number}"))
            .collect();
        let of = node.map(|node| format!(" of node {node}")).unwrap_or_default();
        if !gaps.is_empty() {
            return Some(format!("{} has no dram_ecc, and {} other blocks{of} have", gaps.join(", "), own.len()));
        }
        let controller = reading.controllers.iter().find(|one| Some(one.index) == node && one.driver == Driver::Amd64);
        let channels = |one: &Controller| -> BTreeSet<u32> {
            one.places.iter().filter_map(|place| place.layer("channel")).collect()
        };
        let used = controller.map(channels).map_or(0, |channels| channels.len());
        if own.len() < used && own.iter().all(|block| block.channel.is_some()) {
            return Some(format!("{} threshold blocks{of}, whose modules are on {used} channels", own.len()));
        }
    }
    None
}
