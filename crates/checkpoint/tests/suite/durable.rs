//! The durable tier on a disk that fails at every operation, and loses power at every operation.

use super::faulty::Faulty;
use super::image::payload;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use surefoot_checkpoint::generation::{Commit, GenerationId, Manifest, RegionEntry};
use surefoot_checkpoint::image::{Geometry, Healer, Protection, Source, fill};
use surefoot_checkpoint::tier::{Durable, DurableOptions};
use surefoot_checkpoint::{Error, Storage};
use surefoot_testkit::storage::{FaultyDisk, Plan};

const BASE: &str = "/ssd";

pub fn disk() -> FaultyDisk {
    let disk = FaultyDisk::new(Plan::default());
    disk.create_directory(Path::new(BASE)).unwrap();
    disk.sync_directory(Path::new("/")).unwrap();
    disk
}

fn open(disk: &FaultyDisk, protection: Protection) -> Result<Durable, Error> {
    let options = DurableOptions { queue_depth: 1, protection, ..DurableOptions::default() };
    Durable::open(Arc::new(Faulty(disk.clone())), Path::new(BASE), "job", options)
}

/// The payload of a generation: two ranks would write the same way.
fn content(number: u64) -> &'static [u8] {
    static CONTENTS: [OnceLock<Vec<u8>>; 8] = [const { OnceLock::new() }; 8];
    CONTENTS[number as usize].get_or_init(|| payload(70_000 + number as usize, number))
}

fn image(number: u64) -> &'static (Manifest, Vec<u8>) {
    static IMAGES: [OnceLock<(Manifest, Vec<u8>)>; 8] = [const { OnceLock::new() }; 8];
    IMAGES[number as usize].get_or_init(|| new_image(number))
}

fn new_image(number: u64) -> (Manifest, Vec<u8>) {
    let payload = content(number);
    let mut manifest = Manifest {
        job: "job".into(),
        generation: GenerationId { number, nonce: number * 31 },
        rank: 0,
        ranks: 1,
        taken_realtime_ns: number,
        payload_bytes: payload.len() as u64,
        protection: Protection::Shard,
        table_crc32c: 0,
        regions: vec![RegionEntry { name: "state".into(), bytes: payload.len() as u64 }],
    };
    let geometry = manifest.geometry().unwrap();
    let mut image = vec![0; geometry.file_bytes()];
    manifest.table_crc32c = fill(&geometry, &Source::new(vec![payload]), &mut image, &mut |_| {}).unwrap();
    (manifest, image)
}

/// Saves generations one after another; returns the number of the last that was reported as written.
pub fn save(disk: &FaultyDisk, numbers: std::ops::RangeInclusive<u64>, protection: Protection) -> u64 {
    let mut reported = 0;
    let Ok(durable) = open(disk, protection) else { return 0 };
    for number in numbers {
        let (manifest, image) = image(number);
        let commit = Commit { generation: manifest.generation, ranks: 1 };
        if durable.write(manifest, image).and_then(|_| durable.commit(commit)).is_ok() {
            reported = number;
            let _ = durable.prune();
        }
    }
    reported
}

/// The number of the newest generation that is whole, after checking every byte of it.
pub fn newest(disk: &FaultyDisk, protection: Protection) -> u64 {
    let durable = open(disk, protection).unwrap();
    for stored in durable.generations().unwrap() {
        let Ok(manifest) = durable.manifest(stored.generation, 0) else { continue };
        let Ok(file) = durable.image(stored.generation, 0, false) else { continue };
        let geometry = manifest.geometry().unwrap();
        let Ok(mut healer) = Healer::open(geometry, &*file, manifest.table_crc32c) else { continue };
        let mut back = vec![0; manifest.payload_bytes as usize];
        if healer.read(&mut |offset, some| back[offset as usize..][..some.len()].copy_from_slice(some)).is_ok() {
            assert!(back == content(manifest.generation.number), "wrong data in {:?}", manifest.generation);
            return manifest.generation.number;
        }
    }
    0
}

#[test]
fn what_was_written_is_there_and_the_oldest_goes_last() {
    for protection in [Protection::Checked, Protection::Shard] {
        let disk = disk();
        assert_eq!(save(&disk, 1..=5, protection), 5);
        assert_eq!(newest(&disk, protection), 5);
        let durable = open(&disk, protection).unwrap();
        let numbers: Vec<u64> = durable.generations().unwrap().iter().map(|stored| stored.generation.number).collect();
        assert_eq!(numbers, [5, 4]);
        for seed in 0..20 {
            assert_eq!(newest(&disk.after_power_loss(seed, Plan::default()), protection), 5);
        }
    }
}

#[test]
fn a_process_killed_at_any_operation_loses_nothing_that_was_reported() {
    let whole = disk();
    let reported = save(&whole, 1..=3, Protection::Checked);
    assert_eq!(reported, 3);
    let operations = whole.operations();
    assert!(operations > 40, "{operations}");
    for kill_at in 0..operations {
        let disk = disk().restarted(Plan { kill_at: Some(kill_at), ..Plan::default() });
        let reported = save(&disk, 1..=3, Protection::Checked);
        let found = newest(&disk.restarted(Plan::default()), Protection::Checked);
        assert!(found >= reported, "killed at {kill_at}: {reported} reported, {found} found");
    }
}

#[test]
fn power_lost_at_any_operation_loses_nothing_that_was_reported() {
    let whole = disk();
    save(&whole, 1..=3, Protection::Checked);
    for kill_at in 0..whole.operations() {
        let disk = disk().restarted(Plan { kill_at: Some(kill_at), ..Plan::default() });
        let reported = save(&disk, 1..=3, Protection::Checked);
        for seed in 0..12 {
            let found = newest(&disk.after_power_loss(seed, Plan::default()), Protection::Checked);
            assert!(found >= reported, "power lost at {kill_at}, seed {seed}: {reported} reported, {found} found");
        }
    }
}

#[test]
fn any_operation_may_fail_with_any_error_and_nothing_reported_is_lost() {
    let whole = disk();
    save(&whole, 1..=3, Protection::Checked);
    for error in [5, 28, 30] {
        for at in 0..whole.operations() {
            let failures = BTreeMap::from([(at, error)]);
            let disk = disk().restarted(Plan { failures, ..Plan::default() });
            let reported = save(&disk, 1..=3, Protection::Checked);
            let found = newest(&disk.restarted(Plan::default()), Protection::Checked);
            assert!(found >= reported, "error {error} at {at}: {reported} reported, {found} found");
            let found = newest(&disk.after_power_loss(at, Plan::default()), Protection::Checked);
            assert!(found >= reported, "error {error} at {at}, then power lost: {reported} reported, {found} found");
        }
    }
}

#[test]
fn a_full_disk_says_so_and_is_left_as_it_was() {
    let disk = disk();
    save(&disk, 1..=2, Protection::Checked);
    let full = disk.restarted(Plan { room_bytes: Some(400_000), ..Plan::default() });
    let durable = open(&full, Protection::Checked).unwrap();
    let (manifest, image) = image(3);
    let needed = durable.bytes_for(manifest.payload_bytes).unwrap();
    assert!(matches!(durable.room(needed * 9), Err(Error::NoRoom { .. })));
    let files = full.files();
    let tight = full.restarted(Plan { room_bytes: Some(300_000), ..Plan::default() });
    let durable = open(&tight, Protection::Checked).unwrap();
    let error = durable.write(manifest, image).unwrap_err();
    assert!(error.to_string().contains("cannot create /ssd/job/0000000003-"), "{error}");
    assert_eq!(tight.files(), files);
    assert_eq!(newest(&tight, Protection::Checked), 2);
}

#[test]
fn with_parity_a_bad_page_on_the_disk_is_repaired_and_without_the_older_one_is_taken() {
    for (protection, wanted) in [(Protection::Shard, 2), (Protection::Checked, 1)] {
        let disk = disk();
        save(&disk, 1..=2, protection);
        let newest_image = disk.files().into_iter().rfind(|path| path.extension().is_some_and(|kind| kind == "image"));
        disk.poison(&newest_image.unwrap(), 3).unwrap();
        assert_eq!(newest(&disk, protection), wanted, "{protection:?}");
    }
    let geometry = Geometry::new(1, Protection::Checked).unwrap();
    assert!(geometry.file_bytes() < Geometry::new(1, Protection::Shard).unwrap().file_bytes());
}

#[test]
fn files_of_others_and_hostile_manifests_are_passed_over() {
    let disk = disk();
    save(&disk, 1..=2, Protection::Checked);
    let storage = Faulty(disk.clone());
    let job = Path::new(BASE).join("job");
    for name in ["notes.txt", "0000000009-zz", "99999999999999999999999-0000000000000000"] {
        storage.create_file(&job.join(name), 10, false).unwrap();
    }
    let fake = job.join("0000000007-0000000000000007");
    storage.create_directory(&fake).unwrap();
    for (name, text) in [("rank-00000.manifest", &b"SFCKPT99"[..]), ("commit", &[0xFF; 5000])] {
        storage.create_file(&fake.join(name), 0, false).unwrap().write_at(text, 0).unwrap();
    }
    assert_eq!(newest(&disk, Protection::Checked), 2);
    let durable = open(&disk, Protection::Checked).unwrap();
    let stored = durable.generations().unwrap();
    assert_eq!((stored.len(), stored[0].committed_ranks), (3, None));
    let error = durable.manifest(stored[0].generation, 0).unwrap_err().to_string();
    assert!(error.contains("shorter") && error.contains("rank-00000.manifest"), "{error}");
}
