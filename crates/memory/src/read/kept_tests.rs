//! A reader that keeps its files open, as on the running host, against one that reads everything anew.

#![allow(clippy::unwrap_used)]
use super::*;
use crate::identity::{modules, refresh};
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};
use surefoot_testkit::HostTree;

const MC: &str = "sys/devices/system/edac/mc";
const FIXTURES: [&str; 4] = ["amd-zen-ranks", "hpe-ghes-4dimm", "intel-icelake-16dimm", "intel-nehalem-csrow"];

fn fixture(name: &str) -> HostTree {
    HostTree::unpacked(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/{name}.tree")))
}

fn keeping(tree: &HostTree) -> Reader {
    Reader { keeps_open: true, ..Reader::new(Root::at(tree.path())) }
}

fn anew(tree: &HostTree) -> Reading {
    Reader::new(Root::at(tree.path())).read().clone()
}

/// Adds to the number in a file, where there is one.
fn add(file: &Path, more: u64) {
    let Ok(text) = fs::read_to_string(file) else { return };
    // Garbage stays garbage.
    if let Ok(count) = text.trim().parse::<u64>() {
        fs::write(file, format!("{}\n", count + more)).unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() { copy(&from, &to) } else { assert!(fs::copy(from, to).is_ok()) }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Nothing,
    /// Corrected errors of a place, by numbers of controller and place.
    Corrected(usize, usize, u8),
    Uncorrected(usize, usize),
    /// Corrected errors of no known place.
    NoPlace(usize),
    /// Errors of every threshold block.
    Blocks(u8),
    Wait(u8),
    Reset(usize),
    /// A controller comes, or goes.
    Controller,
    /// The total of a controller cannot be read, or can again.
    Garbage(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (mc, place) = (0..4_usize, 0..20_usize);
    let step = prop_oneof![
        2 => Just(Step::Nothing),
        6 => (mc.clone(), place.clone(), 1..9_u8).prop_map(|(mc, place, more)| Step::Corrected(mc, place, more)),
        3 => (mc.clone(), place).prop_map(|(mc, place)| Step::Uncorrected(mc, place)),
        2 => mc.clone().prop_map(Step::NoPlace),
        2 => (1..9_u8).prop_map(Step::Blocks),
        3 => (1..99_u8).prop_map(Step::Wait),
        2 => mc.clone().prop_map(Step::Reset),
        1 => Just(Step::Controller),
        1 => mc.prop_map(Step::Garbage),
    ];
    prop::collection::vec(step, 1..10)
}

fn apply(step: &Step, tree: &HostTree, now: &Reading) {
    let all = tree.path().join(MC);
    let folder = |mc: &usize| all.join(&now.controllers[mc % now.controllers.len()].id);
    let place = |mc: &usize, place: &usize| {
        let places = &now.controllers[mc % now.controllers.len()].places;
        places[place % places.len()].name.clone()
    };
    let files = |mc: &usize, name: &str| -> Vec<PathBuf> {
        let own = folder(mc);
        match name.split_once('/') {
            // A channel of a row has its count beside that of its row.
            Some((row, channel)) => vec![own.join(format!("{row}/{channel}_ce_count")), own.join(row).join("ce_count")],
            None => vec![own.join(name).join("dimm_ce_count")],
        }
    };
    match step {
        Step::Nothing => {}
        Step::Corrected(mc, number, more) => {
            add(&folder(mc).join("ce_count"), u64::from(*more));
            files(mc, &place(mc, number)).iter().for_each(|file| add(file, u64::from(*more)));
        }
        Step::Uncorrected(mc, number) => {
            let name = place(mc, number);
            let own =
                name.split_once('/').map_or(format!("{name}/dimm_ue_count"), |(row, _)| format!("{row}/ue_count"));
            add(&folder(mc).join("ue_count"), 1);
            add(&folder(mc).join(own), 1);
        }
        Step::NoPlace(mc) => ["ce_count", "ce_noinfo_count"].iter().for_each(|file| add(&folder(mc).join(file), 1)),
        Step::Blocks(more) => {
            for block in &now.blocks {
                let bank = tree
                    .path()
                    .join(format!("sys/devices/system/machinecheck/machinecheck{}/{}", block.cpu, block.bank));
                ["dram_ecc", "dram"]
                    .iter()
                    .for_each(|dram| add(&bank.join(dram).join("error_count"), u64::from(*more)));
            }
        }
        Step::Wait(seconds) => {
            (0..now.controllers.len()).for_each(|mc| add(&folder(&mc).join("seconds_since_reset"), u64::from(*seconds)))
        }
        Step::Reset(mc) => {
            for place in &now.controllers[mc % now.controllers.len()].places {
                for file in files(mc, &place.name) {
                    fs::write(&file, "0\n").unwrap();
                    let _ = fs::write(file.with_file_name("dimm_ue_count"), "0\n");
                }
            }
            for file in ["ce_count", "ue_count", "ce_noinfo_count", "ue_noinfo_count", "seconds_since_reset"] {
                let _ = fs::write(folder(mc).join(file), "0\n");
            }
        }
        Step::Controller => {
            let other = all.join("mc200");
            if other.exists() { fs::remove_dir_all(other).unwrap() } else { copy(&all.join("mc0"), &other) }
        }
        Step::Garbage(mc) => {
            let file = folder(mc).join("ce_count");
            let is_number = fs::read_to_string(&file).unwrap().trim().parse::<u64>().is_ok();
            fs::write(file, if is_number { "garbage\n" } else { "7\n" }).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever happens between two readings, files that stayed open and modules that were told apart before give what everything
    /// read anew gives.
    #[test]
    fn what_is_kept_open_reads_as_what_is_opened_anew(fixture_number in 0..FIXTURES.len(), steps in steps()) {
        let tree = fixture(FIXTURES[fixture_number]);
        let (mut reader, mut kept) = (keeping(&tree), Vec::new());
        refresh(&mut kept, reader.read());
        for step in &steps {
            apply(step, &tree, reader.reading());
            let reading = reader.read();
            let wanted = anew(&tree);
            prop_assert_eq!(&Reading { news: News::Anything, ..reading.clone() }, &wanted, "{:?}", step);
            refresh(&mut kept, reading);
            prop_assert_eq!(&kept, &modules(&wanted), "{:?}", step);
        }
    }
}

#[test]
fn a_reading_says_what_of_it_can_be_new() {
    for name in FIXTURES {
        let tree = fixture(name);
        let mut reader = keeping(&tree);
        let first = anew(&tree);
        // Without such totals all is read each time.
        let has_totals = |one: &Controller| one.adds_up() == Some(true) && one.reset_s.is_some();
        let same = if first.controllers.iter().all(has_totals) { News::Times } else { News::Counts };
        assert!(same == News::Times || name == "hpe-ghes-4dimm");
        let mut news = |step: Step| {
            apply(&step, &tree, &first);
            reader.read().news
        };
        assert_eq!(news(Step::Nothing), News::Anything, "{name}: the first one");
        assert_eq!(news(Step::Nothing), same, "{name}");
        assert_eq!(news(Step::Wait(9)), same, "{name}");
        assert_eq!(news(Step::Corrected(0, 0, 1)), News::Counts, "{name}");
        assert_eq!(news(Step::Nothing), same, "{name}");
        assert_eq!(news(Step::Reset(0)), News::Counts, "{name}");
        assert_eq!(news(Step::Controller), News::Anything, "{name}");
        assert_eq!(news(Step::Garbage(0)), News::Anything, "{name}: a problem");
        assert_eq!(news(Step::Nothing), News::Anything, "{name}: and it is said again");
    }
}

/// Files of a tree may be replaced by others of the same name, which open ones would not show.
#[test]
fn files_of_a_tree_are_opened_anew_each_time() {
    let tree = fixture("hpe-ghes-4dimm");
    let mut reader = Reader::new(Root::at(tree.path()));
    let before = reader.read().controllers[0].corrected.unwrap();
    let count = tree.path().join(MC).join("mc0/ce_count");
    fs::remove_file(&count).unwrap();
    fs::write(&count, format!("{}\n", before + 1)).unwrap();
    assert_eq!(reader.read().controllers[0].corrected, Some(before + 1));
}

#[test]
fn errors_after_a_reset_are_seen_though_the_total_is_as_before() {
    let tree = fixture("intel-icelake-16dimm");
    let mut reader = keeping(&tree);
    apply(&Step::Corrected(0, 0, 5), &tree, &anew(&tree));
    apply(&Step::Wait(50), &tree, &anew(&tree));
    let before = reader.read().controllers[0].clone();
    assert!(before.places[0].corrected >= Some(5) && before.places[1].corrected.is_some());
    apply(&Step::Reset(0), &tree, &anew(&tree));
    let total = u8::try_from(before.corrected.unwrap()).unwrap();
    apply(&Step::Corrected(0, 1, total), &tree, &anew(&tree));
    let after = &reader.read().controllers[0];
    assert_eq!((after.corrected, after.places[0].corrected), (before.corrected, Some(0)));
    assert_eq!(after.places[1].corrected, before.corrected);
}

/// A file that would be a problem if it were read shows whether it is.
#[test]
fn only_what_a_total_says_is_another_number_is_read() {
    for (total, changed, others) in [("ce", "corrected", "dimm_ue_count"), ("ue", "uncorrected", "dimm_ce_count")] {
        let tree = fixture("intel-icelake-16dimm");
        let mut reader = keeping(&tree);
        assert_eq!(reader.read().controllers[0].adds_up(), Some(true));
        let step = if total == "ce" { Step::Corrected(0, 1, 3) } else { Step::Uncorrected(0, 1) };
        apply(&step, &tree, &anew(&tree));
        let wanted = anew(&tree);
        let folder = tree.path().join(MC).join("mc0");
        let other = folder.join("dimm0").join(others);
        let before = fs::read_to_string(&other).unwrap();
        fs::write(&other, "garbage\n").unwrap();
        let reading = reader.read();
        assert_eq!((reading.news, &reading.controllers), (News::Counts, &wanted.controllers), "{changed}");
        // Where the numbers do not add up after that, all are read.
        add(&folder.join(format!("{total}_count")), 1);
        assert_eq!(reader.read().news, News::Anything, "{changed}");
        assert!(!reader.reading().problems.is_empty(), "{changed}");
        fs::write(&other, before).unwrap();
        assert_eq!(reader.read().controllers[0].adds_up(), Some(false), "{changed}");
    }
}
