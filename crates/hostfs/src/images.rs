//! Files of other processes: what they have mapped, and what their compilers at run time say of their code.
//!
//! Whoever owns the process chose these files, so they are opened by what the kernel has mapped and not by a name, only
//! as plain files, and without waiting. What is in them is for who reads them to doubt.

use crate::Root;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use surefoot_foreign::{About, Held, Regular, hold_beneath, hold_link};
use surefoot_model::Digits;

/// Mappings of a process that are kept; more have none but the largest programs.
const MAPPINGS_MAX: usize = 4096;

/// As much of a list of mappings as is read.
const MAPS_LIMIT_BYTES: u64 = 16 << 20;

/// Characters of a mapping's name that are kept: the end of it.
const NAME_CHARACTERS_MAX: usize = 256;

/// The largest list of symbols of code made at run time.
const PERF_MAP_BYTES_MAX: u64 = 32 << 20;

/// An executable mapping of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// Its first address.
    pub start: u64,
    /// The address behind it.
    pub end: u64,
    /// Where in the file it begins, bytes.
    pub offset: u64,
    /// The number of the file's file system, as the kernel writes it.
    pub device: String,
    /// The file's number; 0 where there is none.
    pub inode: u64,
    /// The file's path, or the kernel's word such as `[vdso]`; empty for memory without a name.
    pub name: String,
}

impl Mapping {
    /// From a line of /proc/PID/maps; `None` for what is not executable.
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let permissions = words.next()?;
        let offset = words.next()?;
        let device = words.next()?;
        let inode = words.next()?.digits()?;
        if permissions.as_bytes().get(2) != Some(&b'x') {
            return None;
        }
        let number = |word: &str| word.hex_digits::<u64>();
        let name = words.next().unwrap_or("").trim_start();
        let beyond = name.chars().count().saturating_sub(NAME_CHARACTERS_MAX);
        Some(Mapping {
            start: number(start)?,
            end: number(end)?,
            offset: number(offset)?,
            device: device.to_owned(),
            inode,
            name: name.chars().skip(beyond).collect(),
        })
    }

    /// Whether there is a file behind it.
    pub fn is_of_file(&self) -> bool {
        self.inode != 0
    }

    /// The last part of the file's path, without control characters.
    pub fn file_name(&self) -> String {
        let name = self.name.strip_suffix(" (deleted)").unwrap_or(&self.name);
        let name = name.rsplit('/').next().unwrap_or(name);
        name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
    }
}

/// The executable mappings of a process, by address.
///
/// # Errors
/// [`crate::Error`] for a process that is gone or must not be looked at.
pub fn mappings(root: &Root, pid: u32) -> Result<Vec<Mapping>, crate::Error> {
    let text = root.read_up_to(root.proc(format!("{pid}/maps")), MAPS_LIMIT_BYTES)?;
    Ok(text.lines().filter_map(Mapping::parse).take(MAPPINGS_MAX).collect())
}

/// What tells a file from every other, and its contents from what they were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileKey {
    /// The number of its file system.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    /// Its length.
    pub bytes: u64,
    /// When it was changed last, nanoseconds since 1970.
    pub changed_ns: i64,
}

impl FileKey {
    /// Of an open file, without asking its file system.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn of_file(file: &File) -> io::Result<Self> {
        Ok(FileKey::of(&About::of(file)?))
    }

    fn of(file: &About) -> Self {
        let About { device, inode, bytes, changed_ns, .. } = *file;
        FileKey { device, inode, bytes, changed_ns }
    }
}

/// A plain file of a process, found and not opened yet.
#[derive(Debug)]
pub struct UnopenedFile {
    /// The file itself, held without being open for reading.
    held: Regular,
    /// Which it is.
    pub key: FileKey,
}

impl UnopenedFile {
    /// What another process holds and has sent.
    ///
    /// # Errors
    /// What the kernel says; [`io::ErrorKind::InvalidInput`] when it is no regular file.
    pub fn of(held: OwnedFd) -> io::Result<Self> {
        let held = Held::of(held)?.regular()?;
        let key = FileKey::of(held.about());
        Ok(UnopenedFile { held, key })
    }

    /// Opens it for reading. Nothing can have taken its place, and nobody's lease on it is waited for.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open(&self) -> io::Result<File> {
        self.held.open()
    }
}

impl AsFd for UnopenedFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.held.as_fd()
    }
}

/// Finds the file behind a mapping, as [`find`], by the kernel's own links alone: no file system is asked for anything.
///
/// # Errors
/// As [`find`]; also where this process may not follow those links.
pub fn find_by_kernel(root: &Root, pid: u32, mapping: &Mapping) -> io::Result<UnopenedFile> {
    let Mapping { start, end, .. } = mapping;
    let found = hold_link(&root.proc(format!("{pid}/map_files/{start:x}-{end:x}"))).or_else(|error| {
        match hold_link(&root.proc(format!("{pid}/exe"))) {
            Ok(file) if file.about().inode == mapping.inode && !is_out_of_files(&error) => Ok(file),
            _ => Err(error),
        }
    });
    let held = found?.regular()?;
    let key = FileKey::of(held.about());
    Ok(UnopenedFile { held, key })
}

fn is_out_of_files(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Finds the file behind a mapping, also when it has been deleted or lies in another mount namespace. A named pipe, device
/// or socket is never opened.
///
/// # Errors
/// What the kernel says; [`io::ErrorKind::InvalidInput`] when it is no plain file.
pub fn find(root: &Root, pid: u32, mapping: &Mapping) -> io::Result<UnopenedFile> {
    match find_by_kernel(root, pid, mapping) {
        // Without the capability to follow such links the path must do, if it leads to the file that is mapped.
        Err(error) if !is_out_of_files(&error) && error.kind() != io::ErrorKind::InvalidInput => {
            let path = mapping.name.strip_suffix(" (deleted)").unwrap_or(&mapping.name);
            let held = hold_beneath(root_of(root, pid)?, Path::new(path))?.regular()?;
            let key = FileKey::of(held.about());
            if key.inode == mapping.inode { Ok(UnopenedFile { held, key }) } else { Err(error) }
        }
        found => found,
    }
}

/// The list of symbols that a process's compiler at run time writes (/tmp/perf-PID.map of the process), as its own user
/// may read it and if it is that user's; `None` where there is none.
///
/// # Errors
/// What the kernel says; [`io::ErrorKind::InvalidInput`] for what is no plain file, [`io::ErrorKind::PermissionDenied`] for one of
/// another user, [`io::ErrorKind::FileTooLarge`].
pub fn perf_map(root: &Root, pid: u32) -> io::Result<Option<(File, FileKey)>> {
    let Some(process) = Process::read(root, pid) else { return Ok(None) };
    let top = root_of(root, pid)?;
    let path = PathBuf::from(format!("tmp/perf-{}.map", process.own_pid));
    // A recorded tree has no other users.
    let user = root.is_host().then_some((process.user, process.group));
    // Checked before it is opened: in a container's /tmp a device may have this name, and opening one can do something to it.
    let open = || {
        let mut found = hold_beneath(&top, &path)?.regular()?.at_most(PERF_MAP_BYTES_MAX)?;
        if let Some((user, _)) = user {
            found = found.of_user(user)?;
        }
        Ok((found.open()?, FileKey::of(found.about())))
    };
    match as_user(user, open) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// The user of a process; `None` when it is gone.
pub fn user_of(root: &Root, pid: u32) -> Option<u32> {
    fs::metadata(root.proc(pid.to_string())).ok().map(|process| process.uid())
}

/// What is asked of a process's status.
struct Process {
    user: u32,
    group: u32,
    /// The number that it has in its own namespace.
    own_pid: u32,
}

impl Process {
    fn read(root: &Root, pid: u32) -> Option<Self> {
        let text = root.read(root.proc(format!("{pid}/status"))).ok()?;
        let words = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::split_ascii_whitespace);
        // Real, effective, saved, file system.
        let effective = |name| words(name)?.nth(1)?.digits();
        let own_pid = words("NSpid:").and_then(|mut numbers| numbers.next_back()).and_then(|pid| pid.digits());
        Some(Process { user: effective("Uid:")?, group: effective("Gid:")?, own_pid: own_pid.unwrap_or(pid) })
    }
}

/// The root of a process's mount namespace.
fn root_of(root: &Root, pid: u32) -> io::Result<Held> {
    hold_link(&root.proc(format!("{pid}/root")))
}

/// Does something with the rights that a user has to files, on this thread alone.
fn as_user<T>(user: Option<(u32, u32)>, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let Some((user, group)) = user else { return act() };
    // By system call, because the C library would change no other thread either, and some of them keep what was set.
    // SAFETY: numbers alone; both calls return what was set before.
    let (was_user, was_group) = unsafe {
        let was_group = libc::syscall(libc::SYS_setfsgid, group);
        (libc::syscall(libc::SYS_setfsuid, user), was_group)
    };
    // The calls do not say whether they were refused; a number that no user has changes nothing and tells who it is now.
    // SAFETY: as above.
    let (is_user, is_group) = unsafe { (libc::syscall(libc::SYS_setfsuid, -1), libc::syscall(libc::SYS_setfsgid, -1)) };
    let is_taken = (is_user, is_group) == (user.into(), group.into());
    let done = if is_taken { act() } else { Err(io::ErrorKind::PermissionDenied.into()) };
    // SAFETY: as above.
    unsafe {
        libc::syscall(libc::SYS_setfsuid, was_user);
        libc::syscall(libc::SYS_setfsgid, was_group);
    }
    done
}

#[cfg(test)]
#[path = "../../foreign/src/openings.rs"]
mod openings;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::openings::Openings;
    use super::*;
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::FileExt;

    #[test]
    fn only_executable_mappings_count() {
        let line = "7f00-7f10 r-xp 00002000 fe:00 247026                     /usr/bin/a b (deleted)";
        let mapping = Mapping::parse(line).unwrap();
        assert_eq!((mapping.start, mapping.end, mapping.offset, mapping.inode), (0x7f00, 0x7f10, 0x2000, 247_026));
        assert_eq!((mapping.name.as_str(), mapping.file_name().as_str()), ("/usr/bin/a b (deleted)", "a b"));
        assert_eq!(Mapping::parse("7f00-7f10 rw-p 00002000 fe:00 247026 /usr/bin/a"), None);
        assert!(!Mapping::parse("7f00-7f10 r-xp 00000000 00:00 0 [vdso]").unwrap().is_of_file());
        assert_eq!(Mapping::parse("nonsense"), None);
        let long = Mapping::parse(&format!("1-2 r-xp 0 fe:00 5 /{}/a\u{1b}b", "x".repeat(5_000))).unwrap();
        assert_eq!((long.name.len(), long.file_name()), (NAME_CHARACTERS_MAX, "a?b".to_owned()));
    }

    #[test]
    fn the_file_behind_a_mapping_is_the_one_that_runs() {
        let root = Root::host();
        let own = mappings(&root, std::process::id()).unwrap();
        let here = only_executable_mappings_count as *const () as u64;
        let mapping = own.iter().find(|mapping| (mapping.start..mapping.end).contains(&here)).unwrap();
        let found = find(&root, std::process::id(), mapping).unwrap();
        assert_eq!(found.key.inode, fs::metadata("/proc/self/exe").unwrap().ino());
        let mut bytes = [0; 4];
        found.open().unwrap().read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"\x7fELF");
        // Without the kernel's links the path leads to the same file.
        let elsewhere = Mapping { start: 1, end: 2, ..mapping.clone() };
        assert_eq!(find(&root, std::process::id(), &elsewhere).unwrap().key, found.key);
        let other = Mapping { inode: 1, ..elsewhere };
        assert!(find(&root, std::process::id(), &other).is_err(), "another file has its place");
    }

    /// Each of these would have been opened, or waited for, by its name.
    #[test]
    fn what_is_no_plain_file_of_the_user_is_not_taken_for_his_symbols() {
        let tree = tempfile::tempdir().unwrap();
        let at = |path: &str| tree.path().join(path);
        for folder in ["proc/7/root/tmp", "proc/8/root/tmp", "proc/9/root", "elsewhere"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        for (pid, own) in [(7, "7\t3"), (8, "8"), (9, "9")] {
            fs::write(at(&format!("proc/{pid}/status")), format!("Uid:\t5\t5\nGid:\t5\t5\nNSpid:\t{own}\n")).unwrap();
        }
        let root = Root::at(tree.path());
        assert!(perf_map(&root, 6).unwrap().is_none(), "the process is gone");
        assert!(perf_map(&root, 7).unwrap().is_none(), "it has no such file");
        fs::write(at("proc/7/root/tmp/perf-3.map"), "10 10 f\n").unwrap();
        assert_eq!(perf_map(&root, 7).unwrap().unwrap().1.bytes, 8);
        let pipe = CString::new(at("proc/8/root/tmp/perf-8.map").as_os_str().as_bytes()).unwrap();
        // SAFETY: the path ends with a zero byte.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o666) }, 0);
        let opened = Openings::of(&at("proc/8/root/tmp/perf-8.map"));
        assert_eq!(perf_map(&root, 8).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert!(!opened.any(), "a pipe was opened before it was looked at");
        fs::remove_file(at("proc/8/root/tmp/perf-8.map")).unwrap();
        std::os::unix::fs::symlink(at("proc/7/root/tmp/perf-3.map"), at("proc/8/root/tmp/perf-8.map")).unwrap();
        assert_eq!(perf_map(&root, 8).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        fs::write(at("elsewhere/perf-9.map"), "10 10 f\n").unwrap();
        std::os::unix::fs::symlink(at("elsewhere"), at("proc/9/root/tmp")).unwrap();
        assert_eq!(perf_map(&root, 9).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        let long = File::create(at("proc/7/root/tmp/perf-3.map")).unwrap();
        long.set_len(PERF_MAP_BYTES_MAX + 1).unwrap();
        assert_eq!(perf_map(&root, 7).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
