//! Files that are missing, empty, garbled, too large, links or gone in the middle: a problem each, and the others go on.

use super::tree::{MC, controller, dimm, look};
use proptest::prelude::*;
use std::process::Command;
use surefoot_model::Fidelity;
use surefoot_testkit::HostTree;

fn machine() -> HostTree {
    controller(controller(HostTree::new(), 0, &[5, 0]), 1, &[7])
}

#[test]
fn a_wrong_file_is_one_problem_and_the_rest_is_counted() {
    let count = format!("{MC}/mc0/dimm0/dimm_ce_count");
    for (content, words) in [
        (&b""[..], "empty"),
        (b"garbage\n", "'garbage', which is no count"),
        (b"-3\n", "never negative"),
        (b"99999999999999999999999999\n", "more than a counter"),
        (b"4294967296\n", "more than a counter"),
        (&[0xff; 5000], "longer than"),
        (b"\x1b[2J\n", "'?[2J'"),
    ] {
        let look = look(&machine().file(&count, content));
        assert_eq!(look.problems.len(), 1, "{:?}", look.problems);
        let problem = &look.problems[0];
        assert!(problem.path.ends_with(&count) && problem.why.contains(words), "{problem:?}");
        assert!(!problem.why.contains(char::is_control));
        let wrong = dimm(&look, "mc0/dimm0");
        assert_eq!((wrong.corrected(), wrong.fidelity), (0, Fidelity::LowerBound));
        assert_eq!((dimm(&look, "mc1/dimm0").corrected(), dimm(&look, "mc1/dimm0").fidelity), (7, Fidelity::Exact));
        assert_eq!((look.controllers[0].adds_up, look.controllers[1].adds_up), (None, Some(true)));
    }
}

#[test]
fn what_is_missing_is_named() {
    for file in ["ce_count", "ue_noinfo_count", "mc_name", "dimm0/dimm_ce_count", "dimm1/dimm_ue_count"] {
        let path = format!("{MC}/mc0/{file}");
        let look = look(&machine().without(&path));
        assert!(look.problems.len() == 1 && look.problems[0].path.ends_with(&path), "{file}: {:?}", look.problems);
        assert_eq!(look.dimms.len(), 3);
    }
    // Drivers need not have these.
    for file in ["seconds_since_reset", "dimm0/dimm_label", "dimm0/size"] {
        assert!(look(&machine().without(format!("{MC}/mc0/{file}"))).problems.is_empty(), "{file}");
    }
}

#[test]
fn links_folders_and_pipes_in_the_place_of_files_are_not_followed() {
    let count = format!("{MC}/mc0/dimm0/dimm_ce_count");
    let outside = HostTree::new().file("secret", "42\n");
    let linked = machine().without(&count).link(&count, outside.path().join("secret"));
    let found = look(&linked);
    assert!(found.problems[0].why.contains("symbolic link"), "{:?}", found.problems);
    assert_eq!(dimm(&found, "mc0/dimm0").corrected(), 0);
    let found = look(&machine().without(&count).folder(&count));
    assert!(found.problems[0].why.contains("is a folder"), "{:?}", found.problems);
    let pipe = machine().without(&count);
    let made = Command::new("mkfifo").arg(pipe.path().join(&count)).status().unwrap();
    assert!(made.success());
    let found = look(&pipe);
    assert!(found.problems[0].why.contains("is a pipe"), "{:?}", found.problems);
    let controllers = machine().link(format!("{MC}/mc7"), "mc1").link(format!("{MC}/mc1/dimm9"), "dimm0");
    let found = look(&controllers);
    assert_eq!((found.dimms.len(), found.problems.len()), (3, 2), "{:?}", found.problems);
}

#[test]
fn names_that_the_kernel_does_not_give_are_no_controllers() {
    let mut tree = machine();
    for name in ["mc", "mc01", "mc-1", "mc99999999999", "mcx", "power", "mc2.old"] {
        tree = tree.folder(format!("{MC}/{name}"));
    }
    assert_eq!(look(&tree).controllers.len(), 2);
}

#[test]
fn too_many_controllers_and_modules_are_left_out_and_counted() {
    let mut tree = HostTree::new();
    for index in 0..260 {
        tree = tree.folder(format!("{MC}/mc{index}"));
    }
    let found = look(&tree);
    assert_eq!(found.controllers.len(), 256);
    assert!(found.problems[0].why.starts_with("4 controllers more"), "{:?}", found.problems[0]);
    assert!(found.problems.len() == 100 && found.problems_left_out > 1_000);
    let mut tree = controller(HostTree::new(), 0, &[1]);
    for dimm in 1..1_030 {
        tree = tree.folder(format!("{MC}/mc0/dimm{dimm}"));
    }
    let found = look(&tree);
    assert_eq!(found.dimms.len(), 1_024);
    assert!(found.problems.iter().any(|problem| problem.why.starts_with("6 folders dimmX more")));
    let long = controller(HostTree::new(), 0, &[1])
        .file(format!("{MC}/mc0/dimm0/dimm_label"), format!("A\u{1b}[31m{}\n", "b".repeat(3_000)));
    let label = &look(&long).dimms[0].label;
    assert!(label.chars().count() == 128 && !label.contains('\u{1b}'), "{label:?}");
}

/// Somebody unloads and loads the driver all the time while it is read.
#[test]
fn a_folder_that_vanishes_in_the_middle_harms_nobody() {
    let tree = machine();
    let (here, away) = (tree.path().join(MC).join("mc0"), tree.path().join("away"));
    let stop = std::sync::atomic::AtomicBool::new(false);
    let begun = std::time::Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = std::fs::rename(&here, &away);
                let _ = std::fs::rename(&away, &here);
            }
        });
        let (mut whole, mut torn, mut is_other_well) = (0, 0, true);
        // On a busy machine the other thread may stand still for hundreds of looks.
        while is_other_well && (whole + torn < 500 || whole.min(torn) == 0) && begun.elapsed().as_secs() < 120 {
            let look = look(&tree);
            is_other_well = dimm(&look, "mc1/dimm0").corrected() == 7;
            if look.dimms.len() == 3 && look.problems.is_empty() { whole += 1 } else { torn += 1 }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(is_other_well && whole > 0 && torn > 0, "{is_other_well}, {whole} whole, {torn} torn");
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever stands in whichever file: no panic, no control characters, and the other controller as before.
    #[test]
    fn any_bytes_in_any_file_are_borne(file in 0..9_usize, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let names = [
            "mc_name", "ce_count", "ce_noinfo_count", "seconds_since_reset", "dimm0/dimm_ce_count", "dimm0/dimm_label",
            "dimm0/dimm_location", "dimm0/size", "dimm0/dimm_edac_mode",
        ];
        let found = look(&machine().file(format!("{MC}/mc0/{}", names[file]), bytes));
        prop_assert_eq!(dimm(&found, "mc1/dimm0").corrected(), 7);
        let texts = found.dimms.iter().flat_map(|dimm| [&dimm.id, &dimm.label]);
        let texts = texts.chain(found.problems.iter().map(|problem| &problem.why));
        for text in texts.chain(found.controllers.iter().map(|one| &one.name)) {
            prop_assert!(!text.contains(char::is_control), "{:?}", text);
        }
    }
}
