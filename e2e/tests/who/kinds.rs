//! Every kind of raiser by its name: changes of memory, wake-ups, timers, an exit, readers of device files, profilers.

use super::{all_raisers, frames, has_frame, is_advised, raisers, sum, watch, who};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use surefoot_e2e::actor::{self, RAISER};
use surefoot_e2e::machine::{Need, has_program, turn};
use surefoot_e2e::report::of_type;
use surefoot_testkit::not_run::not_run;

#[test]
fn what_changes_memory_or_orders_threads_is_told_apart() {
    const NAME: &str = "what_changes_memory_or_orders_threads_is_told_apart";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    for (mode, kind, function) in [
        ("mprotect", "tlb_shootdown", "change_protection"),
        ("madvise", "tlb_shootdown", "give_memory_back"),
        ("membarrier", "call_function", "order_all_threads"),
    ] {
        let (lines, truth) = who(&RAISER, &format!("{mode} 500 200 1 0"));
        let found = raisers(&lines, kind, &truth);
        let by_call: Vec<&Value> = found.into_iter().filter(|raiser| raiser["syscall"] == mode).collect();
        assert!(sum(&by_call) > 25, "{mode}: {lines:?}");
        // Thread stacks of the start are protected, too, before the thread has its name.
        let by_name: Vec<&Value> = by_call.iter().copied().filter(|raiser| raiser["comm"] == "stats").collect();
        assert!(sum(&by_name) * 100 >= sum(&by_call) * 95, "{by_call:?}");
        let named: Vec<&Value> =
            by_name.iter().copied().filter(|raiser| has_frame(raiser, "user_stack", function)).collect();
        assert!(sum(&named) * 10 >= sum(&by_name) * 9, "{mode}: {by_call:?}");
    }
}

#[test]
fn the_waker_of_a_sleeping_poller_is_probable() {
    const NAME: &str = "the_waker_of_a_sleeping_poller_is_probable";
    const TIMES: u64 = 1000;
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    let (lines, truth) = who(&RAISER, &format!("futex {TIMES} 300 1 0"));
    let found = raisers(&lines, "reschedule", &truth);
    for raiser in &found {
        assert_eq!(raiser["certainty"], "probable", "{raiser}");
    }
    let wakes: Vec<&Value> = found.into_iter().filter(|raiser| raiser["wakee"] == "poller").collect();
    assert!(wakes.iter().all(|raiser| raiser["comm"] == "stats" && raiser["syscall"] == "futex"), "{wakes:?}");
    // Where the core does something else at that moment, it looks for work without being interrupted.
    assert!(sum(&wakes) > TIMES / 10, "{} of {TIMES}: {lines:?}", sum(&wakes));
}

/// A process that ends interrupts the core where a thread of it still runs, to make that thread end, too.
#[test]
fn a_process_that_leaves_is_named_with_its_last_system_call() {
    const NAME: &str = "a_process_that_leaves_is_named_with_its_last_system_call";
    const TIMES: u64 = 100;
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    let (lines, _) = who(&RAISER, &format!("exit {TIMES} 0 1 0"));
    let leaves = |raiser: &&Value| raiser["comm"] == "leaver" && raiser["syscall"] == "exit_group";
    let kicks: Vec<&Value> = all_raisers(&lines, "reschedule").into_iter().filter(leaves).collect();
    let pids: BTreeSet<u64> = kicks.iter().map(|raiser| raiser["pid"].as_u64().unwrap()).collect();
    // Where the poller does not run at that moment, nothing is sent.
    assert!(sum(&kicks) > TIMES / 10 && sum(&kicks) <= TIMES, "{} of {TIMES}: {lines:?}", sum(&kicks));
    assert_eq!(pids.len(), kicks.len(), "each process leaves once: {kicks:?}");
    for raiser in &kicks {
        assert_eq!((&raiser["certainty"], &raiser["tid"]), (&"probable".into(), &raiser["pid"]), "{raiser}");
        assert!(has_frame(raiser, "kernel_stack", "exit_group"), "{raiser}");
        assert_eq!(raiser["wakee"], "", "a thread that runs is not woken: {raiser}");
    }
}

/// Both timers are armed on the watched core by a thread beside the polling one.
#[test]
fn a_timer_is_named_by_who_armed_it_and_by_what_it_runs() {
    const NAME: &str = "a_timer_is_named_by_who_armed_it_and_by_what_it_runs";
    const TIMES: u64 = 300;
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    for (mode, syscall, callback, function) in [
        ("timer", "timer_settime", "posix_timer_fn", "arm_a_timer"),
        ("timerfd", "timerfd_settime", "timerfd_tmrproc", "arm_a_timer_file"),
    ] {
        let (lines, truth) = who(&RAISER, &format!("{mode} {TIMES} 0 1 1"));
        let found = raisers(&lines, "timer", &truth);
        let armed: Vec<&Value> = found.into_iter().filter(|raiser| raiser["function"] == callback).collect();
        // A timer that expires while another interrupt handles timers has no interrupt of its own, but is run there: on a busy
        // machine, many of them.
        assert!(sum(&armed) * 2 >= TIMES && sum(&armed) <= TIMES, "{} of {TIMES}: {armed:?}", sum(&armed));
        for raiser in &armed {
            assert_eq!((&raiser["comm"], &raiser["syscall"]), (&"armer".into(), &syscall.into()), "{raiser}");
            assert_eq!((&raiser["certainty"], &raiser["tid"]), (&"certain".into(), &truth["pid"]), "{raiser}");
        }
        let named: Vec<&Value> =
            armed.iter().copied().filter(|raiser| has_frame(raiser, "user_stack", function)).collect();
        assert!(sum(&named) * 10 >= sum(&armed) * 9, "{armed:?}");
        let others = all_raisers(&lines, "timer").into_iter().filter(|raiser| raiser["function"] == callback);
        let others: Vec<&Value> = others.filter(|raiser| raiser["pid"] != truth["pid"]).collect();
        assert!(sum(&others) < TIMES / 10, "{mode} is given to somebody else: {others:?}");
        assert!(is_advised(&lines, "timer", "timer-armed-from-elsewhere", "armer"), "{lines:?}");
    }
}

#[test]
fn a_reader_of_the_cpuid_device_is_named() {
    const NAME: &str = "a_reader_of_the_cpuid_device_is_named";
    const TIMES: u64 = 300;
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    if !Path::new("/dev/cpu/1/cpuid").exists() {
        return not_run(NAME, "there is no /dev/cpu/1/cpuid here (module cpuid, CONFIG_X86_CPUID)");
    }
    let (lines, truth) = who(&RAISER, &format!("cpuid {TIMES} 100 1 0"));
    let found = raisers(&lines, "call_function", &truth);
    let reads: Vec<&Value> = found.into_iter().filter(|raiser| raiser["function"] == "cpuid_smp_cpuid").collect();
    assert!(sum(&reads) * 1000 >= TIMES * 995 && sum(&reads) <= TIMES, "{} of {TIMES}", sum(&reads));
    for raiser in &reads {
        assert_eq!((&raiser["comm"], &raiser["syscall"]), (&"cpuidreader".into(), &"pread64".into()), "{raiser}");
        assert_eq!(raiser["certainty"], "certain", "{raiser}");
        assert!(has_frame(raiser, "kernel_stack", "cpuid_read"), "{raiser}");
    }
    assert!(is_advised(&lines, "call_function", "reader-of-msr-or-cpuid", "cpuidreader"), "{lines:?}");
}

/// A profiler interrupts the core to install its events there, and then with each sample.
#[test]
fn a_profiler_that_attaches_to_the_core_is_named() {
    const NAME: &str = "a_profiler_that_attaches_to_the_core_is_named";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    if !has_program("perf") {
        return not_run(NAME, "perf is not installed");
    }
    actor::prepare();
    let folder = tempfile::tempdir().unwrap();
    let _spinner = actor::start("spinner", "spin 1 60000");
    let who = watch("");
    // Kept off the core, so that it has to send for what it wants there.
    let perf = Command::new("taskset")
        .args(["-c", "0", "perf", "record", "--cpu", "1", "--event", "cpu-clock", "--freq", "1000", "--output"])
        .arg(folder.path().join("perf.data"))
        .args(["sleep", "0.5"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let lines = who.stop().json();
    if !perf.status.success() {
        return not_run(NAME, &format!("perf does not work here: {}", String::from_utf8_lossy(&perf.stderr)));
    }
    let installs = |raiser: &&Value| raiser["comm"] == "perf" && raiser["function"] == "remote_function";
    let found: Vec<&Value> = all_raisers(&lines, "call_function").into_iter().filter(installs).collect();
    assert!(!found.is_empty(), "{:?}", of_type(&lines, "interrupt"));
    for raiser in &found {
        assert_eq!(raiser["certainty"], "certain", "{raiser}");
        assert!(!frames(raiser, "kernel_stack").is_empty(), "{raiser}");
    }
    assert!(found.iter().any(|raiser| raiser["syscall"] == "perf_event_open"), "{found:?}");
    assert!(is_advised(&lines, "call_function", "perf-on-this-core", "from perf"), "{lines:?}");
    let timers = all_raisers(&lines, "timer");
    assert!(timers.iter().any(|raiser| raiser["function"] == "perf_swevent_hrtimer"), "{timers:?}");
}
