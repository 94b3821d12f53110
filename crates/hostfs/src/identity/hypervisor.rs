//! The hypervisor's name, from its CPUID signature or from files.

use super::cpuinfo_value;
use crate::Root;
use crate::error::shorten;

/// The name that people use for a CPUID signature (leaf 0x40000000); the signature itself when it is not known.
pub fn hypervisor_name(signature: &str) -> String {
    match signature {
        "KVMKVMKVM" | "Linux KVM Hv" => "KVM",
        "Microsoft Hv" => "Hyper-V",
        "VMwareVMware" => "VMware",
        "XenVMMXenVMM" => "Xen",
        "TCGTCGTCGTCG" => "QEMU without KVM",
        "VBoxVBoxVBox" => "VirtualBox",
        "bhyve bhyve" => "bhyve",
        "ACRNACRNACRN" => "ACRN",
        "prl hyperv" | "lrpepyh vr" => "Parallels",
        "Jailhouse" => "Jailhouse",
        "QNXQVMBSQG" => "QNX",
        "" => "unknown",
        other => return shorten(other),
    }
    .to_owned()
}

/// What the firmware tables call the machine, and the hypervisor behind that name.
const MACHINES: [(&str, &str); 8] = [
    ("KVM", "KVM"),
    ("QEMU", "KVM"),
    ("Amazon EC2", "KVM"),
    ("Google Compute Engine", "KVM"),
    ("VMware", "VMware"),
    ("VirtualBox", "VirtualBox"),
    ("Virtual Machine", "Hyper-V"),
    ("HVM domU", "Xen"),
];

/// For a recorded tree, whose processor cannot be asked: the `hypervisor` flag of x86 says whether there is one,
/// /sys/hypervisor/type and the firmware's tables say which. Other processors have no flag; a known name must do.
pub(super) fn from_files(root: &Root, cpuinfo: &str) -> Option<String> {
    let flags = cpuinfo_value(cpuinfo, "flags");
    let flagged = flags.map(|flags| flags.split_ascii_whitespace().any(|flag| flag == "hypervisor"));
    if flagged == Some(false) {
        return None;
    }
    let read = |path| root.read(path).map(|text| text.trim().to_owned()).unwrap_or_default();
    let name = match read(root.sys("hypervisor/type")).as_str() {
        "" => {
            let machine = format!(
                "{} {}",
                read(root.sys("class/dmi/id/sys_vendor")),
                read(root.sys("class/dmi/id/product_name"))
            );
            // A whole machine is rented under the same vendor's name as a part of one.
            let whole = machine.ends_with(".metal") || machine.contains(".metal-");
            let known = MACHINES.iter().find(|(word, _)| !whole && machine.contains(word));
            known.map(|(_, name)| (*name).to_owned())
        }
        "xen" => Some("Xen".to_owned()),
        other => Some(shorten(other)),
    };
    match flagged {
        Some(_) => Some(name.unwrap_or_else(|| "unknown".to_owned())),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_have_names_and_unknown_ones_stay() {
        assert_eq!(hypervisor_name("KVMKVMKVM"), "KVM");
        assert_eq!(hypervisor_name("Microsoft Hv"), "Hyper-V");
        assert_eq!(hypervisor_name("NewNewNewNew"), "NewNewNewNew");
        assert_eq!(hypervisor_name(""), "unknown");
    }
}
