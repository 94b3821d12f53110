//! `checkpoint drain`, `remove` and `list` on a job that runs, that is dead, and that is gone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use surefoot_checkpoint::controller::Fixed;
use surefoot_checkpoint::group::thread_group;
use surefoot_checkpoint::settings::{Settings, Surroundings};
use surefoot_checkpoint::{Alone, Checkpointer, Config, Disk, Group, Manifest, Policy};

fn run(words: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_surefoot")).arg("checkpoint").args(words).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap())
}

/// A job that has begun, and saved nothing yet.
fn began(config: Config) -> Checkpointer {
    let mut job = Checkpointer::open(config, Box::new(Alone)).unwrap();
    job.restart().unwrap();
    job
}

/// Files below a directory.
fn count(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { count(&path) } else { 1 }).sum()
}

#[test]
fn a_dead_job_is_drained_listed_and_removed_and_a_running_one_is_left_alone() {
    let home = tempfile::tempdir().unwrap();
    let of = |name: &str| -> PathBuf {
        let path = home.path().join(name);
        let _ = fs::create_dir(&path);
        path
    };
    let (memory, ssd) = (of("memory"), of("ssd"));
    let (memory_text, ssd_text) = (memory.to_str().unwrap(), ssd.to_str().unwrap());
    let drain = ["drain", "heat/17", "--memory", memory_text, "--durable", ssd_text];
    let remove = ["remove", "heat/17", "--in", memory_text, "--in", ssd_text];
    let removes = [&remove[..], &["--yes"]].concat();

    let mut config = Config::new("heat/17", &memory, None);
    config.policy = Policy::Fixed(Fixed::Memory);
    let mut job = Checkpointer::open(config.clone(), Box::new(Alone)).unwrap();
    fs::write(job.route_file("state").unwrap(), [7u8; 200_000]).unwrap();
    (0..3).for_each(|_| assert!(job.checkpoint().unwrap().generation.is_some()));
    for words in [&drain[..], &remove, &removes] {
        let (code, said) = run(words);
        assert!(code == Some(1) && said.contains("left alone") && said.contains("running"), "{words:?}: {said}");
    }
    let (_, listed) = run(&["list", memory_text]);
    assert!(listed.contains("in memory") && listed.contains("running"), "{listed}");
    drop(job);

    let (code, said) = run(&drain);
    assert!(code == Some(0) && said.contains("Generation 3") && said.contains("1 of 1 ranks"), "{said}");
    let (code, said) = run(&["verify", ssd_text]);
    assert!(code == Some(0) && said.contains("1 copy: 1 whole"), "{said}");

    let before = count(home.path());
    let (code, said) = run(&remove);
    assert!(code == Some(0) && said.contains("would be removed") && said.contains("--yes does it"), "{said}");
    assert_eq!(count(home.path()), before, "without --yes nothing goes");
    let old = ["remove", "--older-than", "1h", "--yes", "--in", memory_text];
    assert!(run(&old).1.contains("No job is that old") && count(home.path()) == before);
    let (code, said) = run(&removes);
    assert!(code == Some(0) && said.contains("heat/17: removed"), "{said}");
    assert_eq!(fs::read_dir(&memory).unwrap().count() + fs::read_dir(&ssd).unwrap().count(), 0);
    let (code, said) = run(&removes);
    assert!(code == Some(2) && said.contains("no job is called"), "{said}");
    let (code, said) = run(&["remove", "../heat", "--in", memory_text]);
    assert!(code == Some(2) && said.contains(".."), "{said}");

    // By age, also of a job that never came to its first save.
    drop(began(config));
    let past = std::time::SystemTime::now() - std::time::Duration::from_secs(9 * 86_400);
    fs::File::open(memory.join("heat/17")).unwrap().set_modified(past).unwrap();
    let (code, said) = run(&["remove", "--older-than", "8d", "--yes", "--in", memory_text, "--json"]);
    assert!(code == Some(0) && said.contains("\"outcome\":\"removed\"") && count(&memory) == 0, "{said}");
}

/// Anybody may put a link where a user's own directory in memory would be.
#[test]
fn what_another_user_put_at_the_default_directory_is_not_looked_at() {
    use std::os::unix::fs::{MetadataExt, chown, lchown, symlink};
    use std::os::unix::process::CommandExt;
    const VICTIM: u32 = 54_321;
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return surefoot_testkit::not_run::not_run(
            "what_another_user_put_at_the_default_directory_is_not_looked_at",
            "only root can be two other users",
        );
    }
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    fs::set_permissions(home.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    chown(home.path(), Some(VICTIM), Some(VICTIM)).unwrap();
    let link = PathBuf::from(format!("/dev/shm/surefoot-{VICTIM}"));
    let _ = fs::remove_file(&link);
    symlink(home.path(), &link).unwrap();
    lchown(&link, Some(65_534), Some(65_534)).unwrap();
    let binary = home.path().join("surefoot");
    fs::copy(env!("CARGO_BIN_EXE_surefoot"), &binary).unwrap();
    for words in [&["remove", "job", "--yes"][..], &["remove", "--older-than", "1s", "--yes"], &["list"]] {
        let output = Command::new(&binary).arg("checkpoint").args(words).uid(VICTIM).gid(VICTIM).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains("is no directory of yours"), "{words:?}: {said}");
    }
    fs::remove_file(&link).unwrap();
}

/// A job of two ranks in these tiers, which saves so often.
fn two_ranks(memory: &Path, ssd: &Path, saves: usize) {
    std::thread::scope(|scope| {
        for group in thread_group(2, None) {
            scope.spawn(move || {
                let mut settings = Settings::of(&Surroundings::default(), "pair", memory).unwrap();
                settings.set("durable", ssd.to_str().unwrap()).unwrap();
                settings.set("policy", "memory").unwrap();
                let is_root = group.rank() == 0;
                let mut job = Checkpointer::open(settings.config().clone(), Box::new(group)).unwrap();
                if is_root {
                    job.publish_settings(settings.told());
                }
                fs::write(job.route_file("state").unwrap(), [7u8; 100_000]).unwrap();
                (0..saves).for_each(|_| assert!(job.checkpoint().unwrap().generation.is_some()));
            });
        }
    });
}

#[test]
fn a_rank_that_is_missing_in_memory_is_lost_and_other_tiers_are_known_by_the_job() {
    let home = tempfile::tempdir().unwrap();
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
    [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    let memory_text = memory.to_str().unwrap();
    two_ranks(&memory, &ssd, 2);
    assert_eq!(run(&["verify", memory_text]).0, Some(0));
    // The job says where its SSD is.
    let (code, said) = run(&["drain", "pair", "--memory", memory_text]);
    assert!(code == Some(0) && said.contains(&format!("durable in {}", ssd.display())), "{said}");
    let (code, said) = run(&["remove", "pair", "--in", memory_text]);
    let stays = format!("stays, because --in does not name its tier: {}/pair", ssd.display());
    assert!(code == Some(0) && said.contains(&stays), "{said}");
    let (_, said) = run(&["remove", "pair", "--in", memory_text, "--in", ssd.to_str().unwrap()]);
    assert!(!said.contains("stays"), "{said}");
    fs::remove_dir_all(memory.join("pair/rank-00001")).unwrap();
    for command in ["verify", "scrub"] {
        let (code, said) = run(&[command, memory_text]);
        assert!(code == Some(1) && said.contains("generation 2 has 2 ranks"), "{said}");
        assert!(said.contains("1 of them should be here and is not: rank 1"), "{said}");
    }
    let (_, said) = run(&["verify", memory_text, "--json"]);
    assert!(said.contains("\"missing_count\":1,\"first_missing\":[1]"), "{said}");
    // Nobody wrote down where the SSD is.
    fs::remove_file(memory.join("pair/settings.json")).unwrap();
    let (code, said) = run(&["drain", "pair", "--memory", memory_text]);
    assert!(code == Some(2) && said.contains("--durable DIR"), "{said}");
}

#[test]
fn the_newest_run_is_listed_first_also_where_an_older_one_has_higher_numbers() {
    let home = tempfile::tempdir().unwrap();
    let [memory, ssd, away] = ["memory", "ssd", "away"].map(|name| home.path().join(name));
    [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    two_ranks(&memory, &ssd, 5);
    // On nodes that the next run does not have.
    fs::rename(memory.join("pair"), &away).unwrap();
    fs::remove_dir_all(ssd.join("pair")).unwrap();
    two_ranks(&memory, &ssd, 1);
    for (rank, slot) in [(0, 0), (1, 0)] {
        let of = |base: &Path, slot: usize, kind: &str| base.join(format!("rank-{rank:05}/slot-{slot}.{kind}"));
        for kind in ["image", "manifest", "copy"] {
            fs::copy(of(&away, slot, kind), of(&memory.join("pair"), slot + 1, kind)).unwrap();
        }
    }
    let (_, said) = run(&["list", memory.to_str().unwrap(), "--json"]);
    let rows = said.lines().filter(|line| line.contains("\"type\":\"generation\""));
    let numbers: Vec<bool> = rows.map(|line| line.contains("\"generation\":1,")).collect();
    assert_eq!(numbers, [true, false], "{said}");
}

#[test]
fn a_scrub_of_a_running_job_is_left_alone_like_a_drain() {
    let home = tempfile::tempdir().unwrap();
    let mut config = Config::new("busy", home.path(), None);
    config.policy = Policy::Fixed(Fixed::Memory);
    let mut job = Checkpointer::open(config, Box::new(Alone)).unwrap();
    fs::write(job.route_file("state").unwrap(), [7u8; 100_000]).unwrap();
    job.checkpoint().unwrap();
    let (code, said) = run(&["scrub", home.path().to_str().unwrap()]);
    assert!(code == Some(1) && said.contains("left alone") && said.contains("running"), "{said}");
}

/// The units of a retention by age, as `make install` puts them in place, but with the command that was just built.
#[test]
fn the_timer_of_a_retention_is_one_and_its_service_removes_what_is_old() {
    let home = tempfile::tempdir().unwrap();
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/systemd");
    let mut service = String::new();
    for kind in ["timer", "service"] {
        let unit = fs::read_to_string(units.join(format!("surefoot-retention@.{kind}"))).unwrap();
        service = unit.replace("/usr/bin/surefoot", env!("CARGO_BIN_EXE_surefoot"));
        // Verified as that of a user who is there.
        fs::write(home.path().join(format!("surefoot-retention@root.{kind}")), &service).unwrap();
    }
    let mut check = Command::new("systemd-analyze");
    check
        .arg("verify")
        .args(["timer", "service"].map(|kind| home.path().join(format!("surefoot-retention@root.{kind}"))));
    match check.output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() && !said.contains("surefoot-retention"), "{said}");
        }
        Err(_) => surefoot_testkit::not_run::not_run(
            "the_timer_of_a_retention_is_one_and_its_service_removes_what_is_old",
            "there is no systemd-analyze; its service is run all the same",
        ),
    }
    // Its command line, with variables as systemd fills them in: one word in braces, and as many as there are without.
    let line = service.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let age = service.lines().find_map(|line| line.strip_prefix("Environment=SUREFOOT_RETENTION_AGE=")).unwrap();
    let directories = format!("--in {}", home.path().display());
    let line = line.replace("${SUREFOOT_RETENTION_AGE}", age).replace("$SUREFOOT_RETENTION_DIRECTORIES", &directories);
    let words: Vec<&str> = line.split(' ').collect();
    let retain = || {
        let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    drop(began(Config::new("old", home.path(), None)));
    let (code, said) = retain();
    assert!(code == Some(0) && home.path().join("old").exists(), "{said}");
    let past = std::time::SystemTime::now() - std::time::Duration::from_secs(31 * 86_400);
    fs::File::open(home.path().join("old")).unwrap().set_modified(past).unwrap();
    let (code, said) = retain();
    assert!(code == Some(0) && said.contains("old: removed") && !home.path().join("old").exists(), "{said}");
}

/// Whoever may write where jobs lie may call a directory what he likes.
#[test]
fn a_name_with_a_newline_begins_no_line_of_remove() {
    let home = tempfile::tempdir().unwrap();
    drop(began(Config::new("plain", home.path(), None)));
    let hostile = "x\nroot: removed, 9 GB given back\n\u{1b}[2J";
    fs::rename(home.path().join("plain"), home.path().join(hostile)).unwrap();
    drop(began(Config::new("good", home.path(), None)));
    fs::create_dir(home.path().join("good").join(hostile)).unwrap();
    let home_text = home.path().to_str().unwrap();
    let past = std::time::SystemTime::now() - std::time::Duration::from_secs(86_400);
    fs::File::open(home.path().join(hostile)).unwrap().set_modified(past).unwrap();
    for words in [
        &["remove", "--older-than", "1h", "--in", home_text][..],
        &["remove", "--older-than", "1h", "--in", home_text, "--yes"],
        &["remove", hostile, "--in", home_text],
        &["remove", "good", "--in", home_text],
        &["remove", "good", "--in", home_text, "--yes"],
        &["list", home_text],
    ] {
        let (_, said) = run(words);
        assert!(!said.lines().any(|line| line.starts_with("root: ")) && !said.contains('\u{1b}'), "{words:?}: {said}");
    }
}

#[test]
fn list_drain_and_remove_look_where_the_variables_say() {
    let home = tempfile::tempdir().unwrap();
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
    [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    two_ranks(&memory, &ssd, 2);
    // So that only the variables know the SSD.
    fs::remove_file(memory.join("pair/settings.json")).unwrap();
    let with = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_surefoot"));
        command.env("SUREFOOT_CHECKPOINT_MEMORY", &memory).env("SUREFOOT_CHECKPOINT_DURABLE", &ssd);
        let output = command.arg("checkpoint").args(words).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{words:?}: {said}");
        said
    };
    assert!(with(&["list"]).contains("pair"));
    let said = with(&["drain", "pair"]);
    assert!(said.contains("Generation 2") && said.contains(&format!("durable in {}", ssd.display())), "{said}");
    let said = with(&["remove", "pair", "--yes"]);
    assert!(said.contains("pair: removed") && !memory.join("pair").exists() && ssd.join("pair").exists(), "{said}");
}

#[test]
fn a_plan_assumes_what_a_job_assumes_and_says_so() {
    let (code, said) = run(&["plan", "--size", "8GB"]);
    assert_eq!(code, Some(0), "{said}");
    let words = ["Note: assumed, as a job does by default", "every 24.0 h", "every 7.00 d,", "no older than 60.0 min"];
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
    assert!(
        said.contains("copy stays young") && said.contains("--memory-mtbf, --durable-mtbf, --staleness-max"),
        "{said}"
    );
    let told = ["plan", "--size", "8GB", "--memory-mtbf-s", "9", "--durable-mtbf-s", "99", "--staleness-max-s", "none"];
    let (code, said) = run(&told);
    assert!(code == Some(0) && !said.contains("assumed") && !said.contains("copy stays young"), "{said}");
    let (_, said) = run(&["plan", "--size", "8GB", "--json", "--memory-mtbf-s", "9"]);
    assert!(said.contains("\"assumed\":[\"durable_mtbf_s\",\"staleness_max_s\"]"), "{said}");
}

/// A directory on a disk, where the target folder is on one.
fn on_disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A job of two ranks whose checkpoints are in memory and on the SSD; what its end does is `ends`.
fn in_both_tiers(memory: &Path, ssd: &Path, ends: impl Fn(&mut Checkpointer) + Sync) {
    let ends = &ends;
    std::thread::scope(|scope| {
        for group in thread_group(2, None) {
            scope.spawn(move || {
                let mut settings = Settings::of(&Surroundings::default(), "pair", memory).unwrap();
                for (name, value) in
                    [("durable", ssd.to_str().unwrap()), ("policy", "every:1"), ("durable.allow_memory", "yes")]
                {
                    settings.set(name, value).unwrap();
                }
                let is_root = group.rank() == 0;
                let mut job = Checkpointer::open(settings.config().clone(), Box::new(group)).unwrap();
                if is_root {
                    job.publish_settings(settings.told());
                }
                fs::write(job.route_file("state").unwrap(), [7u8; 100_000]).unwrap();
                for _ in 0..3 {
                    job.checkpoint().unwrap();
                    job.wait_for_copies().unwrap();
                }
                ends(&mut job);
            });
        }
    });
}

/// Directories in one whose names begin so.
fn within(directory: &Path, begin: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(begin)).collect()
}

#[test]
fn what_a_job_had_and_has_no_more_is_said_and_is_no_success() {
    let gone = |path: PathBuf| if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
    type Harm<'a> = &'a dyn Fn(&Path, &Path);
    let ranks = |memory: &Path, _: &Path| within(memory, "rank-").into_iter().for_each(gone);
    let ranks_and_nodes = |memory: &Path, ssd: &Path| {
        ranks(memory, ssd);
        gone(memory.join("nodes"));
    };
    let one_rank = |memory: &Path, _: &Path| gone(memory.join("rank-00001"));
    let one_rank_and_nodes = |memory: &Path, ssd: &Path| {
        one_rank(memory, ssd);
        gone(memory.join("nodes"));
    };
    let generations = |_: &Path, ssd: &Path| within(ssd, "00000").into_iter().for_each(gone);
    let newest = |_: &Path, ssd: &Path| within(ssd, "0000000003-").into_iter().for_each(gone);
    let marks = |_: &Path, ssd: &Path| within(ssd, "00000").into_iter().for_each(|one| gone(one.join("commit")));
    let tier = |_: &Path, ssd: &Path| gone(ssd.to_owned());
    let cases: [(&str, Harm<'_>, &str); 8] = [
        ("all ranks in memory", &ranks, "lost: job pair had checkpoints in memory here, and none is left"),
        ("and the file of nodes", &ranks_and_nodes, "its journal says that number 4 was saved there"),
        ("one rank in memory", &one_rank, "1 of them should be here and is not: rank 1"),
        ("and the file of nodes, too", &one_rank_and_nodes, "it is not known on which node it is: rank 1"),
        ("all on the SSD", &generations, "had complete checkpoints here, and none is left"),
        ("the newest on the SSD", &newest, "number 3 was complete there"),
        ("all marks on the SSD", &marks, "had complete checkpoints here, and none is left"),
        ("the job's directory on the SSD", &tier, "number 3 was complete there"),
    ];
    for (what, harm, words) in cases {
        let home = on_disk();
        let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
        [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
        // The newest is in memory alone.
        in_both_tiers(&memory, &ssd, |job| {
            job.checkpoint_to(surefoot_checkpoint::Place::Memory).unwrap();
        });
        let (memory_text, ssd_text) = (memory.to_str().unwrap(), ssd.to_str().unwrap());
        for command in ["list", "verify"] {
            let (code, said) = run(&[command, memory_text, ssd_text]);
            assert!(code == Some(0) && !said.contains("lost:"), "before {what}: {said}");
        }
        harm(&memory.join("pair"), &ssd.join("pair"));
        for command in ["list", "verify", "scrub"] {
            let (code, said) = run(&[command, memory_text, ssd_text]);
            assert!(code == Some(1) && said.contains(words), "{what}: {command}: {said}");
            let (code, lines) = run(&[command, memory_text, ssd_text, "--json"]);
            let is_line = lines.contains("\"type\":\"lost\"") || lines.contains("\"type\":\"missing\"");
            assert!(code == Some(1) && is_line, "{what}: {command}: {lines}");
        }
    }
}

#[test]
fn a_directory_of_a_tier_that_is_not_looked_at_is_missed_where_it_is_gone() {
    let home = on_disk();
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
    [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    in_both_tiers(&memory, &ssd, |_| {});
    let memory_text = memory.to_str().unwrap();
    assert_eq!(run(&["verify", memory_text]).0, Some(0), "what is there and was not asked for is as it may be");
    // It is there, under another name.
    let moved = home.path().join("moved");
    fs::rename(&ssd, &moved).unwrap();
    let (code, said) = run(&["verify", memory_text, moved.to_str().unwrap()]);
    assert!(code == Some(0) && !said.contains("lost:"), "{said}");
    fs::rename(&moved, &ssd).unwrap();
    fs::remove_dir_all(ssd.join("pair")).unwrap();
    let (code, said) = run(&["verify", memory_text]);
    assert!(code == Some(1) && said.contains(&format!("{}/pair: lost", ssd.display())), "{said}");
}

/// A job's directory that somebody renamed: the name on the command line and the one in the manifests are of two jobs.
#[test]
fn a_directory_that_was_renamed_is_told_and_no_other_jobs_checkpoints_are_touched() {
    let home = on_disk();
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
    [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    in_both_tiers(&memory, &ssd, |_| {});
    for tier in [&memory, &ssd] {
        fs::rename(tier.join("pair"), tier.join("other")).unwrap();
    }
    let (memory_text, ssd_text) = (memory.to_str().unwrap(), ssd.to_str().unwrap());
    let before = count(home.path());
    let words = "has checkpoints of the job \"pair\", so it was renamed or copied";
    for command in ["list", "verify", "scrub"] {
        let (code, said) = run(&[command, memory_text, ssd_text]);
        assert!(code == Some(1) && said.contains(words), "{command}: {said}");
    }
    let (code, said) = run(&["drain", "other", "--memory", memory_text, "--durable", ssd_text]);
    assert!(code == Some(2) && said.contains(words), "{said}");
    for remove in [&["remove", "other", "--yes"][..], &["remove", "--older-than", "1ns", "--yes"], &["remove", "other"]]
    {
        let (code, said) = run(&[remove, &["--in", memory_text, "--in", ssd_text]].concat());
        assert!(code == Some(1) && said.contains("left alone") && said.contains(words), "{remove:?}: {said}");
    }
    assert_eq!(count(home.path()), before, "something was removed");
    let out = home.path().join("out");
    let restore = |job: &str| run(&["restore", "--job", job, "--to", out.to_str().unwrap(), memory_text, ssd_text]);
    let (code, said) = restore("other");
    assert!(code == Some(2) && said.contains("no job \"other\" is here") && said.contains(words), "{said}");
    // The checkpoints say themselves whose they are.
    let (code, said) = restore("pair");
    assert!(code == Some(0) && said.contains(words), "{said}");
    // Without a checkpoint the journal says it.
    let journal_alone = |directory: &Path| {
        for path in within(directory, "") {
            let is_kept = path.file_name().unwrap().to_str().unwrap().starts_with("journal");
            match path.is_dir() {
                _ if is_kept => {}
                true => fs::remove_dir_all(path).unwrap(),
                false => fs::remove_file(path).unwrap(),
            }
        }
    };
    journal_alone(&memory.join("other"));
    let (code, said) = run(&["remove", "other", "--yes", "--in", memory_text]);
    assert!(code == Some(1) && said.contains(words), "{said}");
}

/// A restart proves that what it read was there.
#[test]
fn what_a_restart_read_and_is_gone_now_is_lost() {
    let home = on_disk();
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
    [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    in_both_tiers(&memory, &ssd, |_| {});
    // What is in memory goes; the restart reads the SSD, and saves nothing after.
    within(&memory.join("pair"), "rank-").into_iter().for_each(|path| fs::remove_dir_all(path).unwrap());
    std::thread::scope(|scope| {
        for group in thread_group(2, None) {
            let (memory, ssd) = (&memory, &ssd);
            scope.spawn(move || {
                let mut settings = Settings::of(&Surroundings::default(), "pair", memory).unwrap();
                for (name, value) in [("durable", ssd.to_str().unwrap()), ("durable.allow_memory", "yes")] {
                    settings.set(name, value).unwrap();
                }
                let mut job = Checkpointer::open(settings.config().clone(), Box::new(group)).unwrap();
                job.route_file("state").unwrap();
                assert_eq!(job.restart().unwrap().unwrap().generation.number, 3);
            });
        }
    });
    let (memory_text, ssd_text) = (memory.to_str().unwrap(), ssd.to_str().unwrap());
    let (_, said) = run(&["verify", memory_text, ssd_text]);
    assert!(!said.contains("number 3 was complete there"), "{said}");
    within(&ssd.join("pair"), "0000000003-").into_iter().for_each(|path| fs::remove_dir_all(path).unwrap());
    let (code, said) = run(&["verify", memory_text, ssd_text]);
    assert!(code == Some(1) && said.contains("number 3 was complete there"), "{said}");
}

#[test]
fn what_a_completed_job_left_may_be_taken_away() {
    let home = on_disk();
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
    [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    in_both_tiers(&memory, &ssd, |job| drop(job.complete().unwrap()));
    within(&memory.join("pair"), "rank-").into_iter().for_each(|path| fs::remove_dir_all(path).unwrap());
    within(&ssd.join("pair"), "00000").into_iter().for_each(|path| fs::remove_dir_all(path).unwrap());
    let (code, said) = run(&["verify", memory.to_str().unwrap(), ssd.to_str().unwrap()]);
    assert!(code == Some(0) && !said.contains("lost:"), "{said}");
}

#[test]
fn an_image_that_is_gone_or_cut_is_listed_as_a_problem() {
    let home = on_disk();
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
    [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    in_both_tiers(&memory, &ssd, |_| {});
    let [newest] = &within(&ssd.join("pair"), "0000000003-")[..] else { panic!("one") };
    let slot = within(&memory.join("pair"), "rank-00001").into_iter().find(|path| path.is_dir()).unwrap();
    let list = |directory: &Path| run(&["list", directory.to_str().unwrap()]);
    assert_eq!((list(&ssd).0, list(&memory).0), (Some(0), Some(0)));
    let image = newest.join("rank-00001.image");
    let length = fs::metadata(&image).unwrap().len();
    fs::File::options().write(true).open(&image).unwrap().set_len(length - 1).unwrap();
    let (code, said) = list(&ssd);
    let why = format!("it has {} of the {length} bytes", length - 1);
    assert!(code == Some(1) && said.contains("rank-00001.image") && said.contains(&why), "{said}");
    fs::remove_file(&image).unwrap();
    let (code, said) = list(&ssd);
    assert!(code == Some(1) && said.contains("the manifest is there and the image is not"), "{said}");
    // In memory an image alone is room for the next checkpoint, and one that is gone is no room.
    let images = within(&slot, "slot-").into_iter().filter(|path| path.extension().is_some_and(|end| end == "image"));
    images.for_each(|path| fs::remove_file(path).unwrap());
    let (code, said) = list(&memory);
    assert!(code == Some(1) && said.contains("the image is not"), "{said}");
}

#[test]
fn a_manifest_that_is_gone_leaves_its_bytes_unknown_and_its_place_in_the_order() {
    let home = on_disk();
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
    [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    in_both_tiers(&memory, &ssd, |_| {});
    let [newest] = &within(&ssd.join("pair"), "0000000003-")[..] else { panic!("one") };
    fs::remove_file(newest.join("rank-00001.manifest")).unwrap();
    let rows = || {
        let (_, said) = run(&["list", ssd.to_str().unwrap(), "--json"]);
        said.lines().filter(|line| line.contains("\"type\":\"generation\"")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(rows()[0].contains("\"payload_bytes\":null"), "{:?}", rows());
    assert!(rows()[1].contains("\"payload_bytes\":200000"), "{:?}", rows());
    fs::remove_file(newest.join("rank-00000.manifest")).unwrap();
    assert!(rows()[0].contains("\"generation\":3,") && rows()[1].contains("\"generation\":2,"), "{:?}", rows());
}

#[test]
fn a_job_that_never_saved_has_no_newest_checkpoint() {
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut job = Checkpointer::open(Config::new("young", memory.path(), None), Box::new(Alone)).unwrap();
    assert!(job.restart().unwrap().is_none());
    let (code, said) = run(&["list", memory.path().to_str().unwrap()]);
    assert!(code == Some(0) && said.contains("No checkpoints found."), "{said}");
    assert_eq!(run(&["verify", memory.path().to_str().unwrap()]).0, Some(0), "a job is there");
    let empty = tempfile::tempdir().unwrap();
    let (code, nothing) = run(&["verify", empty.path().to_str().unwrap()]);
    assert!(code == Some(1) && nothing.contains("nothing was read"), "{nothing}");
    let row = said.lines().find(|line| line.starts_with("young")).unwrap();
    assert!(row.ends_with("-  running"), "{row}");
    let (_, said) = run(&["list", memory.path().to_str().unwrap(), "--json"]);
    assert!(said.contains("\"newest_realtime_ns\":null,\"age_s\":null"), "{said}");
}

#[test]
fn who_only_reads_leaves_nothing_behind() {
    let home = on_disk();
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
    [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    let read = |name: &'static str, with: &'static str| {
        std::thread::scope(|scope| {
            for group in thread_group(2, None) {
                let (memory, ssd) = (&memory, &ssd);
                scope.spawn(move || {
                    let mut settings = Settings::of(&Surroundings::default(), name, memory).unwrap();
                    let ssd = if with == "both" { ssd.to_str().unwrap() } else { "none" };
                    settings.set("durable", ssd).unwrap();
                    settings.set("durable.allow_memory", "yes").unwrap();
                    let is_root = group.rank() == 0;
                    let mut job = Checkpointer::open(settings.config().clone(), Box::new(group)).unwrap();
                    if is_root {
                        job.publish_settings(settings.told());
                    }
                    let found = job.open_resized().unwrap();
                    job.finish().unwrap();
                    assert_eq!(found.is_some(), name == "pair");
                });
            }
        });
    };
    read("no/such", "both");
    assert_eq!([&memory, &ssd].map(|base| fs::read_dir(base).unwrap().count()), [0, 0]);
    in_both_tiers(&memory, &ssd, |_| {});
    let kept = ["settings.json", "journal.jsonl"].map(|name| memory.join("pair").join(name));
    let before = kept.each_ref().map(|path| fs::read(path).unwrap());
    read("pair", "memory");
    assert_eq!(kept.each_ref().map(|path| fs::read(path).unwrap()), before, "the settings stay those of the job's run");
}

/// What is asked for is in none of the two, and the reason is said.
#[test]
fn a_drain_and_a_restore_say_what_the_job_had() {
    let home = on_disk();
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
    [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    two_ranks(&memory, &ssd, 2);
    within(&memory.join("pair"), "rank-").into_iter().for_each(|path| fs::remove_dir_all(path).unwrap());
    let memory_text = memory.to_str().unwrap();
    let to = home.path().join("out");
    let restore = ["restore", memory_text, "--job", "pair", "--to", to.to_str().unwrap()];
    for words in [&["drain", "pair", "--memory", memory_text][..], &restore] {
        let (code, said) = run(words);
        assert!(code == Some(1) && said.contains("had checkpoints in memory here, and none is left"), "{said}");
        assert!(!said.contains("job: "), "{said}");
    }
    // What was never there is a mistake of who asks.
    let (code, said) = run(&["drain", "other", "--memory", memory_text]);
    assert!(code == Some(2) && said.contains("no job other in"), "{said}");
    // The settings say where the SSD is, if they can be read.
    fs::write(memory.join("pair/settings.json"), "").unwrap();
    let (code, said) = run(&["drain", "pair", "--memory", memory_text]);
    assert!(code == Some(2) && said.contains("--durable DIR"), "{said}");
}

/// Who restores or drains while the file that names the newest checkpoint cannot be read must learn that it may not be the newest.
#[test]
fn what_says_what_a_job_saved_and_cannot_be_read_is_no_success() {
    let empty = |path: &Path| fs::write(path, "").unwrap();
    let zeros = |path: &Path| fs::write(path, vec![0; fs::metadata(path).unwrap().len() as usize]).unwrap();
    let flip = |path: &Path| {
        let mut bytes = fs::read(path).unwrap();
        bytes[100] ^= 1;
        fs::write(path, bytes).unwrap();
    };
    let no_file = |path: &Path| {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
    };
    type Harm<'a> = &'a dyn Fn(&Path);
    let cases: [(&str, Harm<'_>, &str); 6] = [
        ("nodes", &flip, "cannot be read ("),
        ("nodes", &empty, "cannot be read ("),
        ("nodes", &no_file, "cannot be read ("),
        ("journal.jsonl", &empty, "no line of it can be read"),
        ("journal.jsonl", &zeros, "no line of it can be read"),
        ("journal.jsonl", &no_file, "it cannot be read ("),
    ];
    for (name, harm, words) in cases {
        let home = on_disk();
        let [memory, ssd, other] = ["memory", "ssd", "other"].map(|name| home.path().join(name));
        [&memory, &ssd, &other].into_iter().for_each(|path| fs::create_dir(path).unwrap());
        in_both_tiers(&memory, &ssd, |_| {});
        let spoiled = memory.join("pair").join(name);
        harm(&spoiled);
        let [memory_text, ssd_text, other_text] = [&memory, &ssd, &other].map(|path| path.to_str().unwrap());
        let to = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
        let drain = ["drain", "pair", "--memory", memory_text, "--durable", other_text, "--allow-memory"];
        for words_of in [
            &["list", memory_text, ssd_text][..],
            &["verify", memory_text, ssd_text],
            &["restore", memory_text, ssd_text, "--job", "pair", "--to", &to("people")],
            &drain,
        ] {
            let (code, said) = run(words_of);
            let line = format!("Problem: {}: ", spoiled.display());
            let is_said = said.contains(&line) && said.contains(words) && said.contains("is not known");
            assert!(code == Some(1) && is_said, "{name}: {words_of:?}: {code:?} {said}");
        }
        let to_lines = to("lines");
        let restore = ["restore", memory_text, "--job", "pair", "--to", &to_lines, "--json"];
        for words_of in [&restore[..], &[&drain[..], &["--json"]].concat()] {
            let (code, said) = run(words_of);
            let line = format!("{{\"type\":\"problem\",\"path\":{:?}", spoiled.to_str().unwrap());
            assert!(code == Some(1) && said.contains(&line), "{name}: {words_of:?}: {code:?} {said}");
        }
        // What is asked for by its number is what one gets.
        let (code, said) = run(&["restore", memory_text, "--job", "pair", "--to", &to("chosen"), "--generation", "2"]);
        assert!(code == Some(0), "{name}: {said}");
        // As the sentence says, and the job goes on.
        if name == "nodes" || spoiled.is_dir() {
            let _ = fs::remove_file(&spoiled);
            let _ = fs::remove_dir(&spoiled);
        }
        in_both_tiers(&memory, &ssd, |_| {});
        let (code, said) = run(&["list", memory_text, ssd_text]);
        assert!(code == Some(0) && !said.contains("Problem"), "{name}: {said}");
    }
}

/// Every command says the same of what is gone or cannot be read: the newest in memory, a rank, a manifest, a journal, a link.
#[test]
fn what_is_gone_or_cannot_be_read_is_said_by_every_command() {
    let gone = |path: PathBuf| if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
    // The slot of number 3 of a rank.
    let newest = |memory: &Path, rank: u32| {
        let rank = memory.join(format!("rank-{rank:05}"));
        let number = |slot: &u32| {
            Manifest::read(&Disk, &rank.join(format!("slot-{slot}.manifest"))).map_or(0, |read| read.generation.number)
        };
        let slot = (0..3).find(|slot| number(slot) == 3).unwrap();
        move |kind: &str| rank.join(format!("slot-{slot}.{kind}"))
    };
    let newest_gone = |memory: &Path| {
        for rank in 0..2 {
            let of = newest(memory, rank);
            ["manifest", "copy"].into_iter().for_each(|kind| gone(of(kind)));
        }
    };
    let one_rank = |memory: &Path| gone(memory.join("rank-00001"));
    let strange_manifest = |memory: &Path| {
        let of = newest(memory, 0);
        gone(of("manifest"));
        gone(of("copy"));
        fs::create_dir(of("manifest")).unwrap();
    };
    let all_manifests = |memory: &Path| {
        for rank in within(memory, "rank-") {
            within(&rank, "slot-").iter().filter(|path| !path.ends_with("image")).for_each(|path| {
                if path.extension().is_some_and(|kind| kind == "manifest" || kind == "copy") {
                    fs::write(path, "").unwrap();
                }
            });
        }
    };
    let garbled_journal = |memory: &Path| {
        let path = memory.join("journal.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().enumerate().map(|(at, line)| if at == 0 { line } else { "garbage" });
        fs::write(&path, lines.collect::<Vec<_>>().join("\n") + "\n").unwrap();
    };
    // As a newer release might write it, which stopped before it wrote anything else.
    let strange_event = |memory: &Path| {
        let path = memory.join("journal.jsonl");
        let line = "{\"realtime_ns\":1,\"event\":\"copied\",\"generation\":9}\n";
        fs::write(&path, fs::read_to_string(&path).unwrap() + line).unwrap();
    };
    let one_garbled_line = |memory: &Path| {
        let path = memory.join("journal.jsonl");
        fs::write(&path, fs::read_to_string(&path).unwrap() + "garbage garbage\n").unwrap();
    };
    let older_journal = |memory: &Path| {
        let text = fs::read_to_string(memory.join("journal.jsonl")).unwrap();
        fs::write(memory.join("journal.1.jsonl"), text.replace("\"decision\"", "\"choice\"")).unwrap();
    };
    let link = |memory: &Path| {
        fs::rename(memory.join("nodes"), memory.join("n")).unwrap();
        std::os::unix::fs::symlink("n", memory.join("nodes")).unwrap();
    };
    type Harm<'a> = &'a dyn Fn(&Path);
    let cases: [(&str, Harm<'_>, &[&str]); 9] = [
        ("the newest in memory", &newest_gone, &["had checkpoint 3 in memory here; only older ones are left"]),
        ("one rank", &one_rank, &["rank 1", "no copy of rank 1 here"]),
        ("a manifest that is a directory", &strange_manifest, &["slot-"]),
        ("all manifests in memory", &all_manifests, &["slot-"]),
        ("the journal but for a line", &garbled_journal, &["journal.jsonl", "lines of it are not understood"]),
        ("a line of an unknown event", &strange_event, &["journal.jsonl", "1 line of it is not understood"]),
        ("a damaged line", &one_garbled_line, &["journal.jsonl", "1 line of it is not understood"]),
        ("the older file of the journal", &older_journal, &["journal.1.jsonl", "not understood"]),
        ("nodes behind a link", &link, &["it is a symbolic link"]),
    ];
    for (what, harm, words) in cases {
        let home = on_disk();
        let [memory, ssd, other] = ["memory", "ssd", "other"].map(|name| home.path().join(name));
        [&memory, &ssd, &other].into_iter().for_each(|path| fs::create_dir(path).unwrap());
        in_both_tiers(&memory, &ssd, |_| {});
        let [memory_text, other_text] = [&memory, &other].map(|path| path.to_str().unwrap());
        harm(&memory.join("pair"));
        let to = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
        let mut commands = vec![
            vec!["list", memory_text],
            vec!["verify", memory_text],
            vec!["drain", "pair", "--memory", memory_text, "--durable", other_text, "--allow-memory", "--part"],
        ];
        let [all, one] = ["all", "one"].map(to);
        commands.push(vec!["restore", memory_text, "--job", "pair", "--to", &all]);
        commands.push(vec!["restore", memory_text, "--job", "pair", "--to", &one, "--rank", "1"]);
        for command in commands {
            let (code, said) = run(&command);
            let is_journal = words[0].ends_with(".jsonl");
            let is_said = words.iter().filter(|word| said.contains(**word)).count() >= if is_journal { 2 } else { 1 };
            assert!(code == Some(1) && is_said, "{what}: {command:?}: {code:?} {said}");
        }
    }
}

/// After a drain and a loss of memory the newest is on the SSD, and nothing is missed.
#[test]
fn what_was_drained_and_is_gone_from_memory_is_no_loss_to_a_restore() {
    let home = on_disk();
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
    [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    two_ranks(&memory, &ssd, 3);
    let [memory_text, ssd_text] = [&memory, &ssd].map(|path| path.to_str().unwrap());
    let (code, said) = run(&["drain", "pair", "--memory", memory_text, "--durable", ssd_text, "--allow-memory"]);
    assert!(code == Some(0), "{said}");
    within(&memory.join("pair"), "rank-").into_iter().for_each(|path| fs::remove_dir_all(path).unwrap());
    let to = home.path().join("out");
    let (code, said) = run(&["restore", memory_text, ssd_text, "--job", "pair", "--to", to.to_str().unwrap()]);
    assert!(code == Some(0) && said.contains("Generation 3 of") && !said.contains("Lost"), "{said}");
}

/// A checkpoint without its mark is being written or removed, or was given up: no loss, and no problem. One whose mark cannot be read may have
/// been complete.
#[test]
fn a_durable_checkpoint_that_was_not_written_to_its_end_is_no_problem() {
    let home = on_disk();
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
    [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    in_both_tiers(&memory, &ssd, |_| {});
    fs::remove_dir_all(&memory).unwrap();
    let ssd_text = ssd.to_str().unwrap();
    let [newest] = &within(&ssd.join("pair"), "0000000003-")[..] else { panic!("one") };
    let mark = fs::read(newest.join("commit")).unwrap();
    fs::remove_file(newest.join("commit")).unwrap();
    // Killed while it was removed, or written.
    fs::write(newest.join("rank-00000.image"), "").unwrap();
    fs::remove_file(newest.join("rank-00001.manifest")).unwrap();
    for command in ["list", "verify"] {
        let (code, said) = run(&[command, ssd_text]);
        assert!(code == Some(0) && !said.contains("Problem") && !said.contains("lost:"), "{command}: {said}");
    }
    for spoiled in [&b""[..], &mark[..10], &[7; 100]] {
        fs::write(newest.join("commit"), spoiled).unwrap();
        let to = home.path().join(format!("out-{}", spoiled.len()));
        let (code, said) = run(&["restore", ssd_text, "--job", "pair", "--to", to.to_str().unwrap()]);
        let is_said = said.contains("Generation 2 of") && said.contains("it is not the newest that the job had");
        assert!(code == Some(1) && is_said, "{code:?} {said}");
    }
}

/// Removed on purpose is no loss. The journal in memory says who removed it; what is saved and lost after that is lost.
#[test]
fn what_was_removed_from_one_tier_is_not_called_lost() {
    let home = on_disk();
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
    [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    let [memory_text, ssd_text] = [&memory, &ssd].map(|path| path.to_str().unwrap());
    let journal = || fs::read_to_string(memory.join("pair/journal.jsonl")).unwrap();
    in_both_tiers(&memory, &ssd, |_| {});
    let (code, said) = run(&["remove", "pair", "--in", ssd_text]);
    assert!(code == Some(0) && !journal().contains("removed"), "only --yes removes: {said}");
    // A removal that ends early, as one that is killed does, is noted before anything goes.
    let stays = within(&ssd.join("pair"), "0000000003-").remove(0).join("of-another");
    fs::create_dir(&stays).unwrap();
    let (code, said) = run(&["remove", "pair", "--in", ssd_text, "--yes"]);
    assert!(journal().contains("\"event\":\"removed\",\"tier\":\"durable\""), "{code:?} {said}");
    fs::remove_dir(&stays).unwrap();
    let _ = run(&["remove", "pair", "--in", ssd_text, "--yes"]);
    let well = |why: &str| {
        for command in ["list", "verify"] {
            for places in [&[memory_text][..], &[memory_text, ssd_text]] {
                let (code, said) = run(&[&[command], places].concat());
                assert!(code == Some(0) && !said.contains("lost:"), "{why}: {command} {places:?}: {said}");
            }
        }
    };
    well("removed");
    // The job goes on, and is removed and goes on again; then somebody deletes what it keeps.
    in_both_tiers(&memory, &ssd, |_| {});
    well("saved again");
    assert_eq!(run(&["remove", "pair", "--in", ssd_text, "--yes"]).0, Some(0));
    well("removed again");
    in_both_tiers(&memory, &ssd, |_| {});
    fs::remove_dir_all(ssd.join("pair")).unwrap();
    for command in ["list", "verify"] {
        let (code, said) = run(&[command, memory_text, ssd_text]);
        assert!(code == Some(1) && said.contains("was complete there"), "{command}: {said}");
    }
}

/// The settings beside a job's checkpoints lead to its other tiers. Who restores from the SSD alone is told of what is newer in memory, and
/// everyone that memory is gone.
#[test]
fn a_tier_that_was_not_named_and_has_something_newer_or_is_gone_is_told() {
    let home = on_disk();
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
    [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    in_both_tiers(&memory, &ssd, |job| {
        job.checkpoint_to(surefoot_checkpoint::Place::Memory).unwrap();
    });
    let [memory_text, ssd_text] = [&memory, &ssd].map(|path| path.to_str().unwrap());
    let restore = |to: &str, places: &[&str]| {
        let to = home.path().join(to);
        run(&[&["restore"], places, &["--job", "pair", "--to", to.to_str().unwrap()]].concat())
    };
    let there = format!("has generation 4 in {}, which was not looked at and is newer", memory.join("pair").display());
    let (code, said) = restore("ssd-alone", &[ssd_text]);
    let is_said = said.contains(&there) && said.contains("Generation 3 of") && said.contains("not the newest");
    assert!(code == Some(1) && is_said, "{code:?} {said}");
    for command in ["list", "verify"] {
        let (code, said) = run(&[command, ssd_text]);
        assert!(code == Some(0) && said.contains(&there), "{command}: {said}");
        let (code, said) = run(&[command, memory_text]);
        assert!(code == Some(0) && !said.contains("not looked at"), "{command}: {said}");
    }
    let (code, said) = restore("both", &[memory_text, ssd_text]);
    assert!(code == Some(0) && said.contains("Generation 4 of") && !said.contains("not looked at"), "{said}");
    // As after a reboot.
    fs::remove_dir_all(&memory).unwrap();
    let gone = format!("also kept checkpoints in {}, and that is gone", memory.join("pair").display());
    for said in [run(&["list", ssd_text]).1, run(&["verify", ssd_text]).1, restore("after", &[ssd_text]).1] {
        assert!(said.contains(&gone), "{said}");
    }
    let missing = format!("Problem: {memory_text}: ");
    for said in [
        run(&["list", memory_text, ssd_text]),
        run(&["verify", memory_text, ssd_text]),
        restore("named", &[memory_text, ssd_text]),
    ] {
        let (code, said) = said;
        assert!(code == Some(1) && said.contains(&missing) && said.contains("pair"), "{code:?} {said}");
    }
    assert_eq!(run(&["list", memory_text]).0, Some(2));
}

/// The job goes on without its SSD: what was there is lost all the same.
#[test]
fn an_ssd_that_is_gone_stays_lost_when_the_job_has_gone_on() {
    let home = on_disk();
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
    [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    in_both_tiers(&memory, &ssd, |_| {});
    fs::remove_dir_all(ssd.join("pair")).unwrap();
    let journal = memory.join("pair/journal.jsonl");
    let restart =
        r#"{"realtime_ns":9,"event":"restart","generation":3,"report":"ok","outcome":"restored","tier":"memory"}"#;
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, format!("{text}{}\n", restart.replace(":9,", &format!(":{},", u64::MAX / 2)))).unwrap();
    for command in ["list", "verify"] {
        let (code, said) = run(&[command, memory.to_str().unwrap()]);
        assert!(
            code == Some(1) && said.contains("had complete checkpoints here, and none is left"),
            "{command}: {said}"
        );
    }
}

/// All of memory that is gone is no loss, either.
#[test]
fn what_is_gone_from_memory_and_is_on_the_ssd_is_not_lost() {
    let home = on_disk();
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
    [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    in_both_tiers(&memory, &ssd, |_| {});
    within(&memory.join("pair"), "rank-").into_iter().for_each(|path| fs::remove_dir_all(path).unwrap());
    let [memory_text, ssd_text] = [&memory, &ssd].map(|path| path.to_str().unwrap());
    for command in ["list", "verify"] {
        let (code, said) = run(&[command, memory_text, ssd_text]);
        assert!(code == Some(0) && !said.contains("lost:"), "{command}: {said}");
        let (code, said) = run(&[command, memory_text]);
        assert!(
            code == Some(1) && said.contains("had checkpoints in memory here, and none is left"),
            "{command}: {said}"
        );
    }
    // The SSD's newest is older now.
    within(&ssd.join("pair"), "0000000003-").into_iter().for_each(|path| fs::remove_dir_all(path).unwrap());
    let (code, said) = run(&["list", memory_text, ssd_text]);
    assert!(code == Some(1) && said.contains("had checkpoints in memory here, and none is left"), "{said}");
}

/// A restart that read the newest says that it was there: its loss after that is told like any other.
#[test]
fn what_a_restart_read_and_what_it_did_not_touch_are_missed_when_they_are_gone() {
    let newest_gone = |memory: &Path| {
        for rank in within(&memory.join("pair"), "rank-") {
            let number = |slot: &u32| {
                let path = rank.join(format!("slot-{slot}.manifest"));
                Manifest::read(&Disk, &path).map_or(0, |read| read.generation.number)
            };
            let slot = (0..3).find(|slot| number(slot) == 3).unwrap();
            ["manifest", "copy"]
                .iter()
                .for_each(|kind| fs::remove_file(rank.join(format!("slot-{slot}.{kind}"))).unwrap());
        }
    };
    for is_durable in [false, true] {
        let home = on_disk();
        let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
        [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
        let [memory_text, ssd_text] = [&memory, &ssd].map(|path| path.to_str().unwrap());
        in_both_tiers(&memory, &ssd, |_| {});
        // Restarted from memory, and killed before its first save.
        let journal = memory.join("pair/journal.jsonl");
        let mut text = fs::read_to_string(&journal).unwrap();
        let opened = text.lines().find(|line| line.contains("\"opened\"")).unwrap().to_owned();
        let last: u64 = text.lines().last().unwrap().split(&[':', ','][..]).nth(1).unwrap().parse().unwrap();
        let restart = format!(
            r#"{{"realtime_ns":{},"event":"restart","generation":3,"report":"x","outcome":"restored","tier":"memory"}}"#,
            last + 2
        );
        let opened = opened.replacen(opened.split(&[':', ','][..]).nth(1).unwrap(), &(last + 1).to_string(), 1);
        text += &format!("{opened}\n{restart}\n");
        fs::write(&journal, text).unwrap();
        let whole = run(&["list", memory_text, ssd_text]);
        assert!(whole.0 == Some(0), "{}", whole.1);
        match is_durable {
            true => {
                within(&ssd.join("pair"), "0000000003-").into_iter().for_each(|path| fs::remove_dir_all(path).unwrap())
            }
            false => newest_gone(&memory),
        }
        let looked_at = if is_durable { [memory_text, ssd_text] } else { [memory_text; 2] };
        for command in ["list", "verify"] {
            let (code, said) = run(&[&[command], &looked_at[..]].concat());
            assert!(code == Some(1) && said.contains("lost: job pair"), "{is_durable} {command}: {said}");
        }
        if !is_durable {
            let to = home.path().join("out");
            let (code, said) = run(&["restore", memory_text, "--job", "pair", "--to", to.to_str().unwrap()]);
            assert!(code == Some(1) && said.contains("not the newest"), "{said}");
        }
    }
}

/// Settings that cannot be read hide where the durable tier is: that is not known, and no success.
#[test]
fn settings_that_cannot_be_read_hide_no_loss() {
    let home = on_disk();
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
    [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    in_both_tiers(&memory, &ssd, |_| {});
    let [memory_text, ssd_text] = [&memory, &ssd].map(|path| path.to_str().unwrap());
    let settings = memory.join("pair/settings.json");
    fs::remove_dir_all(ssd.join("pair")).unwrap();
    for spoiled in [Some(""), Some("garbage"), Some("{\"version\":2,\"settings\":[]}"), None] {
        let _ = fs::remove_file(&settings);
        spoiled.iter().for_each(|text| fs::write(&settings, text).unwrap());
        for command in ["list", "verify"] {
            let (code, said) = run(&[command, memory_text, ssd_text]);
            let is_said = said.contains("settings.json") && said.contains("was complete in a durable tier");
            assert!(code == Some(1) && is_said, "{spoiled:?} {command}: {said}");
        }
    }
}

/// A mark of the end whose time is ahead of the clock hides nothing of a later run.
#[test]
fn a_completion_that_is_stamped_ahead_of_the_clock_hides_no_loss() {
    let home = on_disk();
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
    [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    let [memory_text, ssd_text] = [&memory, &ssd].map(|path| path.to_str().unwrap());
    in_both_tiers(&memory, &ssd, |job| drop(job.complete().unwrap()));
    in_both_tiers(&memory, &ssd, |_| {});
    // As if the first run had ended with the clock far ahead: what the second wrote is of before.
    let journal = memory.join("pair/journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let set_back = text.lines().map(|line| {
        let at = line.split(&[':', ','][..]).nth(1).unwrap();
        line.replacen(at, &format!("{}", at.parse::<u64>().unwrap() - 3_600_000_000_000), 1) + "\n"
    });
    fs::write(&journal, set_back.collect::<String>()).unwrap();
    assert_eq!(run(&["list", memory_text, ssd_text]).0, Some(0));
    fs::remove_dir_all(ssd.join("pair")).unwrap();
    let (code, said) = run(&["list", memory_text, ssd_text]);
    assert!(code == Some(1) && said.contains("had complete checkpoints here, and none is left"), "{said}");
}

/// A mark that cannot be read may have said that the checkpoint is complete: a problem, and no loss.
#[test]
fn a_mark_that_cannot_be_read_is_a_problem_and_no_loss() {
    let home = on_disk();
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
    [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    in_both_tiers(&memory, &ssd, |_| {});
    let [newest] = &within(&ssd.join("pair"), "0000000003-")[..] else { panic!("one") };
    fs::write(newest.join("commit"), "garbage").unwrap();
    let (code, said) = run(&["list", memory.to_str().unwrap(), ssd.to_str().unwrap()]);
    assert!(code == Some(1) && said.contains("Problem: ") && !said.contains("lost:"), "{said}");
}

/// A rank's part that is gone from memory is no loss while the SSD has the same checkpoint with all ranks.
#[test]
fn a_rank_that_is_missing_in_memory_and_whole_on_the_ssd_is_not_lost() {
    let home = on_disk();
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
    [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    in_both_tiers(&memory, &ssd, |_| {});
    fs::remove_dir_all(memory.join("pair/rank-00001")).unwrap();
    let [memory_text, ssd_text] = [&memory, &ssd].map(|path| path.to_str().unwrap());
    let (code, said) = run(&["list", memory_text, ssd_text]);
    assert!(code == Some(0) && !said.contains("lost"), "{said}");
    let [newest] = &within(&ssd.join("pair"), "0000000003-")[..] else { panic!("one") };
    fs::remove_file(newest.join("commit")).unwrap();
    let (code, said) = run(&["list", memory_text, ssd_text]);
    assert!(code == Some(1) && said.contains("should be here and is not"), "{said}");
}

/// What stays of a removal decides whether it can be noted: the settings may be beside what goes or what stays, the journal may be full.
#[test]
fn a_removal_is_noted_or_it_is_said_that_it_is_not() {
    for spoiled in ["ssd/pair/settings.json", "memory/pair/settings.json", "memory/pair/journal.jsonl"] {
        let home = on_disk();
        let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
        [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
        in_both_tiers(&memory, &ssd, |_| {});
        let path = home.path().join(spoiled);
        match spoiled.ends_with("jsonl") {
            true => fs::rename(&path, path.with_file_name("journal.1.jsonl")).unwrap(),
            false => fs::remove_file(&path).unwrap(),
        }
        let (code, said) = run(&["remove", "pair", "--in", ssd.to_str().unwrap(), "--yes"]);
        let (listed, list) = run(&["list", memory.to_str().unwrap()]);
        let is_told = said.contains("not noted in") || said.contains("its other tiers are not known");
        assert!(code == Some(0) && listed == Some(0) || is_told, "{spoiled}: {code:?} {said} {listed:?} {list}");
    }
}

/// A job that runs with another of its directories is left alone in all of them.
#[test]
fn a_job_that_runs_elsewhere_is_not_removed() {
    let home = on_disk();
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
    [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    let mut settings = Settings::of(&Surroundings::default(), "solo", &memory).unwrap();
    for (name, value) in [("durable", ssd.to_str().unwrap()), ("policy", "every:1"), ("durable.allow_memory", "yes")] {
        settings.set(name, value).unwrap();
    }
    let mut job = Checkpointer::open(settings.config().clone(), Box::new(Alone)).unwrap();
    job.publish_settings(settings.told());
    job.checkpoint().unwrap();
    job.wait_for_copies().unwrap();
    drop(job);
    // A run that has no durable tier.
    let _job = began(Config::new("solo", &memory, None));
    let (code, said) = run(&["remove", "solo", "--in", ssd.to_str().unwrap(), "--yes"]);
    assert!(code == Some(1) && said.contains("left alone") && ssd.join("solo").exists(), "{said}");
}

/// All that a job had was in the tier that was removed: it begins anew, as it was asked for.
#[test]
fn a_job_whose_only_checkpoints_were_removed_begins_anew() {
    let home = on_disk();
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
    [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    let opened = || {
        let mut settings = Settings::of(&Surroundings::default(), "solo", &memory).unwrap();
        let durable = ssd.to_str().unwrap();
        for (name, value) in [("durable", durable), ("policy", "durable"), ("durable.allow_memory", "yes")] {
            settings.set(name, value).unwrap();
        }
        let mut job = Checkpointer::open(settings.config().clone(), Box::new(Alone)).unwrap();
        job.publish_settings(settings.told());
        fs::write(job.route_file("state").unwrap(), [7u8; 100_000]).unwrap();
        job
    };
    let mut job = opened();
    job.restart().unwrap();
    assert!(job.checkpoint().unwrap().generation.is_some());
    job.finish().unwrap();
    drop(job);
    assert_eq!(run(&["remove", "solo", "--in", ssd.to_str().unwrap(), "--yes"]).0, Some(0));
    let mut job = opened();
    assert!(job.restart().unwrap().is_none(), "it began anew");
    assert!(job.checkpoint().unwrap().generation.is_some());
    drop(job);
    // What is deleted by hand is lost, and refused.
    fs::remove_dir_all(ssd.join("solo")).unwrap();
    let refused = opened().restart().unwrap_err().to_string();
    assert!(refused.contains("none is left"), "{refused}");
}

/// Where the removal cannot be noted, who removes is told what comes of it.
#[test]
fn a_removal_that_cannot_be_noted_says_so() {
    let home = on_disk();
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
    [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    in_both_tiers(&memory, &ssd, |_| {});
    let journal = memory.join("pair/journal.jsonl");
    let target = home.path().join("target");
    fs::rename(&journal, &target).unwrap();
    std::os::unix::fs::symlink(&target, &journal).unwrap();
    let before = fs::read(&target).unwrap();
    let (code, said) = run(&["remove", "pair", "--in", ssd.to_str().unwrap(), "--yes"]);
    let words = format!("not noted in {}", journal.display());
    assert!(code == Some(1) && said.contains("pair: removed") && said.contains(&words), "{said}");
    assert!(fs::read(&target).unwrap() == before && !ssd.join("pair").exists(), "{said}");
}

/// The mark of a job's end decides what the next run does; and what is not this user's is no checkpoint of his.
#[test]
fn a_mark_of_the_end_that_cannot_be_read_and_an_image_of_another_user_are_problems() {
    let home = on_disk();
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
    [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    in_both_tiers(&memory, &ssd, |job| drop(job.complete().unwrap()));
    let [memory_text, ssd_text] = [&memory, &ssd].map(|path| path.to_str().unwrap());
    let (code, said) = run(&["list", memory_text, ssd_text]);
    assert!(code == Some(0), "{said}");
    let mark = ssd.join("pair/completed");
    fs::write(&mark, "garbage").unwrap();
    let (code, said) = run(&["list", ssd_text]);
    assert!(code == Some(1) && said.contains("the mark that the job came to its end cannot be read"), "{said}");
    // What it had in memory may have been a result, which may be taken away.
    fs::write(memory.join("pair/completed"), "garbage").unwrap();
    within(&memory.join("pair"), "rank-").into_iter().for_each(|path| fs::remove_dir_all(path).unwrap());
    let (code, said) = run(&["list", memory_text]);
    assert!(code == Some(1) && said.contains("may have been a finished job's"), "{said}");
    fs::remove_file(&mark).unwrap();
    if inspect_own_user() != 0 {
        return surefoot_testkit::not_run::not_run("an image of another user", "only root can give a file away");
    }
    let [newest] = &within(&ssd.join("pair"), "0000000003-")[..] else { panic!("one") };
    std::os::unix::fs::chown(newest.join("rank-00000.image"), Some(54_321), None).unwrap();
    for command in ["list", "verify"] {
        let (code, said) = run(&[command, ssd_text]);
        assert!(code == Some(1) && said.contains("belongs to the user with number 54321"), "{command}: {said}");
    }
    let to = home.path().join("out");
    let (code, said) = run(&["restore", ssd_text, "--job", "pair", "--to", to.to_str().unwrap()]);
    assert!(code == Some(1) && said.contains("54321") && said.contains("Generation 2 of"), "{said}");
}

fn inspect_own_user() -> u32 {
    surefoot_checkpoint::inspect::own_user()
}

/// A checkpoint that was never marked was never reported as complete; one that lost its mark is named by its number.
#[test]
fn a_damaged_checkpoint_is_lost_only_if_it_was_complete() {
    let home = on_disk();
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
    [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    in_both_tiers(&memory, &ssd, |_| {});
    let [memory_text, ssd_text] = [&memory, &ssd].map(|path| path.to_str().unwrap());
    let [newest] = &within(&ssd.join("pair"), "0000000003-")[..] else { panic!("one") };
    fs::write(newest.join("commit"), "").unwrap();
    let (code, said) = run(&["list", memory_text, ssd_text]);
    assert!(code == Some(1) && said.contains("commit: it is empty") && !said.contains("lost:"), "{said}");
    // Nothing else knows of it.
    fs::remove_dir_all(&memory).unwrap();
    fs::remove_file(newest.join("commit")).unwrap();
    let image = newest.join("rank-00001.image");
    let mut bytes = fs::read(&image).unwrap();
    bytes[5000] ^= 1;
    fs::write(&image, bytes).unwrap();
    let (code, said) = run(&["verify", ssd_text]);
    let counts = "4 copies: 3 whole, 1 unfinished";
    assert!(code == Some(0) && said.contains("it has no mark of rank 0") && said.contains(counts), "{said}");
    let to = home.path().join("out");
    let (code, said) = run(&["restore", ssd_text, "--job", "pair", "--to", to.to_str().unwrap()]);
    assert!(code == Some(0) && said.contains("Refused: generation 3") && said.contains("Generation 2 of"), "{said}");
}

/// A script that restores and goes on must learn that the newest is lost; what it asks for by number is what it gets.
#[test]
fn what_is_not_the_newest_any_more_is_no_success() {
    let home = on_disk();
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
    [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    in_both_tiers(&memory, &ssd, |_| {});
    let (memory_text, ssd_text) = (memory.to_str().unwrap(), ssd.to_str().unwrap());
    let spoil = |path: &Path| {
        let length = fs::metadata(path).unwrap().len() as usize;
        fs::write(path, vec![0x77; length]).unwrap();
    };
    let to = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let restore =
        |name: &str, more: &[&str]| run(&[&["restore", ssd_text, "--job", "pair", "--to", &to(name)], more].concat());
    // The same payload has as many pages in both tiers; those of parity are counted by themselves.
    let (_, said) = run(&["verify", memory_text, ssd_text]);
    let rows = said.lines().filter(|line| line.starts_with("pair ") && line.contains(" 3 "));
    let pages: Vec<Vec<&str>> = rows.map(|line| line.split_whitespace().skip(5).take(2).collect()).collect();
    assert_eq!(pages, [["32", "6"], ["32", "6"], ["32", "0"], ["32", "0"]], "{said}");
    let (code, said) = restore("whole", &[]);
    assert!(code == Some(0) && said.contains("Generation 3 of") && !said.contains("not the newest"), "{said}");
    let [newest] = &within(&ssd.join("pair"), "0000000003-")[..] else { panic!("one") };
    spoil(&newest.join("rank-00001.image"));
    let (code, said) = restore("older", &[]);
    let is_said = said.contains("Lost: generation 3 of") && said.contains("Generation 2 of");
    assert!(code == Some(1) && is_said && said.contains("it is not the newest that the job had"), "{said}");
    let (code, said) = restore("lines", &["--json"]);
    assert!(code == Some(1) && said.contains("{\"type\":\"newer\",\"job\":\"pair\",\"generation\":3,"), "{said}");
    let (code, said) = restore("chosen", &["--generation", "2"]);
    assert!(code == Some(0) && !said.contains("Lost"), "{said}");
    // One of two manifests in memory, and then the newest itself.
    let rank = memory.join("pair/rank-00001");
    let slot = (0..3).map(|slot| rank.join(format!("slot-{slot}.manifest")));
    let slot = slot.max_by_key(|path| Manifest::read(&Disk, path).map_or(0, |read| read.generation.number)).unwrap();
    fs::write(&slot, "garbage").unwrap();
    let (code, said) = run(&["list", memory_text]);
    let line = format!("{}: repairable: one of the two copies of the manifest", slot.display());
    assert!(code == Some(0) && said.contains(&line) && said.contains("checkpoint scrub"), "{said}");
    let (_, said) = run(&["list", memory_text, "--json"]);
    assert!(said.contains("{\"type\":\"repairable\",\"path\":"), "{said}");
    spoil(&slot.with_extension("image"));
    fs::create_dir(to("other")).unwrap();
    let drain = ["drain", "pair", "--memory", memory_text, "--durable", &to("other"), "--allow-memory"];
    let (code, said) = run(&drain);
    assert!(
        code == Some(1) && said.contains("Generation 2 of") && said.contains("cannot be drained and is newer"),
        "{said}"
    );
}

#[test]
fn a_drain_of_one_job_leaves_those_of_near_names_alone() {
    let home = on_disk();
    let [memory, ssd] = ["memory", "ssd"].map(|name| home.path().join(name));
    [&memory, &ssd].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    let names = ["train", "train-2", "train/2", "trai", "a/train"];
    for (at, name) in names.into_iter().enumerate() {
        let mut config = Config::new(name, &memory, None);
        config.policy = Policy::Fixed(Fixed::Memory);
        let mut job = Checkpointer::open(config, Box::new(Alone)).unwrap();
        fs::write(job.route_file("state").unwrap(), vec![7u8; 10_000 * (at + 1)]).unwrap();
        (0..=at).for_each(|_| assert!(job.checkpoint().unwrap().generation.is_some()));
    }
    let others = |base: &Path| ["train-2", "train/2", "trai", "a/train"].map(|name| count(&base.join(name)));
    let before = others(&memory);
    let (memory_text, ssd_text) = (memory.to_str().unwrap(), ssd.to_str().unwrap());
    let (code, said) = run(&["drain", "train", "--memory", memory_text, "--durable", ssd_text]);
    assert!(code == Some(0) && said.contains("Generation 1 of"), "{said}");
    assert_eq!((others(&memory), others(&ssd)), (before, [0; 4]));
    let (_, said) = run(&["list", ssd_text, "--json"]);
    let rows: Vec<&str> = said.lines().filter(|line| line.contains("\"type\":\"generation\"")).collect();
    assert!(
        rows.len() == 1 && rows[0].contains("\"job\":\"train\",") && rows[0].contains("\"payload_bytes\":10000,"),
        "{said}"
    );
    let (code, said) = run(&["drain", "trian", "--memory", memory_text]);
    assert!(code == Some(2) && said.contains("--memory DIR") && said.contains("did you mean 'trai'?"), "{said}");
}

/// What is not there is called that; the number of the kernel's error says nothing.
#[test]
fn a_repair_of_what_is_not_there_says_what_is_missing() {
    let home = tempfile::tempdir().unwrap();
    let there = home.path().join("there");
    fs::write(&there, "bytes").unwrap();
    let (gone, there) = (home.path().join("gone").display().to_string(), there.display().to_string());
    for check in [&[][..], &["--check"]] {
        let (code, said) = run(&[&["repair", &gone], check].concat());
        assert!(code == Some(2) && said.contains("there is no such file") && !said.contains("os error"), "{said}");
        let (code, said) = run(&[&["repair", &there], check].concat());
        assert!(code == Some(2) && said.contains("is not protected") && said.contains("checkpoint protect"), "{said}");
    }
    fs::create_dir_all(home.path().join("job/0000000001-0123456789abcdef")).unwrap();
    fs::write(home.path().join("job/0000000001-0123456789abcdef/rank-00000.image"), "x").unwrap();
    for command in ["list", "verify"] {
        let (_, said) = run(&[command, home.path().to_str().unwrap(), "--json"]);
        assert!(said.contains("0000000001-0123456789abcdef") || said.contains("\"generation\":1"), "{said}");
        assert!(!said.contains("os error"), "{said}");
    }
}
