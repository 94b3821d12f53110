//! How much memory a checkpoint may take here: the file system's room, and what the container has left.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes that this process may still take before its control group is full: the least of all groups above it, and of
/// what the machine has available. `None` where nothing says.
///
/// The files are those of `cgroup(7)`, of version 2 and of version 1, which batch systems still use, and `proc_meminfo(5)`.
/// `root` is `/` but in tests.
pub fn memory_available_bytes(root: &Path) -> Option<u64> {
    let machine = available_of_machine(root);
    let groups = [&VERSION_2, &VERSION_1].map(|version| available_of_group(root, version));
    groups.into_iter().chain([machine]).flatten().min()
}

fn available_of_machine(root: &Path) -> Option<u64> {
    of_machine(root, "MemAvailable:")
}

/// Bytes of memory that the kernel has given up since the machine started; `None` where it does not keep count. As long
/// as it does not grow, no page was lost.
pub fn memory_lost_bytes(root: &Path) -> Option<u64> {
    of_machine(root, "HardwareCorrupted:")
}

fn of_machine(root: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes.saturating_mul(1024))
}

/// What the files of a version of control groups are called.
struct Version {
    mount: &'static str,
    /// In the second column of `/proc/self/cgroup`.
    controller: &'static str,
    most: &'static str,
    now: &'static str,
    /// In `memory.stat`, of the group and those below it.
    cache: &'static str,
}

const VERSION_2: Version = Version {
    mount: "sys/fs/cgroup",
    controller: "",
    most: "memory.max",
    now: "memory.current",
    cache: "inactive_file ",
};

const VERSION_1: Version = Version {
    mount: "sys/fs/cgroup/memory",
    controller: "memory",
    most: "memory.limit_in_bytes",
    now: "memory.usage_in_bytes",
    cache: "total_inactive_file ",
};

fn available_of_group(root: &Path, version: &Version) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let of_line = |line: &str| {
        let mut columns = line.splitn(3, ':');
        let controllers = columns.nth(1)?;
        let path = columns.next()?.strip_prefix('/')?;
        controllers.split(',').any(|name| name == version.controller).then(|| PathBuf::from(path))
    };
    let mut group = text.lines().find_map(of_line)?;
    let mut least = None;
    loop {
        // In a container the path may be that of the host, and only the root be there: that is its own group.
        let folder = root.join(version.mount).join(&group);
        let number = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
        if let Some((most, now)) = number(version.most).zip(number(version.now)) {
            // Page cache that can be given back counts as used there; it is not held against us.
            let cache =
                fs::read_to_string(folder.join("memory.stat")).ok().and_then(|text| of_stat(&text, version.cache));
            let left = most.saturating_sub(now.saturating_sub(cache.unwrap_or(0)));
            least = Some(least.map_or(left, |least: u64| least.min(left)));
        }
        if !group.pop() {
            return least;
        }
    }
}

fn of_stat(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_testkit::HostTree;

    #[test]
    fn a_limit_of_version_1_counts_too() {
        let meminfo = "MemAvailable:   90000 kB\n";
        let slurm = "12:cpuset:/slurm/uid_7/job_3\n9:memory,hugetlb:/slurm/uid_7/job_3/step_0\n1:name=systemd:/x\n";
        let tree = HostTree::new()
            .file("proc/meminfo", meminfo)
            .file("proc/self/cgroup", slurm)
            .file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
            .file("sys/fs/cgroup/memory/memory.usage_in_bytes", "70000\n")
            .file("sys/fs/cgroup/memory/slurm/uid_7/job_3/memory.limit_in_bytes", "81920\n")
            .file("sys/fs/cgroup/memory/slurm/uid_7/job_3/memory.usage_in_bytes", "40960\n")
            .file(
                "sys/fs/cgroup/memory/slurm/uid_7/job_3/memory.stat",
                "inactive_file 1\ntotal_cache 9\ntotal_inactive_file 4096\n",
            )
            .file("sys/fs/cgroup/memory/slurm/uid_7/job_3/step_0/memory.limit_in_bytes", "9223372036854771712\n")
            .file("sys/fs/cgroup/memory/slurm/uid_7/job_3/step_0/memory.usage_in_bytes", "40960\n");
        assert_eq!(memory_available_bytes(tree.path()), Some(45_056));
        // Where both versions are mounted the memory controller is of one of them.
        let tree = HostTree::new()
            .file("proc/meminfo", meminfo)
            .file("proc/self/cgroup", "5:memory:/docker/0123\n0::/docker/0123\n")
            .file("sys/fs/cgroup/memory/memory.limit_in_bytes", "8192\n")
            .file("sys/fs/cgroup/memory/memory.usage_in_bytes", "4096\n");
        assert_eq!(memory_available_bytes(tree.path()), Some(4096), "a container sees its own group as the root");
    }

    #[test]
    fn the_tightest_group_decides() {
        let tree = HostTree::new()
            .file("proc/meminfo", "MemTotal: 100 kB\nMemAvailable:   90 kB\n")
            .file("proc/self/cgroup", "0::/job/task\n")
            .file("sys/fs/cgroup/job/memory.max", "81920\n")
            .file("sys/fs/cgroup/job/memory.current", "40960\n")
            .file("sys/fs/cgroup/job/memory.stat", "anon 5\ninactive_file 4096\n")
            .file("sys/fs/cgroup/job/task/memory.max", "max\n")
            .file("sys/fs/cgroup/job/task/memory.current", "40960\n");
        assert_eq!(memory_available_bytes(tree.path()), Some(45_056));
        let tree = HostTree::new().file("proc/meminfo", "MemAvailable:   90 kB\n");
        assert_eq!(memory_available_bytes(tree.path()), Some(92_160));
        assert_eq!(memory_available_bytes(HostTree::new().path()), None);
        assert_eq!(memory_lost_bytes(tree.path()), None);
        let tree = HostTree::new().file("proc/meminfo", "MemAvailable:   90 kB\nHardwareCorrupted:     8 kB\n");
        assert_eq!(memory_lost_bytes(tree.path()), Some(8192));
    }
}
