//! Ranks that keep parity of each other's checkpoints.

use super::payload::payload;
use super::session::{Tiers, files, flip};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use surefoot_checkpoint::controller::Fixed;
use surefoot_checkpoint::group::{ThreadGroup, thread_group};
use surefoot_checkpoint::{Checkpointer, Config, Error, Group, Policy};

/// What a rank computes after so many steps: of another length on each, and nothing at all on some.
fn state(rank: u32, step: u64) -> Vec<u8> {
    let bytes = if rank % 5 == 4 { 0 } else { 40_000 + rank as usize * 33_333 };
    payload(bytes, step * 100 + u64::from(rank))
}

struct Member {
    job: Checkpointer,
    state: Vec<u8>,
    rank: u32,
}

impl Member {
    fn save(&mut self, step: u64) -> Vec<String> {
        self.state.copy_from_slice(&state(self.rank, step));
        self.job.checkpoint().unwrap();
        let mut notices = self.job.take_notices();
        // All ranks of a test are on this machine, of which another test is.
        notices.retain(|notice| !notice.starts_with("parity does not protect from the loss of a node: all "));
        notices
    }

    /// The step that it is at after a restart, and what the restart said.
    fn restart(&mut self, steps: u64) -> Result<(u64, String), String> {
        self.state.fill(0xAA);
        let restored = self.job.restart().map_err(|error| error.to_string())?.ok_or("nothing")?;
        let step = restored.generation.number;
        assert!(step <= steps && self.state == state(self.rank, step), "rank {} has wrong data", self.rank);
        Ok((step, restored.report))
    }
}

fn run<T: Send>(ranks: u32, config: &Config, run: impl Fn(Member) -> T + Sync) -> Vec<T> {
    let member = |group: ThreadGroup| {
        let rank = group.rank();
        let mut state = state(rank, 0);
        let mut job = Checkpointer::open(config.clone(), Box::new(group)).unwrap();
        // SAFETY: the state lives as long as the job, never grows, and is left alone during calls.
        unsafe { job.protect("state", state.as_mut_ptr(), state.len()).unwrap() };
        run(Member { job, state, rank })
    };
    std::thread::scope(|scope| {
        let member = &member;
        let group = thread_group(ranks, Some(Duration::from_secs(300)));
        let threads: Vec<_> = group.into_iter().map(|group| scope.spawn(move || member(group))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn config(tiers: &Tiers, parity: &str) -> Config {
    let mut config = tiers.config(Policy::Fixed(Fixed::Memory));
    config.set("parity", parity).unwrap();
    config
}

fn save(ranks: u32, config: &Config, steps: std::ops::RangeInclusive<u64>) {
    run(ranks, config, |mut member| {
        for step in steps.clone() {
            assert_eq!(member.save(step), Vec::<String>::new());
        }
    });
}

fn restart(ranks: u32, config: &Config, steps: u64) -> Vec<Result<(u64, String), String>> {
    run(ranks, config, |mut member| member.restart(steps))
}

/// Loses all that a rank has in memory.
fn lose(tiers: &Tiers, rank: u32) {
    for name in ["rank", "parity"] {
        fs::remove_dir_all(tiers.home.path().join(format!("memory/job/{name}-{rank:05}"))).unwrap();
    }
}

/// Whether all ranks came back to this step, the lost ones rebuilt.
fn expect_rebuilt(back: &[Result<(u64, String), String>], step: u64, lost: &[u32]) {
    for (rank, back) in back.iter().enumerate() {
        let (at, report) = back.as_ref().unwrap();
        assert_eq!(*at, step, "{report}");
        let word = if lost.contains(&(rank as u32)) { "rebuilt from parity" } else { "from memory" };
        assert!(report.contains(word), "rank {rank}: {report}");
    }
}

#[test]
fn any_members_that_may_be_lost_are_rebuilt_and_one_more_is_a_clear_refusal() {
    for (ranks, parity, lost, one_more) in [
        (2, "4+1", vec![1], 0),
        (3, "4+1", vec![0], 2),
        (5, "4+1", vec![3], 1),
        (5, "3+2", vec![4, 0], 2),
        (6, "16+3", vec![1, 2, 5], 3),
        (4, "1+3", vec![0, 1, 3], 2),
        (20, "16+3", vec![0, 2, 4], 6),
        (19, "16+3", vec![18, 0, 9], 10),
    ] {
        let tiers = Tiers::new();
        let config = config(&tiers, parity);
        save(ranks, &config, 1..=2);
        lost.iter().for_each(|&rank| lose(&tiers, rank));
        expect_rebuilt(&restart(ranks, &config, 2), 2, &lost);
        // Those that were rebuilt have nothing in memory before the next save, so one more is one too many.
        lose(&tiers, one_more);
        for back in restart(ranks, &config, 2) {
            let error = back.unwrap_err();
            // Where nothing is left of anybody, there is nothing to refuse.
            let wanted =
                if lost.len() + 1 == ranks as usize { "none is left" } else { "no checkpoint can be restored" };
            assert!(error.contains(wanted), "{ranks} ranks, {parity}: {error}");
        }
    }
}

#[test]
fn every_single_member_of_every_group_size_can_be_rebuilt() {
    for ranks in 2..=7 {
        let tiers = Tiers::new();
        let config = config(&tiers, "16+1");
        for lost in 0..ranks {
            // Each time all save anew, so that the one that was lost before has its share again.
            run(ranks, &config, |mut member| {
                let _ = member.restart(100);
                member.save(u64::from(lost) + 1);
            });
            lose(&tiers, lost);
            expect_rebuilt(&restart(ranks, &config, 100), u64::from(lost) + 1, &[lost]);
        }
    }
}

#[test]
fn every_choice_of_members_that_may_be_lost_can_be() {
    for (ranks, parity, count) in [(5u32, "3+2", 2), (6, "3+3", 3)] {
        let tiers = Tiers::new();
        let config = config(&tiers, parity);
        save(ranks, &config, 1..=1);
        let job = tiers.home.path().join("memory/job");
        for choice in 0..1u32 << ranks {
            let lost: Vec<u32> = (0..ranks).filter(|rank| choice >> rank & 1 == 1).collect();
            if lost.len() != count {
                continue;
            }
            let names: Vec<String> =
                lost.iter().flat_map(|rank| ["rank", "parity"].map(|name| format!("{name}-{rank:05}"))).collect();
            for name in &names {
                fs::rename(job.join(name), job.join(format!("away-{name}"))).unwrap();
            }
            expect_rebuilt(&restart(ranks, &config, 1), 1, &lost);
            for name in &names {
                fs::remove_dir_all(job.join(name)).unwrap();
                fs::rename(job.join(format!("away-{name}")), job.join(name)).unwrap();
            }
        }
    }
}

#[test]
fn each_group_may_lose_as_many_and_the_memory_is_a_share_of_the_image() {
    let tiers = Tiers::new();
    let config = config(&tiers, "4+1");
    save(10, &config, 1..=1);
    let bytes = |name: &str| fs::metadata(tiers.home.path().join("memory/job").join(name)).unwrap().len();
    // The longest of the image's group over four, and a page or two to say what it is.
    let shares: u64 = (0..10).map(|rank| bytes(&format!("parity-{rank:05}/slot-0.image"))).sum();
    let images: u64 = (0..10).map(|rank| bytes(&format!("rank-{rank:05}/slot-0.image"))).max().unwrap();
    assert!(shares < 10 * (images / 4 + 100_000), "{shares} of {images}");
    // Ranks are dealt out: of two groups one has the even ones.
    for lost in [vec![0, 1], vec![4, 7], vec![8, 3]] {
        lost.iter().for_each(|&rank| lose(&tiers, rank));
        expect_rebuilt(&restart(10, &config, 1), 1, &lost);
        run(10, &config, |mut member| {
            member.restart(100).unwrap();
            // The number goes on, and the state is that of the number.
            member.save(u64::from(lost[0] > 0) + 2);
        });
        fs::remove_dir_all(tiers.home.path().join("memory/job")).unwrap();
        save(10, &config, 1..=1);
    }
    lose(&tiers, 0);
    lose(&tiers, 2);
    let errors: Vec<String> = restart(10, &config, 1).into_iter().map(Result::unwrap_err).collect();
    assert!(
        errors.iter().any(|error| error.contains("of the 5 ranks that share parity, 2 have no image")),
        "{errors:?}"
    );
}

#[test]
fn bad_pages_of_the_survivors_do_no_harm() {
    let tiers = Tiers::new();
    let config = config(&tiers, "4+1");
    save(5, &config, 1..=1);
    lose(&tiers, 2);
    let job = tiers.home.path().join("memory/job");
    for rank in [0, 1, 3] {
        flip(&files(&job.join(format!("rank-{rank:05}")), "image")[0], 4096 * 7 + 1);
        flip(&files(&job.join(format!("parity-{rank:05}")), "image")[0], 4096 * 2 + 5);
    }
    let back = restart(5, &config, 1);
    expect_rebuilt(&back, 1, &[2]);
    let report = &back[2].as_ref().unwrap().1;
    assert!(report.contains("repaired"), "parity has no code of its own: {report}");
}

#[test]
fn a_rank_whose_memory_is_too_bad_is_rebuilt_as_one_that_is_gone() {
    let tiers = Tiers::new();
    let config = config(&tiers, "3+2");
    save(5, &config, 1..=2);
    let image = files(&tiers.home.path().join("memory/job/rank-00001"), "image").pop().unwrap();
    let bytes = fs::metadata(&image).unwrap().len() as usize;
    fs::write(&image, vec![0; bytes]).unwrap();
    lose(&tiers, 3);
    expect_rebuilt(&restart(5, &config, 2), 2, &[1, 3]);
}

/// The number of the generation in a manifest.
fn number(path: &Path) -> Option<u64> {
    let text = String::from_utf8_lossy(&fs::read(path).ok()?).into_owned();
    let (_, number) = text.split_once("\"number\":")?;
    number.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

#[test]
fn a_kill_at_any_point_leaves_this_generation_or_the_former_one() {
    // What a kill leaves behind: some ranks have the image, some the share of parity, of a generation that others lack.
    for (images, shares, back_to) in [
        // Killed while images were saved: ranks 2 and 3 have none, and nobody has parity.
        (vec![2, 3], vec![0, 1, 2, 3], 1),
        // Killed after images: nobody has parity.
        (vec![], vec![0, 1, 2, 3], 2),
        // Killed between the manifests of the shares: two have theirs.
        (vec![], vec![1, 2], 2),
    ] {
        for lost in [None, Some(0), Some(3)] {
            let tiers = Tiers::new();
            let mut config = config(&tiers, "3+1");
            if let Some(memory) = &mut config.memory {
                memory.slots = 2;
            }
            save(4, &config, 1..=2);
            let job = tiers.home.path().join("memory/job");
            for (name, ranks) in [("rank", &images), ("parity", &shares)] {
                for (rank, kind) in ranks.iter().flat_map(|rank| [(rank, "manifest"), (rank, "copy")]) {
                    fs::remove_file(job.join(format!("{name}-{rank:05}/slot-1.{kind}"))).unwrap();
                }
            }
            if let Some(rank) = lost {
                lose(&tiers, rank);
            }
            // With a rank lost as well, the newest generation needs the parity that was not finished, and the former
            // one has all of it.
            let wanted = if lost.is_some() { 1 } else { back_to };
            let back = restart(4, &config, 2);
            let lost: Vec<u32> = lost.into_iter().collect();
            expect_rebuilt(&back, wanted, &lost);
            // And it goes on: the next save and its parity leave the restored one alone until they are whole.
            run(4, &config, |mut member| {
                member.restart(2).unwrap();
                assert_eq!(member.save(3), Vec::<String>::new());
            });
            let Some(&lost) = lost.first() else { continue };
            // Killed once more, and the same node is lost again.
            let newest = |name: &str, rank: u32, kind: &str| {
                let path = |slot: u32| job.join(format!("{name}-{rank:05}/slot-{slot}.{kind}"));
                if number(&path(1)) == Some(3) { path(1) } else { path(0) }
            };
            for (name, ranks) in [("rank", &images), ("parity", &shares)] {
                for rank in ranks.iter().filter(|rank| **rank != lost) {
                    let paths = ["manifest", "copy"].map(|kind| newest(name, *rank, kind));
                    paths.iter().for_each(|path| fs::remove_file(path).unwrap());
                }
            }
            lose(&tiers, lost);
            expect_rebuilt(&restart(4, &config, 3), 1, &[lost]);
        }
    }
}

/// A rank that dies at a word: from then on it says nothing more.
struct Dying {
    group: ThreadGroup,
    words_left: AtomicU64,
}

impl Dying {
    fn speak(&self) -> Result<&ThreadGroup, Error> {
        let is_alive = |left: u64| left.checked_sub(1);
        match self.words_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_alive) {
            Ok(_) => Ok(&self.group),
            Err(_) => Err(Error::Group { why: "this rank is dead".into() }),
        }
    }
}

impl Group for Dying {
    fn rank(&self) -> u32 {
        self.group.rank()
    }

    fn size(&self) -> u32 {
        self.group.size()
    }

    fn broadcast(&self, bytes: &mut [u8], root: u32) -> Result<(), Error> {
        self.speak()?.broadcast(bytes, root)
    }

    fn gather_all(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        self.speak()?.gather_all(own)
    }

    fn exchange(&self, to: u32, send: &[u8], from: u32, receive: &mut [u8]) -> Result<(), Error> {
        self.speak()?.exchange(to, send, from, receive)
    }
}

/// Saves once more, and one rank dies at this word of its own; whether the save came to its end on all ranks.
fn save_and_die(ranks: u32, config: &Config, dying: u32, word: u64, step: u64) -> bool {
    let save = |group: ThreadGroup| {
        let rank = group.rank();
        let words_left = AtomicU64::new(if rank == dying { word } else { u64::MAX });
        let mut state = state(rank, step);
        let job = Checkpointer::open(config.clone(), Box::new(Dying { group, words_left }));
        let saved = job.and_then(|mut job| {
            // SAFETY: the state lives longer than the job, and is left alone during calls.
            unsafe { job.protect("state", state.as_mut_ptr(), state.len())? };
            job.checkpoint().map(drop)
        });
        saved.is_ok()
    };
    std::thread::scope(|scope| {
        let save = &save;
        let group = thread_group(ranks, Some(Duration::from_secs(300)));
        let threads: Vec<_> = group.into_iter().map(|group| scope.spawn(move || save(group))).collect();
        let saved: Vec<bool> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        saved.iter().all(|saved| *saved)
    })
}

#[test]
fn a_rank_that_dies_at_any_word_of_a_save_takes_no_more_than_that_save_with_it() {
    let tiers = Tiers::new();
    let mut config = config(&tiers, "2+1");
    if let Some(memory) = &mut config.memory {
        memory.slots = 2;
    }
    let mut words = 0;
    loop {
        let _ = fs::remove_dir_all(tiers.home.path().join("memory/job"));
        save(3, &config, 1..=2);
        let dying = words as u32 % 3;
        let is_saved = save_and_die(3, &config, dying, words, 3);
        // The node of another rank is lost as well: the former generation has parity, and so has this one when all ranks
        // were told that it was saved.
        let lost = (dying + 1) % 3;
        lose(&tiers, lost);
        for (rank, back) in restart(3, &config, 3).into_iter().enumerate() {
            let (step, report) = back.unwrap_or_else(|error| panic!("word {words}, rank {rank}: {error}"));
            assert!(step == 3 || (step == 2 && !is_saved), "word {words}: {report}");
        }
        if is_saved {
            break;
        }
        words += 1;
    }
    assert!(words > 20, "a save has {words} words");
}

#[test]
fn a_share_that_cannot_be_kept_is_a_notice_on_all_ranks_and_the_checkpoint_is_taken() {
    let tiers = Tiers::new();
    let config = config(&tiers, "4+1");
    save(3, &config, 1..=1);
    let blocked = tiers.home.path().join("memory/job/parity-00001/slot-1.image");
    run(3, &config, |mut member| {
        if member.rank == 1 {
            fs::create_dir(&blocked).unwrap();
        }
        let notices = member.save(2);
        assert!(notices.iter().any(|notice| notice.starts_with("generation 2 has no parity: ")), "{notices:?}");
        if member.rank == 1 {
            fs::remove_dir(&blocked).unwrap();
        }
    });
    expect_rebuilt(&restart(3, &config, 2), 2, &[]);
    lose(&tiers, 2);
    expect_rebuilt(&restart(3, &config, 2), 1, &[2]);
}

#[test]
fn what_cannot_be_asked_for_is_refused_by_name() {
    let tiers = Tiers::new();
    let open = |ranks: u32, config: &Config| {
        std::thread::scope(|scope| {
            let open = |group| Checkpointer::open(config.clone(), Box::new(group)).err().map(|error| error.to_string());
            let group = thread_group(ranks, Some(Duration::from_secs(300)));
            let threads: Vec<_> = group.into_iter().map(|group| scope.spawn(move || open(group))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap().unwrap_or_default()).next().unwrap()
        })
    };
    let too_few = open(2, &config(&tiers, "4+2"));
    assert!(too_few.contains("2 shares of parity need 3 ranks or more; there are 2"), "{too_few}");
    let both = Config { partner: true, ..config(&tiers, "4+1") };
    assert!(open(3, &both).contains("ask for one of the two"));
    let mut without = config(&tiers, "4+1");
    without.set("durable", tiers.home.path().join("ssd").to_str().unwrap()).unwrap();
    without.set("memory", "none").unwrap();
    assert!(open(3, &without).contains("checkpoints in memory, and no memory tier is configured"));
    let mut config = tiers.config(Policy::Fixed(Fixed::Memory));
    for wrong in ["0+1", "17+1", "4+0", "4+4", "4", "four+1", "4+1+1"] {
        assert!(config.set("parity", wrong).is_err(), "{wrong}");
    }
    config.set("parity", "none").unwrap();
    assert_eq!(config.parity, None);
}

#[test]
fn parity_of_other_machines_or_of_nobody_is_not_believed() {
    let tiers = Tiers::new();
    let config = config(&tiers, "4+1");
    save(4, &config, 1..=1);
    lose(&tiers, 1);
    // Shares of another job, with the same numbers, in the place of ours.
    let other = Tiers::new();
    let theirs = self::config(&other, "4+1");
    save(4, &theirs, 1..=1);
    for rank in [0, 2, 3] {
        for kind in ["image", "manifest", "copy"] {
            let name = format!("memory/job/parity-{rank:05}/slot-0.{kind}");
            fs::copy(other.home.path().join(&name), tiers.home.path().join(&name)).unwrap();
        }
    }
    for back in restart(4, &config, 1) {
        assert!(back.unwrap_err().contains("no checkpoint can be restored"));
    }
}
