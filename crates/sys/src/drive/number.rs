//! From a path to the numbers of the block devices that it lies on.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use surefoot_hostfs::device::DeviceNumber;
use surefoot_hostfs::mounts::{Mount, Mounts};
use surefoot_hostfs::{Error, Root, Unsupported};

/// Numbers of the block devices that a file or directory lies on: one, or several under btrfs.
///
/// On the host the path's own number counts; in a recorded tree that of the mount that its words lead to.
///
/// # Errors
/// [`Error::Read`] for a path that is not there.
pub fn of_path(root: &Root, path: &Path) -> Result<Result<Vec<DeviceNumber>, Unsupported>, Error> {
    of_path_among(root, &OnceCell::new(), path)
}

/// As [`of_path`], with mounts that are read once for many paths, or when the first needs them.
pub(super) fn of_path_among(
    root: &Root,
    mounts: &OnceCell<Mounts>,
    path: &Path,
) -> Result<Result<Vec<DeviceNumber>, Unsupported>, Error> {
    follow(root, mounts, path, 0)
}

/// Overlays over overlays: more are not made by anybody.
const OVERLAYS_MAX: usize = 4;

fn follow(
    root: &Root,
    known: &OnceCell<Mounts>,
    path: &Path,
    depth: usize,
) -> Result<Result<Vec<DeviceNumber>, Unsupported>, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let mut wanted = None;
    let mut real = path.to_owned();
    if root.is_host() {
        use std::os::unix::fs::{FileTypeExt, MetadataExt};
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if metadata.file_type().is_block_device() {
            return Ok(Ok(vec![DeviceNumber::of_stat(metadata.rdev())]));
        }
        let number = DeviceNumber::of_stat(metadata.dev());
        if !number.is_anonymous() {
            return Ok(Ok(vec![number]));
        }
        wanted = Some(number);
        real = path.canonicalize().map_err(failed)?;
    }
    let mounts = match known.get() {
        Some(mounts) => mounts,
        None => {
            let mounts = Mounts::read(root)?;
            known.get_or_init(|| mounts)
        }
    };
    // A btrfs subvolume has a number that no mount has.
    let is_it = |mount: &&Mount| Some(mount.number) == wanted && real.starts_with(&mount.point);
    let Some(mount) = mounts.list.iter().rev().find(is_it).or_else(|| mounts.on(&real)) else {
        return Ok(Err(Unsupported::new(format!("{} lies below no mount", path.display()), "")));
    };
    if !mount.number.is_anonymous() {
        return Ok(Ok(vec![mount.number]));
    }
    match mount.kind.as_str() {
        "overlay" if depth < OVERLAYS_MAX => match mount.option("upperdir") {
            Some(upper) if Path::new(&upper) != path => {
                let found = follow(root, known, Path::new(&upper), depth + 1);
                // The upper directory is often out of sight of a container.
                found.or_else(|_| Ok(Err(no_device(path, "an overlay whose upper directory is out of sight"))))
            }
            _ => Ok(Err(no_device(path, "an overlay without an upper directory"))),
        },
        "btrfs" => Ok(btrfs_members(root, &mount.source).map_err(|()| no_device(path, "a btrfs without devices"))),
        kind => Ok(Err(no_device(path, &format!("a file system of the kind {kind}")))),
    }
}

fn no_device(path: &Path, what: &str) -> Unsupported {
    Unsupported::new(
        format!("{} lies on {what}, which shows no drive", path.display()),
        "name a directory on a local drive, or say endurance.rated_bytes and endurance.written_bytes by hand",
    )
}

/// Members of a btrfs, of which the mount names one.
const MEMBERS_MAX: usize = 64;

fn btrfs_members(root: &Root, source: &str) -> Result<Vec<DeviceNumber>, ()> {
    let name = Path::new(source).file_name().ok_or(())?;
    let file_systems = std::fs::read_dir(root.sys("fs/btrfs")).map_err(|_| ())?;
    for devices in file_systems.flatten().take(1_000).map(|entry| entry.path().join("devices")) {
        let is_it = devices.join(name).symlink_metadata().is_ok()
            || std::fs::read_dir(&devices).is_ok_and(|members| {
                // /dev/mapper names a volume otherwise than the kernel does.
                let mut members = members.flatten().take(MEMBERS_MAX);
                members.any(|member| {
                    root.read(member.path().join("dm/name")).is_ok_and(|text| *text.trim() == *name.to_string_lossy())
                })
            });
        if is_it {
            // Some of the members alone are not what it lies on.
            let members = std::fs::read_dir(&devices).map_err(|_| ())?.take(MEMBERS_MAX + 1);
            let number = |path: PathBuf| root.read(path.join("dev")).ok()?.parse::<DeviceNumber>().ok();
            let numbers = members.map(|member| number(member.ok()?.path())).collect::<Option<Vec<DeviceNumber>>>();
            return numbers.filter(|numbers| (1..=MEMBERS_MAX).contains(&numbers.len())).ok_or(());
        }
    }
    Err(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_testkit::HostTree;

    const MOUNTS: &str = "\
27 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw
30 27 0:27 / /dev/shm rw - tmpfs tmpfs rw
31 27 259:3 / /srv/with\\040blank rw shared:7 master:1 - xfs /dev/nvme0n1p1 rw,attr2
32 27 0:40 /@data /data rw - btrfs /dev/mapper/fast rw,space_cache=v2
33 27 0:51 / /box rw - overlay overlay rw,lowerdir=/a:/b,upperdir=/srv/with\\040blank/up,workdir=/w
34 27 0:52 / /nfs rw - nfs4 server:/x rw
35 27 0:53 / /turn rw - overlay overlay rw,upperdir=/turn/up
garbage
36 27 x:y / /never rw - ext4 /dev/x rw
";

    fn numbers(path: &str) -> Result<Vec<String>, String> {
        numbers_in(HostTree::new(), path)
    }

    fn numbers_in(tree: HostTree, path: &str) -> Result<Vec<String>, String> {
        let tree = tree
            .file("proc/self/mountinfo", MOUNTS)
            .file("sys/fs/btrfs/1234/devices/dm-3/dev", "253:3\n")
            .file("sys/fs/btrfs/1234/devices/dm-3/dm/name", "fast\n")
            .file("sys/fs/btrfs/1234/devices/sdb1/dev", "8:17\n")
            .folder("sys/fs/btrfs/features");
        let found = of_path(&Root::at(tree.path()), Path::new(path)).unwrap();
        let mut found: Vec<_> = found.map_err(|why| why.why)?.iter().map(ToString::to_string).collect();
        found.sort();
        Ok(found)
    }

    #[test]
    fn a_path_has_the_number_of_the_mount_that_it_lies_on() {
        assert_eq!(numbers("/var/lib"), Ok(vec!["254:1".into()]));
        assert_eq!(numbers("/srv/with blank/job"), Ok(vec!["259:3".into()]));
        assert_eq!(numbers("/srv/with blankets"), Ok(vec!["254:1".into()]));
        assert_eq!(numbers("/data/x"), Ok(vec!["253:3".into(), "8:17".into()]));
        assert_eq!(numbers("/box/x"), Ok(vec!["259:3".into()]));
        for (path, words) in [("/dev/shm/x", "tmpfs"), ("/nfs/x", "nfs4"), ("/turn/x", "overlay")] {
            assert!(numbers(path).unwrap_err().contains(words), "{path}");
        }
    }

    #[test]
    fn a_file_system_of_which_a_member_cannot_be_read_lies_on_no_known_drives() {
        let broken = || HostTree::new().file("sys/fs/btrfs/1234/devices/broken/dev", "no number");
        assert!(numbers_in(broken(), "/data/x").unwrap_err().contains("btrfs"));
        assert_eq!(numbers_in(broken(), "/var/lib"), Ok(vec!["254:1".into()]));
    }

    #[test]
    fn this_machine_says_where_its_root_lies_or_why_not() {
        match of_path(&Root::host(), Path::new("/")).unwrap() {
            Ok(numbers) => assert!(!numbers.is_empty() && numbers.iter().all(|number| !number.is_anonymous())),
            Err(why) => assert!(why.why.contains("shows no drive"), "{why}"),
        }
        let shm = of_path(&Root::host(), Path::new("/proc/self")).unwrap().unwrap_err();
        assert!(shm.why.contains("proc") && shm.remedy.contains("endurance.rated_bytes"), "{shm}");
        assert!(of_path(&Root::host(), Path::new("/nowhere/at/all")).unwrap_err().is_absent());
    }
}
