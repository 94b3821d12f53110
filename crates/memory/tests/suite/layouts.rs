//! Every layout of the kernel's folders, and what its counts are worth.

use super::tree::{MC, controller, dimm, fixture, look};
use surefoot_hostfs::Root;
use surefoot_memory::look::Looker;
use surefoot_model::ErrorSeverity;
use surefoot_model::ErrorSeverity::{Corrected, Uncorrected};
use surefoot_model::MemoryLook;
use surefoot_model::{Certainty, CheckResult, Fidelity, MemorySource};
use surefoot_testkit::HostTree;

#[test]
fn modules_of_the_kernel_are_known_by_serial_where_their_label_is_the_slot_s() {
    let look = look(&fixture("intel-icelake-16dimm"));
    assert_eq!(look.dimms.len(), 16);
    let bad = dimm(&look, "03A10004");
    assert_eq!((bad.label.as_str(), bad.corrected(), bad.fidelity), ("DIMM_C1", 48_211, Fidelity::LowerBound));
    assert_eq!(bad.serial_certainty, Some(Certainty::Certain));
    let other = dimm(&look, "mc2/dimm2");
    assert_eq!((other.serial.as_deref(), other.serial_certainty), (Some("03A1000A"), Some(Certainty::Probable)));
    assert_eq!((other.uncorrected(), look.controllers[1].no_information_count), (1, Some(4)));
}

#[test]
fn a_collector_makes_the_counts_of_intel_s_drivers_lower_bounds() {
    let look = look(&fixture("intel-icelake-16dimm").folder("sys/kernel/debug/ras/cec"));
    assert!(look.dimms.iter().all(|dimm| dimm.fidelity == Fidelity::LowerBound));
}

#[test]
fn ranks_are_put_together_and_blocks_count_exactly() {
    let look = look(&fixture("amd-zen-ranks"));
    // Channel 0 has one module of two ranks, 16 GiB each: EDAC saw 5 records, the block 1,830 errors.
    let first = dimm(&look, "mc0/rank0");
    assert_eq!((first.size_bytes, first.corrected(), first.fidelity), (32 << 30, 1_830, Fidelity::Exact));
    assert_eq!(first.sources, [MemorySource::ThresholdBlock, MemorySource::Edac]);
    // A full block counts no further.
    assert_eq!(
        (dimm(&look, "mc0/rank3").corrected(), dimm(&look, "mc0/rank3").fidelity),
        (4_095, Fidelity::LowerBound)
    );
    // Channel 1 has two: EDAC names 2 of 7 errors.
    assert_eq!(dimm(&look, "mc0/rank1").fidelity, Fidelity::Sampled);
    let rest = dimm(&look, "cpu0/umc_1");
    assert_eq!((rest.corrected(), rest.fidelity), (5, Fidelity::Exact));
}

#[test]
fn blocks_of_several_processors_of_a_node_belong_to_no_channel_for_certain() {
    let block = |tree: HostTree, bank: &str| {
        let own = format!("sys/devices/system/machinecheck/machinecheck1/{bank}/dram_ecc");
        tree.file(format!("{own}/error_count"), "3\n").file(format!("{own}/threshold_limit"), "4095\n")
    };
    let look = look(&block(fixture("amd-zen-ranks"), "umc_0"));
    assert!(
        look.dimms.iter().filter(|dimm| !dimm.id.starts_with("cpu")).all(|dimm| dimm.fidelity == Fidelity::Sampled)
    );
    assert_eq!(dimm(&look, "cpu0/umc_0").corrected(), 1_830);
    assert_eq!(dimm(&look, "cpu1/umc_0").corrected(), 3);
}

#[test]
fn labels_put_ranks_together_before_their_numbers_do() {
    let mut tree = fixture("amd-zen-ranks");
    for rank in 0..8 {
        tree = tree.file(format!("{MC}/mc0/rank{rank}/dimm_label"), "P0_ALL_OF_IT\n");
    }
    let look = look(&tree);
    let one = dimm(&look, "mc0/rank0");
    assert_eq!((one.label.as_str(), one.size_bytes, one.fidelity), ("P0_ALL_OF_IT", 128 << 30, Fidelity::Sampled));
}

#[test]
fn rows_of_chip_selects_are_read_where_there_is_nothing_else() {
    let found = look(&fixture("intel-nehalem-csrow"));
    assert_eq!(found.dimms.len(), 7);
    assert_eq!(dimm(&found, "mc0/csrow0/ch0").corrected(), 50);
    assert_eq!((dimm(&found, "mc0/csrow1").uncorrected(), found.controllers[0].adds_up), (1, Some(true)));
    assert!(found.problems.is_empty(), "{:?}", found.problems);
    // Beside folders with counts of their own they are not counted twice.
    let both = controller(fixture("intel-nehalem-csrow"), 0, &[9]);
    assert_eq!(look(&both).dimms.len(), 1);
}

#[test]
fn one_count_per_record_is_a_sample_and_a_total_that_does_not_add_up_is_told() {
    let look = look(&fixture("hpe-ghes-4dimm"));
    assert!(look.dimms.iter().all(|dimm| dimm.fidelity == Fidelity::Sampled));
    assert_eq!(dimm(&look, "F00A1235").corrected(), 6);
    let twice = dimm(&look, "mc0/dimm3");
    assert_eq!(twice.serial_certainty, Some(Certainty::CannotTellApartHere), "a number that two modules have");
    assert_eq!(look.controllers[0].adds_up, Some(false));
    // Then no count of its modules is all that there were.
    assert!(
        look.dimms.iter().filter(|dimm| dimm.controller == look.controllers[0].id).all(|dimm| !dimm.is_all(Corrected))
    );
    assert!(look.problems[0].why.contains("not that of its modules"));
}

#[test]
fn a_total_below_its_modules_leaves_no_count_whole() {
    let tree = fixture("intel-icelake-16dimm");
    assert!(look(&tree).dimms.iter().filter(|dimm| dimm.controller == "mc0").all(|dimm| dimm.is_all(Uncorrected)));
    let tree = tree.file(format!("{MC}/mc0/dimm0/dimm_ue_count"), "9\n").file(format!("{MC}/mc0/ue_count"), "3\n");
    let look = look(&tree);
    let of = |controller: &str| {
        let dimms = look.dimms.iter().filter(|dimm| dimm.controller == controller);
        dimms.map(|dimm| dimm.is_all(Uncorrected)).collect::<Vec<_>>()
    };
    assert!(of("mc0").iter().all(|is_all| !is_all) && of("mc1").iter().all(|is_all| *is_all), "{:?}", look.controllers);
}

#[test]
fn a_report_s_numbers_lead_to_the_module() {
    let tree = fixture("intel-icelake-16dimm");
    let mut looker = Looker::new(Root::at(tree.path()));
    looker.look();
    assert_eq!(looker.module_at(1, [0, 0, -1]), Some("03A10004"));
    assert_eq!(looker.module_at(2, [1, 0, -1]), Some("mc2/dimm2"));
    assert_eq!(looker.module_at(1, [-1, -1, -1]), None);
    assert_eq!(looker.module_at(9, [0, 0, -1]), None);
}

#[test]
fn the_same_tree_gives_the_same_modules() {
    for name in ["intel-icelake-16dimm", "amd-zen-ranks", "intel-nehalem-csrow", "hpe-ghes-4dimm"] {
        let tree = fixture(name);
        assert_eq!(look(&tree).dimms, look(&tree).dimms);
    }
}

#[test]
fn a_counter_that_cannot_be_read_is_not_one_that_stands_at_none() {
    let icelake = || fixture("intel-icelake-16dimm");
    assert!(look(&icelake()).dimms.iter().all(|dimm| dimm.unread.is_empty()));
    for (file, severity) in [("dimm_ce_count", Corrected), ("dimm_ue_count", Uncorrected)] {
        // Gone, or there and no number.
        let path = format!("{MC}/mc0/dimm0/{file}");
        for tree in [icelake().without(&path), icelake().file(&path, "many\n")] {
            let found = look(&tree);
            let unread: Vec<_> = found.dimms.iter().filter(|dimm| !dimm.unread.is_empty()).collect();
            assert_eq!(
                unread.iter().map(|dimm| (&*dimm.label, &*dimm.unread)).collect::<Vec<_>>(),
                [("DIMM_A1", &[severity][..])]
            );
            assert!(found.problems.iter().any(|problem| problem.path.ends_with(&path)), "{:?}", found.problems);
        }
    }
    let tree = icelake().file(format!("{MC}/mc0/ue_count"), "\n").file(format!("{MC}/mc0/ce_count"), "-\n");
    let controller = &look(&tree).controllers[0];
    assert_eq!((controller.corrected_count, controller.uncorrected_count), (None, None));
}

#[test]
fn a_channel_of_a_row_stays_when_its_counter_does_not() {
    let rows = || fixture("intel-nehalem-csrow");
    let before = look(&rows());
    let path = format!("{MC}/mc0/csrow0/ch1_ce_count");
    // Gone, not to be opened, and there but no number.
    let trees =
        [rows().without(&path), rows().without(&path).link(&path, "/etc/hostname"), rows().file(&path, "many\n")];
    for tree in trees {
        let found = look(&tree);
        let names =
            |look: &MemoryLook| look.dimms.iter().map(|dimm| (dimm.id.clone(), dimm.size_bytes)).collect::<Vec<_>>();
        assert_eq!(names(&found), names(&before));
        let unread: Vec<_> = found.dimms.iter().filter(|dimm| !dimm.unread.is_empty()).collect();
        assert_eq!(
            unread.iter().map(|dimm| (&*dimm.id, dimm.corrected_count, &*dimm.unread)).collect::<Vec<_>>(),
            [("mc0/csrow0/ch1", None, &[Corrected][..])]
        );
        assert!(found.problems.iter().any(|problem| problem.path.ends_with(&path)), "{:?}", found.problems);
    }
    // A row of which nothing is there but its own counters is not a row without modules.
    let bare = ["ch0", "ch1", "ch2"].iter().fold(rows(), |tree, channel| {
        ["ce_count", "dimm_label"]
            .iter()
            .fold(tree, |tree, file| tree.without(format!("{MC}/mc0/csrow0/{channel}_{file}")))
    });
    let found = look(&bare);
    let row = format!("{MC}/mc0/csrow0");
    assert!(found.problems.iter().any(|problem| problem.path.ends_with(&row)), "{:?}", found.problems);
}

/// What has a controller's or module's name and is none, what lies beyond the entries that are looked at, and rows beside a module
/// that are more than it: something counts errors there that nobody sees.
#[test]
fn what_is_there_and_not_looked_at_is_told() {
    let told = |tree: HostTree, path: &str, words: &str| {
        let found = look(&tree);
        let is_it =
            |problem: &surefoot_model::MemoryProblem| problem.path.ends_with(path) && problem.why.contains(words);
        assert!(found.problems.iter().any(is_it), "{path}: {:?}", found.problems);
    };
    told(fixture("hpe-ghes-4dimm").file(format!("{MC}/mc1"), "\n"), "mc1", "no folder");
    told(fixture("hpe-ghes-4dimm").file(format!("{MC}/mc0/dimm7"), "\n"), "dimm7", "no folder");
    told(fixture("intel-nehalem-csrow").file(format!("{MC}/mc0/csrow7"), "\n"), "csrow7", "no folder");
    told(controller(fixture("intel-nehalem-csrow"), 0, &[9]), "mc0", "only 1 modules");
    let crowded = (0..8_300)
        .fold(controller(HostTree::new(), 0, &[1]), |tree, number| tree.file(format!("{MC}/junk{number}"), ""));
    told(crowded, "edac/mc", "more than 8192 entries");
    for name in ["intel-icelake-16dimm", "amd-zen-ranks", "intel-nehalem-csrow"] {
        assert!(look(&fixture(name)).problems.is_empty(), "{name}");
    }
}

#[test]
fn a_size_of_which_a_part_is_not_known_is_not_known() {
    let tree = || fixture("amd-zen-ranks");
    let path = format!("{MC}/mc0/rank0/size");
    for tree in [tree().without(&path), tree().file(&path, "big\n")] {
        let found = look(&tree);
        assert_eq!((dimm(&found, "mc0/rank0").size_bytes, dimm(&found, "mc0/rank1").size_bytes > 0), (0, true));
    }
}

/// A block counts its channel; a module that does not tell its channel may be on it.
#[test]
fn a_block_is_no_module_s_where_one_does_not_tell_its_channel() {
    let tree = ["rank1", "rank5"]
        .iter()
        .fold(fixture("amd-zen-ranks"), |tree, rank| tree.without(format!("{MC}/mc0/{rank}/dimm_location")));
    let found = look(&tree);
    assert_eq!(dimm(&found, "mc0/rank0").sources, [MemorySource::Edac]);
    assert_eq!(dimm(&found, "cpu0/umc_0").fidelity, Fidelity::LowerBound);
}

#[test]
fn a_controller_without_modules_whose_totals_cannot_be_read_is_shown() {
    let shown = |corrected: &str, uncorrected: &str| {
        let tree = HostTree::new()
            .file(format!("{MC}/mc0/mc_name"), "igen6_edac\n")
            .file(format!("{MC}/mc0/ce_count"), corrected)
            .file(format!("{MC}/mc0/ue_count"), uncorrected);
        look(&tree).dimms.iter().map(|dimm| (dimm.id.clone(), dimm.unread.clone())).collect::<Vec<_>>()
    };
    assert_eq!(shown("0\n", "0\n"), []);
    assert_eq!(shown("0\n", "?\n"), [("mc0/all".to_owned(), vec![Uncorrected])]);
    assert_eq!(shown("?\n", "0\n"), [("mc0/all".to_owned(), vec![Corrected])]);
}

#[test]
fn a_row_s_counter_of_uncorrected_errors_tells_of_its_channels() {
    let rows = || fixture("intel-nehalem-csrow");
    assert!(look(&rows()).dimms.iter().all(|dimm| dimm.unread.is_empty()), "{:?}", look(&rows()).dimms);
    let found = look(&rows().file(format!("{MC}/mc0/csrow0/ue_count"), "\n"));
    for dimm in &found.dimms {
        let wanted = if dimm.id.starts_with("mc0/csrow0/") { &[Uncorrected][..] } else { &[] };
        assert_eq!(dimm.unread, wanted, "{}", dimm.id);
    }
}

/// A row has a folder only where a slot of it is filled.
#[test]
fn rows_are_read_also_where_the_first_is_empty() {
    let tree = fixture("intel-nehalem-csrow");
    let of = |tree: &HostTree, row: &str| -> Vec<(u64, u64)> {
        let own = format!("mc0/{row}/");
        let look = look(tree);
        let rows = look.dimms.iter().filter(|dimm| dimm.id.starts_with(&own));
        rows.map(|dimm| (dimm.corrected(), dimm.uncorrected())).collect()
    };
    let (before, all) = (of(&tree, "csrow0"), look(&tree).dimms.len());
    assert!(!before.is_empty());
    let folder = tree.path().join(MC).join("mc0");
    std::fs::rename(folder.join("csrow0"), folder.join("csrow7")).unwrap();
    assert_eq!((of(&tree, "csrow7"), look(&tree).dimms.len()), (before, all));
}

#[test]
fn what_was_counted_stays_when_its_controller_is_gone() {
    let tree = fixture("intel-icelake-16dimm");
    let mut looker = Looker::new(Root::at(tree.path()));
    let before = looker.look();
    let remove = |id: &str| std::fs::remove_dir_all(tree.path().join(MC).join(id)).unwrap();
    remove("mc2");
    let look = looker.look();
    assert_eq!(look.gone.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["mc2"]);
    let counts = |look: &MemoryLook| -> Vec<(String, u64, u64)> {
        let own = look.dimms.iter().filter(|dimm| dimm.controller == "mc2");
        own.map(|dimm| (dimm.id.clone(), dimm.corrected(), dimm.uncorrected())).collect()
    };
    assert_eq!(counts(&look), counts(&before));
    assert!(counts(&look).iter().any(|(_, _, uncorrected)| *uncorrected > 0));
    for dimm in &look.dimms {
        let wanted = if dimm.controller == "mc2" { &[Corrected, Uncorrected][..] } else { &[] };
        assert_eq!(dimm.unread, wanted, "{}", dimm.id);
    }
    // The driver is unloaded altogether: that is no host without a source of errors.
    ["mc0", "mc1", "mc3"].into_iter().for_each(remove);
    let look = looker.look();
    assert_eq!((look.dimms.len(), look.gone.len(), &look.unsupported), (before.dimms.len(), 4, &None));
    // Loaded again, all is as it was.
    let again = fixture("intel-icelake-16dimm");
    std::fs::rename(again.path().join(MC), tree.path().join("mc")).unwrap();
    std::fs::remove_dir_all(tree.path().join(MC)).unwrap();
    std::fs::rename(tree.path().join("mc"), tree.path().join(MC)).unwrap();
    let look = looker.look();
    assert_eq!((look.dimms.len(), look.gone.len()), (before.dimms.len(), 0));
    assert!(look.dimms.iter().all(|dimm| dimm.unread.is_empty()));
}

/// A driver that is loaded again may number its controllers anew.
#[test]
fn a_controller_with_another_number_is_the_same_hardware_where_that_can_be_told() {
    let tree = fixture("intel-icelake-16dimm");
    let mut looker = Looker::new(Root::at(tree.path()));
    let before = looker.look();
    let mc = |id: &str| tree.path().join(MC).join(id);
    let counts = |look: &MemoryLook, id: &str| -> Vec<(u64, u64)> {
        let own = look.dimms.iter().filter(|dimm| dimm.controller == id);
        own.map(|dimm| (dimm.corrected(), dimm.uncorrected())).collect()
    };
    std::fs::rename(mc("mc2"), mc("mc7")).unwrap();
    std::fs::write(mc("mc7").join("seconds_since_reset"), "1\n").unwrap();
    for dimm in std::fs::read_dir(mc("mc7")).unwrap().map(|entry| entry.unwrap().path()) {
        for counter in ["dimm_ce_count", "dimm_ue_count"] {
            if dimm.join(counter).exists() {
                // A driver begins at zero; one error came since.
                std::fs::write(dimm.join(counter), "1\n").unwrap();
            }
        }
    }
    let look = looker.look();
    let told: Vec<_> = look.gone.iter().map(|one| (one.id.as_str(), one.now.as_deref())).collect();
    assert_eq!(told, [("mc2", Some("mc7"))]);
    assert_eq!(look.dimms.len(), before.dimms.len(), "no row twice: {:?}", look.dimms);
    assert!(look.dimms.iter().all(|dimm| dimm.unread.is_empty()), "{:?}", look.dimms);
    let one_more: Vec<_> = counts(&before, "mc2").iter().map(|(one, other)| (one + 1, other + 1)).collect();
    assert_eq!(counts(&look, "mc7"), one_more);
    assert_eq!(counts(&looker.look(), "mc7"), one_more, "and no more at the next look");
    // Back under its first number.
    std::fs::rename(mc("mc7"), mc("mc2")).unwrap();
    let look = looker.look();
    let told: Vec<_> = look.gone.iter().map(|one| (one.id.as_str(), one.now.as_deref())).collect();
    assert_eq!((told, look.dimms.len()), (vec![("mc7", Some("mc2"))], before.dimms.len()));
}

#[test]
fn controllers_that_are_alike_are_not_taken_for_each_other() {
    let alike = |tree: HostTree, index: u32| {
        let tree = controller(tree, index, &[3, 4]).file(format!("{MC}/mc{index}/mc_name"), "EX\n");
        (0..2).fold(tree, |tree, dimm| {
            tree.file(format!("{MC}/mc{index}/dimm{dimm}/dimm_label"), format!("mc#{index}memory#{dimm}\n"))
        })
    };
    let tree = alike(alike(HostTree::new(), 0), 1);
    let mut looker = Looker::new(Root::at(tree.path()));
    looker.look();
    let mc = |id: &str| tree.path().join(MC).join(id);
    std::fs::rename(mc("mc0"), mc("mc2")).unwrap();
    std::fs::rename(mc("mc1"), mc("mc3")).unwrap();
    let look = looker.look();
    assert!(look.gone.len() == 2 && look.gone.iter().all(|one| one.now.is_none()), "{:?}", look.gone);
    assert_eq!(look.dimms.iter().filter(|dimm| dimm.unread == [Corrected, Uncorrected]).count(), 4);
    // One that is another: a module more.
    let tree = controller(HostTree::new(), 0, &[3, 4]);
    let mut looker = Looker::new(Root::at(tree.path()));
    looker.look();
    std::fs::remove_dir_all(tree.path().join(MC).join("mc0")).unwrap();
    let tree = controller(tree, 1, &[3, 4, 5]);
    let look = looker.look();
    assert_eq!(look.gone[0].now, None);
    drop(tree);
}

#[test]
fn a_count_that_nobody_could_read_is_null_in_json() {
    let tree = controller(HostTree::new(), 0, &[3, 4]).file(format!("{MC}/mc0/dimm0/dimm_ce_count"), "\n");
    let look = look(&tree);
    let counts = |id: &str| (dimm(&look, id).corrected_count, dimm(&look, id).uncorrected_count);
    assert_eq!((counts("mc0/dimm0"), counts("mc0/dimm1")), ((None, Some(0)), (Some(4), Some(0))));
}

#[test]
fn errors_of_a_place_may_be_those_of_each_of_its_modules() {
    let unplaced = |look: &MemoryLook| -> Vec<(String, Vec<ErrorSeverity>)> {
        let some = look.dimms.iter().filter(|dimm| !dimm.unplaced.is_empty());
        some.map(|dimm| (dimm.id.clone(), dimm.unplaced.clone())).collect()
    };
    // An uncorrected error of a row whose driver does not tell the channel.
    let of_row = ["ch0", "ch1", "ch2"].map(|channel| (format!("mc0/csrow1/{channel}"), vec![Uncorrected]));
    assert_eq!(unplaced(&look(&fixture("intel-nehalem-csrow"))), of_row);
    // Four corrected errors of a controller that name no module.
    let found = look(&fixture("intel-icelake-16dimm"));
    assert!(found.dimms.iter().all(|dimm| dimm.unplaced.is_empty() != (dimm.controller == "mc1")), "{found:?}");
    // A block that counts for the two modules of its channel.
    let found = look(&fixture("amd-zen-ranks"));
    for place in found.dimms.iter().filter(|dimm| dimm.only_place.is_some() && dimm.corrected() > 0) {
        let own = found.dimms.iter().filter(|dimm| dimm.controller == place.controller && dimm.only_place.is_none());
        assert!(
            own.clone().any(|dimm| dimm.unplaced == [Corrected]),
            "{place:?} {own:?}",
            own = own.collect::<Vec<_>>()
        );
    }
}

/// What is beyond a limit is counted, and makes no total of the driver wrong.
#[test]
fn a_cut_is_counted_and_is_no_fault_of_the_driver() {
    use surefoot_memory::doctor;
    let mc = format!("{MC}/mc0");
    let many = |tree: HostTree, modules: u32| {
        (0..modules).fold(tree, |tree, number| {
            let own = format!("{mc}/dimm{number}");
            tree.file(format!("{own}/dimm_ce_count"), "1\n").file(format!("{own}/dimm_ue_count"), "0\n")
        })
    };
    let controller = |modules: u32| {
        let counts = [("ce_count", modules), ("ue_count", 0), ("ce_noinfo_count", 0), ("ue_noinfo_count", 0)];
        let tree = counts
            .iter()
            .fold(HostTree::new(), |tree, (file, count)| tree.file(format!("{mc}/{file}"), format!("{count}\n")));
        many(tree.file(format!("{mc}/mc_name"), "Skylake Socket#0 IMC#0\n"), modules)
    };
    let of = |tree: &HostTree| {
        let look = look(tree);
        let checks = doctor::check(&Root::at(tree.path())).unwrap();
        let totals = checks.into_iter().find(|check| check.rule == "totals-disagree").unwrap();
        (look, totals.result)
    };
    let (whole, totals) = of(&controller(1024));
    assert_eq!((whole.dimms.len(), whole.problems.len(), totals), (1024, 0, CheckResult::Passed));
    let (cut, totals) = of(&controller(1030));
    assert_eq!((cut.dimms.len(), cut.controllers[0].adds_up, totals), (1024, None, CheckResult::NotChecked));
    let [problem] = &cut.problems[..] else { panic!("{:?}", cut.problems) };
    assert!(problem.why.contains("6 folders dimmX more than 1024 were left out"), "{problem:?}");
    // Rows of chip selects beyond the limit: their channels are left out, and are not missing.
    let rows = (0..20_u32).fold(
        HostTree::new().file(format!("{mc}/ce_count"), "1280\n").file(format!("{mc}/ue_count"), "0\n"),
        |tree, row| {
            let own = format!("{mc}/csrow{row}");
            (0..64_u32).fold(tree.file(format!("{own}/ue_count"), "0\n"), |tree, channel| {
                tree.file(format!("{own}/ch{channel}_ce_count"), "1\n")
            })
        },
    );
    let rows =
        ["ce_noinfo_count", "ue_noinfo_count"].iter().fold(rows, |tree, file| tree.file(format!("{mc}/{file}"), "0\n"));
    let (cut, _) = of(&rows.file(format!("{mc}/mc_name"), "i7 core #0\n"));
    assert_eq!((cut.dimms.len(), cut.controllers[0].adds_up), (1024, None));
    assert!(
        cut.problems.iter().any(|problem| problem.why.contains("4 rows, from csrow16 on, were left out")),
        "{:?}",
        cut.problems
    );
    assert!(cut.problems.iter().all(|problem| !problem.why.contains("reload")), "{:?}", cut.problems);
    // Links in the place of folders: some are told, the others counted.
    let target = HostTree::new();
    let links =
        (0..30).fold(controller(2), |tree, number| tree.link(format!("{mc}/dimm{}", number + 10), target.path()));
    let look = look(&links);
    assert_eq!(look.problems.len() as u64 + look.problems_left_out, 30, "{:?}", look.problems);
}
