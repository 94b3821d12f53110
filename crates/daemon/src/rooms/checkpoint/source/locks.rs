//! Whether a process holds a lock, without trying to take it: that would keep a starting job out.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use surefoot_hostfs::Root;
use surefoot_hostfs::namespaces::Namespaces;

/// The locks of whole files that processes hold here: major and minor number of the device, and the inode.
#[derive(Debug, Default)]
pub(super) struct Locks(Option<BTreeSet<(u64, u64, u64)>>);

impl Locks {
    /// Reads them; where they cannot be read, nothing is known. The kernel leaves out those of processes outside the PID namespace of
    /// /proc.
    pub(super) fn read(root: &Root) -> Self {
        if root.is_host() && !Namespaces::of_this_process().pids_are_the_kernels() {
            return Locks(None);
        }
        Locks(root.read(root.proc("locks")).ok().map(|text| parse(&text)))
    }

    /// Whether a file is locked by a process that can be seen from here; `None` where that is not known.
    pub(super) fn holds(&self, path: &Path) -> Option<bool> {
        let locks = self.0.as_ref()?;
        let found = fs::symlink_metadata(path).ok().filter(|found| found.is_file())?;
        let (major, minor) = device_number(found.dev());
        Some(locks.contains(&(major, minor, found.ino())))
    }
}

/// `1: FLOCK  ADVISORY  WRITE 1234 fe:01:5678 0 EOF`, as proc(5) says; device numbers are hexadecimal.
fn parse(text: &str) -> BTreeSet<(u64, u64, u64)> {
    let lock = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().take(6).collect();
        let &[_, "FLOCK", _, _, _, place] = words.as_slice() else { return None };
        let mut parts = place.split(':');
        let major = u64::from_str_radix(parts.next()?, 16).ok()?;
        let minor = u64::from_str_radix(parts.next()?, 16).ok()?;
        Some((major, minor, parts.next()?.parse().ok()?))
    };
    text.lines().filter_map(lock).collect()
}

/// The major and the minor number of a device, as the C library of Linux packs them.
pub(super) fn device_number(packed: u64) -> (u64, u64) {
    let major = ((packed >> 8) & 0xfff) | ((packed >> 32) & !0xfff);
    let minor = (packed & 0xff) | ((packed >> 12) & !0xff);
    (major, minor & 0xffff_ffff)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn locks_are_those_of_whole_files() {
        let text = "\
1: FLOCK  ADVISORY  WRITE 1234 fe:01:5678 0 EOF
1: -> FLOCK  ADVISORY  WRITE 99 fe:01:77 0 EOF
2: POSIX  ADVISORY  WRITE 1234 00:16:9 0 EOF
3: FLOCK  ADVISORY  WRITE 1234
";
        assert_eq!(parse(text), BTreeSet::from([(0xfe, 1, 5678)]));
        assert_eq!(device_number(0xfe01), (0xfe, 1));
        assert_eq!(device_number(0x0001_2000_6783_459a), (0x1_2345, 0x6_789a));
    }

    #[test]
    fn a_lock_of_this_process_is_seen_on_the_running_kernel() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("lock");
        let file = fs::File::create(&path).unwrap();
        let root = Root::host();
        assert_eq!(Locks::read(&root).holds(&path), Some(false));
        file.lock().unwrap();
        assert_eq!(Locks::read(&root).holds(&path), Some(true));
        assert_eq!(Locks::read(&root).holds(&home.path().join("none")), None);
        assert_eq!(Locks::default().holds(&path), None);
    }
}
