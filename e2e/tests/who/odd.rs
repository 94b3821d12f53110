//! Raisers that are hard to tell of: without symbols, without a file, with a hostile name, or too many of them.

use super::{Who, frames, raisers, sum, watch, watch_as, who};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use surefoot_e2e::actor::{self, ODD, RAISER, STRIPPED_RAISER};
use surefoot_e2e::machine::{Need, turn};
use surefoot_e2e::report::of_type;
use surefoot_testkit::not_run::not_run;

/// What the odd program's name looks like once nothing in it can harm a terminal.
const HARMLESS_NAME: &str = "?[31mev?il?\"\u{fffd}";

/// The raisers of these shootdowns in munmap, of which there must be some.
fn in_munmap<'a>(lines: &'a [Value], truth: &Value) -> Vec<&'a Value> {
    let found = raisers(lines, "tlb_shootdown", truth);
    let found: Vec<&Value> = found.into_iter().filter(|raiser| raiser["syscall"] == "munmap").collect();
    assert!(!found.is_empty(), "no munmap: {:?}", of_type(lines, "interrupt"));
    found
}

/// Whether this frame is an address, or a place in a file, followed by the reason that it has no name.
fn has_reason(frame: &str) -> bool {
    let Some((address, reason)) = frame.split_once(' ') else { return false };
    let address = address.rsplit_once('+').map_or(address, |(_, offset)| offset);
    let is_address = address.strip_prefix("0x").is_some_and(|digits| u64::from_str_radix(digits, 16).is_ok());
    is_address && reason.len() > 5 && reason.starts_with('(') && reason.ends_with(')')
}

#[test]
fn a_stripped_program_is_shown_by_its_places_and_the_reason() {
    const NAME: &str = "a_stripped_program_is_shown_by_its_places_and_the_reason";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    let (lines, truth) = who(&STRIPPED_RAISER, "stdio 300 300 1 0");
    for raiser in in_munmap(&lines, &truth) {
        let frames = frames(raiser, "user_stack");
        assert_eq!((&raiser["comm"], &raiser["certainty"]), (&"stats".into(), &"certain".into()));
        assert!(!frames.iter().any(|frame| frame.contains("close_counter")), "it has symbols: {raiser}");
        // The C library keeps the names that others link to; whoever called it is nameless.
        assert!(frames.len() > 2 && frames.iter().filter(|frame| has_reason(frame)).count() > 1, "{raiser}");
    }
}

#[test]
fn code_made_at_run_time_is_shown_by_its_address_and_the_reason() {
    const NAME: &str = "code_made_at_run_time_is_shown_by_its_address_and_the_reason";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    if !cfg!(target_arch = "x86_64") {
        return not_run(NAME, "the test's machine code is for x86-64");
    }
    let (lines, truth) = who(&ODD, "made 300 300 1 0");
    for raiser in in_munmap(&lines, &truth) {
        let frames = frames(raiser, "user_stack");
        assert!(has_reason(frames[0]), "made code has no name: {raiser}");
        assert_eq!(frames[1], "call_made_code", "{raiser}");
    }
}

/// The file is gone, but the process still has it: either it is read nevertheless, or each frame says why it is not.
#[test]
fn a_program_whose_file_was_deleted_keeps_its_names_or_says_why_not() {
    const NAME: &str = "a_program_whose_file_was_deleted_keeps_its_names_or_says_why_not";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("deleted");
    std::fs::copy(ODD.path(), &file).unwrap();
    let watch = watch("");
    let mut process = actor::start_file(&file, "chains 3 300 1 0");
    std::fs::remove_file(&file).unwrap();
    let truth = process.answer();
    let lines = watch.stop().json();
    for raiser in in_munmap(&lines, &truth) {
        let frames = frames(raiser, "user_stack");
        let own: Vec<&&str> = frames.iter().filter(|frame| ["unmap_pages", "main"].contains(frame)).collect();
        assert!(own.len() == 2 || frames.iter().filter(|frame| has_reason(frame)).count() > 1, "{raiser}");
    }
}

#[test]
fn a_name_with_control_characters_reaches_no_output_as_it_is() {
    const NAME: &str = "a_name_with_control_characters_reaches_no_output_as_it_is";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    let folder = tempfile::tempdir().unwrap();
    let folded = folder.path().join("folded");
    ODD.path();
    for options in ["", "--json"] {
        let watch = watch_as(&format!("{options} --folded {}", folded.display()));
        let mut process = ODD.start("name 300 300 1 0");
        let truth = process.answer();
        let finished = watch.stop();
        let folded = std::fs::read_to_string(&folded).unwrap();
        for text in [&finished.stdout, &finished.stderr, &folded] {
            let control = text.chars().find(|character| character.is_control() && *character != '\n');
            assert_eq!(control, None, "{text}");
        }
        assert!(folded.contains(HARMLESS_NAME), "{folded}");
        if options.is_empty() {
            assert!(finished.stdout.contains(HARMLESS_NAME), "{}", finished.stdout);
        } else {
            let lines = finished.json();
            for raiser in in_munmap(&lines, &truth) {
                assert_eq!(raiser["comm"], HARMLESS_NAME);
                let text = raiser.to_string();
                assert!(!text.contains("\\u00") && !text.contains("\\n"), "escaped, but still in it: {text}");
            }
        }
    }
}

/// A hundred ways through two functions to the same munmap, in the same thread: an identity made of a hash of the
/// stack could mix two of them up, the stack itself cannot.
#[test]
fn a_hundred_chains_of_calls_are_told_apart() {
    const NAME: &str = "a_hundred_chains_of_calls_are_told_apart";
    const TIMES: u64 = 20;
    const CHAINS: u64 = 100;
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    let (lines, truth) = who(&ODD, &format!("chains {TIMES} 200 1 0"));
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for raiser in in_munmap(&lines, &truth) {
        // Outermost first, each function of the chain is a bit of its number, the lowest first.
        let turns: Vec<u64> = frames(raiser, "user_stack")
            .iter()
            .rev()
            .filter_map(|frame| ["go_left", "go_right"].iter().position(|name| name == frame))
            .map(|bit| bit as u64)
            .collect();
        assert_eq!(turns.len(), 7, "{raiser}");
        let number = turns.iter().rev().fold(0, |number, bit| number << 1 | bit);
        *counts.entry(number).or_default() += sum(&[raiser]);
    }
    assert!(counts.keys().all(|number| *number < CHAINS), "chains that nobody went: {counts:?}");
    assert!(counts.values().all(|count| *count <= TIMES), "more often than it was gone: {counts:?}");
    assert!(counts.len() as u64 * 100 >= CHAINS * 95, "{} of {CHAINS}: {counts:?}", counts.len());
}

/// What watching may take more. A raiser with both stacks takes some 4 KiB, and 10,000 of them, the most that are kept,
/// some 40 MiB; the symbols of whatever else raises something meanwhile, a compiler for instance, take more than that.
const GROWN_KIB_MAX: u64 = 256 * 1024;

/// The most memory that the watching process ever had, KiB.
fn peak_memory_kib(who: &Who) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", who.running.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn thousands_of_threads_that_raise_once_each_take_little_memory() {
    const NAME: &str = "thousands_of_threads_that_raise_once_each_take_little_memory";
    const TIMES: u64 = 2_000;
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    ODD.path();
    let watch = watch("");
    let before_kib = peak_memory_kib(&watch);
    let mut process = ODD.start(&format!("many {TIMES} 100 1 0"));
    let truth = process.answer();
    let grown_kib = peak_memory_kib(&watch) - before_kib;
    let lines = watch.stop().json();
    let found = in_munmap(&lines, &truth);
    let tids: BTreeSet<u64> = found.iter().map(|raiser| raiser["tid"].as_u64().unwrap()).collect();
    assert!(tids.len() as u64 > TIMES / 20 && sum(&found) <= TIMES, "{} threads of {TIMES}", tids.len());
    assert!(found.iter().all(|raiser| raiser["comm"] == "brief" || raiser["tid"] == truth["pid"]), "{found:?}");
    assert!(grown_kib < GROWN_KIB_MAX, "{grown_kib} KiB more for {} raisers", found.len());
}

/// Each process has files of its own to look into, and nobody tells when it ends.
#[test]
fn hundreds_of_processes_that_come_and_go_take_little_memory() {
    const NAME: &str = "hundreds_of_processes_that_come_and_go_take_little_memory";
    const TIMES: u64 = 300;
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    RAISER.path();
    let watch = watch("");
    let before_kib = peak_memory_kib(&watch);
    RAISER.start(&format!("exit {TIMES} 0 1 0")).answer();
    let grown_kib = peak_memory_kib(&watch) - before_kib;
    // The file is the same for all of them, so it must not be mapped or open once for each.
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", watch.running.pid())).unwrap();
    let file = RAISER.path().to_str().unwrap();
    let mapped = maps.lines().filter(|line| line.ends_with(file)).count();
    let open = std::fs::read_dir(format!("/proc/{}/fd", watch.running.pid())).unwrap();
    let open =
        open.filter(|entry| std::fs::read_link(entry.as_ref().unwrap().path()).is_ok_and(|to| to == RAISER.path()));
    let open = open.count();
    assert!(mapped < 10 && open < 10, "mapped {mapped} times, open {open} times after {TIMES} processes");
    watch.stop();
    assert!(grown_kib < GROWN_KIB_MAX, "{grown_kib} KiB more for {TIMES} processes");
}
