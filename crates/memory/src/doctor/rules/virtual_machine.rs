//! A guest is told of no memory error.

use super::found;
use crate::doctor::{Facts, Rule, Verdict};
use surefoot_model::{Severity, Vendor};

pub(super) const RULE: Rule = Rule { name: "virtual-machine", check };

fn check(facts: &Facts) -> Verdict {
    match &facts.hypervisor {
        // Only x86 says so in every case; a tree without proc/cpuinfo, or another processor, says nothing.
        None if facts.vendor == Vendor::Other => {
            Verdict::CannotTell("/proc/cpuinfo does not tell whether this is a virtual machine".into())
        }
        None => Verdict::Fine("no hypervisor is seen: the memory is this host's own".into()),
        Some(name) => Verdict::Found(found(
            Severity::Notice,
            format!("this is a virtual machine ({name})"),
            "the hypervisor keeps corrected errors to itself, and EDAC drivers refuse to load; what is counted here was injected or passed on",
            "run surefoot on the host of this machine",
        )),
    }
}
