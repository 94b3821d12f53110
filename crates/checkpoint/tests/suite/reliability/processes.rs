//! Real processes that are killed, or told that a system call failed, at a place that the seed chooses.

use super::super::image::payload;
use super::super::kill::{PLACES, can_trace, points, run};
use super::super::traced::Fate;
use super::{Outcome, Row, Seed};
use std::panic::{AssertUnwindSafe, catch_unwind};
use surefoot_checkpoint::generation::{GenerationId, Manifest, RegionEntry};
use surefoot_checkpoint::image::{Healer, Protection, Source};
use surefoot_checkpoint::tier::Memory;
use surefoot_checkpoint::{Disk, Storage};

fn traced(place: &str, fate: Fate, seed: &mut Seed) -> Result<Outcome, String> {
    can_trace()?;
    let at = seed.below(points(place, fate));
    let met = run(place, Some(at), fate);
    assert!(met.found >= met.reported, "lost at {at}: {:?}, {:?}", met.ended, met.said);
    assert!(fate == Fate::Kill || met.ended.code == Some(0), "it ended at {at}: {:?}", met.ended);
    Ok(if met.ended.said.contains("failed ") { Outcome::Refused } else { Outcome::Whole })
}

/// Stops a save in memory after some rows of the copy, and looks for the one before it.
fn stopped_in_the_copy(seed: &mut Seed) -> Outcome {
    let home = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let contents: Vec<Vec<u8>> = (0..4).map(|number| payload(1_000_000, number)).collect();
    let manifest = |number: u64| Manifest {
        job: "job".into(),
        generation: GenerationId { number, nonce: number },
        rank: 0,
        ranks: 1,
        taken_realtime_ns: number,
        payload_bytes: 1_000_000,
        protection: Protection::Shard,
        table_crc32c: 0,
        regions: vec![RegionEntry { name: "state".into(), bytes: 1_000_000 }],
    };
    let source = |number: u64| Source::new(vec![&contents[number as usize][..]]);
    let mut memory = Memory::open(home.path(), "job", 0, 2).unwrap();
    (1..=2).for_each(|number| _ = memory.save(manifest(number), &source(number), &mut |_| ()).unwrap());
    let mut steps = 1 + seed.below(4);
    let stopped = catch_unwind(AssertUnwindSafe(|| {
        let mut step = |_| {
            steps -= 1;
            if steps == 0 {
                std::panic::resume_unwind(Box::new("stopped"));
            }
        };
        memory.save(manifest(3), &source(3), &mut step).map(drop)
    }));
    assert!(stopped.is_err(), "there were fewer steps");
    drop(memory);
    let memory = Memory::open(home.path(), "job", 0, 2).unwrap();
    let found: Vec<_> = memory.manifests().collect();
    let [(slot, newest)] = found[..] else { panic!("{found:?}") };
    assert_eq!(newest.generation.number, 2);
    let file = Disk.open_file(&memory.image_path(slot), false).unwrap();
    let mut healer = Healer::open(newest.geometry().unwrap(), &*file, newest.table_crc32c).unwrap();
    let mut back = vec![0; 1_000_000];
    healer.read(&mut |offset, some| back[offset as usize..][..some.len()].copy_from_slice(some)).unwrap();
    assert!(back == contents[2], "wrong data");
    Outcome::Whole
}

pub fn rows() -> Vec<Row> {
    let faults = [
        ("SIGKILL at a system call", Fate::Kill, &[Outcome::Whole][..]),
        ("EIO at a system call", Fate::Error(libc::EIO), &[Outcome::Whole, Outcome::Refused]),
        ("ENOSPC at a system call", Fate::Error(libc::ENOSPC), &[Outcome::Whole, Outcome::Refused]),
    ];
    let row = |&(fault, fate, allowed): &(&'static str, Fate, &'static [Outcome])| {
        PLACES.map(|(place, tier)| Row::where_possible(fault, tier, allowed, move |seed| traced(place, fate, seed)))
    };
    let copy = Row::new("stopped in the middle of the copy", "memory", &[Outcome::Whole], stopped_in_the_copy);
    faults.iter().flat_map(row).chain([copy]).collect()
}
