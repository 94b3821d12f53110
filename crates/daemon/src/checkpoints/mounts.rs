//! Which file system a directory lies on, and what that is good for.

use std::path::{Path, PathBuf};
use surefoot_hostfs::Root;

/// File systems in memory.
const MEMORY: &[&str] = &["tmpfs", "ramfs", "hugetlbfs"];

/// File systems that several nodes share, by the beginning of the kernel's word.
const SHARED: &[&str] = &[
    "nfs", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb", "orangefs", "pvfs", "gfs2", "ocfs2", "9p", "virtiofs",
    "fuse.",
];

/// The mounts of this process, the deepest first.
#[derive(Debug, Default)]
pub(super) struct Mounts(Vec<(PathBuf, String)>);

impl Mounts {
    /// Reads them; where they cannot be read, none is known.
    pub(super) fn read(root: &Root) -> Self {
        Mounts::parse(&root.read(root.proc("self/mountinfo")).unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let mut mounts: Vec<(PathBuf, String)> = text.lines().filter_map(parse_line).collect();
        // Of several on the same place the last one covers the others; the sort keeps their order.
        mounts.reverse();
        mounts.sort_by_key(|(at, _)| std::cmp::Reverse(at.components().count()));
        Mounts(mounts)
    }

    /// The kernel's word for the file system of a directory, whose path has no links.
    pub(super) fn file_system(&self, path: &Path) -> Option<&str> {
        self.0.iter().find(|(at, _)| path.starts_with(at)).map(|(_, kind)| kind.as_str())
    }

    /// Whether several nodes may share a directory.
    pub(super) fn is_shared(&self, path: &Path) -> bool {
        self.file_system(path).is_some_and(|kind| SHARED.iter().any(|known| kind.starts_with(known)))
    }

    /// What a directory without checkpoints is good for.
    pub(super) fn tier(&self, path: &Path) -> Option<&'static str> {
        let kind = self.file_system(path)?;
        Some(match () {
            () if MEMORY.contains(&kind) => "memory",
            () if self.is_shared(path) => "shared",
            () => "durable",
        })
    }
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`, as proc(5) says.
fn parse_line(line: &str) -> Option<(PathBuf, String)> {
    let (place, rest) = line.split_once(" - ")?;
    let at = place.split(' ').nth(4)?;
    let kind = rest.split(' ').next()?;
    Some((PathBuf::from(unescape(at)), kind.to_owned()))
}

/// The kernel writes blanks and backslashes of a path as three octal digits.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        match after.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                plain.push(char::from(byte));
                rest = &after[3..];
            }
            None => {
                plain.push('\\');
                rest = after;
            }
        }
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
25 22 0:22 / /dev/shm rw,nosuid - tmpfs tmpfs rw
40 22 0:40 / /scratch rw - lustre 10.0.0.1@tcp:/scratch rw
41 22 0:41 / /with\\040blank rw - fuse.sshfs x rw
42 22 0:42 / /over rw - ext4 /dev/vdb rw
43 22 0:43 / /over rw - nfs4 server:/ rw
nonsense
44 22 0:44
";

    #[test]
    fn the_deepest_and_last_mount_decides() {
        let mounts = Mounts::parse(TEXT);
        for (path, kind, tier) in [
            ("/var/lib", Some("ext4"), Some("durable")),
            ("/dev/shm/job", Some("tmpfs"), Some("memory")),
            ("/dev/shmem", Some("ext4"), Some("durable")),
            ("/scratch", Some("lustre"), Some("shared")),
            ("/with blank/x", Some("fuse.sshfs"), Some("shared")),
            ("/over", Some("nfs4"), Some("shared")),
        ] {
            assert_eq!((mounts.file_system(Path::new(path)), mounts.tier(Path::new(path))), (kind, tier), "{path}");
        }
        assert_eq!(Mounts::parse("").tier(Path::new("/")), None);
        assert_eq!(unescape("a\\134b\\"), "a\\b\\");
    }
}
