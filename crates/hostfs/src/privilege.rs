//! What this process may do, and what the kernel's settings allow.

use crate::{Error, Root};

/// The effective capabilities of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// Reads `CapEff` of /proc/self/status.
    ///
    /// # Errors
    /// When the file cannot be read or has no such line.
    pub fn read(root: &Root) -> Result<Self, Error> {
        let path = root.proc("self/status");
        let text = root.read(&path)?;
        let bits = field(&text, "CapEff:").and_then(|value| u64::from_str_radix(value, 16).ok());
        bits.map(Capabilities).ok_or_else(|| Error::malformed(path, 1, "the line CapEff is missing or no number"))
    }

    fn has(self, number: u32) -> bool {
        self.0 >> number & 1 == 1
    }

    /// CAP_IPC_LOCK: lock any amount of memory.
    pub fn ipc_lock(self) -> bool {
        self.has(14)
    }

    /// CAP_SYS_RAWIO: read model-specific registers.
    pub fn sys_rawio(self) -> bool {
        self.has(17)
    }

    /// CAP_SYS_ADMIN: everything that no other capability covers.
    pub fn sys_admin(self) -> bool {
        self.has(21)
    }

    /// CAP_SYS_NICE: real-time priorities, and tying other processes to cores.
    pub fn sys_nice(self) -> bool {
        self.has(23)
    }

    /// CAP_PERFMON, or CAP_SYS_ADMIN which includes it: performance events and tracing programs.
    pub fn perfmon(self) -> bool {
        self.has(38) || self.sys_admin()
    }

    /// CAP_BPF, or CAP_SYS_ADMIN which includes it: load eBPF programs.
    pub fn bpf(self) -> bool {
        self.has(39) || self.sys_admin()
    }
}

/// The value of a line `name: value` of a status file.
pub(crate) fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}
