//! Settles this process on cores that are not watched, so that its memory never was on a watched one.
//!
//! Keeping off is not enough: a core on which this process has run keeps its translations for a while, and each piece
//! of memory that the process gives back would interrupt that core. So it keeps off and then starts itself anew.

use crate::args::{CpuList, What};
use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;
use surefoot_hostfs::{Root, cpus};
use surefoot_model::CpuId;

/// Carries the cores that were allowed before, and tells that the process has been started anew.
const ALLOWED: &str = "SUREFOOT_ALLOWED_CORES";

/// Whether this process has been started anew by [`settle`].
pub fn has_settled() -> bool {
    env::var_os(ALLOWED).is_some()
}

/// Keeps off the watched cores. Returns in a process that never was on them, where that is possible.
pub fn settle(watched: &[CpuId], root: &Root) {
    if let Some(cores) = env::var(ALLOWED).ok().and_then(|list| cpus::parse_list(&list).ok()) {
        surefoot_stall::remember_allowed_cores(cores);
        // The kernel named this process after the link through which it was started, `exe`.
        surefoot_sys::thread::set_name(c"surefoot");
        return;
    }
    let allowed = cpus::format_list(surefoot_stall::allowed_cores());
    if !surefoot_stall::keep_off(watched, root) {
        return;
    }
    // It only returns when it fails; then watching goes on here, at the price of an interrupt now and then.
    let _ = Command::new("/proc/self/exe").args(env::args_os().skip(1)).env(ALLOWED, allowed).exec();
}

/// Keeps this process off the watched cores; where all are watched, off those whose interrupts are traced back.
pub fn settle_for(what: &What, root: &Root) {
    let named = |list: &Option<CpuList>| list.clone().unwrap_or_default().0;
    let who = named(&what.who);
    let mut cores = named(&what.cpu);
    cores.extend(&who);
    let leaves_none = surefoot_stall::allowed_cores().iter().all(|cpu| cores.contains(cpu));
    settle(if leaves_none { &who } else { &cores }, root);
}
