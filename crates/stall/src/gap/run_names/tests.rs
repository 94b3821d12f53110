#![allow(clippy::unwrap_used)]

use super::*;
use crate::gap::judge::Judge;
use crate::gap::pending::found;
use crate::gap::tapes::Traced;
use crate::gap::witness::tests::witness;
use std::ffi::CString;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use surefoot_hostfs::{Root, clock};
use surefoot_model::{CauseKind, GapSource};
use surefoot_sys::thread;
use surefoot_testkit::not_run::not_run;

fn record(at_ns: u64, pid: u32, name: &str) -> NameRecord {
    let mut record = NameRecord::default();
    (record.at_ns, record.pid) = (at_ns, pid);
    record.comm[..name.len()].copy_from_slice(name.as_bytes());
    record
}

fn known(name: &str) -> RunName {
    RunName::Known(name.into())
}

#[test]
fn the_name_of_a_run_is_the_newest_up_to_its_end() {
    let mut names = RunNames::default();
    names.take(&[record(100, 7, "sh"), record(150, 9, "other"), record(200, 7, "sleep")], 0);
    assert_eq!(names.name(7, 99), RunName::Lost, "it ran before what is known");
    assert_eq!(names.name(7, 199), known("sh"));
    assert_eq!(names.name(7, 200), known("sleep"), "written as it left");
    names.take(&[record(300, 7, "make")], 0);
    assert_eq!(names.name(7, 299), known("sleep"), "its number was given again only later");
    assert_eq!(names.name(7, 5_000), known("make"));
    assert_eq!(names.name(8, 5_000), RunName::Unseen);
}

#[test]
fn after_a_loss_no_older_name_is_believed() {
    let mut names = RunNames::default();
    names.take(&[record(100, 7, "sh"), record(110, 9, "other")], 0);
    names.take(&[record(400, 7, "make")], 3);
    assert_eq!(names.lost(), 3);
    assert_eq!(names.name(7, 200), RunName::Lost, "one of the three may have said 'sleep'");
    assert_eq!(names.name(9, 500), RunName::Unseen);
    assert_eq!(names.name(7, 500), known("make"));
}

#[test]
fn what_is_kept_has_a_limit_and_a_name_that_holds_still_is_kept() {
    let mut names = RunNames::default();
    names.take(&[record(1, 7, "old"), record(2, 8, "gone")], 0);
    for number in 0..2 * KEPT_RECORDS as u64 {
        let pid = if number % 1000 == 0 { 7 } else { 100_000 + number as u32 };
        let name = if pid == 7 { "again" } else { "short" };
        names.take(&[record(10 + number, pid, name)], 0);
        assert!(names.count <= KEPT_RECORDS);
    }
    assert_eq!(names.count, names.of_tasks.values().map(Vec::len).sum::<usize>());
    assert_eq!(names.name(8, 100_000), RunName::Unseen, "who asks looks it up");
    assert_eq!(names.name(7, 100_000), known("again"));
    assert_eq!(names.name(7, 5), RunName::Lost);
}

/// The first core, which no other test takes offline, and what it traces from now on.
fn traced(test: &str) -> Option<(CpuId, Traced)> {
    let probes = match Probes::attach(&surefoot_probes::Options::default()) {
        Ok(probes) => probes,
        Err(error) => {
            not_run(test, &error.to_string());
            return None;
        }
    };
    let root = Root::host();
    let cpu = surefoot_hostfs::cpus::online(&root).unwrap()[0];
    let mut traced = Traced::new(&root, probes, &[cpu]);
    traced.tapes.keep(&[cpu], 1 << 17);
    Some((cpu, traced))
}

fn spin(duration: Duration) {
    let start = Instant::now();
    while start.elapsed() < duration {
        std::hint::spin_loop();
    }
}

fn rename(name: &str) {
    thread::set_name(&CString::new(name).unwrap());
}

/// The names of the tasks that took the core from a thread that loops there, while `disturb` runs and some time after.
fn preempted_by(cpu: CpuId, traced: &mut Traced, judge: &mut Judge, disturb: impl FnOnce() + Send) -> Vec<String> {
    let done = AtomicBool::new(false);
    let gap = std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        let done = &done;
        scope.spawn(move || {
            thread::pin_to(cpu).unwrap();
            tell.send(thread::current_tid()).unwrap();
            while !done.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let own = told.recv().unwrap();
        let start_ns = clock::monotonic_ns();
        let disturber = scope.spawn(disturb);
        while !disturber.is_finished() {
            std::thread::sleep(Duration::from_millis(10));
            traced.tapes.read(&traced.probes, &[cpu]);
        }
        // Until it has left its core, and its number is free.
        std::thread::sleep(Duration::from_millis(20));
        traced.tapes.read(&traced.probes, &[cpu]);
        let end_ns = clock::monotonic_ns();
        done.store(true, Ordering::Relaxed);
        judge.judge(Some(traced), &found(GapSource::Probe, cpu, start_ns, end_ns, Some(own)))
    });
    gap.causes.into_iter().filter(|part| part.cause.kind == CauseKind::Preemption).map(|part| part.cause.name).collect()
}

/// A kernel can skip the program at a switch now and then, so it is tried a few times.
fn eventually(mut attempt: impl FnMut() -> Vec<String>, wanted: &[&str]) {
    let mut found = Vec::new();
    for _ in 0..5 {
        found = attempt();
        if wanted.iter().all(|name| found.iter().any(|other| other == name)) {
            return;
        }
    }
    panic!("{wanted:?} are not all among {found:?}");
}

#[test]
fn a_task_that_lived_for_three_milliseconds_is_named_by_the_gap_that_it_made() {
    const TEST: &str = "a_task_that_lived_for_three_milliseconds_is_named_by_the_gap_that_it_made";
    let Some((cpu, mut traced)) = traced(TEST) else { return };
    let mut judge = Judge::new(witness(false, &[(0, 0, None, 0, 0)]), false);
    let brief = || {
        thread::pin_to(cpu).unwrap();
        rename("brief");
        spin(Duration::from_millis(3));
    };
    eventually(|| preempted_by(cpu, &mut traced, &mut judge, brief), &["brief"]);
}

#[test]
fn a_task_that_renamed_itself_between_two_runs_has_the_name_of_each() {
    const TEST: &str = "a_task_that_renamed_itself_between_two_runs_has_the_name_of_each";
    let Some((cpu, mut traced)) = traced(TEST) else { return };
    let mut judge = Judge::new(witness(false, &[(0, 0, None, 0, 0)]), false);
    let renamed = || {
        thread::pin_to(cpu).unwrap();
        for name in ["early", "middle", "late"] {
            rename(name);
            spin(Duration::from_millis(3));
            std::thread::sleep(Duration::from_millis(3));
        }
        rename("last");
        spin(Duration::from_millis(3));
    };
    eventually(|| preempted_by(cpu, &mut traced, &mut judge, renamed), &["early", "middle", "late", "last"]);
}

/// Starts a program that ends at once, under a name; returns its number.
fn ended(folder: &std::path::Path, name: &str) -> u32 {
    let mut child = Command::new(folder.join(name)).args(["-c", ":"]).spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    pid
}

#[test]
fn programs_that_had_one_number_after_the_other_have_their_own_names() {
    const TEST: &str = "programs_that_had_one_number_after_the_other_have_their_own_names";
    const NAMES: [&str; 4] = ["one", "two", "three", "four"];
    let Some((cpu, mut traced)) = traced(TEST) else { return };
    let folder = tempfile::tempdir().unwrap();
    NAMES.iter().for_each(|name| symlink("/bin/sh", folder.path().join(name)).unwrap());
    let spans = std::thread::scope(|scope| {
        let run = || {
            thread::pin_to(cpu).unwrap();
            rename("starter");
            let mut spans = Vec::new();
            let mut pid = None;
            for name in NAMES {
                // Others start programs, too, and may be given the number before this one is.
                let span = (0..200).find_map(|_| {
                    if let Some(pid) = pid {
                        std::fs::write("/proc/sys/kernel/ns_last_pid", format!("{}", pid - 1)).ok()?;
                    }
                    let start_ns = clock::monotonic_ns();
                    let is = ended(folder.path(), name);
                    (*pid.get_or_insert(is) == is).then(|| (start_ns, clock::monotonic_ns()))
                });
                spans.push((name, span?));
            }
            Some((pid?, spans))
        };
        let starter = scope.spawn(run);
        while !starter.is_finished() {
            std::thread::sleep(Duration::from_millis(10));
            traced.tapes.read(&traced.probes, &[cpu]);
        }
        traced.tapes.read(&traced.probes, &[cpu]);
        starter.join().unwrap()
    });
    let Some((pid, spans)) = spans else {
        return not_run(TEST, "no number could be given twice (/proc/sys/kernel/ns_last_pid)");
    };
    let mut seen = Vec::new();
    for (name, (start_ns, end_ns)) in &spans {
        let turns = traced.tapes.around(cpu, *start_ns, *end_ns).to_vec();
        let of_it = turns.iter().filter(|turn| turn.pid == pid && turn.depth == 0 && turn.at_ns >= *start_ns);
        let names: Vec<String> = of_it.map(|turn| traced.tapes.cause(&traced.probes, cpu, turn).name).collect();
        // Before it calls exec it has the name of who started it.
        assert!(names.iter().all(|is| is == name || is == "starter"), "{name}: {names:?} of {pid}");
        seen.extend(names.iter().any(|is| is == name).then_some(*name));
    }
    // The kernel can skip the program at a switch now and then.
    assert!(seen.len() >= NAMES.len() - 1, "{seen:?} of {NAMES:?}");
}

#[test]
fn names_that_were_overwritten_are_counted_and_older_ones_believed_no_more() {
    const TEST: &str = "names_that_were_overwritten_are_counted_and_older_ones_believed_no_more";
    let Some((cpu, mut traced)) = traced(TEST) else { return };
    let on_core = |what: &(dyn Fn() + Sync)| {
        std::thread::scope(|scope| {
            let run = || {
                thread::pin_to(cpu).unwrap();
                what();
                thread::current_tid()
            };
            scope.spawn(run).join().unwrap()
        })
    };
    let known = on_core(&|| {
        rename("known");
        spin(Duration::from_millis(3));
    });
    // The thread is joined before it has left its core, where its name is written.
    let (begun, mut now_ns) = (Instant::now(), 0);
    let mut name = None;
    while name.is_none() && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
        traced.tapes.read(&traced.probes, &[cpu]);
        now_ns = clock::monotonic_ns();
        name = traced.tapes.written_name(cpu, known, now_ns);
    }
    assert_eq!(name.as_deref(), Some("known"));
    assert_eq!(traced.tapes.lost_names(&[cpu]), 0);
    on_core(&|| {
        for number in 0..surefoot_probes::layout::NAME_RECORDS * 5 / 4 {
            rename(&format!("many-{number}"));
            std::thread::sleep(Duration::from_micros(50));
        }
    });
    traced.tapes.read(&traced.probes, &[cpu]);
    assert!(traced.tapes.lost_names(&[cpu]) > 0);
    assert_eq!(traced.tapes.written_name(cpu, known, now_ns), None);
}
