//! What tiers lie on: real file systems, in a mount namespace of the test's own.

use super::mounted::{apart, mount};
use super::session::{Rank, always_both};
use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use surefoot_checkpoint::controller::Fixed;
use surefoot_checkpoint::group::{ThreadGroup, thread_group};
use surefoot_checkpoint::medium::{Kind, Medium};
use surefoot_checkpoint::session::Finished;
use surefoot_checkpoint::session::journal::{JournalEvent, read};
use surefoot_checkpoint::{Alone, Checkpointer, Config, Error, Group, Place, Policy};
use surefoot_model::CheckpointTier as Tier;
use surefoot_testkit::not_run::not_run;

/// What a test needs of the machine beyond mounts of its own, tried in a folder.
type Need = fn(&Path) -> Result<(), String>;

/// Runs a test with mounts of its own, or says what of that the machine does not have. What fails later is a fault.
fn with_mounts(test: &str, needs: &[Need], run: impl FnOnce(&Path) -> Result<(), String> + Send) {
    // On the disk of the build: /tmp may lie in memory.
    let [home, tried] = [(); 2].map(|()| tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
    let ran = apart(|| {
        in_memory(tried.path().join("memory"), "tmpfs")?;
        for (number, need) in needs.iter().enumerate() {
            need(&made(tried.path().join(number.to_string())))?;
        }
        Ok(run(home.path()))
    });
    match ran {
        Ok(ran) => ran.unwrap(),
        Err(why) => not_run(&format!("media::{test}"), &why),
    }
}

/// An overlay over the folder of the build, which may lie on one itself.
fn overlays(home: &Path) -> Result<(), String> {
    overlay(home.join("at"), &made(home.join("upper"))).map(drop)
}

/// A file as a disk.
fn disks_of_files(home: &Path) -> Result<(), String> {
    disk_of_file(home.join("at"), &home.join("image"), 32).map(drop)
}

/// The folder of the build on a disk.
fn a_disk(home: &Path) -> Result<(), String> {
    let medium = Medium::of(home).unwrap();
    if medium.kind == Kind::Disk { Ok(()) } else { Err(format!("the build's folder is on {}", medium.said)) }
}

fn made(path: PathBuf) -> PathBuf {
    fs::create_dir_all(&path).unwrap();
    path
}

fn in_memory(path: PathBuf, kind: &str) -> Result<PathBuf, String> {
    let path = made(path);
    mount(kind, None, &path, 0, "").map(|()| path)
}

/// Takes a mount out of sight that may be in use.
fn detach(path: &Path) -> Result<(), String> {
    run("umount", &[Path::new("-l"), path]).map(drop)
}

/// Runs a program, and returns what it says.
fn run(program: &str, words: &[&Path]) -> Result<String, String> {
    let output = Command::new(program).args(words).output().map_err(|error| format!("{program}: {error}"))?;
    let said = || format!("{program} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    let success = || String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then(success).ok_or_else(said)
}

/// An overlay whose upper directory lies below this one.
fn overlay(at: PathBuf, upper: &Path) -> Result<PathBuf, String> {
    let at = made(at);
    let (lower, over, work) =
        (made(at.with_extension("lower")), made(upper.join("over, it")), made(upper.join("work")));
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        lower.display(),
        over.display().to_string().replace(',', "\\,"),
        work.display()
    );
    mount("overlay", None, &at, 0, &options).map(|()| at)
}

/// A disk of a file.
fn disk_of_file(at: PathBuf, file: &Path, mib: u64) -> Result<PathBuf, String> {
    let at = made(at);
    fs::File::create(file).unwrap().set_len(mib << 20).unwrap();
    run("mkfs.ext4", &[Path::new("-q"), Path::new("-F"), file])?;
    run("mount", &[Path::new("-o"), Path::new("loop"), file, &at])?;
    Ok(at)
}

/// The block devices that have names here.
fn block_devices() -> Vec<PathBuf> {
    let all = fs::read_dir("/dev").into_iter().flatten().flatten();
    all.filter(|entry| entry.file_type().unwrap().is_block_device()).map(|entry| entry.path()).collect()
}

fn tiers(memory: &Path, durable: &Path) -> Config {
    let mut config = Config::new("job", memory, Some(durable.to_owned()));
    config.drive_file = None;
    config.policy = Policy::Fixed(Fixed::EveryNth(1));
    config
}

fn open(config: &Config) -> Result<Rank, Error> {
    Rank::open(config.clone(), Alone)
}

fn refused(config: &Config) -> String {
    let checked = config.check().unwrap_err().to_string();
    assert_eq!(open(config).err().unwrap().to_string(), checked, "opening and checking refuse the same");
    checked
}

#[test]
fn every_medium_is_what_it_is_and_what_cannot_be_seen_is_unknown() {
    with_mounts("every_medium_is_what_it_is_and_what_cannot_be_seen_is_unknown", &[overlays], |home| {
        let tmpfs = in_memory(home.join("tmpfs"), "tmpfs")?;
        let ramfs = in_memory(home.join("ramfs"), "ramfs")?;
        let bound = made(home.join("bound"));
        mount("none", Some(&tmpfs), &bound, libc::MS_BIND, "")?;
        symlink(&tmpfs, home.join("link")).unwrap();
        let of = |path: &Path| Medium::of(path).unwrap();
        for path in [&tmpfs, &ramfs, &bound, &home.join("link")] {
            assert_eq!(of(path).kind, Kind::Memory, "{}: {:?}", path.display(), of(path));
        }
        let disk = of(home);
        assert_eq!(overlay(home.join("on-tmpfs"), &tmpfs).map(|at| of(&at).kind)?, Kind::Memory);
        let over_disk = made(home.join("on-disk-upper"));
        let on_disk = overlay(home.join("on-disk"), &over_disk)?;
        assert_eq!(of(&on_disk).kind, disk.kind, "{:?}", of(&on_disk));
        assert!(of(&on_disk).said.contains("upper directory"), "{:?}", of(&on_disk));
        let hidden = in_memory(home.join("hidden"), "tmpfs")?;
        let over_hidden = overlay(home.join("on-hidden"), &hidden)?;
        assert_eq!(of(&over_hidden).kind, Kind::Memory);
        detach(&hidden)?;
        made(hidden.join("over, it"));
        assert_eq!(of(&over_hidden).kind, Kind::Unknown, "{:?}", of(&over_hidden));
        fs::rename(&over_disk, home.join("elsewhere")).unwrap();
        assert_eq!(of(&on_disk).kind, Kind::Unknown, "{:?}", of(&on_disk));
        assert_eq!(of(Path::new("/proc")).kind, Kind::Unknown, "{:?}", of(Path::new("/proc")));
        // A file system without a device of its own may be mounted by the name of one, as FUSE file systems often are.
        for (at, device) in block_devices().iter().enumerate() {
            let named = made(home.join(format!("named-{at}")));
            mount("proc", Some(device), &named, 0, "").unwrap();
            assert_eq!(of(&named).kind, Kind::Unknown, "{}: {:?}", device.display(), of(&named));
        }
        assert!(Medium::of(&home.join("none")).is_err());
        assert_eq!(Medium::of_nearest(&tmpfs.join("a/b")).unwrap().kind, Kind::Memory);
        Ok(())
    });
}

#[test]
fn a_disk_of_a_file_is_what_the_file_is_on() {
    with_mounts("a_disk_of_a_file_is_what_the_file_is_on", &[disks_of_files], |home| {
        let tmpfs = in_memory(home.join("tmpfs"), "tmpfs")?;
        let memory = Medium::of(&disk_of_file(home.join("memory-disk"), &tmpfs.join("image"), 32)?).unwrap();
        assert!(memory.kind == Kind::Memory && memory.said.contains("on tmpfs"), "{memory:?}");
        let file = Medium::of(&disk_of_file(home.join("file-disk"), &home.join("image"), 32)?).unwrap();
        assert_eq!(file.kind, Medium::of(home).unwrap().kind, "{file:?}");
        // A device of a device is what that one is: its name is in /dev, which is in memory.
        let image = home.join("image-of-device");
        fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
        let device = PathBuf::from(run("losetup", &[Path::new("--find"), Path::new("--show"), &image])?);
        let at = made(home.join("device-disk"));
        let mounted = run("mkfs.ext4", &[Path::new("-q"), Path::new("-F"), &device])
            .and_then(|_| run("mount", &[Path::new("-o"), Path::new("loop"), &device, &at]));
        run("losetup", &[Path::new("--detach"), &device])?;
        mounted?;
        assert_eq!(Medium::of(&at).unwrap().kind, file.kind, "{:?}", Medium::of(&at));
        // Another file has the name by now.
        let hidden = in_memory(home.join("hidden"), "tmpfs")?;
        let at = disk_of_file(home.join("hidden-disk"), &hidden.join("image"), 32)?;
        mount("none", Some(&made(home.join("over"))), &hidden, libc::MS_BIND, "")?;
        fs::File::create(hidden.join("image")).unwrap().set_len(1 << 20).unwrap();
        assert_eq!(Medium::of(&at).unwrap().kind, Kind::Unknown, "{:?}", Medium::of(&at));
        Ok(())
    });
}

#[test]
fn memory_is_refused_as_durable_and_where_it_is_allowed_never_called_so() {
    with_mounts("memory_is_refused_as_durable_and_where_it_is_allowed_never_called_so", &[overlays], |home| {
        let memory = in_memory(home.join("memory"), "tmpfs")?;
        let tmpfs = in_memory(home.join("tmpfs"), "tmpfs")?;
        let ramfs = in_memory(home.join("ramfs"), "ramfs")?;
        let overlay = overlay(home.join("overlay"), &in_memory(home.join("upper"), "tmpfs")?)?;
        for (directory, said) in [(&tmpfs, "(tmpfs)"), (&ramfs, "(ramfs)"), (&overlay, "(overlay, upper directory ")] {
            let mut config = tiers(&memory, directory);
            let why = refused(&config);
            let words = ["durable: ", directory.to_str().unwrap(), "is in memory", said, "durable.allow_memory=yes"];
            assert!(words.iter().all(|word| why.contains(word)), "{why}");
            // As the shared directory, too.
            config.durable = None;
            config.set("shared", directory.to_str().unwrap()).unwrap();
            let why = refused(&config);
            assert!(why.starts_with("shared: ") && why.contains("shared.allow_memory=yes"), "{why}");
        }
        for tier in ["durable", "shared"] {
            let mut config = Config { durable: None, ..tiers(&memory, &tmpfs) };
            config.job = format!("job-{tier}");
            config.set(tier, tmpfs.to_str().unwrap()).unwrap();
            config.set(&format!("{tier}.allow_memory"), "yes").unwrap();
            let mut rank = open(&config).unwrap();
            let opening = rank.job.take_notices().join("; ");
            assert!(opening.contains("are not durable") && opening.contains("allow_memory permits"), "{opening}");
            rank.compute(1);
            let saved = rank.job.checkpoint().unwrap();
            assert_eq!(saved.decision.place, Place::Both);
            assert!(saved.decision.reasons.join("; ").contains("no copy there is durable"), "{saved:?}");
            rank.job.wait_for_copies().unwrap();
            let notices = rank.job.take_notices().join("; ");
            assert!(notices.contains("no copy there is durable") && !notices.contains("1 is durable"), "{notices}");
            for finished in [rank.job.finish().unwrap(), rank.job.complete().unwrap()] {
                assert!(
                    finished.is_durable == Some(false) && finished.said.contains("in memory (tmpfs) and not durable"),
                    "{finished:?}"
                );
            }
            let journal = read(&memory.join(&config.job), usize::MAX).unwrap().unwrap();
            let events = || journal.entries.iter().map(|entry| &entry.event);
            assert!(!events().any(|event| matches!(event, JournalEvent::Durable { .. })), "{journal:?}");
            assert!(
                events().any(|event| matches!(event, JournalEvent::NotDurable { why, .. } if why.contains("tmpfs")))
            );
        }
        Ok(())
    });
}

/// Saves until a copy has arrived, ends, and returns what was reported of both.
fn saved_and_finished(rank: &mut Rank) -> (String, Finished) {
    rank.compute(1);
    rank.job.checkpoint().unwrap();
    rank.job.wait_for_copies().unwrap();
    (rank.job.take_notices().join("; "), rank.job.finish().unwrap())
}

#[test]
fn what_is_mounted_at_the_jobs_own_directory_counts_and_also_later() {
    with_mounts("what_is_mounted_at_the_jobs_own_directory_counts_and_also_later", &[], |home| {
        let (memory, ssd) = (in_memory(home.join("memory"), "tmpfs")?, made(home.join("ssd")));
        let own = in_memory(ssd.join("job"), "tmpfs")?;
        let mut config = tiers(&memory, &ssd);
        assert!(refused(&config).contains("is in memory (tmpfs)"));
        detach(&own)?;
        let mut rank = open(&config).unwrap();
        in_memory(ssd.join("job"), "tmpfs")?;
        let (notices, finished) = saved_and_finished(&mut rank);
        assert!(notices.contains("no copy there is durable") && !notices.contains("1 is durable"), "{notices}");
        assert_eq!(finished.is_durable, Some(false), "{finished:?}");
        drop(rank);
        config.set("durable.allow_memory", "yes").unwrap();
        let notices = open(&config).unwrap().job.take_notices().join("; ");
        assert!(notices.contains("are not durable"), "{notices}");
        Ok(())
    });
}

#[test]
fn nothing_on_an_unknown_medium_is_called_durable() {
    with_mounts("nothing_on_an_unknown_medium_is_called_durable", &[overlays], |home| {
        let (memory, upper) = (in_memory(home.join("memory"), "tmpfs")?, made(home.join("upper")));
        let ssd = overlay(home.join("ssd"), &upper)?;
        fs::rename(&upper, home.join("elsewhere")).unwrap();
        let (notices, finished) = saved_and_finished(&mut open(&tiers(&memory, &ssd)).unwrap());
        assert!(notices.contains("is not known") && !notices.contains("1 is durable"), "{notices}");
        assert!(finished.is_durable.is_none() && finished.said.contains("unknown medium"), "{finished:?}");
        Ok(())
    });
}

#[test]
fn no_rank_calls_durable_what_another_one_has_in_memory() {
    with_mounts("no_rank_calls_durable_what_another_one_has_in_memory", &[], |home| {
        let memory = in_memory(home.join("memory"), "tmpfs")?;
        let directories = [made(home.join("ssd")), in_memory(home.join("tmpfs"), "tmpfs")?];
        let run = &|group: ThreadGroup| {
            let mut config = tiers(&memory, &directories[group.rank() as usize]);
            config.set("durable.allow_memory", "yes").unwrap();
            saved_and_finished(&mut Rank::open(config, group).unwrap())
        };
        let told: Vec<(String, Finished)> = std::thread::scope(|scope| {
            let groups = thread_group(2, Some(Duration::from_secs(300))).into_iter();
            let threads: Vec<_> = groups.map(|group| scope.spawn(move || run(group))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for (notices, finished) in told {
            assert!(notices.contains("is in memory") && !notices.contains("1 is durable"), "{notices}");
            assert!(finished.is_durable == Some(false) && finished.said.contains("in memory"), "{finished:?}");
        }
        Ok(())
    });
}

#[test]
fn one_directory_is_no_two_tiers_by_whatever_name() {
    with_mounts("one_directory_is_no_two_tiers_by_whatever_name", &[], |home| {
        let (one, bound) = (made(home.join("one")), made(home.join("bound")));
        mount("none", Some(&one), &bound, libc::MS_BIND, "")?;
        symlink(&one, home.join("link")).unwrap();
        let others = [one.clone(), one.join("."), home.join("link"), bound, home.join("link/../one")];
        for other in &others {
            let why = refused(&tiers(&one, other));
            assert!(why.starts_with("durable: ") && why.contains("of memory") && why.contains("its own"), "{why}");
            let policy = Policy::Fixed(Fixed::Durable);
            let mut config = Config { memory: None, policy, ..tiers(&one, &one) };
            config.set("shared", other.to_str().unwrap()).unwrap();
            let why = refused(&config);
            assert!(why.starts_with("shared: ") && why.contains("of durable"), "{why}");
        }
        let missing = home.join("missing");
        assert!(tiers(&missing, &missing).check().unwrap_err().to_string().contains("is also the directory of memory"));
        // A tier within what another keeps of the job, and the other way round; beside that it does no harm.
        let within = made(one.join("job/rank-00000"));
        for (memory, durable) in [(&one, &within), (&within, &one)] {
            let why = refused(&tiers(memory, durable));
            assert!(why.contains("what the other keeps of job \"job\""), "{why}");
        }
        let beside = made(one.join("beside"));
        assert!(open(&tiers(&one, &beside)).is_ok() && open(&tiers(&beside, &made(home.join("two")))).is_ok());
        Ok(())
    });
}

/// Tiers on a drive that bears a checkpoint in both, and then hardly a byte in a second.
fn on_a_drive_that_bears_one(memory: &Path, durable: &Path) -> Config {
    let mut config = tiers(memory, durable);
    config.policy = always_both();
    for (name, value) in [("rated_bytes", "1e9"), ("written_bytes", "0"), ("remaining_years", "1")] {
        config.set(&format!("endurance.{name}"), value).unwrap();
    }
    config.set("priority", "endurance").unwrap();
    config
}

#[test]
fn a_memory_tier_on_an_unknown_medium_counts_against_the_budget_like_one_on_a_disk() {
    let test = "a_memory_tier_on_an_unknown_medium_counts_against_the_budget_like_one_on_a_disk";
    with_mounts(test, &[overlays], |home| {
        let (upper, durable) = (made(home.join("upper")), made(home.join("ssd")));
        let memory = overlay(home.join("memory"), &upper)?;
        fs::rename(&upper, home.join("elsewhere")).unwrap();
        assert_eq!(Medium::of(&memory).unwrap().kind, Kind::Unknown);
        let mut config = on_a_drive_that_bears_one(&memory, &durable);
        config.set("durable.allow_memory", "yes").unwrap();
        let mut rank = open(&config).unwrap();
        let notices = rank.job.take_notices().join("; ");
        assert!(notices.contains("unknown medium") && notices.contains("counts against its budget"), "{notices}");
        assert_eq!(rank.save(1), Place::Both);
        rank.job.wait_for_copies().unwrap();
        rank.compute(2);
        let second = rank.job.checkpoint().unwrap();
        assert_eq!(second.decision.place, Place::Skip, "{second:?}");
        assert!(second.decision.reasons.join("; ").contains("an unknown medium"), "{second:?}");
        Ok(())
    });
}

#[test]
fn what_all_ranks_have_on_a_disk_is_called_durable() {
    with_mounts("what_all_ranks_have_on_a_disk_is_called_durable", &[a_disk], |home| {
        let (memory, ssd) = (in_memory(home.join("memory"), "tmpfs")?, made(home.join("ssd")));
        let run = &|group: ThreadGroup| saved_and_finished(&mut Rank::open(tiers(&memory, &ssd), group).unwrap());
        let told: Vec<(String, Finished)> = std::thread::scope(|scope| {
            let groups = thread_group(2, Some(Duration::from_secs(300))).into_iter();
            let threads: Vec<_> = groups.map(|group| scope.spawn(move || run(group))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for (notices, finished) in told {
            assert!(notices.contains("generation 1 is durable"), "{notices}");
            assert!(finished.is_durable == Some(true) && finished.said == "generation 1 is on the SSD", "{finished:?}");
        }
        Ok(())
    });
}

#[test]
fn a_memory_tier_on_a_disk_is_reported_and_takes_no_more_than_the_drive_bears() {
    with_mounts("a_memory_tier_on_a_disk_is_reported_and_takes_no_more_than_the_drive_bears", &[a_disk], |home| {
        let (memory, durable) = (made(home.join("memory")), made(home.join("ssd")));
        let config = on_a_drive_that_bears_one(&memory, &durable);
        let mut rank = open(&config).unwrap();
        let notices = rank.job.take_notices().join("; ");
        assert!(notices.contains("is on a disk") && notices.contains("/dev/shm"), "{notices}");
        assert_eq!(rank.save(1), Place::Both);
        rank.job.wait_for_copies().unwrap();
        rank.compute(2);
        let second = rank.job.checkpoint().unwrap();
        assert_eq!(second.decision.place, Place::Skip, "{second:?}");
        assert!(second.decision.reasons.join("; ").contains("the memory tier is on a disk"), "{second:?}");
        drop(rank);
        // Nor does the next session begin with a full budget.
        let mut rank = open(&config).unwrap();
        rank.job.restart().unwrap().unwrap();
        rank.compute(3);
        assert_eq!(rank.job.checkpoint().unwrap().decision.place, Place::Skip);
        // In memory it costs the drive nothing.
        let mut config = tiers(&in_memory(home.join("tmpfs"), "tmpfs")?, &durable);
        config.policy = always_both();
        let media = config.check().unwrap();
        assert!(!media.may_memory_wear_a_drive() && media.notices(&config).is_empty(), "{media:?}");
        assert_eq!(media.of(Tier::Durable).map(|medium| medium.kind), Some(Kind::Disk));
        Ok(())
    });
}

/// Processes that this one forked, each with all that is open here, as a program's own do. They end with this.
struct Forked(Vec<libc::pid_t>);

impl Forked {
    fn fork(&mut self) {
        // SAFETY: the child waits for a signal and does nothing else.
        match unsafe { libc::fork() } {
            0 => loop {
                // SAFETY: as above.
                unsafe { libc::pause() };
            },
            child => self.0.push(child),
        }
    }
}

impl Drop for Forked {
    fn drop(&mut self) {
        for child in &self.0 {
            // SAFETY: these are children of this process, which nobody else waits for.
            unsafe {
                libc::kill(*child, libc::SIGKILL);
                libc::waitpid(*child, std::ptr::null_mut(), 0);
            }
        }
    }
}

#[test]
fn a_removed_checkpoint_gives_back_its_room_also_where_a_forked_process_has_it_open() {
    with_mounts("a_removed_checkpoint_gives_back_its_room_also_where_a_forked_process_has_it_open", &[], |home| {
        let (memory, ssd) = (in_memory(home.join("memory"), "tmpfs")?, made(home.join("ssd")));
        // Room for two images of 325 KiB with their small files, and not for three.
        mount("tmpfs", None, &ssd, 0, "size=1000k")?;
        let mut config = tiers(&memory, &ssd);
        for (name, value) in
            [("durable.allow_memory", "yes"), ("durable.keep", "1"), ("durable.limit_bytes_per_s", "300000")]
        {
            config.set(name, value).unwrap();
        }
        let mut rank = open(&config).unwrap();
        let mut forked = Forked(Vec::new());
        for step in 1..=4 {
            assert_eq!(rank.save(step), Place::Both, "step {step}: {:?}", rank.job.take_notices());
            let begun = Instant::now();
            let is_begun = || {
                let directories = fs::read_dir(ssd.join("job")).unwrap().flatten();
                directories.filter(|found| found.path().join("rank-00000.image").exists()).count()
                    == 1 + usize::from(step > 1)
            };
            while !is_begun() {
                assert!(begun.elapsed() < Duration::from_secs(60), "step {step} is not written");
                std::thread::yield_now();
            }
            forked.fork();
            rank.job.wait_for_copies().unwrap();
        }
        Ok(())
    });
}

#[test]
fn a_full_ssd_names_its_numbers_and_a_smaller_keep_comes_to_a_newer_copy() {
    with_mounts("a_full_ssd_names_its_numbers_and_a_smaller_keep_comes_to_a_newer_copy", &[], |home| {
        let (memory, ssd) = (in_memory(home.join("memory"), "tmpfs")?, made(home.join("ssd")));
        // Room for two images of 325 KiB with their small files, and not for three.
        mount("tmpfs", None, &ssd, 0, "size=1000k")?;
        let mut config = tiers(&memory, &ssd);
        config.set("durable.allow_memory", "yes").unwrap();
        let mut rank = open(&config).unwrap();
        for step in 1..=2 {
            assert_eq!(rank.save(step), Place::Both);
            rank.job.wait_for_copies().unwrap();
        }
        rank.job.take_notices();
        assert_eq!(rank.save(3), Place::Memory);
        let said = rank.job.take_notices().join("; ");
        let words = ["bytes are needed", "are free beside 2 complete checkpoints", "durable.keep=2", "durable.keep=1"];
        assert!(words.iter().all(|word| said.contains(word)) && said.contains(ssd.to_str().unwrap()), "{said}");
        drop(rank);
        config.set("durable.keep", "1").unwrap();
        let mut rank = open(&config).unwrap();
        assert_eq!(rank.job.restart().unwrap().unwrap().generation.number, 3);
        for step in 4..=6 {
            assert_eq!(rank.save(step), Place::Both, "{:?}", rank.job.take_notices());
            rank.job.wait_for_copies().unwrap();
        }
        // Without memory the same is an error with the same numbers.
        let mut config = Config { memory: None, job: "other".into(), ..config };
        config.policy = Policy::Fixed(Fixed::Durable);
        let mut job = Checkpointer::open(config, Box::new(Alone)).unwrap();
        let mut state = vec![1u8; 2_000_000];
        // SAFETY: the state outlives the job, and is left alone during its calls.
        unsafe { job.protect("state", state.as_mut_ptr(), state.len()).unwrap() };
        let error = job.checkpoint().unwrap_err();
        let why = error.to_string();
        assert!(matches!(error, Error::NoTier { .. }), "{why}");
        assert!(
            why.contains(&format!("make room in {}/other: 2", ssd.display())) && why.contains("bytes are free"),
            "{why}"
        );
        Ok(())
    });
}
