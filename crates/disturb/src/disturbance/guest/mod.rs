//! A guest of QEMU that is stopped from outside: its virtual processors alone, or all of it with its clock.
//!
//! What was done to a guest must end with whoever did it, also when that is killed: [`Release`] says how, and the workload's
//! guard does it when nobody listens any more.

mod group;
mod monitor;

use crate::Fault;
use group::Group;
use monitor::Monitor;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use surefoot_hostfs::{Root, tasks};

/// Which guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Guest {
    /// The process of QEMU.
    Process(u32),
    /// The socket of its monitor (QMP).
    Monitor(PathBuf),
}

/// How it is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestStop {
    /// The freezer holds its virtual processors; its clock, devices and their interrupts go on.
    Freeze,
    /// Its monitor stops it, and its clock as well.
    Stop,
}

impl GuestStop {
    /// Both.
    pub const ALL: [GuestStop; 2] = [GuestStop::Freeze, GuestStop::Stop];

    /// The word in `--disturbance`.
    pub fn name(self) -> &'static str {
        match self {
            GuestStop::Freeze => "guest-freeze",
            GuestStop::Stop => "guest-stop",
        }
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            GuestStop::Freeze => {
                "the freezer holds the threads of the guest's virtual processors, while its clock, devices and their DMA go on; \
                 unlike an SMI they stop some 100 us apart, and no firmware runs"
            }
            GuestStop::Stop => {
                "the guest's monitor stops and continues all of it (QMP); unlike under an SMI its devices stop as well, and its \
                 clocks may lose the time of each stop"
            }
        }
    }
}

/// What lets a guest go on when nobody else does any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release(Way);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Way {
    Group(Group),
    Monitor(PathBuf),
}

impl Release {
    /// For the guard.
    pub(crate) fn told(&self) -> serde_json::Value {
        match &self.0 {
            Way::Group(group) => group.told(),
            Way::Monitor(path) => serde_json::json!({ "monitor": path.display().to_string() }),
        }
    }

    /// What [`Release::told`] told.
    pub(crate) fn heard(told: &serde_json::Value) -> Option<Release> {
        let monitor = told.get("monitor").and_then(|path| path.as_str());
        let way = monitor.map(|path| Way::Monitor(path.into())).or_else(|| Group::heard(told).map(Way::Group));
        way.map(Release)
    }

    /// The guest goes on, and nothing of it is where it was put.
    pub(crate) fn release(&self) {
        match &self.0 {
            Way::Group(group) => group.dissolve(),
            Way::Monitor(path) => {
                let root = Root::host();
                let _ = Monitor::open(path, &root, None).and_then(|mut monitor| monitor.tell("cont"));
            }
        }
    }
}

/// A guest that can be stopped.
#[derive(Debug)]
pub(super) enum Held {
    /// By the freezer.
    Frozen(Group),
    /// By its monitor.
    Stopped(PathBuf, Mutex<Monitor>),
}

impl Held {
    /// Finds the guest, which must be the person's own; root may stop anybody's.
    ///
    /// # Errors
    /// There is none, it is another user's, or this host cannot stop it so.
    pub(super) fn find(guest: &Guest, how: GuestStop, root: &Root, person: u32) -> Result<Held, Fault> {
        let refused = |why: String| Err(Fault::Refused(why));
        let (pid, monitor) = match guest {
            Guest::Process(pid) if how == GuestStop::Stop => {
                return refused(format!(
                    "guest-stop asks the guest's monitor: name its socket (qmp=SOCKET) instead of pid={pid}, and start QEMU with \
                     -qmp unix:SOCKET,server=on,wait=off"
                ));
            }
            Guest::Process(pid) => (*pid, None),
            Guest::Monitor(path) => {
                let monitor = Monitor::open(path, root, Some(person))?;
                (monitor.pid(), Some((path.clone(), monitor)))
            }
        };
        is_of(person, pid, root)?;
        match (how, monitor) {
            (GuestStop::Freeze, Some((_, mut monitor))) => {
                Ok(Held::Frozen(Group::find(root, pid, monitor.processors()?)?))
            }
            (GuestStop::Freeze, None) => Ok(Held::Frozen(Group::find(root, pid, processors(root, pid)?)?)),
            (GuestStop::Stop, Some((path, monitor))) => Ok(Held::Stopped(path, Mutex::new(monitor))),
            // Refused above.
            (GuestStop::Stop, None) => refused("guest-stop needs the guest's monitor".into()),
        }
    }

    pub(super) fn release(&self) -> Release {
        Release(match self {
            Held::Frozen(group) => Way::Group(group.clone()),
            Held::Stopped(path, _) => Way::Monitor(path.clone()),
        })
    }

    /// Before the first stop of a run.
    pub(super) fn begin(&self) -> Result<(), Fault> {
        match self {
            Held::Frozen(group) => group.gather(),
            Held::Stopped(..) => Ok(()),
        }
    }

    /// It stands still, or goes on.
    pub(super) fn switch(&self, stands: bool) -> Result<(), Fault> {
        match self {
            Held::Frozen(group) => group.freeze(stands),
            Held::Stopped(_, monitor) => {
                let mut monitor = monitor.lock().unwrap_or_else(PoisonError::into_inner);
                monitor.tell(if stands { "stop" } else { "cont" })
            }
        }
    }

    /// After the last stop of a run.
    pub(super) fn end(&self) {
        match self {
            Held::Frozen(group) => group.dissolve(),
            Held::Stopped(..) => {
                let _ = self.switch(false);
            }
        }
    }
}

/// Root may stop anybody's guest, everybody else his own.
fn is_of(person: u32, pid: u32, root: &Root) -> Result<(), Fault> {
    match tasks::user(root, pid) {
        None => Err(Fault::Refused(format!("there is no process {pid}: name that of QEMU"))),
        Some(owner) if person == 0 || owner == person => Ok(()),
        Some(owner) => Err(Fault::Refused(format!(
            "process {pid} is user {owner}'s, and you are user {person}: only your own guests are stopped"
        ))),
    }
}

/// The threads that QEMU named as its virtual processors: `CPU 0/KVM`, `CPU 1/TCG`, or `ALL CPUs/TCG`.
fn processors(root: &Root, pid: u32) -> Result<Vec<u32>, Fault> {
    let is_processor = |tid: &u32| {
        let name = root.read(root.proc(format!("{pid}/task/{tid}/comm"))).unwrap_or_default();
        name.starts_with("ALL CPUs/") || (name.starts_with("CPU ") && name.contains('/'))
    };
    let threads: Vec<u32> = tasks::threads(root, pid).into_iter().filter(is_processor).collect();
    if threads.is_empty() {
        return Err(Fault::Refused(format!(
            "process {pid} has no thread that is named as QEMU names virtual processors: start it with -name \
             GUEST,debug-threads=on, or name its monitor (qmp=SOCKET)"
        )));
    }
    Ok(threads)
}

/// A folder or file by its name for a message.
fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_testkit::HostTree;

    fn tree(name: &str) -> HostTree {
        HostTree::new()
            .file("proc/70/status", "Name:\tqemu\nUid:\t1000\t1000\t1000\t1000\n")
            .file("proc/70/task/70/comm", "qemu\n")
            .file("proc/70/task/71/comm", name)
            .file("proc/70/task/72/comm", "IO mon_iothread\n")
    }

    #[test]
    fn virtual_processors_are_known_by_the_names_that_qemu_gives_them() {
        for name in ["CPU 0/KVM\n", "CPU 11/TCG\n", "ALL CPUs/TCG\n"] {
            let tree = tree(name);
            assert_eq!(processors(&Root::at(tree.path()), 70).unwrap(), [71], "{name}");
        }
        let tree = tree("CPU hog\n");
        let error = processors(&Root::at(tree.path()), 70).unwrap_err().to_string();
        assert!(error.contains("debug-threads=on"), "{error}");
    }

    #[test]
    fn a_guest_of_somebody_else_is_refused() {
        let tree = tree("CPU 0/KVM\n");
        let root = Root::at(tree.path());
        assert!(is_of(1000, 70, &root).is_ok() && is_of(0, 70, &root).is_ok());
        let error = is_of(1001, 70, &root).unwrap_err().to_string();
        assert!(error.contains("is user 1000's, and you are user 1001"), "{error}");
        assert!(is_of(0, 7, &root).unwrap_err().to_string().contains("there is no process 7"));
        let found = Held::find(&Guest::Process(70), GuestStop::Stop, &root, 1000);
        assert!(found.unwrap_err().to_string().contains("qmp=SOCKET"));
    }

    #[test]
    fn what_releases_a_guest_is_heard_as_it_was_told() {
        for release in [Release(Way::Monitor("/run/guest".into())), Release(Way::Group(Group::example()))] {
            assert_eq!(Release::heard(&release.told()), Some(release));
        }
        for nothing in ["null", "{}", r#"{"monitor":7}"#, r#"{"version":3,"path":"/x"}"#] {
            assert_eq!(Release::heard(&serde_json::from_str(nothing).unwrap()), None);
        }
    }
}
