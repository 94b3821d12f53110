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
    let of = |look: &MemoryLook| (dimm(look, "mc0/dimm0").corrected(), dimm(look, "mc0/dimm0").fidelity);
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
    assert_eq!(module.corrected(), 3_000);
    drop(tree);
}

#[test]
fn a_module_in_another_slot_takes_its_counts_along() {
    let tree = fixture("intel-icelake-16dimm");
    assert_eq!(dimm(&run(&tree), "03A10004").corrected(), 48_211);
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
    assert_eq!((moved.corrected(), moved.fidelity), (48_223, Fidelity::LowerBound));
    assert_eq!(dimm(&look, "03A10000").corrected(), 0);
}

/// Two modules of one kind without serial numbers: after a boot either may be in either slot.
#[test]
fn modules_that_nothing_tells_apart_are_not_counted_on_as_if_they_were() {
    let now =
        |tree, errors: &[u64], uptime_s, reset_s, boot| clock(controller(tree, 0, errors), uptime_s, reset_s, boot);
    let mixed = |look: &MemoryLook| -> Vec<(String, u64, Vec<String>)> {
        look.dimms.iter().map(|dimm| (dimm.id.clone(), dimm.corrected(), dimm.mixed_with.clone())).collect()
    };
    let row = |id: &str, count, with: &[&str]| {
        (id.to_owned(), count, with.iter().map(|&id| id.to_owned()).collect::<Vec<_>>())
    };
    let tree = now(HostTree::new(), &[70, 0, 0], 1_000, 900, "a").file(format!("{MC}/mc0/dimm2/size"), "32768\n");
    assert_eq!(mixed(&run(&tree)), [row("mc0/dimm0", 70, &[]), row("mc0/dimm1", 0, &[]), row("mc0/dimm2", 0, &[])]);
    // The same boot: nothing moved.
    let tree = clock(tree, 1_500, 1_400, "a");
    assert!(run(&tree).dimms.iter().all(|dimm| dimm.mixed_with.is_empty()));
    let tree = now(tree, &[0, 5, 0], 100, 90, "b").file(format!("{MC}/mc0/dimm2/size"), "32768\n");
    let look = run(&tree);
    let wanted = [row("mc0/dimm0", 70, &["mc0/dimm1"]), row("mc0/dimm1", 5, &["mc0/dimm0"]), row("mc0/dimm2", 0, &[])];
    assert_eq!(mixed(&look), wanted, "one of another size is no other's");
    let told = |look: &MemoryLook| {
        look.problems.iter().filter(|problem| problem.why.contains("its counts from before")).count()
    };
    assert!(told(&look) > 0, "{:?}", look.problems);
    assert!(!dimm(&look, "mc0/dimm1").is_all(surefoot_model::ErrorSeverity::Uncorrected));
    // It is told once, and stays with the modules.
    let again = run(&clock(tree, 200, 190, "b"));
    assert_eq!((mixed(&again), told(&again)), (wanted.to_vec(), 0));
}

/// Where nothing was counted there is nothing that could be another's.
#[test]
fn a_boot_without_errors_before_mixes_nothing() {
    let now =
        |tree, errors: &[u64], uptime_s, reset_s, boot| clock(controller(tree, 0, errors), uptime_s, reset_s, boot);
    let tree = now(HostTree::new(), &[0, 0], 1_000, 900, "a");
    run(&tree);
    let look = run(&now(tree, &[0, 9], 100, 90, "b"));
    assert!(look.dimms.iter().all(|dimm| dimm.mixed_with.is_empty()), "{look:?}");
}

/// A driver that is loaded anew may number two controllers with the same modules the other way round.
#[test]
fn controllers_with_the_same_modules_may_have_changed_numbers_with_the_driver() {
    let two = |errors: [u64; 2], uptime_s: u32, reset_s: [u32; 2]| {
        let tree =
            clock(controller(controller(HostTree::new(), 0, &[errors[0]]), 1, &[errors[1]]), uptime_s, reset_s[0], "a");
        [0, 1]
            .iter()
            .fold(tree, |tree, mc| {
                tree.file(format!("{MC}/mc{mc}/mc_name"), "Skylake IMC\n")
                    .file(format!("{MC}/mc{mc}/dimm0/dimm_label"), format!("mc#{mc}channel#0dimm#0\n"))
            })
            .file(format!("{MC}/mc1/seconds_since_reset"), format!("{}\n", reset_s[1]))
    };
    let seen = |second: HostTree| {
        let first = two([70, 0], 1_000, [900, 900]);
        let mut kept = Looker::new(Root::at(first.path()));
        kept.look();
        let look = Looker::new(Root::at(second.path())).with_kept(kept.kept().clone()).look();
        look.dimms.iter().map(|dimm| dimm.mixed_with.clone()).collect::<Vec<_>>()
    };
    let both = [vec!["mc1/dimm0".to_owned()], vec!["mc0/dimm0".to_owned()]];
    assert_eq!(seen(two([3, 0], 2_000, [100, 100])), both);
    // Somebody reset the counters of one: that changes no number.
    assert_eq!(seen(two([3, 0], 2_000, [100, 1_900])), [vec![], Vec::<String>::new()]);
    // Labels tell them apart.
    let labelled = two([3, 0], 2_000, [100, 100])
        .file(format!("{MC}/mc0/dimm0/dimm_label"), "DIMM_A1\n")
        .file(format!("{MC}/mc1/dimm0/dimm_label"), "DIMM_B1\n");
    assert_eq!(seen(labelled), [vec![], Vec::<String>::new()]);
}

/// A number that is not there is not 0.
#[test]
fn a_state_without_one_of_its_numbers_is_not_believed() {
    let tree = clock(controller(HostTree::new(), 0, &[9]), 1_000, 900, "a");
    run(&tree);
    let text = std::fs::read(tree.path().join("state")).unwrap();
    assert_eq!(Kept::from_text(&text).unwrap().modules["mc0/dimm0"].corrected_count, 9);
    let whole: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let without = |path: &[&str]| {
        let mut value = whole.clone();
        let (last, above) = path.split_last().unwrap();
        let object = above.iter().fold(&mut value, |value, name| &mut value[*name]);
        assert!(object.as_object_mut().unwrap().remove(*last).is_some(), "{path:?}");
        Kept::from_text(value.to_string().as_bytes())
    };
    let module = |name| ["kept", "modules", "mc0/dimm0", name];
    for name in ["corrected_count", "uncorrected_count", "block_count", "is_lower_bound", "rates", "here", "seen"] {
        assert!(without(&module(name)).unwrap_err().contains(name), "{name}");
    }
    for name in ["modules", "places", "dropped_count", "readings"] {
        assert!(without(&["kept", name]).unwrap_err().contains(name), "{name}");
    }
    assert!(without(&["kept", "places", "mc0/dimm0", "module"]).is_err());
    // What older releases did not write yet is not known without it.
    for name in ["seen_realtime_ns", "kind", "mixed_with"] {
        assert!(without(&module(name)).is_ok(), "{name}");
    }
}

/// Registering labels is what the doctor asks for; the module is where it was, by whatever name it was known.
#[test]
fn a_slot_whose_label_was_registered_moves_no_module() {
    let unknown = clock(controller(HostTree::new(), 0, &[5]), 100, 90, "a");
    for (tree, place) in [(fixture("intel-icelake-16dimm"), "mc2/dimm2"), (unknown, "mc0/dimm0")] {
        let count = dimm(&run(&tree), place).corrected();
        let named = tree.file(format!("{MC}/{place}/dimm_label"), "DIMM_F1\n");
        for _ in 0..2 {
            let look = run(&named);
            let renamed = look.dimms.iter().find(|dimm| dimm.label == "DIMM_F1").unwrap();
            assert_eq!((renamed.corrected(), &renamed.moved_from), (count, &None), "{renamed:?}");
        }
    }
}

#[test]
fn errors_of_a_controller_beyond_those_of_its_modules_have_an_unknown_place() {
    let without = ["mc0", "mc1", "mc2", "mc3"].iter().fold(fixture("intel-icelake-16dimm"), |tree, mc| {
        tree.without(format!("{MC}/{mc}/ce_noinfo_count")).without(format!("{MC}/{mc}/ue_noinfo_count"))
    });
    for tree in [fixture("intel-icelake-16dimm"), without] {
        let look = run(&tree);
        let unplaced =
            |mc: &str| look.dimms.iter().filter(|dimm| dimm.controller == mc && !dimm.unplaced.is_empty()).count();
        assert_eq!((unplaced("mc1"), unplaced("mc3")), (4, 0), "4 corrected errors of mc1 are of no known module");
    }
}

#[test]
fn a_controller_that_counts_and_shows_no_module_has_a_row_of_its_own() {
    let tree = fixture("intel-icelake-16dimm");
    for dimm in 0..4 {
        std::fs::remove_dir_all(tree.path().join(MC).join(format!("mc1/dimm{dimm}"))).unwrap();
    }
    let look = run(&tree);
    let row = dimm(&look, "mc1/all");
    assert_eq!((row.corrected(), row.only_place.as_deref()), (48_218, Some("memory controller mc1")));
    // Without errors there is nothing to tell: a socket whose slots are empty looks the same.
    for name in ["ce_count", "ue_count", "ce_noinfo_count", "ue_noinfo_count"] {
        std::fs::write(tree.path().join(MC).join("mc1").join(name), "0\n").unwrap();
    }
    std::fs::remove_file(tree.path().join("state")).unwrap();
    assert!(run(&tree).dimms.iter().all(|dimm| dimm.controller != "mc1"));
}

/// The modules with their labels and what was counted of each.
fn counted(look: &MemoryLook) -> Vec<(String, String)> {
    let of = |dimm: &surefoot_model::Dimm| {
        (dimm.label.clone(), format!("{:?} {:?}", dimm.corrected_count, dimm.uncorrected_count))
    };
    let mut all: Vec<_> = look.dimms.iter().map(of).collect();
    all.sort();
    all
}

fn swap(tree: &HostTree, one: &str, other: &str) {
    let path = |name: &str| tree.path().join(MC).join(name);
    std::fs::rename(path(one), path("other")).unwrap();
    std::fs::rename(path(other), path(one)).unwrap();
    std::fs::rename(path("other"), path(other)).unwrap();
}

/// All counters at 0 since some seconds.
fn clear(tree: &HostTree, reset_s: u32) {
    for entry in std::fs::read_dir(tree.path().join(MC)).unwrap().flatten() {
        for own in std::fs::read_dir(entry.path()).unwrap().flatten() {
            let counts = if own.path().is_dir() { vec!["dimm_ce_count", "dimm_ue_count"] } else { vec![""] };
            for path in counts.into_iter().map(|name| if name.is_empty() { own.path() } else { own.path().join(name) })
            {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                if path.exists() && name.ends_with("_count") {
                    std::fs::write(&path, "0\n").unwrap();
                }
                if name == "seconds_since_reset" {
                    std::fs::write(&path, format!("{reset_s}\n")).unwrap();
                }
            }
        }
    }
}

#[test]
fn controllers_that_the_file_knows_and_that_are_gone_are_told_with_their_errors() {
    let tree = fixture("intel-icelake-16dimm");
    let before = run(&tree);
    for name in ["mc1", "mc2"] {
        std::fs::rename(tree.path().join(MC).join(name), tree.path().join(name)).unwrap();
    }
    for _ in 0..2 {
        let look = run(&tree);
        assert_eq!(look.gone.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["mc1", "mc2"]);
        assert!(look.gone.iter().all(|one| one.seen_realtime_ns == before.looked_realtime_ns), "{:?}", look.gone);
        let bad = |look: &MemoryLook| {
            let of = |dimm: &surefoot_model::Dimm| (dimm.label.clone(), dimm.corrected(), dimm.uncorrected());
            let all = look.dimms.iter().map(of);
            all.filter(|(_, corrected, uncorrected)| *corrected > 48_000 || *uncorrected > 0)
                .collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!((bad(&look), bad(&look).len()), (bad(&before), 2));
        let unread = look
            .dimms
            .iter()
            .filter(|dimm| dimm.unread.len() == 2 && ["mc1", "mc2"].contains(&dimm.controller.as_str()));
        assert_eq!(unread.count(), 8);
    }
    for name in ["mc1", "mc2"] {
        std::fs::rename(tree.path().join(name), tree.path().join(MC).join(name)).unwrap();
    }
    let back = run(&tree);
    assert_eq!((counted(&back), back.gone.len()), (counted(&before), 0));
}

#[test]
fn controllers_with_other_numbers_keep_the_counts_of_their_modules() {
    let boot = "b0000000-0000-0000-0000-000000000000\n";
    // The driver is loaded anew, with its counters or without; or the host is booted anew.
    for (reset_s, is_boot) in [(None, false), (Some(5), false), (Some(50), true)] {
        let tree = fixture("intel-icelake-16dimm");
        let before = run(&tree);
        swap(&tree, "mc1", "mc2");
        if let Some(reset_s) = reset_s {
            clear(&tree, reset_s);
        }
        let tree = if is_boot {
            tree.file("proc/sys/kernel/random/boot_id", boot).file("proc/uptime", "60.00 1.00\n")
        } else {
            tree
        };
        for _ in 0..2 {
            let look = run(&tree);
            assert_eq!(counted(&look), counted(&before), "{reset_s:?} {is_boot}");
            assert!(look.gone.is_empty() && look.dimms.iter().all(|dimm| dimm.moved_from.is_none()), "{look:?}");
        }
        // Where the number is another one's now, what had it is still told.
        std::fs::remove_dir_all(tree.path().join(MC).join("mc1")).unwrap();
        std::fs::rename(tree.path().join(MC).join("mc2"), tree.path().join(MC).join("mc1")).unwrap();
        let look = run(&tree);
        assert_eq!((look.gone.len(), look.dimms.len()), (1, before.dimms.len()), "{:?}", look.gone);
        let lost = |look: &MemoryLook| {
            counted(look).iter().filter(|(_, counts)| counts.ends_with(" 1") || counts.ends_with("Some(1)")).count()
        };
        assert_eq!(lost(&look), lost(&before));
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
