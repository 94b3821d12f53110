//! The port of the power management (APM) by which an operating system speaks to the firmware of a PC.
//!
//! A byte that is written to port 0xB2 of Intel's and AMD's chipsets, and of QEMU's emulated ones, raises a system-management
//! interrupt (Intel, I/O Controller Hub 9 datasheet, 13.7.1). Writing is the caller's; opening changes nothing.

use crate::{Root, Unsupported, smi};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use surefoot_model::CpuId;

/// The command port, at which a write raises an SMI.
const COMMAND_PORT: u64 = 0xb2;

/// The port, opened for writing.
#[derive(Debug)]
pub struct ApmPort(File);

impl ApmPort {
    /// Opens it by the kernel's device of all ports.
    ///
    /// # Errors
    /// [`Unsupported`] where the kernel has no such device or this process may not write to it.
    pub fn open(root: &Root) -> Result<Self, Unsupported> {
        let path = root.dev("port");
        match OpenOptions::new().write(true).custom_flags(libc::O_NOFOLLOW).open(&path) {
            Ok(file) => Ok(ApmPort(file)),
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENXIO | libc::ENODEV)) => {
                Err(Unsupported::new(
                    format!(
                        "{} is not there: this kernel or machine has no ports that a process may write to",
                        path.display()
                    ),
                    "needs a PC and a kernel with CONFIG_DEVPORT (kernels for clouds lack it)",
                ))
            }
            Err(error) => Err(Unsupported::because(
                &error,
                format!("{} may not be written to: {error}", path.display()),
                format!("{}, on a kernel that is not locked down", crate::privilege::remedy(&["CAP_SYS_RAWIO"])),
            )),
        }
    }

    /// The same port once more, for another thread.
    ///
    /// # Errors
    /// When this process has too many descriptors.
    pub fn again(&self) -> io::Result<Self> {
        self.0.try_clone().map(ApmPort)
    }

    /// Raises an SMI with this command.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn raise(&self, command: u8) -> io::Result<()> {
        self.0.write_all_at(&[command], COMMAND_PORT)
    }
}

/// How many SMIs a core has had since power-on, modulo 2^32 (MSR 0x34); `None` where it does not tell. Unlike [`smi::SmiCounter`] this also
/// asks in a guest, whose own firmware's SMIs are counted there. Asking another core interrupts it.
pub fn smi_count(root: &Root, cpu: CpuId) -> Option<u32> {
    let path = smi::msr_path(root, cpu);
    smi::read_msr(&crate::root::open(&path).ok()?, &path).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_command_lands_at_its_port_and_absence_is_said() {
        let tree = tempfile::tempdir().unwrap();
        let root = Root::at(tree.path());
        let unsupported = ApmPort::open(&root).unwrap_err();
        assert!(unsupported.why.contains("dev/port is not there"), "{unsupported}");
        std::fs::create_dir_all(tree.path().join("dev/cpu/1")).unwrap();
        std::fs::write(tree.path().join("dev/port"), []).unwrap();
        ApmPort::open(&root).unwrap().again().unwrap().raise(0x5a).unwrap();
        let written = std::fs::read(tree.path().join("dev/port")).unwrap();
        assert_eq!((written.len(), written.last()), (0xb3, Some(&0x5a)));
        assert_eq!(smi_count(&root, CpuId(1)), None);
        let mut registers = vec![0; 0x34];
        registers.extend(7u64.to_le_bytes());
        std::fs::write(tree.path().join("dev/cpu/1/msr"), registers).unwrap();
        assert_eq!(smi_count(&root, CpuId(1)), Some(7));
    }
}
