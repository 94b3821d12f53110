//! The loop makes no system call: in a child in which the kernel kills at the first, it reaches its end.

use std::time::Duration;
use surefoot_inloop::Loop;

/// What the child exits with when all its turns are done.
const DONE: i32 = 42;
/// What it exits with when the kernel does not seal processes.
const NOT_SEALED: i32 = 77;

#[test]
fn turns_make_no_system_call_with_and_without_gaps() {
    let Some(status) = sealed(|gaps, sparse| {
        for _ in 0..100_000 {
            gaps.turn();
        }
        for _ in 0..1_000_000 {
            sparse.turn();
        }
        sparse.restart();
    }) else {
        return;
    };
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == DONE, "status {status:#x}");
    // The seal holds: with a system call in the loop the same child does not reach its end.
    let Some(status) = sealed(|gaps, _| {
        gaps.turn();
        // SAFETY: cannot fail and touches no memory.
        unsafe { libc::getppid() };
    }) else {
        return;
    };
    assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSYS, "status {status:#x}");
}

/// Runs this in a forked child that may only exit, and returns how that ended; none if the kernel cannot do it.
fn sealed(turns: fn(&mut Loop, &mut Loop)) -> Option<i32> {
    let directory = super::directory();
    let mut gaps = super::open(directory.path(), Duration::ZERO);
    let mut sparse = super::open(directory.path(), Duration::from_secs(1));
    let instruction = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut filter = [
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_exit_group as u32),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the child makes system calls and turns only; it touches no lock that another thread may have held.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // SAFETY: `program` and its filter live until the child ends; no core file is wanted of a killed child.
        let failed = unsafe {
            libc::prctl(libc::PR_SET_DUMPABLE, 0) != 0
                || libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) != 0
        };
        if failed {
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(NOT_SEALED) };
        }
        turns(&mut gaps, &mut sparse);
        let code = if gaps.noted() > 0 { DONE } else { 1 };
        // SAFETY: ends the child at once, by the one system call that is left.
        unsafe { libc::syscall(libc::SYS_exit_group, code) };
    }
    let mut status = 0;
    // SAFETY: waits for the child just made; `status` may be written.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == NOT_SEALED {
        let why = "this kernel or this container has no seccomp filters";
        surefoot_testkit::not_run::not_run("turns_make_no_system_call_with_and_without_gaps", why);
        return None;
    }
    Some(status)
}
