//! A process that reads what strangers wrote: without privilege, files, network or more memory than it needs.

use std::io;
use std::time::Duration;
use surefoot_hostfs::{Error, Root};

/// The user that a confined process of root becomes. No distribution gives out numbers from 1,879,048,192 on, so nobody
/// else can send it signals (`nobody` runs other people's programs).
pub const CONFINED_USER: u32 = 2_147_000_000;

/// What a confined process may have.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Memory that is mapped, bytes, this program itself included.
    pub memory_bytes: u64,
    /// Open files.
    pub files: u64,
}

/// Confines this process for good. It keeps what it has open, and may read that, ask for memory within its limit and answer;
/// every other system call fails with "not permitted". Best called before any other thread is there: the filter of system
/// calls holds for the calling thread and those that it starts.
///
/// # Errors
/// [`Error::System`] when the kernel refuses a part of it; the process must not go on then.
pub fn confine(limits: &Limits) -> Result<(), Error> {
    // It ends with who started it, whatever that one's end was.
    control(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong, "end together with its parent")?;
    control(libc::PR_SET_NO_NEW_PRIVS, 1, "give up gaining privilege")?;
    for signal in [libc::SIGPROF, libc::SIGPIPE] {
        // SAFETY: the default action of a signal needs no handler.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    for (resource, most) in [
        (libc::RLIMIT_AS, limits.memory_bytes),
        (libc::RLIMIT_NOFILE, limits.files),
        (libc::RLIMIT_CORE, 0),
        (libc::RLIMIT_FSIZE, 0),
        (libc::RLIMIT_NPROC, 0),
        (libc::RLIMIT_MEMLOCK, 0),
    ] {
        lower(resource, most)?;
    }
    give_up_privilege()?;
    // After the user has changed, which would set it again: nobody of the same user looks into it.
    control(libc::PR_SET_DUMPABLE, 0, "close its memory to others")?;
    filter_system_calls()
}

/// Ends this process by SIGPROF once it has used this much more processor time; `None` takes that back.
pub fn allow_processor_time(time: Option<Duration>) {
    let time = time.unwrap_or_default();
    let value = libc::timeval { tv_sec: time.as_secs() as _, tv_usec: time.subsec_micros() as _ };
    let none = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let timer = libc::itimerval { it_interval: none, it_value: value };
    // SAFETY: the new value is read, and the old one is not asked for.
    unsafe {
        libc::syscall(libc::SYS_setitimer, libc::ITIMER_PROF, &raw const timer, std::ptr::null::<libc::itimerval>())
    };
}

/// Raises how many files this process may have open to what it may raise it to. Returns the limit that holds then.
pub fn raise_open_files() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for the call to fill.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return None;
    }
    let wanted = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
    // SAFETY: `wanted` is valid for the call to read.
    let is_raised = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &wanted) } == 0;
    Some(if is_raised { wanted.rlim_cur } else { limit.rlim_cur })
}

fn control(option: libc::c_int, value: libc::c_ulong, action: &'static str) -> Result<(), Error> {
    let none: libc::c_ulong = 0;
    // SAFETY: the options used here take numbers alone.
    if unsafe { libc::prctl(option, value, none, none, none) } != 0 {
        return Err(Error::last_system(action, ""));
    }
    Ok(())
}

fn lower(resource: libc::__rlimit_resource_t, most: u64) -> Result<(), Error> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for the call to fill.
    let known = unsafe { libc::getrlimit(resource, &mut limit) } == 0;
    let most = if known { most.min(limit.rlim_max) } else { most };
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: `limit` is valid for the call to read.
    if unsafe { libc::setrlimit(resource, &limit) } != 0 {
        return Err(Error::last_system("limit what it may use", ""));
    }
    Ok(())
}

/// Becomes another user in an empty folder, where it can, and gives up every capability.
fn give_up_privilege() -> Result<(), Error> {
    // SAFETY: takes no pointer and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        // Of this process alone, and gone with it: what is left to open there are texts about its own descriptors. Where
        // the kernel refuses, the filter still refuses every opening.
        // SAFETY: both paths end with a zero byte and are only read.
        unsafe {
            if libc::chroot(c"/proc/self/fdinfo".as_ptr()) == 0 {
                libc::chdir(c"/".as_ptr());
            }
        }
        become_user(CONFINED_USER)?;
    }
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    let (header, none) = (Header { version: VERSION_3, pid: 0 }, [0u32; 6]);
    // SAFETY: version 3 reads a header and two sets of three numbers, which outlive the call.
    if unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) } != 0 {
        return Err(Error::last_system("give up its capabilities", ""));
    }
    Ok(())
}

fn become_user(user: u32) -> Result<(), Error> {
    // By system call: the C library would ask threads that are not there.
    // SAFETY: numbers alone, and an empty list of groups that is not read.
    let failed = unsafe {
        let _ = libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>());
        libc::syscall(libc::SYS_setresgid, user, user, user) != 0
            || libc::syscall(libc::SYS_setresuid, user, user, user) != 0
    };
    if failed {
        let error = io::Error::last_os_error();
        // A user namespace may not have this number; without capabilities its root is nobody, too.
        let is_all = surefoot_hostfs::privilege::Privilege::read(&Root::host()).initial_user_namespace != Some(false);
        if is_all {
            return Err(Error::System { action: "become another user".into(), source: error, remedy: "" });
        }
    }
    Ok(())
}

/// What a confined process may ask of the kernel: to read what it was given, to answer, memory, time, and its end.
const ALLOWED: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_close,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_sched_yield,
    libc::SYS_setitimer,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// The machine that system calls are numbered for (include/uapi/linux/audit.h).
#[cfg(target_arch = "x86_64")]
const MACHINE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const MACHINE: u32 = 0xC000_00B7;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const MACHINE: u32 = 0;

/// Numbers from here on are those of x86-64's 32-bit relative, which the list does not speak of.
const OTHER_NUMBERS: u32 = 0x4000_0000;

fn filter_system_calls() -> Result<(), Error> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    // The number of the call, and then the machine, are the first words of what the filter sees (struct seccomp_data).
    let mut program =
        vec![step(LOAD, 4, 0, 0), step(EQUAL, MACHINE, 1, 0), step(RETURN, libc::SECCOMP_RET_KILL_PROCESS, 0, 0)];
    program.extend([step(LOAD, 0, 0, 0), step(AT_LEAST, OTHER_NUMBERS, ALLOWED.len() as u8, 0)]);
    for (at, &number) in ALLOWED.iter().enumerate() {
        // From the last one the way to "allowed" leads over "refused".
        program.push(step(EQUAL, number as u32, (ALLOWED.len() - at) as u8, 0));
    }
    program.push(step(RETURN, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0, 0));
    program.push(step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0));
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let mode = libc::SECCOMP_MODE_FILTER as libc::c_ulong;
    // SAFETY: the filter is as long as it says and outlives the call, which copies it.
    if unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter) } != 0 {
        return Err(Error::last_system("limit its system calls", "; needs a kernel with CONFIG_SECCOMP_FILTER"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, ExitStatus};

    /// Runs one of the tests below, in a process of its own.
    fn child(test: &str) -> ExitStatus {
        let own = std::env::current_exe().unwrap();
        let name = format!("confine::tests::{test}");
        Command::new(own).args([&name, "--exact", "--ignored", "--nocapture"]).output().unwrap().status
    }

    fn confined() -> File {
        let file = File::open("/proc/self/exe").unwrap();
        confine(&Limits { memory_bytes: 1 << 30, files: 64 }).unwrap();
        file
    }

    /// Tells the outcome past the test runner, which cannot end in order any more.
    fn end(is_good: bool) -> ! {
        // SAFETY: ends the process.
        unsafe { libc::_exit(if is_good { 42 } else { 43 }) }
    }

    #[test]
    #[ignore = "runs in a child process, which it confines"]
    fn what_is_open_can_be_read_and_nothing_else() {
        let file = confined();
        let mut bytes = [0; 4];
        let is_read = file.read_at(&mut bytes, 0).is_ok() && &bytes == b"\x7fELF";
        let denied = |error: io::Error| error.raw_os_error() == Some(libc::EPERM);
        let no_file = File::open("/etc/passwd").is_err_and(denied);
        let no_network = std::net::UdpSocket::bind("127.0.0.1:0").is_err_and(denied);
        // SAFETY: a signal that is not sent.
        let no_signal = unsafe { libc::kill(1, 0) } != 0;
        let mut memory: Vec<u8> = Vec::new();
        let no_memory = memory.try_reserve_exact(2 << 30).is_err();
        end(is_read && no_file && no_network && no_signal && no_memory);
    }

    #[test]
    #[ignore = "runs in a child process, which it confines"]
    fn more_processor_time_than_was_allowed_is_the_end() {
        let _file = confined();
        allow_processor_time(Some(Duration::from_millis(50)));
        allow_processor_time(None);
        allow_processor_time(Some(Duration::from_millis(50)));
        loop {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn a_confined_process_can_read_what_is_open_and_nothing_else() {
        assert_eq!(child("what_is_open_can_be_read_and_nothing_else").code(), Some(42));
        assert_eq!(child("more_processor_time_than_was_allowed_is_the_end").signal(), Some(libc::SIGPROF));
    }
}
