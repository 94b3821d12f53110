//! Each tier fails alone: a restart comes from what is intact, and says what it could not look at.

use super::session::{Back, Rank, Tiers, always_both, flip, job, restarted};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use surefoot_checkpoint::controller::Fixed;
use surefoot_checkpoint::group::{ThreadGroup, thread_group};
use surefoot_checkpoint::{Config, Error, Group, Place, Policy};

fn save_two(config: &Config) {
    job(2, config, |mut rank| {
        for step in 1..=2 {
            assert_eq!(rank.save(step), Place::Both);
            rank.job.wait_for_copies().unwrap();
        }
    });
}

fn report(back: &Back) -> &str {
    &back.1.as_ref().unwrap().as_ref().unwrap().report
}

/// A user who is nobody else here, such as `nobody`.
const STRANGER: u32 = 65_534;

/// Runs something as another user, in a thread of its own: the kernel keeps users by thread. `None` where that is not allowed.
pub fn as_stranger<T: Send>(run: impl FnOnce() -> T + Send) -> Option<T> {
    let become_stranger_and_run = || {
        // SAFETY: the call takes numbers; it is the kernel's own, which changes this thread alone.
        let changed = unsafe { libc::syscall(libc::SYS_setresuid, STRANGER, STRANGER, STRANGER) };
        (changed == 0).then(run)
    };
    std::thread::scope(|scope| scope.spawn(become_stranger_and_run).join().unwrap())
}

/// Gives all of a folder to the stranger, and lets him come to it.
pub fn give_to_stranger(tiers: &Tiers) {
    let home = tiers.home.path();
    fs::set_permissions(home, fs::Permissions::from_mode(0o755)).unwrap();
    for tier in ["memory", "ssd"] {
        let directory = fs::canonicalize(home.join(tier)).unwrap();
        chown(&directory, Some(STRANGER), None).unwrap();
    }
}

#[test]
fn an_ssd_that_is_dead_or_missing_stops_no_restart_from_memory() {
    type Harm = fn(&Path);
    let harms: [(&str, Harm, &str); 3] = [
        ("missing", |_| {}, "create or mount it"),
        ("a file in its place", |ssd| fs::write(ssd, b"no directory").unwrap(), "ot a directory"),
        (
            "a file in the job's place",
            |ssd| {
                fs::create_dir(ssd).unwrap();
                fs::write(ssd.join("job"), b"no directory").unwrap();
            },
            "ot a directory",
        ),
    ];
    for (name, harm, said) in harms {
        let tiers = Tiers::new();
        let config = tiers.config(always_both());
        save_two(&config);
        let (ssd, away) = (tiers.home.path().join("ssd"), tiers.home.path().join("away"));
        fs::rename(&ssd, &away).unwrap();
        harm(&ssd);
        job(2, &config, |mut rank| {
            rank.state.fill(0xAA);
            let restored = rank.job.restart().unwrap().unwrap();
            assert!(rank.is_at(2), "{name}");
            let words = ["from memory", "cannot look at the SSD", said, "a newer one may be there"];
            assert!(words.iter().all(|word| restored.report.contains(word)), "{name}: {}", restored.report);
            let notices = rank.job.take_notices();
            assert!(notices.len() == 1 && notices[0].contains("rank 0: the SSD cannot be used"), "{name}: {notices:?}");
            assert_eq!(rank.save(3), Place::Memory, "{name}");
        });
        // It comes back, and what was taken meanwhile is the newest.
        if fs::remove_file(&ssd).is_err() {
            let _ = fs::remove_dir_all(&ssd);
        }
        fs::rename(&away, &ssd).unwrap();
        let back = restarted(2, &config, 3);
        assert!(back.iter().all(|back| back.0 == Some(3) && !report(back).contains("cannot look")), "{back:?}");
    }
}

#[test]
fn every_rank_is_told_which_rank_lacks_which_tier_and_what_of_the_policy_cannot_be_kept() {
    let tiers = Tiers::new();
    let home = tiers.home.path();
    let configs = [0, 1].map(|rank| {
        let own = home.join(format!("ssd-{rank}"));
        fs::create_dir_all(&own).unwrap();
        let mut config = tiers.config(Policy::Fixed(Fixed::EveryNth(1)));
        config.durable.as_mut().unwrap().directory = own;
        config
    });
    let on_all = |run: &(dyn Fn(Rank) + Sync)| {
        std::thread::scope(|scope| {
            for (group, config) in thread_group(2, Some(Duration::from_secs(300))).into_iter().zip(&configs) {
                scope.spawn(move || run(Rank::open(config.clone(), group).unwrap()));
            }
        });
    };
    on_all(&|mut rank| {
        assert_eq!(rank.save(1), Place::Both);
        rank.job.wait_for_copies().unwrap();
    });
    fs::remove_dir_all(home.join("ssd-1")).unwrap();
    on_all(&|mut rank| {
        let notices = rank.job.take_notices();
        let ssd = home.join("ssd-1").display().to_string();
        let words =
            ["rank 1: the SSD cannot be used", &ssd, "create or mount it", "(every:1)", "No checkpoint of any rank"];
        assert!(notices.len() == 1 && words.iter().all(|word| notices[0].contains(word)), "{notices:?}");
        rank.job.restart().unwrap().unwrap();
        assert_eq!(rank.save(2), Place::Memory);
    });
}

#[test]
fn a_policy_for_a_tier_that_is_not_configured_is_refused_on_all_ranks() {
    let tiers = Tiers::new();
    let whole = tiers.config(Policy::Fixed(Fixed::Never));
    let without_durable = Config { durable: None, ..whole.clone() };
    let without_memory = Config { memory: None, ..whole.clone() };
    for (word, needs_memory, needs_durable) in [
        ("surefoot", false, false),
        ("never", false, false),
        ("memory", true, false),
        ("durable", false, true),
        ("every:3", true, true),
        ("paper-every:10", true, true),
        ("paper", true, true),
        ("paper-performance", true, true),
        ("paper-lifetime", true, true),
    ] {
        let cases = [
            (&whole, None),
            (&without_durable, needs_durable.then_some("durable")),
            (&without_memory, needs_memory.then_some("memory")),
        ];
        for (config, missing) in cases {
            let mut config = config.clone();
            config.set("policy", word).unwrap();
            let told = std::thread::scope(|scope| {
                let open = |group: ThreadGroup| scope.spawn(|| Rank::open(config.clone(), group).err());
                let threads: Vec<_> = thread_group(2, Some(Duration::from_secs(300))).into_iter().map(open).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
            });
            for error in told {
                match (&error, missing) {
                    (None, None) => {}
                    (Some(Error::Option { option: "policy", why }), Some(tier)) => {
                        assert!(why.starts_with(word) && why.contains(&format!("set {tier} to a directory")), "{why}");
                    }
                    _ => panic!("{word} without {missing:?}: {error:?}"),
                }
            }
        }
    }
}

#[test]
fn an_ssd_of_another_user_stops_no_restart_from_memory_and_is_not_read() {
    let tiers = Tiers::new();
    let config = tiers.config(always_both());
    // SAFETY: it only reads a number.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("not run: only root can be another user");
        return;
    }
    give_to_stranger(&tiers);
    let ssd = tiers.home.path().join("ssd");
    let open = || Rank::open(config.clone(), thread_group(1, None).remove(0)).unwrap();
    as_stranger(|| {
        let mut rank = open();
        rank.save(1);
        rank.job.wait_for_copies().unwrap();
    });
    // Once the directory of the job is another's and closed, once it is open to all, once the whole drive is closed.
    for (path, mode) in [(ssd.join("job"), 0o700), (ssd.join("job"), 0o777), (ssd.clone(), 0o700)] {
        chown(&path, Some(0), None).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let report = as_stranger(|| {
            let mut rank = open();
            rank.state.fill(0xAA);
            let restored = rank.job.restart().unwrap().unwrap();
            assert!(rank.is_at(1));
            restored.report
        });
        let report = report.unwrap();
        assert!(report.contains("from memory") && report.contains("cannot look at the SSD"), "{report}");
        assert!(!report.contains("os error"), "{report}");
    }
    // Without memory it is no beginning, either.
    fs::remove_dir_all(tiers.home.path().join("memory/job")).unwrap();
    let refused = as_stranger(|| {
        let opened = Rank::open(config.clone(), thread_group(1, None).remove(0));
        opened.err().unwrap().to_string()
    });
    let refused = refused.unwrap();
    assert!(refused.contains(&ssd.display().to_string()) && refused.contains("right"), "{refused}");
}

#[test]
fn memory_that_cannot_be_used_stops_no_restart_from_the_ssd() {
    for is_file in [false, true] {
        let tiers = Tiers::new();
        let mut config = tiers.config(always_both());
        config.partner = is_file;
        save_two(&config);
        config.memory.as_mut().unwrap().directory = tiers.home.path().join("elsewhere");
        if is_file {
            fs::write(tiers.home.path().join("elsewhere"), b"no directory").unwrap();
        }
        job(2, &config, |mut rank| {
            rank.state.fill(0xAA);
            let restored = rank.job.restart().unwrap().unwrap();
            assert!(rank.is_at(2));
            let words = ["from the SSD", "cannot look at memory", "elsewhere", "a newer one may be there"];
            assert!(words.iter().all(|word| restored.report.contains(word)), "{}", restored.report);
            assert_eq!(rank.save(3), Place::Durable);
        });
        let back = restarted(2, &config, 3);
        assert!(back.iter().all(|back| back.0 == Some(3)), "{back:?}");
    }
}

#[test]
fn one_rank_s_dead_drive_leaves_the_other_ranks_theirs() {
    let tiers = Tiers::new();
    let config = tiers.config(always_both());
    save_two(&config);
    // Rank 0 has lost its memory, and rank 1 its drive.
    fs::remove_dir_all(tiers.home.path().join("memory/job/rank-00000")).unwrap();
    let run = |group: ThreadGroup| {
        let mut config = config.clone();
        if group.rank() == 1 {
            config.durable.as_mut().unwrap().directory = tiers.home.path().join("dead");
        }
        let mut rank = Rank::open(config, group).unwrap();
        rank.state.fill(0xAA);
        let restored = rank.job.restart().unwrap().unwrap();
        assert!(rank.is_at(2));
        assert_eq!(rank.save(3), Place::Memory, "no rank writes where one cannot");
        restored.report
    };
    let reports: Vec<String> = std::thread::scope(|scope| {
        let groups = thread_group(2, Some(Duration::from_secs(300)));
        let threads: Vec<_> = groups.into_iter().map(|group| scope.spawn(|| run(group))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(reports[0].contains("from the SSD") && reports[1].contains("from memory"), "{reports:?}");
    assert!(reports.iter().all(|report| report.contains("rank 1 cannot look at the SSD")), "{reports:?}");
}

#[test]
fn a_job_never_begins_anew_beside_a_tier_that_cannot_be_looked_at() {
    let tiers = Tiers::new();
    let config = tiers.config(always_both());
    save_two(&config);
    fs::rename(tiers.home.path().join("ssd"), tiers.home.path().join("away")).unwrap();
    // One rank has its memory still, and so there is something to go on from; but not for both.
    fs::remove_dir_all(tiers.home.path().join("memory/job/rank-00001")).unwrap();
    for back in restarted(2, &config, 2) {
        let error = back.1.unwrap_err();
        let words = [
            "cannot look at the SSD",
            "none of them whole within reach of these 2 ranks",
            "memory/job",
            "surefoot checkpoint verify",
        ];
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
    fs::remove_dir_all(tiers.home.path().join("memory/job")).unwrap();
    std::thread::scope(|scope| {
        for group in thread_group(2, Some(Duration::from_secs(300))) {
            let config = config.clone();
            scope.spawn(move || {
                let error = Rank::open(config, group).err().unwrap().to_string();
                assert!(error.contains("/ssd: create or mount it"), "{error}");
            });
        }
    });
    // A first checkpoint that was begun, and a drive that is gone.
    fs::rename(tiers.home.path().join("away"), tiers.home.path().join("ssd")).unwrap();
    fs::remove_dir_all(tiers.home.path().join("ssd/job")).unwrap();
    job(2, &config, |mut rank| {
        rank.save(1);
    });
    fs::remove_dir_all(tiers.home.path().join("ssd")).unwrap();
    fs::remove_dir_all(tiers.home.path().join("memory/job/rank-00001")).unwrap();
    for path in tiers.memory_files(0, "copy") {
        fs::rename(&path, path.with_extension("pending")).unwrap();
    }
    let refused = restarted(2, &config, 1).remove(0).1.unwrap_err();
    assert!(refused.contains("cannot look at the SSD"), "{refused}");
}

#[test]
fn what_the_drive_had_newer_does_not_win_over_what_came_after() {
    let tiers = Tiers::new();
    let config = tiers.config(Policy::Fixed(Fixed::PaperNth(3)));
    job(1, &config, |mut rank| {
        let places = (1..=3).map(|step| rank.save(step)).collect::<Vec<_>>();
        assert_eq!(places, [Place::Memory, Place::Memory, Place::Durable]);
    });
    let (ssd, away) = (tiers.home.path().join("ssd"), tiers.home.path().join("away"));
    fs::rename(&ssd, &away).unwrap();
    job(1, &config, |mut rank| {
        let report = rank.job.restart().unwrap().unwrap().report;
        assert!(rank.is_at(2) && report.contains("a newer one may be there"), "{report}");
        rank.save(4);
    });
    fs::rename(&away, &ssd).unwrap();
    assert_eq!(restarted(1, &config, 4)[0].0, Some(4));
}

#[test]
fn every_nth_is_on_the_ssd_as_well_and_a_dead_ssd_costs_no_step() {
    for every in [1, 2] {
        let tiers = Tiers::new();
        let config = tiers.config(Policy::Fixed(Fixed::EveryNth(every)));
        job(2, &config, |mut rank| {
            let places = (1..=4).map(|step| rank.save(step)).collect::<Vec<_>>();
            let wanted = |step: u64| if step.is_multiple_of(every) { Place::Both } else { Place::Memory };
            assert_eq!(places, (1..=4).map(wanted).collect::<Vec<_>>());
            rank.job.wait_for_copies().unwrap();
        });
        let (ssd, memory) =
            (tiers.home.path().join("ssd"), fs::canonicalize(tiers.home.path().join("memory")).unwrap());
        fs::rename(&ssd, tiers.home.path().join("away")).unwrap();
        for back in restarted(2, &config, 4) {
            assert!(back.0 == Some(4) && report(&back).contains("from memory"), "every:{every}: {back:?}");
        }
        // And without memory the newest that was for the SSD is there.
        fs::rename(tiers.home.path().join("away"), &ssd).unwrap();
        fs::remove_dir_all(memory.join("job")).unwrap();
        for back in restarted(2, &config, 4) {
            assert!(back.0 == Some(4) && report(&back).contains("from the SSD"), "every:{every}: {back:?}");
        }
    }
}

#[test]
fn a_restart_tells_what_is_newer_and_was_passed_over() {
    let tiers = Tiers::new();
    let config = tiers.config(Policy::Fixed(Fixed::Memory));
    job(2, &config, |mut rank| {
        rank.save(1);
        rank.save(2);
    });
    for kind in ["manifest", "copy"] {
        fs::remove_file(tiers.home.path().join(format!("memory/job/rank-00001/slot-1.{kind}"))).unwrap();
    }
    for back in restarted(2, &config, 2) {
        assert_eq!(back.0, Some(1));
        let said = "newer and not within reach: generation 2: missing: the part of rank 1";
        assert!(report(&back).contains(said), "{}", report(&back));
    }
}

#[test]
fn a_refusal_says_it_once_with_its_directories_and_a_remedy() {
    let tiers = Tiers::new();
    let config = tiers.config(Policy::Fixed(Fixed::Memory));
    job(2, &config, |mut rank| {
        rank.save(1);
    });
    for image in tiers.memory_files(1, "image") {
        fs::write(image, b"short").unwrap();
    }
    for (_, restored) in restarted(2, &config, 1) {
        let error = restored.unwrap_err();
        assert_eq!(error.matches("no checkpoint can be restored").count(), 1, "{error}");
        let words = ["memory/job", "ssd/job", "surefoot checkpoint verify", "rank 1"];
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
    job(1, &config, |_rank| {
        let second = Rank::open(config.clone(), thread_group(1, None).remove(0));
        let error = second.err().unwrap().to_string();
        assert!(error.contains("the same job is running here: wait") && !error.contains("os error"), "{error}");
    });
}

/// Ranks that talk, until one of them hears of nothing any more, though the others heard it.
struct Deaf {
    ranks: ThreadGroup,
    /// After so many more agreements; 0 for never.
    left: Arc<AtomicU32>,
}

impl Group for Deaf {
    fn rank(&self) -> u32 {
        self.ranks.rank()
    }

    fn size(&self) -> u32 {
        self.ranks.size()
    }

    fn broadcast(&self, bytes: &mut [u8], root: u32) -> Result<(), Error> {
        self.ranks.broadcast(bytes, root)
    }

    fn gather_all(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        self.ranks.gather_all(own)
    }

    fn exchange(&self, to: u32, send: &[u8], from: u32, receive: &mut [u8]) -> Result<(), Error> {
        self.ranks.exchange(to, send, from, receive)?;
        // This rank has done its part of the agreement.
        let counts = self.rank() == 1 && !receive.is_empty() && self.left.load(Ordering::Relaxed) > 0;
        if counts && self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            return Err(Error::Group { why: "the network is gone".into() });
        }
        Ok(())
    }
}

/// Runs two ranks; setting the number makes the second hear of nothing after so many more agreements.
fn with_one_deaf(config: &Config, run: impl Fn(Rank, &AtomicU32) + Sync) {
    std::thread::scope(|scope| {
        for ranks in thread_group(2, Some(Duration::from_secs(300))) {
            let run = &run;
            scope.spawn(move || {
                let left = Arc::new(AtomicU32::new(0));
                let group = Deaf { ranks, left: Arc::clone(&left) };
                run(Rank::open(config.clone(), group).unwrap(), &left);
            });
        }
    });
}

#[test]
fn a_rank_that_hears_of_nothing_any_more_keeps_its_part_for_those_who_did() {
    let is_group = |error: Error| matches!(error, Error::Group { .. });
    // In memory: it is decided, the parts are saved.
    let tiers = Tiers::new();
    let config = tiers.config(Policy::Fixed(Fixed::Memory));
    with_one_deaf(&config, |mut rank, left| {
        rank.save(1);
        rank.compute(2);
        left.store(2, Ordering::Relaxed);
        let saved = rank.job.checkpoint();
        assert_eq!(saved.is_ok(), rank.rank == 0);
        assert!(saved.is_ok() || is_group(saved.unwrap_err()));
    });
    let back = restarted(2, &config, 2);
    assert!(back.iter().all(|back| back.0 == Some(2)), "{back:?}");
    // On the SSD: the parts are written, which the first marks as complete.
    let tiers = Tiers::new();
    let config = tiers.config(always_both());
    with_one_deaf(&config, |mut rank, left| {
        assert_eq!(rank.save(1), Place::Both);
        left.store(1, Ordering::Relaxed);
        assert!(rank.job.wait_for_copies().is_err_and(is_group), "the first waits for the mark in vain");
    });
    fs::remove_dir_all(tiers.home.path().join("memory/job")).unwrap();
    let back = restarted(2, &config, 1);
    assert!(back.iter().all(|back| back.0 == Some(1)), "{back:?}");
    assert_eq!(tiers.durable_files("image").len(), 2);
}

#[test]
fn a_directory_in_which_other_users_may_replace_files_is_said() {
    let tiers = Tiers::new();
    let config = tiers.config(always_both());
    // Members of the group are other users too, and an ACL shows its mask in the bits of the group.
    for (tier, mode, is_open) in [
        ("memory", 0o777, true),
        ("memory", 0o1777, false),
        ("ssd", 0o757, true),
        ("ssd", 0o775, true),
        ("ssd", 0o755, false),
    ] {
        let path = tiers.home.path().join(tier);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let said = job(2, &config, |mut rank| rank.job.take_notices().join("; "));
        let wanted = format!("other users can remove or replace checkpoints in {}: run `chmod go-w`", path.display());
        assert!(said.iter().all(|said| said.contains(&wanted) == is_open), "{tier} {mode:o}: {said:?}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    }
}

#[test]
fn a_smaller_keep_removes_nothing_before_what_stays_there_is_proved() {
    for is_rotten in [true, false] {
        let tiers = Tiers::new();
        let mut config = tiers.config(always_both());
        save_two(&config);
        job(2, &config, |mut rank| {
            rank.job.restart().unwrap().unwrap();
            rank.compute(3);
            rank.job.checkpoint_to(Place::Memory).unwrap();
        });
        let images = tiers.durable_files("image");
        assert_eq!(images.len(), 4, "two generations of two ranks: {images:?}");
        if is_rotten {
            flip(&images[3], 77);
        }
        config.set("durable.keep", "1").unwrap();
        let notices = job(2, &config, |mut rank| {
            let restored = rank.job.restart().unwrap().unwrap();
            assert!(restored.generation.number == 3 && restored.report.contains("from memory"), "{restored:?}");
            rank.job.take_notices().join("; ")
        });
        let left = tiers.durable_files("image").len();
        fs::remove_dir_all(tiers.home.path().join("memory/job")).unwrap();
        let back = restarted(2, &config, 3);
        if is_rotten {
            assert!(notices[1].contains("generation 2") && notices[1].contains("is not intact"), "{notices:?}");
            assert!(left == 4 && back.iter().all(|back| back.0 == Some(1)), "{left}: {back:?}");
        } else {
            assert!(notices.iter().all(|said| !said.contains("is not intact")), "{notices:?}");
            assert!(left == 2 && back.iter().all(|back| back.0 == Some(2)), "{left}: {back:?}");
        }
    }
}
