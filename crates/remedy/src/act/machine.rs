//! The identity of the machine that this runs on.
//!
//! machine-id(5) asks that `/etc/machine-id` is not shown over a network, so a keyed hash is: HMAC-SHA256 with the ID as its key over an
//! ID of this use, as `sd_id128_get_machine_app_specific` of systemd makes it. Nobody can get the ID from the hash, and who knows the
//! hash cannot tell what other programs derive from the ID.

use ring::hmac;
use std::path::PathBuf;
use surefoot_hostfs::Root;
use surefoot_model::{Digits, HostFacts, MachineId};
use surefoot_outside::http::redfish::MachineIdentity;

/// What the hashes are for: an ID of each use, drawn once by chance.
const OF_SYSTEM: u128 = 0x8b1d_54f3_2c9e_4a67_b0e3_71c6_d25a_9f08;
const OF_HARDWARE: u128 = 0x2e70_c9a4_58d1_4f3b_9c46_0fb7_e813_6da5;

/// The machine whose files these are. A file that is missing or empty, says `uninitialized`, or holds a filler that many machines share
/// leaves that part unknown. Only root may read the UUID of the hardware.
pub fn of(root: &Root) -> MachineId {
    let system = root.read(root.path("etc/machine-id")).ok();
    let hardware = MachineIdentity::of_host(root).uuid;
    MachineId {
        hardware: hardware.as_deref().and_then(number).map(|id| derived(id, OF_HARDWARE)),
        system: system.as_deref().and_then(number).map(|id| derived(id, OF_SYSTEM)),
    }
}

/// What this host runs on. What cannot be read stays empty.
pub fn facts(root: &Root) -> HostFacts {
    let word = |path: PathBuf| root.read(path).map(|text| text.trim().to_owned()).unwrap_or_default();
    let both = |first: &str, second: &str| {
        let words = [first, second].map(|name| word(root.sys(format!("class/dmi/id/{name}"))));
        words.join(" ").trim().to_owned()
    };
    HostFacts {
        kernel: word(root.proc("sys/kernel/osrelease")),
        firmware: both("bios_vendor", "bios_version"),
        product: both("sys_vendor", "product_name"),
    }
}

/// Whether a machine that is known by its hashes has this UUID, as another system tells it; `None` where that is not known, or the text is no
/// UUID of one machine. SMBIOS, firmware and IPMI write the same one in several orders of its bytes.
pub fn has_uuid(known: &MachineId, text: &str) -> Option<bool> {
    let hardware = known.hardware.as_ref()?;
    let id = number(&MachineIdentity::uuid_of(text.trim())?)?;
    Some(
        [id, id.swap_bytes()]
            .into_iter()
            .flat_map(|id| [id, turned(id)])
            .any(|id| derived(id, OF_HARDWARE) == *hardware),
    )
}

/// The same of an ID such as `/etc/machine-id` holds.
pub fn has_machine_id(known: &MachineId, text: &str) -> Option<bool> {
    let system = known.system.as_ref()?;
    Some(derived(number(text)?, OF_SYSTEM) == *system)
}

/// A UUID with its first three fields the other way around, as SMBIOS keeps them (DSP0134, 7.2.1).
fn turned(id: u128) -> u128 {
    let mut bytes = id.to_be_bytes();
    bytes[..4].reverse();
    bytes[4..6].reverse();
    bytes[6..8].reverse();
    u128::from_be_bytes(bytes)
}

/// An ID of 32 hexadecimal digits; all zeros are none.
fn number(text: &str) -> Option<u128> {
    let digits = text.trim();
    let (high, low) = digits.split_at_checked(16).filter(|(_, low)| low.len() == 16)?;
    let id = u128::from(high.hex_digits::<u64>()?) << 64 | u128::from(low.hex_digits::<u64>()?);
    (id != 0).then_some(id)
}

/// The ID of a use that belongs to an ID: a UUID of version 4, without hyphens.
fn derived(id: u128, of_use: u128) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &id.to_be_bytes());
    let tag = hmac::sign(&key, &of_use.to_be_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&tag.as_ref()[..16]);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    format!("{:032x}", u128::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::fs;

    fn tree(machine_id: Option<&str>, uuid: Option<&str>) -> MachineId {
        let home = tempfile::tempdir().unwrap();
        let put = |path: &str, text: Option<&str>| {
            let path = home.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            text.into_iter().for_each(|text| fs::write(&path, text).unwrap());
        };
        put("etc/machine-id", machine_id);
        put("sys/class/dmi/id/product_uuid", uuid);
        of(&Root::at(home.path()))
    }

    const ID: &str = "0123456789abcdef0123456789abcdef\n";
    const UUID: &str = "4C4C4544-0051-4810-8039-B4C04F4E5032\n";

    #[test]
    fn ids_are_derived_as_systemd_derives_them() {
        // By another HMAC: hmac.new(key, use, "sha256").digest()[:16] of Python, with version and variant set.
        let known = tree(Some(ID), Some(UUID));
        assert_eq!(known.system.as_deref(), Some("6b775d91eb224cd2a6b44484d1bce881"));
        assert_eq!(known.hardware.as_deref(), Some("67bd191c0b9647eca02e03a710f5adb5"));
    }

    #[test]
    fn another_system_s_uuid_is_compared_in_each_order_of_its_bytes() {
        let known = tree(Some(ID), Some(UUID));
        assert_eq!(has_uuid(&known, UUID.trim()), Some(true));
        assert_eq!(has_uuid(&known, "44454c4c-5100-1048-8039-b4c04f4e5032"), Some(true));
        assert_eq!(has_uuid(&known, "32504e4f-c0b4-3980-1048-510044454c4c"), Some(true));
        assert_eq!(has_uuid(&known, "4C4C4544-0051-4810-8039-B4C04F4E5033"), Some(false));
        for none in ["", "00000000-0000-0000-0000-000000000000", "03000200-0400-0500-0006-000700080009", "n1"] {
            assert_eq!(has_uuid(&known, none), None, "{none}");
        }
        assert_eq!(has_uuid(&tree(Some(ID), None), UUID.trim()), None);
        assert_eq!((has_machine_id(&known, ID.trim()), has_machine_id(&known, "")), (Some(true), None));
        assert_eq!(has_machine_id(&known, "1123456789abcdef0123456789abcdef"), Some(false));
    }

    #[test]
    fn an_id_that_is_not_there_is_unknown() {
        for none in [
            None,
            Some(""),
            Some("\n"),
            Some("uninitialized\n"),
            Some("0123"),
            Some("00000000000000000000000000000000"),
            Some("+123456789abcdef0123456789abcdef\n"),
        ] {
            let unknown = tree(none, None);
            assert!(!unknown.is_known(), "{none:?}");
            let by_hardware = tree(none, Some(UUID));
            assert!(by_hardware.system.is_none() && by_hardware.hardware.is_some(), "{none:?}");
        }
        // Firmware that was never set up.
        for filler in ["03000200-0400-0500-0006-000700080009", "00000000-0000-0000-0000-000000000000", "Not Settable"] {
            assert_eq!(tree(Some(ID), Some(filler)).hardware, None, "{filler}");
        }
    }
}
