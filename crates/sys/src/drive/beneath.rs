//! From a partition, volume or array to the whole devices beneath it.

use super::number;
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use surefoot_hostfs::Root;
use surefoot_hostfs::device::DeviceNumber;

/// A volume on an array on a volume: more storeys are nobody's.
const DEPTH_MAX: usize = 16;

/// Devices beneath one; a larger array is looked at in part.
const DEVICES_MAX: usize = 256;

/// What lies beneath.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Beneath {
    /// Names of whole devices that lie on no others, such as `nvme0n1`, in order.
    pub names: BTreeSet<String>,
    /// Devices that were not followed, because there are too many, they are too deep, or what lies beneath cannot be read.
    pub dropped_count: u64,
}

/// What lies beneath a block device: partitions lead to their drive; volumes (LVM, LUKS, multipath) and arrays (MD) to
/// what the kernel calls their slaves; a loop device to the file that it shows. Every device is looked at once, so a
/// tree that turns in a circle ends.
pub fn beneath(root: &Root, number: DeviceNumber) -> Beneath {
    let mut walk = Walk { root, seen: BTreeSet::new(), found: Beneath::default() };
    walk.number(number, 0);
    walk.found
}

struct Walk<'a> {
    root: &'a Root,
    seen: BTreeSet<PathBuf>,
    found: Beneath,
}

impl Walk<'_> {
    fn number(&mut self, number: DeviceNumber, depth: usize) {
        self.device(&self.root.sys("dev/block").join(number.to_string()), depth);
    }

    fn device(&mut self, link: &Path, depth: usize) {
        let mut folder = match link.canonicalize() {
            Ok(folder) => folder,
            // No block device has that number.
            Err(error) if depth == 0 && error.kind() == ErrorKind::NotFound => return,
            Err(_) => {
                self.found.dropped_count += 1;
                return;
            }
        };
        if folder.join("partition").exists() {
            folder.pop();
        }
        if self.seen.contains(&folder) {
            return;
        }
        if depth > DEPTH_MAX || self.seen.len() >= DEVICES_MAX {
            self.found.dropped_count += 1;
            return;
        }
        self.seen.insert(folder.clone());
        // A drive of its own is only what certainly lies on nothing.
        let slaves = match fs::read_dir(folder.join("slaves")) {
            Ok(slaves) => {
                slaves.take(DEVICES_MAX + 1).map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<PathBuf>>>()
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        };
        let backing_file = match self.root.read(folder.join("loop/backing_file")) {
            Ok(path) => Ok(Some(path)),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(error),
        };
        let (Ok(slaves), Ok(backing_file)) = (slaves, backing_file) else {
            self.found.dropped_count += 1;
            return;
        };
        for slave in &slaves {
            self.device(slave, depth + 1);
        }
        match backing_file {
            _ if !slaves.is_empty() => {}
            Some(path) => match number::of_path(self.root, Path::new(path.trim_end_matches('\n'))) {
                Ok(Ok(numbers)) => numbers.into_iter().for_each(|number| self.number(number, depth + 1)),
                _ => self.found.dropped_count += 1,
            },
            None => {
                let name = folder.file_name().and_then(|name| name.to_str());
                self.found.names.extend(name.map(str::to_owned));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_testkit::HostTree;

    /// A host with partitions, LUKS on LVM on MD on two drives, NVMe with two paths, a loop device, and a circle.
    fn host() -> HostTree {
        let block = |tree: HostTree, number: &str, folder: &str| {
            let name = folder.rsplit('/').next().unwrap();
            tree.file(format!("sys/devices/{folder}/dev"), format!("{number}\n"))
                .link(format!("sys/dev/block/{number}"), format!("../../devices/{folder}"))
                .link(format!("sys/class/block/{name}"), format!("../../devices/{folder}"))
        };
        let on = |tree: HostTree, upper: &str, lower: &str| {
            let name = lower.rsplit('/').next().unwrap();
            tree.link(format!("sys/devices/{upper}/slaves/{name}"), format!("../../../../{lower}"))
        };
        let mut tree = HostTree::new();
        for (number, folder) in [
            ("8:0", "pci/ata1/block/sda"),
            ("8:1", "pci/ata1/block/sda/sda1"),
            ("8:16", "pci/ata2/block/sdb"),
            ("8:17", "pci/ata2/block/sdb/sdb1"),
            ("9:0", "virtual/block/md0"),
            ("253:0", "virtual/block/dm-0"),
            ("253:1", "virtual/block/dm-1"),
            ("253:5", "virtual/block/dm-5"),
            ("253:6", "virtual/block/dm-6"),
            ("259:0", "virtual/nvme-subsystem/nvme-subsys0/nvme0n1"),
            ("259:1", "virtual/nvme-subsystem/nvme-subsys0/nvme0n1/nvme0n1p1"),
            ("7:0", "virtual/block/loop0"),
        ] {
            tree = block(tree, number, folder);
            if folder.ends_with('1') && number != "253:1" && number != "259:0" {
                tree = tree.file(format!("sys/devices/{folder}/partition"), "1\n");
            }
        }
        for (upper, lower) in [
            ("virtual/block/md0", "pci/ata1/block/sda/sda1"),
            ("virtual/block/md0", "pci/ata2/block/sdb/sdb1"),
            ("virtual/block/dm-0", "virtual/block/md0"),
            ("virtual/block/dm-1", "virtual/block/dm-0"),
            ("virtual/block/dm-5", "virtual/block/dm-6"),
            ("virtual/block/dm-6", "virtual/block/dm-5"),
        ] {
            tree = on(tree, upper, lower);
        }
        tree.file("proc/self/mountinfo", "31 27 259:1 / /srv rw - xfs /dev/nvme0n1p1 rw\n")
            .file("sys/devices/virtual/block/loop0/loop/backing_file", "/srv/images/disk.img\n")
    }

    fn names(tree: &HostTree, number: &str) -> Vec<String> {
        let found = beneath(&Root::at(tree.path()), number.parse().unwrap());
        assert_eq!(found.dropped_count, 0);
        found.names.into_iter().collect()
    }

    #[test]
    fn every_storey_leads_to_its_drives() {
        let host = host();
        for (number, wanted) in [
            ("8:0", &["sda"][..]),
            ("8:17", &["sdb"]),
            ("9:0", &["sda", "sdb"]),
            ("253:1", &["sda", "sdb"]),
            ("259:1", &["nvme0n1"]),
            ("259:0", &["nvme0n1"]),
            ("7:0", &["nvme0n1"]),
            ("99:99", &[]),
        ] {
            assert_eq!(names(&host, number), wanted, "{number}");
        }
    }

    #[test]
    fn a_circle_ends_and_has_no_drive() {
        assert_eq!(names(&host(), "253:5"), [""; 0]);
    }

    #[test]
    fn what_lies_on_something_that_cannot_be_read_is_no_drive() {
        for odd in [
            // A listing, a link and a file of a loop device that lead nowhere.
            HostTree::new().file("sys/devices/block/sdx/slaves", ""),
            HostTree::new().link("sys/devices/block/sdx/slaves/sdy", "../../../../nowhere"),
            HostTree::new()
                .file("sys/devices/block/sdx/loop/backing_file", "/gone.img\n")
                .file("proc/self/mountinfo", ""),
        ] {
            let odd = odd.link("sys/dev/block/8:0", "../../devices/block/sdx");
            let found = beneath(&Root::at(odd.path()), "8:0".parse().unwrap());
            assert_eq!((found.names.len(), found.dropped_count), (0, 1), "{found:?}");
        }
    }

    #[test]
    fn what_is_too_deep_or_too_wide_is_counted() {
        let mut deep = HostTree::new().link("sys/dev/block/253:0", "../../devices/virtual/block/dm-0");
        for storey in 0..=DEPTH_MAX + 1 {
            let slave = format!("sys/devices/virtual/block/dm-{storey}/slaves/dm-{}", storey + 1);
            deep = deep.link(slave, format!("../../dm-{}", storey + 1));
        }
        deep = deep.folder(format!("sys/devices/virtual/block/dm-{}", DEPTH_MAX + 2));
        let found = beneath(&Root::at(deep.path()), "253:0".parse().unwrap());
        assert_eq!((found.names.len(), found.dropped_count), (0, 1));
        let mut wide = HostTree::new().link("sys/dev/block/9:0", "../../devices/md0");
        for member in 0..DEVICES_MAX + 10 {
            wide = wide.folder(format!("sys/devices/sd{member}"));
            wide = wide.link(format!("sys/devices/md0/slaves/sd{member}"), format!("../../sd{member}"));
        }
        let found = beneath(&Root::at(wide.path()), "9:0".parse().unwrap());
        assert!(found.names.len() < DEVICES_MAX && found.dropped_count > 0, "{found:?}");
    }
}
