//! The durable tier on a disk that fails at every operation, and loses power at every operation.

use super::faulty::Faulty;
use super::payload::payload;
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use surefoot_checkpoint::generation::{Commit, GenerationId, Manifest, RegionEntry};
use surefoot_checkpoint::image::{Geometry, Healer, Protection, Source, fill};
use surefoot_checkpoint::tier::{Durable, DurableOptions, StoredPart};
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

/// A part whose image is a file of its own.
pub fn part_of(manifest: &Manifest, image: &[u8]) -> StoredPart {
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(image, 0).unwrap();
    StoredPart::new(manifest.clone(), Box::new(file), "/memory/slot-0.image".into())
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
        epoch: 0,
    };
    let geometry = manifest.geometry().unwrap();
    let mut image = vec![0; geometry.file_bytes()];
    manifest.table_crc32c = fill(&geometry, &Source::new(vec![payload]), &mut image, &mut |_| {}).unwrap();
    (manifest, image)
}

/// Saves generations one after another; returns the number of the last that was reported as written.
pub fn save(disk: &FaultyDisk, numbers: std::ops::RangeInclusive<u64>, protection: Protection) -> u64 {
    save_by(disk, numbers, protection, |durable, number| {
        let (manifest, image) = image(number);
        durable.write(&part_of(manifest, image)).map(|written| written.bytes)
    })
}

/// As [`save`], straight from the program's memory.
pub fn save_straight(disk: &FaultyDisk, numbers: std::ops::RangeInclusive<u64>, protection: Protection) -> u64 {
    save_by(disk, numbers, protection, |durable, number| {
        durable.write_source(&image(number).0, &Source::new(vec![content(number)]))
    })
}

fn save_by(
    disk: &FaultyDisk,
    numbers: std::ops::RangeInclusive<u64>,
    protection: Protection,
    write: impl Fn(&Durable, u64) -> Result<u64, Error>,
) -> u64 {
    let mut reported = 0;
    let Ok(durable) = open(disk, protection) else { return 0 };
    for number in numbers {
        let commit = Commit { generation: image(number).0.generation, ranks: 1, epoch: 0 };
        if write(&durable, number).and_then(|_| durable.commit(commit)).is_ok() {
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

/// From an image in memory, and straight from the program's memory with parity that is computed on the way.
const WAYS: [(&str, Save, Protection); 2] =
    [("image", save, Protection::Checked), ("straight", save_straight, Protection::Shard)];

/// Saves some generations to a disk, and says the number of the last that was reported as written.
pub type Save = fn(&FaultyDisk, std::ops::RangeInclusive<u64>, Protection) -> u64;

#[test]
fn a_process_killed_at_any_operation_loses_nothing_that_was_reported() {
    for (way, save, protection) in WAYS {
        let whole = disk();
        let reported = save(&whole, 1..=3, protection);
        assert_eq!(reported, 3);
        let operations = whole.operations();
        assert!(operations > 40, "{operations}");
        for kill_at in 0..operations {
            let disk = disk().restarted(Plan { kill_at: Some(kill_at), ..Plan::default() });
            let reported = save(&disk, 1..=3, protection);
            let found = newest(&disk.restarted(Plan::default()), protection);
            assert!(found >= reported, "{way}, killed at {kill_at}: {reported} reported, {found} found");
        }
    }
}

#[test]
fn power_lost_at_any_operation_loses_nothing_that_was_reported() {
    for (way, save, protection) in WAYS {
        let whole = disk();
        save(&whole, 1..=3, protection);
        for kill_at in 0..whole.operations() {
            let disk = disk().restarted(Plan { kill_at: Some(kill_at), ..Plan::default() });
            let reported = save(&disk, 1..=3, protection);
            for seed in 0..12 {
                let found = newest(&disk.after_power_loss(seed, Plan::default()), protection);
                let what = format!("{way}, power lost at {kill_at}, seed {seed}");
                assert!(found >= reported, "{what}: {reported} reported, {found} found");
            }
        }
    }
}

#[test]
fn any_operation_may_fail_with_any_error_and_nothing_reported_is_lost() {
    for (way, save, protection) in WAYS {
        let whole = disk();
        save(&whole, 1..=3, protection);
        for error in [5, 28, 30] {
            for at in 0..whole.operations() {
                let failures = BTreeMap::from([(at, error)]);
                let disk = disk().restarted(Plan { failures, ..Plan::default() });
                let reported = save(&disk, 1..=3, protection);
                let what = format!("{way}, error {error} at {at}");
                let found = newest(&disk.restarted(Plan::default()), protection);
                assert!(found >= reported, "{what}: {reported} reported, {found} found");
                let found = newest(&disk.after_power_loss(at, Plan::default()), protection);
                assert!(found >= reported, "{what}, then power lost: {reported} reported, {found} found");
            }
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
    let error = durable.write(&part_of(manifest, image)).unwrap_err();
    assert!(error.to_string().contains("cannot create /ssd/job/0000000003-"), "{error}");
    assert_eq!(tight.files(), files);
    assert_eq!(newest(&tight, Protection::Checked), 2);
}

#[test]
fn what_is_written_is_the_image_that_was_asked_for_wherever_it_comes_from() {
    // Of less than a page, of a row, of a band of 64 rows and a byte more, and of several bands.
    for bytes in [0, 1, 65_536, 4 << 20, (4 << 20) + 1, 9_000_000] {
        let whole = payload(bytes, 5);
        let (left, right) = whole.split_at(bytes / 3);
        let source = Source::new(vec![left, right]);
        let of = |protection| Manifest {
            protection,
            payload_bytes: bytes as u64,
            regions: vec![RegionEntry { name: "state".into(), bytes: bytes as u64 }],
            ..image(1).0.clone()
        };
        let filled = |protection| {
            let geometry = of(protection).geometry().unwrap();
            let mut image = vec![0; geometry.file_bytes()];
            let table_crc32c = fill(&geometry, &source, &mut image, &mut |_| {}).unwrap();
            (Manifest { table_crc32c, ..of(protection) }, image)
        };
        for wanted in [Protection::Checked, Protection::Shard] {
            let is_as_asked = |what: &str, write: &dyn Fn(&Durable) -> Result<u64, Error>| {
                let disk = disk();
                // With several threads, which take the bands in any order.
                let options = DurableOptions { queue_depth: 4, protection: wanted, ..DurableOptions::default() };
                let durable = Durable::open(Arc::new(Faulty(disk)), Path::new(BASE), "job", options).unwrap();
                let written = write(&durable).unwrap();
                let (manifest, image) = filled(wanted);
                let file = durable.image(manifest.generation, 0, false).unwrap();
                let mut back = vec![0; file.length().unwrap() as usize];
                file.read_at(&mut back, 0).unwrap();
                assert!(back == image, "{what}, {bytes} bytes, {wanted:?}");
                assert_eq!(written, image.len() as u64);
                assert_eq!(written, durable.bytes_for(bytes as u64).unwrap());
                assert_eq!(durable.manifest(manifest.generation, 0).unwrap(), manifest);
                durable
            };
            for had in [Protection::Checked, Protection::Shard, Protection::Chip] {
                let (manifest, image) = filled(had);
                is_as_asked("from an image", &|durable| Ok(durable.write(&part_of(&manifest, &image))?.bytes));
            }
            let plain = Manifest { table_crc32c: 0, ..of(Protection::Chip) };
            is_as_asked("straight", &|durable| durable.write_source(&plain, &source));
            let (manifest, image) = filled(Protection::Checked);
            let other = open(&disk(), Protection::Checked).unwrap();
            other.write(&part_of(&manifest, &image)).unwrap();
            let part = other.part(manifest.generation, 0).unwrap();
            is_as_asked("copied", &|durable| Ok(durable.write_copy(&part)?.bytes));
        }
    }
}

/// A bit that flips in memory before the drive is reached must not become what the drive vouches for.
#[test]
fn what_went_bad_in_memory_is_healed_on_its_way_or_does_not_count() {
    let of = |protection| {
        let geometry = Geometry::new(content(1).len() as u64, protection).unwrap();
        let mut good = vec![0; geometry.file_bytes()];
        let table_crc32c = fill(&geometry, &Source::new(vec![content(1)]), &mut good, &mut |_| {}).unwrap();
        (Manifest { protection, table_crc32c, ..image(1).0.clone() }, good, geometry)
    };
    let protections = [Protection::Checked, Protection::Shard, Protection::Chip];
    for (had, wanted) in protections.iter().flat_map(|&had| protections.map(|wanted| (had, wanted))) {
        let (manifest, good, geometry) = of(had);
        let table = geometry.body_bytes();
        // A page of data, one of parity where there is any, an entry of the first table.
        for (what, at) in [("data", 66_000), ("the last page", table - 9), ("the table", table + 5)] {
            let (disk, mut bad) = (disk(), good.clone());
            bad[at] ^= 4;
            let durable = open(&disk, wanted).unwrap();
            let before = disk.files();
            let written = durable.write(&part_of(&manifest, &bad));
            let what = format!("{what}, from {had:?} to {wanted:?}");
            if had == Protection::Checked && at < table {
                let error = written.unwrap_err();
                let text = error.to_string();
                assert!(matches!(error, Error::Damaged { .. }), "{what}: {text}");
                assert!(text.contains("slot-0.image") && text.contains("not written elsewhere"), "{what}: {text}");
                assert_eq!(disk.files(), before, "{what}: nothing of it is left");
                continue;
            }
            let is_copied = at < table && (at == 66_000 || had == wanted);
            assert_eq!(written.unwrap().healed_pages, u64::from(is_copied), "{what}");
            assert_eq!(newest(&disk, wanted), 1, "{what}");
            let file = durable.image(manifest.generation, 0, false).unwrap();
            let mut back = vec![0; file.length().unwrap() as usize];
            file.read_at(&mut back, 0).unwrap();
            assert!(back == of(wanted).1, "{what}: it is as if nothing had been bad");
        }
        // Both tables: no page can be proved then, unless all of them together are.
        let mut bad = good.clone();
        for at in [66_000, table + 5, table + geometry.table_bytes() + 5] {
            bad[at] ^= 4;
        }
        let disk = disk();
        let written = open(&disk, wanted).unwrap().write(&part_of(&manifest, &bad));
        assert!(written.is_err() || newest(&disk, wanted) == 1, "from {had:?} to {wanted:?}");
    }
}

#[test]
fn with_parity_a_bad_page_on_the_disk_is_repaired_and_without_the_older_one_is_taken() {
    let (shard, checked) = (Protection::Shard, Protection::Checked);
    let ways: [(Save, Protection, u64); 4] =
        [(save, shard, 2), (save, checked, 1), (save_straight, shard, 2), (save_straight, checked, 1)];
    for (save, protection, wanted) in ways {
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
    assert!(error.contains("it is cut to 8 bytes") && error.contains("rank-00000.manifest"), "{error}");
}

#[test]
fn a_mark_that_may_not_be_on_the_disk_keeps_nothing_and_takes_no_older_one_away() {
    let (before, mut refusals) = (disk(), 0);
    assert_eq!(save(&before, 1..=2, Protection::Checked), 2);
    // One operation of the third save fails, or that one and the removal of the mark after it.
    for (at, count) in (0..60).flat_map(|at| [(at, 1), (at, 3)]) {
        let failures = (at..at + count).map(|at| (at, 5)).collect();
        let disk = before.restarted(Plan { failures, ..Plan::default() });
        if save(&disk, 3..=3, Protection::Checked) == 3 {
            continue;
        }
        refusals += 1;
        let Ok(durable) = open(&disk, Protection::Checked) else { continue };
        durable.abandon(image(3).0.generation, 0);
        assert_eq!(save(&disk, 4..=4, Protection::Checked), 4);
        let whole = durable.generations().unwrap().into_iter().filter(|stored| {
            let is_whole = durable.manifest(stored.generation, 0).is_ok();
            assert!(is_whole || count > 1 || stored.committed_ranks.is_none(), "{at}: a ghost {stored:?}");
            is_whole && stored.committed_ranks.is_some()
        });
        let whole: Vec<u64> = whole.map(|stored| stored.generation.number).collect();
        assert_eq!(whole, [4, 2], "operation {at} of the third save failed, and {count} with it");
    }
    assert!(refusals > 20, "{refusals}");
}
