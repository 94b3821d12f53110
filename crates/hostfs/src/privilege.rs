//! What this process may do, and what the kernel's settings allow.

use crate::{Error, Root};

/// The user as whom this process acts.
pub fn effective_user() -> u32 {
    // SAFETY: the call takes nothing, touches no memory of ours and always succeeds.
    unsafe { libc::geteuid() }
}

/// The effective capabilities of this process, as the kernel's bit mask.
///
/// In a user namespace of a container they count for less than they say, see [`Privilege::initial_user_namespace`].
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
        capabilities(&text).ok_or_else(|| Error::malformed(path, 1, "the line CapEff is missing or no number"))
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

/// How far the kernel protects itself against root (`lockdown`, usually set by Secure Boot).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lockdown {
    /// Not at all.
    None,
    /// Root must not change the kernel: no MSR writes, no unsigned modules, no function-entry programs.
    Integrity,
    /// Root must not read the kernel either: no eBPF that reads kernel memory, no tracefs.
    Confidentiality,
}

impl Lockdown {
    /// Reads the text of /sys/kernel/security/lockdown, where the mode in force stands in brackets.
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once('[')?.1.split_once(']')?.0 {
            "none" => Some(Lockdown::None),
            "integrity" => Some(Lockdown::Integrity),
            "confidentiality" => Some(Lockdown::Confidentiality),
            _ => None,
        }
    }

    /// The kernel's own word.
    pub fn label(self) -> &'static str {
        match self {
            Lockdown::None => "none",
            Lockdown::Integrity => "integrity",
            Lockdown::Confidentiality => "confidentiality",
        }
    }
}

/// Everything that decides which sources may be used. What a file does not say is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Privilege {
    /// The effective user; 0 is root.
    pub effective_uid: Option<u32>,
    /// The effective capabilities; none when they cannot be read.
    pub capabilities: Capabilities,
    /// Whether user 0 here is root of the whole machine; in a user namespace the capabilities open no eBPF.
    pub initial_user_namespace: Option<bool>,
    /// The lockdown mode; `None` when the kernel has no lockdown or securityfs is not mounted.
    pub lockdown: Option<Lockdown>,
    /// `kernel.unprivileged_bpf_disabled`: 0 allows everybody some programs; 1 and 2 ask for CAP_BPF.
    pub unprivileged_bpf_disabled: Option<i32>,
    /// `kernel.perf_event_paranoid`: above 0 whole-core events ask for CAP_PERFMON; -1 allows all.
    pub perf_event_paranoid: Option<i32>,
    /// `kernel.kptr_restrict`: 0 shows addresses to CAP_SYSLOG, 1 hides more, 2 hides all.
    pub kptr_restrict: Option<i32>,
    /// Whether the kernel describes its own types (/sys/kernel/btf/vmlinux), which portable eBPF needs.
    pub btf: bool,
}

impl Privilege {
    /// Reads it all. Files that are missing or unreadable leave their part unknown.
    pub fn read(root: &Root) -> Self {
        let status = root.read(root.proc("self/status")).unwrap_or_default();
        let setting = |name: &str| root.read(root.proc("sys/kernel").join(name)).ok()?.trim().parse::<i32>().ok();
        Privilege {
            // Real, effective, saved, file system.
            effective_uid: field(&status, "Uid:").and_then(|ids| ids.split_ascii_whitespace().nth(1)?.parse().ok()),
            capabilities: capabilities(&status).unwrap_or_default(),
            initial_user_namespace: root.read(root.proc("self/uid_map")).ok().map(|map| maps_everybody(&map)),
            lockdown: root.read(root.sys("kernel/security/lockdown")).ok().and_then(|text| Lockdown::parse(&text)),
            unprivileged_bpf_disabled: setting("unprivileged_bpf_disabled"),
            perf_event_paranoid: setting("perf_event_paranoid"),
            kptr_restrict: setting("kptr_restrict"),
            btf: root.sys("kernel/btf/vmlinux").symlink_metadata().is_ok(),
        }
    }

    /// Whether this process is root of the whole machine.
    pub fn is_root(&self) -> bool {
        self.effective_uid == Some(0) && self.initial_user_namespace != Some(false)
    }
}

/// The initial user namespace maps all 2^32 - 1 users onto themselves.
fn maps_everybody(uid_map: &str) -> bool {
    uid_map.split_ascii_whitespace().eq(["0", "0", "4294967295"])
}

fn capabilities(status: &str) -> Option<Capabilities> {
    field(status, "CapEff:").and_then(|value| u64::from_str_radix(value, 16).ok()).map(Capabilities)
}

/// The value of a line `name: value` of a status file.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}
