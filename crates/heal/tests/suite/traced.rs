//! A program under a tracer, which kills it at any of its system calls, or has one of them fail: `ptrace(2)`.
//!
//! What counts lies between [`begin`] and [`end`], so that the start of a test binary is left alone. A point is where a
//! system call begins or ends; to kill there, none of the program's own code runs any more.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// System calls of these process numbers say that the part of a program that counts begins and ends.
const MARKS: [libc::pid_t; 2] = [0x5afe_0001, 0x5afe_0002];

/// `PTRACE_GET_SYSCALL_INFO`, and what it says of a stop.
const GET_SYSCALL_INFO: libc::c_int = 0x420e;
const AT_ENTRY: u8 = 1;
const AT_EXIT: u8 = 2;

/// What befalls the program at one point.
#[allow(unpredictable_function_pointer_comparisons)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// SIGKILL.
    Kill,
    /// The call is not made, and returns this error.
    Error(i32),
    /// As [`Fate::Error`], at calls of one name only.
    ErrorOf(&'static str, i32),
    /// Somebody does this while the program stands at a call, reading and writing aside.
    Meet(fn()),
}

/// How it ended.
#[derive(Debug)]
pub struct Ended {
    /// Points that it passed: for errors, calls that concern files and can fail.
    pub points: u64,
    /// The exit code, or none when a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub said: String,
    /// The call at whose point something befell it.
    pub call: Option<&'static str>,
}

/// In the program: from here on its system calls count.
pub fn begin() {
    mark(MARKS[0]);
}

/// In the program: from here on they do not.
pub fn end() {
    mark(MARKS[1]);
}

fn mark(number: libc::pid_t) {
    // SAFETY: it asks for a process that there is not, and touches no memory.
    unsafe { libc::getpgid(number) };
}

/// Calls that concern files and can fail, with the argument that is a descriptor where there is one.
const CALLS: &[(libc::c_long, &str, Option<usize>)] = &[
    (libc::SYS_openat, "openat", None),
    (libc::SYS_mkdir, "mkdir", None),
    (libc::SYS_rmdir, "rmdir", None),
    (libc::SYS_rename, "rename", None),
    (libc::SYS_renameat, "renameat", None),
    (libc::SYS_linkat, "linkat", None),
    (libc::SYS_unlink, "unlink", None),
    (libc::SYS_unlinkat, "unlinkat", None),
    (libc::SYS_statx, "statx", None),
    (libc::SYS_newfstatat, "newfstatat", None),
    (libc::SYS_statfs, "statfs", None),
    (libc::SYS_fstat, "fstat", Some(0)),
    (libc::SYS_getdents64, "getdents64", Some(0)),
    (libc::SYS_flock, "flock", Some(0)),
    (libc::SYS_fchown, "fchown", Some(0)),
    (libc::SYS_fchmod, "fchmod", Some(0)),
    (libc::SYS_fgetxattr, "fgetxattr", Some(0)),
    (libc::SYS_fremovexattr, "fremovexattr", Some(0)),
    (libc::SYS_utimensat, "utimensat", None),
    (libc::SYS_ftruncate, "ftruncate", Some(0)),
    (libc::SYS_fallocate, "fallocate", Some(0)),
    (libc::SYS_read, "read", Some(0)),
    (libc::SYS_pread64, "pread64", Some(0)),
    (libc::SYS_write, "write", Some(0)),
    (libc::SYS_pwrite64, "pwrite64", Some(0)),
    (libc::SYS_fsync, "fsync", Some(0)),
    (libc::SYS_fdatasync, "fdatasync", Some(0)),
    (libc::SYS_mmap, "mmap", Some(4)),
    (libc::SYS_madvise, "madvise", None),
];

/// `struct ptrace_syscall_info`, as far as a call's entry goes.
#[repr(C)]
#[derive(Default, Clone, Copy)]
struct Info {
    operation: u8,
    padding: [u8; 3],
    architecture: u32,
    instruction: u64,
    stack: u64,
    number: u64,
    arguments: [u64; 6],
    rest: [u64; 2],
}

/// Runs a program to its end, as the system calls below wait for it, with `fate` at the point of this number; `None` for none, to count them.
#[allow(clippy::zombie_processes)]
pub fn trace(command: &mut Command, at: Option<u64>, fate: Fate) -> Ended {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    // SAFETY: between fork and exec it makes one system call.
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    let mut child = command.spawn().unwrap();
    let process = child.id() as libc::pid_t;
    let (stopped, status) = wait(process);
    assert!(stopped == process && libc::WIFSTOPPED(status), "it did not stop at its first instruction: {status:#x}");
    let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL;
    ask(libc::PTRACE_SETOPTIONS, process, 0, options as usize);
    let mut tracer = Tracer { process, at, fate, counts: false, points: 0, refused: BTreeMap::new(), call: None };
    ask(libc::PTRACE_SYSCALL, process, 0, 0);
    let status = loop {
        let (thread, status) = wait(-1);
        if libc::WIFSTOPPED(status) {
            tracer.stopped(thread, status);
        } else if thread == process {
            break status;
        }
    };
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    let code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
    Ended { points: tracer.points, code, said, call: tracer.call }
}

struct Tracer {
    process: libc::pid_t,
    at: Option<u64>,
    fate: Fate,
    /// Whether the program is between its marks.
    counts: bool,
    points: u64,
    /// Threads whose call was not made, and what it returns.
    refused: BTreeMap<libc::pid_t, i32>,
    call: Option<&'static str>,
}

impl Tracer {
    fn stopped(&mut self, thread: libc::pid_t, status: libc::c_int) {
        let signal = libc::WSTOPSIG(status);
        let is_call = signal == libc::SIGTRAP | 0x80;
        if is_call {
            self.at_call(thread);
        }
        // A new thread begins with a stop, and one that is traced tells of its new threads by a trap: both are ours.
        let is_ours = is_call || signal == libc::SIGTRAP || signal == libc::SIGSTOP;
        // It may have been killed meanwhile, here or by the end of its process.
        let _ = try_ask(libc::PTRACE_SYSCALL, thread, 0, if is_ours { 0 } else { signal as usize });
    }

    fn at_call(&mut self, thread: libc::pid_t) {
        let mut info = Info::default();
        let bytes = size_of::<Info>();
        if try_ask(GET_SYSCALL_INFO as _, thread, bytes, (&raw mut info) as usize) <= 0 {
            return;
        }
        if info.operation == AT_ENTRY && info.number == libc::SYS_getpgid as u64 {
            let mark = MARKS.iter().position(|&mark| mark as u64 == info.arguments[0]);
            self.counts = mark.map_or(self.counts, |mark| mark == 0);
            return;
        }
        if info.operation == AT_EXIT
            && let Some(error) = self.refused.remove(&thread)
        {
            registers(thread, |registers| registers.rax = i64::from(-error) as u64);
            return;
        }
        let name = self.concerns_files(&info);
        let is_point = match self.fate {
            Fate::Kill => true,
            Fate::Error(_) => name.is_some(),
            Fate::ErrorOf(only, _) => name == Some(only),
            Fate::Meet(_) => {
                let moves_bytes = matches!(name, Some("pread64" | "pwrite64" | "read" | "write"));
                info.operation == AT_ENTRY && !moves_bytes
            }
        };
        if !self.counts || !is_point {
            return;
        }
        let is_it = self.at == Some(self.points);
        self.points += 1;
        if is_it {
            self.call = name.or(Some("another call"));
            match self.fate {
                // SAFETY: it ends a process that this thread has started and not yet waited for.
                Fate::Kill => drop(unsafe { libc::kill(self.process, libc::SIGKILL) }),
                Fate::Meet(work) => work(),
                Fate::Error(error) | Fate::ErrorOf(_, error) => {
                    registers(thread, |registers| registers.orig_rax = u64::MAX);
                    self.refused.insert(thread, error);
                }
            }
        }
    }

    /// The call's name, where one begins that concerns files but those over which the program reports.
    fn concerns_files(&self, info: &Info) -> Option<&'static str> {
        let call = CALLS.iter().find(|(number, ..)| *number as u64 == info.number);
        let (_, name, descriptor) = call.filter(|_| info.operation == AT_ENTRY)?;
        let is_file = descriptor.is_none_or(|argument| info.arguments[argument] as i32 > 2);
        is_file.then_some(*name)
    }
}

fn registers(thread: libc::pid_t, change: impl FnOnce(&mut libc::user_regs_struct)) {
    // SAFETY: it holds numbers only.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    ask(libc::PTRACE_GETREGS, thread, 0, (&raw mut registers) as usize);
    change(&mut registers);
    ask(libc::PTRACE_SETREGS, thread, 0, (&raw mut registers) as usize);
}

fn wait(process: libc::pid_t) -> (libc::pid_t, libc::c_int) {
    let mut status = 0;
    // SAFETY: the status is ours; only children of this very thread are waited for, never those of other tests.
    let thread = unsafe { libc::waitpid(process, &mut status, libc::__WALL | libc::__WNOTHREAD) };
    assert!(thread > 0, "{}", std::io::Error::last_os_error());
    (thread, status)
}

fn ask(request: libc::c_uint, thread: libc::pid_t, address: usize, data: usize) {
    let answer = try_ask(request, thread, address, data);
    assert!(answer >= 0, "{request:#x}: {}", std::io::Error::last_os_error());
}

fn try_ask(request: libc::c_uint, thread: libc::pid_t, address: usize, data: usize) -> libc::c_long {
    // SAFETY: the thread is traced by this one; where the data is an address it is that of a structure which outlives the
    // call and is as long as the request, or `address`, says.
    unsafe { libc::ptrace(request, thread, address, data) }
}

/// Whether this machine lets a test trace its own child, as some containers do not; else why not.
pub fn can_trace() -> Result<(), String> {
    if !cfg!(target_arch = "x86_64") {
        return Err("the tracer knows the registers of x86-64 only".into());
    }
    let ended = std::panic::catch_unwind(|| trace(&mut Command::new("true"), None, Fate::Kill));
    ended.map(drop).map_err(|_| "a process may not be traced here".into())
}
