//! The durable tier on a disk that is made up: what a real one does only when its power fails.

use super::super::durable::{Save, disk, newest, save, save_straight};
use super::{Outcome, Row, Seed};
use std::collections::BTreeMap;
use std::path::PathBuf;
use surefoot_checkpoint::image::Protection;
use surefoot_testkit::storage::{FaultyDisk, Plan};

/// What befell a run after it had saved.
#[derive(Clone, Copy)]
enum Fault {
    Kill,
    PowerLoss,
    ReadError,
    WriteError,
    FullDisk,
    BadPage,
}

const FAULTS: [(Fault, &str); 6] = [
    (Fault::Kill, "killed at a file operation"),
    (Fault::PowerLoss, "power lost: unsynced writes torn, dropped, reordered"),
    (Fault::WriteError, "EIO at a file operation, fsync too"),
    (Fault::FullDisk, "ENOSPC at a file operation"),
    (Fault::ReadError, "EIO at a read"),
    (Fault::BadPage, "page that cannot be read"),
];

fn plan(fault: Fault, seed: &mut Seed, operations: u64) -> Plan {
    let at = seed.below(operations);
    match fault {
        Fault::Kill | Fault::PowerLoss => Plan { kill_at: Some(at), ..Plan::default() },
        Fault::WriteError => Plan { failures: BTreeMap::from([(at, 5)]), ..Plan::default() },
        Fault::FullDisk => Plan { failures: BTreeMap::from([(at, 28)]), ..Plan::default() },
        _ => Plan::default(),
    }
}

fn newest_of(disk: &FaultyDisk, kind: &str) -> Option<PathBuf> {
    disk.files().into_iter().rfind(|path| path.extension().is_some_and(|found| found == kind))
}

/// How it saves, with what protection, and how many operations three saves of one rank take at least.
type Way = (Save, Protection, u64);

fn run(fault: Fault, (save, protection, operations): Way, seed: &mut Seed) -> Outcome {
    let disk = disk().restarted(plan(fault, seed, operations));
    let reported = save(&disk, 1..=3, protection);
    let disk = match fault {
        Fault::PowerLoss => disk.after_power_loss(seed.below(u64::MAX), Plan::default()),
        _ => disk.restarted(Plan::default()),
    };
    if let (Fault::BadPage, Some(path)) = (fault, newest_of(&disk, "image")) {
        disk.poison(&path, seed.below(20)).unwrap();
    }
    let failures = match fault {
        // Opening takes a few operations; reading the checkpoint many.
        Fault::ReadError => BTreeMap::from([(8 + seed.below(30), 5)]),
        _ => BTreeMap::new(),
    };
    let disk = disk.restarted(Plan { failures, ..Plan::default() });
    // Looking for the newest checks every byte of what it finds: wrong data ends the test there.
    match newest(&disk, protection) {
        0 if reported > 0 => Outcome::Refused,
        found if found >= reported => Outcome::Whole,
        _ => Outcome::Older,
    }
}

pub fn rows() -> Vec<Row> {
    // Straight, each of a row's nineteen columns is a write of its own.
    let ways: [(Way, &str); 3] = [
        ((save, Protection::Checked, 64), "SSD, made up"),
        ((save, Protection::Shard, 64), "SSD with parity, made up"),
        ((save_straight, Protection::Shard, 118), "SSD with parity, straight, made up"),
    ];
    let rows = FAULTS.iter().flat_map(|&(fault, name)| {
        ways.map(move |(way, tier)| {
            let allowed: &[Outcome] = match (fault, way.1) {
                (Fault::ReadError, _) | (Fault::BadPage, Protection::Checked) => &[Outcome::Whole, Outcome::Older],
                _ => &[Outcome::Whole],
            };
            Row::new(name, tier, allowed, move |seed| run(fault, way, seed))
        })
    });
    rows.collect()
}
