//! Every layout of the kernel's folders, and what its counts are worth.

use super::tree::{MC, controller, dimm, fixture, look};
use surefoot_hostfs::Root;
use surefoot_memory::look::Looker;
use surefoot_model::ErrorSeverity::{Corrected, Uncorrected};
use surefoot_model::{Certainty, Fidelity, MemorySource};
use surefoot_testkit::HostTree;

#[test]
fn modules_of_the_kernel_are_known_by_serial_where_their_label_is_the_slot_s() {
    let look = look(&fixture("intel-icelake-16dimm"));
    assert_eq!(look.dimms.len(), 16);
    let bad = dimm(&look, "03A10004");
    assert_eq!((bad.label.as_str(), bad.corrected_count, bad.fidelity), ("DIMM_C1", 48_211, Fidelity::Exact));
    assert_eq!(bad.serial_certainty, Some(Certainty::Certain));
    let other = dimm(&look, "mc2/dimm2");
    assert_eq!((other.serial.as_deref(), other.serial_certainty), (Some("03A1000A"), Some(Certainty::Probable)));
    assert_eq!((other.uncorrected_count, look.controllers[1].no_information_count), (1, Some(4)));
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
    assert_eq!((first.size_bytes, first.corrected_count, first.fidelity), (32 << 30, 1_830, Fidelity::Exact));
    assert_eq!(first.sources, [MemorySource::ThresholdBlock, MemorySource::Edac]);
    // A full block counts no further.
    assert_eq!(
        (dimm(&look, "mc0/rank3").corrected_count, dimm(&look, "mc0/rank3").fidelity),
        (4_095, Fidelity::LowerBound)
    );
    // Channel 1 has two: EDAC names 2 of 7 errors.
    assert_eq!(dimm(&look, "mc0/rank1").fidelity, Fidelity::Sampled);
    let rest = dimm(&look, "cpu0/umc_1");
    assert_eq!((rest.corrected_count, rest.fidelity), (5, Fidelity::Exact));
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
    assert_eq!(dimm(&look, "cpu0/umc_0").corrected_count, 1_830);
    assert_eq!(dimm(&look, "cpu1/umc_0").corrected_count, 3);
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
    assert_eq!(dimm(&found, "mc0/csrow0/ch0").corrected_count, 50);
    assert_eq!((dimm(&found, "mc0/csrow1").uncorrected_count, found.controllers[0].adds_up), (1, Some(true)));
    assert!(found.problems.is_empty(), "{:?}", found.problems);
    // Beside folders with counts of their own they are not counted twice.
    let both = controller(fixture("intel-nehalem-csrow"), 0, &[9]);
    assert_eq!(look(&both).dimms.len(), 1);
}

#[test]
fn one_count_per_record_is_a_sample_and_a_total_that_does_not_add_up_is_told() {
    let look = look(&fixture("hpe-ghes-4dimm"));
    assert!(look.dimms.iter().all(|dimm| dimm.fidelity == Fidelity::Sampled));
    assert_eq!(dimm(&look, "F00A1235").corrected_count, 6);
    let twice = dimm(&look, "mc0/dimm3");
    assert_eq!(twice.serial_certainty, Some(Certainty::CannotTellApartHere), "a number that two modules have");
    assert_eq!(look.controllers[0].adds_up, Some(false));
    assert!(look.problems[0].why.contains("not that of its modules"));
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
fn a_row_s_counter_of_uncorrected_errors_tells_of_its_channels() {
    let rows = || fixture("intel-nehalem-csrow");
    assert!(look(&rows()).dimms.iter().all(|dimm| dimm.unread.is_empty()), "{:?}", look(&rows()).dimms);
    let found = look(&rows().file(format!("{MC}/mc0/csrow0/ue_count"), "\n"));
    for dimm in &found.dimms {
        let wanted = if dimm.id.starts_with("mc0/csrow0/") { &[Uncorrected][..] } else { &[] };
        assert_eq!(dimm.unread, wanted, "{}", dimm.id);
    }
}
