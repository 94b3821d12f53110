//! Real processes that are killed, or told that a system call failed, at a place that the seed chooses.

use super::super::kill::{PLACES, points, run, run_restart};
use super::super::payload::payload;
use super::super::traced::{Fate, can_trace};
use super::{Outcome, Row, Seed};
use std::panic::{AssertUnwindSafe, catch_unwind};
use surefoot_checkpoint::generation::{GenerationId, Manifest, RegionEntry};
use surefoot_checkpoint::image::{Healer, Protection, Source};
use surefoot_checkpoint::tier::Memory;
use surefoot_checkpoint::{Disk, Storage};

fn saving(place: &'static str, fate: Fate, seed: &mut Seed) -> Result<Outcome, String> {
    can_trace()?;
    let at = seed.below(points("saving", run, place, fate));
    let met = run(place, Some(at), fate);
    assert!(met.found >= met.reported, "lost at {at}: {:?}, {:?}", met.ended, met.said);
    assert!(fate == Fate::Kill || met.ended.code == Some(0), "it ended at {at}: {:?}", met.ended);
    Ok(if met.ended.said.contains("failed ") { Outcome::Refused } else { Outcome::Whole })
}

fn restarting(place: &'static str, fate: Fate, seed: &mut Seed) -> Result<Outcome, String> {
    can_trace()?;
    let at = seed.below(points("restarting", run_restart, place, fate));
    let met = run_restart(place, Some(at), fate);
    // Whatever befell one restart, the next finds all that there was.
    assert_eq!(met.found, met.reported, "lost at {at}: {:?}, {:?}", met.ended, met.said);
    if fate == Fate::Kill {
        return Ok(Outcome::Whole);
    }
    assert_eq!(met.ended.code, Some(0), "it ended at {at}: {:?}", met.ended);
    let line = met.ended.said.lines().find_map(|line| {
        let words = ["at ", "refused: ", "nothing"];
        words.iter().find_map(|word| line.find(word).map(|start| &line[start..]))
    });
    let line = line.unwrap_or_else(|| panic!("it said nothing at {at}: {:?}", met.ended));
    let newest = format!("at {}: ", met.reported);
    Ok(match () {
        () if line.starts_with("nothing") => panic!("it saw nothing of what was there, at {at}: {:?}", met.ended),
        () if line.starts_with("refused: ") => Outcome::Refused,
        () if !line.starts_with(&newest) => Outcome::Older,
        () if line.contains("refused: ") || place == "both" && line.contains("from the SSD") => Outcome::Elsewhere,
        () if line.contains(" repaired") => Outcome::Repaired,
        () => Outcome::Whole,
    })
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
        epoch: 0,
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
    use Outcome::{Elsewhere, Older, Refused, Repaired, Whole};
    let saves = [
        ("SIGKILL at a system call of a save", Fate::Kill, &[Whole][..]),
        ("EIO at a system call of a save", Fate::Error(libc::EIO), &[Whole, Refused]),
        ("ENOSPC at a system call of a save", Fate::Error(libc::ENOSPC), &[Whole, Refused]),
        ("EIO at an fsync of a save", Fate::ErrorOf("fsync", libc::EIO), &[Whole, Refused]),
    ];
    let any: &'static [Outcome] = &[Whole, Repaired, Elsewhere, Older, Refused];
    let restarts = [
        ("SIGKILL at a system call of a restart", Fate::Kill, &[Whole][..]),
        ("EIO at a system call of a restart", Fate::Error(libc::EIO), any),
        ("EIO at a read of a restart", Fate::ErrorOf("pread64", libc::EIO), any),
    ];
    let row = |&(fault, fate, allowed): &(&'static str, Fate, &'static [Outcome])| {
        PLACES.map(|(place, tier)| Row::where_possible(fault, tier, allowed, move |seed| saving(place, fate, seed)))
    };
    let restart = |&(fault, fate, allowed): &(&'static str, Fate, &'static [Outcome])| {
        PLACES.map(|(place, tier)| Row::where_possible(fault, tier, allowed, move |seed| restarting(place, fate, seed)))
    };
    let copy = Row::new("stopped in the middle of the copy", "memory", &[Whole], stopped_in_the_copy);
    saves.iter().flat_map(row).chain(restarts.iter().flat_map(restart)).chain([copy]).collect()
}
