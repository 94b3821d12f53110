//! What this process may do, and what the kernel's settings allow.

use crate::{Error, Root};
use surefoot_model::Digits;

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

    /// Those of these names; a name that no kernel of this release knows is nothing.
    pub fn of(names: &[&str]) -> Self {
        let number = |name: &&str| NAMES.iter().position(|known| known == name);
        Capabilities(names.iter().filter_map(number).fold(0, |all, number| all | 1 << number))
    }

    /// Their names, as capabilities(7) has them; a number without one as the number.
    pub fn names(self) -> Vec<String> {
        let name = |number: u32| match NAMES.get(number as usize) {
            Some(name) => (*name).to_owned(),
            None => number.to_string(),
        };
        (0..u64::BITS).filter(|&number| self.has(number)).map(name).collect()
    }

    fn has(self, number: u32) -> bool {
        self.0 >> number & 1 == 1
    }

    /// CAP_NET_ADMIN: configure, reset and recover network interfaces.
    pub fn net_admin(self) -> bool {
        self.has(12)
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

/// The names of capabilities by number, <linux/capability.h>.
const NAMES: [&str; 41] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_DAC_READ_SEARCH",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETPCAP",
    "CAP_LINUX_IMMUTABLE",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_BROADCAST",
    "CAP_NET_ADMIN",
    "CAP_NET_RAW",
    "CAP_IPC_LOCK",
    "CAP_IPC_OWNER",
    "CAP_SYS_MODULE",
    "CAP_SYS_RAWIO",
    "CAP_SYS_CHROOT",
    "CAP_SYS_PTRACE",
    "CAP_SYS_PACCT",
    "CAP_SYS_ADMIN",
    "CAP_SYS_BOOT",
    "CAP_SYS_NICE",
    "CAP_SYS_RESOURCE",
    "CAP_SYS_TIME",
    "CAP_SYS_TTY_CONFIG",
    "CAP_MKNOD",
    "CAP_LEASE",
    "CAP_AUDIT_WRITE",
    "CAP_AUDIT_CONTROL",
    "CAP_SETFCAP",
    "CAP_MAC_OVERRIDE",
    "CAP_MAC_ADMIN",
    "CAP_SYSLOG",
    "CAP_WAKE_ALARM",
    "CAP_BLOCK_SUSPEND",
    "CAP_AUDIT_READ",
    "CAP_PERFMON",
    "CAP_BPF",
    "CAP_CHECKPOINT_RESTORE",
];

/// How the kernel limits the system calls of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Seccomp {
    /// Not at all, or it does not say.
    #[default]
    None,
    /// To four.
    Strict,
    /// By a filter.
    Filter,
}

/// What a process, or one of its threads, runs with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Standing {
    /// The effective user.
    pub uid: Option<u32>,
    /// What it can do now: the effective set.
    pub capabilities: Capabilities,
    /// What it may take up, too: of the permitted, inheritable and ambient sets as well.
    pub held: Capabilities,
    /// Whether programs that it starts gain nothing by their files.
    pub no_new_privileges: bool,
    /// Whether its system calls are limited.
    pub seccomp: Seccomp,
    /// The systemd unit that it belongs to.
    pub unit: Option<String>,
}

impl Standing {
    /// All threads of a process together: what any of them may, and only the limits that hold for all.
    ///
    /// # Errors
    /// When the process is gone or hidden.
    pub fn of_process(root: &Root, pid: u32) -> Result<Self, Error> {
        let mut all: Option<Standing> = None;
        for thread in threads(root, &pid.to_string())? {
            // One that has ended since does nothing any more.
            let Ok(one) = Standing::read(root, &format!("{pid}/task/{thread}")) else { continue };
            match &mut all {
                None => all = Some(one),
                Some(all) => {
                    all.capabilities.0 |= one.capabilities.0;
                    all.held.0 |= one.held.0;
                    all.no_new_privileges &= one.no_new_privileges;
                    if one.seccomp == Seccomp::None {
                        all.seccomp = Seccomp::None;
                    }
                }
            }
        }
        let mut all = match all {
            Some(all) => all,
            None => Standing::read(root, &pid.to_string())?,
        };
        all.unit = root.read(root.proc(format!("{pid}/cgroup"))).ok().and_then(|text| unit(&text));
        Ok(all)
    }

    /// Of one thread or process: its folder of /proc, such as `self/task/7`.
    ///
    /// # Errors
    /// When the file `status` cannot be read or has no capabilities.
    pub fn read(root: &Root, folder: &str) -> Result<Self, Error> {
        let path = root.proc(folder).join("status");
        let text = root.read(&path)?;
        let set = |name: &str| {
            field(&text, name).and_then(|value| value.hex_digits::<u64>()).map(Capabilities).unwrap_or_default()
        };
        let capabilities =
            capabilities(&text).ok_or_else(|| Error::malformed(path, 1, "the line CapEff is missing or no number"))?;
        let held = ["CapPrm:", "CapInh:", "CapAmb:"].iter().fold(capabilities.0, |all, name| all | set(name).0);
        Ok(Standing {
            uid: field(&text, "Uid:").and_then(|ids| ids.split_ascii_whitespace().nth(1)?.digits()),
            capabilities,
            held: Capabilities(held),
            no_new_privileges: field(&text, "NoNewPrivs:") == Some("1"),
            seccomp: match field(&text, "Seccomp:") {
                Some("1") => Seccomp::Strict,
                None | Some("0") => Seccomp::None,
                // A mode that is not known restricts in ways that are not known.
                Some(_) => Seccomp::Filter,
            },
            unit: None,
        })
    }
}

/// The numbers of a process's threads: its folder of /proc, such as `self`.
///
/// # Errors
/// When the folder cannot be listed.
pub fn threads(root: &Root, pid: &str) -> Result<Vec<u32>, Error> {
    let path = root.proc(pid).join("task");
    let entries = std::fs::read_dir(&path).map_err(|source| Error::Read { path, source })?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.digits()).collect())
}

/// The innermost unit in the text of /proc/PID/cgroup.
fn unit(text: &str) -> Option<String> {
    let path = text.lines().filter_map(|line| line.splitn(3, ':').nth(2)).find(|path| path.len() > 1)?;
    let is_unit = |part: &&str| part.ends_with(".service") || part.ends_with(".scope");
    path.rsplit('/').find(is_unit).map(str::to_owned)
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
        let setting = |name: &str| root.read(root.proc("sys/kernel").join(name)).ok()?.trim().signed_digits::<i32>();
        Privilege {
            // Real, effective, saved, file system.
            effective_uid: field(&status, "Uid:").and_then(|ids| ids.split_ascii_whitespace().nth(1)?.digits()),
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

    /// What gives this process what these capabilities allow. Becoming root helps only a process that is not root yet: one in a
    /// container may be root without them, or root of a user namespace, whose capabilities the kernel does not count for these.
    pub fn remedy(&self, names: &[&str]) -> String {
        if self.initial_user_namespace == Some(false) {
            return "start Surefoot as root outside the user namespace".into();
        }
        if self.effective_uid != Some(0) {
            return format!("run as root, or with {}", names.join(" and "));
        }
        let lacks: Vec<&str> =
            names.iter().copied().filter(|name| self.capabilities.0 & Capabilities::of(&[name]).0 == 0).collect();
        if lacks.is_empty() {
            return "root may not do it here: look at the security module, and at the seccomp profile of the container"
                .into();
        }
        format!(
            "this process is root without {}: grant it (docker: --cap-add; systemd: CapabilityBoundingSet=)",
            lacks.join(" and ")
        )
    }
}

/// [`Privilege::remedy`] for this process.
pub fn remedy(names: &[&str]) -> String {
    Privilege::read(&Root::host()).remedy(names)
}

/// The initial user namespace maps all 2^32 - 1 users onto themselves.
fn maps_everybody(uid_map: &str) -> bool {
    uid_map.split_ascii_whitespace().eq(["0", "0", "4294967295"])
}

fn capabilities(status: &str) -> Option<Capabilities> {
    field(status, "CapEff:").and_then(|value| value.hex_digits::<u64>()).map(Capabilities)
}

/// The value of a line `name: value` of a status file.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_and_numbers_of_capabilities_belong_together() {
        let some = Capabilities::of(&["CAP_CHOWN", "CAP_SYS_ADMIN", "CAP_CHECKPOINT_RESTORE", "CAP_NONE"]);
        assert_eq!(some.0, 1 | 1 << 21 | 1 << 40);
        assert_eq!(some.names(), ["CAP_CHOWN", "CAP_SYS_ADMIN", "CAP_CHECKPOINT_RESTORE"]);
        assert!(some.sys_admin() && !some.ipc_lock() && Capabilities::of(&["CAP_IPC_LOCK"]).ipc_lock());
        assert_eq!(Capabilities(1 << 63).names(), ["63"]);
    }

    #[test]
    fn a_process_stands_as_the_one_of_its_threads_that_may_most() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("proc/7");
        let status = |thread: u32, effective: &str, permitted: &str, fixed: u8, seccomp: u8| {
            let path = folder.join(format!("task/{thread}"));
            std::fs::create_dir_all(&path).unwrap();
            let text = format!(
                "Uid:\t0\t0\t0\t0\nCapInh:\t0\nCapPrm:\t{permitted}\nCapEff:\t{effective}\nNoNewPrivs:\t{fixed}\nSeccomp:\t{seccomp}\n"
            );
            std::fs::write(path.join("status"), text).unwrap();
        };
        status(7, "20", "20", 1, 2);
        status(8, "0", "21", 1, 2);
        std::fs::write(folder.join("cgroup"), "0::/system.slice/surefoot.service/inner\n").unwrap();
        let root = Root::at(home.path());
        let all = Standing::of_process(&root, 7).unwrap();
        let unit = Some("surefoot.service".to_owned());
        let (capabilities, held) = (Capabilities(0x20), Capabilities(0x21));
        let no_new_privileges = true;
        assert_eq!(
            all,
            Standing { uid: Some(0), capabilities, held, no_new_privileges, seccomp: Seccomp::Filter, unit }
        );
        status(9, "0", "0", 0, 0);
        let all = Standing::of_process(&root, 7).unwrap();
        assert_eq!((all.no_new_privileges, all.seccomp), (false, Seccomp::None));
        assert!(Standing::of_process(&root, 8).is_err());
        assert_eq!(super::unit("12:cpu:/\n0::/user.slice/session-3.scope\n"), Some("session-3.scope".to_owned()));
        assert_eq!(super::unit("0::/\n"), None);
    }

    /// Becoming root is no remedy for root: in a container it lacks a capability, in a user namespace none of its own counts.
    #[test]
    fn a_remedy_fits_who_is_root_already() {
        let names = &["CAP_BPF", "CAP_PERFMON"];
        let of = |uid, initial, held: &[&str]| {
            let capabilities = Capabilities::of(held);
            Privilege {
                effective_uid: Some(uid),
                initial_user_namespace: Some(initial),
                capabilities,
                ..Privilege::default()
            }
            .remedy(names)
        };
        assert_eq!(of(1000, true, &[]), "run as root, or with CAP_BPF and CAP_PERFMON");
        assert_eq!(of(0, false, names), "start Surefoot as root outside the user namespace");
        assert_eq!(of(1000, false, &[]), "start Surefoot as root outside the user namespace");
        assert!(of(0, true, &["CAP_BPF"]).starts_with("this process is root without CAP_PERFMON: grant it (docker"));
        assert!(of(0, true, names).starts_with("root may not do it here"));
    }
}
