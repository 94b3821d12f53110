//! Namespaces: which part of the machine this process sees, and how far its clocks are from the machine's.
//!
//! The kernel's own numbers (of eBPF programs, trace events and the kernel's log) are those of the initial namespaces; what a user
//! types and what /proc shows are those of this process's. A kind that cannot be told is [`Namespace::Unknown`], never the initial one.

use crate::settings::TEXT_LIMIT_BYTES;
use crate::tasks::TaskStat;
use crate::{Root, Unsupported};
use std::fmt;
use std::fs::DirEntry;
use std::sync::OnceLock;
use surefoot_model::Digits;

/// The kinds that Surefoot's answers depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Clocks that count from the boot.
    Time,
    /// Numbers of processes and threads.
    Pid,
    /// Numbers of users, and what root may do.
    User,
    /// Network interfaces, sockets and the names below /sys/class/net.
    Network,
    /// Which files, and so which /proc, /sys and /dev.
    Mount,
    /// Where paths of control groups begin.
    Cgroup,
}

impl Kind {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Kind; 6] = [Kind::Time, Kind::Pid, Kind::User, Kind::Network, Kind::Mount, Kind::Cgroup];

    /// Its name below /proc/self/ns.
    pub fn file(self) -> &'static str {
        match self {
            Kind::Time => "time",
            Kind::Pid => "pid",
            Kind::User => "user",
            Kind::Network => "net",
            Kind::Mount => "mnt",
            Kind::Cgroup => "cgroup",
        }
    }

    /// Its name in a sentence.
    pub fn label(self) -> &'static str {
        match self {
            Kind::Time => "time",
            Kind::Pid => "PID",
            Kind::User => "user",
            Kind::Network => "network",
            Kind::Mount => "mount",
            Kind::Cgroup => "cgroup",
        }
    }

    /// The number of the initial namespace, and whether every kernel gives it that number; include/uapi/linux/nsfs.h. Network and
    /// mount namespaces have theirs since [`ALL_FIXED`] only.
    fn initial(self) -> (u64, bool) {
        match self {
            Kind::Time => (0xEFFF_FFFA, true),
            Kind::Pid => (0xEFFF_FFFC, true),
            Kind::User => (0xEFFF_FFFD, true),
            Kind::Cgroup => (0xEFFF_FFFB, true),
            Kind::Network => (0xEFFF_FFF9, false),
            Kind::Mount => (0xEFFF_FFF8, false),
        }
    }
}

/// The kernel since which the initial namespace of each kind has its fixed number.
const ALL_FIXED: (u32, u32) = (6, 18);

/// In which namespace of a kind this process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Namespace {
    /// The machine's own.
    Initial,
    /// Another one, with its number.
    Other(u64),
    /// That cannot be told here.
    Unknown,
}

/// What this process sees of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Namespaces {
    places: [Namespace; 6],
    proc: Namespace,
    offsets: Option<Offsets>,
}

/// How far clocks of this process are ahead of the machine's, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offsets {
    /// `CLOCK_MONOTONIC`.
    pub monotonic_ns: i64,
    /// `CLOCK_BOOTTIME`, and with it /proc/uptime and the start of each process in /proc.
    pub boottime_ns: i64,
}

impl Namespaces {
    /// Finds out.
    pub fn read(root: &Root) -> Self {
        let proc = place_of_proc(root);
        let places = Kind::ALL.map(|kind| place(root, kind, proc));
        let offsets = match places[0] {
            Namespace::Initial => Some(Offsets::default()),
            Namespace::Other(_) => read_offsets(root),
            Namespace::Unknown => None,
        };
        Namespaces { places, proc, offsets }
    }

    /// Those of this process, found out once.
    pub fn of_this_process() -> &'static Self {
        static OWN: OnceLock<Namespaces> = OnceLock::new();
        OWN.get_or_init(|| Namespaces::read(&Root::host()))
    }

    /// Where this process is.
    pub fn place(&self, kind: Kind) -> Namespace {
        let at = Kind::ALL.iter().position(|each| *each == kind).unwrap_or(0);
        self.places[at]
    }

    /// The PID namespace whose numbers /proc shows; it need not be the one of this process.
    pub fn proc(&self) -> Namespace {
        self.proc
    }

    /// Whether numbers in /proc are the kernel's own.
    pub fn pids_are_the_kernels(&self) -> bool {
        self.proc == Namespace::Initial
    }

    /// Whether /proc shows the numbers of this process's own PID namespace, so that what it calls its own number is there.
    pub fn proc_is_ours(&self) -> bool {
        self.proc != Namespace::Unknown && self.proc == self.place(Kind::Pid)
    }

    /// How far the clocks are ahead of the machine's.
    ///
    /// # Errors
    /// When that cannot be told.
    pub fn offsets(&self) -> Result<Offsets, Unsupported> {
        self.offsets.ok_or_else(|| match self.place(Kind::Time) {
            Namespace::Unknown => Unsupported::new(
                "whether this process is in a time namespace is unknown, because /proc/self/ns/time cannot be read",
                "mount /proc, and start Surefoot as a user who may read /proc/self/ns",
            ),
            Namespace::Initial | Namespace::Other(_) => Unsupported::new(
                "this process is in a time namespace, and /proc/self/timens_offsets does not tell how far its clocks are from the \
                 machine's",
                "start Surefoot outside the time namespace, or as a process that was started in it with its own /proc mounted",
            ),
        })
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Namespace::Initial => f.write_str("the initial one"),
            Namespace::Other(inode) => write!(f, "not the host's ({inode})"),
            Namespace::Unknown => f.write_str("unknown"),
        }
    }
}

fn place(root: &Root, kind: Kind, proc: Namespace) -> Namespace {
    let folder = root.proc("self/ns");
    let inode = match number(root, "self", kind) {
        Some(inode) => inode,
        // A kernel without namespaces of this kind has the machine's own alone.
        None if folder.is_dir() && folder.join(kind.file()).symlink_metadata().is_err_and(is_absent) => {
            return Namespace::Initial;
        }
        None => return Namespace::Unknown,
    };
    let (initial, is_fixed) = kind.initial();
    if inode == initial {
        return Namespace::Initial;
    }
    // Where the number says nothing, the kernel's own threads do: process 2 starts them all.
    match number(root, "2", kind).filter(|_| proc == Namespace::Initial) {
        _ if is_fixed || release(root) >= Some(ALL_FIXED) => Namespace::Other(inode),
        Some(machines) if machines == inode => Namespace::Initial,
        Some(_) => Namespace::Other(inode),
        None => Namespace::Unknown,
    }
}

/// The first two numbers of the kernel's release.
fn release(root: &Root) -> Option<(u32, u32)> {
    let text = root.read_up_to(root.proc("sys/kernel/osrelease"), TEXT_LIMIT_BYTES).ok()?;
    let mut numbers = text.split(|letter: char| !letter.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn is_absent(error: std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound
}

/// The number of a process's namespace: `pid:[4026531836]`.
fn number(root: &Root, process: &str, kind: Kind) -> Option<u64> {
    let link = root.proc(process).join("ns").join(kind.file()).read_link().ok()?;
    let text = link.to_str()?.strip_prefix(kind.file())?.strip_prefix(":[")?;
    text.strip_suffix(']')?.digits()
}

/// Whose numbers /proc shows.
fn place_of_proc(root: &Root) -> Namespace {
    // A /proc of a namespace that this process is not seen in has no `self`.
    let Ok(status) = root.read_up_to(root.proc("self/status"), TEXT_LIMIT_BYTES) else { return Namespace::Unknown };
    let own = place(root, Kind::Pid, Namespace::Unknown);
    // This process's numbers, from the namespace of this /proc down to its own; kernels before 4.1 do not tell them.
    let numbers =
        status.lines().find_map(|line| line.strip_prefix("NSpid:")).map(|line| line.split_whitespace().count());
    match (own, numbers) {
        (Namespace::Initial, None | Some(1)) => Namespace::Initial,
        (_, Some(1)) => own,
        // Threads of the kernel are in the initial namespace alone.
        (_, Some(_)) if TaskStat::of_process(root, 2).is_some_and(|stat| stat.is_kernel_thread()) => Namespace::Initial,
        _ => Namespace::Unknown,
    }
}

/// Whether /sys/class/net shows the interfaces of this process's network namespace; whose it shows is decided when /sys is mounted.
/// `None` where one of the two lists cannot be read.
pub fn sys_shows_our_network(root: &Root) -> Option<bool> {
    let is_alike = || {
        let table = root.read_up_to(root.proc("self/net/dev"), TEXT_LIMIT_BYTES).ok()?;
        let mut own: Vec<&str> = table.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
        let entries = std::fs::read_dir(root.sys("class/net")).ok()?;
        // Files such as bonding_masters stand there, too.
        let is_interface = |entry: &DirEntry| entry.path().join("ifindex").exists();
        // A name may be any bytes, and the table was read as text.
        let name = |entry: DirEntry| entry.file_name().to_string_lossy().into_owned();
        let mut shown: Vec<String> = entries.flatten().filter(is_interface).map(name).collect();
        own.sort_unstable();
        shown.sort_unstable();
        Some(shown == own)
    };
    // One may come or go between the two readings.
    Some(is_alike()? || is_alike()?)
}

/// /proc/self/timens_offsets: of each clock its name, seconds and nanoseconds.
fn read_offsets(root: &Root) -> Option<Offsets> {
    // The file is about the namespace that children will be in.
    let of_children = root.proc("self/ns/time_for_children").read_link().ok()?;
    let own = root.proc("self/ns/time").read_link().ok()?;
    if of_children != own {
        return None;
    }
    let text = root.read_up_to(root.proc("self/timens_offsets"), TEXT_LIMIT_BYTES).ok()?;
    let of = |name: &str| {
        let mut words = text.lines().map(str::split_ascii_whitespace).find_map(|mut words| {
            let is_it = words.next()? == name;
            is_it.then_some(words)
        })?;
        let seconds: i64 = words.next()?.signed_digits()?;
        let nanoseconds: i64 = words.next()?.digits()?;
        seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
    };
    Some(Offsets { monotonic_ns: of("monotonic")?, boottime_ns: of("boottime")? })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use surefoot_testkit::HostTree;

    const KTHREADD: &str =
        "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";

    /// A machine on which this process is in the initial namespaces.
    fn machine() -> HostTree {
        let names = ["time", "time_for_children", "pid", "user", "net", "mnt", "cgroup"];
        let numbers = [834u64, 834, 836, 837, 833, 832, 835];
        names.iter().zip(numbers).fold(
            HostTree::new().file("proc/self/status", "NSpid:\t812\n"),
            |tree, (name, number)| {
                let kind = name.split('_').next().unwrap();
                tree.link(format!("proc/self/ns/{name}"), format!("{kind}:[{}]", 4_026_531_000 + number))
            },
        )
    }

    fn moved(tree: HostTree, name: &str, target: &str) -> HostTree {
        tree.without(format!("proc/self/ns/{name}")).link(format!("proc/self/ns/{name}"), target)
    }

    fn of(tree: &HostTree) -> Namespaces {
        Namespaces::read(&Root::at(tree.path()))
    }

    #[test]
    fn the_kernels_own_numbers_are_the_initial_namespaces() {
        let found = of(&machine());
        assert!(Kind::ALL.iter().all(|kind| found.place(*kind) == Namespace::Initial), "{found:?}");
        assert!(found.pids_are_the_kernels() && found.proc_is_ours());
        assert_eq!(found.offsets(), Ok(Offsets::default()));
    }

    #[test]
    fn an_older_kernels_network_is_compared_with_that_of_its_own_threads_or_is_unknown() {
        let older = moved(machine(), "net", "net:[4026531992]");
        assert_eq!(of(&older).place(Kind::Network), Namespace::Unknown);
        let older = older.file("proc/sys/kernel/osrelease", "6.17.9-1-amd64\n");
        assert_eq!(of(&older).place(Kind::Network), Namespace::Unknown);
        let newer = moved(machine(), "net", "net:[4026531992]").file("proc/sys/kernel/osrelease", "6.18.44-fc-v657\n");
        assert_eq!(of(&newer).place(Kind::Network), Namespace::Other(4_026_531_992));
        let same = older.link("proc/2/ns/net", "net:[4026531992]");
        assert_eq!(of(&same).place(Kind::Network), Namespace::Initial);
        let other = same.without("proc/2/ns/net").link("proc/2/ns/net", "net:[4026531993]");
        assert_eq!(of(&other).place(Kind::Network), Namespace::Other(4_026_531_992));
    }

    #[test]
    fn what_proc_shows_is_told_from_where_this_process_is() {
        let inside = moved(machine(), "pid", "pid:[4026532300]");
        let found = of(&inside);
        assert_eq!(
            (found.place(Kind::Pid), found.proc()),
            (Namespace::Other(4_026_532_300), Namespace::Other(4_026_532_300))
        );
        assert!(!found.pids_are_the_kernels() && found.proc_is_ours());
        // The /proc of the machine, as `unshare --pid` leaves it without a mount.
        let above = inside.file("proc/self/status", "NSpid:\t812\t1\n");
        assert_eq!(of(&above).proc(), Namespace::Unknown, "of whichever namespace above");
        let above = above.file("proc/2/stat", KTHREADD);
        let found = of(&above);
        assert!(found.pids_are_the_kernels() && !found.proc_is_ours(), "{found:?}");
        let hidden = above.without("proc/self/status");
        assert_eq!(of(&hidden).proc(), Namespace::Unknown);
    }

    #[test]
    fn a_kind_that_the_kernel_does_not_have_is_the_machines_own_and_no_proc_is_unknown() {
        let before_5_6 = machine().without("proc/self/ns/time").without("proc/self/ns/time_for_children");
        assert_eq!(of(&before_5_6).place(Kind::Time), Namespace::Initial);
        let none = of(&HostTree::new());
        assert!(Kind::ALL.iter().all(|kind| none.place(*kind) == Namespace::Unknown), "{none:?}");
        assert!(none.offsets().is_err());
    }

    #[test]
    fn a_sys_of_another_network_namespace_is_known_by_its_interfaces() {
        let table = "Inter-|   Receive  |\n face |bytes |\n    lo:  1 2\n  eth0:  3 4\n";
        let sys = |tree: HostTree, name: &str| tree.file(format!("sys/class/net/{name}/ifindex"), "2\n");
        let tree =
            sys(HostTree::new().file("proc/self/net/dev", table).file("sys/class/net/bonding_masters", ""), "lo");
        let ours = |tree: &HostTree| sys_shows_our_network(&Root::at(tree.path()));
        assert_eq!(ours(&tree), Some(false), "one is missing");
        let tree = sys(tree, "eth0");
        assert_eq!(ours(&tree), Some(true));
        let tree = sys(tree, "eth1");
        assert_eq!(ours(&tree), Some(false), "one more");
        assert_eq!(ours(&tree.without("proc/self/net/dev")), None);
        // Two names that are no text, and differ in what no text holds.
        let table = b"Inter-|   Receive  |\n face |bytes |\n    lo:  1 2\n  \xffa:  3 4\n  \xfea:  3 4\n";
        let tree = sys(HostTree::new().file("proc/self/net/dev", table), "lo");
        assert_eq!(ours(&tree), Some(false));
        for name in [&b"\xffa"[..], b"\xfea"] {
            let folder = tree.path().join("sys/class/net").join(OsStr::from_bytes(name));
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join("ifindex"), "3\n").unwrap();
        }
        assert_eq!(ours(&tree), Some(true));
    }

    #[test]
    fn offsets_are_those_of_this_process_or_unknown() {
        let why = of(&HostTree::new()).offsets().unwrap_err().why;
        assert!(why.starts_with("whether this process is in a time namespace is unknown"), "{why}");
        let inside = moved(machine(), "time", "time:[4026532177]")
            .file("proc/self/timens_offsets", "monotonic         -86400 999999999\nboottime         1000         0\n");
        assert!(of(&inside).offsets().is_err(), "the file tells of the children's");
        let inside = moved(inside, "time_for_children", "time:[4026532177]");
        let offsets = Offsets { monotonic_ns: -86_399_000_000_001, boottime_ns: 1_000_000_000_000 };
        assert_eq!(of(&inside).offsets(), Ok(offsets));
        for text in ["", "monotonic 1\nboottime 1 0\n", "monotonic 1 0\n", "monotonic x 0\nboottime 1 0\n"] {
            let inside = moved(machine(), "time", "time:[4026532177]");
            let inside = moved(inside, "time_for_children", "time:[4026532177]");
            assert!(of(&inside.file("proc/self/timens_offsets", text)).offsets().is_err(), "{text:?}");
        }
    }
}
