//! `surefoot checkpoint settings`: what is in force, who said it, and what is wrong by its name.

use std::process::{Command, Output};
use surefoot_checkpoint::config::memory_default;
use surefoot_checkpoint::settings::{Settings, Surroundings};
use surefoot_checkpoint::{Alone, Checkpointer, Config, Place};

fn settings(variables: &[(&str, &str)], words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_surefoot"));
    command.args(["checkpoint", "settings"]).args(words).env_clear();
    command.env("SUREFOOT_CHECKPOINT_SETTINGS", "none").envs(variables.iter().copied()).output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The row of a setting: its value and who said it.
fn row(text: &str, name: &str) -> Vec<String> {
    let found = text.lines().find(|line| line.split_whitespace().next() == Some(name)).unwrap_or_default();
    found.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).skip(1).map(str::to_owned).collect()
}

#[test]
fn each_setting_is_shown_with_who_said_it() {
    let home = on_disk();
    let ssd = home.path().to_str().unwrap();
    let file = home.path().join("checkpoint.conf");
    std::fs::write(&file, "durable.keep = 4\nshared.keep = 5\nmemory.slots = 6\n").unwrap();
    let path = file.to_str().unwrap();
    let variables = [("SUREFOOT_CHECKPOINT_SETTINGS", path), ("SUREFOOT_CHECKPOINT_DURABLE", ssd)];
    let said = text(&settings(&variables, &[]));
    assert_eq!(row(&said, "policy"), ["surefoot", "default"]);
    assert_eq!(row(&said, "durable"), [ssd, "SUREFOOT_CHECKPOINT_DURABLE"]);
    assert_eq!(row(&said, "durable.keep"), ["4", &format!("{path}, line 1")]);
    assert_eq!(row(&said, "shared.keep"), ["5", &format!("{path}, line 2; not in force")]);
    assert!(
        said.contains("\nNot in force: the setting is for a tier or a policy that this job does not have.\n"),
        "{said}"
    );
    assert!(said.contains("\ndurable is on ") && said.contains("\nmemory is on "), "{said}");
    let lines = text(&settings(&variables, &["--json"]));
    let slots = lines.lines().find(|line| line.contains("\"memory.slots\"")).unwrap();
    assert!(slots.contains(r#""type":"setting","job_directory":null"#) && slots.contains("line 3"), "{slots}");
}

/// A folder of the build's: temporary files may lie in memory.
fn on_disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

#[test]
fn what_a_job_would_refuse_is_an_error_here_with_the_same_words() {
    let home = on_disk();
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    let (disk, memory, none) = (path(home.path()), path(memory.path()), path(&home.path().join("none")));
    for (said, words) in [
        (vec![("DURABLE", &disk), ("SHARED", &disk)], "is also the directory of durable"),
        (vec![("MEMORY", &disk), ("DURABLE", &disk)], "is also the directory of memory"),
        (vec![("DURABLE", &memory)], "durable.allow_memory=yes"),
        (vec![("SHARED", &memory)], "shared.allow_memory=yes"),
        (vec![("DURABLE", &none)], "it does not exist; create or mount it"),
        (vec![("MEMORY", &"none".to_owned())], "no checkpoint directory configured"),
        (vec![("PARITY", &"4+1".to_owned()), ("PARTNER", &"yes".to_owned())], "ask for one of the two"),
        (vec![("PARITY", &"17+1".to_owned())], "K 1 to 16 and M 1 to 3"),
    ] {
        let names: Vec<String> = said.iter().map(|(name, _)| format!("SUREFOOT_CHECKPOINT_{name}")).collect();
        let variables: Vec<(&str, &str)> =
            names.iter().zip(&said).map(|(name, (_, value))| (name.as_str(), value.as_str())).collect();
        for flags in [&[][..], &["--json"]] {
            let output = settings(&variables, flags);
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.code() == Some(2) && error.contains(words), "{said:?}: {output:?}");
        }
        let surroundings = Surroundings {
            variables: variables.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            host_file: None,
        };
        let refused = Settings::of(&surroundings, "train", "/dev/shm")
            .and_then(|wished| Checkpointer::open(wished.to_open()?.clone(), Box::new(Alone)).map(drop));
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(words) || refused.contains("create or mount it"), "{said:?}: {refused}");
    }
    let allowed =
        [("SUREFOOT_CHECKPOINT_DURABLE", memory.as_str()), ("SUREFOOT_CHECKPOINT_DURABLE_ALLOW_MEMORY", "yes")];
    let said = text(&settings(&allowed, &[]));
    assert!(said.contains("durable is on tmpfs") && said.contains("are not durable"), "{said}");
}

#[test]
fn a_job_shows_what_its_program_said_when_it_was_opened() {
    let tier = tempfile::tempdir_in("/dev/shm").unwrap();
    let variables = vec![("SUREFOOT_CHECKPOINT_MEMORY_SLOTS".into(), "4".into())];
    let mut wished = Settings::of(&Surroundings { variables, host_file: None }, "train", tier.path()).unwrap();
    wished.set("policy", "memory").unwrap();
    // What a watch of this host has published, or has left behind, is not what this is about.
    wished.set("health_file", "/nowhere/health.json").unwrap();
    let mut job = Checkpointer::open(wished.config().clone(), Box::new(Alone)).unwrap();
    job.publish_settings(wished.told());
    job.restart().unwrap();
    assert_eq!(job.take_notices(), Vec::<String>::new());
    for directory in [tier.path().to_owned(), tier.path().join("train")] {
        let said = text(&settings(&[], &[directory.to_str().unwrap()]));
        assert!(
            said.starts_with(&format!("{}, when it was opened last:\n", tier.path().join("train").display())),
            "{said}"
        );
        assert_eq!(row(&said, "policy"), ["memory", "the program"]);
        assert_eq!(row(&said, "memory.slots"), ["4", "SUREFOOT_CHECKPOINT_MEMORY_SLOTS"]);
    }
    let empty = tempfile::tempdir().unwrap();
    let output = settings(&[], &[empty.path().to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && output.stdout.is_empty() && said.contains("there is no checkpoint"), "{said}");
}

/// A job leaves its settings in each tier; earlier releases left them in the memory tier alone.
#[test]
fn the_directory_on_the_ssd_leads_to_the_settings_of_its_job() {
    let ssd = on_disk();
    let job = format!("of-the-ssd-{}", std::process::id());
    let apart = tempfile::tempdir_in("/dev/shm").unwrap();
    let open = |memory: &str| {
        let mut wished = Settings::of(&Surroundings::default(), &job, memory_default()).unwrap();
        for (name, value) in [("memory", memory), ("durable", ssd.path().to_str().unwrap()), ("drive_file", "none")] {
            wished.set(name, value).unwrap();
        }
        let mut opened = Checkpointer::open(wished.to_open().unwrap().clone(), Box::new(Alone)).unwrap();
        opened.publish_settings(wished.told());
        opened.checkpoint_to(Place::Durable).unwrap();
        opened
    };
    let here = ssd.path().join(&job);
    let shown = |found: &std::path::Path| {
        let said = text(&settings(&[], &[ssd.path().to_str().unwrap()]));
        assert!(said.starts_with(&format!("{}, when it was opened last:\n", found.display())), "{said}");
        assert_eq!(row(&said, "durable")[1..], ["the program"]);
        assert_eq!(said.matches("when it was opened last").count(), 1, "{said}");
    };
    let mut opened = open(memory_default().to_str().unwrap());
    shown(&here);
    std::fs::remove_file(here.join("settings.json")).unwrap();
    shown(&memory_default().join(&job));
    opened.discard().unwrap();
    drop(opened);
    let opened = open(apart.path().to_str().unwrap());
    shown(&here);
    std::fs::remove_file(here.join("settings.json")).unwrap();
    let output = settings(&[], &[ssd.path().to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr);
    let words = [&*format!("checkpoints of job {job:?}"), "no settings beside them", "in the first tier alone"];
    assert!(!output.status.success() && words.iter().all(|word| said.contains(word)), "{said}");
    drop(opened);
}

/// The same name in two directories is two jobs, and each row says whose and where.
#[test]
fn jobs_of_one_name_are_told_apart_in_the_list() {
    let tiers = [(); 2].map(|()| tempfile::tempdir_in("/dev/shm").unwrap());
    for tier in &tiers {
        let config = Config { drive_file: None, ..Config::new("train", tier.path(), None) };
        Checkpointer::open(config, Box::new(Alone)).unwrap().checkpoint().unwrap();
    }
    let list = |directories: &[&std::path::Path]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_surefoot")).args(["checkpoint", "list"]).args(directories).output();
        text(&output.unwrap())
    };
    let one = list(&[tiers[0].path()]);
    assert!(!one.contains("directory"), "{one}");
    let both = list(&[tiers[0].path(), tiers[1].path()]);
    assert!(
        both.lines().next().is_some_and(|header| header.contains("user") && header.contains("directory")),
        "{both}"
    );
    for tier in &tiers {
        let place = tier.path().join("train").display().to_string();
        assert_eq!(both.lines().filter(|line| line.starts_with("train") && line.contains(&place)).count(), 1, "{both}");
    }
}

#[test]
fn a_wrong_variable_is_named() {
    let output = settings(&[("SUREFOOT_CHECKPOINT_DURABEL", "/ssd")], &[]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2), "{said}");
    assert!(said.contains("SUREFOOT_CHECKPOINT_DURABEL: there is no such setting"), "{said}");
}

/// Who starts a set-user-id program chooses its environment, and has not its rights.
#[test]
fn a_set_user_id_program_takes_no_setting_from_its_environment() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    use std::os::unix::process::CommandExt;
    const TEST: &str = "a_set_user_id_program_takes_no_setting_from_its_environment";
    const OWNER: u32 = 54_322;
    const STARTER: u32 = 54_323;
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        return surefoot_testkit::not_run::not_run(TEST, "only root can be two other users");
    }
    let home = tempfile::tempdir().unwrap();
    std::fs::set_permissions(home.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let program = home.path().join("surefoot");
    std::fs::copy(env!("CARGO_BIN_EXE_surefoot"), &program).unwrap();
    chown(&program, Some(OWNER), Some(OWNER)).unwrap();
    let run = |mode: u32| {
        std::fs::set_permissions(&program, PermissionsExt::from_mode(mode)).unwrap();
        let mut command = Command::new(&program);
        command.args(["checkpoint", "settings"]).env("SUREFOOT_CHECKPOINT_DURABLE", "/chosen/by/another");
        let output = command.uid(STARTER).gid(STARTER).output().unwrap();
        // The directory that was chosen is none, which is an error.
        assert_eq!(output.status.code(), Some(if mode == 0o755 { 2 } else { 0 }), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(run(0o755).contains("/chosen/by/another"));
    let said = run(0o4755);
    // Where set-user-id bits do not count, nothing is shown: the default is then the starter's directory.
    if said.contains(&format!("surefoot-{STARTER}")) {
        return surefoot_testkit::not_run::not_run(TEST, "set-user-id bits do not count where temporary files are");
    }
    assert!(said.contains(&format!("surefoot-{OWNER}")) && !said.contains("/chosen/by/another"), "{said}");
}
