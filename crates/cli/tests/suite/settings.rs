//! `surefoot checkpoint settings`: what is in force, who said it, and what is wrong by its name.

use std::process::{Command, Output};
use surefoot_checkpoint::settings::{Settings, Surroundings};
use surefoot_checkpoint::{Alone, Checkpointer};

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
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("checkpoint.conf");
    std::fs::write(&file, "durable.keep = 4\nshared.keep = 5\nmemory.slots = 6\n").unwrap();
    let path = file.to_str().unwrap();
    let variables = [("SUREFOOT_CHECKPOINT_SETTINGS", path), ("SUREFOOT_CHECKPOINT_DURABLE", "/ssd")];
    let said = text(&settings(&variables, &[]));
    assert_eq!(row(&said, "policy"), ["surefoot", "default"]);
    assert_eq!(row(&said, "durable"), ["/ssd", "SUREFOOT_CHECKPOINT_DURABLE"]);
    assert_eq!(row(&said, "durable.keep"), ["4", &format!("{path}, line 1")]);
    assert_eq!(row(&said, "shared.keep"), ["5", &format!("{path}, line 2; not in force")]);
    assert!(said.ends_with("Not in force: it belongs to a tier or a policy that this job does not have.\n"), "{said}");
    let lines = text(&settings(&variables, &["--json"]));
    let slots = lines.lines().find(|line| line.contains("\"memory.slots\"")).unwrap();
    assert!(slots.contains(r#""type":"setting","job_directory":null"#) && slots.contains("line 3"), "{slots}");
}

#[test]
fn a_job_shows_what_its_program_said_when_it_was_opened() {
    let tier = tempfile::tempdir().unwrap();
    let variables = vec![("SUREFOOT_CHECKPOINT_MEMORY_SLOTS".into(), "4".into())];
    let mut wished = Settings::of(&Surroundings { variables, host_file: None }, "train", tier.path()).unwrap();
    wished.set("policy", "every:7").unwrap();
    let mut job = Checkpointer::open(wished.config().clone(), Box::new(Alone)).unwrap();
    job.publish_settings(wished.told());
    assert_eq!(job.take_notices(), Vec::<String>::new());
    for directory in [tier.path().to_owned(), tier.path().join("train")] {
        let said = text(&settings(&[], &[directory.to_str().unwrap()]));
        assert!(
            said.starts_with(&format!("{}, when it was opened last:\n", tier.path().join("train").display())),
            "{said}"
        );
        assert_eq!(row(&said, "policy"), ["every:7", "the program"]);
        assert_eq!(row(&said, "memory.slots"), ["4", "SUREFOOT_CHECKPOINT_MEMORY_SLOTS"]);
    }
    let empty = tempfile::tempdir().unwrap();
    let output = settings(&[], &[empty.path().to_str().unwrap()]);
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
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
        assert!(output.status.success(), "{output:?}");
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
