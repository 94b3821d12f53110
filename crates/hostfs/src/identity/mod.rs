//! Who this host is: its names, its processor, whether a hypervisor or a container is around us.

mod container;
#[cfg(target_arch = "x86_64")]
mod cpuid;
mod hypervisor;

use crate::Root;
use crate::error::shorten;
use surefoot_model::{Digits, Vendor};

pub use container::{Container, ContainerEvidence};
pub use hypervisor::hypervisor_name;

/// Who this host is. What the host does not say is empty, zero or `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The node name, as `uname -n` prints it.
    pub hostname: String,
    /// The kernel release, as `uname -r` prints it.
    pub kernel: String,
    /// The processor's model name.
    pub processor: String,
    /// Who made the processor.
    pub vendor: Vendor,
    /// The processor's family; x86 only.
    pub family: u32,
    /// The processor's model within the family; x86 only.
    pub model: u32,
    /// The hypervisor's name; `unknown` when there is one that gives no name, `None` on bare metal.
    ///
    /// On processors other than x86 nothing proves bare metal, so `None` there means that no sign was found.
    pub hypervisor: Option<String>,
    /// The container that this process runs in.
    pub container: Option<Container>,
    /// The kernel's command line.
    pub boot_options: String,
}

impl Identity {
    /// Reads it all; never fails, because a host that says nothing about itself can still be measured.
    ///
    /// On the running x86 host the processor is asked itself (CPUID): several kernels interrupt every core when
    /// /proc/cpuinfo is read, to sample its frequency.
    pub fn read(root: &Root) -> Self {
        let line = |path| root.read(path).map(|text| text.trim().to_owned()).unwrap_or_default();
        let processor = Processor::read(root);
        Identity {
            hostname: line(root.proc("sys/kernel/hostname")),
            kernel: line(root.proc("sys/kernel/osrelease")),
            processor: processor.name,
            vendor: processor.vendor,
            family: processor.family,
            model: processor.model,
            hypervisor: processor.hypervisor,
            container: ContainerEvidence::read(root).decide(),
            boot_options: line(root.proc("cmdline")),
        }
    }

    /// The value of a boot option: `boot_option("isolcpus")` is `Some("1-3")` after `isolcpus=1-3`, `Some("")` for an
    /// option without value, the last one if it is given several times.
    pub fn boot_option(&self, name: &str) -> Option<&str> {
        boot_words(&self.boot_options).filter_map(|word| option_value(word, name)).last()
    }
}

/// Splits the command line at blanks outside double quotes.
fn boot_words(line: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    line.split(move |c: char| {
        quoted ^= c == '"';
        c.is_whitespace() && !quoted
    })
    .filter(|word| !word.is_empty())
}

fn option_value<'a>(word: &'a str, name: &str) -> Option<&'a str> {
    let word = word.strip_prefix('"').and_then(|word| word.strip_suffix('"')).unwrap_or(word);
    let rest = word.strip_prefix(name)?;
    match rest.strip_prefix('=') {
        Some(value) => Some(value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value)),
        None if rest.is_empty() => Some(""),
        None => None,
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Processor {
    pub name: String,
    pub vendor: Vendor,
    pub family: u32,
    pub model: u32,
    pub hypervisor: Option<String>,
}

impl Processor {
    fn read(root: &Root) -> Self {
        #[cfg(target_arch = "x86_64")]
        if root.is_host() {
            return cpuid::processor();
        }
        Self::from_files(root)
    }

    pub(crate) fn from_files(root: &Root) -> Self {
        let text = root.read(root.proc("cpuinfo")).unwrap_or_default();
        let value = |key: &str| cpuinfo_value(&text, key);
        let number = |key: &str| value(key).and_then(|value| value.digits()).unwrap_or(0);
        let name = value("model name").map(str::to_owned).or_else(|| arm_name(&text));
        Processor {
            name: name.or_else(|| value("cpu").map(str::to_owned)).unwrap_or_else(|| "unknown".to_owned()),
            vendor: vendor(value("vendor_id").unwrap_or("")),
            family: number("cpu family"),
            model: number("model"),
            hypervisor: hypervisor::from_files(root, &text),
        }
    }
}

pub(crate) fn vendor(signature: &str) -> Vendor {
    match signature {
        "GenuineIntel" => Vendor::Intel,
        // Hygon's processors are AMD's Zen under licence, with the same events.
        "AuthenticAMD" | "HygonGenuine" => Vendor::Amd,
        _ => Vendor::Other,
    }
}

/// The value of the first line `key : value`.
pub(crate) fn cpuinfo_value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then_some(value.trim())
    })
}

/// ARM's own /proc/cpuinfo has numbers instead of names.
fn arm_name(text: &str) -> Option<String> {
    let implementer = cpuinfo_value(text, "CPU implementer")?;
    let part = cpuinfo_value(text, "CPU part").unwrap_or("unknown");
    let maker = match implementer {
        "0x41" => "Arm",
        "0x42" => "Broadcom",
        "0x43" => "Cavium",
        "0x46" => "Fujitsu",
        "0x48" => "HiSilicon",
        "0x4e" => "NVIDIA",
        "0x51" => "Qualcomm",
        "0x61" => "Apple",
        "0xc0" => "Ampere",
        other => return Some(format!("arm implementer {} part {}", shorten(other), shorten(part))),
    };
    let core = match (implementer, part) {
        ("0x41", "0xd08") => "Cortex-A72",
        ("0x41", "0xd0c") => "Neoverse N1",
        ("0x41", "0xd40") => "Neoverse V1",
        ("0x41", "0xd49") => "Neoverse N2",
        ("0x41", "0xd4f") => "Neoverse V2",
        ("0xc0", "0xac3") => "Ampere-1",
        _ => return Some(format!("{maker} part {}", shorten(part))),
    };
    Some(format!("{maker} {core}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn boot_options_are_found_whole() {
        let identity = |line: &str| Identity { boot_options: line.to_owned(), ..Identity::read(&Root::at("/nowhere")) };
        let host = identity(r#"quiet isolcpus=1 isolcpus=nohz,2-3 dyndbg="file a.c +p" "root=LABEL=my disk" nohz=on"#);
        assert_eq!(host.boot_option("isolcpus"), Some("nohz,2-3"));
        assert_eq!(host.boot_option("quiet"), Some(""));
        assert_eq!(host.boot_option("dyndbg"), Some("file a.c +p"));
        assert_eq!(host.boot_option("root"), Some("LABEL=my disk"));
        assert_eq!(host.boot_option("nohz_full"), None);
        assert_eq!(host.boot_option("+p"), None);
    }

    #[test]
    fn a_host_that_says_nothing_is_described_all_the_same() {
        let host = Identity::read(&Root::at("/nowhere"));
        assert_eq!((host.processor.as_str(), host.vendor), ("unknown", Vendor::Other));
        assert_eq!((host.hypervisor, host.container), (None, None));
    }

    /// The processor and the kernel's own reading of it are two independent sources.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn cpuid_says_the_same_as_the_kernel() {
        let root = Root::host();
        let asked = cpuid::processor();
        let read = Processor::from_files(&root);
        assert_eq!(
            (&asked.name, asked.vendor, asked.family, asked.model),
            (&read.name, read.vendor, read.family, read.model)
        );
        assert_eq!(asked.hypervisor.is_some(), read.hypervisor.is_some());
    }
}
