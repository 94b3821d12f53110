//! Counts that outlive the process, and the file that keeps them.

use super::tree::{MC, controller, dimm, fixture};
use std::time::{Duration, Instant};
use surefoot_hostfs::Root;
use surefoot_memory::counts::{Kept, TEXT_BYTES_MAX};
use surefoot_memory::look::Looker;
use surefoot_model::{Fidelity, MemoryLook};
use surefoot_testkit::HostTree;

/// One run of a process: what the one before kept, a look, and what is kept now.
fn run(tree: &HostTree) -> MemoryLook {
    let state = tree.path().join("state");
    let kept = std::fs::read(&state).map_or_else(|_| Kept::default(), |text| Kept::from_text(&text).unwrap());
    let mut looker = Looker::new(Root::at(tree.path())).with_kept(kept);
    let look = looker.look();
    std::fs::write(&state, looker.kept().to_text().unwrap()).unwrap();
    look
}

fn clock(tree: HostTree, uptime_s: u32, reset_s: u32, boot: &str) -> HostTree {
    tree.file("proc/uptime", format!("{uptime_s}.00 1.00\n"))
        .file("proc/sys/kernel/random/boot_id", format!("{boot}0000000-0000-0000-0000-000000000000\n"))
        .file(format!("{MC}/mc0/seconds_since_reset"), format!("{reset_s}\n"))
}

#[test]
fn counts_go_on_over_growth_wrap_reset_and_reboot() {
    let now =
        |tree, errors: u64, uptime_s, reset_s, boot| clock(controller(tree, 0, &[errors]), uptime_s, reset_s, boot);
    let of = |look: &MemoryLook| (dimm(look, "mc0/dimm0").corrected_count, dimm(look, "mc0/dimm0").fidelity);
    let tree = now(HostTree::new(), 100, 1_000, 900, "a");
    assert_eq!(of(&run(&tree)), (100, Fidelity::Exact));
    let tree = now(tree, 4_294_967_290, 2_000, 1_900, "a");
    assert_eq!(of(&run(&tree)), (4_294_967_290, Fidelity::Exact));
    let tree = now(tree, 4, 3_000, 2_900, "a");
    let wrapped = run(&tree);
    assert_eq!(of(&wrapped), (4_294_967_300, Fidelity::Exact));
    assert!(wrapped.problems.iter().any(|problem| problem.why.contains("2^32")), "{:?}", wrapped.problems);
    let tree = now(tree, 50, 4_000, 10, "a");
    let reset = run(&tree);
    assert_eq!(of(&reset), (4_294_967_350, Fidelity::LowerBound));
    // Once, though two counters of the module were cleared.
    let told = reset.problems.iter().filter(|problem| problem.why.contains("reset_counters")).count();
    assert_eq!(told, 1, "{:?}", reset.problems);
    let tree = now(tree, 8, 100, 90, "b");
    assert_eq!(of(&run(&tree)), (4_294_967_358, Fidelity::LowerBound));
    let tree = now(tree, 3, 200, 190, "b");
    let back = run(&tree);
    assert_eq!(of(&back), (4_294_967_358, Fidelity::LowerBound));
    assert!(back.problems.iter().any(|problem| problem.why.contains("it decreased")), "{:?}", back.problems);
}

#[test]
fn the_rate_is_that_of_the_time_between_two_looks() {
    let tree = clock(controller(HostTree::new(), 0, &[100]), 1_000, 900, "a");
    run(&tree);
    let tree = clock(controller(tree, 0, &[1_300]), 1_060, 960, "a");
    let look = run(&tree);
    let bad = dimm(&look, "mc0/dimm0");
    assert_eq!((bad.rate_per_s, bad.rate_window_s, bad.worst_rate_per_s), (20.0, 60.0, 20.0));
    assert!(bad.is_over_rate, "20 errors a second for a minute");
    let tree = clock(tree, 1_120, 1_020, "a");
    let look = run(&tree);
    let bad = dimm(&look, "mc0/dimm0");
    assert_eq!((bad.rate_per_s, bad.worst_rate_per_s, bad.is_over_rate), (0.0, 20.0, false));
}

/// A recorded tree in which somebody counts on: its clock stands still, and the errors have a rate all the same.
#[test]
fn where_the_clock_of_the_host_stands_still_the_rate_is_by_the_readers() {
    let tree = controller(clock(HostTree::new(), 5_000, 1_000, "a"), 0, &[0]);
    let mut looker = Looker::new(Root::at(tree.path()));
    let begun = Instant::now();
    looker.look();
    std::thread::sleep(Duration::from_millis(1_100));
    let tree = controller(tree, 0, &[3_000]);
    let look = looker.look();
    let longest_s = begun.elapsed().as_secs_f64();
    let module = dimm(&look, "mc0/dimm0");
    assert!(module.rate_per_s >= 3_000.0 / longest_s && module.rate_per_s <= 3_000.0 / 1.1, "{module:?}");
    assert_eq!(module.corrected_count, 3_000);
    drop(tree);
}

#[test]
fn a_module_in_another_slot_takes_its_counts_along() {
    let tree = fixture("intel-icelake-16dimm");
    assert_eq!(dimm(&run(&tree), "03A10004").corrected_count, 48_211);
    // The host is opened: DIMM_A1 and DIMM_C1 are exchanged in the tables of firmware, and it is booted anew.
    let tables = std::fs::read(tree.path().join("sys/firmware/dmi/tables/DMI")).unwrap();
    let exchanged = exchange(&tables, b"03A10000", b"03A10004");
    let tree = tree
        .file("sys/firmware/dmi/tables/DMI", exchanged)
        .file("proc/sys/kernel/random/boot_id", "b0000000-0000-0000-0000-000000000000\n")
        .file("proc/uptime", "50.00 1.00\n")
        .file(format!("{MC}/mc1/seconds_since_reset"), "40\n")
        .file(format!("{MC}/mc0/seconds_since_reset"), "40\n")
        .file(format!("{MC}/mc1/dimm0/dimm_ce_count"), "0\n")
        .file(format!("{MC}/mc0/dimm0/dimm_ce_count"), "12\n");
    let look = run(&tree);
    let moved = dimm(&look, "03A10004");
    assert_eq!((moved.label.as_str(), moved.moved_from.as_deref()), ("DIMM_A1", Some("DIMM_C1")));
    assert_eq!((moved.corrected_count, moved.fidelity), (48_223, Fidelity::LowerBound));
    assert_eq!(dimm(&look, "03A10000").corrected_count, 0);
}

/// Registering labels is what the doctor asks for; the module is where it was, by whatever name it was known.
#[test]
fn a_slot_whose_label_was_registered_moves_no_module() {
    let unknown = clock(controller(HostTree::new(), 0, &[5]), 100, 90, "a");
    for (tree, place) in [(fixture("intel-icelake-16dimm"), "mc2/dimm2"), (unknown, "mc0/dimm0")] {
        let count = dimm(&run(&tree), place).corrected_count;
        let named = tree.file(format!("{MC}/{place}/dimm_label"), "DIMM_F1\n");
        for _ in 0..2 {
            let look = run(&named);
            let renamed = look.dimms.iter().find(|dimm| dimm.label == "DIMM_F1").unwrap();
            assert_eq!((renamed.corrected_count, &renamed.moved_from), (count, &None), "{renamed:?}");
        }
    }
}

fn exchange(bytes: &[u8], one: &[u8], other: &[u8]) -> Vec<u8> {
    let at = |text: &[u8]| bytes.windows(text.len()).position(|found| found == text).unwrap();
    let (first, second) = (at(one), at(other));
    let mut exchanged = bytes.to_vec();
    exchanged[first..first + one.len()].copy_from_slice(other);
    exchanged[second..second + other.len()].copy_from_slice(one);
    exchanged
}

#[test]
fn a_text_that_was_not_written_so_is_not_believed() {
    let tree = controller(HostTree::new(), 0, &[5]);
    run(&tree);
    let good = std::fs::read(tree.path().join("state")).unwrap();
    let half = good[..good.len() / 2].to_vec();
    let far = String::from_utf8(good.clone()).unwrap().replace(r#""version":1"#, r#""version":9"#).into_bytes();
    let control = String::from_utf8(good.clone()).unwrap().replace("mc0/dimm0", "mc0/\\u001bdimm0").into_bytes();
    assert_eq!(Kept::from_text(&good).unwrap().modules.len(), 1);
    for (content, words) in [
        (Vec::new(), "damaged"),
        (half, "damaged"),
        (b"\xff\xfe".to_vec(), "no text"),
        (far, "version is 9"),
        (control, "never writes"),
        (vec![b' '; TEXT_BYTES_MAX as usize + 1], "longer than"),
        (b"[".repeat(100_000), "damaged"),
    ] {
        let why = Kept::from_text(&content).unwrap_err();
        assert!(why.contains(words), "{why}");
    }
}

/// Nobody else's counts are lost by looking: the tree is as it was.
#[test]
fn a_look_changes_nothing() {
    let tree = fixture("amd-zen-ranks").file(format!("{MC}/mc0/reset_counters"), "untouched\n");
    let before = surefoot_testkit::Archive::of_folder(tree.path()).unwrap();
    let mut looker = Looker::new(Root::at(tree.path()));
    looker.look();
    looker.look();
    assert_eq!(surefoot_testkit::Archive::of_folder(tree.path()).unwrap(), before);
}
