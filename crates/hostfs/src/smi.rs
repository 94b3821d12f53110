//! How many system-management interrupts there were.
//!
//! An SMI stops all cores of a machine at once, so one core's counter speaks for all. Reading it on another core than
//! the one that reads makes the kernel interrupt that core: tie the reading thread to the core whose counter it reads,
//! and choose a housekeeping core.
//!
//! | processor | counter |
//! |---|---|
//! | Intel, Nehalem and later | MSR 0x34, 32 bits used, counts since power-on |
//! | AMD, Zen and later | performance event PMCx02B `ls_smi_rx`, counts while it is open |
//! | others, and every guest of a hypervisor | none |

use crate::identity::Identity;
use crate::perf::{Kind, PerfCounter};
use crate::privilege::Privilege;
use crate::{Error, Root, Unsupported};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use surefoot_model::{CpuId, Vendor};

/// MSR_SMI_COUNT of the Intel SDM, volume 4.
const INTEL_SMI_COUNT: u64 = 0x34;

/// `ls_smi_rx`: event 0x2b, no unit mask.
const AMD_SMI_RECEIVED: u64 = 0x2b;

/// Zen's first family; earlier ones have another event.
const AMD_FIRST_FAMILY: u32 = 0x17;

/// Intel's processors since Nehalem are of family 6 or later ones; 15 was the Pentium 4.
const INTEL_FIRST_FAMILY: u32 = 6;
const INTEL_PENTIUM_4: u32 = 15;

/// Whether a file can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It is not there.
    Absent,
    /// It is there and this process may not open it.
    Denied,
    /// It can be opened.
    Ready,
}

/// What the choice of a counter depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmiFacts {
    /// Who made the processor.
    pub vendor: Vendor,
    /// The processor's family.
    pub family: u32,
    /// The hypervisor's name, `None` on bare metal.
    pub hypervisor: Option<String>,
    /// /dev/cpu/N/msr.
    pub msr: Access,
    /// Whether the kernel has a driver for the processor's performance counters.
    pub pmu: bool,
    /// Whether this process may open events that count a whole core.
    pub may_count_core: bool,
}

/// Which counter is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmiSource {
    /// Intel's MSR 0x34.
    IntelMsr,
    /// AMD's event `ls_smi_rx`.
    AmdEvent,
}

impl SmiSource {
    /// The words for people.
    pub fn label(self) -> &'static str {
        match self {
            SmiSource::IntelMsr => "MSR 0x34",
            SmiSource::AmdEvent => "event ls_smi_rx",
        }
    }
}

/// Chooses the counter; pure, a test per row.
///
/// # Errors
/// [`Unsupported`] with the reason and the remedy.
pub fn choose(facts: &SmiFacts) -> Result<SmiSource, Unsupported> {
    if facts.vendor != Vendor::Other
        && let Some(hypervisor) = &facts.hypervisor
    {
        let why = match (hypervisor.as_str(), facts.vendor) {
            ("KVM", Vendor::Intel) => {
                "KVM shows a guest only the SMIs of its virtual firmware (MSR 0x34), never those of the machine"
                    .to_owned()
            }
            ("unknown", _) => "this is a guest of a hypervisor, which hides the SMIs of the machine".to_owned(),
            (name, _) => format!("this is a guest of {name}, which hides the SMIs of the machine"),
        };
        return Err(Unsupported::new(why, "run Surefoot on the machine of the hypervisor"));
    }
    match facts.vendor {
        Vendor::Intel if facts.family < INTEL_FIRST_FAMILY || facts.family == INTEL_PENTIUM_4 => {
            Err(Unsupported::new(format!("Intel processors of family {} do not count SMIs", facts.family), ""))
        }
        Vendor::Intel => match facts.msr {
            Access::Ready => Ok(SmiSource::IntelMsr),
            Access::Absent => Err(Unsupported::new(
                "the SMI count is read through /dev/cpu/*/msr, which is not there",
                "modprobe msr",
            )),
            Access::Denied => Err(Unsupported::new(
                "the SMI count is read through /dev/cpu/*/msr, which this process may not open",
                "run as root of the host; a container needs CAP_SYS_RAWIO and the device besides",
            )),
        },
        Vendor::Amd if facts.family < AMD_FIRST_FAMILY => {
            Err(Unsupported::new(format!("AMD processors of family {} do not count SMIs", facts.family), ""))
        }
        Vendor::Amd if !facts.pmu => Err(Unsupported::new(
            "the SMI count is a performance event, and this kernel has no driver for the processor's counters",
            "needs a kernel with CONFIG_PERF_EVENTS_AMD_CORE or CONFIG_CPU_SUP_AMD",
        )),
        Vendor::Amd if !facts.may_count_core => Err(Unsupported::new(
            "the SMI count is a performance event of a whole core, which this process may not open",
            "run as root of the host, give CAP_PERFMON, or sysctl kernel.perf_event_paranoid=0",
        )),
        Vendor::Amd => Ok(SmiSource::AmdEvent),
        Vendor::Other => Err(Unsupported::new("no SMI counter is known for this processor", "")),
    }
}

impl SmiFacts {
    /// Collects what the choice depends on. Opens /dev/cpu/N/msr and closes it again.
    pub fn read(root: &Root, identity: &Identity, cpu: CpuId) -> Self {
        let privilege = Privilege::read(root);
        SmiFacts {
            vendor: identity.vendor,
            family: identity.family,
            hypervisor: identity.hypervisor.clone(),
            msr: match crate::root::open(&msr_path(root, cpu)) {
                Ok(_) => Access::Ready,
                // A device file without a driver behind it is as good as absent.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENXIO | libc::ENODEV)) => {
                    Access::Absent
                }
                Err(_) => Access::Denied,
            },
            pmu: root.sys("bus/event_source/devices/cpu").is_dir(),
            may_count_core: privilege.capabilities.perfmon()
                || privilege.perf_event_paranoid.is_some_and(|paranoid| paranoid <= 0),
        }
    }
}

pub(crate) fn msr_path(root: &Root, cpu: CpuId) -> PathBuf {
    root.dev("cpu").join(cpu.to_string()).join("msr")
}

/// A running count of SMIs.
#[derive(Debug)]
pub struct SmiCounter {
    reader: Reader,
    at_open: u32,
    last: u32,
    total: u64,
}

#[derive(Debug)]
enum Reader {
    Msr { file: File, path: PathBuf },
    Event(PerfCounter),
}

impl SmiCounter {
    /// Opens the counter of a core and reads it once. The core should be a housekeeping one, see the module.
    ///
    /// # Errors
    /// [`Unsupported`] when this machine, this process or this kernel allows none.
    pub fn open(root: &Root, identity: &Identity, cpu: CpuId) -> Result<Self, Unsupported> {
        match choose(&SmiFacts::read(root, identity, cpu))? {
            SmiSource::IntelMsr => {
                let path = msr_path(root, cpu);
                let unsupported = |error: Error| {
                    let remedy = "the processor or the kernel's lockdown does not allow it";
                    Unsupported {
                        why: format!("the SMI count cannot be read: {error}"),
                        ..Unsupported::of(&error, remedy)
                    }
                };
                let open = crate::root::open(&path);
                let file = open.map_err(|source| unsupported(Error::Read { path: path.clone(), source }))?;
                let first = read_msr(&file, &path).map_err(unsupported)?;
                Ok(SmiCounter { reader: Reader::Msr { file, path }, at_open: first, last: first, total: 0 })
            }
            SmiSource::AmdEvent if !root.is_host() => {
                Err(Unsupported::new("a recorded tree has no performance events", ""))
            }
            SmiSource::AmdEvent => {
                let mut event = PerfCounter::open(Kind::Raw, AMD_SMI_RECEIVED, cpu, "SMIs (ls_smi_rx)")
                    .map_err(|error| Unsupported::of(&error, ""))?;
                event.read().map_err(|error| Unsupported::of(&error, ""))?;
                Ok(SmiCounter { reader: Reader::Event(event), at_open: 0, last: 0, total: 0 })
            }
        }
    }

    /// Which counter this is.
    pub fn source(&self) -> SmiSource {
        match self.reader {
            Reader::Msr { .. } => SmiSource::IntelMsr,
            Reader::Event(_) => SmiSource::AmdEvent,
        }
    }

    /// SMIs between power-on and [`SmiCounter::open`], modulo 2^32; `None` when this counter does not know.
    pub fn before_open(&self) -> Option<u32> {
        (self.source() == SmiSource::IntelMsr).then_some(self.at_open)
    }

    /// SMIs since [`SmiCounter::open`]. Call it from a thread tied to the counter's core.
    ///
    /// Intel's count has 32 bits; its wrap is followed as long as fewer than 2^32 SMIs come between two calls.
    ///
    /// # Errors
    /// When the core went offline, or the event lost its counter.
    pub fn read(&mut self) -> Result<u64, Error> {
        match &mut self.reader {
            Reader::Msr { file, path } => {
                let now = read_msr(file, path)?;
                self.total += u64::from(now.wrapping_sub(self.last));
                self.last = now;
                Ok(self.total)
            }
            Reader::Event(event) => event.read(),
        }
    }
}

/// The low half of the register; the high half is reserved.
pub(crate) fn read_msr(file: &File, path: &std::path::Path) -> Result<u32, Error> {
    let mut value = [0; 8];
    let read = file.read_exact_at(&mut value, INTEL_SMI_COUNT);
    read.map_err(|source| Error::Read { path: path.to_path_buf(), source })?;
    let [a, b, c, d, ..] = value;
    Ok(u32::from_le_bytes([a, b, c, d]))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn facts() -> SmiFacts {
        SmiFacts {
            vendor: Vendor::Intel,
            family: 6,
            hypervisor: None,
            msr: Access::Ready,
            pmu: true,
            may_count_core: true,
        }
    }

    #[test]
    fn every_row_of_the_choice() {
        let amd = SmiFacts { vendor: Vendor::Amd, family: 0x19, msr: Access::Absent, ..facts() };
        let guest = |name: &str| SmiFacts { hypervisor: Some(name.to_owned()), ..facts() };
        let rows = [
            (facts(), "MSR 0x34"),
            (SmiFacts { family: 19, ..facts() }, "MSR 0x34"),
            (SmiFacts { pmu: false, may_count_core: false, ..facts() }, "MSR 0x34"),
            (SmiFacts { msr: Access::Absent, ..facts() }, "modprobe msr"),
            (
                SmiFacts { msr: Access::Denied, ..facts() },
                "run as root of the host; a container needs CAP_SYS_RAWIO and the device besides",
            ),
            (SmiFacts { family: 15, ..facts() }, "Intel processors of family 15 do not count SMIs"),
            (SmiFacts { family: 5, ..facts() }, "Intel processors of family 5 do not count SMIs"),
            (guest("KVM"), "KVM shows a guest only the SMIs of its virtual firmware"),
            (guest("Hyper-V"), "this is a guest of Hyper-V, which hides"),
            (guest("unknown"), "this is a guest of a hypervisor, which hides"),
            (SmiFacts { hypervisor: Some("KVM".to_owned()), ..amd.clone() }, "this is a guest of KVM, which hides"),
            (SmiFacts { vendor: Vendor::Other, ..guest("KVM") }, "no SMI counter is known for this processor"),
            (amd.clone(), "event ls_smi_rx"),
            (SmiFacts { family: 0x15, ..amd.clone() }, "AMD processors of family 21 do not count SMIs"),
            (SmiFacts { pmu: false, ..amd.clone() }, "no driver for the processor's counters"),
            (SmiFacts { may_count_core: false, ..amd.clone() }, "kernel.perf_event_paranoid=0"),
            (SmiFacts { vendor: Vendor::Other, ..amd }, "no SMI counter is known for this processor"),
        ];
        for (facts, expected) in rows {
            let answer = match choose(&facts) {
                Ok(source) => source.label().to_owned(),
                Err(unsupported) => format!("{} | {}", unsupported.why, unsupported.remedy),
            };
            assert!(answer.contains(expected), "{facts:?}: {answer}");
        }
    }

    fn intel_tree(count: u64) -> (tempfile::TempDir, Root, Identity) {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(tree.path().join("dev/cpu/0")).unwrap();
        write_msr(&tree, count);
        std::fs::create_dir_all(tree.path().join("proc")).unwrap();
        let cpuinfo = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nflags\t\t: fpu tsc msr\n";
        std::fs::write(tree.path().join("proc/cpuinfo"), cpuinfo).unwrap();
        let root = Root::at(tree.path());
        let identity = Identity::read(&root);
        (tree, root, identity)
    }

    fn write_msr(tree: &tempfile::TempDir, count: u64) {
        let mut registers = vec![0; 0x34];
        registers.extend(count.to_le_bytes());
        std::fs::write(tree.path().join("dev/cpu/0/msr"), registers).unwrap();
    }

    #[test]
    fn the_count_goes_on_over_its_32_bits() {
        // The reserved high half must not matter.
        let (tree, root, identity) = intel_tree(0xdead_0000_ffff_fffe);
        let mut counter = SmiCounter::open(&root, &identity, CpuId(0)).unwrap();
        assert_eq!(counter.before_open(), Some(0xffff_fffe));
        assert_eq!(counter.read().unwrap(), 0);
        write_msr(&tree, 3);
        assert_eq!(counter.read().unwrap(), 5);
        write_msr(&tree, 4);
        assert_eq!(counter.read().unwrap(), 6);
    }

    #[test]
    fn a_core_without_a_device_file_names_the_module() {
        let (_tree, root, identity) = intel_tree(0);
        let unsupported = SmiCounter::open(&root, &identity, CpuId(1)).unwrap_err();
        assert_eq!(unsupported.remedy, "modprobe msr");
    }

    #[test]
    fn a_register_that_cannot_be_read_is_unsupported_and_names_the_file() {
        let (tree, root, identity) = intel_tree(0);
        std::fs::write(tree.path().join("dev/cpu/0/msr"), [0; 0x36]).unwrap();
        let unsupported = SmiCounter::open(&root, &identity, CpuId(0)).unwrap_err();
        assert!(unsupported.why.contains("dev/cpu/0/msr"), "{unsupported}");
    }
}
