//! What the kernel's programs are told in namespaces, and the numbers of tasks: those of the programs, and those that /proc shows and
//! users type, which differ in a PID namespace.
//!
//! Nothing that a program counted under a number is looked up in /proc by it but through [`in_proc`]: there it may be another task's.

use crate::Error;
use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use surefoot_hostfs::namespaces::{Kind, Namespace, Namespaces, Offsets};
use surefoot_hostfs::{Root, Unsupported};
use surefoot_model::{Capability, CapabilityState};
use surefoot_probes::{Flavour, Options, TaskNumbers, TaskNumbersReader, Workload};

/// The list of tasks is read again when it is so old and a kernel's number is not on it: most that are not are outside the
/// namespace.
const OLD: Duration = Duration::from_millis(100);

/// And when it is so old: numbers are given again, to tasks outside as well.
const STALE: Duration = Duration::from_secs(2);

/// What helps where numbers are in the way.
pub const REMEDY: &str =
    "start Surefoot in the PID namespace of the host (docker and podman: --pid=host; Kubernetes: hostPID: true)";

/// How this process's numbers stand to the kernel's.
enum Numbering {
    Same,
    Translated(Mutex<List>),
    Unknown(Unsupported),
}

/// Tells all tasks of the namespace.
type Reader = Box<dyn Fn() -> Result<Vec<TaskNumbers>, surefoot_probes::Error> + Send>;

/// All tasks of the namespace, as they were last.
struct List {
    reader: Reader,
    /// When it was tried last, and whether that worked.
    read: Option<(Instant, bool)>,
    /// The kernel's number by the namespace's, and back.
    kernels: HashMap<u32, u32>,
    own: HashMap<u32, u32>,
}

impl List {
    fn new(reader: Reader) -> Self {
        List { reader, read: None, kernels: HashMap::new(), own: HashMap::new() }
    }

    /// Looks a number up; where it is not there, in a list that is no older than this. `None` where the list cannot be read.
    fn look(&mut self, old: Duration, find: impl Fn(&Self) -> Option<u32>) -> Option<Option<u32>> {
        let old = if find(self).is_some() { STALE } else { old };
        if self.read.is_none_or(|(read, _)| read.elapsed() >= old) {
            let tasks = (self.reader)();
            self.read = Some((Instant::now(), tasks.is_ok()));
            let tasks = tasks.unwrap_or_default();
            self.kernels = tasks.iter().map(|task| (task.tid, task.kernels_tid)).collect();
            self.own = tasks.iter().map(|task| (task.kernels_tid, task.tid)).collect();
        }
        let is_read = self.read.is_some_and(|(_, is_read)| is_read);
        is_read.then(|| find(self))
    }
}

/// What /proc calls a task that the kernel calls by a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InProc {
    As(u32),
    /// It is outside of the PID namespace that /proc shows, or has ended.
    Outside,
    NotKnown,
}

fn numbering() -> &'static Numbering {
    static NUMBERING: OnceLock<Numbering> = OnceLock::new();
    NUMBERING.get_or_init(|| numbering_in(Namespaces::of_this_process()))
}

fn numbering_in(namespaces: &Namespaces) -> Numbering {
    let unknown = |why: String| Numbering::Unknown(Unsupported::new(why, REMEDY));
    match namespaces.place(Kind::Pid) {
        Namespace::Initial if namespaces.proc_is_ours() => return Numbering::Same,
        Namespace::Unknown => return unknown("/proc does not tell in which PID namespace this process is".into()),
        _ if !namespaces.proc_is_ours() => {
            let why = "/proc shows the numbers of another PID namespace than this process is in";
            return Numbering::Unknown(Unsupported::new(
                why,
                format!("mount a /proc of this namespace (unshare --mount-proc), or {REMEDY}"),
            ));
        }
        _ => {}
    }
    match TaskNumbersReader::open() {
        Ok(reader) => {
            let mut list = List::new(Box::new(move || reader.read()));
            let own = std::process::id();
            match list.look(OLD, |list| list.kernels.get(&own).copied()).flatten() {
                Some(_) => Numbering::Translated(Mutex::new(list)),
                None => unknown("this process is in a PID namespace, and the kernel does not list its tasks".into()),
            }
        }
        Err(error) => unknown(format!(
            "this process is in a PID namespace, and the kernel does not tell its programs' numbers from those in it ({error})"
        )),
    }
}

/// What the kernel calls a task that is called so in /proc; `None` where there is none, or it is not known.
pub(crate) fn of_kernel(tid: u32) -> Option<u32> {
    match numbering() {
        Numbering::Same => Some(tid),
        Numbering::Translated(list) => list
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .look(Duration::ZERO, |list| list.kernels.get(&tid).copied())
            .flatten(),
        Numbering::Unknown(_) => None,
    }
}

/// What /proc calls a task that the kernel calls so.
pub(crate) fn in_proc(kernels: u32) -> InProc {
    match numbering() {
        Numbering::Same => InProc::As(kernels),
        Numbering::Translated(list) => {
            let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
            match list.look(OLD, |list| list.own.get(&kernels).copied()) {
                Some(found) => found.map_or(InProc::Outside, InProc::As),
                None => InProc::NotKnown,
            }
        }
        Numbering::Unknown(_) => InProc::NotKnown,
    }
}

/// What the programs are told of this process's namespaces: `wanted` is the kind of tracepoint, `workload` as the user named it.
///
/// # Errors
/// [`Error::Probes`] where the programs cannot be used here, or nobody knows whom they would count;
/// [`Error::Option`] for a process that is not there.
pub(crate) fn options(wanted: Option<Flavour>, workload: &Workload) -> Result<Options, Error> {
    let namespaces = Namespaces::of_this_process();
    if let Namespace::Other(_) = namespaces.place(Kind::User) {
        return Err(refused(&Unsupported::new(
            "this process is in a user namespace, whose root may not load eBPF programs",
            "start Surefoot as root outside the user namespace",
        )));
    }
    let clock_ahead_ns = namespaces.offsets().map_err(|missing| refused(&missing))?.monotonic_ns;
    let (own, tracefs) = (std::process::id(), crate::tracepoints::tracefs());
    let options =
        Options { flavour: wanted, clock_ahead_ns, tracefs, workload: workload.clone(), ..Options::default() };
    match (numbering(), wanted) {
        (Numbering::Same, _) => Ok(options),
        (Numbering::Unknown(missing), _) => Err(refused(missing)),
        (Numbering::Translated(_), Some(Flavour::Plain)) => Err(refused(&Unsupported::new(
            "plain tracepoints know kernel threads by number, and this PID namespace does not show them",
            REMEDY,
        ))),
        (Numbering::Translated(_), _) => {
            let workload = match workload {
                Workload::Processes(ids) => Workload::Processes(of_workload(ids)?),
                other => other.clone(),
            };
            let own_pid = of_kernel(own).unwrap_or(u32::MAX);
            Ok(Options { flavour: Some(Flavour::Btf), own_pid, workload, ..options })
        }
    }
}

fn refused(missing: &Unsupported) -> Error {
    let Unsupported { why, remedy, .. } = missing.clone();
    Error::Probes(surefoot_probes::Error::Unsupported { why, remedy })
}

/// The rows of `surefoot status`: in which namespaces this process is, and what that takes away.
pub(crate) fn rows(namespaces: &Namespaces) -> Vec<Capability> {
    Kind::ALL.into_iter().map(|kind| row(namespaces, kind)).collect()
}

fn row(namespaces: &Namespaces, kind: Kind) -> Capability {
    use CapabilityState::{Reduced, Unsupported as No, Works};
    let place = namespaces.place(kind);
    let (state, what, remedy) = match (kind, place) {
        (Kind::Pid, Namespace::Initial) if !namespaces.proc_is_ours() => {
            (Reduced, "; /proc does not show its processes".to_owned(), "mount the host's /proc")
        }
        (_, Namespace::Initial) => (Works, String::new(), ""),
        (Kind::Time, Namespace::Other(_)) => match namespaces.offsets() {
            Ok(Offsets { monotonic_ns, boottime_ns }) => {
                let ahead = |ns: i64| format!("{:.1} s", ns as f64 / 1e9);
                let (monotonic, boottime) = (ahead(monotonic_ns), ahead(boottime_ns));
                (
                    Works,
                    format!("; its offsets, {monotonic} and {boottime} since the boot, are taken off all times"),
                    "",
                )
            }
            Err(missing) => {
                let remedy = "start Surefoot outside the time namespace";
                (No, format!("; {}", missing.why), remedy)
            }
        },
        (Kind::Time, Namespace::Unknown) => (
            No,
            ": times cannot be compared with the kernel's".to_owned(),
            "mount /proc, which tells the time namespace",
        ),
        (Kind::Pid, _) if namespaces.proc_is_ours() => {
            let what = "; --pid works, tasks outside it have no names, and stall who and --who are refused";
            (Reduced, what.to_owned(), REMEDY)
        }
        (Kind::Pid, _) => {
            let what = "; /proc shows the numbers of another one, so that only status, config and demo run";
            (
                Reduced,
                what.to_owned(),
                "mount a /proc of this namespace (unshare --mount-proc), or use the host's (--pid=host)",
            )
        }
        (Kind::User, Namespace::Other(_)) => {
            let what = "; its root may not load eBPF programs, read MSRs or the kernel's log";
            (Reduced, what.to_owned(), "start Surefoot as root outside the user namespace")
        }
        (Kind::Network, Namespace::Other(_)) => {
            let what = "; interfaces and connections of the host are not seen";
            (
                Reduced,
                what.to_owned(),
                "start Surefoot in the network namespace of the host (docker and podman: --network=host)",
            )
        }
        (Kind::Mount, Namespace::Other(_)) => {
            (Works, "; files, disks, /run and /dev/shm are those that are mounted in it".to_owned(), "")
        }
        (Kind::Cgroup, Namespace::Other(_)) => (Works, "; paths of control groups begin at its root".to_owned(), ""),
        (Kind::User, Namespace::Unknown) => {
            (Reduced, ": whether root here is root of the host is not known".to_owned(), "mount /proc")
        }
        (_, Namespace::Unknown) => {
            let what = ": this kernel gives the host's own no fixed number, and its own threads' cannot be read";
            (Reduced, what.to_owned(), "run as root in the PID namespace of the host to know")
        }
    };
    Capability {
        id: format!("host.namespace.{}", kind.file()),
        name: format!("{} namespace", kind.label()),
        state,
        reason: format!("{place}{what}"),
        remedy: remedy.to_owned(),
    }
}

/// Whether /proc lists every task of the machine.
///
/// # Errors
/// Why it does not, or why that is not known.
pub(crate) fn shows_all_tasks(root: &Root) -> Result<(), String> {
    // A recorded tree has what was recorded.
    if !root.is_host() || Namespaces::of_this_process().pids_are_the_kernels() {
        return Ok(());
    }
    match numbering() {
        Numbering::Unknown(missing) => Err(format!("{}; {}", missing.why, missing.remedy)),
        _ => Err(format!("this PID namespace shows its own tasks alone; {REMEDY}")),
    }
}

/// What of the tasks outside it is not seen in a PID namespace where tracing works.
pub(crate) fn reduced() -> Option<String> {
    matches!(numbering(), Numbering::Translated(_)).then(|| {
        format!("in this PID namespace tasks outside it have no program and place, and `stall who` and --who are refused; {REMEDY}")
    })
}

/// Why a task's program, stacks and place cannot be told here, which are read in /proc; `None` where they can.
pub(crate) fn unsupported() -> Option<Unsupported> {
    match numbering() {
        Numbering::Same => None,
        Numbering::Unknown(missing) => Some(missing.clone()),
        Numbering::Translated(_) => Some(Unsupported::new(
            "refused in a PID namespace: most of what interrupts a core is outside it and cannot be named here",
            REMEDY,
        )),
    }
}

/// The kernel's numbers of processes that a user named.
fn of_workload(ids: &[u32]) -> Result<Vec<u32>, Error> {
    let missing =
        |pid| Error::Option { option: "pid", why: format!("there is no process {pid} in this PID namespace") };
    ids.iter().map(|&pid| of_kernel(pid).ok_or_else(|| missing(pid))).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use surefoot_testkit::HostTree;

    fn found(pid: u64, numbers: &str) -> Namespaces {
        let tree = HostTree::new()
            .link("proc/self/ns/pid", format!("pid:[{pid}]"))
            .file("proc/self/status", format!("NSpid:\t{numbers}\n"));
        Namespaces::read(&Root::at(tree.path()))
    }

    #[test]
    fn status_tells_each_namespace_and_what_is_unknown_never_works() {
        let unknown = rows(&Namespaces::read(&Root::at(HostTree::new().path())));
        assert_eq!(unknown.len(), Kind::ALL.len());
        for row in &unknown {
            assert!(row.state != CapabilityState::Works && row.reason.starts_with("unknown"), "{row:?}");
        }
        let in_pid = rows(&found(4_026_532_300, "12"));
        let row = in_pid.iter().find(|row| row.id == "host.namespace.pid").unwrap();
        assert_eq!(row.state, CapabilityState::Reduced);
        assert!(row.reason.starts_with("not the host's (4026532300)"), "{row:?}");
        assert!(row.remedy.contains("--pid=host"), "{row:?}");
        for row in unknown.iter().chain(&in_pid) {
            assert!(
                row.reason.len() < 250 && (row.state == CapabilityState::Works || !row.remedy.is_empty()),
                "{row:?}"
            );
        }
    }

    #[test]
    fn numbers_are_the_kernels_in_the_initial_namespace_alone() {
        assert!(matches!(numbering_in(&found(4_026_531_836, "812")), Numbering::Same));
        let Numbering::Unknown(above) = numbering_in(&found(4_026_532_300, "812\t1")) else { panic!() };
        assert!(above.why.contains("another PID namespace") && above.remedy.contains("--mount-proc"), "{above:?}");
        let Numbering::Unknown(none) = numbering_in(&Namespaces::read(&Root::at(HostTree::new().path()))) else {
            panic!()
        };
        assert!(none.why.contains("does not tell"), "{none:?}");
    }

    #[test]
    fn numbers_are_looked_up_again_after_a_while_and_not_known_where_the_list_cannot_be_read() {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicU32, Ordering};
        // The thread that the host calls 900 is called so here; 0 for a list that cannot be read.
        let called = Arc::new(AtomicU32::new(7));
        let told = Arc::clone(&called);
        let mut list = List::new(Box::new(move || match told.load(Ordering::Relaxed) {
            0 => Err(surefoot_probes::Error::Refused { why: "no memory".into() }),
            tid => Ok(vec![TaskNumbers { tid, pid: tid, kernels_tid: 900, kernels_pid: 900 }]),
        }));
        let find = |list: &List| list.own.get(&900).copied();
        let outside = |list: &List| list.own.get(&901).copied();
        assert_eq!((list.look(OLD, find), list.look(OLD, outside)), (Some(Some(7)), Some(None)));
        for tid in [8, 0, 9] {
            called.store(tid, Ordering::Relaxed);
            // As if the list was that old.
            list.read = list.read.map(|(read, is_read)| (read.checked_sub(STALE).unwrap(), is_read));
            let (found, other) = (list.look(OLD, find), list.look(STALE, outside));
            assert_eq!((found, other), if tid == 0 { (None, None) } else { (Some(Some(tid)), Some(None)) });
        }
    }

    #[test]
    fn this_process_has_the_same_number_for_itself_and_through_the_kernel() {
        let own = std::process::id();
        if let Some(kernels) = of_kernel(own) {
            assert_eq!(in_proc(kernels), InProc::As(own));
            assert_eq!(of_workload(&[own]).unwrap(), [kernels]);
        } else {
            assert!(unsupported().is_some());
        }
    }
}
