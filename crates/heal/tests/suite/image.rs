//! Images that go bad in every way, and what comes back.

use super::faulty::Faulty;
use super::payload::payload;
use proptest::prelude::*;
use std::path::Path;
use surefoot_ecc::coverage::shards::{DATA_SHARDS, End, end_of_read};
use surefoot_ecc::coverage::stripe_trials::crc32c_of_damage;
use surefoot_heal::Storage;
use surefoot_heal::image::{Geometry, Healer, Lost, PAGE_BYTES, Protection, Source, Tally, fill};
use surefoot_testkit::storage::{FaultyDisk, Plan};

const FILE: &str = "/image";

struct Saved {
    geometry: Geometry,
    disk: FaultyDisk,
    payload: Vec<u8>,
    digest: u32,
}

fn saved(bytes: usize, protection: Protection) -> Saved {
    let payload = payload(bytes, bytes as u64);
    let geometry = Geometry::new(bytes as u64, protection).unwrap();
    let mut image = vec![0xEE; geometry.file_bytes()];
    let (left, right) = payload.split_at(bytes / 3);
    let digest = fill(&geometry, &Source::new(vec![left, right]), &mut image, &mut |_| {}).unwrap();
    let disk = FaultyDisk::new(Plan::default());
    disk.create_file(Path::new(FILE), 0).unwrap().write_at(&image, 0).unwrap();
    Saved { geometry, disk, payload, digest }
}

impl Saved {
    fn restore(&self) -> Result<(Vec<u8>, Tally), Lost> {
        let storage = Faulty(self.disk.clone());
        let file = storage.open_file(Path::new(FILE), true).unwrap();
        let mut healer = Healer::open(self.geometry, &*file, self.digest)?;
        let mut bytes = vec![0; self.payload.len()];
        healer.read(&mut |offset, some| bytes[offset as usize..][..some.len()].copy_from_slice(some))?;
        Ok((bytes, healer.tally()))
    }

    fn scrub(&self) -> Result<Tally, Lost> {
        let storage = Faulty(self.disk.clone());
        let file = storage.open_file(Path::new(FILE), true).unwrap();
        Healer::open(self.geometry, &*file, self.digest)?.scrub()
    }

    fn change(&self, change: impl FnOnce(&mut Vec<u8>)) {
        self.disk.corrupt(Path::new(FILE), change).unwrap();
    }

    fn page(&self, column: usize, row: usize) -> usize {
        column * self.geometry.rows() + row
    }
}

#[test]
fn what_is_whole_comes_back_and_nothing_is_said() {
    for protection in [Protection::Shard, Protection::Chip, Protection::Checked] {
        for bytes in [0, 1, 4095, 4096, 65_536, 65_537, 300_000, 1_000_000] {
            let saved = saved(bytes, protection);
            let (back, tally) = saved.restore().unwrap();
            assert!(back == saved.payload, "{protection:?} {bytes}");
            assert!(tally.is_clean(), "{tally:?}");
            assert!(saved.scrub().unwrap().is_clean());
        }
    }
}

/// Damage that a checksum of the page does not show: the generator itself, and its rest in the four bytes behind.
fn unseen() -> [u8; 5] {
    let rest = crc32c_of_damage(&[0x5A]).to_le_bytes();
    [0x5A, rest[0], rest[1], rest[2], rest[3]]
}

/// `surefoot ecc coverage --code shards_crc` says how it ends when a damaged page escapes its checksum; this is the decoder that
/// it speaks of.
#[test]
fn what_escapes_its_checksum_ends_as_the_coverage_table_says() {
    assert_eq!(crc32c_of_damage(&unseen()), 0);
    let columns = [0, 7, 15, 16, 18];
    let mut ends = [0; 3];
    for chosen in 1..1u32 << columns.len() {
        let chosen: Vec<usize> = (0..columns.len()).filter(|at| chosen >> at & 1 == 1).map(|at| columns[at]).collect();
        for shown in 0..1u32 << chosen.len().min(4) {
            let damaged: Vec<(usize, bool)> =
                chosen.iter().enumerate().take(4).map(|(at, &column)| (column, shown >> at & 1 == 1)).collect();
            let saved = saved(DATA_SHARDS * PAGE_BYTES, Protection::Shard);
            assert_eq!(saved.geometry.rows(), 1);
            saved.change(|image| {
                for &(column, is_shown) in &damaged {
                    let damage: &[u8] = if is_shown { &[0x5A] } else { &unseen() };
                    let at = saved.page(column, 0) * PAGE_BYTES + 100;
                    image[at..].iter_mut().zip(damage).for_each(|(byte, wrong)| *byte ^= wrong);
                }
            });
            let end = match saved.restore() {
                Err(_) => End::Detected,
                Ok((back, _)) if back == saved.payload => End::Corrected,
                Ok(_) => End::Silent,
            };
            assert_eq!(end, end_of_read(&damaged).unwrap_or(End::Detected), "{damaged:?}");
            ends[end as usize] += 1;
        }
    }
    assert!(ends.iter().all(|&count| count > 0), "{ends:?}");
}

#[test]
fn three_bad_pages_of_every_row_are_repaired_and_four_are_never_taken_for_good() {
    let saved = saved(500_000, Protection::Shard);
    let rows = saved.geometry.rows();
    for row in 0..rows {
        for (column, how) in [(row % 16, 0), ((row + 5) % 16, 1), (16 + row % 3, 2)] {
            let page = saved.page(column, row);
            match how {
                0 => saved.change(|bytes| bytes[page * PAGE_BYTES + 77] ^= 4),
                1 => saved.change(|bytes| bytes[page * PAGE_BYTES..][..PAGE_BYTES].fill(0)),
                _ => saved.disk.poison(Path::new(FILE), page as u64).unwrap(),
            }
        }
    }
    let (back, tally) = saved.restore().unwrap();
    assert!(back == saved.payload);
    // Each row is mended once for each of its bad pages that is asked for, and counted once.
    assert_eq!((tally.pages_bad, tally.pages_repaired), (3 * rows as u64, 3 * rows as u64), "{tally:?}");
    assert_eq!((tally.pages_read, tally.pages_refused), (saved.geometry.pages() as u64, rows as u64), "{tally:?}");
    let scrubbed = saved.scrub().unwrap();
    assert_eq!((scrubbed.pages_bad, scrubbed.pages_repaired), (3 * rows as u64, 3 * rows as u64));
    assert_eq!(scrubbed.pages_refused, rows as u64);
    assert!(saved.scrub().unwrap().is_clean(), "what was scrubbed is whole");
    for column in 2..6 {
        let page = saved.page(column, 1);
        saved.change(|bytes| bytes[page * PAGE_BYTES] ^= 1);
    }
    assert_eq!(saved.restore().unwrap_err(), Lost::Row { row: 1, bad: 4, of: 19, by: Protection::Shard });
}

#[test]
fn a_cut_end_and_a_bad_stretch_are_repaired() {
    let saved = saved(3_000_000, Protection::Shard);
    // Both tables are behind the cut: that all of the rest gives the digest of the manifest proves it.
    let body = saved.geometry.body_bytes();
    saved.change(|bytes| bytes.truncate(body));
    let (back, tally) = saved.restore().unwrap();
    assert!(back == saved.payload);
    assert_eq!(tally.tables_bad, 2);
    // Without them, what is bad cannot be told from what is not.
    saved.change(|bytes| bytes[5] ^= 1);
    assert!(matches!(saved.restore(), Err(Lost::Table)));
    let saved = self::saved(3_000_000, Protection::Shard);
    let column = saved.geometry.column_bytes();
    saved.change(|bytes| bytes[column..4 * column].fill(0xFF));
    let (back, tally) = saved.restore().unwrap();
    assert!(back == saved.payload);
    assert_eq!(tally.tables_bad, 0);
}

#[test]
fn an_image_that_is_too_short_for_what_its_manifest_says_takes_no_room() {
    let saved = saved(100_000, Protection::Shard);
    // A table of 16 TiB would be twenty gigabytes.
    let lie = Saved { geometry: Geometry::new(1 << 44, Protection::Shard).unwrap(), ..saved };
    assert!(matches!(lie.restore(), Err(Lost::Length { .. })));
    let cut = self::saved(3_000_000, Protection::Checked);
    let body = cut.geometry.body_bytes();
    cut.change(|bytes| bytes.truncate(body - 1));
    assert_eq!(
        cut.restore().unwrap_err(),
        Lost::Length { bytes: body as u64 - 1, wanted: cut.geometry.file_bytes() as u64 }
    );
}

#[test]
fn bad_tables_are_found_out_by_the_pages() {
    let saved = saved(400_000, Protection::Shard);
    let (body, table) = (saved.geometry.body_bytes(), saved.geometry.table_bytes());
    saved.change(|bytes| bytes[body + 5] ^= 1);
    let (back, tally) = saved.restore().unwrap();
    assert!(back == saved.payload);
    assert_eq!(tally.tables_bad, 1);
    saved.change(|bytes| bytes[body + table + 400] ^= 1);
    let page = saved.page(3, 2) * PAGE_BYTES;
    saved.change(|bytes| bytes[page] ^= 1);
    let (back, tally) = saved.restore().unwrap();
    assert!(back == saved.payload);
    assert_eq!((tally.tables_bad, tally.pages_repaired), (2, 1));
    saved.scrub().unwrap();
    assert!(saved.scrub().unwrap().is_clean());
}

#[test]
fn another_checkpoint_s_image_is_refused() {
    let one = saved(100_000, Protection::Shard);
    let other = Saved { digest: one.digest ^ 1, ..saved(100_000, Protection::Shard) };
    assert_eq!(other.restore().unwrap_err(), Lost::Table);
}

#[test]
fn what_is_only_checked_is_refused_when_it_is_bad() {
    let saved = saved(200_000, Protection::Checked);
    saved.change(|bytes| bytes[100_000] ^= 1);
    assert!(matches!(saved.restore().unwrap_err(), Lost::Row { bad: 1, by: Protection::Checked, .. }));
}

#[test]
fn a_bad_chip_is_repaired_in_every_line_and_a_lost_page_is_refused() {
    let saved = saved(300_000, Protection::Chip);
    let body = saved.geometry.column_bytes() * 16;
    // Chip 7 is the high half of byte 3 of each beat; every line of the data has it bad.
    saved.change(|bytes| (0..body / 8).for_each(|beat| bytes[beat * 8 + 3] ^= 0x50));
    let (back, tally) = saved.restore().unwrap();
    assert!(back == saved.payload);
    assert!(tally.pages_bad > 0 && tally.pages_repaired == tally.pages_bad, "{tally:?}");
    saved.scrub().unwrap();
    saved.change(|bytes| bytes[body + 5] ^= 1);
    assert_eq!(saved.scrub().unwrap().pages_repaired, 1);
    assert!(saved.scrub().unwrap().is_clean());
    saved.change(|bytes| bytes[..8].copy_from_slice(&[0xA5; 8]));
    let error = saved.restore().unwrap_err();
    assert!(error.to_string().contains("one chip of a line"), "{error}");
    let lost = self::saved(300_000, Protection::Chip);
    lost.disk.poison(Path::new(FILE), 2).unwrap();
    assert!(matches!(lost.restore().unwrap_err(), Lost::Row { by: Protection::Chip, .. }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    /// Whatever happens to the file, what comes back is what was saved, or nothing.
    #[test]
    fn never_wrong_data(
        bytes in 1usize..300_000,
        is_chip in any::<bool>(),
        faults in proptest::collection::vec((any::<u32>(), 0u8..4, any::<u8>()), 0..12),
    ) {
        let saved = saved(bytes, if is_chip { Protection::Chip } else { Protection::Shard });
        let length = saved.geometry.file_bytes();
        for (place, kind, value) in faults {
            let at = place as usize % length;
            match kind {
                0 => saved.change(|bytes| if let Some(byte) = bytes.get_mut(at) { *byte ^= value }),
                1 => saved.change(|bytes| {
                    let end = (at + usize::from(value) * 100).min(bytes.len());
                    if let Some(some) = bytes.get_mut(at..end) { some.fill(value) }
                }),
                2 => saved.disk.poison(Path::new(FILE), (at / PAGE_BYTES) as u64).unwrap(),
                _ if value < 40 => saved.change(|bytes| bytes.truncate(at)),
                _ => {}
            }
        }
        if let Ok((back, _)) = saved.restore() {
            prop_assert!(back == saved.payload);
        }
    }
}
