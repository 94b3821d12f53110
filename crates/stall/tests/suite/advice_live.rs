//! Advice on the running kernel: what a program does beside its polling thread, and what `who` says of it.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use surefoot_hostfs::Root;
use surefoot_model::{CauseKind, CpuId, Interrupt, WhoReport};
use surefoot_stall::who::{self, WhoConfig};
use surefoot_testkit::not_run::not_run;

const WATCHED: CpuId = CpuId(1);

/// Compiles the program; `None` without a compiler or a second core.
fn program(test: &str, folder: &Path) -> Option<PathBuf> {
    if std::thread::available_parallelism().is_ok_and(|count| count.get() < 2) {
        not_run(test, "it takes two cores");
        return None;
    }
    let program = folder.join("disturber");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/disturber.c");
    match Command::new("cc").args(["-O2", "-g", "-pthread", "-o"]).arg(&program).arg(source).status() {
        Ok(status) => assert!(status.success(), "the program compiles"),
        Err(error) => {
            not_run(test, &format!("there is no C compiler: {error}"));
            return None;
        }
    }
    Some(program)
}

/// The program, and how it ends.
struct Disturber(Child);

impl Disturber {
    fn start(program: &Path, mode: &str, times: u32) -> Self {
        let mut command = Command::new(program);
        command.args([mode, &times.to_string(), "1", "0"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        Disturber(command.spawn().unwrap())
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

/// Watches while the program does this; `None` where eBPF is not to be had.
fn watch(test: &str, program: &Path, mode: &str, times: u32) -> Option<WhoReport> {
    let config = WhoConfig {
        cpus: vec![WATCHED],
        // Whose preemption counts: the polling thread's process is there before the watch.
        pid: None,
        kernel_stacks: true,
        user_stacks: true,
        stacks_per_s: 100_000,
        timeline: false,
    };
    let stop = AtomicBool::new(false);
    let found = std::thread::scope(|scope| {
        who::run(&Root::host(), &config, Duration::from_secs(60), &stop, || {
            let mut disturber = Disturber::start(program, mode, times);
            let stop = &stop;
            scope.spawn(move || {
                disturber.is_done();
                stop.store(true, Ordering::Relaxed);
            });
        })
    });
    match found {
        Ok(report) => Some(report),
        Err(surefoot_stall::Error::Probes(surefoot_probes::Error::Unsupported { why, .. })) => {
            not_run(test, &why);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn of_kind(report: &WhoReport, kind: CauseKind) -> Vec<&Interrupt> {
    report.interrupts.iter().filter(|interrupt| interrupt.cause.kind == kind).collect()
}

/// The evidence of a rule on interrupts of this kind.
fn evidence(report: &WhoReport, kind: CauseKind, rule: &str) -> String {
    let rows = of_kind(report, kind);
    let advice = rows.iter().flat_map(|row| &row.advice).find(|advice| advice.rule == rule);
    advice.unwrap_or_else(|| panic!("{rule} is not advised: {rows:#?}")).evidence.clone()
}

#[test]
fn fork_signals_and_an_interval_timer_beside_a_polling_thread_are_each_named() {
    const TEST: &str = "fork_signals_and_an_interval_timer_beside_a_polling_thread_are_each_named";
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(TEST, folder.path()) else { return };
    let Some(forks) = watch(TEST, &program, "fork", 60) else { return };
    let said = evidence(&forks, CauseKind::TlbShootdown, "fork-beside-a-polling-thread");
    assert!(said.contains(" from disturber in "), "{said}");
    // What it costs and how to see that it is gone stands in the list, with shares that are no more than all.
    let fixes = &forks.fix_first;
    assert!(fixes.iter().all(|fix| fix.verify.starts_with("surefoot stall who --cpu 1 ")), "{fixes:#?}");
    assert!(fixes.is_sorted_by(|a, b| a.total_ns >= b.total_ns));
    assert!(fixes.iter().map(|fix| fix.share_of_lost_ppm).sum::<u64>() <= 1_000_000, "{fixes:#?}");

    let signals = watch(TEST, &program, "tgkill", 1_500).unwrap();
    let said = evidence(&signals, CauseKind::Reschedule, "signals-to-this-thread");
    assert!(said.contains("disturber in tgkill, called by nudge_poller"), "{said}");

    let timers = watch(TEST, &program, "itimer", 500).unwrap();
    let said = evidence(&timers, CauseKind::Timer, "interval-timer-taken-by-this-thread");
    assert!(said.contains(" from poller in it_real_fn"), "{said}");
}
