//! What a block device is: a disk, memory in the guise of one, or several others.

use super::{Kind, Medium};
use std::fmt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::{fs, io};
use surefoot_model::Digits;

/// The number of a block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DeviceNumber(u64);

impl From<u64> for DeviceNumber {
    fn from(number: u64) -> Self {
        DeviceNumber(number)
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", libc::major(self.0), libc::minor(self.0))
    }
}

/// Disks, by the beginning of the kernel's name, which a digit or a letter for each follows.
const DISKS: [&str; 8] = ["sd", "nvme", "vd", "xvd", "hd", "mmcblk", "dasd", "ubd"];

/// Memory that is seen as a block device.
const IN_MEMORY: [&str; 3] = ["ram", "zram", "nullb"];

/// Devices that are made of others, which `slaves` names.
const MADE_OF_OTHERS: [&str; 3] = ["dm-", "md", "bcache"];

/// What a block device is.
pub(super) fn medium(number: DeviceNumber, layers: u32) -> Medium {
    let linked = PathBuf::from(format!("/sys/dev/block/{number}"));
    match fs::canonicalize(&linked) {
        Ok(directory) => of_directory(&directory, layers),
        Err(_) => {
            Medium { kind: Kind::Unknown, said: format!("device {number}, which is not in {}", "/sys/dev/block") }
        }
    }
}

fn of_directory(directory: &Path, layers: u32) -> Medium {
    // A partition lies in the directory of its disk.
    let whole = match (directory.join("partition").exists(), directory.parent()) {
        (true, Some(whole)) => whole,
        _ => directory,
    };
    let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let of = |kind: Kind, more: &str| Medium { kind, said: format!("{name}{more}") };
    let is_any = |known: &[&str]| known.iter().any(|known| is_named(&name, known));
    match () {
        () if layers == 0 => of(Kind::Unknown, ", on more layers than are looked through"),
        () if is_any(&IN_MEMORY) => of(Kind::Memory, ", a block device in memory"),
        () if is_named(&name, "loop") => of_loop(whole, &name, layers - 1),
        () if is_any(&MADE_OF_OTHERS) => of_others(whole, &name, layers - 1),
        () if is_any(&DISKS) && is_emulated(whole) => of(Kind::Memory, ", which scsi_debug keeps in memory"),
        () if is_any(&DISKS) => of(Kind::Disk, ""),
        () => of(Kind::Unknown, ", an unknown kind of device"),
    }
}

/// Whether a name is this word and then a number, or for disks letters.
fn is_named(name: &str, known: &str) -> bool {
    name.strip_prefix(known).is_some_and(|rest| {
        let is_letter = known.ends_with('d') && !known.ends_with("md");
        rest.bytes().next().is_some_and(|byte| byte.is_ascii_digit() || (is_letter && byte.is_ascii_lowercase()))
    })
}

fn of_loop(whole: &Path, name: &str, layers: u32) -> Medium {
    let unknown = |why: &str| Medium { kind: Kind::Unknown, said: format!("{name}, {why}") };
    let Ok(text) = fs::read_to_string(whole.join("loop/backing_file")) else {
        return unknown("whose file is not known");
    };
    let file = PathBuf::from(text.trim_end_matches('\n'));
    let found = fs::metadata(&file).ok();
    if let Some(of) = found.as_ref().filter(|found| found.file_type().is_block_device()) {
        let beneath = medium(DeviceNumber::from(of.rdev()), layers);
        return Medium { kind: beneath.kind, said: format!("{name} on {}", beneath.said) };
    }
    if found.is_some_and(|found| !has_length(whole, found.len())) {
        return unknown(&format!("whose file is not {}, which has another length", file.display()));
    }
    match Medium::look(&file, layers) {
        Ok(beneath) => {
            Medium { kind: beneath.kind, said: format!("{name}, whose file {} is on {}", file.display(), beneath.said) }
        }
        Err(_) => unknown(&format!("whose file {} is not visible from here", file.display())),
    }
}

/// Whether a loop device can be of a file that is so long: the name may lead to another one by now.
fn has_length(whole: &Path, bytes: u64) -> bool {
    let number = |name: &str| fs::read_to_string(whole.join(name)).ok().and_then(|text| text.trim().digits::<u64>());
    let [sectors, offset, limit] = ["size", "loop/offset", "loop/sizelimit"].map(number);
    let Some(limit) = limit.filter(|limit| *limit != 0).or(offset.and_then(|offset| bytes.checked_sub(offset))) else {
        return false;
    };
    sectors == Some(limit / 512) && offset.is_some_and(|offset| offset <= bytes)
}

fn of_others(whole: &Path, name: &str, layers: u32) -> Medium {
    least_durable(&whole.join("slaves"), name, layers)
}

/// What a Btrfs lies on of which this is a device: it may have others.
pub(super) fn of_btrfs(number: DeviceNumber, layers: u32) -> Medium {
    let found = fs::canonicalize(format!("/sys/dev/block/{number}")).ok();
    let name = found.as_ref().and_then(|directory| directory.file_name()).unwrap_or_default();
    of_btrfs_in(Path::new("/sys/fs/btrfs"), &name.to_string_lossy(), layers)
}

fn of_btrfs_in(all: &Path, device: &str, layers: u32) -> Medium {
    let unknown = |why: &str| Medium { kind: Kind::Unknown, said: format!("{device}, {why}") };
    let systems = fs::read_dir(all).into_iter().flatten().flatten().map(|system| system.path());
    let mut systems = systems.filter(|system| !device.is_empty() && system.join("devices").join(device).exists());
    let Some(system) = systems.next() else { return unknown("whose file system is not in /sys/fs/btrfs") };
    let count = |names: &str| match fs::read_dir(system.join(names)) {
        Ok(names) => Some(names.count()),
        // Older kernels do not number the devices.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(0),
        Err(_) => None,
    };
    let [Some(numbered), Some(there)] = ["devinfo", "devices"].map(count) else {
        return unknown("whose devices cannot be listed");
    };
    if numbered > there {
        return unknown("one of several devices, of which not all are there");
    }
    least_durable(&system.join("devices"), "its devices", layers)
}

/// Of several the least durable counts: a stripe of a disk and of memory is lost with the memory.
fn least_durable(devices: &Path, name: &str, layers: u32) -> Medium {
    let devices = fs::read_dir(devices).into_iter().flatten();
    let devices = devices.map(|device| device.and_then(|device| fs::canonicalize(device.path())));
    let mut found: Vec<Medium> = devices
        .map(|device| match device {
            Ok(directory) => of_directory(&directory, layers),
            Err(_) => Medium { kind: Kind::Unknown, said: "a device that cannot be looked at".into() },
        })
        .collect();
    found.sort_by_key(|medium| std::cmp::Reverse(medium.kind));
    match found.first() {
        Some(worst) => Medium { kind: worst.kind, said: format!("{name} on {}", worst.said) },
        None => Medium { kind: Kind::Unknown, said: format!("{name}, which names no device beneath it") },
    }
}

/// Whether a SCSI disk is the kernel's own for tests.
fn is_emulated(whole: &Path) -> bool {
    fs::read_to_string(whole.join("device/model")).is_ok_and(|model| model.trim() == "scsi_debug")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_btrfs_is_what_the_least_durable_of_its_devices_is() {
        let home = tempfile::tempdir().unwrap();
        let device = |system: &str, name: &str| {
            let (block, devices) = (home.path().join("block").join(name), home.path().join("btrfs").join(system));
            fs::create_dir_all(&block).unwrap();
            fs::create_dir_all(devices.join("devices")).unwrap();
            std::os::unix::fs::symlink(&block, devices.join("devices").join(name)).unwrap();
        };
        device("one", "sda");
        device("two", "sdb");
        device("two", "ram0");
        device("gone", "sdc");
        ["1", "2"].iter().for_each(|id| fs::create_dir_all(home.path().join("btrfs/gone/devinfo").join(id)).unwrap());
        let of = |name: &str| of_btrfs_in(&home.path().join("btrfs"), name, 4).kind;
        let found = ["sda", "sdb", "ram0", "sdc", "sdd", ""].map(of);
        let wanted = [Kind::Disk, Kind::Memory, Kind::Memory, Kind::Unknown, Kind::Unknown, Kind::Unknown];
        assert_eq!(found, wanted);
    }

    #[test]
    fn names_of_devices_are_told_apart() {
        for (name, known) in [("sda", "sd"), ("nvme0n1", "nvme"), ("vda1", "vd"), ("dm-3", "dm-"), ("md127", "md")] {
            assert!(is_named(name, known), "{name}");
        }
        for (name, known) in
            [("sd", "sd"), ("mdx", "md"), ("ramx", "ram"), ("nvme", "nvme"), ("loop", "loop"), ("zram0", "ram")]
        {
            assert!(!is_named(name, known), "{name}");
        }
    }
}
