//! Device numbers, and from a path to those of what it lies on.

use crate::{Error, Root, Unsupported};
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The number of a block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber {
    /// Its driver.
    pub major: u32,
    /// Which of the driver's.
    pub minor: u32,
}

impl DeviceNumber {
    /// From what `stat` calls `st_dev` or `st_rdev`.
    pub fn of_stat(number: u64) -> Self {
        DeviceNumber { major: libc::major(number), minor: libc::minor(number) }
    }

    /// Whether there is no device behind it: file systems without one, or with several, draw such numbers.
    pub fn is_anonymous(self) -> bool {
        self.major == 0
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.major, self.minor)
    }
}

impl FromStr for DeviceNumber {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (major, minor) = text.trim().split_once(':').ok_or(())?;
        Ok(DeviceNumber { major: major.parse().map_err(|_| ())?, minor: minor.parse().map_err(|_| ())? })
    }
}

/// A mount, as a line of /proc/self/mountinfo says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The file system's number.
    pub number: DeviceNumber,
    /// Where it is seen.
    pub point: PathBuf,
    /// Its kind, such as `ext4`.
    pub kind: String,
    /// What was mounted, such as `/dev/vda`.
    pub source: String,
    /// The file system's options.
    pub options: String,
}

impl Mount {
    fn parse(line: &str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(2);
        let number = before.next()?.parse().ok()?;
        let point = unescape(before.nth(1)?);
        let mut after = after.split(' ');
        let (kind, source) = (after.next()?.to_owned(), unescape(after.next()?));
        Some(Mount { number, point: point.into(), kind, source, options: after.next().unwrap_or_default().to_owned() })
    }

    /// The value of an option of the file system.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.split(',').find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    }
}

/// The kernel writes blanks, tabs, line ends and backslashes as octal numbers.
fn unescape(text: &str) -> String {
    ["\\040", "\\011", "\\012", "\\134"]
        .iter()
        .zip([" ", "\t", "\n", "\\"])
        .fold(text.to_owned(), |text, (written, meant)| text.replace(written, meant))
}

/// The mounts that this process sees, in their order.
///
/// # Errors
/// When /proc/self/mountinfo cannot be read.
pub fn mounts(root: &Root) -> Result<Vec<Mount>, Error> {
    Ok(root.read(root.proc("self/mountinfo"))?.lines().filter_map(Mount::parse).collect())
}

/// Numbers of the block devices that a file or directory lies on: one, or several under btrfs.
///
/// On the host the path's own number counts; in a recorded tree that of the mount that its words lead to.
///
/// # Errors
/// [`Error::Read`] for a path that is not there.
pub fn of_path(root: &Root, path: &Path) -> Result<Result<Vec<DeviceNumber>, Unsupported>, Error> {
    follow(root, path, 0)
}

/// Overlays over overlays: more are not made by anybody.
const OVERLAYS_MAX: usize = 4;

fn follow(root: &Root, path: &Path, depth: usize) -> Result<Result<Vec<DeviceNumber>, Unsupported>, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let mut wanted = None;
    let mut real = path.to_owned();
    if root.is_host() {
        use std::os::unix::fs::FileTypeExt;
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
    let mounts = mounts(root)?;
    let by_number = mounts.iter().rev().find(|mount| Some(mount.number) == wanted && real.starts_with(&mount.point));
    // Of several mounts at one place the last is seen; a btrfs subvolume has a number that no mount has.
    let by_words = || {
        let above = mounts.iter().filter(|mount| real.starts_with(&mount.point));
        above.max_by_key(|mount| mount.point.components().count())
    };
    let Some(mount) = by_number.or_else(by_words) else {
        return Ok(Err(Unsupported::new(format!("{} lies below no mount", path.display()), "")));
    };
    if !mount.number.is_anonymous() {
        return Ok(Ok(vec![mount.number]));
    }
    match mount.kind.as_str() {
        "overlay" if depth < OVERLAYS_MAX => match mount.option("upperdir") {
            Some(upper) if Path::new(upper) != path => {
                let upper = PathBuf::from(unescape(upper));
                let found = follow(root, &upper, depth + 1);
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
            let members = std::fs::read_dir(&devices).map_err(|_| ())?.flatten().take(MEMBERS_MAX);
            let number = |path: PathBuf| root.read(path.join("dev")).ok()?.parse().ok();
            let numbers: Vec<DeviceNumber> = members.filter_map(|member| number(member.path())).collect();
            return if numbers.is_empty() { Err(()) } else { Ok(numbers) };
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
        let tree = HostTree::new()
            .file("proc/self/mountinfo", MOUNTS)
            .file("sys/fs/btrfs/1234/devices/dm-3/dev", "253:3\n")
            .file("sys/fs/btrfs/1234/devices/dm-3/dm/name", "fast\n")
            .file("sys/fs/btrfs/1234/devices/sdb1/dev", "8:17\n")
            .file("sys/fs/btrfs/1234/devices/broken/dev", "no number")
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
