//! Jobs that go on with another number of ranks than they were saved with.

use super::session::{Tiers, always_both, files, flip};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;
use surefoot_checkpoint::controller::Fixed;
use surefoot_checkpoint::group::thread_group;
use surefoot_checkpoint::{Checkpointer, Config, Group, Piece, Policy, Restored};

/// Bytes of the whole array.
const WHOLE: usize = 1_000_003;

/// Named fields, each of one rank.
const FIELDS: usize = 5;

/// Which byte the array has at a place after so many steps.
fn cell(at: usize, step: u64) -> u8 {
    let mixed = (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ step.wrapping_mul(0xD1B5_4A32_D192_ED03);
    (mixed >> 29) as u8 ^ (mixed >> 51) as u8
}

/// Where the stretch of a rank begins: uneven, and sometimes empty.
fn start(rank: u32, ranks: u32) -> usize {
    let share =
        |rank: u32| (rank as usize * WHOLE / ranks as usize).saturating_sub(if rank % 2 == 1 { 777 } else { 0 });
    match rank {
        0 => 0,
        rank if rank == ranks => WHOLE,
        1 if ranks == 6 => 0,
        rank => share(rank),
    }
}

/// One rank of a job whose state is the same however many there are.
pub struct Part {
    pub job: Checkpointer,
    pub rank: u32,
    ranks: u32,
    step: Vec<u8>,
    array: Vec<u8>,
    fields: BTreeMap<usize, Vec<u8>>,
}

impl Part {
    fn open(config: Config, group: Box<dyn Group>) -> Self {
        let (rank, ranks) = (group.rank(), group.size());
        let mut job = Checkpointer::open(config, group).unwrap();
        let mut step = vec![0; 8];
        let mut array = vec![0xAA; start(rank + 1, ranks) - start(rank, ranks)];
        let mut fields: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        // SAFETY: what is registered lives in buffers that never grow, as long as the job, and is left alone during calls.
        unsafe {
            job.protect("array", array.as_mut_ptr(), array.len()).unwrap();
            job.protect("step", step.as_mut_ptr(), step.len()).unwrap();
            for number in (0..FIELDS).filter(|number| number % ranks as usize == rank as usize) {
                let field = fields.entry(number).or_insert_with(|| vec![0; 1000 + number * 10]);
                job.protect(&format!("field[{number}]"), field.as_mut_ptr(), field.len()).unwrap();
            }
        }
        Part { job, rank, ranks, step, array, fields }
    }

    fn save(&mut self, step: u64) {
        let first = start(self.rank, self.ranks);
        self.step.copy_from_slice(&step.to_le_bytes());
        for (at, byte) in self.array.iter_mut().enumerate() {
            *byte = cell(first + at, step);
        }
        for (number, field) in &mut self.fields {
            field.fill(*number as u8 ^ step as u8);
        }
        let log = self.job.route_file("log").unwrap();
        fs::write(log, format!("rank {} of {} at step {step}", self.rank, self.ranks)).unwrap();
        self.job.checkpoint().unwrap();
        self.job.wait_for_copies().unwrap();
    }

    fn step(&self) -> u64 {
        u64::from_le_bytes(self.step.as_slice().try_into().unwrap())
    }

    /// Whether everything is as it was after so many steps.
    fn expect(&self, step: u64) {
        let first = start(self.rank, self.ranks);
        assert_eq!(self.step(), step);
        let wrong = self.array.iter().enumerate().find(|(at, byte)| **byte != cell(first + at, step));
        assert_eq!(wrong, None, "rank {} of {}", self.rank, self.ranks);
        for (number, field) in &self.fields {
            assert!(field.iter().all(|byte| *byte == *number as u8 ^ step as u8), "field {number}");
        }
    }
}

/// Runs a job of some ranks, each in a thread.
pub fn run<T: Send>(ranks: u32, config: &Config, run: impl Fn(Part) -> T + Sync) -> Vec<T> {
    let open = |group| Part::open(config.clone(), Box::new(group));
    std::thread::scope(|scope| {
        let group = thread_group(ranks, Some(Duration::from_secs(300)));
        let threads: Vec<_> = group
            .into_iter()
            .map(|group| {
                scope.spawn({
                    let (open, run) = (&open, &run);
                    move || run(open(group))
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn save(ranks: u32, config: &Config, steps: std::ops::RangeInclusive<u64>) {
    run(ranks, config, |mut part| steps.clone().for_each(|step| part.save(step)));
}

/// Restarts with so many ranks, which must come back to this step.
fn back_to(ranks: u32, config: &Config, step: u64) -> Vec<Restored> {
    run(ranks, config, |mut part| {
        let restored = part.job.restart_resized().unwrap().unwrap();
        part.expect(step);
        restored
    })
}

fn refused(ranks: u32, config: &Config) -> String {
    let said = run(ranks, config, |mut part| part.job.restart_resized().unwrap_err().to_string());
    said.into_iter().next().unwrap()
}

fn memory_only(tiers: &Tiers) -> Config {
    tiers.config(Policy::Fixed(Fixed::Memory))
}

fn with_ssd(tiers: &Tiers) -> Config {
    tiers.config(always_both())
}

#[test]
fn more_and_fewer_ranks_go_on_with_the_same_bits() {
    for (old, new) in [(4, 3), (4, 2), (4, 6), (1, 4), (3, 1), (6, 4), (2, 2)] {
        let tiers = Tiers::new();
        let config = memory_only(&tiers);
        save(old, &config, 1..=3);
        let restored = back_to(new, &config, 3);
        assert!(restored.iter().all(|restored| restored.generation.number == 3));
        assert!(restored.iter().any(|restored| restored.report.contains("from memory")), "{restored:?}");
        if old != new {
            assert!(restored.iter().all(|restored| restored.report.contains(&format!("of {old} ranks"))));
        }
        // And it goes on from there, with the new number and then with the old one.
        run(new, &config, |mut part| {
            part.job.restart_resized().unwrap().unwrap();
            part.save(4);
        });
        back_to(new, &config, 4);
        back_to(old, &config, 4);
    }
}

#[test]
fn the_ssd_and_the_shared_directory_will_do_as_well() {
    for lost in [&["memory"][..], &["memory", "ssd"]] {
        let tiers = Tiers::new();
        let mut config = with_ssd(&tiers);
        let directory = tiers.home.path().join("pfs");
        fs::create_dir(&directory).unwrap();
        config.set("shared", directory.to_str().unwrap()).unwrap();
        config.set("shared.staleness_max_s", "0.000001").unwrap();
        save(4, &config, 1..=2);
        for tier in lost {
            fs::remove_dir_all(tiers.home.path().join(tier).join("job")).unwrap();
        }
        let word = if lost.len() == 1 { "from the SSD" } else { "from the shared directory" };
        for ranks in [3, 6] {
            let restored = back_to(ranks, &config, 2);
            assert!(restored[0].report.contains(word), "{restored:?}");
        }
    }
}

#[test]
fn finishing_without_a_save_leaves_the_checkpoint_of_the_other_ranks() {
    let tiers = Tiers::new();
    let config = with_ssd(&tiers);
    save(3, &config, 1..=2);
    fs::remove_dir_all(tiers.home.path().join("memory").join("job")).unwrap();
    for ranks in [2, 5, 1] {
        let finished = run(ranks, &config, |mut part| {
            part.job.restart_resized().unwrap().unwrap();
            part.expect(2);
            part.job.finish().unwrap()
        });
        for finished in finished {
            assert!(finished.said.contains("stays on the SSD as it was saved"), "{}", finished.said);
            assert_eq!(finished.generation.map(|generation| generation.number), Some(2));
        }
        back_to(3, &config, 2);
    }
}

#[test]
fn files_come_to_the_rank_that_comes_round() {
    let tiers = Tiers::new();
    let config = memory_only(&tiers);
    save(5, &config, 1..=1);
    run(2, &config, |mut part| {
        part.job.restart_resized().unwrap().unwrap();
        let mut content = |name: &str| fs::read_to_string(part.job.route_file(name).unwrap()).unwrap_or_default();
        let wanted = |rank: u32| format!("rank {rank} of 5 at step 1");
        assert_eq!(content("log"), wanted(part.rank));
        assert_eq!(content(&format!("log.rank-{:05}", part.rank + 2)), wanted(part.rank + 2));
        assert_eq!(content("log.rank-00004"), if part.rank == 0 { wanted(4) } else { String::new() });
    });
}

#[test]
fn what_is_bad_is_repaired_or_comes_from_elsewhere_or_an_older_one_is_taken() {
    let tiers = Tiers::new();
    let config = with_ssd(&tiers);
    save(4, &config, 1..=3);
    let newest = tiers.memory_files(2, "image").pop().unwrap();
    let rows = fs::metadata(&newest).unwrap().len() / 4096 / 19;
    for column in [0, 3, 5] {
        flip(&newest, column * rows * 4096 + 11);
    }
    let said = |ranks: u32, step: u64| {
        let reports: Vec<String> = back_to(ranks, &config, step).into_iter().map(|restored| restored.report).collect();
        reports.join("\n")
    };
    let report = said(3, 3);
    assert!(report.contains("rank 2's part from memory") && report.contains("repaired"), "{report}");
    flip(&newest, 7 * rows * 4096);
    flip(&newest, 8 * rows * 4096);
    assert!(said(3, 3).contains("rank 2's part from the SSD"));
    let ssd = tiers.durable_files("image").into_iter().rfind(|path| path.ends_with("rank-00002.image")).unwrap();
    flip(&ssd, 100);
    let report = said(3, 2);
    assert!(report.contains("refused before: generation 3: rank 2's part: memory: "), "{report}");
    // The same with as many ranks as saved: both ways of a restart find the same.
    assert!(said(4, 2).contains("refused before"));
}

#[test]
fn a_plain_restart_says_that_the_newest_is_of_other_ranks_and_touches_nothing() {
    let tiers = Tiers::new();
    let config = memory_only(&tiers);
    save(4, &config, 1..=2);
    for ranks in [2, 6] {
        run(ranks, &config, |mut part| {
            let error = part.job.restart().unwrap_err().to_string();
            assert!(error.contains("generation 2 was saved by 4 ranks, and this job has"), "{error}");
            assert!(part.array.iter().all(|byte| *byte == 0xAA));
        });
    }
    back_to(4, &config, 2);
    // An older one of the right number does not hide a newer one of another.
    run(2, &config, |mut part| {
        part.job.restart_resized().unwrap();
        part.save(3);
        part.save(4);
    });
    let error = run(4, &config, |mut part| part.job.restart().unwrap_err().to_string()).remove(0);
    assert!(error.contains("generation 4 was saved by 2 ranks, and this job has 4"), "{error}");
}

#[test]
fn a_new_job_has_nothing_to_resize() {
    let tiers = Tiers::new();
    run(3, &memory_only(&tiers), |mut part| {
        assert_eq!(part.job.restart_resized().unwrap(), None);
        assert!(part.job.open_resized().unwrap().is_none());
    });
}

/// Loses what a killed save would not have written: the newest manifest of a rank.
fn kill_in_save(tiers: &Tiers, rank: u32) {
    let slots = ["manifest", "copy"].map(|kind| tiers.memory_files(rank, kind));
    let number = |path: &Path| {
        let text = fs::read(path).unwrap();
        let text = String::from_utf8_lossy(&text).into_owned();
        let (_, number) = text.split_once("\"number\":").unwrap();
        number.split(|byte: char| !byte.is_ascii_digit()).next().unwrap().parse::<u64>().unwrap()
    };
    for paths in slots {
        fs::remove_file(paths.iter().max_by_key(|path| number(path)).unwrap()).unwrap();
    }
}

#[test]
fn saves_of_the_new_job_that_are_killed_leave_the_old_job_s_checkpoint() {
    for new in [2, 3, 6] {
        let tiers = Tiers::new();
        let mut config = memory_only(&tiers);
        if let Some(memory) = &mut config.memory {
            memory.slots = 2;
        }
        save(4, &config, 1..=2);
        // Several times, so that the slots of one killed save are those of the next; and both ways to come back.
        for time in 0..4 {
            run(new, &config, |mut part| {
                if time < 2 {
                    part.job.restart_resized().unwrap().unwrap();
                    part.expect(2);
                } else {
                    assert_eq!(part.job.open_resized().unwrap().unwrap().generation.number, 2);
                }
                part.save(3);
            });
            kill_in_save(&tiers, 1);
        }
        back_to(new, &config, 2);
        back_to(4, &config, 2);
        run(new, &config, |mut part| {
            part.job.restart_resized().unwrap().unwrap();
            part.save(5);
        });
        back_to(new, &config, 5);
        back_to(4, &config, 5);
    }
}

#[test]
fn memory_of_ranks_that_are_no_more_is_given_back_after_two_checkpoints() {
    let tiers = Tiers::new();
    let config = memory_only(&tiers);
    save(4, &config, 1..=2);
    let job = tiers.home.path().join("memory/job");
    run(2, &config, |mut part| {
        part.job.restart_resized().unwrap().unwrap();
        part.save(3);
        assert!(job.join("rank-00003").exists());
        part.save(4);
    });
    let left = [0, 1, 2, 3].map(|rank| job.join(format!("rank-{rank:05}")).exists());
    assert_eq!(left, [true, true, false, false]);
    assert!(job.join("files-00003/log").exists(), "files are the program's");
    back_to(4, &config, 4);
}

#[test]
fn parts_of_different_jobs_sizes_or_times_are_never_put_together() {
    let tiers = Tiers::new();
    let config = memory_only(&tiers);
    save(4, &config, 1..=1);
    let other = Tiers::new();
    save(3, &memory_only(&other), 1..=1);
    let (memory, theirs) = (tiers.home.path().join("memory/job"), other.home.path().join("memory/job"));
    // The part of one rank is lost, and that of another job's generation 1 with 3 ranks lies in its place.
    fs::remove_dir_all(memory.join("rank-00002")).unwrap();
    fs::create_dir(memory.join("rank-00002")).unwrap();
    for name in fs::read_dir(theirs.join("rank-00002")).unwrap() {
        let name = name.unwrap().file_name();
        fs::copy(theirs.join("rank-00002").join(&name), memory.join("rank-00002").join(&name)).unwrap();
    }
    for ranks in [2, 3, 4] {
        let error = refused(ranks, &config);
        assert!(error.contains("no checkpoint can be restored"), "{error}");
    }
    // The same with the same number of ranks: the random number keeps them apart.
    fs::remove_dir_all(memory.join("rank-00002")).unwrap();
    let third = Tiers::new();
    save(4, &memory_only(&third), 1..=1);
    let third = third.home.path().join("memory/job/rank-00002");
    fs::create_dir(memory.join("rank-00002")).unwrap();
    for path in ["slot-0.image", "slot-0.manifest", "slot-0.copy"] {
        fs::copy(third.join(path), memory.join("rank-00002").join(path)).unwrap();
    }
    assert!(refused(3, &config).contains("no checkpoint can be restored"));
}

#[test]
fn an_image_under_another_rank_s_manifest_is_found_out() {
    let tiers = Tiers::new();
    let config = memory_only(&tiers);
    save(4, &config, 1..=2);
    let job = tiers.home.path().join("memory/job");
    fs::copy(job.join("rank-00001/slot-1.image"), job.join("rank-00002/slot-1.image")).unwrap();
    let restored = back_to(3, &config, 1);
    assert!(restored[0].report.contains("refused before: generation 2"), "{restored:?}");
}

#[test]
fn a_region_that_differs_between_ranks_and_is_no_array_is_refused() {
    let tiers = Tiers::new();
    let config = memory_only(&tiers);
    run(4, &config, |mut part| {
        let mut own = [part.rank as u8 / 3; 300];
        // SAFETY: the array lives until after the last call.
        unsafe { part.job.protect("own", own.as_mut_ptr(), own.len()).unwrap() };
        part.save(1);
    });
    let errors = run(3, &config, |mut part| {
        let mut own = [0u8; 300];
        // SAFETY: the array lives until after the last call.
        unsafe { part.job.protect("own", own.as_mut_ptr(), own.len()).unwrap() };
        part.job.restart_resized().unwrap_err().to_string()
    });
    assert!(errors.iter().all(|error| error.contains("no checkpoint can be restored")), "{errors:?}");
    assert!(errors.iter().any(|error| error.contains("region \"own\" differs between the 4 ranks")), "{errors:?}");
    // Registered as an array it is one.
    run(2, &config, |mut part| {
        let mut own = vec![0u8; 600];
        // SAFETY: the vector lives until after the last call, and never grows.
        unsafe { part.job.protect("own", own.as_mut_ptr(), own.len()).unwrap() };
        part.job.restart_resized().unwrap().unwrap();
        let wanted: Vec<u8> = (0..600).map(|at| u8::from(part.rank == 1 && at >= 300)).collect();
        assert!(own == wanted);
    });
}

#[test]
fn a_program_may_read_any_part_itself() {
    let tiers = Tiers::new();
    let config = memory_only(&tiers);
    save(4, &config, 1..=2);
    run(3, &config, |mut part| {
        let found = part.job.open_resized().unwrap().unwrap();
        assert_eq!((found.generation.number, found.ranks), (2, 4));
        let entries: Vec<(u32, &str, u64)> = found.entries().collect();
        assert_eq!(entries.len(), 4 * 3 + FIELDS);
        assert!(entries.contains(&(3, "file:log", 21)) && entries.contains(&(0, "field[4]", 1040)), "{entries:?}");
        // Rank 0 wants nothing, the others a piece of each array and of each log.
        let mut rooms: Vec<Vec<u8>> = vec![vec![0; 5000]; if part.rank == 0 { 0 } else { 4 }];
        let mut logs = vec![vec![0; 21]; rooms.len()];
        let piece = |(rank, into): (usize, &mut Vec<u8>), name: &'static str, offset: u64| -> Piece<'_> {
            // SAFETY: only the borrow checker's help is missing: each room is lent once, for the one call below.
            let into = unsafe { std::slice::from_raw_parts_mut(into.as_mut_ptr(), into.len()) };
            Piece { rank: rank as u32, name, offset, into }
        };
        let mut pieces: Vec<Piece<'_>> = Vec::new();
        pieces.extend(rooms.iter_mut().enumerate().map(|room| piece(room, "array", 100_001)));
        pieces.extend(logs.iter_mut().enumerate().map(|room| piece(room, "file:log", 0)));
        pieces.reverse();
        part.job.read_resized(&found, &mut pieces).unwrap();
        drop(pieces);
        for (rank, room) in rooms.iter().enumerate() {
            let first = start(rank as u32, 4) + 100_001;
            assert!(room.iter().enumerate().all(|(at, byte)| *byte == cell(first + at, 2)), "rank {rank}");
            assert_eq!(logs[rank], format!("rank {rank} of 4 at step 2").as_bytes());
        }
        for (rank, name, offset, word) in
            [(4, "step", 0, "saved nothing"), (0, "none", 0, "saved nothing"), (0, "step", 5, "has 8 bytes")]
        {
            let mut into = [0; 4];
            let wrong = if part.rank == 1 { vec![Piece { rank, name, offset, into: &mut into }] } else { Vec::new() };
            let mut wrong = wrong;
            let error = part.job.read_resized(&found, &mut wrong).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        // What it saves next is newer.
        part.save(7);
    });
    back_to(3, &config, 7);
}

#[test]
fn a_part_that_goes_bad_between_proof_and_reading_is_an_error_and_no_data() {
    let tiers = Tiers::new();
    let config = memory_only(&tiers);
    save(2, &config, 1..=1);
    let errors = run(3, &config, |mut part| {
        let found = part.job.open_resized().unwrap().unwrap();
        let image = files(&tiers.home.path().join("memory/job/rank-00001"), "image").remove(0);
        if part.rank == 0 {
            let bytes = fs::metadata(&image).unwrap().len();
            fs::write(&image, vec![0x55; bytes as usize]).unwrap();
        }
        let mut into = vec![0; 100];
        let mut pieces = vec![Piece { rank: 1, name: "array", offset: 0, into: &mut into }];
        // The call is collective: nobody reads before rank 0 is here.
        part.job.read_resized(&found, &mut pieces).unwrap_err().to_string()
    });
    assert!(errors.iter().all(|error| error.contains("rank 1's part")), "{errors:?}");
}
