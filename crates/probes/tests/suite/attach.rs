//! What is attached, and what attaching sends to a busy core.

use super::ledger::spin_on_every_core;
use super::raisers::pin;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use surefoot_model::CpuId;
use surefoot_probes::disturbance::{Question, tracepoints};
use surefoot_probes::layout::CAUSE_LOCAL_TIMER;
use surefoot_probes::{Error, Options, Probes, RaiserOptions, Raisers, programs};
use surefoot_testkit::not_run::not_run;

/// Rows in which nothing comes on an ordinary machine.
fn silent_rows() -> Vec<String> {
    ["PLT", "ERR", "SPU", "TRM", "THR", "DFR", "NMI"].map(str::to_owned).to_vec()
}

fn attach(test: &str, options: &Options) -> Option<Probes> {
    match Probes::attach(options) {
        Ok(probes) => Some(probes),
        Err(Error::Unsupported { why, .. }) => {
            not_run(test, &why);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn what_is_attached_is_what_help_says_and_no_tracepoint_has_two_programs() {
    const TEST: &str = "what_is_attached_is_what_help_says_and_no_tracepoint_has_two_programs";
    let Some(probes) = attach(TEST, &Options { silent_rows: silent_rows(), console: true, ..Options::default() })
    else {
        return;
    };
    let rare = |name: &str| programs::row_of(name).is_some_and(|row| silent_rows().iter().any(|label| label == row));
    if let Some(missing) = probes.missing().iter().find(|missing| !rare(missing.program.name)) {
        return not_run(TEST, &missing.why);
    }
    assert_eq!(probes.attached(), tracepoints(Question::Ledger));
    drop(probes);
    let watched = RaiserOptions { cpus: vec![CpuId(1)], ..RaiserOptions::default() };
    let options = Options { silent_rows: silent_rows(), raisers_follow: true, ..Options::default() };
    for (late_threshold_ns, console, question) in
        [(100_000, true, Question::Raisers), (0, true, Question::RaisersAlone)]
    {
        let probes = Probes::attach(&Options { late_threshold_ns, console, ..options.clone() }).unwrap();
        let raisers = Raisers::attach(&probes, &watched).unwrap();
        assert_eq!(probes.attached() + raisers.attached(), tracepoints(question), "{question:?}");
    }
}

#[test]
fn interrupts_that_never_came_are_timed_from_when_they_are_attached() {
    const TEST: &str = "interrupts_that_never_came_are_timed_from_when_they_are_attached";
    let options = Options { silent_rows: vec!["LOC".to_owned()], ..Options::default() };
    let Some(mut probes) = attach(TEST, &options) else { return };
    let ticks = |probes: &Probes| {
        spin_on_every_core(probes, Duration::from_millis(100));
        super::ledger::snapshot(probes, CpuId(0)).slot.causes[CAUSE_LOCAL_TIMER].count
    };
    assert!(probes.is_silent("LOC"));
    assert_eq!(ticks(&probes), 0);
    assert_eq!(probes.attach_rows(&["RES", "HYP"]).unwrap(), 0, "these are attached, or have no tracepoint");
    assert_eq!(probes.attach_rows(&["LOC"]).unwrap(), 2);
    assert!(!probes.is_silent("LOC") && ticks(&probes) > 0);
    assert_eq!(probes.attach_rows(&["LOC"]).unwrap(), 0);
}

/// Functions that other cores had core 1 run so far, without shootdowns.
fn calls() -> u64 {
    let text = std::fs::read_to_string("/proc/interrupts").unwrap();
    let of = |label: &str| {
        let row = text.lines().find_map(|line| line.trim().strip_prefix(label)).unwrap();
        row.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    of("CAL:") - of("TLB:")
}

#[test]
fn finding_out_what_works_interrupts_no_core() {
    const TEST: &str = "finding_out_what_works_interrupts_no_core";
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return not_run(TEST, "it takes two cores");
    }
    if attach(TEST, &Options::default()).is_none() {
        return;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let spins = Arc::clone(&stop);
    let spinner = std::thread::spawn(move || {
        pin(1);
        while !spins.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    });
    // From the other core, because nobody is interrupted by himself. Others interrupt as well, so the quietest of some
    // rounds counts.
    let measured = std::thread::spawn(|| {
        pin(0);
        let fewest = |work: &dyn Fn()| {
            let rounds = (0..5).map(|_| {
                let before = calls();
                work();
                calls() - before
            });
            rounds.min().unwrap()
        };
        let checking = fewest(&|| drop(Probes::check(&Options::default()).unwrap()));
        (checking, fewest(&|| drop(Probes::attach(&Options::default()).unwrap())))
    });
    let (checking, attaching) = measured.join().unwrap();
    stop.store(true, Ordering::Relaxed);
    spinner.join().unwrap();
    if attaching < 50 {
        return not_run(TEST, "somebody else traces the same, so that the kernel has nothing to patch");
    }
    assert!(checking * 4 < attaching, "{checking} by checking, {attaching} by attaching and detaching");
}

extern "C" fn note_signal(_: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

static SIGNALS: AtomicU64 = AtomicU64::new(0);

/// The kernel gives up its check of a program when a signal is there for who loads it.
#[test]
fn signals_that_come_while_programs_are_loaded_wait_until_they_are() {
    const TEST: &str = "signals_that_come_while_programs_are_loaded_wait_until_they_are";
    if attach(TEST, &Options::default()).is_none() {
        return;
    }
    let handler: extern "C" fn(libc::c_int) = note_signal;
    // SAFETY: the handler touches one atomic number; nothing else in this binary uses the signal.
    unsafe { libc::signal(libc::SIGUSR1, handler as *const () as libc::sighandler_t) };
    // SAFETY: takes no argument.
    let (process, loader) = (std::process::id() as i32, unsafe { libc::gettid() });
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // SAFETY: the numbers are those of a thread that lives as long as this scope.
                unsafe { libc::syscall(libc::SYS_tgkill, process, loader, libc::SIGUSR1) };
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        let loaded = (0..5).try_for_each(|_| Probes::check(&Options::default()).map(drop));
        done.store(true, Ordering::Relaxed);
        loaded.unwrap();
    });
    assert!(SIGNALS.load(Ordering::Relaxed) > 0, "they arrived, if later");
}

/// A stop cannot wait. Another process of this program loads, which is stopped and continued meanwhile.
#[test]
fn a_process_that_is_stopped_again_and_again_loads_its_programs() {
    const TEST: &str = "a_process_that_is_stopped_again_and_again_loads_its_programs";
    const IS_CHILD: &str = "SUREFOOT_TEST_LOADS";
    if std::env::var_os(IS_CHILD).is_some() {
        return (0..5).for_each(|_| drop(Probes::check(&Options::default()).unwrap()));
    }
    if attach(TEST, &Options::default()).is_none() {
        return;
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", &format!("suite::attach::{TEST}")])
        .env(IS_CHILD, "yes")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let signal = |signal| {
        // SAFETY: the process was started here and has not been waited for.
        unsafe { libc::kill(child.id() as i32, signal) };
    };
    for _ in 0..400 {
        signal(libc::SIGSTOP);
        std::thread::sleep(Duration::from_millis(1));
        signal(libc::SIGCONT);
        std::thread::sleep(Duration::from_millis(4));
    }
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}
