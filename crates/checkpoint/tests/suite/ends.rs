//! How jobs end: the newest checkpoint durable, the job completed, drained after its death, or removed.

use super::session::{Rank, Tiers, flip, job, restarted};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use surefoot_checkpoint::config::{AfterCompletion, memory_default};
use surefoot_checkpoint::controller::Fixed;
use surefoot_checkpoint::inspect::{self, Drains, State};
use surefoot_checkpoint::tier::{DurableOptions, Memory};
use surefoot_checkpoint::{Alone, Config, Place, Policy};
use surefoot_testkit::not_run::not_run;

fn quiet(_: u64, _: u64) {}

fn memory_only() -> Policy {
    Policy::Fixed(Fixed::Memory)
}

fn path(tiers: &Tiers, below: &str) -> PathBuf {
    tiers.home.path().join(below)
}

fn forget_memory(tiers: &Tiers) {
    fs::remove_dir_all(path(tiers, "memory/job")).unwrap();
}

fn drains(tiers: &Tiers) -> Drains {
    let (memory, durable) = (path(tiers, "memory"), path(tiers, "ssd"));
    Drains { job: "job".into(), memory, durable, options: DurableOptions::default(), is_part: false, prunes: false }
}

fn saves(rank: &mut Rank, steps: u64) {
    for step in 1..=steps {
        assert_ne!(rank.save(step), Place::Skip);
    }
}

#[test]
fn finish_makes_the_newest_durable_whatever_the_policy() {
    let tiers = Tiers::new();
    let config = tiers.config(memory_only());
    let finished = job(2, &config, |mut rank| {
        (1..=3).for_each(|step| assert_eq!(rank.save(step), Place::Memory));
        let first = rank.job.finish().unwrap();
        (first, rank.job.finish().unwrap())
    });
    for (first, again) in finished {
        assert!(first.is_durable != Some(false) && first.generation.unwrap().number == 3, "{first:?}");
        assert!(first.said.contains("written by this call"), "{first:?}");
        assert!(again.is_durable != Some(false) && !again.said.contains("written"), "{again:?}");
    }
    forget_memory(&tiers);
    assert!(restarted(2, &config, 3).iter().all(|(step, _)| *step == Some(3)));
}

#[test]
fn finish_goes_on_from_a_restart_and_from_half_a_drain() {
    let tiers = Tiers::new();
    let config = tiers.config(memory_only());
    job(2, &config, |mut rank| {
        rank.save(1);
        rank.save(2);
        // The program dies here.
    });
    job(2, &config, |mut rank| {
        rank.job.restart().unwrap().unwrap();
        assert_ne!(rank.job.finish().unwrap().is_durable, Some(false));
    });
    // What is left of a drain that was killed: no mark, and one rank's image without its manifest.
    fs::remove_file(&tiers.durable_files("manifest")[1]).unwrap();
    let generation = tiers.durable_files("image")[0].parent().unwrap().to_owned();
    fs::remove_file(generation.join("commit")).unwrap();
    job(2, &config, |mut rank| {
        rank.job.restart().unwrap().unwrap();
        assert_ne!(rank.job.finish().unwrap().is_durable, Some(false));
    });
    forget_memory(&tiers);
    assert!(restarted(2, &config, 2).iter().all(|(step, _)| *step == Some(2)));
}

#[test]
fn finish_without_a_durable_tier_says_so_and_does_not_fail() {
    let tiers = Tiers::new();
    let mut config = tiers.config(memory_only());
    config.durable = None;
    let mut rank = Rank::open(config, Alone).unwrap();
    assert_eq!(rank.job.finish().unwrap().generation, None);
    rank.save(1);
    let finished = rank.job.finish().unwrap();
    assert!(finished.is_durable == Some(false) && finished.generation.unwrap().number == 1, "{finished:?}");
    assert!(finished.said.contains("in memory only") && finished.said.contains("no durable tier"), "{finished:?}");
    let refused = rank.job.checkpoint_to(Place::Durable).unwrap_err().to_string();
    assert!(refused.contains("no durable tier"), "{refused}");
}

#[test]
fn finish_names_what_fails_and_memory_stays() {
    let tiers = Tiers::new();
    let config = tiers.config(memory_only());
    let failed = job(2, &config, |mut rank| {
        rank.save(1);
        // A file in the place of the job's directory fails for root, too.
        if rank.rank == 0 {
            fs::remove_dir_all(path(&tiers, "ssd/job")).unwrap();
            fs::write(path(&tiers, "ssd/job"), "in the way").unwrap();
        }
        rank.job.finish().unwrap_err().to_string()
    });
    assert!(failed.iter().all(|said| said.contains("ssd/job")), "{failed:?}");
    fs::remove_file(path(&tiers, "ssd/job")).unwrap();
    for (step, restored) in restarted(2, &config, 1) {
        assert!(step == Some(1) && restored.unwrap().unwrap().report.contains("from memory"));
    }
}

#[test]
fn a_save_goes_where_the_program_says() {
    let tiers = Tiers::new();
    let config = tiers.config(memory_only());
    job(2, &config, |mut rank| {
        for (step, place) in [(1, Place::Durable), (2, Place::Both), (3, Place::Memory), (4, Place::Skip)] {
            rank.compute(step);
            let saved = rank.job.checkpoint_to(place).unwrap();
            // Left to the policy it is memory.
            let place = if place == Place::Skip { Place::Memory } else { place };
            assert_eq!((saved.decision.place, saved.generation.unwrap().number), (place, step));
            if place == Place::Durable {
                assert_eq!(rank.job.take_notices().len(), 0, "durable when the call returns, with nothing under way");
            }
        }
        rank.job.wait_for_copies().unwrap();
    });
    assert_eq!(tiers.durable_files("image").len(), 4, "the first and the second");
    forget_memory(&tiers);
    assert!(restarted(2, &config, 4).iter().all(|(step, _)| *step == Some(2)));
}

#[test]
fn what_is_told_to_end_makes_a_last_checkpoint_that_is_durable() {
    let tiers = Tiers::new();
    let mut config = tiers.config(Policy::Fixed(Fixed::Never));
    config.sigterm = true;
    job(2, &config, |mut rank| {
        assert_eq!(rank.job.need_checkpoint().unwrap().place, Place::Skip);
        assert!(!rank.job.is_told_to_end());
        if rank.rank == 1 {
            // SAFETY: the handler is set, and only takes note.
            unsafe { libc::raise(libc::SIGTERM) };
        }
        // Each rank sees it at the same call, which need not be the first.
        let decision = (0..1000).map(|_| rank.job.need_checkpoint().unwrap()).find(|found| found.place != Place::Skip);
        let decision = decision.unwrap();
        assert!(decision.reasons[0].contains("SIGTERM") && rank.job.is_told_to_end(), "{decision:?}");
        rank.compute(7);
        assert_eq!(rank.job.checkpoint().unwrap().decision.place, Place::Both);
        let notices = rank.job.take_notices().join("; ");
        assert!(notices.contains("is durable"), "{notices}");
        assert_eq!(rank.job.need_checkpoint().unwrap().place, Place::Skip, "once");
    });
    forget_memory(&tiers);
    assert!(restarted(2, &config, 7).iter().all(|(step, _)| *step == Some(7)));
}

/// Restarts the job, saves these steps, and completes it if asked to; returns what each rank came back to, and its notices.
fn run(config: &Config, steps: &[u64], completes: bool) -> Vec<(Option<u64>, String)> {
    job(2, config, |mut rank| {
        let restored = rank.job.restart().unwrap().map(|restored| restored.generation.number);
        steps.iter().for_each(|step| assert_eq!(rank.save(*step), Place::Memory));
        if completes {
            assert_eq!(rank.job.complete().unwrap().is_durable != Some(false), config.durable.is_some());
        }
        (restored, rank.job.take_notices().join("; "))
    })
}

fn came_back_to(found: &[(Option<u64>, String)], number: Option<u64>) {
    assert!(found.len() == 2 && found.iter().all(|(restored, _)| *restored == number), "{number:?}: {found:?}");
}

#[test]
fn a_job_that_is_completed_begins_anew_and_goes_on_when_it_is_told_to() {
    for durable in [false, true] {
        let tiers = Tiers::new();
        let mut config = tiers.config(memory_only());
        if !durable {
            config.durable = None;
        }
        run(&config, &[1, 2], true);
        if durable {
            // The mark is on the SSD as well.
            forget_memory(&tiers);
        }
        let anew = run(&config, &[], false);
        came_back_to(&anew, None);
        assert!(anew[0].1.contains("completed at generation 2") && anew[0].1.contains("continue"), "{anew:?}");
        let mut goes_on = config.clone();
        goes_on.after_completion = AfterCompletion::Continue;
        came_back_to(&run(&goes_on, &[], false), Some(2));
        // From then on it is not completed; then it is once more, and a new run is killed after its first save.
        came_back_to(&run(&config, &[3], true), Some(2));
        let nodes = fs::read(path(&tiers, "memory/job/nodes")).unwrap();
        came_back_to(&run(&config, &[4], false), None);
        came_back_to(&run(&config, &[], false), Some(4));
        // As if it had been killed in the middle of that save: its part on rank 0 is not complete, and rank 1 has none.
        fs::write(path(&tiers, "memory/job/nodes"), nodes).unwrap();
        for slot in 0..3 {
            let of = |rank: u32, kind: &str| path(&tiers, &format!("memory/job/rank-{rank:05}/slot-{slot}.{kind}"));
            let is_it = |rank| {
                fs::read(of(rank, "copy")).is_ok_and(|it| String::from_utf8_lossy(&it).contains("\"number\":4,"))
            };
            if is_it(0) {
                fs::rename(of(0, "copy"), of(0, "pending")).unwrap();
            }
            if is_it(1) {
                ["manifest", "copy"].iter().for_each(|kind| fs::remove_file(of(1, kind)).unwrap());
            }
        }
        came_back_to(&run(&config, &[], false), None);
        came_back_to(&run(&config, &[5], false), None);
        came_back_to(&run(&config, &[], false), Some(5));
        // Of another number of ranks there is nothing that would be in the way.
        run(&config, &[], true);
        let alone = job(3, &config, |mut rank| rank.job.restart().unwrap().is_none());
        assert_eq!(alone, [true; 3]);
    }
}

#[test]
fn a_dead_job_is_drained_with_every_byte_proved_and_a_running_one_is_left_alone() {
    let tiers = Tiers::new();
    let config = tiers.config(memory_only());
    job(2, &config, |mut rank| {
        saves(&mut rank, 3);
        let refused = inspect::drain(&drains(&tiers), &mut quiet).unwrap_err();
        assert!(inspect::is_running(&refused) && refused.to_string().contains("running"), "{refused}");
    });
    assert_eq!(tiers.durable_files("image").len(), 0);
    // Bad bytes in memory, which its parity repairs on the way.
    for image in tiers.memory_files(0, "image") {
        flip(&image, 5 * 4096 + 7);
    }
    let drained = inspect::drain(&drains(&tiers), &mut quiet).unwrap();
    assert_eq!((drained.generation.number, drained.ranks_here.len(), drained.ranks), (3, 2, 2));
    assert!(drained.healed_pages == 1 && drained.bytes > 600_000, "{drained:?}");
    let again = inspect::drain(&drains(&tiers), &mut quiet).unwrap();
    assert_eq!((again.generation, again.bytes, again.newer_there), (drained.generation, 0, None));
    forget_memory(&tiers);
    for (step, restored) in restarted(2, &config, 3) {
        assert!(step == Some(3) && restored.unwrap().unwrap().report.contains("from the SSD"));
    }
    let gone = inspect::drain(&drains(&tiers), &mut quiet).unwrap_err().to_string();
    assert!(gone.contains("holds no"), "{gone}");
}

/// Number 3 of this job's memory, beside number 5 of a later run on the SSD: the restart takes that one, and none goes.
#[test]
fn a_drain_beside_a_newer_durable_checkpoint_says_that_a_restart_takes_that_one() {
    let (tiers, others) = (Tiers::new(), Tiers::new());
    job(2, &tiers.config(memory_only()), |mut rank| saves(&mut rank, 3));
    job(2, &others.config(Policy::Fixed(Fixed::Durable)), |mut rank| {
        saves(&mut rank, 5);
        rank.job.wait_for_copies().unwrap();
    });
    let mut wish = drains(&tiers);
    wish.durable = others.home.path().join("ssd");
    (wish.prunes, wish.options.keep) = (true, 1);
    for _ in 0..2 {
        let drained = inspect::drain(&wish, &mut quiet).unwrap();
        assert_eq!((drained.generation.number, drained.newer_there), (3, Some(5)));
        assert!(!drained.is_ended_there);
    }
}

/// The later run came to its end: a restart begins anew, and takes neither its last checkpoint nor the one that is drained.
#[test]
fn a_drain_beside_the_end_of_a_later_run_says_that_no_restart_takes_it() {
    let (tiers, others) = (Tiers::new(), Tiers::new());
    job(2, &tiers.config(memory_only()), |mut rank| saves(&mut rank, 3));
    let config = others.config(Policy::Fixed(Fixed::Durable));
    job(2, &config, |mut rank| {
        saves(&mut rank, 5);
        drop(rank.job.complete().unwrap());
    });
    let mut wish = drains(&tiers);
    wish.durable = others.home.path().join("ssd");
    (wish.prunes, wish.options.keep) = (true, 1);
    let drained = inspect::drain(&wish, &mut quiet).unwrap();
    assert_eq!((drained.generation.number, drained.newer_there, drained.is_ended_there), (3, None, true));
    forget_memory(&others);
    for (step, restored) in restarted(2, &config, 3) {
        assert!(step.is_none() && restored.unwrap().is_none(), "{step:?}");
    }
}

/// The files of a tier but for locks.
fn files(base: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut below = vec![base.to_owned()];
    while let Some(directory) = below.pop() {
        let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let (directories, files): (Vec<PathBuf>, Vec<PathBuf>) = entries.partition(|path| path.is_dir());
        below.extend(directories);
        found.extend(files.into_iter().filter(|file| !file.ends_with("lock")));
    }
    found.sort();
    found
}

/// Runs while two real directories take each other's name all the time, as who owns the one above can do.
fn while_exchanged<R>(one: &Path, other: &Path, run: impl FnOnce() -> R) -> R {
    use std::sync::atomic::{AtomicBool, Ordering};
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let [one, other] = [one, other].map(|path| std::ffi::CString::new(path.to_str().unwrap()).unwrap());
            while !is_done.load(Ordering::Relaxed) {
                // SAFETY: both names end in a zero.
                let result = unsafe {
                    libc::renameat2(libc::AT_FDCWD, one.as_ptr(), libc::AT_FDCWD, other.as_ptr(), libc::RENAME_EXCHANGE)
                };
                assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
            }
        });
        let result = run();
        is_done.store(true, Ordering::Relaxed);
        result
    })
}

#[test]
fn a_removal_takes_one_of_two_directories_that_exchange_their_names() {
    let (mut removed_count, mut rounds) = (0, 0);
    while removed_count < 5 {
        rounds += 1;
        assert!(rounds < 2_000, "only {removed_count} removals were not refused");
        let tiers = Tiers::new();
        let config = tiers.config(memory_only());
        job(1, &config, |mut rank| saves(&mut rank, 1));
        // The tier itself is a link in these tests.
        let (one, other) = (path(&tiers, "one"), path(&tiers, "other"));
        for copy in [&one, &other] {
            fs::create_dir(copy).unwrap();
            let copied = std::process::Command::new("cp").arg("-a").args([&path(&tiers, "memory/."), copy]).status();
            assert!(copied.unwrap().success());
        }
        let before = files(&one).len();
        let removed = while_exchanged(&one, &other, || {
            let mut jobs = inspect::job(std::slice::from_ref(&one), "job").ok()?;
            jobs.pop()?.remove(false).ok()
        });
        let mut counts = [files(&one).len(), files(&other).len()];
        counts.sort_unstable();
        assert_eq!(counts, [if removed.is_some() { 0 } else { before }, before], "{removed:?}");
        removed_count += u32::from(removed.is_some());
    }
}

#[test]
fn a_scrub_repairs_where_it_holds_the_lock_while_two_directories_exchange_their_names() {
    let (mut repaired_count, mut rounds) = (0, 0);
    while repaired_count < 5 {
        rounds += 1;
        assert!(rounds < 2_000, "only {repaired_count} scrubs were not refused");
        let tiers = Tiers::new();
        let config = tiers.config(memory_only());
        job(1, &config, |mut rank| saves(&mut rank, 1));
        let image = tiers.memory_files(0, "image").remove(0);
        let whole = fs::read(&image).unwrap();
        flip(&image, 5 * 4096 + 7);
        let within = image.strip_prefix(path(&tiers, "memory")).unwrap();
        let (one, other) = (path(&tiers, "one"), path(&tiers, "other"));
        for copy in [&one, &other] {
            fs::create_dir(copy).unwrap();
            let copied = std::process::Command::new("cp").arg("-a").args([&path(&tiers, "memory/."), copy]).status();
            assert!(copied.unwrap().success());
        }
        let scrubbed = while_exchanged(&one, &other, || {
            let survey = inspect::survey(std::slice::from_ref(&one)).ok()?;
            let locks = inspect::lock(&survey.copies).ok()?;
            let states: Vec<State> =
                survey.copies.iter().map(|copy| inspect::scrub(copy, &locks, &mut quiet).state).collect();
            (!states.is_empty()).then_some((states, locks))
        });
        for base in [&one, &other] {
            let lock = fs::File::options().write(true).open(base.join(within).with_file_name("lock")).unwrap();
            let is_locked = lock.try_lock().is_err();
            let is_repaired = fs::read(base.join(within)).unwrap() == whole;
            let states = scrubbed.as_ref().map(|(states, _)| states);
            assert_eq!(is_locked, is_repaired, "{}: {states:?}", base.display());
            repaired_count += u32::from(is_repaired);
        }
    }
}

#[test]
fn a_drain_goes_whole_into_one_directory_while_two_exchange_their_names() {
    let (mut drained_count, mut rounds) = (0, 0);
    while drained_count < 5 {
        rounds += 1;
        assert!(rounds < 2_000, "only {drained_count} drains were not refused");
        let tiers = Tiers::new();
        let config = tiers.config(memory_only());
        job(1, &config, |mut rank| saves(&mut rank, 1));
        let (one, other) = (path(&tiers, "ssd"), path(&tiers, "other"));
        let _ = fs::remove_dir_all(one.join("job"));
        fs::create_dir_all(&other).unwrap();
        let drained = while_exchanged(&one, &other, || inspect::drain(&drains(&tiers), &mut quiet));
        let found = [files(&one), files(&other)];
        let counts = found.each_ref().map(Vec::len);
        match drained {
            // The image, its manifest and the mark of the generation.
            Ok(drained) => {
                assert!(drained.bytes > 0 && counts.contains(&0) && counts.contains(&3), "{found:#?}");
                drained_count += 1;
            }
            Err(error) => assert_eq!(counts, [0, 0], "{error}: {found:#?}"),
        }
    }
}

#[test]
fn what_cannot_be_proved_or_was_not_completed_is_not_drained() {
    let tiers = Tiers::new();
    let config = tiers.config(memory_only());
    job(2, &config, |mut rank| saves(&mut rank, 3));
    // Rank 1's part of the third is worse than parity can repair; the second is whole.
    for image in tiers.memory_files(1, "image") {
        let manifest = image.with_extension("manifest");
        if String::from_utf8_lossy(&fs::read(manifest).unwrap_or_default()).contains("\"number\":3,") {
            (0..6).for_each(|column| flip(&image, column * 6 * 4096 + 99));
            (0..6).for_each(|page| flip(&image, page * 4096 + 99));
            fs::File::options().write(true).open(&image).unwrap().set_len(4096).unwrap();
        }
    }
    let drained = inspect::drain(&drains(&tiers), &mut quiet).unwrap();
    assert_eq!(drained.generation.number, 2);
    assert!(drained.refused[0].contains("generation 3") && drained.refused[0].contains("slot-"), "{drained:?}");
    // Only one of two ranks is here, as on one of two nodes.
    let tiers = Tiers::new();
    let config = tiers.config(memory_only());
    job(2, &config, |mut rank| saves(&mut rank, 1));
    fs::remove_dir_all(path(&tiers, "memory/job/rank-00001")).unwrap();
    let refused = inspect::drain(&drains(&tiers), &mut quiet).unwrap_err().to_string();
    assert!(refused.contains("1 of its 2 ranks") && refused.contains("--part"), "{refused}");
    let part = inspect::drain(&Drains { is_part: true, ..drains(&tiers) }, &mut quiet).unwrap();
    assert_eq!((part.ranks_here.as_slice(), part.ranks), ([0].as_slice(), 2));
}

/// Everything below a directory, by path.
fn all_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(all_below(&path));
        }
        found.push(path);
    }
    found.sort();
    found
}

fn bases(tiers: &Tiers) -> [PathBuf; 2] {
    [path(tiers, "memory"), path(tiers, "ssd")]
}

#[test]
fn a_discarded_job_leaves_nothing_and_its_neighbour_everything() {
    let tiers = Tiers::new();
    let mut config = tiers.config(Policy::Fixed(Fixed::EveryNth(2)));
    config.partner = true;
    let mut neighbour = config.clone();
    neighbour.job = "job2".into();
    job(2, &neighbour, |mut rank| saves(&mut rank, 2));
    let before = all_below(tiers.home.path());
    let bytes = job(2, &config, |mut rank| {
        fs::write(rank.job.route_file("log").unwrap(), "a line").unwrap();
        saves(&mut rank, 4);
        let removed = rank.job.discard().unwrap();
        assert!(removed.left.is_empty());
        assert!(rank.job.checkpoint().is_err(), "it has ended");
        removed.bytes
    });
    assert_eq!(all_below(tiers.home.path()), before);
    assert!(bytes[0] == bytes[1] && bytes[0] > 4 * 2 * 300_000, "{bytes:?}");
    assert!(restarted(2, &config, 4).iter().all(|(_, restored)| *restored == Ok(None)));
    assert!(restarted(2, &neighbour, 2).iter().all(|(step, _)| *step == Some(2)));
}

#[test]
fn a_removal_takes_what_is_the_dead_job_s_and_follows_no_link() {
    let tiers = Tiers::new();
    let config = tiers.config(Policy::Fixed(Fixed::EveryNth(2)));
    job(2, &config, |mut rank| {
        saves(&mut rank, 3);
        // What is copied to the SSD beside the program is there, of all ranks, before anybody looks.
        rank.job.wait_for_copies().unwrap();
        rank.job.need_checkpoint().unwrap();
        let mut jobs = inspect::job(&bases(&tiers), "job").unwrap();
        assert!(jobs.len() == 1 && jobs[0].is_running());
        let before = all_below(tiers.home.path());
        let refused = jobs.remove(0).remove(false).unwrap_err();
        assert!(inspect::is_running(&refused), "{refused}");
        assert_eq!(all_below(tiers.home.path()), before, "a job that runs loses nothing");
        // Nobody goes before the other has looked.
        rank.job.need_checkpoint().unwrap();
    });
    // Links to what is somebody else's, where a file and a directory of the job might be.
    fs::create_dir(path(&tiers, "elsewhere")).unwrap();
    let kept = path(&tiers, "elsewhere/slot-0.image");
    fs::write(&kept, "precious").unwrap();
    let memory = path(&tiers, "memory/job");
    symlink(path(&tiers, "elsewhere"), memory.join("rank-00007")).unwrap();
    symlink(&kept, memory.join("rank-00000/slot-9.image")).unwrap();
    fs::write(memory.join("notes.txt"), "a person's").unwrap();
    let mut jobs = inspect::job(&bases(&tiers), "job").unwrap();
    let [in_memory, durable, _] = jobs[0].bytes();
    assert!(in_memory > 1_000_000 && durable > 600_000, "{in_memory} {durable}");
    let removed = jobs.remove(0).remove(false).unwrap();
    assert_eq!(fs::read_to_string(&kept).unwrap(), "precious");
    assert_eq!(all_below(&path(&tiers, "ssd")), Vec::<PathBuf>::new());
    let real = fs::canonicalize(&memory).unwrap();
    assert_eq!(all_below(&real), [real.join("notes.txt"), real.join("rank-00007")]);
    assert_eq!(removed.removed.left, [real.join("notes.txt"), real.join("rank-00007")]);
    assert!(inspect::job(&bases(&tiers), "job").unwrap().is_empty());
    // A job's directory that is a link is nobody's.
    symlink(path(&tiers, "elsewhere"), path(&tiers, "memory/other")).unwrap();
    assert!(inspect::job(&bases(&tiers), "other").is_err());
}

#[test]
fn half_a_removal_leaves_nothing_to_go_on_from() {
    let tiers = Tiers::new();
    let config = tiers.config(memory_only());
    job(2, &config, |mut rank| saves(&mut rank, 2));
    // A directory where a file is to be removed stops it in the middle, for root, too.
    fs::remove_file(path(&tiers, "memory/job/rank-00001/lock")).unwrap();
    let mut jobs = inspect::job(&bases(&tiers), "job").unwrap();
    fs::remove_file(tiers.memory_files(0, "image").remove(0)).unwrap();
    let image = path(&tiers, "memory/job/rank-00000/slot-0.image");
    fs::create_dir(&image).unwrap();
    let refused = jobs.remove(0).remove(false).unwrap_err().to_string();
    assert!(refused.contains("slot-0.image"), "{refused}");
    fs::remove_dir(&image).unwrap();
    assert!(restarted(2, &config, 2).iter().all(|(_, restored)| *restored == Ok(None)));
    assert_eq!(
        inspect::job(&bases(&tiers), "job").unwrap().remove(0).remove(false).unwrap().removed.left,
        Vec::<PathBuf>::new()
    );
}

#[test]
fn what_jobs_occupy_is_counted_with_slots_that_hold_nothing() {
    let tiers = Tiers::new();
    let config = tiers.config(memory_only());
    job(2, &config, |mut rank| {
        saves(&mut rank, 2);
        rank.job.complete().unwrap();
    });
    for kind in ["manifest", "copy"] {
        tiers.memory_files(0, kind).iter().for_each(|path| fs::remove_file(path).unwrap());
    }
    let survey = inspect::survey(&[tiers.home.path().to_owned(), path(&tiers, "memory")]).unwrap();
    let jobs = inspect::jobs(&survey, &mut |error| panic!("{error}"));
    let [job] = jobs.as_slice() else { panic!("one job") };
    assert!(job.name == "job" && job.is_completed() && !job.is_running() && job.newest_realtime_ns() > 0);
    let images: u64 =
        (0..2).flat_map(|rank| tiers.memory_files(rank, "image")).map(|path| path.metadata().unwrap().len()).sum();
    assert!(job.bytes()[0] >= images && job.bytes()[1] > 600_000, "{:?} of {images}", job.bytes());
}

/// The directory of nobody in particular, with jobs that go with it.
struct DefaultJob(String);

impl Drop for DefaultJob {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(memory_default().join(&self.0));
        let _ = fs::remove_dir_all(Path::new("/dev/shm").join(&self.0));
    }
}

#[test]
fn jobs_of_one_name_and_two_users_do_not_meet_and_an_earlier_release_s_is_named() {
    let name = DefaultJob(format!("surefoot-test-{}", std::process::id()));
    let mut config = Config::new(&name.0, "/dev/shm", None);
    config.policy = memory_only();
    // As an earlier release had it.
    let mut rank = Rank::open(config.clone(), Alone).unwrap();
    rank.save(1);
    drop(rank);
    config.set("memory", "default").unwrap();
    let base = memory_default();
    assert!(base.starts_with("/dev/shm") && config.memory.as_ref().unwrap().directory == base);
    let mut rank = Rank::open(config.clone(), Alone).unwrap();
    assert_eq!(fs::metadata(&base).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(rank.job.restart().unwrap(), None);
    let notices = rank.job.take_notices().join("; ");
    assert!(notices.contains("memory=/dev/shm goes on"), "{notices}");
    drop(rank);
    config.set("memory", "/dev/shm").unwrap();
    let mut rank = Rank::open(config, Alone).unwrap();
    assert!(rank.job.restart().unwrap().is_some() && rank.is_at(1));
}

/// What another user put there is nobody's to remove: needs root, to make it.
#[test]
fn what_is_another_user_s_is_removed_by_root_alone_and_only_when_told() {
    const NOBODY: u32 = 65_534;
    // SAFETY: it only reads a number.
    if unsafe { libc::geteuid() } != 0 {
        return not_run(
            "suite::ends::what_is_another_user_s_is_removed_by_root_alone_and_only_when_told",
            "needs root",
        );
    }
    let tiers = Tiers::new();
    let config = tiers.config(memory_only());
    job(2, &config, |mut rank| saves(&mut rank, 1));
    let give = |path: &Path| std::os::unix::fs::lchown(path, Some(NOBODY), None).unwrap();
    let memory = path(&tiers, "memory/job");
    let below = all_below(&memory);
    below.iter().chain([&memory]).for_each(|path| give(path));
    let jobs = || inspect::job(&[path(&tiers, "memory")], "job").unwrap().remove(0);
    let refused = jobs().remove(false).unwrap_err().to_string();
    assert!(refused.contains("another user") && all_below(&memory) == below, "{refused}");
    let refused = inspect::drain(&drains(&tiers), &mut quiet).unwrap_err().to_string();
    assert!(refused.contains("another user"), "{refused}");
    // A lock that root makes is the user's.
    let lock = memory.join("rank-00000/lock");
    fs::remove_file(&lock).unwrap();
    drop(jobs().directories[0].lock(false).unwrap());
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&fs::metadata(&lock).unwrap()), NOBODY);
    // A rank of a third user stays in any case.
    std::os::unix::fs::lchown(memory.join("rank-00001"), Some(NOBODY - 1), None).unwrap();
    let removed = jobs().remove(true).unwrap();
    assert_eq!(removed.removed.left, [fs::canonicalize(&memory).unwrap().join("rank-00001")]);
    assert!(!memory.join("rank-00000").exists() && memory.join("rank-00001/slot-0.image").exists());
}

/// A rank of the tests holds its lock, as a session does.
#[test]
fn a_lock_that_is_held_is_seen() {
    let tiers = Tiers::new();
    let memory = Memory::open(&path(&tiers, "memory"), "job", 0, 2).unwrap();
    let found = || inspect::job(&bases(&tiers), "job").unwrap();
    assert!(found()[0].is_running());
    drop(memory);
    assert!(!found()[0].is_running());
}

#[test]
fn a_mark_of_a_completed_run_does_not_bury_a_newer_run_with_lower_numbers() {
    let tiers = Tiers::new();
    let both = tiers.config(memory_only());
    job(2, &both, |mut rank| {
        saves(&mut rank, 3);
        rank.job.complete().unwrap();
    });
    // A node that was never used before, and no SSD: a new run that counts from 1 and is killed.
    forget_memory(&tiers);
    let alone = Config { durable: None, ..both.clone() };
    job(2, &alone, |mut rank| {
        rank.save(51);
        rank.save(52);
    });
    let back = restarted(2, &both, 52);
    assert!(back.iter().all(|(step, _)| *step == Some(52)), "{back:?}");
}

#[test]
fn a_job_that_could_not_be_marked_everywhere_is_marked_nowhere() {
    let tiers = Tiers::new();
    let config = tiers.config(memory_only());
    job(2, &config, |mut rank| {
        saves(&mut rank, 2);
        rank.job.finish().unwrap();
        // Something that is in the way of one of the marks, for root, too.
        for below in ["memory/job/completed", "ssd/job/completed"] {
            if rank.rank == 0 {
                fs::create_dir_all(path(&tiers, below).join("full")).unwrap();
            }
            assert!(rank.job.complete().is_err(), "{below}");
            assert!(rank.job.finish().is_ok(), "both ranks are here");
            if rank.rank == 0 {
                fs::remove_dir_all(path(&tiers, below)).unwrap();
            }
            assert!(rank.job.finish().is_ok(), "both ranks are here");
        }
    });
    assert!(restarted(2, &config, 2).iter().all(|(step, _)| *step == Some(2)), "it was never completed");
    // What is no mark counts as none, and is said.
    fs::write(path(&tiers, "ssd/job/completed"), "torn").unwrap();
    let said = job(2, &config, |mut rank| rank.job.take_notices());
    assert!(said.concat().iter().any(|said| said.contains("ssd/job/completed cannot be read")), "{said:?}");
}

#[test]
fn a_job_is_not_called_what_another_keeps_its_files_by() {
    let tiers = Tiers::new();
    for name in ["files-00000", "a/rank-00001", "a/parity-2", "a/0000000001-0123456789abcdef", "a/nodes", "partner-0/x"]
    {
        let config = Config { job: name.into(), ..tiers.config(memory_only()) };
        let refused = Rank::open(config, Alone).err().unwrap().to_string();
        assert!(refused.contains("a job's own files go"), "{refused}");
        assert!(inspect::job(&[path(&tiers, "memory")], name).is_err());
    }
    for name in ["files", "a/rank-x", "rank-1a", "1-2", "nodes2"] {
        Rank::open(Config { job: name.into(), ..tiers.config(memory_only()) }, Alone).unwrap();
    }
}

#[test]
fn a_drain_takes_no_older_checkpoint_away_unless_it_is_told_how_many_to_keep() {
    for (prunes, left) in [(false, 6), (true, 2)] {
        let tiers = Tiers::new();
        let mut config = tiers.config(memory_only());
        config.durable.as_mut().unwrap().options.keep = 5;
        job(1, &config, |mut rank| {
            for step in 1..=5 {
                rank.compute(step);
                rank.job.checkpoint_to(Place::Durable).unwrap();
            }
            rank.save(6);
        });
        let options = DurableOptions { keep: 2, ..DurableOptions::default() };
        inspect::drain(&Drains { prunes, options, ..drains(&tiers) }, &mut quiet).unwrap();
        assert_eq!(tiers.durable_files("commit").len().max(tiers.durable_files("image").len()), left, "{prunes}");
    }
}
