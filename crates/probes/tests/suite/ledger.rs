//! The real programs on the running kernel. Where eBPF is not allowed the tests say that they were not run.
#![allow(clippy::unwrap_used)]

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use surefoot_model::CpuId;
use surefoot_probes::layout::{CAUSE_IDLE, CAUSE_LOCAL_TIMER, CAUSE_WORK, CAUSES, Turn};
use surefoot_probes::{Error, Flavour, Options, Probes, Snapshot, Tracefs};
use surefoot_testkit::not_run::not_run;

use super::raisers::{PATIENCE, pin};

/// A detached mount, as the product's `hostfs` makes, which this crate must not use: no machine needs one that is seen.
fn tracefs() -> std::io::Result<OwnedFd> {
    const CREATE: libc::c_uint = 6;
    let no_text = std::ptr::null::<libc::c_char>();
    let given = |descriptor: libc::c_long| match descriptor {
        // SAFETY: the kernel has just given us this descriptor, and nobody else knows it.
        0.. => Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) }),
        _ => Err(std::io::Error::last_os_error()),
    };
    // SAFETY: the name ends with a zero byte and is only read; the other calls follow no pointer.
    unsafe {
        let context = given(libc::syscall(libc::SYS_fsopen, c"tracefs".as_ptr(), 1))?;
        if libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), CREATE, no_text, no_text, 0) != 0 {
            return Err(std::io::Error::last_os_error());
        }
        given(libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), 1, 0))
    }
}

pub(super) fn attach(test: &str, flavour: Flavour) -> Option<Probes> {
    let tracefs = match tracefs() {
        Ok(folder) => Tracefs::Open(Arc::new(folder)),
        Err(error) => Tracefs::Absent { why: format!("no tracefs: {error}"), remedy: String::new() },
    };
    match Probes::attach(&Options { flavour: Some(flavour), tracefs, ..Options::default() }) {
        Ok(probes) => Some(probes),
        Err(Error::Unsupported { why, .. }) => {
            not_run(test, &why);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

pub(super) fn spin(duration: Duration) {
    let start = Instant::now();
    while start.elapsed() < duration {
        std::hint::spin_loop();
    }
}

pub(super) fn cores(probes: &Probes) -> impl Iterator<Item = CpuId> {
    let online = std::fs::read_to_string("/proc/stat").unwrap();
    (0..probes.cpu_count() as u32).filter(move |cpu| online.contains(&format!("cpu{cpu} "))).map(CpuId)
}

/// An idle core may do without its tick for seconds, so each gets some work.
pub(super) fn spin_on_every_core(probes: &Probes, duration: Duration) {
    std::thread::scope(|threads| {
        for cpu in cores(probes) {
            threads.spawn(move || {
                pin(cpu.0);
                spin(duration);
            });
        }
    });
}

/// A hypervisor that stops the core while one of its programs writes makes the slot unreadable for as long.
pub(super) fn snapshot(probes: &Probes, cpu: CpuId) -> Snapshot {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match probes.snapshot(cpu) {
            Some(snapshot) => return snapshot,
            None if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
            None => panic!("core {cpu} cannot be read for {PATIENCE:?}"),
        }
    }
}

/// The newest durations are held by the core before it counts them: they are there, too, and only once.
fn every_occurrence_has_its_duration(probes: &Probes, cpu: CpuId) {
    for cause in CAUSE_LOCAL_TIMER..CAUSES {
        let before = snapshot(probes, cpu).slot.causes[cause];
        let counted: u64 = probes.histogram(cpu, cause).iter().map(|&count| u64::from(count)).sum();
        let after = snapshot(probes, cpu).slot.causes[cause];
        assert!(counted >= before.count && counted <= after.count, "core {cpu}, {before:?}, then {counted}, {after:?}");
    }
}

fn the_ledger_adds_up(probes: &Probes) {
    spin_on_every_core(probes, Duration::from_millis(300));
    // Each sleep is two switches on some core; a program times one of its runs in 64.
    for _ in 0..400 {
        std::thread::sleep(Duration::from_millis(1));
    }
    for cpu in cores(probes) {
        let snapshot = snapshot(probes, cpu);
        let slot = &snapshot.slot;
        let total_ns: u64 = slot.causes.iter().map(|cause| cause.total_ns).sum();
        assert_eq!(total_ns, slot.last_ns - slot.start_ns + slot.deferred_ns, "core {cpu}");
        let covered_ns = total_ns + snapshot.open_ns();
        assert!(covered_ns >= snapshot.at_ns - slot.start_ns, "core {cpu}");
        assert!(slot.causes[CAUSE_LOCAL_TIMER].count > 0, "a second without a single tick on core {cpu}");
        assert!(slot.causes[CAUSE_IDLE].total_ns + slot.causes[CAUSE_WORK].total_ns > 0);
    }
    for cpu in cores(probes) {
        every_occurrence_has_its_duration(probes, cpu);
    }
    let snapshots: Vec<_> = cores(probes).map(|cpu| snapshot(probes, cpu)).collect();
    let runs = probes.runs(snapshots.iter().map(|snapshot| &*snapshot.slot));
    let switches = runs.iter().find(|run| run.program.name == "sched_switch").expect("sched_switch is always there");
    assert!(switches.count > 0 && switches.total_ns > 0);
}

#[test]
fn the_ledger_adds_up_on_typed_tracepoints() {
    let Some(probes) = attach("the_ledger_adds_up_on_typed_tracepoints", Flavour::Btf) else { return };
    the_ledger_adds_up(&probes);
}

#[test]
fn the_ledger_adds_up_on_plain_tracepoints() {
    let Some(probes) = attach("the_ledger_adds_up_on_plain_tracepoints", Flavour::Plain) else { return };
    the_ledger_adds_up(&probes);
    assert!(probes.missing().iter().any(|missing| missing.program.name == "hrtimer_expire_entry"));
}

#[test]
fn plain_tracepoints_without_tracefs_are_refused_with_the_reason() {
    let tracefs = Tracefs::Absent { why: "it is not there".into(), remedy: "mount it".into() };
    match Probes::attach(&Options { flavour: Some(Flavour::Plain), tracefs, ..Options::default() }) {
        Err(Error::Unsupported { why, remedy }) => assert_eq!((&*why, &*remedy), ("it is not there", "mount it")),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("attached to what it could not look up"),
    }
}

#[test]
fn the_tape_is_in_the_order_of_time_and_says_what_it_lost() {
    let Some(probes) = attach("the_tape_is_in_the_order_of_time_and_says_what_it_lost", Flavour::Btf) else { return };
    let cpu = cores(&probes).next().unwrap();
    // A core that nobody uses may have no turn for as long as this takes, so this thread's sleeps are on it.
    pin(cpu.0);
    // SAFETY: it takes nothing and cannot fail.
    let own = unsafe { libc::gettid() } as u32;
    let mut turns: Vec<Turn> = Vec::new();
    let (mut next, mut lost) = (probes.tape_end(cpu), 0);
    let first = next;
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(20));
        let (end, missing) = probes.read_tape(cpu, next, &mut turns);
        next = end;
        lost += missing;
    }
    assert_eq!(turns.len() as u64 + lost, next - first);
    let (own_turns, sleeps) = (turns.iter().filter(|turn| turn.pid == own).count() as u64, 20);
    // The kernel can skip the program at a switch now and then.
    assert!(own_turns + lost >= sleeps / 2, "{own_turns} turns of this thread in {sleeps} sleeps, {lost} lost");
    assert!(turns.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
    // Asking for what is long gone gives what is left and the number of the rest.
    let mut old = Vec::new();
    let (end, missing) = probes.read_tape(cpu, 0, &mut old);
    assert_eq!(old.len() as u64 + missing, end);
}

#[test]
fn a_core_that_does_not_exist_has_nothing_to_read() {
    let Some(probes) = attach("a_core_that_does_not_exist_has_nothing_to_read", Flavour::Btf) else { return };
    let nowhere = CpuId(probes.cpu_count() as u32);
    assert!(probes.snapshot(nowhere).is_none());
    assert_eq!(probes.read_tape(nowhere, 7, &mut Vec::new()), (7, 0));
    assert_eq!(probes.read_late(nowhere, 7, &mut Vec::new()), (7, 0));
    assert_eq!(probes.histogram(nowhere, 3).iter().sum::<u32>(), 0);
}
