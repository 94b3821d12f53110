//! Who comes and goes during a watch, on the running kernel with a made-up /proc and /sys: cores that go offline and
//! come back, processes that end, cores that cannot be read.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use surefoot_hostfs::Root;
use surefoot_model::{CauseKind, CpuId, WhoReport};
use surefoot_probes::{Options, Probes};
use surefoot_stall::Traced;
use surefoot_stall::who::{LOOK_EVERY, Watch, WhoConfig};
use surefoot_sys::thread;
use surefoot_testkit::HostTree;
use surefoot_testkit::not_run::not_run;

fn config(cpus: &[u32], pid: Option<u32>) -> WhoConfig {
    WhoConfig {
        cpus: cpus.iter().copied().map(CpuId).collect(),
        pid,
        kernel_stacks: false,
        user_stacks: false,
        stacks_per_s: 0,
        timeline: true,
    }
}

/// Looks until it is so: how long that takes is the machine's affair.
fn look_until(watch: &mut Watch, traced: &mut Traced, mut is_so: impl FnMut(&mut Watch, &mut Traced) -> bool) {
    let start = Instant::now();
    loop {
        std::thread::sleep(LOOK_EVERY);
        watch.look(traced);
        if is_so(watch, traced) {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(120), "{:?}", timers(&watch.report_so_far(traced)));
    }
}

/// A thread that keeps a core busy, so that its tick runs.
struct Busy(Arc<AtomicBool>);

impl Busy {
    fn on(cpu: CpuId) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        std::thread::spawn(move || {
            thread::pin_to_any(&[cpu]).unwrap();
            while !seen.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        Busy(stop)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn timers(report: &WhoReport) -> (u64, u64) {
    let timer = report.interrupts.iter().find(|interrupt| interrupt.cause.kind == CauseKind::Timer);
    let Some(timer) = timer else { return (0, 0) };
    let raised: u64 = timer.raisers.iter().map(|raiser| raiser.count).sum();
    (timer.count, raised + timer.unknown_raisers)
}

#[test]
fn a_core_that_was_offline_and_a_process_that_ended_are_told_and_not_counted() {
    let name = "a_core_that_was_offline_and_a_process_that_ended_are_told_and_not_counted";
    let probes = match Probes::attach(&Options::default()) {
        Ok(probes) => probes,
        Err(error) => return not_run(name, &error.to_string()),
    };
    let stat =
        |start: u32| format!("77 (a) b) S 1 1 1 0 -1 4194560 1 1 1 1 1 1 1 1 20 0 1 0 {start}{}\n", " 1".repeat(30));
    let tree = HostTree::new().file("sys/devices/system/cpu/online", "0-1,1000\n").file("proc/77/stat", stat(500));
    let _busy = Busy::on(CpuId(0));
    let mut traced = Traced::new(&Root::at(tree.path()), probes, &[CpuId(0), CpuId(1000)]);
    let mut watch = match Watch::attach(&Root::at(tree.path()), &mut traced, &config(&[0, 1000], Some(77))) {
        Ok(watch) => watch,
        Err(error) => return not_run(name, &error.to_string()),
    };
    let counted = |watch: &mut Watch, traced: &mut Traced| timers(&watch.report_so_far(traced));
    look_until(&mut watch, &mut traced, |watch, traced| counted(watch, traced).0 > 0);
    assert_eq!(watch.take_notices(), []);
    tree.write("sys/devices/system/cpu/online", "1,1000\n");
    // The programs went on counting, because the core was there all the time.
    look_until(&mut watch, &mut traced, |watch, traced| {
        let (counted, seen) = counted(watch, traced);
        seen >= counted + 50
    });
    let away = watch.report_so_far(&mut traced);
    assert!(away.timeline.is_none(), "what flows carries no timeline");
    // The number went to another process, which was started later.
    tree.write("proc/77/stat", stat(900));
    tree.write("sys/devices/system/cpu/online", "0-1,1000\n");
    let mut texts: Vec<String> = Vec::new();
    look_until(&mut watch, &mut traced, |watch, traced| {
        texts.extend(watch.take_notices().into_iter().map(|notice| notice.text));
        texts.len() >= 3 && counted(watch, traced).0 > timers(&away).0
    });
    let report = watch.finish(&mut traced);
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert!(texts[0].starts_with("core 0 went offline ") && texts[0].ends_with("its counts pause"), "{texts:?}");
    assert!(texts[1].starts_with("process 77 ended after "), "{texts:?}");
    assert!(texts[2].starts_with("core 0 was offline for ") && texts[2].ends_with("it is back"), "{texts:?}");
    let told: Vec<String> = report.notices.iter().map(|notice| notice.text.clone()).collect();
    assert_eq!(told, texts);
    // The ledger left out the absence, then and at the end.
    let ((counted_away, seen_away), (counted, seen)) = (timers(&away), timers(&report));
    assert!(counted_away > 0 && counted > counted_away, "{counted_away} then {counted}");
    assert!(
        seen >= counted + (seen_away - counted_away),
        "{counted} of {seen} are of the time that the core was there, {counted_away} of {seen_away} until it was back"
    );
    let missing = "core 1000: its counters could not be read consistently, so nothing is said about it";
    assert!(report.missing.iter().any(|text| text == missing), "{:?}", report.missing);
    let timeline = report.timeline.unwrap();
    assert!(timeline.arrivals.iter().any(|arrival| arrival.slice.is_some()), "{} slices", timeline.slices.len());
}
