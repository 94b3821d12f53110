#![allow(clippy::unwrap_used)]
use super::*;
use crate::controller::Fixed;
use std::fs;

fn around(variables: &[(&str, &str)], file: Option<&Path>) -> Surroundings {
    let variables = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
    Surroundings { variables, host_file: file.map(Path::to_owned) }
}

fn of(surroundings: &Surroundings) -> Result<Settings, Error> {
    Settings::of(surroundings, "job", "/dev/shm")
}

fn source(settings: &Settings, name: &str) -> (String, String, bool) {
    let told = settings.told().into_iter().find(|told| told.name == name).unwrap();
    (told.value, told.source, told.is_in_force)
}

#[test]
fn the_program_is_stronger_than_a_variable_that_than_the_file_and_that_than_the_default() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("checkpoint.conf");
    let text = "# this site\n\n durable = /ssd \ndurable.keep=3\nmemory.slots = 5\nstaleness_max_s = 60\n";
    fs::write(&path, text).unwrap();
    let variables =
        [("SUREFOOT_CHECKPOINT_DURABLE_KEEP", "4"), ("SUREFOOT_CHECKPOINT_MEMORY_SLOTS", "6"), ("HOME", "/")];
    let mut settings = of(&around(&variables, Some(&path))).unwrap();
    settings.set("memory.slots", "7").unwrap();
    let file = |line: u32| format!("{}, line {line}", path.display());
    assert_eq!(source(&settings, "memory.slots"), ("7".into(), "the program".into(), true));
    assert_eq!(source(&settings, "durable.keep"), ("4".into(), "SUREFOOT_CHECKPOINT_DURABLE_KEEP".into(), true));
    assert_eq!(source(&settings, "durable"), ("/ssd".into(), file(3), true));
    assert_eq!(source(&settings, "staleness_max_s"), ("60".into(), file(6), true));
    assert_eq!(source(&settings, "durable_mtbf_s"), ("604800".into(), "default".into(), true));
    let config = settings.config();
    let durable = config.durable.as_ref().unwrap();
    assert_eq!((config.memory.as_ref().unwrap().slots, durable.options.keep), (7, 4));
    assert!(matches!(config.policy, Policy::Surefoot(surefoot) if surefoot.staleness_max_s == 60.0));
}

#[test]
fn the_order_in_which_a_program_speaks_does_not_matter_and_a_refusal_changes_nothing() {
    let mut settings = of(&Surroundings::default()).unwrap();
    settings.set("staleness_max_s", "60").unwrap();
    settings.set("policy", "surefoot").unwrap();
    // Without a durable tier nothing of it would be in force.
    settings.set("durable", "/ssd").unwrap();
    assert!(matches!(settings.config().policy, Policy::Surefoot(surefoot) if surefoot.staleness_max_s == 60.0));
    for (name, value) in [("policy", "memory"), ("colour", "red"), ("memory.slots", "1"), ("durable.keep", "0")] {
        let before = format!("{settings:?}");
        assert!(settings.set(name, value).is_err(), "{name}");
        assert_eq!(format!("{settings:?}"), before, "{name}");
    }
    assert!(
        settings.set("colour", "red").unwrap_err().to_string().contains("there is no setting \"colour\"; `surefoot")
    );
}

#[test]
fn what_belongs_to_a_tier_may_be_said_before_it_and_is_refused_when_the_tier_never_comes() {
    let mut settings = of(&Surroundings::default()).unwrap();
    settings.set("durable.keep", "3").unwrap();
    settings.set("endurance.rated_bytes", "600e12").unwrap();
    assert_eq!(source(&settings, "durable.keep"), ("3".into(), "the program".into(), false));
    let refused = settings.to_open().unwrap_err().to_string();
    assert!(refused.starts_with("durable.keep: no durable tier is set: set `durable` to a directory"), "{refused}");
    settings.set("durable", "/ssd").unwrap();
    assert_eq!(source(&settings, "durable.keep"), ("3".into(), "the program".into(), true));
    let durable = settings.to_open().unwrap().durable.clone().unwrap();
    assert_eq!((durable.options.keep, durable.endurance.rated_bytes), (3, Some(600e12)));
    settings.set("durable", "none").unwrap();
    assert!(settings.to_open().is_err());
}

#[test]
fn what_belongs_to_a_tier_that_the_job_does_not_have_is_kept_and_changes_nothing() {
    let variables = [("SUREFOOT_CHECKPOINT_SHARED_KEEP", "3"), ("SUREFOOT_CHECKPOINT_STALENESS_MAX_S", "60")];
    let mut settings = of(&around(&variables, None)).unwrap();
    settings.set("policy", "every:2").unwrap();
    assert_eq!(source(&settings, "shared.keep"), ("3".into(), "SUREFOOT_CHECKPOINT_SHARED_KEEP".into(), false));
    assert!(!source(&settings, "staleness_max_s").2);
    assert_eq!(settings.config().policy, Policy::Fixed(Fixed::EveryNth(2)));
    settings.set("shared", "/pfs").unwrap();
    assert_eq!(settings.config().shared.as_ref().unwrap().options.keep, 3);
}

#[test]
fn what_is_wrong_is_named_with_its_variable() {
    for (name, value, said) in [
        ("SUREFOOT_CHECKPOINT_COLOUR", "red", "SUREFOOT_CHECKPOINT_COLOUR: there is no such setting; `surefoot"),
        ("SUREFOOT_CHECKPOINT_DURABLE_KEEP", "none", "SUREFOOT_CHECKPOINT_DURABLE_KEEP: durable.keep: \"none\" is not"),
        ("SUREFOOT_DURABLE_KEEP", "3", "the variable of durable.keep is SUREFOOT_CHECKPOINT_DURABLE_KEEP"),
        ("SUREFOOT_CHECKPOINT_SETTINGS", "here", "SUREFOOT_CHECKPOINT_SETTINGS: \"here\" is neither"),
        ("SUREFOOT_CHECKPOINT_SETTINGS", "/not/there", "/not/there: cannot read it"),
        ("SUREFOOT_CHECKPOINT_SETTINGS", "/dev/null", "/dev/null: a file of settings is a regular file"),
    ] {
        let error = of(&around(&[(name, value)], None)).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    for other in ["SUREFOOT_LIBRARY", "SUREFOOT_LOOP_DIR", "SUREFOOTED", "DURABLE"] {
        of(&around(&[(other, "anything")], None)).unwrap();
    }
}

#[test]
fn what_is_wrong_is_named_with_its_file_and_line() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("checkpoint.conf");
    for (text, said) in [
        ("policy = memory\nnonsense\n", ", line 2: this is no setting; a line is: name = value"),
        ("durabel = /ssd\n", ", line 1: setting: there is no setting \"durabel\"; the nearest is durable; "),
        ("\ncolour = red\n", ", line 2: setting: there is no setting \"colour\"; `surefoot checkpoint settings` shows"),
        ("memory.slots = 1\n", ", line 1: memory.slots: \"1\" is not valid: "),
        (
            "durable = rel/x\n",
            ", line 1: durable: \"rel/x\" is not valid: the path must be absolute, such as /ckpt/a (",
        ),
        ("partner = no\npartner = yes\n", ", line 2: partner was said before, in "),
        ("parity\u{0} = 4+1\n", ", line 1: setting: there is no setting \"parity\\0\""),
    ] {
        fs::write(&path, text).unwrap();
        let error = of(&around(&[], Some(&path))).unwrap_err().to_string();
        assert!(error.starts_with(path.to_str().unwrap()) && error.contains(said), "{error}");
    }
    // What may be another user's secret is not repeated.
    fs::write(&path, "root:secret:1\n").unwrap();
    assert!(!of(&around(&[], Some(&path))).unwrap_err().to_string().contains("secret"));
    // A file that leads nowhere now is not the same as none.
    let link = home.path().join("link.conf");
    std::os::unix::fs::symlink(home.path().join("unmounted"), &link).unwrap();
    let usual = |path: &Path| Surroundings { variables: Vec::new(), host_file: Some(path.to_owned()) };
    assert!(of(&usual(&link)).is_err());
    of(&usual(&home.path().join("nothing"))).unwrap();
    for (bytes, said) in [(vec![0xff], "no UTF-8"), (vec![b'#'; 70_000], "more than 65536 bytes")] {
        fs::write(&path, bytes).unwrap();
        let error = of(&around(&[], Some(&path))).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
        of(&around(&[(FILE_VARIABLE, "none")], Some(&path))).unwrap();
    }
    of(&around(&[], Some(&home.path().join("absent")))).unwrap();
}

#[test]
fn each_setting_has_a_variable_of_its_own_and_a_default_that_can_be_said_again() {
    let mut names: Vec<String> = SETTINGS.iter().map(|(name, _)| variable_of(name)).collect();
    names.push(FILE_VARIABLE.to_owned());
    names.sort();
    let count = names.len();
    names.dedup();
    assert_eq!((count, names.len()), (SETTINGS.len() + 1, count));
    let mut settings = of(&Surroundings::default()).unwrap();
    for (name, value) in [("durable", "/ssd"), ("shared", "/pfs")] {
        settings.set(name, value).unwrap();
    }
    let told = settings.told();
    assert_eq!(told.len(), SETTINGS.len());
    let expected = format!("{:?}", settings.config());
    for told in told.iter().filter(|told| !["no limit", "as the drive says"].contains(&told.value.as_str())) {
        settings.set(&told.name, &told.value).unwrap();
    }
    assert_eq!(format!("{:?}", settings.config()), expected);
}

#[test]
fn what_a_job_was_opened_with_is_read_back_and_what_is_no_such_file_is_refused() {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(read_published(home.path()).unwrap(), None);
    let told = of(&Surroundings::default()).unwrap().told();
    publish(home.path(), &told).unwrap();
    publish(home.path(), &told).unwrap();
    assert_eq!(read_published(home.path()).unwrap(), Some(told));
    let path = home.path().join(PUBLISHED_NAME);
    for text in ["", "[]", "{\"version\":2,\"settings\":[]}"] {
        fs::write(&path, text).unwrap();
        assert!(read_published(home.path()).is_err(), "{text}");
    }
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
    assert!(read_published(home.path()).is_err());
}

#[test]
fn what_only_a_durable_tier_can_keep_is_refused_without_one_and_changes_nothing_where_a_host_says_it() {
    for (name, value) in [("staleness_max_s", "600"), ("priority", "endurance")] {
        let mut settings = of(&Surroundings::default()).unwrap();
        settings.set(name, value).unwrap();
        let error = settings.to_open().unwrap_err().to_string();
        assert!(error.starts_with(name) && error.contains("none is configured: set durable or shared"), "{error}");
        for tier in ["durable", "shared"] {
            let mut settings = settings.clone();
            settings.set(tier, "/ssd").unwrap();
            let told = settings.told().into_iter().find(|told| told.name == name).unwrap();
            assert!(settings.to_open().is_ok() && told.value == value && told.is_in_force, "{told:?}");
        }
        let variable = variable_of(name);
        let of_host = of(&around(&[(variable.as_str(), value)], None)).unwrap();
        let told = of_host.told().into_iter().find(|told| told.name == name).unwrap();
        assert!(of_host.to_open().is_ok() && !told.is_in_force, "{told:?}");
    }
}
