//! Slots that are made before the saves that need them.

use super::session::{Rank, Tiers};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};
use surefoot_checkpoint::controller::Fixed;
use surefoot_checkpoint::group::thread_group;
use surefoot_checkpoint::{Alone, Checkpointer, Config, Place, Policy};

/// Bytes of a rank's image: its 300,000 bytes in 16 columns of pages, three more of parity, and a table.
fn image_bytes(tiers: &Tiers) -> u64 {
    let mut rank = open(&tiers.config(Policy::Fixed(Fixed::Memory)));
    rank.save(1);
    let image = fs::metadata(&tiers.memory_files(0, "image")[0]).unwrap().len();
    rank.job.discard().unwrap();
    image
}

fn open(config: &Config) -> Rank {
    Rank::open(config.clone(), thread_group(1, None).remove(0)).unwrap()
}

/// The slots' files, by name: length and number.
fn images(tiers: &Tiers) -> BTreeMap<String, (u64, u64)> {
    let images = tiers.memory_files(0, "image").into_iter().filter_map(|path| {
        let found = fs::metadata(&path).ok()?;
        Some((path.file_name().unwrap().to_string_lossy().into_owned(), (found.len(), found.ino())))
    });
    images.collect()
}

/// Waits until so many slots have their whole length.
fn wait_for(tiers: &Tiers, slots: usize, bytes: u64) -> BTreeMap<String, (u64, u64)> {
    let begun = Instant::now();
    loop {
        let found = images(tiers);
        if found.len() == slots && found.values().all(|(length, _)| *length == bytes) {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(300), "{slots} slots of {bytes} bytes are not there: {found:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits as long as slots of this length take, to see that none come.
fn expect_no_more(tiers: &Tiers, slots: usize) {
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(images(tiers).len(), slots, "{:?}", images(tiers));
}

#[test]
fn the_first_saves_of_a_new_job_find_their_slots_made() {
    let (tiers, asks) = (
        Tiers::new(),
        [
            |rank: &mut Rank| drop(rank.job.restart().unwrap()),
            |rank: &mut Rank| {
                drop(rank.job.need_checkpoint().unwrap());
            },
        ],
    );
    let (config, bytes) = (tiers.config(Policy::Fixed(Fixed::Memory)), image_bytes(&tiers));
    for ask in asks {
        let mut rank = open(&config);
        assert_eq!(images(&tiers).len(), 0, "how much is not known yet");
        ask(&mut rank);
        let made = wait_for(&tiers, 3, bytes);
        assert_eq!(tiers.memory_files(0, "manifest").len(), 0);
        for step in 1..=5 {
            assert_eq!(rank.save(step), Place::Memory);
        }
        assert_eq!(images(&tiers), made, "the saves used the very files that were made");
        rank.state.fill(0);
        rank.job.restart().unwrap().unwrap();
        assert!(rank.is_at(5));
        rank.job.discard().unwrap();
    }
}

#[test]
fn a_job_that_asks_nothing_has_its_other_slots_made_after_the_first_save() {
    let tiers = Tiers::new();
    let (config, bytes) = (tiers.config(Policy::Fixed(Fixed::Memory)), image_bytes(&tiers));
    let mut rank = open(&config);
    rank.save(1);
    let made = wait_for(&tiers, 3, bytes);
    rank.save(2);
    rank.save(3);
    assert_eq!(images(&tiers), made);
}

#[test]
fn the_size_of_the_last_run_is_known_at_the_opening() {
    let tiers = Tiers::new();
    let always = surefoot_checkpoint::controller::Surefoot { staleness_max_s: 0.0, ..Default::default() };
    let (config, bytes) = (tiers.config(Policy::Surefoot(always)), image_bytes(&tiers));
    let mut rank = open(&config);
    assert_eq!(rank.save(1), Place::Both);
    rank.job.wait_for_copies().unwrap();
    drop(rank);
    // The node started anew: the SSD alone knows.
    fs::remove_dir_all(tiers.home.path().join("memory/job")).unwrap();
    let mut rank = open(&config);
    let made = wait_for(&tiers, 3, bytes);
    rank.job.restart().unwrap().unwrap();
    assert!(rank.is_at(1));
    rank.save(2);
    rank.job.wait_for_copies().unwrap();
    assert_eq!(images(&tiers), made);
    drop(rank);
    // In memory there is the second; the others are made again.
    let rank = open(&config);
    wait_for(&tiers, 3, bytes);
    drop(rank);
    assert_eq!(images(&tiers).len(), 1);
}

#[test]
fn what_was_made_and_not_used_goes_with_the_session() {
    let tiers = Tiers::new();
    let (config, bytes) = (tiers.config(Policy::Fixed(Fixed::Memory)), image_bytes(&tiers));
    let mut rank = open(&config);
    rank.job.need_checkpoint().unwrap();
    wait_for(&tiers, 3, bytes);
    drop(rank);
    assert_eq!(images(&tiers).len(), 0, "a job that saved nothing keeps no memory");
    let mut rank = open(&config);
    rank.save(1);
    wait_for(&tiers, 3, bytes);
    drop(rank);
    let kept: Vec<String> = images(&tiers).into_keys().collect();
    assert_eq!(kept, ["slot-0.image"], "the checkpoint stays");
    let mut rank = open(&config);
    rank.job.restart().unwrap().unwrap();
    assert!(rank.is_at(1));
}

#[test]
fn what_a_killed_run_had_made_is_used_and_confuses_nobody() {
    let tiers = Tiers::new();
    let (config, bytes) = (tiers.config(Policy::Fixed(Fixed::Memory)), image_bytes(&tiers));
    let directory = tiers.home.path().join("memory/job/rank-00000");
    fs::create_dir_all(&directory).unwrap();
    // One whole, one half: as a kill leaves them.
    for (slot, bytes) in [(0, bytes), (1, bytes / 2)] {
        let file = fs::File::create(directory.join(format!("slot-{slot}.image"))).unwrap();
        file.set_len(bytes).unwrap();
    }
    let found = images(&tiers);
    let mut rank = open(&config);
    assert!(rank.job.restart().unwrap().is_none(), "it is no checkpoint");
    let made = wait_for(&tiers, 3, bytes);
    assert!(found.iter().all(|(name, (_, number))| made[name].1 == *number), "{found:?} {made:?}");
    (1..=4).for_each(|step| assert_eq!(rank.save(step), Place::Memory));
    rank.state.fill(0);
    rank.job.restart().unwrap().unwrap();
    assert!(rank.is_at(4));
}

#[test]
fn the_setting_bounds_what_is_made() {
    let tiers = Tiers::new();
    let bytes = image_bytes(&tiers);
    for (most, slots) in [(0, 0), (bytes - 1, 0), (bytes, 1), (3 * bytes - 1, 2), (3 * bytes, 3)] {
        let mut config = tiers.config(Policy::Fixed(Fixed::Memory));
        config.set("memory.ahead_bytes", &most.to_string()).unwrap();
        let mut rank = open(&config);
        rank.job.need_checkpoint().unwrap();
        wait_for(&tiers, slots, bytes);
        expect_no_more(&tiers, slots);
        // What was not made ahead is made by the saves.
        (1..=4).for_each(|step| assert_eq!(rank.save(step), Place::Memory));
        assert_eq!(images(&tiers).len(), 3);
        rank.job.discard().unwrap();
    }
}

#[test]
fn jobs_that_do_not_save_in_memory_make_no_slots() {
    for policy in [Fixed::Durable, Fixed::Never] {
        let tiers = Tiers::new();
        let mut rank = open(&tiers.config(Policy::Fixed(policy)));
        rank.job.need_checkpoint().unwrap();
        rank.job.checkpoint().unwrap();
        expect_no_more(&tiers, 0);
    }
}

#[test]
fn a_state_that_grows_and_shrinks_has_slots_as_long_as_it_needs() {
    let tiers = Tiers::new();
    let config = Config::new("job", tiers.home.path().join("memory"), None);
    let mut rank =
        Checkpointer::open(Config { policy: Policy::Fixed(Fixed::Memory), ..config }, Box::new(Alone)).unwrap();
    let mut state = vec![0u8; 3_000_000];
    let lengths = [1_000, 2_000_000, 3_000_000, 100_000, 3_000_000, 2_500_000, 1];
    for (step, bytes) in lengths.into_iter().enumerate() {
        // SAFETY: `state` outlives the job, and is left alone during its calls.
        unsafe { rank.protect("state", state.as_mut_ptr(), bytes).unwrap() };
        state[..bytes].fill(step as u8 + 1);
        rank.need_checkpoint().unwrap();
        rank.checkpoint().unwrap();
        state.fill(0);
        rank.restart().unwrap().unwrap();
        assert!(state[..bytes].iter().all(|byte| *byte == step as u8 + 1), "{step}");
    }
}

/// A save comes while the thread is at work, again and again at another place of it.
#[test]
fn a_save_takes_over_what_the_thread_is_at() {
    let tiers = Tiers::new();
    let mut state = vec![7u8; 30 << 20];
    for turn in 0..12 {
        let mut config = Config::new("job", tiers.home.path().join("memory"), None);
        config.policy = Policy::Fixed(Fixed::Memory);
        let mut job = Checkpointer::open(config, Box::new(Alone)).unwrap();
        // SAFETY: `state` outlives the job, and is left alone during its calls.
        unsafe { job.protect("state", state.as_mut_ptr(), state.len()).unwrap() };
        job.need_checkpoint().unwrap();
        std::thread::sleep(Duration::from_millis(turn * 3));
        for step in 1..=3 {
            state.fill(turn as u8 * 4 + step);
            job.checkpoint().unwrap();
        }
        state.fill(0);
        job.restart().unwrap().unwrap();
        // Compared as a whole: byte by byte takes half a second without optimisation.
        assert!(state == vec![turn as u8 * 4 + 3; state.len()], "{turn}");
        job.discard().unwrap();
    }
}

/// Its file may not come back, nor its lock be held, after the session has ended in the middle of its work.
#[test]
fn the_thread_ends_with_the_session() {
    let tiers = Tiers::new();
    let mut state = vec![7u8; 30 << 20];
    for turn in 0..12 {
        let mut config = Config::new("job", tiers.home.path().join("memory"), None);
        config.policy = Policy::Fixed(Fixed::Memory);
        let mut job = Checkpointer::open(config, Box::new(Alone)).unwrap();
        // SAFETY: `state` outlives the job, and is left alone during its calls.
        unsafe { job.protect("state", state.as_mut_ptr(), state.len()).unwrap() };
        job.need_checkpoint().unwrap();
        std::thread::sleep(Duration::from_millis(turn * 2));
        drop(job);
        assert_eq!(images(&tiers), BTreeMap::new(), "{turn}");
    }
    expect_no_more(&tiers, 0);
    let mapped = fs::read_to_string("/proc/self/maps").unwrap();
    let directory = fs::canonicalize(tiers.home.path().join("memory")).unwrap();
    assert!(!mapped.contains(directory.to_str().unwrap()), "a slot is still mapped");
}
