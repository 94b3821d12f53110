//! The capabilities that a watch, an agent and a controller keep: a watch needs many to start and few afterwards; an agent keeps what its
//! orders need; a controller what hooks, `who` and steps on its own host need.
//!
//! A watch runs for months on a host with other users, and loads its programs into the kernel in a second. Capabilities for that second
//! are dropped after it, in all threads.

use crate::shed;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use surefoot_hostfs::privilege::{Capabilities, Standing, effective_user};
use surefoot_hostfs::{Error, Root};
use surefoot_model::Digits;

/// What a watch goes on needing, and for what.
const ALWAYS: &[&str] = &[
    // Programs for interrupts of which the first comes later are attached then.
    "CAP_BPF",
    "CAP_PERFMON",
    // Addresses of functions of modules that are loaded later.
    "CAP_SYSLOG",
];

/// More where raisers are named.
const FOR_RAISERS: &[&str] = &[
    // Which files other users' processes have mapped, and what their threads wait for.
    "CAP_SYS_PTRACE",
    // To open what is mapped by the kernel's own links.
    "CAP_CHECKPOINT_RESTORE",
    // Programs and libraries in folders of their users.
    "CAP_DAC_READ_SEARCH",
    // The child that reads names becomes a user that nobody is, in an empty folder; lists of symbols are opened as their user.
    "CAP_SETUID",
    "CAP_SETGID",
    "CAP_SYS_CHROOT",
    // To end that child, who is another user then.
    "CAP_KILL",
];

/// More where processes of other users are hidden (`hidepid`): threads have no names otherwise.
const FOR_HIDDEN: &[&str] = &["CAP_SYS_PTRACE"];

/// More to begin: a tracefs of its own, registers of SMIs, limits of memory, real-time priority, a page on a port below 1024, and the
/// limits themselves.
const TO_BEGIN: &[&str] = &[
    "CAP_SYS_ADMIN",
    "CAP_SYS_RAWIO",
    "CAP_IPC_LOCK",
    "CAP_SYS_RESOURCE",
    "CAP_SYS_NICE",
    "CAP_NET_BIND_SERVICE",
    "CAP_SETPCAP",
];

/// What the orders of a controller ask for on their host. Files of the kernel and of Surefoot are root's own, which needs nothing more.
const FOR_ORDERS: &[&str] = &[
    // systemd restarts units, and the kernel takes pages offline, for whoever has it.
    "CAP_SYS_ADMIN",
    // An interface is taken down and up, and asked by frames whether it answers.
    "CAP_NET_ADMIN",
    "CAP_NET_RAW",
    // The host is restarted.
    "CAP_SYS_BOOT",
];

/// What a controller keeps besides, the same as its unit grants.
const FOR_POLICIES: &[&str] = &[
    // Whether the process at the other end of a connection is one of root's.
    "CAP_SYS_PTRACE",
    // Policies, secrets and certificates of other users than root.
    "CAP_DAC_READ_SEARCH",
];

/// The number of the newest capability of which this rests: kernels before 5.9 ask for CAP_SYS_ADMIN in the place of the last
/// ones.
const NEWEST: u32 = 40;

/// The capabilities of a watch, from its options.
pub struct OfWatch {
    lasting: Capabilities,
}

impl OfWatch {
    /// Drops every capability that no part of a watch needs. `who` is whether raisers are named, `of_rooms` are the names of the
    /// capabilities that its rooms need, `written` the files and directories in which it writes.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn to_begin(root: &Root, who: bool, of_rooms: &[&str], written: &[PathBuf]) -> Result<Self, Error> {
        let mut lasting = Capabilities::of(ALWAYS);
        let mut add = |names: &[&str]| lasting.0 |= Capabilities::of(names).0;
        let adds = [
            (who, FOR_RAISERS),
            (true, of_rooms),
            (hides_processes(root), FOR_HIDDEN),
            // Root told it to write where another user is at home.
            (written.iter().any(|path| is_of_another(path)), &["CAP_DAC_OVERRIDE"][..]),
            (newest(root).is_none_or(|newest| newest < NEWEST), &["CAP_SYS_ADMIN"][..]),
        ];
        adds.into_iter().filter(|(is_needed, _)| *is_needed).for_each(|(_, names)| add(names));
        let kept = Capabilities(lasting.0 | Capabilities::of(TO_BEGIN).0);
        shed::keep_only(root, kept)?;
        Ok(OfWatch { lasting })
    }

    /// Drops the capabilities that only the start needed.
    ///
    /// # Errors
    /// When a thread keeps one.
    pub fn go_on(&self, root: &Root) -> Result<(), Error> {
        shed::keep_only(root, self.lasting)
    }
}

/// Drops every capability that an agent does not need: all of them, but for those of orders if it takes some. `state` is the directory
/// in which it writes.
///
/// # Errors
/// When the kernel refuses.
pub fn of_agent(root: &Root, takes_orders: bool, state: &Path) -> Result<(), Error> {
    let mut kept = Capabilities::of(if takes_orders { FOR_ORDERS } else { &[] });
    if is_of_another(state) {
        kept.0 |= Capabilities::of(&["CAP_DAC_OVERRIDE"]).0;
    }
    shed::keep_only(root, kept)
}

/// The capabilities of a controller outside a unit, from its options.
pub struct OfController {
    lasting: Option<Capabilities>,
}

impl OfController {
    /// Drops everything but what hooks and `who` need, what steps on its own host need if it has one, and what listening below port
    /// 1024 needs. `written` are the files that it writes: root may have named some in another user's directory. In a unit it keeps what
    /// the unit grants, because a drop-in may grant more for a hook; without capabilities there is nothing to give up.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn to_begin(root: &Root, has_own_host: bool, written: &[PathBuf]) -> Result<Self, Error> {
        let own = Standing::of_process(root, std::process::id())?;
        if own.held.0 == 0 || own.unit.is_some_and(|unit| unit.ends_with(".service")) {
            return Ok(OfController { lasting: None });
        }
        let mut lasting = Capabilities::of(FOR_POLICIES);
        lasting.0 |= Capabilities::of(if has_own_host { FOR_ORDERS } else { &[] }).0;
        if written.iter().any(|path| is_of_another(path)) {
            lasting.0 |= Capabilities::of(&["CAP_DAC_OVERRIDE"]).0;
        }
        // The limits themselves are given up with the last one.
        let kept = Capabilities(lasting.0 | Capabilities::of(&["CAP_NET_BIND_SERVICE", "CAP_SETPCAP"]).0);
        shed::keep_only(root, kept)?;
        Ok(OfController { lasting: Some(lasting) })
    }

    /// Drops the capabilities that only the start needed.
    ///
    /// # Errors
    /// When a thread keeps one.
    pub fn go_on(&self, root: &Root) -> Result<(), Error> {
        let Some(lasting) = self.lasting else { return Ok(()) };
        shed::keep_only(root, lasting)
    }
}

fn newest(root: &Root) -> Option<u32> {
    root.read(root.proc("sys/kernel/cap_last_cap")).ok()?.trim().digits()
}

/// Whether /proc hides processes of other users from those who may not trace them.
fn hides_processes(root: &Root) -> bool {
    let mounts = root.read(root.proc("self/mounts")).unwrap_or_default();
    let mut options = mounts.lines().filter_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        (words.get(2) == Some(&"proc")).then(|| words.get(3).copied().unwrap_or_default())
    });
    let is_shown = |option: &str| matches!(option, "hidepid=0" | "hidepid=off");
    options.any(|options| options.split(',').any(|option| option.starts_with("hidepid=") && !is_shown(option)))
}

/// Whether a file, or the nearest folder that is there, belongs to another user than this process is.
fn is_of_another(path: &Path) -> bool {
    let about = path.ancestors().find_map(|path| {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        path.metadata().ok()
    });
    about.is_some_and(|about| about.uid() != effective_user())
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_testkit::HostTree;

    #[test]
    fn hidden_processes_are_known_by_the_options_of_proc() {
        for (options, is_hidden) in [
            ("rw,nosuid", false),
            ("rw,hidepid=0", false),
            ("rw,hidepid=2", true),
            ("rw,hidepid=invisible,gid=5", true),
        ] {
            let tree = HostTree::new().file("proc/self/mounts", format!("proc /proc proc {options} 0 0\n"));
            assert_eq!(hides_processes(&Root::at(tree.path())), is_hidden, "{options}");
        }
    }

    #[test]
    fn a_name_of_a_capability_is_one_that_the_kernel_has() {
        for names in [ALWAYS, FOR_RAISERS, FOR_HIDDEN, TO_BEGIN, FOR_ORDERS, FOR_POLICIES] {
            assert_eq!(Capabilities::of(names).names().len(), names.len(), "{names:?}");
        }
    }

    #[test]
    fn the_nearest_folder_that_is_there_says_whose_a_new_file_will_be() {
        let home = tempfile::tempdir().unwrap();
        assert!(!is_of_another(&home.path().join("a/b/c")));
        assert!(!is_of_another(Path::new("no-such-folder/history.db")) || effective_user() != 0);
        if effective_user() != 0 {
            assert!(is_of_another(Path::new("/proc/1/none")));
        }
    }
}
