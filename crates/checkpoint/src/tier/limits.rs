//! How much memory a checkpoint may take here: the file system's room, and what the container has left.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes that this process may still take before its control group is full: the least of all groups above it, and of
/// what the machine has available. `None` where nothing says.
///
/// The files are those of `cgroup(7)`, version 2, and `proc_meminfo(5)`. `root` is `/` but in tests.
pub fn memory_available_bytes(root: &Path) -> Option<u64> {
    let machine = available_of_machine(root);
    let group = available_of_group(root);
    [machine, group].into_iter().flatten().min()
}

fn available_of_machine(root: &Path) -> Option<u64> {
    of_machine(root, "MemAvailable:")
}

/// Bytes of memory that the kernel has given up since the machine started; `None` where it does not keep count. As long
/// as it does not grow, no page was lost.
pub(super) fn memory_lost_bytes(root: &Path) -> Option<u64> {
    of_machine(root, "HardwareCorrupted:")
}

fn of_machine(root: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes.saturating_mul(1024))
}

fn available_of_group(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mut group = PathBuf::from(path);
    let mut least = None;
    loop {
        let folder = root.join("sys/fs/cgroup").join(&group);
        let number = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
        if let Some((most, now)) = number("memory.max").zip(number("memory.current")) {
            // Page cache that can be given back counts as used there; it is not held against us.
            let cache = fs::read_to_string(folder.join("memory.stat")).ok().and_then(|text| inactive_file(&text));
            let left = most.saturating_sub(now.saturating_sub(cache.unwrap_or(0)));
            least = Some(least.map_or(left, |least: u64| least.min(left)));
        }
        if !group.pop() {
            return least;
        }
    }
}

fn inactive_file(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("inactive_file "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_testkit::HostTree;

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
