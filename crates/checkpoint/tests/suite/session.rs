//! Whole jobs: ranks that save, die, go bad, and restart.

use super::payload::payload;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;
use surefoot_checkpoint::controller::{Fixed, Surefoot};
use surefoot_checkpoint::group::thread_group;
use surefoot_checkpoint::tier::DurableOptions;
use surefoot_checkpoint::{Checkpointer, Config, Error, Group, Place, Policy, Restored};
use surefoot_model::{Finding, Headline, Health, Room, RoomHealth, Severity, Subject, SubjectKind};

const BYTES: usize = 300_000;

/// A folder with `memory`, which is on a memory file system where there is one, and `ssd`.
pub struct Tiers {
    pub home: Home,
    _memory: Option<tempfile::TempDir>,
}

/// A folder that goes with its test, or that belongs to another process.
pub enum Home {
    Own(tempfile::TempDir),
    Others(PathBuf),
}

impl Home {
    pub fn path(&self) -> &Path {
        match self {
            Home::Own(folder) => folder.path(),
            Home::Others(path) => path,
        }
    }
}

impl Tiers {
    pub fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let memory = tempfile::tempdir_in("/dev/shm").ok();
        match &memory {
            Some(memory) => symlink(memory.path(), home.path().join("memory")).unwrap(),
            None => fs::create_dir(home.path().join("memory")).unwrap(),
        }
        fs::create_dir(home.path().join("ssd")).unwrap();
        Tiers { home: Home::Own(home), _memory: memory }
    }

    /// The tiers that another process has made.
    pub fn at(path: PathBuf) -> Self {
        Tiers { home: Home::Others(path), _memory: None }
    }

    pub fn config(&self, policy: Policy) -> Config {
        let mut config = Config::new("job", self.home.path().join("memory"), Some(self.home.path().join("ssd")));
        config.policy = policy;
        // The folder may lie in memory: on a machine whose /tmp does, and in guests.
        config.set("durable.allow_memory", "yes").unwrap();
        config.health_file = self.home.path().join("health.json");
        config
    }

    pub fn memory_files(&self, rank: u32, kind: &str) -> Vec<PathBuf> {
        files(&self.home.path().join(format!("memory/job/rank-{rank:05}")), kind)
    }

    pub fn durable_files(&self, kind: &str) -> Vec<PathBuf> {
        let generations = fs::read_dir(self.home.path().join("ssd/job")).unwrap();
        let mut all: Vec<PathBuf> =
            generations.flat_map(|generation| files(&generation.unwrap().path(), kind)).collect();
        all.sort();
        all
    }
}

pub fn files(directory: &Path, kind: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    all.retain(|path| path.extension().is_some_and(|found| found == kind));
    all.sort();
    all
}

/// What a rank computes after so many steps.
pub fn state(rank: u32, step: u64) -> Vec<u8> {
    payload(BYTES + rank as usize * 5000, step * 100 + u64::from(rank))
}

/// Every checkpoint goes into memory, and on to the SSD.
pub fn always_both() -> Policy {
    Policy::Surefoot(Surefoot { staleness_max_s: 0.0, ..Surefoot::default() })
}

/// One rank with its state.
pub struct Rank {
    pub job: Checkpointer,
    pub state: Vec<u8>,
    pub rank: u32,
}

impl Rank {
    pub fn open(config: Config, group: impl Group + 'static) -> Result<Self, Error> {
        let rank = group.rank();
        let mut state = state(rank, 0);
        let mut job = Checkpointer::open(config, Box::new(group))?;
        // SAFETY: the state lives as long as the job, never grows, and is left alone during calls.
        unsafe {
            let (left, right) = state.split_at_mut(1234);
            job.protect("left", left.as_mut_ptr(), left.len())?;
            job.protect("right", right.as_mut_ptr(), right.len())?;
        }
        Ok(Rank { job, state, rank })
    }

    pub fn compute(&mut self, step: u64) {
        self.state.copy_from_slice(&state(self.rank, step));
    }

    pub fn save(&mut self, step: u64) -> Place {
        self.compute(step);
        self.job.checkpoint().unwrap().decision.place
    }

    pub fn is_at(&self, step: u64) -> bool {
        self.state == state(self.rank, step)
    }
}

/// Runs a job of some ranks, each in a thread.
pub fn job<T: Send>(ranks: u32, config: &Config, run: impl Fn(Rank) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let group = thread_group(ranks, Some(Duration::from_secs(300)));
        let threads: Vec<_> =
            group.into_iter().map(|group| scope.spawn(|| run(Rank::open(config.clone(), group).unwrap()))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// The step that a rank is at after a restart, and what the restart said.
pub type Back = (Option<u64>, Result<Option<Restored>, String>);

/// Restarts the job; returns the step that each rank is at, and its report.
pub fn restarted(ranks: u32, config: &Config, steps: u64) -> Vec<Back> {
    job(ranks, config, |mut rank| {
        rank.state.fill(0xAA);
        let restored = rank.job.restart().map_err(|error| error.to_string());
        ((0..=steps).find(|&step| rank.is_at(step)), restored)
    })
}

pub fn flip(path: &Path, offset: u64) {
    let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], offset).unwrap();
}

#[test]
fn a_new_job_has_nothing_to_restart_from_and_is_left_as_it_is() {
    let tiers = Tiers::new();
    for (step, restored) in restarted(2, &tiers.config(Policy::Fixed(Fixed::Memory)), 0) {
        assert_eq!((step, restored), (None, Ok(None)));
    }
}

#[test]
fn all_ranks_come_back_to_the_newest_step() {
    for (policy, place) in [(Fixed::Memory, Place::Memory), (Fixed::Durable, Place::Durable)] {
        let tiers = Tiers::new();
        let config = tiers.config(Policy::Fixed(policy));
        job(3, &config, |mut rank| {
            for step in 1..=5 {
                assert_eq!(rank.save(step), place);
            }
        });
        for (step, restored) in restarted(3, &config, 5) {
            let restored = restored.unwrap().unwrap();
            assert_eq!((step, restored.generation.number), (Some(5), 5));
            assert!(restored.report.contains("pages, intact"), "{}", restored.report);
        }
    }
}

#[test]
fn what_is_in_memory_becomes_durable_and_survives_the_loss_of_memory() {
    let tiers = Tiers::new();
    let always = Surefoot { staleness_max_s: 0.0, ..Surefoot::default() };
    let config = tiers.config(Policy::Surefoot(always));
    job(2, &config, |mut rank| {
        for step in 1..=4 {
            assert_eq!(rank.save(step), Place::Both);
            rank.job.wait_for_copies().unwrap();
        }
        let notices = rank.job.take_notices();
        assert_eq!(notices.len(), 4, "{notices:?}");
        assert!(notices[3].contains("generation 4 is durable"), "{notices:?}");
    });
    assert_eq!(tiers.durable_files("image").len(), 4, "two generations of two ranks are kept");
    fs::remove_dir_all(tiers.home.path().join("memory/job/rank-00001")).unwrap();
    let back = restarted(2, &config, 4);
    assert!(back[0].1.as_ref().unwrap().as_ref().unwrap().report.contains("from memory"), "{back:?}");
    assert!(back[1].1.as_ref().unwrap().as_ref().unwrap().report.contains("from the SSD"), "{back:?}");
    assert!(back.iter().all(|(step, _)| *step == Some(4)));
}

#[test]
fn bad_pages_on_the_ssd_are_repaired_where_that_was_asked_for_whatever_memory_has() {
    for (policy, memory_protection) in [("durable", "shard"), ("surefoot", "checked"), ("surefoot", "chip")] {
        let tiers = Tiers::new();
        let mut config = tiers.config(Policy::Fixed(Fixed::Memory));
        config.set("policy", policy).unwrap();
        config.set("durable.protection", "shard").unwrap();
        config.set("memory.protection", memory_protection).unwrap();
        if policy == "surefoot" {
            config.set("staleness_max_s", "0.001").unwrap();
        }
        job(2, &config, |mut rank| {
            assert!(rank.save(1).is_durable());
            rank.job.wait_for_copies().unwrap();
        });
        fs::remove_dir_all(tiers.home.path().join("memory/job")).unwrap();
        for image in tiers.durable_files("image") {
            // One of each of three columns, in the same row: five rows are what a rank has.
            [0, 5, 10].into_iter().for_each(|page| flip(&image, page * 4096 + 77));
        }
        for (step, restored) in restarted(2, &config, 1) {
            let report = restored.unwrap().unwrap().report;
            assert_eq!(step, Some(1));
            assert!(report.contains("from the SSD") && report.contains("3 repaired"), "{policy}: {report}");
        }
    }
}

/// A bit of the slot flips while the checkpoint is on its way to a slow drive.
#[test]
fn nothing_is_durable_that_cannot_be_read_back() {
    for protection in ["shard", "chip", "checked"] {
        let tiers = Tiers::new();
        let mut config = tiers.config(always_both());
        config.set("memory.protection", protection).unwrap();
        config.set("durable.queue_depth", "1").unwrap();
        config.set("durable.limit_bytes_per_s", "40000000").unwrap();
        let saved = payload(24 << 20, 9);
        let open = || Checkpointer::open(config.clone(), Box::new(thread_group(1, None).remove(0))).unwrap();
        let mut state = saved.clone();
        let mut job = open();
        // SAFETY: the state outlives the job and is left alone during calls.
        unsafe { job.protect("state", state.as_mut_ptr(), state.len()).unwrap() };
        assert_eq!(job.checkpoint().unwrap().decision.place, Place::Both);
        // The last of what is read: half a second away.
        flip(&tiers.memory_files(0, "image")[0], (24 << 20) - 99);
        job.wait_for_copies().unwrap();
        let notices = job.take_notices().join("; ");
        drop(job);
        fs::remove_dir_all(tiers.home.path().join("memory/job")).unwrap();
        let mut state = vec![0u8; saved.len()];
        let mut job = open();
        // SAFETY: as above.
        unsafe { job.protect("state", state.as_mut_ptr(), state.len()).unwrap() };
        let restored = job.restart();
        if protection == "checked" {
            assert!(notices.contains("did not become durable") && notices.contains("slot-0.image"), "{notices}");
            assert_eq!(restored.unwrap(), None);
            continue;
        }
        assert!(notices.contains("1 of its pages had gone bad before"), "{protection}: {notices}");
        assert!(restored.unwrap().is_some() && state == saved, "{protection}");
    }
}

/// What is marked as complete was there once: that nothing of it is found is no leave to begin anew, and to remove the rest.
#[test]
fn a_complete_checkpoint_of_which_no_part_is_found_is_no_beginning() {
    for (policy, place) in [(Fixed::Durable, "ssd"), (Fixed::Memory, "memory")] {
        let tiers = Tiers::new();
        let config = tiers.config(Policy::Fixed(policy));
        job(1, &config, |mut rank| {
            rank.save(1);
            rank.job.wait_for_copies().unwrap();
        });
        let gone = match place {
            "ssd" => tiers.durable_files("manifest"),
            // The second one says that all ranks had theirs; what it says of the image is damaged.
            _ => tiers.memory_files(0, "manifest"),
        };
        gone.iter().for_each(|path| fs::remove_file(path).unwrap());
        if place == "memory" {
            tiers.memory_files(0, "copy").iter().for_each(|path| fs::write(path, "").unwrap());
        }
        let (step, restored) = restarted(1, &config, 1).remove(0);
        let error = restored.unwrap_err();
        assert!(step.is_none() && error.contains("no checkpoint can be restored"), "{place}: {error}");
        if place == "ssd" {
            assert!(error.contains("no rank finds a part of it"), "{error}");
            assert_eq!(tiers.durable_files("image").len(), 1, "what is left stays");
        }
    }
}

/// A memory tier of the size that containers have, and no drive: that nothing was saved is no success.
#[test]
fn a_save_that_no_tier_has_room_for_is_an_error_and_says_so_again_by_age() {
    // More than any machine's memory; nobody reads it.
    const HUGE: usize = 8 << 40;
    // SAFETY: a new mapping at an address of the kernel's choice, of which no page is ever touched.
    let start = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        libc::mmap(std::ptr::null_mut(), HUGE, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
    };
    assert_ne!(start, libc::MAP_FAILED);
    for policy in [Policy::Fixed(Fixed::Memory), Policy::Surefoot(Surefoot::default())] {
        let tiers = Tiers::new();
        let is_fixed = matches!(policy, Policy::Fixed(_));
        let config = Config { durable: None, ..tiers.config(policy) };
        let mut job = Checkpointer::open(config, Box::new(thread_group(1, None).remove(0))).unwrap();
        let mut small = vec![1u8; 10_000];
        // SAFETY: the bytes outlive the job and are left alone during calls.
        unsafe { job.protect("state", small.as_mut_ptr(), small.len()).unwrap() };
        assert!(job.checkpoint().unwrap().generation.is_some());
        // SAFETY: as above.
        unsafe { job.protect("huge", start.cast(), HUGE).unwrap() };
        assert_eq!(job.need_checkpoint().unwrap().place, Place::Skip);
        // Whoever saves only where it is worth it hears of it, too, and once.
        job.need_checkpoint().unwrap();
        let asked = job.take_notices();
        if is_fixed {
            assert!(asked.len() == 1 && asked[0].contains("no checkpoint was taken"), "{asked:?}");
        }
        let mut said = Vec::new();
        for _ in 0..3 {
            let error = job.checkpoint().unwrap_err();
            assert!(matches!(error, Error::NoTier { .. }), "{error}");
            assert!(
                error.to_string().contains("make room in /") && error.to_string().contains("no durable tier"),
                "{error}"
            );
            said.extend(job.take_notices());
        }
        assert!(said.iter().all(|said| said.contains("no checkpoint was taken")) && said.len() < 2, "{said:?}");
        job.release("huge").unwrap();
        assert!(job.checkpoint().unwrap().generation.is_some(), "it goes on");
    }
    // SAFETY: nobody uses the mapping any more.
    unsafe { libc::munmap(start, HUGE) };
}

/// A drive that is full while memory is not: saves go on, and somebody is told.
#[test]
fn a_drive_that_takes_none_is_said_once_while_memory_takes_them() {
    let tiers = Tiers::new();
    let mut config = tiers.config(always_both());
    let mut job = Checkpointer::open(config.clone(), Box::new(thread_group(1, None).remove(0))).unwrap();
    let mut state = vec![1u8; 10_000];
    // SAFETY: the bytes outlive both jobs and are left alone during calls.
    unsafe { job.protect("state", state.as_mut_ptr(), state.len()).unwrap() };
    job.checkpoint().unwrap();
    job.wait_for_copies().unwrap();
    assert!(!job.take_notices().iter().any(|said| said.contains("becomes durable: ")));
    drop(job);
    // A directory in which nothing can be made stands for it.
    let ssd = tiers.home.path().join("ssd");
    fs::rename(&ssd, tiers.home.path().join("away")).unwrap();
    fs::write(&ssd, b"no directory").unwrap();
    config.job = "job".into();
    let mut job = Checkpointer::open(config, Box::new(thread_group(1, None).remove(0))).unwrap();
    // SAFETY: as above.
    unsafe { job.protect("state", state.as_mut_ptr(), state.len()).unwrap() };
    for _ in 0..3 {
        assert_eq!(job.checkpoint().unwrap().decision.place, Place::Memory);
    }
    let said: Vec<String> =
        job.take_notices().into_iter().filter(|said| said.contains("no checkpoint becomes durable")).collect();
    assert!(said.len() == 1 && said[0].contains("/ssd/"), "{said:?}");
    // Nobody has seen one, so it has no age.
    assert!(said[0].contains("durable copy") && !said[0].contains(" s old"), "{said:?}");
}

#[test]
fn bad_memory_is_repaired_and_what_is_too_bad_comes_from_elsewhere() {
    let tiers = Tiers::new();
    let config = tiers.config(always_both());
    job(2, &config, |mut rank| {
        for step in 1..=3 {
            rank.save(step);
            rank.job.wait_for_copies().unwrap();
        }
    });
    // Three slots: the newest is the one with generation 3, the third.
    let images = tiers.memory_files(0, "image");
    let rows = (BYTES as u64).div_ceil(65_536);
    for column in [1, 5, 11] {
        flip(&images[2], column * rows * 4096 + 17);
    }
    let back = restarted(2, &config, 3);
    let report = &back[0].1.as_ref().unwrap().as_ref().unwrap().report;
    assert!(back.iter().all(|(step, _)| *step == Some(3)), "{back:?}");
    assert!(report.contains("from memory") && report.contains("repaired"), "{report}");
    flip(&images[2], 7 * rows * 4096);
    let back = restarted(2, &config, 3);
    let report = &back[0].1.as_ref().unwrap().as_ref().unwrap().report;
    assert!(back.iter().all(|(step, _)| *step == Some(3)), "{back:?}");
    assert!(report.contains("from the SSD") && report.contains("4 of the 19 pages of row 0"), "{report}");
    // The SSD's is bad as well: an older one, on all ranks.
    let newest = tiers.durable_files("image").into_iter().rfind(|path| path.ends_with("rank-00000.image")).unwrap();
    flip(&newest, 100);
    let back = restarted(2, &config, 3);
    assert!(back.iter().all(|(step, _)| *step == Some(2)), "{back:?}");
    let report = &back[1].1.as_ref().unwrap().as_ref().unwrap().report;
    assert!(report.contains("refused before: generation 3: rank 0 failed"), "{report}");
}

#[test]
fn nothing_intact_is_an_error_that_says_what_each_failed_at() {
    let tiers = Tiers::new();
    let config = tiers.config(Policy::Fixed(Fixed::Memory));
    job(2, &config, |mut rank| {
        rank.save(1);
    });
    for image in tiers.memory_files(1, "image") {
        fs::write(image, b"short").unwrap();
    }
    for (step, restored) in restarted(2, &config, 1) {
        assert_ne!(step, Some(0));
        let error = restored.unwrap_err();
        assert!(error.contains("generation 1") && error.contains("rank 1"), "{error}");
    }
    fs::remove_dir_all(tiers.home.path().join("memory/job/rank-00001")).unwrap();
    let error = restarted(2, &config, 1).remove(0).1.unwrap_err();
    assert!(
        error.contains("none of them whole within reach of these 2 ranks: generation 1: missing: the part of rank 1"),
        "{error}"
    );
}

#[test]
fn a_checkpoint_of_other_regions_or_ranks_is_refused_by_name() {
    let tiers = Tiers::new();
    let config = tiers.config(Policy::Fixed(Fixed::Memory));
    job(1, &config, |mut rank| {
        rank.save(1);
    });
    let errors = job(1, &config, |mut rank| {
        rank.job.release("left").unwrap();
        rank.job.restart().unwrap_err().to_string()
    });
    assert!(errors[0].contains("\"left\" that is not registered"), "{}", errors[0]);
    let errors = job(1, &config, |mut rank| {
        let mut more = [0u8; 10];
        // SAFETY: the array lives until after the last call.
        unsafe { rank.job.protect("more", more.as_mut_ptr(), more.len()).unwrap() };
        rank.job.restart().unwrap_err().to_string()
    });
    assert!(errors[0].contains("no region \"more\""), "{}", errors[0]);
    for (_, restored) in restarted(2, &config, 1) {
        let error = restored.unwrap_err();
        assert!(error.contains("generation 1 was saved by 1 ranks, and this job has 2"), "{error}");
    }
}

#[test]
fn a_second_job_of_the_same_name_is_refused() {
    let tiers = Tiers::new();
    let config = tiers.config(Policy::Fixed(Fixed::Memory));
    job(1, &config, |_rank| {
        let second = Rank::open(config.clone(), thread_group(1, None).remove(0));
        let error = second.err().unwrap().to_string();
        assert!(error.contains("the same job is running here"), "{error}");
    });
}

#[test]
fn a_save_that_fails_on_one_rank_fails_on_all_and_the_job_goes_on() {
    let tiers = Tiers::new();
    let mut config = tiers.config(Policy::Fixed(Fixed::Memory));
    // The place is blocked before a thread makes a slot there.
    config.set("memory.ahead_bytes", "0").unwrap();
    job(2, &config, |mut rank| {
        rank.save(1);
        let blocked = tiers.home.path().join("memory/job/rank-00001/slot-1.image");
        if rank.rank == 1 {
            fs::create_dir(&blocked).unwrap();
        }
        rank.compute(2);
        let error = rank.job.checkpoint().unwrap_err().to_string();
        assert!(error.contains("slot-1.image"), "{error}");
        assert_eq!(error.starts_with("rank 1 failed"), rank.rank == 0, "{error}");
        if rank.rank == 1 {
            fs::remove_dir(&blocked).unwrap();
        }
        rank.save(3);
    });
    assert!(restarted(2, &config, 3).iter().all(|(step, _)| *step == Some(3)));
}

#[test]
fn a_rank_that_is_missing_is_an_error_and_no_hang() {
    let tiers = Tiers::new();
    let config = tiers.config(Policy::Fixed(Fixed::Memory));
    let mut ranks = thread_group(2, Some(Duration::from_millis(50)));
    drop(ranks.pop());
    let error = Rank::open(config, ranks.remove(0)).err().unwrap().to_string();
    assert!(error.contains("rank 1"), "{error}");
}

#[test]
fn suspect_memory_is_not_used() {
    let tiers = Tiers::new();
    let config = tiers.config(Policy::Fixed(Fixed::Memory));
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let dimm = Subject::new(SubjectKind::Dimm, "A1");
    let finding =
        Finding::new(Room::Memory, "uncorrected", dimm, Severity::Critical, "DIMM A1 has uncorrected errors.");
    let health = Health {
        version: Health::VERSION,
        updated_realtime_ns: since_1970.as_nanos() as u64,
        host: "here".into(),
        headline: Headline::of(std::slice::from_ref(&finding)),
        data_age_ns: None,
        lost: None,
        rooms: BTreeMap::from([(Room::Memory, RoomHealth::of(vec![finding]))]),
        parts: Vec::new(),
        parts_left_out: 0,
    };
    let health = serde_json::to_vec(&health).unwrap();
    fs::write(&config.health_file, health).unwrap();
    job(1, &config, |mut rank| {
        rank.compute(1);
        let saved = rank.job.checkpoint().unwrap();
        assert_eq!(saved.decision.place, Place::Durable);
        assert!(saved.decision.reasons.iter().any(|reason| reason.contains("DIMM A1")), "{saved:?}");
    });
    let back = restarted(1, &config, 1);
    assert!(back[0].1.as_ref().unwrap().as_ref().unwrap().report.contains("from the SSD"), "{back:?}");
}

#[test]
fn scrubbing_heals_what_is_there() {
    let tiers = Tiers::new();
    let mut config = tiers.config(always_both());
    if let Some(durable) = &mut config.durable {
        durable.options =
            DurableOptions { protection: surefoot_checkpoint::image::Protection::Shard, ..DurableOptions::default() };
    }
    job(1, &config, |mut rank| {
        rank.save(1);
        rank.job.wait_for_copies().unwrap();
        flip(&tiers.memory_files(0, "image")[0], 5);
        flip(&tiers.durable_files("image")[0], 9000);
        let lines = rank.job.scrub();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines.iter().all(|line| line.contains("1 bad") && line.contains("1 repaired")), "{lines:?}");
        assert!(rank.job.scrub().iter().all(|line| line.contains("pages, intact")));
    });
}

#[test]
fn routed_files_are_there_again_after_a_restart() {
    let tiers = Tiers::new();
    let config = tiers.config(Policy::Fixed(Fixed::Memory));
    job(2, &config, |mut rank| {
        let path = rank.job.route_file("output.dat").unwrap();
        let empty = rank.job.route_file("empty").unwrap();
        rank.compute(1);
        let error = rank.job.checkpoint().unwrap_err().to_string();
        assert!(error.contains("output.dat"), "{error}");
        fs::write(&path, state(rank.rank, 7)).unwrap();
        fs::write(&empty, b"").unwrap();
        rank.save(1);
        fs::write(&path, b"half of the next").unwrap();
        for wrong in ["", "a/b", "..", "x\ny"] {
            assert!(rank.job.route_file(wrong).is_err(), "{wrong:?}");
        }
    });
    job(2, &config, |mut rank| {
        rank.job.restart().unwrap().unwrap();
        assert!(rank.is_at(1));
        let path = rank.job.route_file("output.dat").unwrap();
        assert!(fs::read(&path).unwrap() == state(rank.rank, 7));
        assert_eq!(fs::read(rank.job.route_file("empty").unwrap()).unwrap(), b"");
        let left: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(left.len(), 2, "{left:?}");
    });
}

#[test]
fn two_kills_in_a_row_in_the_middle_of_a_save_lose_nothing() {
    let tiers = Tiers::new();
    let mut config = tiers.config(Policy::Fixed(Fixed::Memory));
    if let Some(memory) = &mut config.memory {
        memory.slots = 2;
    }
    job(2, &config, |mut rank| {
        rank.save(1);
        rank.save(2);
    });
    // Rank 1 was killed before it had its part of a generation that rank 0 has: what a kill leaves behind.
    let lose_newest_of_rank_1 = |slot: usize| {
        for kind in ["manifest", "copy"] {
            fs::remove_file(tiers.home.path().join(format!("memory/job/rank-00001/slot-{slot}.{kind}"))).unwrap();
        }
    };
    lose_newest_of_rank_1(1);
    job(2, &config, |mut rank| {
        rank.job.restart().unwrap().unwrap();
        assert!(rank.is_at(1));
        rank.save(3);
    });
    // Again, in the save after the restart: generation 1 must still be there on rank 0.
    lose_newest_of_rank_1(1);
    assert!(restarted(2, &config, 3).iter().all(|(step, _)| *step == Some(1)), "{:?}", restarted(2, &config, 3));
}

#[test]
fn a_lost_node_s_checkpoint_comes_back_from_its_partner() {
    let tiers = Tiers::new();
    let mut config = tiers.config(Policy::Fixed(Fixed::Memory));
    config.partner = true;
    job(3, &config, |mut rank| {
        for step in 1..=3 {
            assert_eq!(rank.save(step), Place::Memory);
        }
        let notices = rank.job.take_notices();
        let is_told =
            notices.iter().all(|notice| notice.starts_with("partner=yes does not protect from the loss of a node"));
        assert!(notices.len() == 1 && is_told, "{notices:?}");
    });
    let memory = tiers.home.path().join("memory/job");
    // The node of rank 1 is lost, with its own checkpoint and with the one that it holds for rank 0.
    fs::remove_dir_all(memory.join("rank-00001")).unwrap();
    fs::remove_dir_all(memory.join("partner-00001")).unwrap();
    let back = restarted(3, &config, 3);
    let report = |rank: usize| back[rank].1.as_ref().unwrap().as_ref().unwrap().report.clone();
    assert!(back.iter().all(|(step, _)| *step == Some(3)), "{back:?}");
    assert!(report(1).contains("from its partner"), "{}", report(1));
    assert!(report(0).contains("from memory") && report(2).contains("from memory"), "{back:?}");
    // Bad memory on the way back is repaired as any other.
    fs::remove_dir_all(memory.join("rank-00002")).unwrap();
    for image in files(&memory.join("partner-00000"), "image") {
        flip(&image, 4096 * 3 + 1);
    }
    let back = restarted(3, &config, 3);
    let report = back[2].1.as_ref().unwrap().as_ref().unwrap().report.clone();
    assert!(report.contains("from its partner") && report.contains("repaired"), "{report}");
}

#[test]
fn a_partner_keeps_the_restored_checkpoint_after_saves_that_were_killed() {
    let tiers = Tiers::new();
    let mut config = tiers.config(Policy::Fixed(Fixed::Memory));
    config.partner = true;
    if let Some(memory) = &mut config.memory {
        memory.slots = 2;
    }
    job(2, &config, |mut rank| {
        rank.save(1);
        rank.save(2);
    });
    // Each time rank 1 was killed after it took rank 0's copy and before its own part was done.
    let memory = tiers.home.path().join("memory/job");
    let lose_newest_of_rank_1 = || {
        for (store, kind) in [("rank-00001", "manifest"), ("rank-00001", "copy"), ("partner-00000", "manifest")] {
            fs::remove_file(memory.join(format!("{store}/slot-1.{kind}"))).unwrap();
        }
        let _ = fs::remove_file(memory.join("partner-00000/slot-1.copy"));
    };
    lose_newest_of_rank_1();
    job(2, &config, |mut rank| {
        rank.job.restart().unwrap().unwrap();
        rank.save(3);
    });
    lose_newest_of_rank_1();
    // And then the node of rank 0 is lost.
    fs::remove_dir_all(memory.join("rank-00000")).unwrap();
    fs::remove_dir_all(memory.join("partner-00000")).unwrap();
    let back = restarted(2, &config, 3);
    assert!(back.iter().all(|(step, _)| *step == Some(1)), "{back:?}");
}

/// Removes all directories of a job in a tier, and leaves its small files.
fn forget_directories(tiers: &Tiers, tier: &str) {
    for entry in fs::read_dir(tiers.home.path().join(tier).join("job")).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            fs::remove_dir_all(entry.path()).unwrap();
        }
    }
}

#[test]
fn checkpoints_that_went_and_left_their_file_of_nodes_are_a_refusal_and_no_beginning() {
    let begins = |tiers: &Tiers, config: &Config| -> Result<Vec<String>, String> {
        let all = job(2, config, |mut rank| {
            for refused in [rank.job.restart_resized().map(drop), rank.job.open_resized().map(drop)] {
                assert_eq!(refused.is_err(), rank.job.restart().is_err());
            }
            let restored = rank.job.restart().map_err(|error| error.to_string())?;
            assert_eq!(restored, None, "{}", tiers.home.path().display());
            Ok(rank.job.take_notices().join("; "))
        });
        all.into_iter().collect()
    };
    let save = |config: &Config| {
        job(2, config, |mut rank| {
            rank.save(1);
            rank.job.wait_for_copies().unwrap();
        });
    };
    // Both tiers, memory alone, the SSD alone: each time the directories go, and the files of nodes stay.
    for (policy, lost, tier_left) in [
        (always_both(), "memory", "ssd"),
        (always_both(), "ssd", "memory"),
        (Policy::Fixed(Fixed::Memory), "memory", "ssd"),
    ] {
        let tiers = Tiers::new();
        let config = tiers.config(policy);
        save(&config);
        forget_directories(&tiers, lost);
        fs::remove_dir_all(tiers.home.path().join(tier_left).join("job")).unwrap();
        let refused = begins(&tiers, &config).unwrap_err();
        let place = format!("{lost}/job");
        let words = [place.as_str(), "none is left", "to start over, remove", "nodes"];
        assert!(words.iter().all(|word| refused.contains(word)), "{refused}");
        // As it says.
        fs::remove_file(tiers.home.path().join(&place).join("nodes")).unwrap();
        assert_eq!(begins(&tiers, &config).unwrap(), ["", ""]);
    }
    // After a boot the file beside what was in memory is gone as well, and nothing had become durable.
    let tiers = Tiers::new();
    let config = tiers.config(Policy::Fixed(Fixed::Memory));
    save(&config);
    fs::remove_dir_all(tiers.home.path().join("memory/job")).unwrap();
    let said = begins(&tiers, &config).unwrap().join("; ");
    assert!(said.contains("nothing of it was durable: the job starts over"), "{said}");
}
