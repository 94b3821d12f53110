//! Files of other processes: what they have mapped, and what their compilers at run time say of their code.
//!
//! Whoever owns the process chose these files, so they are opened by what the kernel has mapped and not by a name, only
//! as plain files, and without waiting. What is in them is for who reads them to doubt.

use crate::Root;
use std::ffi::CString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
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
    fn of(file: &Metadata) -> Self {
        let changed_ns = file.ctime().saturating_mul(1_000_000_000).saturating_add(file.ctime_nsec());
        FileKey { device: file.dev(), inode: file.ino(), bytes: file.len(), changed_ns }
    }
}

/// A plain file of a process, found and not opened yet.
#[derive(Debug)]
pub struct Found {
    /// The file itself, held without being open for reading.
    held: File,
    /// Which it is.
    pub key: FileKey,
}

impl Found {
    /// Opens it for reading. Nothing can have taken its place, and nobody's lease on it is waited for.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open(&self) -> io::Result<File> {
        let path = format!("/proc/self/fd/{}", self.held.as_raw_fd());
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path)
    }
}

/// Finds the file behind a mapping, also when it has been deleted or lies in another mount namespace. A named pipe, device
/// or socket is never opened.
///
/// # Errors
/// What the kernel says; [`io::ErrorKind::InvalidInput`] when it is no plain file.
pub fn find(root: &Root, pid: u32, mapping: &Mapping) -> io::Result<Found> {
    let Mapping { start, end, .. } = mapping;
    let by_kernel = held(&root.proc(format!("{pid}/map_files/{start:x}-{end:x}")));
    let by_kernel = match by_kernel {
        // Without the capability to follow such links the path must do, if it leads to the file that is mapped.
        Err(error) if error.raw_os_error() != Some(libc::EMFILE) && error.raw_os_error() != Some(libc::ENFILE) => {
            let is_it = |file: &File| file.metadata().is_ok_and(|file| file.ino() == mapping.inode);
            match held(&root.proc(format!("{pid}/exe"))) {
                Ok(file) if is_it(&file) => Ok(file),
                _ => {
                    let path = mapping.name.strip_suffix(" (deleted)").unwrap_or(&mapping.name);
                    let file = beneath(&root_of(root, pid)?, Path::new(path), libc::O_PATH)?;
                    if is_it(&file) { Ok(file) } else { Err(error) }
                }
            }
        }
        other => other,
    };
    let held = by_kernel?;
    let file = held.metadata()?;
    if !file.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no plain file"));
    }
    Ok(Found { held, key: FileKey::of(&file) })
}

/// The list of symbols that a process's compiler at run time writes (/tmp/perf-PID.map of the process), as its own user
/// may read it and if it is that user's; `None` where there is none.
///
/// # Errors
/// What the kernel says; [`io::ErrorKind::InvalidInput`] for what is no plain file of that user, or too long.
pub fn perf_map(root: &Root, pid: u32) -> io::Result<Option<(File, FileKey)>> {
    let Some(process) = Process::read(root, pid) else { return Ok(None) };
    let top = root_of(root, pid)?;
    let path = PathBuf::from(format!("tmp/perf-{}.map", process.own_pid));
    // A recorded tree has no other users.
    let user = root.is_host().then_some((process.user, process.group));
    let file = match as_user(user, || beneath(&top, &path, libc::O_RDONLY)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let found = file.metadata()?;
    let refuse = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    if !found.is_file() || found.file_type().is_fifo() {
        return refuse("it is no plain file");
    }
    if user.is_some_and(|(user, _)| found.uid() != user) {
        return refuse("it is another user's");
    }
    if found.len() > PERF_MAP_BYTES_MAX {
        return refuse("it is too long");
    }
    Ok(Some((file, FileKey::of(&found))))
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

/// Holds what a link of the kernel leads to, without opening it.
fn held(link: &Path) -> io::Result<File> {
    // With O_PATH the system call that Rust makes asks for no reading: a device or pipe does not notice.
    OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_CLOEXEC).open(link)
}

/// The root of a process's mount namespace.
fn root_of(root: &Root, pid: u32) -> io::Result<File> {
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
    OpenOptions::new().read(true).custom_flags(flags).open(root.proc(format!("{pid}/root")))
}

/// Opens what lies beneath a folder, as if that were the root, following no link and waiting for nothing.
fn beneath(top: &File, path: &Path, flags: libc::c_int) -> io::Result<File> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: open_how is made of three numbers for which zero is a value.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (flags | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY) as u64;
    if flags & libc::O_PATH != 0 {
        how.flags = (flags | libc::O_NOFOLLOW | libc::O_CLOEXEC) as u64;
    }
    how.resolve = libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_MAGICLINKS;
    // SAFETY: the path ends with a zero byte and `how` has the size that is given; both outlive the call.
    let descriptor = unsafe {
        libc::syscall(libc::SYS_openat2, top.as_raw_fd(), path.as_ptr(), &raw const how, size_of::<libc::open_how>())
    };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call gave an open descriptor that nobody else has.
    Ok(unsafe { File::from_raw_fd(descriptor as libc::c_int) })
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
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
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
        assert_eq!(perf_map(&root, 8).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        fs::remove_file(at("proc/8/root/tmp/perf-8.map")).unwrap();
        std::os::unix::fs::symlink(at("proc/7/root/tmp/perf-3.map"), at("proc/8/root/tmp/perf-8.map")).unwrap();
        assert_eq!(perf_map(&root, 8).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        fs::write(at("elsewhere/perf-9.map"), "10 10 f\n").unwrap();
        std::os::unix::fs::symlink(at("elsewhere"), at("proc/9/root/tmp")).unwrap();
        assert_eq!(perf_map(&root, 9).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        let long = File::create(at("proc/7/root/tmp/perf-3.map")).unwrap();
        long.set_len(PERF_MAP_BYTES_MAX + 1).unwrap();
        assert_eq!(perf_map(&root, 7).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
