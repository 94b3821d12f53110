//! Without an EDAC driver nobody counts per module.

use super::found;
use crate::counted;
use crate::doctor::{Facts, Rule, Verdict};
use surefoot_model::{Severity, Vendor};

pub(super) const RULE: Rule = Rule { name: "no-driver", check };

fn check(facts: &Facts) -> Verdict {
    let controllers = &facts.reading.controllers;
    if !controllers.is_empty() {
        let name = |name: &str, id: &str| if name.is_empty() { id.to_owned() } else { name.to_owned() };
        let names: Vec<String> = controllers.iter().take(4).map(|one| name(&one.name, &one.id)).collect();
        return Verdict::Fine(format!(
            "{} ({}{})",
            counted(controllers.len() as u64, "memory controller has a driver", "memory controllers have a driver"),
            names.join(", "),
            if controllers.len() > 4 { ", …" } else { "" }
        ));
    }
    if facts.hypervisor.is_some() {
        return Verdict::CannotTell("a virtual machine has no EDAC driver".into());
    }
    let loaded = facts.modules.join(", ");
    let (evidence, remedy) = match (loaded.as_str(), facts.vendor) {
        ("", Vendor::Intel) => (
            "no EDAC module is loaded".to_owned(),
            "modprobe i10nm_edac (Ice Lake and later), skx_edac (Skylake, Cascade Lake) or sb_edac (before those)",
        ),
        ("", Vendor::Amd) => ("no EDAC module is loaded".to_owned(), "modprobe amd64_edac"),
        ("", Vendor::Other) => (
            "no EDAC module is loaded".to_owned(),
            "load the EDAC driver of this platform, or ghes_edac where firmware reports errors",
        ),
        (loaded, _) => (
            format!("{loaded} is loaded and has no controller"),
            "read what it logged (dmesg | grep -i edac): ECC is off in firmware, firmware owns the errors (then ghes_edac), or the driver is too old for this processor",
        ),
    };
    Verdict::Found(found(
        Severity::Warning,
        format!("/sys/devices/system/edac/mc has no controller: {evidence}"),
        "memory errors are counted for no module: a module going bad is not seen",
        remedy,
    ))
}
