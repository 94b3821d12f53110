//! Many runs by seed: saves that are killed, lose power or meet errors, and files that go bad afterwards. Whatever was
//! reported as written comes back bit by bit unless more was broken than the code repairs; wrong data never comes back.
//!
//! SUREFOOT_SOAK=10000 sets how many runs; `make soak` does. A seed that fails is printed; SUREFOOT_SEED=N runs it alone.

use super::durable::{disk, newest, save};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use surefoot_checkpoint::image::Protection;
use surefoot_testkit::storage::{FaultyDisk, Plan};

/// Runs in an ordinary test.
const RUNS: u64 = 400;

/// What befell a run after it had saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    None,
    Kill,
    PowerLoss,
    ReadError,
    WriteError,
    FullDisk,
    BitFlip,
    ZeroPage,
    BadPage,
    Truncation,
    SwappedFiles,
    StaleManifest,
    LostManifest,
}

const FAULTS: [Fault; 13] = [
    Fault::None,
    Fault::Kill,
    Fault::PowerLoss,
    Fault::ReadError,
    Fault::WriteError,
    Fault::FullDisk,
    Fault::BitFlip,
    Fault::ZeroPage,
    Fault::BadPage,
    Fault::Truncation,
    Fault::SwappedFiles,
    Fault::StaleManifest,
    Fault::LostManifest,
];

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// The newest that was reported, or a newer one that was not.
    Newest,
    /// An older one that is intact.
    Older,
    /// Nothing, and it said so.
    Nothing,
}

struct Seed(u64);

impl Seed {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31) % limit.max(1)
    }
}

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

/// Breaks something in the newest checkpoint.
fn damage(fault: Fault, seed: &mut Seed, disk: &FaultyDisk) {
    let Some(path) = newest_of(disk, "image") else { return };
    let place = seed.next_place();
    let change = |change: &dyn Fn(&mut Vec<u8>)| disk.corrupt(&path, |bytes| change(bytes)).unwrap();
    match fault {
        Fault::BitFlip => change(&|bytes| {
            let at = place as usize % bytes.len();
            bytes[at] ^= 1 << (place >> 61);
        }),
        Fault::ZeroPage => change(&|bytes| {
            let at = place as usize % (bytes.len() / 4096) * 4096;
            bytes[at..at + 4096].fill(0);
        }),
        Fault::BadPage => disk.poison(&path, place % 20).unwrap(),
        Fault::Truncation => change(&|bytes| bytes.truncate(place as usize % bytes.len())),
        Fault::SwappedFiles => {
            let images: Vec<PathBuf> =
                disk.files().into_iter().filter(|found| found.extension() == path.extension()).collect();
            if let [.., old, new] = &images[..] {
                let side = Path::new("/ssd/side");
                disk.rename(old, side)
                    .and_then(|()| disk.rename(new, old))
                    .and_then(|()| disk.rename(side, new))
                    .unwrap();
            }
        }
        Fault::StaleManifest => {
            let manifests: Vec<PathBuf> = disk
                .files()
                .into_iter()
                .filter(|found| found.extension().is_some_and(|kind| kind == "manifest"))
                .collect();
            if let [.., old, new] = &manifests[..] {
                disk.rename(old, new).unwrap();
            }
        }
        Fault::LostManifest => disk.remove_file(&path.with_extension("manifest")).unwrap(),
        _ => {}
    }
}

impl Seed {
    fn next_place(&mut self) -> u64 {
        self.below(u64::MAX)
    }
}

/// One run; returns the fault, what was protected how, and what came of it.
fn run(number: u64) -> (Fault, Protection, Outcome) {
    let mut seed = Seed(number);
    let fault = FAULTS[(number % FAULTS.len() as u64) as usize];
    let protection = if seed.below(2) == 0 { Protection::Checked } else { Protection::Shard };
    // Three saves of one rank take a little over sixty operations.
    let disk = disk().restarted(plan(fault, &mut seed, 64));
    let reported = save(&disk, 1..=3, protection);
    let disk = match fault {
        Fault::PowerLoss => disk.after_power_loss(number, Plan::default()),
        _ => disk.restarted(Plan::default()),
    };
    damage(fault, &mut seed, &disk);
    let failures = match fault {
        // Opening takes a few operations; reading the checkpoint many.
        Fault::ReadError => BTreeMap::from([(8 + seed.below(30), 5)]),
        _ => BTreeMap::new(),
    };
    let disk = disk.restarted(Plan { failures, ..Plan::default() });
    // Looking for the newest checks every byte of what it finds: wrong data ends the test there.
    let found = newest(&disk, protection);
    let outcome = match found {
        0 if reported == 0 => Outcome::Newest,
        0 => Outcome::Nothing,
        found if found >= reported => Outcome::Newest,
        _ => Outcome::Older,
    };
    (fault, protection, outcome)
}

/// Whether a fault breaks one checkpoint at most as much as its protection repairs.
fn must_be_newest(fault: Fault, protection: Protection) -> bool {
    match fault {
        Fault::None | Fault::Kill | Fault::PowerLoss | Fault::WriteError | Fault::FullDisk => true,
        Fault::BitFlip | Fault::ZeroPage | Fault::BadPage => protection == Protection::Shard,
        _ => false,
    }
}

#[test]
fn seeded_runs_lose_nothing_that_was_reported() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("SUREFOOT_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SUREFOOT_SOAK").unwrap_or(RUNS),
    };
    let mut table: BTreeMap<(Fault, &str, Outcome), u64> = BTreeMap::new();
    for seed in seeds {
        let (fault, protection, outcome) = run(seed);
        *table.entry((fault, protection.label(), outcome)).or_default() += 1;
        assert!(
            outcome == Outcome::Newest || !must_be_newest(fault, protection),
            "seed {seed}: {fault:?} under {protection:?} gave {outcome:?}"
        );
        // Files that were exchanged break both checkpoints that are kept; everything else leaves the older one.
        let breaks_both = matches!(fault, Fault::SwappedFiles | Fault::StaleManifest);
        assert!(
            outcome != Outcome::Nothing || breaks_both,
            "seed {seed}: {fault:?} under {protection:?}: nothing left"
        );
    }
    println!("| fault | protection | outcome | runs |\n|---|---|---|---|");
    for ((fault, protection, outcome), runs) in table {
        println!("| {fault:?} | {protection} | {outcome:?} | {runs} |");
    }
}
