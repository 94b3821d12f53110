//! Whether a file belongs to the thread that it claims, by what the kernel says about that thread.

use crate::layout::Described;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

/// How files of loops end.
const SUFFIX: &str = ".loop";

/// The hexadecimal digits that make the name of a file its own.
const DIGITS: usize = 16;

/// More than the kernel writes about a thread.
const PROC_BYTES_MAX: u64 = 16_384;

/// What is found out about a file's claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The thread runs, and the file is its user's.
    True,
    /// That thread does not exist any more.
    Gone,
    /// The thread runs, but in another process or for another user.
    False,
    /// Its numbers count in another PID namespace, and say nothing here.
    OtherNamespace,
    /// The kernel does not tell, for example because of the mount option hidepid.
    Unknown,
}

/// The name of a loop's file: `PID-TID-16 hexadecimal digits.loop`.
pub(crate) fn file_name(pid: u32, tid: u32, distinct: u64) -> String {
    format!("{pid}-{tid}-{distinct:0DIGITS$x}{SUFFIX}")
}

/// The process and thread in the name of a file; none if no library of ours made it.
pub(crate) fn from_file_name(name: &str) -> Option<(u32, u32)> {
    let mut parts = name.strip_suffix(SUFFIX)?.splitn(3, '-');
    let (pid, tid, distinct) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?);
    let distinct = u64::from_str_radix(distinct, 16).ok()?;
    // Only the one way to write it counts: no sign, no leading zero.
    (file_name(pid, tid, distinct) == name).then_some((pid, tid))
}

/// The file that tells when a thread was started.
pub(crate) fn stat_path(pid: u32, tid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/task/{tid}/stat"))
}

/// When a thread was started, clock ticks since boot.
pub(crate) fn thread_start(pid: u32, tid: u32) -> io::Result<u64> {
    let text = read(stat_path(pid, tid))?;
    start_in(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it does not have 22 fields"))
}

/// Field 22 of a thread's stat. The name, field 2, may hold anything, so the fields are counted from its end.
fn start_in(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// The inode of this process's PID namespace; 0 if /proc does not tell.
pub(crate) fn pid_namespace() -> u64 {
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |metadata| metadata.ino())
}

/// Whether the thread still runs that opened the loop.
pub(crate) fn runs(described: &Described) -> Claim {
    let here = pid_namespace();
    if described.pid_namespace != 0 && here != 0 && described.pid_namespace != here {
        return Claim::OtherNamespace;
    }
    match thread_start(described.pid, described.tid) {
        Ok(start) if start == described.thread_start => Claim::True,
        Ok(_) => Claim::Gone,
        Err(error) if is_gone(&error) => Claim::Gone,
        Err(_) => Claim::Unknown,
    }
}

/// The file that tells of the thread which opened the loop, if it still runs. It stays with this very thread, whoever
/// gets its number later.
pub(crate) fn open_stat(described: &Described) -> Option<File> {
    let stat = File::open(stat_path(described.pid, described.tid)).ok()?;
    let start = start_in(&String::from_utf8_lossy(&read_piece(&stat).ok()?));
    (start == Some(described.thread_start)).then_some(stat)
}

/// Whether the thread of such a file still runs.
pub(crate) fn still_runs(stat: &File) -> Claim {
    match read_piece(stat) {
        Ok(_) => Claim::True,
        Err(error) if is_gone(&error) => Claim::Gone,
        Err(_) => Claim::Unknown,
    }
}

/// All that the kernel writes about a thread, or nearly.
fn read_piece(stat: &File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4096];
    let read = stat.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Whether the claim of a file of this user is true.
pub(crate) fn check(described: &Described, file_user: u32) -> Claim {
    let claim = runs(described);
    if claim != Claim::True {
        return claim;
    }
    let path = format!("/proc/{}/task/{}/status", described.pid, described.tid);
    match read(PathBuf::from(path)) {
        Ok(status) if is_of(&status, described.pid, file_user) => Claim::True,
        Ok(_) => Claim::False,
        Err(error) if is_gone(&error) => Claim::Gone,
        Err(_) => Claim::Unknown,
    }
}

/// Whether no thread has these numbers now; false when the kernel does not tell.
pub(crate) fn is_absent(pid: u32, tid: u32) -> bool {
    thread_start(pid, tid).is_err_and(|error| is_gone(&error))
}

/// Whether a thread's status names this process, and this user as one of its four.
///
/// A file of root is believed: a process may have given up its rights after it opened the loop, and who is root need
/// not pretend.
fn is_of(status: &str, pid: u32, file_user: u32) -> bool {
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let process = line("Tgid:").trim().parse::<u32>();
    let mut users = line("Uid:").split_ascii_whitespace().filter_map(|user| user.parse::<u32>().ok());
    process == Ok(pid) && (file_user == 0 || users.any(|user| user == file_user))
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

fn read(path: PathBuf) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(PROC_BYTES_MAX).read_to_end(&mut bytes)?;
    // The name of a thread may be any bytes.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_file_names_are_taken() {
        let name = file_name(12, 345, 0xabc);
        assert_eq!(name, "12-345-0000000000000abc.loop");
        assert_eq!(from_file_name(&name), Some((12, 345)));
        for other in [
            "12-345-abc.loop",
            "+12-345-0000000000000abc.loop",
            "012-345-0000000000000abc.loop",
            "12-345-0000000000000ABC.loop",
            "12-345-0000000000000abc",
            "12-345-0000000000000abc.loop.loop",
            "-1-345-0000000000000abc.loop",
            "12-99999999999-0000000000000abc.loop",
            "..",
            "",
        ] {
            assert_eq!(from_file_name(other), None, "{other}");
        }
    }

    #[test]
    fn a_thread_name_cannot_pretend_a_start() {
        let stat = "7 (a) S 1 ) 9) R 1 7 7 0 -1 4194304 90 0 0 0 0 0 0 0 20 0 1 0 4242 8192 1 0\n";
        assert_eq!(start_in(stat), Some(4242));
        assert_eq!(start_in("7 (a) R 1 7"), None);
        assert_eq!(start_in(""), None);
    }

    #[test]
    fn a_status_is_of_its_process_and_its_users() {
        let status = "Name:\tx\nTgid:\t77\nPid:\t78\nUid:\t1000\t1001\t1002\t1003\nGid:\t5\t5\t5\t5\n";
        for user in [0, 1000, 1001, 1002, 1003] {
            assert!(is_of(status, 77, user), "{user}");
        }
        assert!(!is_of(status, 77, 5));
        assert!(!is_of(status, 78, 1000));
        assert!(!is_of("", 0, 0));
    }

    #[test]
    fn a_name_with_a_newline_cannot_pretend_a_line() {
        // The kernel escapes the newline; if it did not, the true line would still be the first of its name.
        let status = "Name:\tx\\nUid:\\t0\nTgid:\t77\nUid:\t1000\t1000\t1000\t1000\n";
        assert!(!is_of(status, 77, 1001));
    }

    #[test]
    fn this_thread_runs_and_an_earlier_one_of_its_number_does_not() {
        let pid = std::process::id();
        let mut described = Described {
            capacity: 16,
            pid,
            tid: pid,
            thread_start: thread_start(pid, pid).unwrap(),
            threshold_ticks: 1,
            name: "x".into(),
            pid_namespace: pid_namespace(),
        };
        assert_eq!(runs(&described), Claim::True);
        assert_eq!(check(&described, crate::directory::effective_user()), Claim::True);
        if crate::directory::effective_user() != 54_321 {
            assert_eq!(check(&described, 54_321), Claim::False);
        }
        described.thread_start += 1;
        assert_eq!(runs(&described), Claim::Gone);
        described.pid_namespace += 1;
        assert_eq!(runs(&described), Claim::OtherNamespace);
    }
}
