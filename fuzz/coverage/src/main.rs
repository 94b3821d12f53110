//! One target in libFuzzer's loop; `SUREFOOT_FUZZ` names it. An input that takes a second of processor time is a fault: by the
//! clock on the wall a busy machine would be one.
#![no_main]

use std::sync::OnceLock;
use surefoot_fuzz::{TARGETS, Target};
use surefoot_hostfs::usage::thread_cpu_ns;

const CPU_NS_MAX: u64 = 1_000_000_000;

static TARGET: OnceLock<Target> = OnceLock::new();

libfuzzer_sys::fuzz_target!(init: {
    let name = std::env::var("SUREFOOT_FUZZ").unwrap_or_default();
    let found = surefoot_fuzz::target(&name).unwrap_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        panic!("SUREFOOT_FUZZ is {name:?}; there are {}", names.join(", "))
    });
    let _ = TARGET.set(found);
}, |bytes: &[u8]| {
    let Some(target) = TARGET.get() else { return };
    let begun_ns = thread_cpu_ns();
    (target.run)(bytes);
    let took_ns = thread_cpu_ns() - begun_ns;
    assert!(took_ns < CPU_NS_MAX, "{} bytes took {took_ns} ns", bytes.len());
});
