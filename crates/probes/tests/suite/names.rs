//! The names of tasks as their cores wrote them, on the running kernel. Nothing here looks at /proc.

use super::ledger::{attach, cores, spin};
use super::raisers::{PATIENCE, pin};
use std::ffi::CString;
use std::time::{Duration, Instant};
use surefoot_model::CpuId;
use surefoot_probes::layout::{NAME_RECORDS, NameRecord};
use surefoot_probes::{Flavour, Probes};

fn rename(name: &str) {
    let name = CString::new(name).unwrap();
    // SAFETY: the name ends with a zero byte and is only read.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) }, 0);
}

fn text(record: &NameRecord) -> String {
    String::from_utf8_lossy(record.comm.split(|&byte| byte == 0).next().unwrap()).into_owned()
}

/// Runs this in a thread of that name on the core; returns its number once it has ended.
fn run_on(cpu: CpuId, name: &str, what: impl FnOnce() + Send + 'static) -> u32 {
    let name = name.to_owned();
    let thread = std::thread::spawn(move || {
        rename(&name);
        pin(cpu.0);
        what();
        // SAFETY: takes no argument.
        unsafe { libc::gettid() as u32 }
    });
    thread.join().unwrap()
}

/// What a core has written since, until that `is_enough`. A task that ended may still have to leave its core.
fn names_until(
    probes: &Probes,
    cpu: CpuId,
    from: u64,
    is_enough: impl Fn(&[NameRecord]) -> bool,
) -> (Vec<NameRecord>, u64) {
    let give_up = Instant::now() + PATIENCE;
    let (mut records, mut next, mut lost) = (Vec::new(), from, 0);
    while !is_enough(&records) && Instant::now() < give_up {
        std::thread::sleep(Duration::from_millis(5));
        let (end, dropped) = probes.read_names(cpu, next, &mut records);
        (next, lost) = (end, lost + dropped);
    }
    (records, lost)
}

/// A kernel can skip the program at a switch now and then, so each is tried a few times.
fn eventually(what: &str, mut attempt: impl FnMut() -> Result<(), String>) {
    let mut failure = String::new();
    for _ in 0..5 {
        match attempt() {
            Ok(()) => return,
            Err(why) => failure = why,
        }
    }
    panic!("{what}: {failure}");
}

fn check(probes: &Probes) {
    let cpu = cores(probes).next().unwrap();
    let end = || probes.read_names(cpu, 0, &mut Vec::new()).0;
    eventually("a task that lives for 3 ms", || {
        let from = end();
        let tid = run_on(cpu, "brief", || spin(Duration::from_millis(3)));
        let is_there = |record: &NameRecord| record.pid == tid && text(record) == "brief";
        let (records, _) = names_until(probes, cpu, from, |records| records.iter().any(is_there));
        records.iter().any(is_there).then_some(()).ok_or(format!("{tid} is not in {records:?}"))
    });
    eventually("a task that renames itself", || {
        let from = end();
        let tid = run_on(cpu, "before", || {
            std::thread::sleep(Duration::from_millis(2));
            rename("after");
        });
        let of_it = |records: &[NameRecord]| -> Vec<String> {
            records.iter().filter(|record| record.pid == tid).map(text).collect()
        };
        let (records, _) =
            names_until(probes, cpu, from, |records| of_it(records).last().is_some_and(|last| last == "after"));
        let names = of_it(&records);
        let in_order = names.ends_with(&["before".to_owned(), "after".to_owned()]);
        let times = records.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns);
        (in_order && times).then_some(()).ok_or(format!("{tid} was {names:?}"))
    });
    eventually("a kernel thread", || {
        let from = end();
        let is_worker = |record: &NameRecord| text(record).starts_with("kworker/");
        let wakes = || drop(std::fs::read("/proc/sys/vm/stat_refresh"));
        let (records, _) = names_until(probes, cpu, from, |records| {
            wakes();
            records.iter().any(is_worker)
        });
        records.iter().any(is_worker).then_some(()).ok_or(format!("no worker in {records:?}"))
    });
}

#[test]
fn the_names_of_tasks_are_written_while_they_run_on_typed_tracepoints() {
    const TEST: &str = "the_names_of_tasks_are_written_while_they_run_on_typed_tracepoints";
    if let Some(probes) = attach(TEST, Flavour::Btf) {
        check(&probes);
    }
}

#[test]
fn the_names_of_tasks_are_written_while_they_run_on_plain_tracepoints() {
    const TEST: &str = "the_names_of_tasks_are_written_while_they_run_on_plain_tracepoints";
    if let Some(probes) = attach(TEST, Flavour::Plain) {
        check(&probes);
    }
}

#[test]
fn the_names_of_tasks_that_were_overwritten_are_counted() {
    const TEST: &str = "the_names_of_tasks_that_were_overwritten_are_counted";
    let Some(probes) = attach(TEST, Flavour::Btf) else { return };
    let cpu = cores(&probes).next().unwrap();
    let from = probes.read_names(cpu, 0, &mut Vec::new()).0;
    run_on(cpu, "many", || {
        for number in 0..NAME_RECORDS * 5 / 4 {
            rename(&format!("many-{number}"));
            std::thread::sleep(Duration::from_micros(50));
        }
    });
    let mut records = Vec::new();
    let (next, lost) = probes.read_names(cpu, from, &mut records);
    assert_eq!(next - from, lost + records.len() as u64, "each is read or counted as lost");
    assert!(lost >= NAME_RECORDS as u64 / 8, "{lost} of {} were lost", next - from);
    assert!(records.len() < NAME_RECORDS, "the oldest may be half overwritten");
}
