//! A console that takes milliseconds for a line, and what is said of them.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use surefoot_hostfs::{Root, consoles, thread};
use surefoot_model::{CauseKind, CpuId, Event, Gap};
use surefoot_probes::Flavour;
use surefoot_stall::{Collector, Config, SourceChoice};
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

/// Logs long messages until told to stop; returns how long the slowest took.
fn log_messages(kmsg: &mut File, stop: &AtomicBool) -> Duration {
    let mut slowest = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
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

#[test]
fn a_gap_while_a_message_is_printed_names_the_console_and_who_logged_it() {
    const TEST: &str = "a_gap_while_a_message_is_printed_names_the_console_and_who_logged_it";
    if let Some(why) = silent() {
        return not_run(TEST, &why);
    }
    let mut kmsg = match File::options().write(true).open("/dev/kmsg") {
        Ok(kmsg) => kmsg,
        Err(error) => return not_run(TEST, &format!("/dev/kmsg: {error}")),
    };
    let config =
        Config { source: SourceChoice::Ebpf(Flavour::Btf), window: Duration::from_millis(500), ..Config::default() };
    let mut collector = match Collector::start(&Root::host(), config) {
        Ok(collector) => collector,
        Err(error) => return not_run(TEST, &error.to_string()),
    };
    let stop = AtomicBool::new(false);
    let (slowest, gaps) = std::thread::scope(|scope| {
        let writer = std::thread::Builder::new().name("logs-much".into());
        let writer = writer.spawn_scoped(scope, || {
            thread::pin_to(CpuId(0)).unwrap();
            log_messages(&mut kmsg, &stop)
        });
        let mut gaps: Vec<Gap> = Vec::new();
        for _ in 0..6 {
            let events = collector.next_window(&AtomicBool::new(false)).unwrap();
            gaps.extend(events.into_iter().filter_map(|event| match event {
                Event::Gap(gap) if gap.cpu == CpuId(0) => Some(gap),
                _ => None,
            }));
        }
        stop.store(true, Ordering::Relaxed);
        (writer.unwrap().join().unwrap(), gaps)
    });
    if slowest < Duration::from_millis(1) {
        return not_run(TEST, &format!("the console here takes no longer than {slowest:?} for a message"));
    }
    let printing = |gap: &&Gap| {
        gap.causes.iter().any(|part| {
            part.cause.kind == CauseKind::Console
                && part.cause.name == "messages of logs-much"
                && part.duration_ns > gap.duration_ns / 2
        })
    };
    let named: Vec<&Gap> = gaps.iter().filter(printing).collect();
    assert!(!named.is_empty(), "a message took {slowest:?}, and no gap says so: {gaps:#?}");
}
