//! The audit's measurement on the running kernel, against what this test itself did on a core.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use surefoot_hostfs::{Root, cpus};
use surefoot_stall::audit::{self, State, measure};
use surefoot_sys::thread;

#[test]
fn a_thread_that_ran_on_the_core_is_named_and_the_core_is_not_called_quiet() {
    let root = Root::host();
    let all = thread::affinity().unwrap();
    let online = cpus::online(&root).unwrap();
    let core = *online.iter().rfind(|cpu| all.contains(cpu)).unwrap();
    // The child inherits where it may run, and wakes for every line that it is sent.
    thread::pin_to(core).unwrap();
    let mut child =
        Command::new("sh").args(["-c", "while read line; do :; done"]).stdin(Stdio::piped()).spawn().unwrap();
    thread::pin_to_any(&all).unwrap();
    let mut input = child.stdin.take().unwrap();
    let is_measured = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&is_measured);
    let feeder = std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            input.write_all(b"x\n").unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    // A machine that stands still meanwhile lets nothing run.
    let give_up = Instant::now() + Duration::from_secs(60);
    let measured = loop {
        let measured = measure::measure(&root, &[core], Duration::from_millis(1500), &AtomicBool::new(false));
        let ran = measured.ran.as_ref().unwrap();
        let found = ran.iter().find(|ran| ran.tid == child.id());
        if found.is_some_and(|found| found.switches >= 10) {
            break measured;
        }
        assert!(Instant::now() < give_up, "{} in {ran:?}", child.id());
    };
    is_measured.store(true, Ordering::Relaxed);
    feeder.join().unwrap();
    child.wait().unwrap();

    let ran = measured.ran.as_ref().unwrap();
    let found = ran.iter().find(|ran| ran.tid == child.id()).unwrap();
    assert!(found.cpu == core && !found.kernel, "{found:?}");
    assert!(ran.iter().all(|ran| ran.cpu == core && ran.tid != thread::current_tid()), "{ran:?}");

    // Waking it took timer interrupts, reschedules or softirqs there; a core like that is not quiet.
    let settings = audit::Settings::read(&root, &[core]);
    let findings = audit::judge(&settings, Some(&measured));
    let state = |name: &str| findings.iter().find(|finding| finding.name == name).unwrap().state;
    assert!([state("interrupts"), state("softirqs"), state("tick")].contains(&State::Fix), "{findings:?}");
}

#[test]
fn a_measurement_ends_early_when_asked_to() {
    let start = Instant::now();
    let stop = AtomicBool::new(false);
    let measured = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            stop.store(true, Ordering::Relaxed);
        });
        measure::measure(&Root::host(), &[], Duration::from_secs(600), &stop)
    });
    assert!(start.elapsed() < Duration::from_secs(300), "{:?}", start.elapsed());
    assert!(measured.interrupts.is_ok() && measured.ran.is_ok_and(|ran| ran.is_empty()));
}
