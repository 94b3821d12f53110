//! What on this host can tell of memory errors at all.

use std::path::Path;
use std::{fs, io};
use surefoot_hostfs::identity::Identity;
use surefoot_hostfs::{Root, Unsupported};
use surefoot_model::{Capability, CapabilityState, Digits, Vendor};

/// Entries of a folder that are looked at; the largest machines have a few hundred.
const ENTRIES_MAX: usize = 4096;

/// The sources of memory errors that a host has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Presence {
    /// Memory controllers that an EDAC driver looks after.
    pub controllers: usize,
    /// Whether the kernel handles machine checks here.
    pub has_machine_checks: bool,
    /// Memory devices behind CXL.
    pub cxl_devices: usize,
    /// Which folder could not be read, and why: what lies there is unknown.
    pub unknown: Option<Unsupported>,
}

impl Presence {
    /// Looks at the folders of a host.
    pub fn of(root: &Root) -> Self {
        let mut unknown = None;
        let mut count = |folder: &str, word| {
            numbered(&root.sys(folder), word).unwrap_or_else(|error| {
                let why = format!("{} cannot be read: {error}", root.sys(folder).display());
                unknown.get_or_insert(Unsupported::because(&error, why, "run Surefoot as a user who may read /sys"));
                0
            })
        };
        let controllers = count("devices/system/edac/mc", "mc");
        let has_machine_checks = count("devices/system/machinecheck", "machinecheck") > 0;
        let cxl_devices = count("bus/cxl/devices", "mem");
        Presence { controllers, has_machine_checks, cxl_devices, unknown }
    }

    /// Whether there is any source.
    pub fn is_any(&self) -> bool {
        self.controllers > 0 || self.has_machine_checks || self.cxl_devices > 0
    }
}

/// Why nothing is known of this host's memory errors, and what to do; `None` where any source exists.
pub fn unsupported(root: &Root) -> Option<Unsupported> {
    let presence = Presence::of(root);
    if presence.is_any() {
        return None;
    }
    if let Some(missing) = presence.unknown {
        let why = format!("which sources of memory errors this host has is unknown: {}", missing.why);
        return Some(Unsupported { why, ..missing });
    }
    Some(without(root, "no EDAC memory controller, no machine checks and no CXL memory in /sys"))
}

/// Why a host without these sources has none, and what to do: the same words wherever it is said.
pub(crate) fn without(root: &Root, lacks: &str) -> Unsupported {
    let identity = Identity::read(root);
    if let Some(hypervisor) = identity.hypervisor {
        let name = if hypervisor == "unknown" { "a hypervisor that gives no name".into() } else { hypervisor };
        return Unsupported::new(
            format!("this is a virtual machine ({name}), which sees no memory errors; its host counts them ({lacks})"),
            "run surefoot on the physical host",
        );
    }
    let module = match identity.vendor {
        Vendor::Intel => "skx_edac (Skylake, Cascade Lake), i10nm_edac (Ice Lake and later) or sb_edac (before those)",
        Vendor::Amd => "amd64_edac",
        Vendor::Other => "the EDAC driver of this platform (on Arm servers mostly ghes_edac, which firmware feeds)",
    };
    Unsupported::new(
        lacks,
        format!(
            "load {module}; where that fails, firmware keeps the errors to itself (`surefoot memory doctor` says more)"
        ),
    )
}

/// The row of `surefoot status`.
pub fn capability(root: &Root) -> Capability {
    let row = |state, reason: String, remedy: String| Capability {
        id: "memory.errors".into(),
        name: "memory errors of each module".into(),
        state,
        reason,
        remedy,
    };
    if let Some(unsupported) = unsupported(root) {
        return row(CapabilityState::Unsupported, unsupported.why, unsupported.remedy);
    }
    let presence = Presence::of(root);
    let mut has = Vec::new();
    match presence.controllers {
        0 => {}
        1 => has.push("one EDAC memory controller".to_owned()),
        count => has.push(format!("{count} EDAC memory controllers")),
    }
    if presence.has_machine_checks {
        has.push("machine checks".to_owned());
    }
    match presence.cxl_devices {
        0 => {}
        1 => has.push("one CXL memory device".to_owned()),
        count => has.push(format!("{count} CXL memory devices")),
    }
    let has = has.join(", ");
    if let Some(missing) = presence.unknown {
        let reason = format!("{has}; others are unknown: {}", missing.why);
        return row(CapabilityState::Reduced, reason, missing.remedy);
    }
    if presence.controllers == 0 {
        let remedy = "load the EDAC driver of this platform, such as skx_edac, i10nm_edac or amd64_edac";
        return row(CapabilityState::Reduced, format!("{has}; no EDAC driver counts by module"), remedy.into());
    }
    row(CapabilityState::Works, has, String::new())
}

/// Entries whose name is this word and a number; none where there is no such folder.
fn numbered(folder: &Path, word: &str) -> io::Result<usize> {
    let names = match fs::read_dir(folder) {
        Ok(names) => names.take(ENTRIES_MAX),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let is_one = |name: &str| name.strip_prefix(word).is_some_and(|number| number.digits::<u32>().is_some());
    names.map(|entry| Ok(usize::from(entry?.file_name().to_str().is_some_and(is_one)))).sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_testkit::HostTree;

    #[test]
    fn a_virtual_machine_without_any_source_says_so_and_where_to_look() {
        let tree = HostTree::new()
            .file("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor lahf_lm\n")
            .file("sys/devices/system/edac/mc/power/control", "auto\n");
        let row = capability(&Root::at(tree.path()));
        assert_eq!((row.id.as_str(), row.state), ("memory.errors", CapabilityState::Unsupported));
        assert!(row.reason.contains("virtual machine") && row.remedy.contains("physical host"), "{row:?}");
    }

    #[test]
    fn sources_that_cannot_be_looked_for_are_unknown_and_not_absent() {
        let tree = HostTree::new().file("sys/devices/system/edac/mc", "no folder\n");
        let missing = unsupported(&Root::at(tree.path())).unwrap();
        let folder = tree.path().join("sys/devices/system/edac/mc");
        assert!(missing.why.contains(&format!("is unknown: {}", folder.display())), "{missing:?}");
        let tree = tree.file("sys/devices/system/machinecheck/machinecheck0/bank0", "ff\n");
        let row = capability(&Root::at(tree.path()));
        assert_eq!(row.state, CapabilityState::Reduced);
        assert!(row.reason.contains("machine checks; others are unknown"), "{row:?}");
    }

    /// Who asks for the row and who looks are told the same.
    #[test]
    fn a_look_says_the_same_as_the_row() {
        let tree = HostTree::new().file("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu\nvendor_id\t: AuthenticAMD\n");
        let root = Root::at(tree.path());
        let why = crate::look::Looker::new(root.clone()).look().unsupported.unwrap();
        let row = capability(&root);
        assert!(row.remedy.contains("amd64_edac") && why.ends_with(&row.remedy), "{why} / {row:?}");
    }

    #[test]
    fn each_source_counts() {
        let edac = HostTree::new()
            .file("sys/devices/system/edac/mc/mc0/ce_count", "0\n")
            .file("sys/devices/system/edac/mc/mc2/ce_count", "0\n")
            .folder("sys/devices/system/machinecheck/machinecheck0");
        let row = capability(&Root::at(edac.path()));
        assert_eq!(row.state, CapabilityState::Works);
        assert_eq!(row.reason, "2 EDAC memory controllers, machine checks");
        let cxl = HostTree::new().folder("sys/bus/cxl/devices/mem0").folder("sys/bus/cxl/devices/root0");
        let row = capability(&Root::at(cxl.path()));
        assert_eq!(row.state, CapabilityState::Reduced);
        assert!(row.reason.starts_with("one CXL memory device; no EDAC driver"), "{}", row.reason);
    }
}
