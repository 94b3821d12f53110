//! A console that takes milliseconds for a line, and what is said of them.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use surefoot_hostfs::{Root, consoles};
use surefoot_model::{CauseKind, CpuId, Event, Gap};
use surefoot_probes::Flavour;
use surefoot_stall::who::{self, WhoConfig};
use surefoot_stall::{Collector, Config, SourceChoice};
use surefoot_sys::thread;
use surefoot_testkit::not_run::not_run;

/// An error's level: consoles print it unless they are told to be quieter than usual.
const LEVEL: u32 = 3;

/// Why messages hold nobody on this machine, if they do not.
fn silent() -> Option<String> {
    match consoles::enabled(&Root::host()) {
        Ok(names) if names.is_empty() => return Some("no console is enabled here".into()),
        Ok(_) => {}
        Err(error) => return Some(error.to_string()),
    }
    let levels = std::fs::read_to_string("/proc/sys/kernel/printk").unwrap_or_default();
    let printed_below = levels.split_whitespace().next().and_then(|level| level.parse().ok()).unwrap_or(0);
    (printed_below <= LEVEL).then(|| format!("consoles print only levels below {printed_below} here"))
}

fn kmsg() -> std::io::Result<File> {
    File::options().write(true).open("/dev/kmsg")
}

/// Logs long messages until told to stop; returns how long the slowest took.
fn log_messages(stop: &AtomicBool) -> Duration {
    let mut slowest = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        // The kernel drops what comes too often through one open file.
        let mut kmsg = kmsg().unwrap();
        let start = Instant::now();
        kmsg.write_all(format!("<{LEVEL}>surefoot tests its console: {}", "~".repeat(400)).as_bytes()).unwrap();
        slowest = slowest.max(start.elapsed());
        // Works for longer than a tick, so that one is due while the next message is printed.
        while start.elapsed() < slowest + Duration::from_millis(20) {
            std::hint::spin_loop();
        }
    }
    slowest
}

/// A thread that logs messages on core 0 for as long as this runs: what that gives, and how long the slowest message took.
/// `None` where messages hold nobody, which is said.
fn while_messages_are_logged<T>(test: &str, work: impl FnOnce() -> T) -> Option<(T, Duration)> {
    if let Some(why) = silent() {
        not_run(test, &why);
        return None;
    }
    if let Err(error) = kmsg() {
        not_run(test, &format!("/dev/kmsg: {error}"));
        return None;
    }
    let stop = AtomicBool::new(false);
    let (found, slowest) = std::thread::scope(|scope| {
        let writer = std::thread::Builder::new().name("logs-much".into());
        let writer = writer.spawn_scoped(scope, || {
            thread::pin_to(CpuId(0)).unwrap();
            log_messages(&stop)
        });
        let found = work();
        stop.store(true, Ordering::Relaxed);
        (found, writer.unwrap().join().unwrap())
    });
    if slowest < Duration::from_millis(1) {
        not_run(test, &format!("the console here takes no longer than {slowest:?} for a message"));
        return None;
    }
    Some((found, slowest))
}

/// The windows of three seconds, or why there are none.
fn watched() -> Result<Vec<Event>, String> {
    let config =
        Config { source: SourceChoice::Ebpf(Flavour::Btf), window: Duration::from_millis(500), ..Config::default() };
    let mut collector = Collector::start(&Root::host(), config).map_err(|error| error.to_string())?;
    Ok((0..6).flat_map(|_| collector.next_window(&AtomicBool::new(false)).unwrap()).collect())
}

#[test]
fn a_gap_while_a_message_is_printed_names_the_console_and_who_logged_it() {
    const TEST: &str = "a_gap_while_a_message_is_printed_names_the_console_and_who_logged_it";
    let Some((watched, slowest)) = while_messages_are_logged(TEST, watched) else { return };
    let events = match watched {
        Ok(events) => events,
        Err(why) => return not_run(TEST, &why),
    };
    let cores: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Window(window) => window.cores.iter().find(|core| core.cpu == CpuId(0)),
            _ => None,
        })
        .collect();
    assert!(cores.iter().all(|core| core.sums_up()), "{cores:#?}");
    let printed = cores.iter().flat_map(|core| &core.lost).filter(|lost| lost.cause.kind == CauseKind::Console);
    let (count, total_ns) =
        printed.fold((0, 0), |(count, total_ns), lost| (count + lost.count, total_ns + lost.total_ns));
    assert!(count > 0 && total_ns > 1_000_000, "{count} messages took {total_ns} ns; the slowest took {slowest:?}");

    let gaps: Vec<&Gap> = events
        .iter()
        .filter_map(|event| match event {
            Event::Gap(gap) if gap.cpu == CpuId(0) => Some(gap),
            _ => None,
        })
        .collect();
    let printing = |gap: &Gap| {
        gap.causes.iter().any(|part| {
            part.cause.kind == CauseKind::Console
                && part.cause.name == "messages of logs-much"
                && part.duration_ns > gap.duration_ns / 2
        })
    };
    assert!(gaps.iter().any(|gap| printing(gap)), "a message took {slowest:?}, and no gap says so: {gaps:#?}");
}

#[test]
fn who_names_messages_to_the_console_and_who_logged_them() {
    const TEST: &str = "who_names_messages_to_the_console_and_who_logged_them";
    super::names::by_this_program();
    let config = WhoConfig { cpus: vec![CpuId(0)], kernel_stacks: true, stacks_per_s: 100_000, ..WhoConfig::default() };
    let watch = || who::run(&Root::host(), &config, Duration::from_secs(2), &AtomicBool::new(false), || {});
    let Some((found, slowest)) = while_messages_are_logged(TEST, watch) else { return };
    let report = match found {
        Ok(report) => report,
        Err(error) => return not_run(TEST, &error.to_string()),
    };
    let row = report.interrupts.iter().find(|row| row.cause.kind == CauseKind::Console);
    let row = row.unwrap_or_else(|| panic!("a message took {slowest:?}, and no row says so: {report:#?}"));
    assert!(row.count > 0 && row.max_ns >= 500_000, "{row:#?}");
    let logged = row.raisers.iter().find(|raiser| raiser.comm == "logs-much").unwrap_or_else(|| panic!("{row:#?}"));
    assert_eq!((logged.syscall.as_str(), logged.pid), ("write", std::process::id()));
    assert!(
        logged.kernel_stack.iter().any(|frame| frame.starts_with("vprintk")),
        "{row:#?} {:?} {} {}",
        report.missing,
        report.records,
        report.records_without_stack
    );
    assert_eq!(row.advice[0].rule, "messages-to-the-console");
}
