//! What is left of a budget when the next session begins.

#![allow(clippy::unwrap_used)]
use super::*;
use crate::controller::{Place, Policy, Surefoot, YEAR_S};
use crate::group::{ThreadGroup, thread_group};
use crate::inspect::{self, Drains};
use crate::session::Checkpointer;
use crate::testing::{Home, make_memory};
use crate::{Alone, Config, Group};
use std::fs;
use std::path::Path;

const BYTES: usize = 200_000;

/// The tier in which such a job keeps its budget.
fn tier(home: &Path) -> crate::tier::Durable {
    let ssd = home.join("ssd");
    crate::tier::Durable::open(std::sync::Arc::new(crate::Disk), &ssd, "job", Default::default()).unwrap()
}

/// A job on a drive that bears one checkpoint in an hour, in a directory of its own.
fn config(home: &Path) -> Config {
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.join(name));
    make_memory(&memory);
    fs::create_dir_all(&ssd).unwrap();
    let mut config = Config::new("job", &memory, Some(ssd));
    config.drive_file = None;
    config.policy = Policy::Surefoot(Surefoot { burst_s: 1.0, ..Surefoot::default() });
    let rated = 2.0 * BYTES as f64 * YEAR_S / 3_600.0;
    config.set("endurance.rated_bytes", &format!("{rated}")).unwrap();
    config.set("endurance.remaining_years", "1").unwrap();
    config
}

/// One session on a machine, which takes a checkpoint and ends without a word; where it went, and what was said.
fn session(host: &str, home: &Path, group: impl Group + 'static) -> (Place, String) {
    let mut job = Checkpointer::open_on(host.into(), config(home), Box::new(group)).unwrap();
    let mut state = vec![7u8; BYTES];
    // SAFETY: `state` outlives `job`, and is left alone during its calls.
    unsafe { job.protect("state", state.as_mut_ptr(), BYTES).unwrap() };
    job.restart().unwrap();
    let place = job.checkpoint().unwrap().decision.place;
    let said = job.take_notices().join("; ");
    (place, said)
}

fn alone(home: &Path) -> (Place, String) {
    session("a", home, Alone)
}

#[test]
fn a_job_that_crashes_in_a_loop_writes_no_burst_at_each_start() {
    let home = Home::new();
    let places: Vec<Place> = (0..5).map(|_| alone(home.path()).0).collect();
    assert_eq!(places[0], Place::Both);
    assert!(places[1..].iter().all(|place| *place == Place::Memory), "{places:?}");
    // What was left grows with time: two hours later one more may be written.
    let file = home.path().join("ssd/job/budget");
    let tier = tier(home.path());
    let kept = tier.kept_budget().unwrap().unwrap();
    assert!(kept.left_bytes < BYTES as f64, "{kept:?}");
    tier.keep_budget(&Budget { realtime_ns: kept.realtime_ns - 7_200_000_000_000, ..kept }).unwrap();
    assert_eq!(alone(home.path()).0, Place::Both);
    assert_eq!(alone(home.path()).0, Place::Memory);
    // It is kept before the image is written, so that a process that is killed meanwhile has it in its books.
    let modified = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
    let newest = tier.generations().unwrap()[0].generation;
    let image = home.path().join("ssd/job").join(crate::tier::directory_name(newest)).join("rank-00000.image");
    assert!(modified(&file) <= modified(&image));
}

#[test]
fn numbers_that_are_told_as_words_keep_their_order_and_come_back() {
    let numbers = [f64::MIN, -540_655.5, -1.0, -0.0, 0.0, f64::MIN_POSITIVE, 2.5, f64::MAX];
    assert!(numbers.map(ordered).is_sorted_by(|one, next| one < next), "{:x?}", numbers.map(ordered));
    assert_eq!(numbers.map(|number| from_ordered(ordered(number))), numbers);
    assert!(numbers.iter().all(|number| !ordered(*number) != 0), "0 is for what nobody knows");
}

#[test]
fn what_finish_a_drain_and_the_program_itself_write_comes_off_the_budget() {
    let home = Home::new();
    let mut state = vec![7u8; BYTES];
    let mut opened = || {
        let mut job = Checkpointer::open_on("a".into(), config(home.path()), Box::new(Alone)).unwrap();
        // SAFETY: `state` outlives `job`, and is left alone during its calls.
        unsafe { job.protect("state", state.as_mut_ptr(), BYTES).unwrap() };
        job
    };
    let left = || tier(home.path()).kept_budget().unwrap().unwrap().left_bytes;
    let mut job = opened();
    // The first write of all, of which no policy was asked.
    assert_eq!(job.checkpoint_to(Place::Durable).unwrap().decision.place, Place::Durable);
    let first = left();
    assert!(first < 0.5 * BYTES as f64, "the bucket holds one checkpoint: {first}");
    assert_eq!(job.checkpoint_to(Place::Memory).unwrap().decision.place, Place::Memory);
    assert_ne!(job.finish().unwrap().is_durable, Some(false));
    let finished = left();
    assert!(finished < first - 0.9 * BYTES as f64, "{finished} after {first}");
    assert_ne!(job.finish().unwrap().is_durable, Some(false));
    assert_eq!(left(), finished, "nothing was written");
    assert_eq!(job.checkpoint_to(Place::Memory).unwrap().decision.place, Place::Memory);
    drop(job);
    let wish = Drains {
        job: "job".into(),
        memory: home.path().join("memory"),
        durable: home.path().join("ssd"),
        options: Default::default(),
        is_part: false,
        prunes: false,
    };
    assert!(inspect::drain(&wish, &mut |_, _| {}).unwrap().bytes > 0);
    let drained = left();
    assert!(drained < finished - 0.9 * BYTES as f64, "{drained} after {finished}");
    assert_eq!(inspect::drain(&wish, &mut |_, _| {}).unwrap().bytes, 0);
    assert_eq!(left(), drained, "nothing was written");
    // What a session that only restarts makes durable counts, too.
    let mut job = opened();
    fs::remove_dir_all(
        home.path()
            .join("ssd/job")
            .join(crate::tier::directory_name(tier(home.path()).generations().unwrap()[0].generation)),
    )
    .unwrap();
    job.restart().unwrap().unwrap();
    assert_ne!(job.finish().unwrap().is_durable, Some(false));
    assert!(left() < drained - 0.9 * BYTES as f64, "{} after {drained}", left());
}

#[test]
fn a_budget_that_is_missing_damaged_or_from_the_future_is_what_is_safe() {
    let home = Home::new();
    assert_eq!(alone(home.path()).0, Place::Both);
    let file = home.path().join("ssd/job/budget");
    let good = fs::read(&file).unwrap();
    let mut wrong = good.clone();
    wrong[20] ^= 1;
    let mut other = good.clone();
    other[7] = b'9';
    let nothing = b"no budget".to_vec();
    for bytes in [wrong, other, nothing, good[..10].to_vec(), Vec::new()] {
        fs::write(&file, &bytes).unwrap();
        let (place, said) = alone(home.path());
        assert_eq!(place, Place::Memory, "nobody knows how much was written: {said}");
        assert!(said.contains("begins empty") && said.contains("budget"), "{said}");
    }
    let tier = tier(home.path());
    tier.keep_budget(&Budget { left_bytes: 0.0, realtime_ns: u64::MAX }).unwrap();
    let (place, said) = alone(home.path());
    assert!(place == Place::Memory && said.contains("later than it is now"), "{said}");
    fs::remove_file(&file).unwrap();
    let (place, said) = alone(home.path());
    assert!(place == Place::Both && !said.contains("budget"), "a job begins with a full one: {said}");
}

#[test]
fn ranks_of_several_nodes_go_on_with_the_least_that_any_drive_has_left() {
    let home = Home::new();
    let [a, b] = ["a", "b"].map(|host| home.path().join(host));
    let run = || -> Vec<Place> {
        let ranks: Vec<(ThreadGroup, &Path, &str)> = thread_group(2, None)
            .into_iter()
            .zip([(&*a, "a"), (&*b, "b")])
            .map(|(group, (home, host))| (group, home, host))
            .collect();
        std::thread::scope(|scope| {
            let ranks: Vec<_> = ranks
                .into_iter()
                .map(|(group, home, host)| scope.spawn(move || session(host, home, group).0))
                .collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        })
    };
    assert_eq!(run(), [Place::Both; 2]);
    assert!(a.join("ssd/job/budget").exists() && b.join("ssd/job/budget").exists(), "each on its own drive");
    // One of the two ranks has another drive now, which knows nothing.
    fs::remove_file(b.join("ssd/job/budget")).unwrap();
    assert_eq!(run(), [Place::Memory; 2]);
}
