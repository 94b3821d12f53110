//! The mounts that this process sees: /proc/self/mountinfo, as proc_pid_mountinfo(5) says.
//!
//! ```
//! use std::path::Path;
//! use surefoot_hostfs::{Root, mounts::Mounts};
//! let mounts = Mounts::read(&Root::host())?;
//! if let Some(mount) = mounts.on(Path::new("/dev/shm")) {
//!     println!("/dev/shm is on {}, {}", mount.kind, if mount.is_in_memory() { "in memory" } else { "not in memory" });
//! }
//! # Ok::<(), surefoot_hostfs::Error>(())
//! ```

use crate::device::DeviceNumber;
use crate::{Error, Root};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use surefoot_model::unescape_octal;

/// The most mounts that are kept; the kernel's own limit is 100,000, and hosts of many containers have thousands.
const MOUNTS_MAX: usize = 16_384;

/// File systems in memory.
const IN_MEMORY: &[&str] = &["tmpfs", "ramfs", "hugetlbfs"];

/// File systems that several hosts share, by the beginning of the kernel's word.
const SHARED: &[&str] = &[
    "nfs", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb", "orangefs", "pvfs", "gfs2", "ocfs2", "9p", "virtiofs",
    "fuse.",
];

/// File systems that need neither a server nor a program to answer, by the kernel's word: its own, and those of local disks.
const ANSWERS: &[&str] = &[
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "proc",
    "pstore",
    "ramfs",
    "resctrl",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "sysfs",
    "tmpfs",
    "tracefs",
    "bcachefs",
    "btrfs",
    "erofs",
    "ext2",
    "ext3",
    "ext4",
    "f2fs",
    "iso9660",
    "squashfs",
    "vfat",
    "xfs",
    "zfs",
];

/// A mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The file system's number.
    pub number: DeviceNumber,
    /// The folder of the file system that is seen; of control groups relative to the namespace of the reader.
    pub root: PathBuf,
    /// Where it is seen.
    pub point: PathBuf,
    /// Its kind, such as `ext4`.
    pub kind: String,
    /// What was mounted, such as `/dev/vda`.
    pub source: String,
    /// The options of this mount alone, such as `rw,noatime`.
    pub own_options: String,
    /// The file system's options, as the kernel writes them; [`Mount::option`] reads one.
    pub options: String,
}

impl Mount {
    /// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
    fn parse(line: &str) -> Option<Self> {
        let (place, what) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(2);
        let number = place.next()?.parse::<DeviceNumber>().ok()?;
        let path = |word: &str| PathBuf::from(OsString::from_vec(unescape_octal(word.as_bytes())));
        let (root, point) = (path(place.next()?), path(place.next()?));
        let own_options = place.next().unwrap_or_default().to_owned();
        let mut what = what.split(' ');
        let (kind, source) = (text(what.next()?), text(what.next()?));
        if point.as_os_str().is_empty() || kind.is_empty() {
            return None;
        }
        Some(Mount {
            number,
            root,
            point,
            kind,
            source,
            own_options,
            options: what.next().unwrap_or_default().to_owned(),
        })
    }

    /// The value of an option of the file system.
    pub fn option(&self, name: &str) -> Option<OsString> {
        let value = self.options.split(',').find_map(|option| option.strip_prefix(name)?.strip_prefix('='))?;
        Some(OsString::from_vec(unescape_octal(value.as_bytes())))
    }

    /// Whether the file system takes no writes although this mount asks for them: the kernel itself turned it read-only, for an error.
    pub fn became_read_only(&self) -> bool {
        let has = |options: &str, word| options.split(',').any(|option| option == word);
        has(&self.own_options, "rw") && has(&self.options, "ro")
    }

    /// Whether what is written there is in memory, and gone after a restart.
    pub fn is_in_memory(&self) -> bool {
        IN_MEMORY.contains(&self.kind.as_str())
    }

    /// Whether it answers without a server or a program, which may stop. Of a kind that is not known it does not.
    pub fn answers(&self) -> bool {
        ANSWERS.contains(&self.kind.as_str())
    }

    /// Whether several hosts may see the same files there.
    pub fn is_shared(&self) -> bool {
        SHARED.iter().any(|known| self.kind.starts_with(known))
    }
}

/// All mounts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mounts {
    /// In the kernel's order: of several at one place the last is seen.
    pub list: Vec<Mount>,
    /// Lines that are no mount, or were too many.
    pub dropped_count: u64,
}

impl Mounts {
    /// Reads them.
    ///
    /// # Errors
    /// When /proc/self/mountinfo cannot be read.
    pub fn read(root: &Root) -> Result<Self, Error> {
        Ok(Self::parse(&root.read(root.proc("self/mountinfo"))?))
    }

    /// Reads the text of a mountinfo file.
    pub fn parse(text: &str) -> Self {
        let mut mounts = Mounts::default();
        for line in text.lines() {
            match Mount::parse(line) {
                Some(mount) if mounts.list.len() < MOUNTS_MAX => mounts.list.push(mount),
                _ => mounts.dropped_count += 1,
            }
        }
        mounts
    }

    /// The mount that a path lies on, by its words: the path must be absolute and without links.
    pub fn on(&self, path: &Path) -> Option<&Mount> {
        let above = self.list.iter().filter(|mount| path.starts_with(&mount.point));
        // Of several that are equally deep this takes the last.
        above.max_by_key(|mount| mount.point.components().count())
    }
}

/// The mounts whose file system may not answer. They are read again when the kernel says that a mount came or went.
#[derive(Debug)]
pub struct Foreign {
    file: File,
    /// `None` when they could not be read.
    mounts: Option<Mounts>,
}

impl Foreign {
    /// Reads them.
    ///
    /// # Errors
    /// When /proc/self/mountinfo cannot be opened.
    pub fn open(root: &Root) -> Result<Self, Error> {
        let file = root.open_plain(root.proc("self/mountinfo"))?;
        let mut foreign = Foreign { file, mounts: None };
        foreign.read();
        Ok(foreign)
    }

    fn read(&mut self) {
        let mut text = Vec::new();
        let read = self.file.rewind().and_then(|()| (&self.file).take(Root::READ_LIMIT_BYTES).read_to_end(&mut text));
        self.mounts = read.ok().map(|_| Mounts::parse(&String::from_utf8_lossy(&text)));
    }

    /// Reads them again where they may have changed.
    pub fn look(&mut self) {
        let mut asked = libc::pollfd { fd: self.file.as_raw_fd(), events: libc::POLLPRI, revents: 0 };
        // SAFETY: one entry, a local that the call writes to.
        if unsafe { libc::poll(&raw mut asked, 1, 0) } != 0 || self.mounts.is_none() {
            self.read();
        }
    }

    /// A mount over one of these paths, or below it, that may not answer: its place and kind. Paths are absolute and without links.
    pub fn over<'a>(&'a self, paths: &[&str]) -> Option<(&'a Path, &'a str)> {
        let Some(mounts) = &self.mounts else { return Some((Path::new("/proc/self/mountinfo"), "unknown")) };
        let of = |path: &Path| {
            let below = mounts.list.iter().filter(|mount| mount.point.starts_with(path));
            mounts.on(path).into_iter().chain(below).find(|mount| !mount.answers())
        };
        paths.iter().find_map(|path| of(Path::new(path))).map(|mount| (mount.point.as_path(), mount.kind.as_str()))
    }
}

fn text(escaped: &str) -> String {
    String::from_utf8_lossy(&unescape_octal(escaped.as_bytes())).into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    const TEXT: &str = "\
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
25 22 0:22 / /dev/shm rw,nosuid - tmpfs tmpfs rw
40 22 0:40 / /scratch rw - lustre 10.0.0.1@tcp:/scratch rw
41 22 0:41 / /with\\040blank rw - fuse.sshfs x\\043y rw
42 22 254:16 / /over rw - ext4 /dev/vdb rw
43 22 0:43 / /over rw - nfs4 server:/ rw
nonsense
44 22 0:44
45 22 x:y / /never rw - ext4 /dev/x rw
46 22 0:46 / /box rw master:3 - overlay overlay rw,lowerdir=/a:/b,upperdir=/u\\040p\\054\\134x,workdir=/w
47 22 0:22 /sub /bound rw - tmpfs tmpfs rw
";

    #[test]
    fn the_deepest_and_last_mount_is_seen() {
        let mounts = Mounts::parse(TEXT);
        assert_eq!((mounts.list.len(), mounts.dropped_count), (8, 3));
        for (path, kind, is_in_memory, is_shared) in [
            ("/var/lib", "ext4", false, false),
            ("/dev/shm/job", "tmpfs", true, false),
            ("/dev/shmem", "ext4", false, false),
            ("/scratch", "lustre", false, true),
            ("/with blank/x", "fuse.sshfs", false, true),
            ("/over/x", "nfs4", false, true),
        ] {
            let mount = mounts.on(Path::new(path)).unwrap();
            assert_eq!((mount.kind.as_str(), mount.is_in_memory(), mount.is_shared()), (kind, is_in_memory, is_shared));
        }
        assert_eq!(Mounts::parse("").on(Path::new("/")), None);
    }

    #[test]
    fn escapes_are_undone_after_options_are_told_apart() {
        let mounts = Mounts::parse(TEXT);
        let overlay = mounts.on(Path::new("/box")).unwrap();
        assert_eq!(overlay.option("upperdir").unwrap(), "/u p,\\x");
        assert_eq!((overlay.option("dir"), overlay.option("rw")), (None, None));
        assert_eq!(mounts.on(Path::new("/with blank")).unwrap().source, "x#y");
        for (escaped, plain) in [
            ("a\\134040", &b"a\\040"[..]),
            ("\\", b"\\"),
            ("\\04", b"\\04"),
            ("\\400", b"\\400"),
            ("\\303\\244", b"\xc3\xa4"),
        ] {
            assert_eq!(unescape_octal(escaped.as_bytes()), plain, "{escaped}");
        }
    }

    #[test]
    fn what_became_read_only_by_itself_is_told_from_what_was_mounted_so() {
        let became = |line: &str| Mounts::parse(line).list[0].became_read_only();
        assert!(became("22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 ro,errors=remount-ro"));
        assert!(!became("22 1 254:1 / / ro,relatime - ext4 /dev/vda1 ro"), "somebody mounted it so");
        assert!(!became("22 1 254:1 / /jail ro - ext4 /dev/vda1 rw"), "a read-only view of what takes writes");
        assert!(!became("22 1 254:1 / / rw - ext4 /dev/vda1 rw,errors=remount-ro"));
    }

    #[test]
    fn a_mount_over_or_below_a_path_that_may_not_answer_is_found() {
        let over = |lines: &str, path: &str| {
            let text = format!(
                "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / /sys rw - sysfs sysfs rw\n\
                 3 2 0:3 / /sys/kernel/debug rw - debugfs debugfs rw\n{lines}"
            );
            let foreign = Foreign { file: File::open("/dev/null").unwrap(), mounts: Some(Mounts::parse(&text)) };
            foreign.over(&[path]).map(|(point, kind)| (point.to_owned(), kind.to_owned()))
        };
        let found = |point: &str, kind: &str| Some((PathBuf::from(point), kind.to_owned()));
        let edac = "/sys/devices/system/edac";
        assert_eq!(over("", edac), None);
        assert_eq!(over("", "/sys/kernel"), None);
        assert_eq!(over("9 1 0:9 / /mnt rw - nfs4 server:/ rw\n", edac), None);
        for point in [edac, "/sys/devices/system/edac/mc/mc0/ce_count", "/sys/devices/system", "/sys"] {
            let line = format!("9 2 0:9 / {point} rw - fuse.lxcfs lxcfs rw\n");
            assert_eq!(over(&line, edac), found(point, "fuse.lxcfs"), "{point}");
        }
        assert_eq!(over(&format!("9 2 0:9 / {edac} rw - tmpfs tmpfs rw\n"), edac), None);
        assert_eq!(over(&format!("9 2 0:9 / {edac} rw - newfs x rw\n"), edac), found(edac, "newfs"), "not known");
        // The mount that covers a path is the one that counts.
        let covered = format!("8 2 0:8 / /sys/devices rw - nfs a:/ rw\n9 8 0:9 / {edac} rw - sysfs sysfs rw\n");
        assert_eq!(over(&covered, edac), None);
    }

    #[test]
    fn mounts_that_come_and_go_are_seen() {
        let mut foreign = Foreign::open(&Root::host()).unwrap();
        foreign.look();
        assert!(foreign.mounts.as_ref().unwrap().on(Path::new("/proc/self")).unwrap().answers());
        foreign.mounts = None;
        assert_eq!(foreign.over(&["/proc"]).unwrap().1, "unknown", "what could not be read is not none");
        foreign.look();
        assert_eq!(foreign.over(&["/proc/self"]), None);
    }

    #[test]
    fn what_is_over_the_limit_is_counted() {
        let line = "22 1 254:1 / / rw - ext4 /dev/vda1 rw\n";
        let mounts = Mounts::parse(&line.repeat(MOUNTS_MAX + 5));
        assert_eq!((mounts.list.len(), mounts.dropped_count), (MOUNTS_MAX, 5));
    }

    #[test]
    fn the_running_host_has_a_mount_for_proc() {
        let mounts = Mounts::read(&Root::host()).unwrap();
        assert_eq!(mounts.on(Path::new("/proc/self")).unwrap().kind, "proc");
        assert_eq!(mounts.dropped_count, 0);
    }

    /// As `mangle_path` of the kernel's fs/seq_file.c.
    fn mangled(bytes: &OsStr) -> String {
        let text = bytes.to_str().unwrap();
        let each = text.chars().map(|letter| match letter {
            ' ' | '\t' | '\n' | '\\' | '#' => format!("\\{:03o}", letter as u32),
            other => other.to_string(),
        });
        each.collect()
    }

    fn mount() -> impl Strategy<Value = Mount> {
        let name = prop::collection::vec(
            prop::sample::select(vec!["a", "b", " ", "\t", "\n", "\\", "#", "040", "é", "-"]),
            1..4,
        );
        let point = prop::collection::vec(name.prop_map(|parts| parts.concat()), 0..4)
            .prop_map(|names| format!("/{}", names.join("/")));
        (0u32..300, 0u32..3, point, "[a-z9.]{1,8}", "[a-z:/ \\\\#]{1,9}", "[a-z=,]{0,9}").prop_map(
            |(major, minor, point, kind, source, options)| Mount {
                number: DeviceNumber { major, minor },
                root: "/".into(),
                point: point.into(),
                kind,
                source,
                own_options: "rw,noatime".to_owned(),
                options,
            },
        )
    }

    proptest! {
        #[test]
        fn what_the_kernel_writes_is_read_as_it_was(
            list in prop::collection::vec(mount(), 0..12),
            tags in prop::sample::select(vec!["", " shared:1", " shared:7 master:2"]),
        ) {
            let line = |mount: &Mount| format!(
                "36 35 {} / {} rw,noatime{tags} - {} {} {}\n",
                mount.number, mangled(mount.point.as_os_str()), mount.kind, mangled(OsStr::new(&mount.source)), mount.options,
            );
            let text: String = list.iter().map(line).collect();
            let mounts = Mounts::parse(&text);
            prop_assert_eq!(&mounts.list, &list);
            prop_assert_eq!(mounts.dropped_count, 0);
            // Looking from the path upwards finds the same.
            for path in list.iter().map(|mount| mount.point.join("x/y")) {
                let found = path.ancestors().find_map(|at| list.iter().rev().find(|mount| mount.point == at));
                prop_assert_eq!(mounts.on(&path), found);
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in any::<String>(), words in prop::collection::vec(
            prop::sample::select(vec!["36", "98:0", "/", "/a\\040b", "\\", "\\0", "-", " - ", " ", "\n", "ext4", "rw", "a=b,"]), 0..40,
        )) {
            for text in [text, words.concat(), words.join(" ")] {
                let mounts = Mounts::parse(&text);
                let kept = mounts.list.len() as u64 + mounts.dropped_count;
                prop_assert_eq!(kept, text.lines().count() as u64);
                for mount in &mounts.list {
                    prop_assert!(!mount.point.as_os_str().as_bytes().is_empty());
                    let _ = (mount.option("a"), mounts.on(&mount.point));
                }
            }
        }
    }
}
