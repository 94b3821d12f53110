//! Raisers on the running kernel: stacks of programs without frame pointers, and what is left of the join where the
//! kernel tells less.
#![allow(clippy::unwrap_used)]

use super::live::{self, WATCHED};
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use surefoot_hostfs::Root;
use surefoot_model::{CauseKind, Certainty, Raiser};
use surefoot_probes::layout::Turn;
use surefoot_probes::{CallEvidence, Mark, MarkKind, Options, Probes, Raised, RaiserOptions, Raisers};
use surefoot_stall::Traced;
use surefoot_stall::who::calls::CallJoiner;
use surefoot_stall::who::joiner::{Arrival, Joiner};
use surefoot_stall::who::{self, LOOK_EVERY, Watch, WhoConfig};
use surefoot_testkit::not_run::not_run;

/// How often a busy machine is asked again where it raised too few.
const TRIES: usize = 4;

fn program(test: &str, folder: &Path) -> Option<PathBuf> {
    let flags = ["-fomit-frame-pointer", "-fasynchronous-unwind-tables"];
    live::program(test, folder, "deep", "deep.c", &flags)
}

fn start(program: &Path, words: &[&str]) -> Child {
    Command::new(program).args(words).spawn().unwrap()
}

/// Watches while the program runs: who raised of its threads, and what is missing. `None` where eBPF is not to be had.
fn watch(
    test: &str,
    program: &Path,
    words: &[&str],
    prepare: impl FnOnce(&Path),
) -> Option<(Vec<Raiser>, Vec<String>)> {
    super::names::by_this_program();
    let config = live::config();
    let (stop, mut pid, mut stays) = (AtomicBool::new(false), 0, None);
    let found = std::thread::scope(|scope| {
        let found = who::run(&Root::host(), &config, Duration::from_secs(60), &stop, || {
            let mut command = Command::new(program);
            command.args(words).arg("stay").stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            (pid, stays) = (child.id(), child.stdin.take());
            prepare(program);
            let stop = &stop;
            scope.spawn(move || {
                let mut line = String::new();
                let read = BufReader::new(child.stdout.take().unwrap()).read_line(&mut line);
                stop.store(true, Ordering::Relaxed);
                assert!(child.wait().unwrap().success() && read.unwrap() > 0);
            });
        });
        // Names of its functions are read while it lives: on a machine that is busy elsewhere, late.
        drop(stays);
        found
    });
    let report = live::reported(test, found)?;
    let raisers = report.interrupts.into_iter().flat_map(|interrupt| interrupt.raisers);
    Some((raisers.filter(|raiser| raiser.pid == pid).collect(), report.missing))
}

/// How many interrupts of this system call were raised, and how many with all the program's functions in the stack.
fn with_whole_stack(raisers: &[Raiser]) -> (u64, u64) {
    let unmapped = || raisers.iter().filter(|raiser| raiser.syscall == "munmap");
    let count_of = |raisers: &mut dyn Iterator<Item = &Raiser>| raisers.map(|raiser| raiser.count).sum();
    (count_of(&mut unmapped()), count_of(&mut unmapped().filter(|raiser| is_whole(raiser))))
}

/// Whether all the program's functions are in the stack.
fn is_whole(raiser: &Raiser) -> bool {
    const FUNCTIONS: [&str; 5] = ["deep_fourth", "deep_third", "deep_second", "deep_first", "raise_them"];
    // In their order, other frames between them allowed.
    let mut frames = raiser.user_stack.iter();
    FUNCTIONS.iter().all(|function| frames.any(|frame| frame == function))
}

#[test]
fn a_program_without_frame_pointers_has_its_whole_stack() {
    const TEST: &str = "a_program_without_frame_pointers_has_its_whole_stack";
    let _turn = live::turn();
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(TEST, folder.path()) else { return };
    let watched = || watch(TEST, &program, &["300", "2000", "2"], |_| {});
    let Some((mut raisers, mut missing)) = watched() else { return };
    // While something else runs on the watched core there is nothing to flush, so a busy machine raises fewer and is asked again.
    for _ in 0..TRIES {
        if with_whole_stack(&raisers).0 < 20 {
            (raisers, missing) = watched().unwrap();
        }
    }
    let (all, whole) = with_whole_stack(&raisers);
    println!("{whole} of {all} have the whole stack");
    assert!(all >= 20, "{all} seen of 600");
    let cut: Vec<&Raiser> = raisers.iter().filter(|raiser| !is_whole(raiser)).collect();
    assert!(whole * 100 >= all * 95, "{whole} of {all}; {missing:#?}; {cut:#?}");
}

#[test]
fn a_deleted_program_without_frame_pointers_is_unwound_all_the_same() {
    const TEST: &str = "a_deleted_program_without_frame_pointers_is_unwound_all_the_same";
    let _turn = live::turn();
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(TEST, folder.path()) else { return };
    let delete = |program: &Path| std::fs::remove_file(program).unwrap();
    let watched = || {
        let copy = folder.path().join("copy");
        std::fs::copy(&program, &copy).unwrap();
        watch(TEST, &copy, &["300", "2000", "1"], delete)
    };
    let Some((mut raisers, _)) = watched() else { return };
    for _ in 0..TRIES {
        if with_whole_stack(&raisers).0 < 10 {
            raisers = watched().unwrap().0;
        }
    }
    let unmapped: Vec<&Raiser> = raisers.iter().filter(|raiser| raiser.syscall == "munmap").collect();
    let all: u64 = unmapped.iter().map(|raiser| raiser.count).sum();
    // The wrapper, four functions, the thread's own and what starts threads.
    let deep: u64 = unmapped.iter().filter(|raiser| raiser.user_stack.len() >= 7).map(|raiser| raiser.count).sum();
    assert!(all >= 10 && deep * 100 >= all * 95, "{deep} of {all}: {unmapped:#?}");
}

/// A call that ran on the watched core, by exact evidence.
struct Truth {
    ran_ns: u64,
    raised: Raised,
}

/// A fall-back beside the exact join.
struct Other {
    raisers: Raisers,
    joiner: CallJoiner,
    next_mark: u64,
    arrivals: Vec<Arrival>,
}

impl Other {
    fn attach(probes: &Probes, hidden: &[&str], wanted: CallEvidence) -> Self {
        let raisers = Raisers::attach(probes, &options(hidden)).unwrap();
        assert_eq!(raisers.calls(), wanted);
        assert!(raisers.missing().iter().any(|word| word.contains("probable")), "{:?}", raisers.missing());
        let next_mark = raisers.marks_end(WATCHED);
        let _ = raisers.take();
        Other { joiner: CallJoiner::new(wanted), raisers, next_mark, arrivals: Vec::new() }
    }

    /// As the watch does: marks and turns were read before the records.
    fn look(&mut self, turns: &[Turn]) {
        let mut marks = Vec::new();
        self.next_mark = self.raisers.read_marks(WATCHED, self.next_mark, &mut marks).0;
        for raised in self.raisers.take() {
            self.joiner.raised(raised);
        }
        self.arrivals.extend(turns.iter().flat_map(|turn| self.joiner.turn(WATCHED, turn)));
        for mark in marks.iter().filter(|mark| mark.kind == MarkKind::Flush) {
            self.arrivals.extend(self.joiner.flushed(WATCHED, mark));
        }
        self.arrivals.extend(self.joiner.settle(WATCHED));
    }

    /// Of the truths that may be compared: how many have the same raiser here, none, another.
    fn compare<'a>(&self, truths: impl Iterator<Item = &'a Truth>) -> (usize, usize, usize) {
        let mut by_time: Vec<(u64, Vec<&Raised>)> = Vec::new();
        let mut positions: HashMap<u64, usize> = HashMap::new();
        for arrival in &self.arrivals {
            let Arrival::Call { at_ns, raiser, .. } = arrival else { panic!("{arrival:?}") };
            let position = *positions.entry(*at_ns).or_insert_with(|| {
                by_time.push((*at_ns, Vec::new()));
                by_time.len() - 1
            });
            by_time[position].1.extend(raiser);
        }
        by_time.sort_by_key(|(at_ns, _)| *at_ns);
        let (mut same, mut none, mut other) = (0, 0, 0);
        for truth in truths {
            let place = by_time.partition_point(|(at_ns, _)| *at_ns <= truth.ran_ns);
            let raisers = place.checked_sub(1).map_or(&[][..], |place| &by_time[place].1);
            let is_it =
                |raised: &&Raised| raised.tid == truth.raised.tid && raised.system_call == truth.raised.system_call;
            if raisers.iter().any(is_it) {
                same += 1;
            } else if raisers.is_empty() {
                none += 1;
            } else {
                other += 1;
            }
        }
        (same, none, other)
    }
}

fn options(hidden: &[&str]) -> RaiserOptions {
    RaiserOptions {
        cpus: vec![WATCHED],
        stacks_per_s: 0,
        hidden_tracepoints: hidden.iter().map(|&name| name.to_owned()).collect(),
        ..RaiserOptions::default()
    }
}

#[test]
fn kernels_that_tell_less_agree_with_the_exact_join() {
    const TEST: &str = "kernels_that_tell_less_agree_with_the_exact_join";
    let _turn = live::turn();
    const CSD: [&str; 2] = ["csd_queue_cpu", "csd_function_entry"];
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(TEST, folder.path()) else { return };
    let probes = match Probes::attach(&Options::default()) {
        Ok(probes) => probes,
        Err(surefoot_probes::Error::Unsupported { why, .. }) => return not_run(TEST, &why),
        Err(error) => panic!("{error}"),
    };
    let exact = Raisers::attach(&probes, &options(&[])).unwrap();
    if exact.calls() != CallEvidence::Exact {
        return not_run(TEST, "this kernel tells less itself");
    }
    let mut sent = Other::attach(&probes, &CSD, CallEvidence::Sent);
    let mut flushes =
        Other::attach(&probes, &[&CSD[..], &["ipi_send_cpu", "ipi_send_cpumask"]].concat(), CallEvidence::Flushes);
    let (mut joiner, mut truths) = (Joiner::new(exact.calls()), Vec::new());
    let (mut next_mark, mut next_turn) = (exact.marks_end(WATCHED), probes.tape_end(WATCHED));
    let _ = exact.take();
    let raising = || start(&program, &["800", "300", "3"]);
    let mut child = raising();
    let (mut pids, mut has_ended) = (vec![child.id()], false);
    let mut flush_function = None;
    while !has_ended {
        has_ended = child.try_wait().unwrap().is_some();
        if has_ended && truths.len() < 50 && pids.len() <= TRIES {
            assert!(child.wait().unwrap().success());
            (child, has_ended) = (raising(), false);
            pids.push(child.id());
        }
        std::thread::sleep(Duration::from_millis(5));
        let (mut marks, mut turns): (Vec<Mark>, Vec<Turn>) = Default::default();
        next_mark = exact.read_marks(WATCHED, next_mark, &mut marks).0;
        next_turn = probes.read_tape(WATCHED, next_turn, &mut turns).0;
        for raised in exact.take() {
            joiner.raised(raised);
        }
        for mark in &marks {
            if let Some(Arrival::Function { raiser: Some(raised), .. }) = joiner.mark(WATCHED, mark)
                && pids.contains(&raised.pid)
            {
                if raised.system_call == Some(11) {
                    flush_function = Some(raised.function);
                }
                truths.push(Truth { ran_ns: mark.at_ns, raised });
            }
        }
        sent.look(&turns);
        flushes.look(&turns);
    }
    assert!(child.wait().unwrap().success());
    assert!(truths.len() >= 50, "{} calls ran", truths.len());
    let (same, none, other) = sent.compare(truths.iter());
    println!("sent interrupts: {same} of {} agree, {none} have no raiser, {other} another", truths.len());
    assert!(same * 100 >= truths.len() * 95 && other * 100 <= truths.len() * 2);
    assert_eq!(sent.raisers.counts().dropped, 0);

    let flushed = || truths.iter().filter(|truth| Some(truth.raised.function) == flush_function);
    let (same, none, other) = flushes.compare(flushed());
    println!("shootdowns: {same} of {} agree, {none} have no raiser, {other} another", flushed().count());
    // A flush that finds another process on the core leaves no word there, which is frequent on a busy machine.
    assert!(same * 100 >= flushed().count() * 60 && other * 100 <= flushed().count() * 5);
    let shootdowns_only = flushes.arrivals.iter().all(
        |arrival| matches!(arrival, Arrival::Call { raiser, is_shootdown, .. } if raiser.is_none() || *is_shootdown),
    );
    assert!(shootdowns_only, "nothing else has a raiser there");
}

#[test]
fn without_the_calls_themselves_the_report_still_names_who_probably_sent_them() {
    const TEST: &str = "without_the_calls_themselves_the_report_still_names_who_probably_sent_them";
    let _turn = live::turn();
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(TEST, folder.path()) else { return };
    let probes = match Probes::attach(&Options::default()) {
        Ok(probes) => probes,
        Err(surefoot_probes::Error::Unsupported { why, .. }) => return not_run(TEST, &why),
        Err(error) => panic!("{error}"),
    };
    let mut traced = Traced::new(&Root::host(), probes, &[WATCHED]);
    let config = WhoConfig { cpus: vec![WATCHED], stacks_per_s: 0, ..WhoConfig::default() };
    let csd = ["csd_queue_cpu".to_owned(), "csd_function_entry".to_owned()];
    for more in [&[][..], &["ipi_send_cpu".to_owned(), "ipi_send_cpumask".to_owned()]] {
        let hidden = [&csd[..], more].concat();
        let mut watch = Watch::attach_without(&Root::host(), &mut traced, &config, hidden).unwrap();
        watch.start(&mut traced);
        let mut pids = Vec::new();
        for _ in 0..=TRIES {
            let mut child = start(&program, &["600", "300", "2"]);
            pids.push(child.id());
            while child.try_wait().unwrap().is_none() {
                std::thread::sleep(LOOK_EVERY);
                watch.look(&mut traced);
            }
            assert!(child.wait().unwrap().success());
            let so_far =
                watch.report_so_far(&mut traced).interrupts.into_iter().flat_map(|interrupt| interrupt.raisers);
            let unmapped = so_far.filter(|raiser| pids.contains(&raiser.pid) && raiser.syscall == "munmap");
            if unmapped.map(|raiser| raiser.count).sum::<u64>() >= 20 {
                break;
            }
        }
        let report = watch.finish(&mut traced);
        assert_eq!(report.joined_count, 0, "nothing is joined exactly");
        assert!(report.missing.iter().any(|word| word.contains("probable")), "{:?}", report.missing);
        let calls = report.interrupts.iter().filter(|interrupt| interrupt.cause.kind == CauseKind::CallFunction);
        let raisers: Vec<&Raiser> =
            calls.flat_map(|interrupt| &interrupt.raisers).filter(|raiser| pids.contains(&raiser.pid)).collect();
        let of = |call: &str| raisers.iter().filter(|raiser| raiser.syscall == call).map(|raiser| raiser.count).sum();
        let (unmapped, ordered): (u64, u64) = (of("munmap"), of("membarrier"));
        assert!(unmapped >= 20, "{unmapped} by munmap: {raisers:#?}");
        assert_eq!(ordered > 0, more.is_empty(), "{ordered} by membarrier, which flushes nothing");
        assert!(raisers.iter().all(|raiser| raiser.certainty == Certainty::Probable));
        let named = |raiser: &&&Raiser| raiser.syscall == "munmap" && raiser.function == "flush_tlb_func";
        assert!(raisers.iter().any(|raiser| named(&raiser)), "{raisers:#?}");
    }
}
