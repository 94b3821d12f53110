use serde::{Deserialize, Serialize};

/// Which machine a host name stands for at present. Both are keyed hashes, 32 hexadecimal digits: the IDs themselves never leave the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MachineId {
    /// Of the UUID that SMBIOS has, `None` where it is unknown: root alone may read it, and some boards have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<String>,
    /// Of `/etc/machine-id`, `None` where it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
}

impl MachineId {
    /// Whether anything is known of it.
    pub fn is_known(&self) -> bool {
        self.hardware.is_some() || self.system.is_some()
    }

    /// Whether nothing is known of it.
    pub fn is_unknown(&self) -> bool {
        !self.is_known()
    }

    /// Whether both are one machine, `None` where that is unknown. The hardware decides where both know it: the machine ID of a diskless
    /// host is another after each boot, and cloned images share one.
    pub fn is(&self, other: &MachineId) -> Option<bool> {
        let same = |one: &Option<String>, two: &Option<String>| Some(one.as_ref()? == two.as_ref()?);
        same(&self.hardware, &other.hardware).or_else(|| same(&self.system, &other.system))
    }

    /// The same with what only `newer` knows, and what both know as `newer` has it.
    pub fn with(&self, newer: &MachineId) -> MachineId {
        let of = |old: &Option<String>, new: &Option<String>| new.clone().or_else(|| old.clone());
        MachineId { hardware: of(&self.hardware, &newer.hardware), system: of(&self.system, &newer.system) }
    }
}

impl std::fmt::Display for MachineId {
    /// Short, for people: `machine 3f2a9c1e`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.hardware.as_ref().or(self.system.as_ref()) {
            Some(id) => write!(f, "machine {}", id.chars().take(8).collect::<String>()),
            None => f.write_str("an unknown machine"),
        }
    }
}

/// What a host runs on and with, as its kernel and firmware say it; empty where that is not known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct HostFacts {
    /// The kernel's release, such as `6.1.0-31-amd64`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kernel: String,
    /// Vendor and version of the firmware, by SMBIOS.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub firmware: String,
    /// Vendor and name of the machine, by SMBIOS.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub product: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(hardware: &str, system: &str) -> MachineId {
        let known = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        MachineId { hardware: known(hardware), system: known(system) }
    }

    #[test]
    fn hardware_decides_and_what_is_unknown_is_neither_same_nor_other() {
        for (one, other, same) in [
            (id("h1", "s1"), id("h1", "s1"), Some(true)),
            // A diskless host after a boot, or one that was installed anew.
            (id("h1", "s1"), id("h1", "s2"), Some(true)),
            // A cloned image.
            (id("h1", "s1"), id("h2", "s1"), Some(false)),
            (id("", "s1"), id("h2", "s1"), Some(true)),
            (id("", "s1"), id("h2", "s2"), Some(false)),
            (id("h1", ""), id("", "s1"), None),
            (id("", ""), id("h1", "s1"), None),
            (id("", ""), id("", ""), None),
        ] {
            assert_eq!((one.is(&other), other.is(&one)), (same, same), "{one:?} {other:?}");
        }
        assert_eq!(id("h1", "s1").with(&id("", "s2")), id("h1", "s2"));
        assert_eq!(id("", "0123456789").to_string(), "machine 01234567");
        assert!(!id("", "").is_known() && id("", "s").is_known());
    }
}
