//! A control group for the workload, whose freezer stops it: of version 2, or of version 1.

use crate::Fault;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};
use surefoot_hostfs::mounts::Mounts;
use surefoot_hostfs::namespaces::{Kind, Namespace, Namespaces};
use surefoot_hostfs::{Error, Root};
use surefoot_model::Digits;
use surefoot_sys::children::{self, Signal};

/// The freezer of version 1 takes its time with a process in the kernel.
const FREEZES_WITHIN: Duration = Duration::from_millis(50);
const LOOK: Duration = Duration::from_micros(20);
/// What stands before the number of the process whose group it is.
const PREFIX: &str = "surefoot-disturb-";
/// Groups that are looked at, and how often it is tried to remove one whose processes are ending.
const GROUPS_MAX: usize = 4096;
const REMOVALS_MAX: u32 = 100;
const REMOVAL_PAUSE: Duration = Duration::from_millis(2);

/// Which version, by the files that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    One,
    Two,
}

impl Version {
    pub(crate) const BOTH: [Version; 2] = [Version::Two, Version::One];

    pub(crate) fn number(self) -> u64 {
        match self {
            Version::One => 1,
            Version::Two => 2,
        }
    }

    fn switch(self) -> &'static str {
        match self {
            Version::One => "freezer.state",
            Version::Two => "cgroup.freeze",
        }
    }

    fn word(self, stands: bool) -> &'static str {
        match (self, stands) {
            (Version::One, true) => "FROZEN",
            (Version::One, false) => "THAWED",
            (Version::Two, true) => "1",
            (Version::Two, false) => "0",
        }
    }
}

/// A group that is to be made for each run.
#[derive(Debug, Clone)]
pub(crate) struct Cgroup {
    version: Version,
    path: PathBuf,
}

/// The folder of a process's group (by its number, or `self`) in the hierarchy of a version.
pub(crate) fn of_process(root: &Root, version: Version, process: &str) -> Option<PathBuf> {
    let mounts = root.read(root.proc("self/mounts")).ok()?;
    let mounted = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (at, kind, options) = (words.next()?, words.next()?, words.next()?);
        let is_it = match version {
            Version::One => kind == "cgroup" && options.split(',').any(|option| option == "freezer"),
            Version::Two => kind == "cgroup2",
        };
        is_it.then_some(at)
    })?;
    // What of the hierarchy is seen there; it begins above the namespace where the kernel tells a path that leads up.
    let mounts = Mounts::read(root).map(|mounts| mounts.list).unwrap_or_default();
    let shown = mounts.iter().rfind(|mount| mount.point == Path::new(mounted)).map(|mount| mount.root.clone());
    let groups = root.read(root.proc(format!("{process}/cgroup"))).ok()?;
    let below = groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let is_it = match version {
            Version::One => controllers.split(',').any(|controller| controller == "freezer"),
            Version::Two => controllers.is_empty(),
        };
        is_it.then_some(path)
    })?;
    let below = Path::new(below).strip_prefix(shown.as_deref().unwrap_or(Path::new("/"))).ok()?;
    // Of a process outside of its namespace the kernel tells a path that leads up.
    let stays = below.components().all(|part| matches!(part, Component::Normal(_)));
    stays.then(|| root.path(mounted).join(below))
}

/// The best one that this process may make; tried, because delegation and mounts decide it as well.
///
/// # Errors
/// [`Fault::Unsupported`].
pub(crate) fn find(root: &Root) -> Result<Cgroup, Fault> {
    // One that is frozen for ever, because whoever would let it go was killed with its guard.
    for own in Version::BOTH.into_iter().filter_map(|version| of_process(root, version, "self")) {
        sweep(root, &own, Namespaces::of_this_process());
    }
    let mut why = "no control group with a freezer is mounted".to_owned();
    for version in Version::BOTH {
        let Some(own) = of_process(root, version, "self") else { continue };
        let mut cgroup = Cgroup { version, path: own.join(own_name(Namespaces::of_this_process())) };
        let tried = cgroup.create().and_then(|path| {
            let found = write(&path.join(version.switch()), version.word(false));
            let _ = std::fs::remove_dir(&path);
            found.map_err(Fault::from)
        });
        match tried {
            Ok(()) => return Ok(cgroup),
            Err(fault) => why = fault.to_string(),
        }
    }
    Err(Fault::Unsupported {
        why,
        remedy: "run as root where control groups can be written, or take method=stop".into(),
    })
}

/// What the group of this process is called. Only the number of one that the whole host knows stands alone: by another one nobody
/// outside of its PID namespace can tell whether its process is gone.
fn own_name(namespaces: &Namespaces) -> String {
    let pid = std::process::id();
    match namespaces.place(Kind::Pid) {
        Namespace::Initial => format!("{PREFIX}{pid}"),
        Namespace::Other(inode) => format!("{PREFIX}{pid}-in-{inode}"),
        Namespace::Unknown => format!("{PREFIX}{pid}-in-unknown"),
    }
}

/// The process that made a group of this name, as [`own_name`] called it; `None` for one of another PID namespace, of which nobody
/// here can tell whether it is gone.
fn owner(name: &str, namespaces: &Namespaces) -> Option<u32> {
    let number = name.strip_prefix(PREFIX)?;
    match namespaces.place(Kind::Pid) {
        _ if !namespaces.proc_is_ours() => None,
        Namespace::Initial => number.digits(),
        Namespace::Other(inode) => number.strip_suffix(&format!("-in-{inode}"))?.digits(),
        Namespace::Unknown => None,
    }
}

/// Ends what is in groups of processes of this PID namespace that are gone, and removes these.
fn sweep(root: &Root, own: &Path, namespaces: &Namespaces) {
    let Ok(groups) = std::fs::read_dir(own) else { return };
    for group in groups.flatten().take(GROUPS_MAX) {
        let name = group.file_name();
        let owner = name.to_str().and_then(|name| owner(name, namespaces));
        // A number that another process has by now is taken for the owner's.
        if owner.is_none_or(|pid| root.proc(pid.to_string()).exists()) {
            continue;
        }
        let path = group.path();
        let listed = root.read(path.join("cgroup.procs")).unwrap_or_default();
        let pids: Vec<u32> = listed.lines().filter_map(|line| line.digits()).collect();
        // The kernel tells 0 of processes of other namespaces, where the owner may live as well.
        if pids.contains(&0) {
            continue;
        }
        for pid in pids {
            let _ = children::signal_process(pid, Signal::Kill);
        }
        thaw(&path);
        for _ in 0..REMOVALS_MAX {
            if std::fs::remove_dir(&path).is_ok() {
                break;
            }
            std::thread::sleep(REMOVAL_PAUSE);
        }
    }
}

impl Cgroup {
    /// One that is made elsewhere.
    pub(crate) fn at(version: Version, path: PathBuf) -> Cgroup {
        Cgroup { version, path }
    }

    /// Makes it; the workload's guard removes it after each run, also when this process is gone.
    pub(crate) fn create(&mut self) -> Result<PathBuf, Fault> {
        match DirBuilder::new().mode(0o755).create(&self.path) {
            Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
                Err(Fault::File { path: self.path.clone(), source })
            }
            _ => Ok(self.path.clone()),
        }
    }

    /// Stops all that is in it, or lets it go on; returns when it stands still.
    ///
    /// # Errors
    /// When it is not there any more.
    pub(crate) fn freeze(&self, stands: bool) -> Result<(), Error> {
        write(&self.path.join(self.version.switch()), self.version.word(stands))?;
        let began = Instant::now();
        while stands && began.elapsed() < FREEZES_WITHIN && !self.is_frozen() {
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn is_frozen(&self) -> bool {
        let read = |name: &str| {
            let mut text = String::new();
            let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(self.path.join(name));
            file.is_ok_and(|file| file.take(4096).read_to_string(&mut text).is_ok()).then_some(text)
        };
        match self.version {
            Version::One => read("freezer.state").is_some_and(|text| text.trim() == "FROZEN"),
            Version::Two => read("cgroup.events").is_some_and(|text| text.lines().any(|line| line == "frozen 1")),
        }
    }
}

/// Lets whatever is in a group go on, whichever version it is of.
pub(crate) fn thaw(path: &Path) {
    for version in Version::BOTH {
        let _ = write(&path.join(version.switch()), version.word(false));
    }
}

/// Puts the process that calls this into a group.
pub(crate) fn enter(path: &Path) -> Result<(), Error> {
    write(&path.join("cgroup.procs"), "0")
}

/// Writes a word into one of the files of a group.
pub(crate) fn write(path: &Path, word: &str) -> Result<(), Error> {
    let opened = OpenOptions::new().write(true).custom_flags(libc::O_NOFOLLOW).open(path);
    let written = opened.and_then(|mut file| file.write_all(word.as_bytes()));
    written.map_err(|source| Error::System { action: format!("write {}", path.display()), source, remedy: "" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_testkit::HostTree;

    #[test]
    fn groups_of_processes_that_are_gone_are_swept_in_their_own_pid_namespace_alone() {
        let namespaces = |pid: &str, numbers: &str| {
            let tree = HostTree::new()
                .link("proc/self/ns/pid", format!("pid:[{pid}]"))
                .file("proc/self/status", format!("NSpid:\t{numbers}\n"));
            Namespaces::read(&Root::at(tree.path()))
        };
        let own = std::process::id();
        let [host, inside] = ["4026531836", "4026532300"].map(|inode| namespaces(inode, "812"));
        assert_eq!(owner(&own_name(&host), &host), Some(own));
        assert_eq!(owner(&own_name(&inside), &inside), Some(own));
        assert_eq!((owner(&own_name(&inside), &host), owner(&own_name(&host), &inside)), (None, None));
        // No process has these numbers but the one with 8.
        let tree = HostTree::new().folder("proc/8");
        let groups = ["7", "8", "7-in-4026532300", "8-in-4026532300", "7-in-4026532301", "7-in-unknown"];
        let tree = groups.iter().fold(tree, |tree, name| tree.folder(format!("group/{PREFIX}{name}")));
        let left = |namespaces: &Namespaces| {
            sweep(&Root::at(tree.path()), &tree.path().join("group"), namespaces);
            let is_left = |name: &&str| tree.path().join(format!("group/{PREFIX}{name}")).exists();
            groups.into_iter().filter(is_left).collect::<Vec<_>>()
        };
        for unsure in [namespaces("4026532300", "812\t1"), Namespaces::read(&Root::at(HostTree::new().path()))] {
            assert_eq!(left(&unsure), groups);
        }
        let rest = ["8-in-4026532300", "7-in-4026532301", "7-in-unknown"];
        assert_eq!(left(&inside), [&["7", "8"][..], &rest].concat());
        assert_eq!(left(&host), [&["8"][..], &rest].concat());
    }

    #[test]
    fn the_own_group_is_found_in_both_hierarchies() {
        let tree = HostTree::new()
            .file(
                "proc/self/mounts",
                "cgroup /sys/fs/cgroup/freezer cgroup rw,relatime,freezer 0 0\n\
                 cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n",
            )
            .file("proc/self/cgroup", "6:freezer:/jobs/7\n0::/user.slice\n");
        let root = Root::at(tree.path());
        assert_eq!(of_process(&root, Version::One, "self").unwrap(), tree.path().join("sys/fs/cgroup/freezer/jobs/7"));
        assert_eq!(
            of_process(&root, Version::Two, "self").unwrap(),
            tree.path().join("sys/fs/cgroup/unified/user.slice")
        );
        // As in a container that shows a part of the hierarchy: the path and what is mounted begin alike.
        let shown = "30 22 0:27 /user.slice /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let tree = tree.file("proc/self/cgroup", "0::/user.slice/a\n").file("proc/self/mountinfo", shown);
        let root = Root::at(tree.path());
        assert_eq!(of_process(&root, Version::Two, "self").unwrap(), tree.path().join("sys/fs/cgroup/unified/a"));
        // In a namespace of control groups whose hierarchy was mounted outside, nobody tells where the own group lies in it.
        let shown = "30 22 0:27 /../.. /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let tree = tree.file("proc/self/cgroup", "0::/\n").file("proc/self/mountinfo", shown);
        assert_eq!(of_process(&Root::at(tree.path()), Version::Two, "self"), None);
        let tree = tree.without("proc/self/mountinfo").file("proc/self/cgroup", "0::/../../x\n");
        assert_eq!(Version::BOTH.map(|version| of_process(&Root::at(tree.path()), version, "self")), [None, None]);
        assert!(find(&Root::at(tree.path())).unwrap_err().is_unsupported());
    }
}
