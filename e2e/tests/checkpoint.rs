//! `surefoot checkpoint`: each command on real checkpoints, real files and hostile directories.

use serde_json::Value;
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use surefoot_checkpoint::controller::Fixed;
use surefoot_checkpoint::{Alone, Checkpointer, Config, Disk, Manifest, Place, Policy};
use surefoot_e2e::command::{Finished, Surefoot, surefoot};
use surefoot_e2e::disk::TinyDisk;
use surefoot_e2e::machine::{Need, turn};
use surefoot_random::Random;
use surefoot_testkit::not_run::not_run;

const BYTES: usize = 300_000;

fn checkpoint(words: &str) -> Surefoot {
    surefoot("checkpoint").words(words)
}

/// Bytes that are no pattern.
fn content(seed: u32, bytes: usize) -> Vec<u8> {
    let mut random = Random::new(u64::from(seed));
    std::iter::repeat_with(|| random.word().to_le_bytes()).flatten().take(bytes).collect()
}

/// A job with checkpoints 1 to 4, of which 2 and 4 are on the SSD.
struct Tiers {
    home: tempfile::TempDir,
}

impl Tiers {
    fn path(&self, below: &str) -> PathBuf {
        self.home.path().join(below)
    }

    fn open(&self) -> Checkpointer {
        let mut config = Config::new("training", self.path("memory"), Some(self.path("ssd")));
        config.policy = Policy::Fixed(Fixed::PaperNth(2));
        Checkpointer::open(config, Box::new(Alone)).unwrap()
    }

    fn with_job() -> Self {
        let tiers = Tiers { home: tempfile::tempdir().unwrap() };
        fs::create_dir(tiers.path("memory")).unwrap();
        fs::create_dir(tiers.path("ssd")).unwrap();
        let mut job = tiers.open();
        let state = job.route_file("state.bin").unwrap();
        for step in 1..=4 {
            fs::write(&state, content(step, BYTES)).unwrap();
            job.checkpoint().unwrap();
        }
        job.finish().unwrap();
        drop(job);
        tiers
    }

    /// The image of a checkpoint, as the command says.
    fn image(&self, number: u64) -> PathBuf {
        let lines = checkpoint("verify --json").arg(self.home.path()).run().json();
        let line = lines.iter().find(|line| line["generation"] == number).unwrap();
        PathBuf::from(line["image"].as_str().unwrap())
    }

    fn run(&self, words: &str) -> Finished {
        checkpoint(words).arg(self.home.path()).run()
    }
}

fn spoil(path: &Path, page: u64) {
    fs::File::options().write(true).open(path).unwrap().write_all_at(&[0x5A; 4096], page * 4096).unwrap();
}

fn states(lines: &[Value]) -> Vec<(u64, &str)> {
    let copies = lines.iter().filter(|line| line["type"] == "copy");
    let mut all: Vec<(u64, &str)> =
        copies.map(|line| (line["generation"].as_u64().unwrap_or(0), line["state"].as_str().unwrap())).collect();
    all.sort_unstable();
    all
}

#[test]
fn checkpoints_are_listed_checked_scrubbed_and_restored() {
    let Some(_turn) = turn("checkpoints_are_listed_checked_scrubbed_and_restored", Need::Nothing) else { return };
    let tiers = Tiers::with_job();
    let listed = tiers.run("list --json");
    let (jobs, lines): (Vec<_>, Vec<_>) =
        listed.expect_code(0).json().into_iter().partition(|line| line["type"] == "job");
    assert_eq!(
        (jobs.len(), jobs[0]["job"].as_str(), jobs[0]["is_running"].as_bool()),
        (1, Some("training"), Some(false))
    );
    assert!(jobs[0]["memory_bytes"].as_u64() > Some(0) && jobs[0]["durable_bytes"].as_u64() > Some(0), "{jobs:?}");
    let numbers: Vec<u64> = lines.iter().map(|line| line["generation"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [3, 1, 4, 2], "{lines:#?}");
    for line in &lines {
        assert_eq!((line["job"].as_str(), line["payload_bytes"].as_u64()), (Some("training"), Some(BYTES as u64)));
        assert_eq!(line["is_committed"].as_bool(), (line["tier"] == "durable").then_some(true));
    }
    let table = tiers.run("list").stdout;
    assert!(table.contains("taken (UTC)") && table.contains("1 of 1") && table.contains("300 kB"), "{table}");
    let checked = tiers.run("verify --json").expect_code(0).json();
    assert_eq!(states(&checked), [(1, "whole"), (2, "whole"), (3, "whole"), (4, "whole")]);
    // In memory there is parity; on the SSD there are checksums.
    spoil(&tiers.image(3), 7);
    spoil(&tiers.image(2), 7);
    let checked = tiers.run("verify --json").expect_code(1).json();
    assert_eq!(states(&checked), [(1, "whole"), (2, "lost"), (3, "repairable"), (4, "whole")]);
    let table = tiers.run("verify").expect_code(1).stdout.clone();
    assert!(table.contains("row 2") && table.contains("1 repairable, 1 lost"), "{table}");
    let scrubbed = tiers.run("scrub --json").expect_code(1).json();
    assert_eq!(states(&scrubbed), [(1, "whole"), (2, "lost"), (3, "repaired"), (4, "whole")]);
    let checked = tiers.run("verify --json").expect_code(1).json();
    assert_eq!(states(&checked)[2], (3, "whole"));
    let out = tiers.path("out");
    let restore = |words: &str| checkpoint("restore --job training").words(words).arg("--to").arg(&out);
    restore("--generation 2").arg(tiers.home.path()).run().expect_code(1);
    assert!(!out.exists());
    let lines = restore("--json").arg(tiers.home.path()).run().expect_code(0).json();
    assert_eq!((lines[0]["generation"].as_u64(), lines[0]["file_count"].as_u64()), (Some(4), Some(1)));
    assert!(fs::read(out.join("rank-00000/files/state.bin")).unwrap() == content(4, BYTES));
    restore("").arg(tiers.home.path()).run().expect_refusal(2, &["out", "there already"]);
}

#[test]
fn what_is_not_protected_not_durable_or_dated_ahead_is_said() {
    let Some(_turn) = turn("what_is_not_protected_not_durable_or_dated_ahead_is_said", Need::Nothing) else { return };
    let home = match tempfile::tempdir_in("/dev/shm") {
        Ok(home) => home,
        Err(error) => return not_run("what_is_not_protected_not_durable_or_dated_ahead_is_said", &error.to_string()),
    };
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
    [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    let mut config = Config::new("training", &memory, Some(ssd.clone()));
    config.policy = Policy::Fixed(Fixed::Durable);
    for (name, value) in [("durable.allow_memory", "yes"), ("partner", "yes"), ("drive_file", "none")] {
        config.set(name, value).unwrap();
    }
    let mut job = Checkpointer::open(config, Box::new(Alone)).unwrap();
    fs::write(job.route_file("state.bin").unwrap(), content(1, BYTES)).unwrap();
    job.checkpoint().unwrap();
    job.finish().unwrap();
    drop(job);
    let list = |words: &str| checkpoint("list").words(words).arg(home.path()).run();
    let of_job = || list("--json").expect_code(0).json().into_iter().find(|line| line["type"] == "job").unwrap();
    let weakness = "partner=yes protects nothing: this job has one rank";
    let text = list("").stdout;
    assert!(text.contains(&format!("Job training: {weakness}")) && !text.contains("in the future"), "{text}");
    assert!(of_job()["weakness"].as_str().unwrap().starts_with(weakness) && of_job()["age_s"].as_f64() >= Some(0.0));
    // A clock that was an hour ahead wrote it.
    let mut folders = vec![home.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry.clone());
            } else if let Ok(mut manifest) = Manifest::read(&Disk, &entry) {
                manifest.taken_realtime_ns += 3_600_000_000_000;
                fs::write(entry, manifest.to_bytes().unwrap()).unwrap();
            }
        }
    }
    let text = list("").stdout;
    assert!(text.contains(" in the future") && !text.contains("0.00 s"), "{text}");
    assert!(of_job()["age_s"].as_f64() < Some(-3_000.0));
    fs::remove_dir_all(&memory).unwrap();
    let out = home.path().join("out");
    let restore = checkpoint("restore --job training").arg("--to").arg(&out).arg(home.path()).run();
    assert!(restore.expect_code(0).stdout.contains("from the durable directory, which is in memory"), "{restore:#?}");
    fs::remove_dir_all(&out).unwrap();
    let lines = checkpoint("restore --job training --json").arg("--to").arg(&out).arg(home.path()).run().json();
    assert_eq!((lines[0]["tier"].as_str(), lines[0]["is_durable"].as_bool()), (Some("durable"), Some(false)));
}

#[test]
fn a_running_job_is_not_scrubbed() {
    let Some(_turn) = turn("a_running_job_is_not_scrubbed", Need::Nothing) else { return };
    let tiers = Tiers::with_job();
    let job = tiers.open();
    tiers.run("scrub").expect_refusal(1, &["lock", "running"]);
    tiers.run("verify").expect_code(0);
    drop(job);
    tiers.run("scrub").expect_code(0);
}

#[test]
fn directories_that_cannot_be_used_are_refused() {
    let Some(_turn) = turn("directories_that_cannot_be_used_are_refused", Need::Nothing) else { return };
    let tiers = Tiers::with_job();
    for command in ["list", "verify", "scrub", "restore --job x --to /tmp/never"] {
        checkpoint(command).arg("/nowhere/at/all").run().expect_refusal(2, &["/nowhere/at/all", "No such file"]);
        let file = tiers.path("file");
        fs::write(&file, "x").unwrap();
        checkpoint(command).arg(&file).run().expect_refusal(2, &["file", "Not a directory"]);
    }
    checkpoint("restore --job other --to /tmp/never").arg(tiers.home.path()).run().expect_refusal(2, &["training"]);
    let unborn = tiers.path("no/such/parent");
    let restore = checkpoint("restore --job training --to").arg(&unborn).arg(tiers.home.path());
    restore.run().expect_refusal(2, &["no/such/parent", "No such file"]);
    // What lies there but cannot be believed is said, and the rest is listed.
    let manifest = tiers.path("memory/training/rank-00000/slot-0.manifest");
    let copy = tiers.path("memory/training/rank-00000/slot-0.copy");
    for (hostile, words) in [
        (b"SFCKPT99\xFF\xFF\xFF\xFF....and so on".to_vec(), "version \"99\""),
        (b"SFCKPT01\xFF\xFF\xFF\xFF....and so on".to_vec(), "4294967295 bytes"),
        (Vec::new(), "it is empty"),
        (vec![0; 3 << 20], "not a manifest"),
    ] {
        fs::write(&manifest, &hostile).unwrap();
        fs::write(&copy, &hostile).unwrap();
        let listed = tiers.run("list");
        assert!(listed.expect_code(1).stdout.contains(words), "{words}: {listed:#?}");
        tiers.run("verify").expect_code(1);
    }
    fs::remove_file(&manifest).unwrap();
    fs::remove_file(&copy).unwrap();
    symlink("/dev/zero", &manifest).unwrap();
    symlink(tiers.home.path(), tiers.path("ssd/loop")).unwrap();
    let listed = tiers.run("list");
    assert!(listed.expect_code(1).stdout.contains("symbolic link"), "{listed:#?}");
}

#[test]
fn another_users_checkpoints_are_out_of_reach() {
    let Some(_turn) = turn("another_users_checkpoints_are_out_of_reach", Need::Root) else { return };
    let tiers = Tiers::with_job();
    fs::set_permissions(tiers.home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(tiers.path("memory"), fs::Permissions::from_mode(0o755)).unwrap();
    checkpoint("list").arg(tiers.path("memory/training")).as_nobody().run().expect_refusal(2, &["Permission denied"]);
    let listed = checkpoint("list").arg(tiers.path("memory")).as_nobody().run();
    assert!(listed.expect_code(1).stdout.contains("Permission denied"), "{listed:#?}");
}

struct Foreign {
    home: tempfile::TempDir,
}

impl Foreign {
    fn new(bytes: usize) -> Self {
        let foreign = Foreign { home: tempfile::tempdir().unwrap() };
        fs::write(foreign.path(), content(9, bytes)).unwrap();
        foreign
    }

    fn path(&self) -> PathBuf {
        self.home.path().join("model.safetensors")
    }

    fn run(&self, words: &str) -> Finished {
        checkpoint(words).arg(self.path()).run()
    }

    /// Changes the file as a bad disk does: the time of its last write stays.
    fn harm(&self, change: impl FnOnce(&fs::File)) {
        let file = fs::File::options().write(true).open(self.path()).unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        change(&file);
        file.set_times(fs::FileTimes::new().set_modified(modified)).unwrap();
    }

    fn is_whole(&self, bytes: usize) -> bool {
        fs::read(self.path()).unwrap() == content(9, bytes)
    }
}

#[test]
fn files_of_other_programs_are_protected_and_repaired() {
    let Some(_turn) = turn("files_of_other_programs_are_protected_and_repaired", Need::Nothing) else { return };
    let bytes = 5_000_000;
    let foreign = Foreign::new(bytes);
    let line = foreign.run("protect --json").expect_code(0).json();
    assert_eq!((line[0]["file_bytes"].as_u64(), line[0]["is_new"].as_bool()), (Some(5_000_000), Some(true)));
    assert!(foreign.run("protect").expect_code(0).stdout.contains("already"));
    assert!(foreign.run("repair --check").expect_code(0).stdout.contains("whole"));
    foreign.harm(|file| file.write_all_at(&[0; 300_000], 1_000_000).unwrap());
    let found = foreign.run("repair --check --json");
    assert_eq!(found.expect_code(1).json()[0]["state"], "repairable");
    assert!(foreign.run("repair").expect_code(0).stdout.contains("repaired"));
    assert!(foreign.is_whole(bytes));
    foreign.harm(|file| file.set_len(4_300_000).unwrap());
    let found = foreign.run("repair --check");
    assert!(found.expect_code(1).stdout.contains("700000 bytes shorter"), "{found:#?}");
    foreign.run("repair").expect_code(0);
    assert!(foreign.is_whole(bytes));
    let sidecar = foreign.home.path().join("model.safetensors.surefoot");
    let good = fs::read(&sidecar).unwrap();
    fs::File::options().write(true).open(&sidecar).unwrap().write_all_at(&[1; 9000], 20_000).unwrap();
    assert!(foreign.run("repair").expect_code(0).stdout.contains("pages of parity bad"));
    assert_eq!(fs::read(&sidecar).unwrap(), good);
    // Four columns of the 77 rows are gone: the rows are named, and nothing is touched.
    foreign.harm(|file| file.set_len(3_700_000).unwrap());
    let lost = foreign.run("repair");
    let said = &lost.expect_code(1).stdout;
    assert!(said.contains("nothing was changed") && said.contains("of row") && said.contains("more rows"), "{lost:#?}");
    assert_eq!(fs::metadata(foreign.path()).unwrap().len(), 3_700_000);
    // A file that was written to on purpose is not taken for a damaged one.
    fs::write(foreign.path(), content(9, bytes)).unwrap();
    fs::File::options().write(true).open(foreign.path()).unwrap().write_all_at(b"edited", 77).unwrap();
    let left = foreign.run("repair");
    assert!(left.expect_code(1).stdout.contains("left alone"), "{left:#?}");
    foreign.run("repair --force").expect_code(0);
    assert!(foreign.is_whole(bytes));
    let names = fs::read_dir(foreign.home.path()).unwrap().count();
    assert_eq!(names, 2, "nothing is left beside");
}

#[test]
fn files_that_cannot_be_protected_are_refused_and_the_others_are_done() {
    let Some(_turn) = turn("files_that_cannot_be_protected_are_refused_and_the_others_are_done", Need::Nothing) else {
        return;
    };
    let foreign = Foreign::new(100_000);
    let link = foreign.home.path().join("link");
    symlink(foreign.path(), &link).unwrap();
    let mixed = checkpoint("protect /nowhere/at/all").arg(foreign.path()).arg(&link).run();
    mixed.expect_code(2);
    assert!(mixed.stdout.contains("protected by") && mixed.stderr.contains("symbolic link"), "{mixed:#?}");
    assert!(mixed.stderr.contains("/nowhere/at/all"), "{mixed:#?}");
    checkpoint("protect").arg(foreign.home.path()).run().expect_refusal(2, &["not a regular file"]);
    checkpoint("protect /dev/zero").run().expect_refusal(2, &["/dev/zero", "not a regular file"]);
    let other = Foreign::new(10);
    other
        .run("repair")
        .expect_refusal(2, &["is not protected", "model.safetensors.surefoot", "surefoot checkpoint protect"]);
    fs::write(other.home.path().join("model.safetensors.surefoot"), vec![7; 9000]).unwrap();
    other.run("repair --check").expect_refusal(2, &["not a label of a sidecar"]);
    other.run("protect").expect_refusal(2, &["--force"]);
}

#[test]
fn full_and_read_only_disks_are_said_and_leave_nothing() {
    let test = "full_and_read_only_disks_are_said_and_leave_nothing";
    let Some(_turn) = turn(test, Need::Root) else { return };
    let disk = match TinyDisk::mount(8 << 20) {
        Ok(disk) => disk,
        Err(why) => return not_run(test, &why),
    };
    let file = disk.path().join("model.pt");
    fs::write(&file, content(3, 2_000_000)).unwrap();
    let filler = disk.fill(100_000);
    checkpoint("protect").arg(&file).run().expect_refusal(2, &["model.pt.surefoot", "No space left"]);
    let names = || fs::read_dir(disk.path()).unwrap().count();
    assert_eq!(names(), 2, "only the file and what fills the disk");
    fs::remove_file(&filler).unwrap();
    checkpoint("protect").arg(&file).run().expect_code(0);
    let damaged = fs::File::options().write(true).open(&file).unwrap();
    damaged.write_all_at(&[0; 4096], 500_000).unwrap();
    drop(damaged);
    let before = fs::read(&file).unwrap();
    disk.fill(100_000);
    checkpoint("repair --force").arg(&file).run().expect_refusal(2, &["model.pt", "No space left"]);
    assert!(fs::read(&file).unwrap() == before && names() == 3, "the damaged file is as it was");
    let tiers = Tiers::with_job();
    let out = disk.path().join("out");
    let restore = checkpoint("restore --job training --to").arg(&out).arg(tiers.home.path());
    restore.run().expect_refusal(2, &["bytes are needed"]);
    assert!(!out.exists() && names() == 3);
    let remounted = std::process::Command::new("mount").args(["-o", "remount,ro"]).arg(disk.path()).status().unwrap();
    assert!(remounted.success());
    checkpoint("repair --force").arg(&file).run().expect_refusal(2, &["Read-only file system"]);
    checkpoint("repair --check").arg(&file).run().expect_code(1);
    checkpoint("protect --force").arg(&file).run().expect_refusal(2, &["Read-only file system"]);
}

const LARGE: &str = "plan --size 64GB --memory-mtbf-s 3600 --durable-mtbf-s 10800";

#[test]
fn plans_show_the_trade_and_the_chart_is_a_picture() {
    let Some(_turn) = turn("plans_show_the_trade_and_the_chart_is_a_picture", Need::Nothing) else { return };
    let folder = tempfile::tempdir().unwrap();
    let chart = folder.path().join("plan.svg");
    let run = checkpoint(LARGE).words("--rated-bytes 1200TB --staleness-max-s none --json --chart").arg(&chart).run();
    let lines = run.expect_code(0).json();
    let of = |choice: &str| lines.iter().find(|line| line["choice"] == choice).unwrap();
    let value = |choice: &str, name: &str| of(choice)[name].as_f64().unwrap();
    assert!((value("least_waste", "durable_interval_s") - 2_352.0).abs() < 2.0);
    assert!((value("least_waste", "waste_share") - 0.33).abs() < 0.005);
    assert!((value("drive_lasts", "durable_interval_s") - 8_421.0).abs() < 12.0);
    assert!((value("drive_lasts", "waste_share") - 0.53).abs() < 0.006);
    assert_eq!((&of("drive_lasts")["is_chosen"], &of("drive_lasts")["bound"]), (&true.into(), &"endurance".into()));
    let picture = fs::read_to_string(&chart).unwrap();
    assert!(picture.starts_with("<svg xmlns") && picture.ends_with("</svg>\n") && picture.contains("(chosen)"));
    let table = checkpoint(LARGE).words("--rated-bytes 1200TB --staleness-max-s 3600").run();
    assert!(table.expect_code(0).stdout.contains("buy 3.6 times the endurance, or accept 20 points"), "{table:#?}");
    assert!(table.stdout.contains("wears the drive out in 1.40 years instead of 5.00"), "{table:#?}");
}

#[test]
fn the_papers_table_comes_out_of_the_simulation() {
    let Some(_turn) = turn("the_papers_table_comes_out_of_the_simulation", Need::Nothing) else { return };
    let folder = tempfile::tempdir().unwrap();
    let chart = folder.path().join("figures.svg");
    let run = checkpoint("simulate --sizes 0.8GB,8GB --json --chart").arg(&chart).run();
    let lines = run.expect_code(0).json();
    let value = |policy: &str, size: f64, name: &str| {
        let line = lines.iter().find(|line| line["policy"] == policy && line["size_bytes"] == size).unwrap();
        line[name].as_f64().unwrap()
    };
    for (policy, size, slowdown) in [
        ("never", 8e9, 1.0),
        ("durable", 0.8e9, 1.64),
        ("durable", 8e9, 7.40),
        ("paper-lifetime", 8e9, 2.40),
        ("paper-performance", 0.8e9, 1.11),
        ("paper-every:10", 8e9, 2.17),
        ("memory", 8e9, 1.59),
    ] {
        let ours = value(policy, size, "slowdown");
        assert!((ours - slowdown).abs() < 0.011, "{policy} {size}: {ours}");
    }
    assert!(value("surefoot", 8e9, "drive_years") > 4.95);
    assert!(fs::read_to_string(&chart).unwrap().contains("Drive life"));
    let table = checkpoint("simulate --sizes 8GB --policy memory,surefoot --iterations 100").run();
    let said = &table.expect_code(0).stdout;
    assert!(said.contains("100 iterations") && said.contains("no measurement of this machine"), "{said}");
}

#[test]
fn numbers_that_are_none_are_refused() {
    let Some(_turn) = turn("numbers_that_are_none_are_refused", Need::Nothing) else { return };
    for (words, said) in [
        ("--size 0", &["--size", "such as 64GB"][..]),
        ("--size -5GB", &["-5"]),
        ("--size 1e300", &["--size", "such as 64GB"]),
        ("--size 64XB", &["--size", "such as 64GB"]),
        ("--size 64GB --memory-mtbf-s 0", &["--memory-mtbf", "such as 10s"]),
        ("--size 64GB --memory-mtbf-s nan", &["--memory-mtbf", "such as 10s"]),
        ("--size 64GB --memory-mtbf-s 5 --durable-mtbf-s inf", &["--durable-mtbf"]),
        ("--size 64GB --memory-mtbf-s 5 --durable-mtbf-s 5 --waiting-share 2", &["--waiting-share", "0 to 1"]),
        (
            "--size 64GB --memory-mtbf-s 5 --durable-mtbf-s 5 --chart /nowhere/at/all.svg",
            &["--chart", "/nowhere/at/all.svg"],
        ),
    ] {
        checkpoint("plan").words(words).run().expect_refusal(2, said);
    }
    checkpoint("plan --size 64GB").run().expect_code(0);
    checkpoint("plan --compute-s 1").run().expect_code(2);
    checkpoint("plan --size 1e21 --memory-mtbf 1ns --durable-mtbf 1ns --rated-bytes 1B --compute 100000000d")
        .run()
        .expect_code(0);
    checkpoint("simulate --sizes 1GB --iterations 0").run().expect_refusal(2, &["--iterations"]);
    checkpoint("simulate --policy moon").run().expect_refusal(2, &["--policy", "'moon'", "surefoot-when-due"]);
    checkpoint("simulate --sizes").arg("").run().expect_refusal(2, &["--sizes", "such as 64GB"]);
    checkpoint("repair --check --force x").run().expect_refusal(2, &["--check", "--force"]);
}

/// A job that writes to the SSD whenever its drive bears it; what it decided, and its notices.
fn decisions_of(tiers: &Tiers, settings: &[(&str, &str)]) -> (Vec<surefoot_checkpoint::Decision>, Vec<String>) {
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut config = Config::new("worn", memory.path(), Some(tiers.path("ssd")));
    for (name, value) in [("durable_mtbf_s", "1e-9"), ("staleness_max_s", "1e9")].iter().chain(settings) {
        config.set(name, value).unwrap();
    }
    let mut job = Checkpointer::open(config, Box::new(Alone)).unwrap();
    fs::write(job.route_file("state.bin").unwrap(), content(1, BYTES)).unwrap();
    let mut take = || {
        let decision = job.checkpoint().unwrap().decision;
        job.finish().unwrap();
        decision
    };
    (vec![take(), take()], job.take_notices())
}

#[test]
fn the_wear_of_drives_is_told_published_and_obeyed() {
    let test = "the_wear_of_drives_is_told_published_and_obeyed";
    let Some(_turn) = turn(test, Need::Nothing) else { return };
    let tiers = Tiers::with_job();
    let ssd = tiers.path("ssd");
    let told = checkpoint("drive --json").arg(&ssd).run();
    if told.stderr.contains("no drive") {
        told.expect_code(3);
        return not_run(test, told.stderr.trim());
    }
    let lines = told.expect_code(0).json();
    for line in &lines {
        let says = !line["percent_used"].is_null() || !line["notes"].as_array().unwrap().is_empty();
        assert!(says && line["said"].as_str().is_some_and(|said| !said.is_empty()), "{line:#}");
        assert!(line["size_bytes"].as_u64().unwrap() > 0, "{line:#}");
    }
    let written = lines.iter().filter_map(|line| line["written_bytes"]["value"].as_u64()).min();
    let Some(written) = written.filter(|&bytes| bytes > 1_000_000) else {
        return not_run(test, "the drive beneath the temporary folder does not count what is written to it");
    };
    let file = tiers.path("drives.json");
    let published = checkpoint("drive").arg(&ssd).arg("--write").arg(&file).run();
    assert!(published.expect_code(0).stdout.contains("Published in"), "{published:#?}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644);
    // Half of what the file says was written is all that the drive is rated for, so it bears nothing more.
    let rated = (written / 2).to_string();
    let by_hand = [("endurance.rated_bytes", rated.as_str()), ("endurance.remaining_years", "1e-6")];
    let with = |drive_file: &str| decisions_of(&tiers, &[&by_hand[..], &[("drive_file", drive_file)]].concat());
    let (decisions, notices) = with(file.to_str().unwrap());
    assert_eq!((decisions[0].place, decisions[1].place), (Place::Both, Place::Memory), "{decisions:#?}");
    let said = &decisions[1].reasons[0];
    let name = lines[0]["name"].as_str().unwrap();
    assert!(said.contains("bears 0.00 MB/s") && (lines.len() > 1 || said.contains(name)), "{said}");
    assert!(notices.iter().all(|notice| notice.contains("is durable")), "{notices:?}");
    let alone = with("none").0;
    assert!(alone[0].reasons.iter().any(|said| said.contains("all of it by hand")), "{alone:#?}");
    assert!(!alone[0].reasons.iter().any(|said| said.contains("bears 0.00")), "{alone:#?}");
    fs::write(&file, "{\"version\":1,").unwrap();
    let (decisions, notices) = with(file.to_str().unwrap());
    assert_eq!(notices.iter().filter(|notice| notice.contains("is not used")).count(), 1, "{notices:?}");
    assert!(decisions[0].reasons.iter().any(|said| said.contains("all of it by hand")), "{decisions:#?}");
}

#[test]
fn drives_that_cannot_be_told_of_are_refused_by_name() {
    let test = "drives_that_cannot_be_told_of_are_refused_by_name";
    let Some(_turn) = turn(test, Need::Root) else { return };
    checkpoint("drive /nowhere/at/all").run().expect_refusal(2, &["/nowhere/at/all", "No such file"]);
    checkpoint("drive /proc").run().expect_refusal(3, &["/proc", "shows no drive"]);
    let all = checkpoint("drive").run();
    if all.stderr.contains("no drive is seen") {
        return not_run(test, all.stderr.trim());
    }
    assert!(all.expect_code(0).stdout.starts_with("device"), "{all:#?}");
    // Without privilege there is less to tell, and it says so.
    let nobody = checkpoint("drive --json").as_nobody().run();
    for line in nobody.expect_code(0).json() {
        assert!(!line["percent_used"].is_null() || !line["notes"].as_array().unwrap().is_empty(), "{line:#}");
    }
    let folder = tempfile::tempdir().unwrap();
    checkpoint("drive --write").arg(folder.path()).run().expect_refusal(2, &["--write", "come before --write"]);
    checkpoint("drive --write /nowhere/at/all.json").run().expect_refusal(2, &["--write", "/nowhere/at/all.json"]);
    checkpoint("drive --write /proc/drives.json").run().expect_refusal(2, &["--write", "/proc/drives.json"]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let sized = "plan --size 64GB --memory-mtbf-s 3600 --durable-mtbf-s 10800";
    checkpoint(sized).words("--written-bytes 5TB").run().expect_code(2);
    checkpoint(sized).words("--drive /nowhere/at/all").run().expect_refusal(2, &["/nowhere/at/all"]);
    let unknown = checkpoint(sized).words("--drive /proc").run();
    assert!(
        unknown.expect_code(0).stdout.contains("the wear of the drive is not known: /proc lies on"),
        "{unknown:#?}"
    );
    let rated = checkpoint(sized).words("--drive /proc --rated-bytes 1200TB --json").run().expect_code(0).json();
    assert!((rated[0]["bearable_bytes_per_s"].as_f64().unwrap() - 7.6e6).abs() < 0.1e6, "{rated:#?}");
}

/// The copy on the SSD has its manifest and its mark, and not its pages: that it is there does not say that it is good.
#[test]
fn a_drain_writes_a_damaged_copy_anew() {
    let Some(_turn) = turn("a_drain_writes_a_damaged_copy_anew", Need::Nothing) else { return };
    let tiers = Tiers::with_job();
    let drain = || {
        let drain = checkpoint("drain training --memory").arg(tiers.path("memory")).arg("--durable");
        drain.arg(tiers.path("ssd")).words("--allow-memory").run()
    };
    fs::remove_dir_all(tiers.path("ssd/training")).unwrap();
    let first = drain();
    assert!(first.expect_code(0).stdout.contains("written"), "{}", first.stdout);
    assert!(drain().expect_code(0).stdout.contains("was there already"));
    let number: u64 = first.stdout.split_whitespace().nth(1).unwrap().parse().unwrap();
    let lines = checkpoint("verify --json").arg(tiers.path("ssd")).run().json();
    let line = lines.iter().find(|line| line["generation"] == number).unwrap();
    let image = PathBuf::from(line["image"].as_str().unwrap());
    let spoils: [&dyn Fn(); 3] = [
        &|| spoil(&image, 3),
        &|| fs::File::options().write(true).open(&image).unwrap().set_len(4096).unwrap(),
        &|| fs::remove_file(&image).unwrap(),
    ];
    for damage in spoils {
        damage();
        let again = drain();
        let said = &again.expect_code(0).stdout;
        assert!(said.contains("was there and is damaged") && !said.contains("was there already"), "{said}");
        checkpoint("verify").arg(tiers.path("ssd")).run().expect_code(0);
    }
}

/// A newer checkpoint may be behind a manifest that cannot be read: the older one is not handed out as if it were the newest.
#[test]
fn what_cannot_be_read_is_told_beside_what_is_restored_and_drained() {
    let Some(_turn) = turn("what_cannot_be_read_is_told_beside_what_is_restored_and_drained", Need::Nothing) else {
        return;
    };
    let tiers = Tiers::with_job();
    fs::remove_dir_all(tiers.path("ssd/training")).unwrap();
    let newest = tiers.image(3);
    for kind in ["manifest", "copy"] {
        fs::write(newest.with_extension(kind), "junk").unwrap();
    }
    let restore = |words: &str| checkpoint("restore --job training").words(words).arg(tiers.home.path()).run();
    let to = format!("--to {}", tiers.path("out").display());
    let said = restore(&to).expect_code(1).stdout.clone();
    assert!(said.contains("Refused: ") && said.contains("which generation it is of is unknown"), "{said}");
    assert!(said.contains("Generation 1 ") && said.contains("the newest that the job had is not known"), "{said}");
    let said = restore(&format!("--generation 3 --to {}", tiers.path("other").display())).expect_code(2).stderr.clone();
    assert!(said.contains("no number 3") && said.contains("which generation it is of is unknown"), "{said}");
    let drain = checkpoint("drain training --memory").arg(tiers.path("memory")).arg("--durable");
    let said = drain.arg(tiers.path("ssd")).words("--allow-memory").run().expect_code(1).stdout.clone();
    assert!(said.contains("Not taken: ") && said.contains("which generation it is of is unknown"), "{said}");
}

/// What says that its checkpoints are whole goes first: nothing of it was left alone.
#[test]
fn half_a_removal_is_not_told_as_a_job_that_was_left_alone() {
    let Some(_turn) = turn("half_a_removal_is_not_told_as_a_job_that_was_left_alone", Need::Root) else { return };
    let tiers = Tiers::with_job();
    let image = tiers.image(4);
    let mount = |words: &[&str]| std::process::Command::new(words[0]).args(&words[1..]).arg(&image).status();
    let other = tiers.path("other");
    fs::write(&other, "").unwrap();
    if !mount(&["mount", "--bind", &other.to_string_lossy()]).is_ok_and(|status| status.success()) {
        return not_run("half_a_removal_is_not_told_as_a_job_that_was_left_alone", "mounts are not allowed here");
    }
    let remove = || {
        let remove = checkpoint("remove training --yes --json --in").arg(tiers.path("memory")).arg("--in");
        remove.arg(tiers.path("ssd")).run()
    };
    let lines = remove().expect_code(1).json();
    let outcome = lines.iter().find(|line| line["type"] == "removal").unwrap()["outcome"].clone();
    assert!(mount(&["umount"]).unwrap().success());
    assert_eq!(outcome, "not_all_removed");
    let lines = remove().expect_code(0).json();
    assert_eq!(lines.iter().find(|line| line["type"] == "removal").unwrap()["outcome"], "removed");
}
