//! Whether a CPU quota may stop the threads of this process. The scheduler counts a thread that its group's quota stops as one that
//! waits for its core, so that nobody can tell the two apart by that count.

use std::path::{Component, Path};
use surefoot_hostfs::Root;
use surefoot_hostfs::mounts::Mounts;
use surefoot_hostfs::namespaces::{Kind, Namespace, Namespaces};

/// Whether a control group of this process has a quota, or one of them may have one that is not seen here.
pub(super) fn may_throttle(root: &Root) -> bool {
    let list = root.proc("self/cgroup");
    if !list.exists() {
        // A kernel without control groups.
        return false;
    }
    let Ok(groups) = root.read(list) else { return true };
    let of = |is_it: fn(&str) -> bool| {
        groups.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            is_it(controllers).then_some(path)
        })
    };
    // The controller is in one of the hierarchies: in one of version 1, or else in that of version 2.
    let has_cpu = |controllers: &str| controllers.split(',').any(|controller| controller == "cpu");
    let found = match (of(has_cpu), of(str::is_empty)) {
        (Some(path), _) => (path, "cgroup", "cpu.cfs_quota_us", "-1"),
        (None, Some(path)) => (path, "cgroup2", "cpu.max", "max"),
        (None, None) => return false,
    };
    // From inside of another namespace the groups above it are not seen.
    if Namespaces::read(root).place(Kind::Cgroup) != Namespace::Initial {
        return true;
    }
    has_quota(root, found).unwrap_or(true)
}

/// `None` where that cannot be read.
fn has_quota(root: &Root, (path, kind, file, none): (&str, &str, &str, &str)) -> Option<bool> {
    let mounts = Mounts::read(root).ok()?.list;
    let mount = mounts.iter().rfind(|mount| {
        mount.kind == kind && (kind == "cgroup2" || mount.options.split(',').any(|option| option == "cpu"))
    })?;
    if mount.root != Path::new("/") {
        return None;
    }
    let point = root.path(mount.point.to_str()?);
    let own = Path::new(path.strip_prefix('/')?);
    // Of a group outside of the reader's namespace the kernel tells a path that leads up.
    if own.components().any(|part| !matches!(part, Component::Normal(_))) {
        return None;
    }
    for group in own.ancestors() {
        let place = point.join(group).join(file);
        // A group without the file has no quota of its own.
        if place.exists() && !root.read(place).ok()?.starts_with(none) {
            return Some(true);
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_testkit::HostTree;

    const INITIAL: &str = "cgroup:[4026531835]";

    fn host(namespace: &str, groups: &str) -> HostTree {
        HostTree::new().link("proc/self/ns/cgroup", namespace).file("proc/self/cgroup", groups).file(
            "proc/self/mountinfo",
            "24 1 0:21 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n\
             25 1 0:22 / /sys/fs/one rw shared:5 - cgroup cgroup rw,cpu,cpuacct\n",
        )
    }

    fn may(tree: &HostTree) -> bool {
        may_throttle(&Root::at(tree.path()))
    }

    #[test]
    fn a_quota_of_any_group_above_stops_threads_and_an_unseen_one_may() {
        let two = |tree: HostTree, file: &str, quota: &str| tree.file(format!("sys/fs/cgroup/{file}"), quota);
        let job = || host(INITIAL, "0::/jobs/7\n");
        assert!(!may(&job()) && !may(&HostTree::new()) && !may(&host(INITIAL, "3:memory:/a\n")));
        assert!(!may(&two(job(), "jobs/7/cpu.max", "max 100000\n")));
        assert!(!may(&two(job(), "jobs/8/cpu.max", "50000 100000\n")), "another's");
        for file in ["jobs/7/cpu.max", "jobs/cpu.max"] {
            assert!(may(&two(job(), file, "50000 100000\n")), "{file}");
        }
        // Where the controller is in a hierarchy of version 1, that of version 2 has none.
        let one = |quota: &str| {
            host(INITIAL, "4:cpu,cpuacct:/jobs/7\n0::/\n").file("sys/fs/one/jobs/cpu.cfs_quota_us", quota)
        };
        assert!(!may(&one("-1\n")) && may(&one("50000\n")));
        let inside = host("cgroup:[4026532401]", "0::/\n");
        let not_mounted = HostTree::new().link("proc/self/ns/cgroup", INITIAL).file("proc/self/cgroup", "0::/jobs\n");
        assert!(may(&inside) && may(&not_mounted) && may(&host(INITIAL, "0::/../other\n")));
    }
}
