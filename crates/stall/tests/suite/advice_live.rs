//! Advice on the running kernel: what a program does beside its polling thread, and what `who` says of it.
#![allow(clippy::unwrap_used)]

use super::live;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use surefoot_hostfs::Root;
use surefoot_model::{CauseKind, Interrupt, Raiser, WhoReport};
use surefoot_stall::who::{self, WhoConfig};
use surefoot_who::advice::{HostFacts, advise};

fn program(test: &str, folder: &Path) -> Option<PathBuf> {
    live::program(test, folder, "disturber", "disturber.c", &[])
}

/// The program, and how it ends.
struct Disturber(Child);

impl Disturber {
    fn start(program: &Path, mode: &str, times: u32) -> Self {
        let mut command = Command::new(program);
        command.args([mode, &times.to_string(), "1", "0"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        Disturber(command.spawn().unwrap())
    }

    fn begin(&mut self) {
        self.0.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    }

    /// Waits until it has done what it was told.
    fn is_done(&mut self) {
        let mut line = String::new();
        BufReader::new(self.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(!line.is_empty());
    }
}

impl Drop for Disturber {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Watches while the program does this: the report, and its process. `None` where eBPF is not to be had.
fn watch(test: &str, program: &Path, mode: &str, times: u32) -> Option<(WhoReport, u32)> {
    let config = live::config();
    let (stop, mut pid) = (AtomicBool::new(false), 0);
    let found = std::thread::scope(|scope| {
        who::run(&Root::host(), &config, Duration::from_secs(60), &stop, || {
            let mut disturber = Disturber::start(program, mode, times);
            pid = disturber.0.id();
            disturber.begin();
            let stop = &stop;
            scope.spawn(move || {
                disturber.is_done();
                stop.store(true, Ordering::Relaxed);
            });
        })
    });
    live::reported(test, found).map(|report| (report, pid))
}

/// The same until the process has raised interrupts of this kind, a few times: where the poller has no time on its core, as on a busy
/// machine, nothing is sent to it.
fn watch_until_raised(
    test: &str,
    program: &Path,
    (mode, times): (&str, u32),
    kind: CauseKind,
) -> Option<(WhoReport, u32)> {
    let give_up = Instant::now() + Duration::from_secs(60);
    loop {
        let (report, pid) = watch(test, program, mode, times)?;
        let mut rows = report.interrupts.iter().filter(|row| row.cause.kind == kind);
        if Instant::now() > give_up || rows.any(|row| row.raisers.iter().any(|raiser| raiser.pid == pid)) {
            return Some((report, pid));
        }
    }
}

/// What is advised first about the interrupts of this kind that this process raised: on a busy machine others raise some
/// as well.
fn advised(report: &WhoReport, pid: u32, kind: CauseKind) -> (String, String) {
    let mut own = report.interrupts.iter().filter(|row| row.cause.kind == kind).cloned().collect::<Vec<Interrupt>>();
    own.iter_mut().for_each(|row| {
        row.unknown_raisers = 0;
        row.raisers.retain(|raiser| raiser.pid == pid);
    });
    let raised = |row: &Interrupt| row.raisers.iter().map(|raiser| raiser.count).sum::<u64>();
    let Some(row) = own.iter().max_by_key(|row| raised(row)).filter(|row| raised(row) > 0) else {
        panic!("process {pid} raised nothing: {:#?}", report.interrupts);
    };
    let advice = advise(row, &HostFacts::default()).into_iter().next();
    advice.map(|advice| (advice.rule, advice.evidence)).unwrap_or_else(|| panic!("nothing is advised: {row:#?}"))
}

#[test]
fn fork_signals_and_an_interval_timer_beside_a_polling_thread_are_each_named() {
    const TEST: &str = "fork_signals_and_an_interval_timer_beside_a_polling_thread_are_each_named";
    let _turn = live::turn();
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(TEST, folder.path()) else { return };
    let raised = |what, kind| watch_until_raised(TEST, &program, what, kind);
    let Some((forks, pid)) = raised(("fork", 60), CauseKind::TlbShootdown) else { return };
    let (rule, evidence) = advised(&forks, pid, CauseKind::TlbShootdown);
    assert_eq!(rule, "fork-beside-a-polling-thread");
    assert!(evidence.contains(" from disturber in "), "{evidence}");
    // What it costs and how to see that it is gone stands in the list, with shares that are no more than all.
    let fixes = &forks.fix_first;
    assert!(fixes.iter().all(|fix| fix.verify.starts_with("surefoot stall who --cpu 1 ")), "{fixes:#?}");
    // What this kernel cannot do stands last.
    let order = |fix: &surefoot_model::Fix| (fix.rule == "tick-needs-another-kernel", std::cmp::Reverse(fix.total_ns));
    assert!(fixes.is_sorted_by_key(order));
    assert!(fixes.iter().map(|fix| fix.share_of_lost_ppm).sum::<u64>() <= 1_000_000, "{fixes:#?}");
    // A tick hits the loop that measures entry and exit on almost any machine; what it says is more than nothing.
    assert!(
        forks.entry_exit.iter().all(|cost| cost.p10_ns > 0 && cost.p10_ns <= cost.p90_ns),
        "{:?}",
        forks.entry_exit
    );

    let Some((signals, pid)) = raised(("tgkill", 1_500), CauseKind::Reschedule) else { return };
    let (rule, evidence) = advised(&signals, pid, CauseKind::Reschedule);
    assert_eq!(rule, "signals-to-this-thread");
    assert!(evidence.contains(" from disturber in tgkill"), "{evidence}");

    let Some((timers, pid)) = raised(("itimer", 500), CauseKind::Timer) else { return };
    let (rule, evidence) = advised(&timers, pid, CauseKind::Timer);
    assert_eq!(rule, "interval-timer-taken-by-this-thread", "{evidence}");
    assert!(evidence.contains(" from poller in it_real_fn"), "{evidence}");
}

/// The intruder is a process of its own, which its parent wakes onto the polling core.
#[test]
fn who_wakes_an_intruder_onto_the_core_and_why_it_may_run_there_is_told() {
    const TEST: &str = "who_wakes_an_intruder_onto_the_core_and_why_it_may_run_there_is_told";
    let _turn = live::turn();
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(TEST, folder.path()) else { return };
    let is_seen = |report: &WhoReport, pid| brought(report, |raiser| is_woken(raiser, pid, "intruder")) > 0;
    let Some((report, pid)) = watch_until(TEST, &program, ("intrude", 1_000), is_seen) else { return };
    let row = report.interrupts.iter().find(|row| row.cause.to_string() == "preemption intruder");
    let row = row.unwrap_or_else(|| panic!("no intruder: {:#?}", report.interrupts));
    let woken: u64 =
        row.raisers.iter().filter(|raiser| is_woken(raiser, pid, "intruder")).map(|raiser| raiser.count).sum();
    assert!(woken > 0 && woken <= row.count + 1, "{woken} of {}: {:#?}", row.count, row.raisers);
    let intruder = row.intruders.first().unwrap_or_else(|| panic!("nobody was asked: {row:#?}"));
    assert_eq!((intruder.comm.as_str(), intruder.allowed.as_str(), intruder.is_kernel), ("intruder", "1", false));
    assert_eq!(advise(row, &HostFacts::default())[0].rule, "other-task-on-this-core");
}

/// The intruder is at work before the workload is woken: only then its run takes anything.
#[test]
fn who_woke_a_task_that_keeps_the_woken_workload_waiting_is_told() {
    const TEST: &str = "who_woke_a_task_that_keeps_the_woken_workload_waiting_is_told";
    let _turn = live::turn();
    const TIMES: u32 = 400;
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(TEST, folder.path()) else { return };
    let is_seen = |report: &WhoReport, pid| {
        let woken = brought(report, |raiser| is_woken(raiser, pid, "delayer"));
        let mut rows = report.interrupts.iter().filter(|row| row.cause.to_string() == "preemption delayer");
        rows.any(|row| row.count >= u64::from(TIMES / 10) && woken >= row.count / 4)
    };
    let Some((report, pid)) = watch_until(TEST, &program, ("delay", TIMES), is_seen) else { return };
    let row = report.interrupts.iter().find(|row| row.cause.to_string() == "preemption delayer");
    let row = row.unwrap_or_else(|| panic!("no intruder: {:#?}", report.interrupts));
    assert!(row.count >= u64::from(TIMES / 10), "it keeps the workload waiting: {row:#?}");
    let woken: u64 =
        row.raisers.iter().filter(|raiser| is_woken(raiser, pid, "delayer")).map(|raiser| raiser.count).sum();
    // On a busy machine it is interrupted itself, and goes on without being woken.
    assert!(woken >= row.count / 4 && woken <= row.count + 1, "{woken} of {}: {:#?}", row.count, row.raisers);
    let intruder = row.intruders.first().unwrap_or_else(|| panic!("nobody was asked: {row:#?}"));
    assert_eq!((intruder.comm.as_str(), intruder.allowed.as_str(), intruder.is_kernel), ("delayer", "1", false));
    assert_eq!(advise(row, &HostFacts::default())[0].rule, "other-task-on-this-core");
}

/// Whether it was woken by this process.
fn is_woken(raiser: &Raiser, pid: u32, name: &str) -> bool {
    (raiser.pid, raiser.syscall.as_str(), raiser.wakee.as_str()) == (pid, "write", name)
}

/// What brought the task that took the core, over all of its rows: raisers of the runs that were counted so.
fn brought(report: &WhoReport, is_it: impl Fn(&Raiser) -> bool) -> u64 {
    let rows = report.interrupts.iter().filter(|row| row.cause.kind == CauseKind::Preemption);
    rows.flat_map(|row| &row.raisers).filter(|raiser| is_it(raiser)).map(|raiser| raiser.count).sum()
}

#[test]
fn who_moves_a_task_onto_the_core_by_its_affinity_is_told() {
    const TEST: &str = "who_moves_a_task_onto_the_core_by_its_affinity_is_told";
    let _turn = live::turn();
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(TEST, folder.path()) else { return };
    let moved = |report: &WhoReport, pid| {
        brought(report, |raiser| {
            (raiser.pid, raiser.syscall.as_str()) == (pid, "sched_setaffinity")
                && raiser.function == "moved from core 0 by a change of its affinity on core 0"
        })
    };
    let is_seen = |report: &WhoReport, pid| moved(report, pid) > 0;
    let Some((report, pid)) = watch_until(TEST, &program, ("shove", 400), is_seen) else { return };
    assert!(moved(&report, pid) > 0, "{:#?}", report.interrupts);
}

#[test]
fn the_parent_of_a_task_that_begins_on_the_core_is_told() {
    const TEST: &str = "the_parent_of_a_task_that_begins_on_the_core_is_told";
    let _turn = live::turn();
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(TEST, folder.path()) else { return };
    let begun = |report: &WhoReport, pid| {
        brought(report, |raiser| {
            (raiser.pid, raiser.function.as_str()) == (pid, "new task") && raiser.syscall.starts_with("clone")
        })
    };
    let is_seen = |report: &WhoReport, pid| begun(report, pid) > 0;
    let Some((report, pid)) = watch_until(TEST, &program, ("spawn", 500), is_seen) else { return };
    assert!(begun(&report, pid) > 0, "{:#?}", report.interrupts);
}

#[test]
fn the_part_of_the_scheduler_that_moves_a_task_onto_the_core_is_told() {
    const TEST: &str = "the_part_of_the_scheduler_that_moves_a_task_onto_the_core_is_told";
    let _turn = live::turn();
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(TEST, folder.path()) else { return };
    let by_it = |raiser: &Raiser| {
        raiser.comm == "(scheduler)" && raiser.function.starts_with("moved from core 0 by real-time balancing")
    };
    let is_seen = |report: &WhoReport, _| brought(report, by_it) > 0;
    let Some((report, _)) = watch_until(TEST, &program, ("balance", 400), is_seen) else { return };
    assert!(brought(&report, by_it) > 0, "{:#?}", report.interrupts);
    let row = report.interrupts.iter().find(|row| row.cause.to_string() == "preemption balance");
    let asked = row.and_then(|row| row.intruders.first()).unwrap_or_else(|| panic!("{:#?}", report.interrupts));
    assert!(asked.because.contains("core 1"), "{asked:#?}");
}

/// Watches one process after the other until one was seen to do it: where the poller has no time on its core, nothing is taken from it.
fn watch_until(
    test: &str,
    program: &Path,
    (mode, times): (&str, u32),
    is_seen: impl Fn(&WhoReport, u32) -> bool,
) -> Option<(WhoReport, u32)> {
    let give_up = Instant::now() + Duration::from_secs(60);
    loop {
        let mut disturber = Disturber::start(program, mode, times);
        let pid = disturber.0.id();
        let report = watch_process(test, pid, &mut disturber)?;
        if is_seen(&report, pid) || Instant::now() > give_up {
            return Some((report, pid));
        }
    }
}

/// Watches with this process as the workload until it is done.
fn watch_process(test: &str, pid: u32, disturber: &mut Disturber) -> Option<WhoReport> {
    super::names::by_this_program();
    let config = WhoConfig { pid: Some(pid), user_stacks: false, ..live::config() };
    let stop = AtomicBool::new(false);
    let found = std::thread::scope(|scope| {
        who::run(&Root::host(), &config, Duration::from_secs(60), &stop, || {
            disturber.begin();
            let stop = &stop;
            scope.spawn(move || {
                disturber.is_done();
                stop.store(true, Ordering::Relaxed);
            });
        })
    });
    live::reported(test, found)
}
