//! What this machine allows, and one test at a time.

use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use surefoot_hostfs::interrupts::Interrupts;
use surefoot_hostfs::privilege::Privilege;
use surefoot_hostfs::{Root, cpus};
use surefoot_model::CpuId;
use surefoot_testkit::not_run::not_run;

static TURN: Mutex<()> = Mutex::new(());

/// What a test must have to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nothing: runs as anybody, anywhere.
    Nothing,
    /// The user root.
    Root,
    /// Root, two cores and a kernel that loads the programs.
    Ebpf,
}

/// Waits for this test's turn: what one test measures must not be what another does.
///
/// Returns `None` when the machine lacks what the test needs; the test then returns and counts as not run.
pub fn turn(test: &str, need: Need) -> Option<MutexGuard<'static, ()>> {
    // A test that failed has released what it held; the next one may go on.
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    match missing(need) {
        None => Some(turn),
        Some(why) => {
            not_run(test, &why);
            None
        }
    }
}

fn missing(need: Need) -> Option<String> {
    if need == Need::Nothing {
        return None;
    }
    if !Privilege::read(&Root::host()).is_root() {
        return Some("needs root".into());
    }
    if need == Need::Root {
        return None;
    }
    let cores = cpus::online(&Root::host()).unwrap();
    if !cores.starts_with(&[CpuId(0), CpuId(1)]) {
        return Some("needs the cores 0 and 1".into());
    }
    // The kernel's word, not that of the command under test: a command that cannot load its programs must not make
    // its tests vanish.
    if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Some("this kernel has no BTF".into());
    }
    let lockdown = std::fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    lockdown.contains("[confidentiality]").then(|| "the kernel is locked down and refuses eBPF".into())
}

/// The kernel's own table of interrupts.
pub fn interrupts() -> Interrupts {
    Interrupts::read(&Root::host()).unwrap()
}

/// The kernel's own table of softirqs.
pub fn softirqs() -> Interrupts {
    Interrupts::read_softirqs(&Root::host()).unwrap()
}

/// By how much a row rose on a core between two readings.
pub fn rise(earlier: &Interrupts, later: &Interrupts, row: &str, cpu: u32) -> u64 {
    later.delta(earlier).count(row, CpuId(cpu)).unwrap_or(0)
}

/// Whether a program can be started.
pub fn has_program(name: &str) -> bool {
    Command::new(name).arg("--version").output().is_ok()
}

/// Sends a signal to one process.
pub fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status().unwrap();
    assert!(status.success(), "no signal {name} for process {pid}");
}
