//! `checkpoint drain`, `remove` and `list` on a job that runs, that is dead, and that is gone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use surefoot_checkpoint::controller::Fixed;
use surefoot_checkpoint::group::thread_group;
use surefoot_checkpoint::settings::{Settings, Surroundings};
use surefoot_checkpoint::{Alone, Checkpointer, Config, Group, Policy};

fn run(words: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_surefoot")).arg("checkpoint").args(words).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap())
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
    drop(Checkpointer::open(config, Box::new(Alone)).unwrap());
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
    drop(Checkpointer::open(Config::new("old", home.path(), None), Box::new(Alone)).unwrap());
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
    drop(Checkpointer::open(Config::new("plain", home.path(), None), Box::new(Alone)).unwrap());
    let hostile = "x\nroot: removed, 9 GB given back\n\u{1b}[2J";
    fs::rename(home.path().join("plain"), home.path().join(hostile)).unwrap();
    drop(Checkpointer::open(Config::new("good", home.path(), None), Box::new(Alone)).unwrap());
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
        said.contains("copy stays young") && said.contains("--memory-mtbf-s, --durable-mtbf-s, --staleness-max-s"),
        "{said}"
    );
    let told = ["plan", "--size", "8GB", "--memory-mtbf-s", "9", "--durable-mtbf-s", "99", "--staleness-max-s", "none"];
    let (code, said) = run(&told);
    assert!(code == Some(0) && !said.contains("assumed") && !said.contains("copy stays young"), "{said}");
    let (_, said) = run(&["plan", "--size", "8GB", "--json", "--memory-mtbf-s", "9"]);
    assert!(said.contains("\"assumed\":[\"durable_mtbf_s\",\"staleness_max_s\"]"), "{said}");
}
