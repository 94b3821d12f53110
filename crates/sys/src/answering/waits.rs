//! Which call of a file system a process waits for, and for which file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use surefoot_model::Digits;

/// What a thread waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The system call.
    pub call: &'static str,
    /// The file; `None` where it cannot be told.
    pub file: Option<PathBuf>,
}

/// Which calls count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Calls {
    /// Those of a command that only reads.
    ThatRead,
    /// Those that change something, too.
    All,
}

/// Since when each thread of a process has waited in one call of a file system.
pub(super) struct Waits {
    calls: Calls,
    since: BTreeMap<u32, Wait>,
}

struct Wait {
    /// Number and arguments of the call, and how often the thread came to sleep: the same call may be a later one.
    key: String,
    since: Instant,
    is_told: bool,
}

impl Waits {
    pub(super) fn new(calls: Calls) -> Waits {
        Waits { calls, since: BTreeMap::new() }
    }

    /// A thread that has waited for a file longer than that, if there is one; each wait is given once.
    pub(super) fn look(&mut self, process: libc::pid_t, now: Instant, patience: Duration) -> Option<Waiting> {
        let mut seen = BTreeMap::new();
        let mut found = None;
        for task in Path::new(&format!("/proc/{process}/task")).read_dir().ok()?.flatten() {
            let Some(number) = task.file_name().to_str().and_then(|name| name.digits::<u32>()) else { continue };
            let said = |name| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
            // Number and arguments of the call, and where the stack and the program stand; `running` while it runs.
            let call = said("syscall");
            let Some(waiting) = waiting(process, &call, self.calls) else { continue };
            let status = said("status");
            let sleeps = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches")).unwrap_or_default();
            let key = format!("{call}{sleeps}");
            let mut wait = match self.since.remove(&number) {
                Some(before) if before.key == key => before,
                _ => Wait { key, since: now, is_told: false },
            };
            if !wait.is_told && now.saturating_duration_since(wait.since) > patience {
                wait.is_told = true;
                found = Some(waiting);
            }
            seen.insert(number, wait);
        }
        self.since = seen;
        found
    }
}

/// Calls that name an open file first.
const OF_OPEN_FILE: [(libc::c_long, &str); 5] = [
    (libc::SYS_read, "read"),
    (libc::SYS_pread64, "pread"),
    (libc::SYS_readv, "readv"),
    (libc::SYS_getdents64, "getdents"),
    (libc::SYS_fstat, "fstat"),
];
const OF_OPEN_FILE_THAT_WRITE: [(libc::c_long, &str); 16] = [
    (libc::SYS_write, "write"),
    (libc::SYS_pwrite64, "pwrite"),
    (libc::SYS_writev, "writev"),
    (libc::SYS_fsync, "fsync"),
    (libc::SYS_fdatasync, "fdatasync"),
    (libc::SYS_sync_file_range, "sync_file_range"),
    (libc::SYS_syncfs, "syncfs"),
    (libc::SYS_ftruncate, "ftruncate"),
    (libc::SYS_fallocate, "fallocate"),
    (libc::SYS_fchmod, "fchmod"),
    (libc::SYS_fchown, "fchown"),
    (libc::SYS_flock, "flock"),
    (libc::SYS_close, "close"),
    (libc::SYS_fstatfs, "fstatfs"),
    (libc::SYS_copy_file_range, "copy_file_range"),
    (libc::SYS_fcntl, "fcntl"),
];

/// Calls that name a directory and a path below it first.
const BELOW: [(libc::c_long, &str); 4] = [
    (libc::SYS_openat, "openat"),
    (libc::SYS_statx, "statx"),
    (libc::SYS_newfstatat, "newfstatat"),
    (libc::SYS_readlinkat, "readlinkat"),
];
const BELOW_THAT_WRITE: [(libc::c_long, &str); 8] = [
    (libc::SYS_openat2, "openat2"),
    (libc::SYS_unlinkat, "unlinkat"),
    (libc::SYS_mkdirat, "mkdirat"),
    (libc::SYS_renameat2, "renameat2"),
    (libc::SYS_renameat, "renameat"),
    (libc::SYS_linkat, "linkat"),
    (libc::SYS_fchmodat, "fchmodat"),
    (libc::SYS_fchownat, "fchownat"),
];

/// Calls that name a path first.
#[cfg(target_arch = "x86_64")]
const BY_PATH: [(libc::c_long, &str); 11] = [
    (libc::SYS_open, "open"),
    (libc::SYS_stat, "stat"),
    (libc::SYS_lstat, "lstat"),
    (libc::SYS_unlink, "unlink"),
    (libc::SYS_rmdir, "rmdir"),
    (libc::SYS_mkdir, "mkdir"),
    (libc::SYS_rename, "rename"),
    (libc::SYS_readlink, "readlink"),
    (libc::SYS_chmod, "chmod"),
    (libc::SYS_statfs, "statfs"),
    (libc::SYS_truncate, "truncate"),
];
#[cfg(not(target_arch = "x86_64"))]
const BY_PATH: [(libc::c_long, &str); 2] = [(libc::SYS_statfs, "statfs"), (libc::SYS_truncate, "truncate")];

/// What a line of `/proc/PID/syscall` says that a thread waits for, where it is a file.
fn waiting(process: libc::pid_t, line: &str, calls: Calls) -> Option<Waiting> {
    let mut words = line.split_whitespace();
    let number: libc::c_long = words.next()?.digits()?;
    let mut argument = || words.next()?.strip_prefix("0x")?.hex_digits::<u64>();
    let [all, that_write] = [true, calls == Calls::All];
    let of = |lists: [(bool, &[(libc::c_long, &'static str)]); 2]| {
        let listed = lists.into_iter().filter(|(counts, _)| *counts).flat_map(|(_, list)| list);
        listed.into_iter().find(|(known, _)| *known == number).map(|(_, call)| *call)
    };
    if let Some(call) = of([(all, &BELOW), (that_write, &BELOW_THAT_WRITE)]) {
        let file = argument().zip(argument()).and_then(|(above, path)| below(process, above as i32, path));
        return Some(Waiting { call, file });
    }
    if let Some(call) = of([(that_write, &BY_PATH), (false, &[])]) {
        let file = argument().and_then(|path| below(process, libc::AT_FDCWD, path));
        return Some(Waiting { call, file });
    }
    let call = of([(all, &OF_OPEN_FILE), (that_write, &OF_OPEN_FILE_THAT_WRITE)])?;
    let link = format!("/proc/{process}/fd/{}", argument()?);
    let file = std::fs::read_link(&link).ok()?;
    // A pipe, socket, terminal or file of the kernel answers when there is something to say.
    let is_of_kernel =
        ["/proc", "/sys", "/dev"].iter().any(|top| file.starts_with(top) && !file.starts_with("/dev/shm"));
    (!is_of_kernel && is_stored(&link)).then_some(Waiting { call, file: Some(file) })
}

/// The path at that address of a process, below one of its directories. The kernel knows the names of what is open without asking the
/// file system.
fn below(process: libc::pid_t, directory: libc::c_int, address: u64) -> Option<PathBuf> {
    let path = text_at(process, address)?;
    let own = ["/proc/self/fd/", "/dev/fd/"].iter().find_map(|own| path.strip_prefix(own).ok());
    let link = |name: &str| std::fs::read_link(format!("/proc/{process}/{name}")).ok();
    match (own, directory) {
        (Some(open), _) => {
            let mut parts = open.iter();
            let number = parts.next()?.to_str()?.digits::<u32>()?;
            Some(link(&format!("fd/{number}"))?.join(parts.as_path()))
        }
        (None, _) if path.is_absolute() => Some(path),
        (None, libc::AT_FDCWD) => Some(link("cwd")?.join(path)),
        (None, directory) => Some(link(&format!("fd/{directory}"))?.join(path)),
    }
}

/// A path in the memory of a process.
fn text_at(process: libc::pid_t, address: u64) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    const PAGE_BYTES: u64 = 4096;
    let mut text = Vec::new();
    // The next page need not be there.
    while text.len() < libc::PATH_MAX as usize {
        let from = address.checked_add(text.len() as u64)?;
        let mut piece = vec![0u8; (PAGE_BYTES - from % PAGE_BYTES) as usize];
        let local = libc::iovec { iov_base: piece.as_mut_ptr().cast(), iov_len: piece.len() };
        let remote =
            libc::iovec { iov_base: std::ptr::with_exposed_provenance_mut(from as usize), iov_len: piece.len() };
        // SAFETY: the call writes to the local piece alone, which is as long as the entry says.
        let read = unsafe { libc::process_vm_readv(process, &raw const local, 1, &raw const remote, 1, 0) };
        let piece = &piece[..usize::try_from(read).ok()?];
        match piece.iter().position(|byte| *byte == 0) {
            Some(end) => {
                text.extend_from_slice(&piece[..end]);
                return (!text.is_empty()).then(|| std::ffi::OsString::from_vec(text).into());
            }
            None if piece.is_empty() => return None,
            None => text.extend_from_slice(piece),
        }
    }
    None
}

/// Whether a path leads to a regular file or a directory, by what the kernel knows without asking the file system.
fn is_stored(path: &str) -> bool {
    let Ok(path) = std::ffi::CString::new(path) else { return false };
    // SAFETY: an all-zero `statx` is a value; the call reads a text and writes to the local alone.
    let about = unsafe {
        let mut about: libc::statx = std::mem::zeroed();
        let flags = libc::AT_STATX_DONT_SYNC;
        let rc = libc::statx(libc::AT_FDCWD, path.as_ptr(), flags, libc::STATX_TYPE, &raw mut about);
        if rc == 0 { about } else { return false }
    };
    matches!(u32::from(about.stx_mode) & libc::S_IFMT, libc::S_IFREG | libc::S_IFDIR)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_call_that_waits_for_a_file_is_told_from_one_that_waits_for_a_pipe() {
        let home = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(home.path().join("stored")).unwrap();
        let (read, _write) = io::pipe().unwrap();
        let own = std::process::id() as libc::pid_t;
        let of = |call: libc::c_long, descriptor: i32, calls| {
            waiting(own, &format!("{call} {descriptor:#x} 0x0 0x1 0x0 0x0 0x0 0x7f 0x7f"), calls)
        };
        let found = of(libc::SYS_read, file.as_raw_fd(), Calls::ThatRead).unwrap();
        assert_eq!((found.call, found.file.unwrap()), ("read", home.path().join("stored")));
        assert_eq!(of(libc::SYS_read, read.as_raw_fd(), Calls::All), None);
        assert_eq!(of(libc::SYS_futex, file.as_raw_fd(), Calls::All), None);
        assert_eq!(of(libc::SYS_openat, -100, Calls::ThatRead), Some(Waiting { call: "openat", file: None }));
        assert_eq!(of(libc::SYS_fsync, file.as_raw_fd(), Calls::ThatRead), None);
        assert_eq!(of(libc::SYS_fsync, file.as_raw_fd(), Calls::All).unwrap().call, "fsync");
        assert_eq!(waiting(own, "running", Calls::All), None);
        assert_eq!(waiting(own, "", Calls::All), None);
    }

    #[test]
    fn a_call_by_name_says_which_file_it_waits_for() {
        let home = tempfile::tempdir().unwrap();
        let directory = std::fs::File::open(home.path()).unwrap();
        let own = std::process::id() as libc::pid_t;
        let of = |directory: i32, path: &std::ffi::CStr| {
            let line =
                format!("{} {:#x} {:#x} 0x0", libc::SYS_openat, directory as u32, path.as_ptr().expose_provenance());
            waiting(own, &line, Calls::ThatRead).unwrap().file
        };
        assert_eq!(of(libc::AT_FDCWD, c"/a/b"), Some("/a/b".into()));
        assert_eq!(of(directory.as_raw_fd(), c"image"), Some(home.path().join("image")));
        let held = std::ffi::CString::new(format!("/proc/self/fd/{}/slot/image", directory.as_raw_fd())).unwrap();
        assert_eq!(of(libc::AT_FDCWD, &held), Some(home.path().join("slot/image")));
        assert_eq!(of(libc::AT_FDCWD, c"here"), Some(std::env::current_dir().unwrap().join("here")));
        assert_eq!(of(9_999, c"nowhere"), None);
    }
}
