//! The processor's own description of itself (Intel SDM volume 2A, CPUID; AMD APM volume 3, appendix E).

use super::{Processor, hypervisor_name, vendor};
use core::arch::x86_64::{__cpuid, CpuidResult};

/// Where the hypervisor's leaves begin, and how far apart further sets of them stand when it offers several.
const HYPERVISOR_LEAF: u32 = 0x4000_0000;
const HYPERVISOR_LEAF_STEP: u32 = 0x100;
const HYPERVISOR_SETS: u32 = 16;

#[allow(unused_unsafe)]
fn leaf(number: u32) -> CpuidResult {
    // SAFETY: every x86_64 has CPUID, and an unknown leaf gives meaningless numbers, not a fault. The callers check
    // the highest leaf first. Newer compilers know this and call it safe.
    unsafe { __cpuid(number) }
}

/// The processor that runs this thread.
pub(super) fn processor() -> Processor {
    let base = leaf(0);
    let signature = text(&[base.ebx, base.edx, base.ecx]);
    let version = leaf(1);
    let (family, model) = family_and_model(version.eax);
    let name = if leaf(0x8000_0000).eax >= 0x8000_0004 {
        let words: Vec<u32> = (0x8000_0002..=0x8000_0004)
            .flat_map(|number| {
                let part = leaf(number);
                [part.eax, part.ebx, part.ecx, part.edx]
            })
            .collect();
        text(&words)
    } else {
        String::new()
    };
    Processor {
        name: if name.is_empty() { "unknown".to_owned() } else { name },
        vendor: vendor(&signature),
        family,
        model,
        hypervisor: (version.ecx >> 31 & 1 == 1).then(hypervisor),
    }
}

/// Leaf 1, EAX: the extended family counts for family 15 only, the extended model for families 6 and 15.
fn family_and_model(eax: u32) -> (u32, u32) {
    let base = eax >> 8 & 0xf;
    let family = if base == 0xf { base + (eax >> 20 & 0xff) } else { base };
    let model = eax >> 4 & 0xf;
    (family, if base == 6 || base == 0xf { model | (eax >> 12 & 0xf0) } else { model })
}

/// KVM and Xen can pose as Hyper-V in the first set of leaves and tell their own name in a later one.
fn hypervisor() -> String {
    let mut found = None;
    for set in 0..HYPERVISOR_SETS {
        let base = HYPERVISOR_LEAF + set * HYPERVISOR_LEAF_STEP;
        let part = leaf(base);
        // Leaves that do not exist repeat another leaf, whose highest leaf does not lie in this set.
        // Early versions of KVM say 0 in the first set.
        let exists = (base..base + HYPERVISOR_LEAF_STEP).contains(&part.eax) || (set == 0 && part.eax == 0);
        if !exists {
            continue;
        }
        let signature = text(&[part.ebx, part.ecx, part.edx]);
        if signature.is_empty() {
            continue;
        }
        let name = hypervisor_name(&signature);
        if name != "Hyper-V" {
            return name;
        }
        found = Some(name);
    }
    found.unwrap_or_else(|| "unknown".to_owned())
}

/// Registers as text: little-endian, ended by a zero, blanks as the kernel prints them.
fn text(registers: &[u32]) -> String {
    let bytes: Vec<u8> = registers.iter().flat_map(|register| register.to_le_bytes()).collect();
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let printable = bytes[..end].iter().map(|&byte| if (0x20..0x7f).contains(&byte) { char::from(byte) } else { ' ' });
    printable.collect::<String>().split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn family_and_model_follow_the_manuals() {
        // Ice Lake-SP 6/106, Zen 3 (25/1), Zen 4 (25/17), Pentium 4 (15/2).
        for (eax, expected) in
            [(0x0006_06a6, (6, 106)), (0x00a0_0f11, (25, 1)), (0x00a1_0f11, (25, 17)), (0x0000_0f29, (15, 2))]
        {
            assert_eq!(family_and_model(eax), expected, "{eax:#x}");
        }
    }

    #[test]
    fn registers_become_the_text_that_the_kernel_prints() {
        assert_eq!(text(&[0x756e_6547, 0x4965_6e69, 0x6c65_746e]), "GenuineIntel");
        assert_eq!(text(&[u32::from_le_bytes(*b"  A "), u32::from_le_bytes(*b" B\0C")]), "A B");
    }
}
