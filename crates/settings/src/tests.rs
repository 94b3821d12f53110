//! Files, variables and options, right and wrong.

use crate::*;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn of(text: &str) -> Result<Effective, Error> {
    Effective::of(Some(("s.toml".as_ref(), text)), &[], &[])
}

fn wrong(text: &str) -> String {
    of(text).unwrap_err().to_string()
}

#[test]
fn an_error_names_the_line_the_key_and_what_would_be_right() {
    for (text, said) in [
        (
            "[memory]\n\nintervall = \"5s\"",
            "s.toml:3: memory.intervall: there is no such setting; did you mean 'memory.interval'?",
        ),
        ("[memori]\ninterval = \"5s\"", "s.toml:1: memori: there is no such setting; did you mean 'memory'?"),
        ("interval = \"5s\"", "s.toml:1: interval: there is no such setting; did you mean 'stall.interval'?"),
        (
            "[page]\ncolour = 1",
            "s.toml:2: page.colour: there is no such setting; in [page] there are page.served, page.port",
        ),
        ("[xyzzy]\na = 1", "s.toml:1: xyzzy: there is no such setting; `surefoot config defaults` lists all"),
        (
            "[memory]\ninterval = 5",
            "s.toml:2: memory.interval: it is the number 5, and must be a time in quotes with its unit, such as \"10s\"",
        ),
        ("[memory]\ninterval = \"5\"", "s.toml:2: memory.interval: '5' has no unit"),
        ("[memory]\ninterval = \"1ms\"", "s.toml:2: memory.interval: 1ms is out of range; allowed: 1s to 1h"),
        ("[memory]\ninterval = \"9e9d\"", "is not a unit of time"),
        ("[history]\nsize = 64", "it is the number 64, and must be a size in quotes"),
        ("[history]\nsize = \"64\"", "has no unit"),
        ("[history]\nsize = \"1kB\"", "1kB is out of range; allowed: 1MiB to 1TiB"),
        ("[page]\nport = 65536", "s.toml:2: page.port: 65536 is out of range; allowed: 0 to 65535"),
        ("[page]\nport = -1", "'-1' is not a whole number"),
        ("[page]\nport = \"7077\"", "it is a text, and must be a whole number"),
        ("[page]\nserved = \"yes\"", "it is a text, and must be true or false"),
        ("[stall]\nnotice_share = nan", "'nan' is not a number; allowed: 0 to 1"),
        ("[stall]\nsource = \"ebpff\"", "'ebpff' is none of best, ebpf, plain, counters; did you mean 'ebpf'?"),
        ("[history]\nfile = \"h.db\"", "'h.db' is not an absolute path"),
        ("[checkpoint]\ndirectories = \"/a\"", "it is a text; it must be a list of texts"),
        ("[checkpoint]\ndirectories = [1]", "it must be a list of texts"),
        ("memory = 5", "s.toml:1: memory: it is the number 5, and must be a table: [memory]"),
        ("[memory]\ninterval = \"5s\"\ninterval = \"6s\"", "s.toml:3: "),
        ("[memory]\ninterval = \"5s\"\n[memory]\n", "s.toml:3: "),
        ("[memory\n", "s.toml:1: "),
        (
            "[stall]\nwarning_gap = \"100us\"",
            "s.toml:2: stall.warning_gap: stall.notice_gap = \"1ms\" is above stall.warning_gap = \"100us\"",
        ),
    ] {
        let error = wrong(text);
        assert!(error.contains(said), "{text:?}\n says {error}\n not  {said}");
        assert!(!error.contains('\n'), "{error:?}");
    }
}

#[test]
fn a_byte_order_mark_and_line_ends_of_windows_are_no_error() {
    let held = of("\u{feff}[memory]\r\ninterval = \"5s\"\r\n").unwrap();
    assert_eq!(held.settings.memory.interval.as_secs(), 5);
    assert_eq!(held.origin("memory.interval").to_string(), "s.toml:2");
    assert!(wrong("\u{feff}[memory]\r\n\r\nx = 1\r\n").starts_with("s.toml:3: memory.x"));
}

#[test]
fn options_go_before_the_environment_before_the_file_before_the_default() {
    let file = Some((Path::new("s.toml"), "[page]\nport = 1\n[memory]\ninterval = \"5s\""));
    let environment = [("SUREFOOT_WATCH_PAGE_PORT".to_owned(), "2".to_owned()), ("PATH".to_owned(), "x".to_owned())];
    let option = [Chosen { key: "page.port", option: "port".into(), texts: vec!["3".into()] }];
    let port = |held: Effective| (held.settings.page.port, held.origin("page.port").to_string());
    assert_eq!(port(Effective::default()), (7_077, "default".into()));
    assert_eq!(port(Effective::of(file, &[], &[]).unwrap()), (1, "s.toml:2".into()));
    let variable = "environment variable SUREFOOT_WATCH_PAGE_PORT".to_owned();
    assert_eq!(port(Effective::of(file, &environment, &[]).unwrap()), (2, variable));
    let all = Effective::of(file, &environment, &option).unwrap();
    assert_eq!(all.origin("memory.interval").to_string(), "s.toml:4");
    assert_eq!(port(all), (3, "option --port".into()));
}

#[test]
fn variables_are_checked_as_the_file_is() {
    let said = |name: &str, text: &str| {
        Effective::of(None, &[(name.to_owned(), text.to_owned())], &[]).map(drop).map_err(|error| error.to_string())
    };
    let error = said("SUREFOOT_WATCH_MEMORY_INTERVALL", "5s").unwrap_err();
    assert!(error.contains("did you mean 'SUREFOOT_WATCH_MEMORY_INTERVAL'?"), "{error}");
    let error = said("SUREFOOT_WATCH_MEMORY_INTERVAL", "5").unwrap_err();
    assert!(
        error.starts_with("environment variable SUREFOOT_WATCH_MEMORY_INTERVAL: memory.interval: '5' has no unit"),
        "{error}"
    );
    assert!(said("SUREFOOT_WATCH_PAGE_SERVED", "false").is_ok() && said("SUREFOOT_WATCH_PAGE_SERVED", "no").is_err());
    assert!(said("SUREFOOT_WATCH_CHECKPOINT_DIRECTORIES", "/a:/b").is_ok());
    assert!(said("SUREFOOT_WATCH_CHECKPOINT_DIRECTORIES", "a").is_err());
    assert!(said("SUREFOOT_CHECKPOINT_INTERVAL", "anything").is_ok(), "it is the checkpoint library's");
}

/// Each setting, set by the file to a value that is not the default, has it: a row whose field is another's is found.
#[test]
fn each_setting_can_be_set_by_file_and_variable_and_changes_itself_alone() {
    for setting in SETTINGS {
        let (table, name) = setting.key.split_once('.').unwrap();
        let value = other_value(setting);
        let defaults = Settings::default();
        let file = of(&format!("[{table}]\n{name} = {value}\n")).unwrap();
        let text = value.trim_matches(['[', ']']).trim_matches('"');
        let variable = Effective::of(None, &[(variable_of(setting), text.to_owned())], &[]).unwrap();
        for held in [&file, &variable] {
            let changed: Vec<&str> =
                SETTINGS.iter().filter(|one| !one.is_same(&held.settings, &defaults)).map(|one| one.key).collect();
            assert_eq!(changed, [setting.key]);
        }
        assert_eq!(file.settings, variable.settings);
        assert_eq!(setting.value_in(&file.settings).as_deref(), Some(value.as_str()));
    }
}

/// A value that is allowed and not the default.
fn other_value(setting: &Setting) -> String {
    let default = setting.value_in(&Settings::default());
    let list = matches!((setting.field)(&mut Settings::default()), Field::Paths(_) | Field::Texts(_));
    // Where both bounds are not the default, the one that breaks no order between settings.
    let least =
        ["stall.notice_share", "stall.notice_per_s", "stall.notice_gap", "memory.busy_interval", "history.seconds_for"];
    let least = least.contains(&setting.key) || setting.key.contains("worn_notice");
    let value = match setting.allowed {
        Allowed::Times(low, high) => {
            format!("\"{}\"", surefoot_model::units::time_text(if least { low } else { high }))
        }
        Allowed::Sizes(_, high) => format!("\"{}\"", surefoot_model::units::bytes_text(high)),
        Allowed::Counts(low, high) => (if least { low } else { high }).to_string(),
        Allowed::Numbers(low, high) => format!("{:?}", if least { low } else { high }),
        Allowed::Flags => (default.as_deref() == Some("false")).to_string(),
        Allowed::Words(words) => format!("\"{}\"", words[1]),
        Allowed::Text(example) | Allowed::Path(example) if list => format!("[\"{example}\"]"),
        Allowed::Text(example) | Allowed::Path(example) => format!("\"{example}\""),
    };
    assert_ne!(Some(&value), default.as_ref(), "{}", setting.key);
    value
}

#[test]
fn a_reload_takes_over_what_it_may_all_at_once_and_tells_the_rest() {
    let live = Live::new(of("[page]\nport = 1\n[nic]\ninterval = \"20s\"").unwrap());
    let began = live.now();
    let told = live.reload(of("[page]\nport = 2\n[nic]\ninterval = \"30s\"\nlink_changes = 9"));
    assert_eq!(told.waiting, ["page.port = 2 (s.toml:2)"]);
    assert_eq!(told.changed, ["nic.interval = \"30s\" (s.toml:4)", "nic.link_changes = 9 (s.toml:5)"]);
    let held = live.now();
    assert_eq!(
        (held.settings.page.port, held.settings.nic.interval.as_secs(), held.settings.nic.link_changes),
        (1, 30, 9)
    );
    assert_eq!(held.origin("page.port").to_string(), "s.toml:2");
    assert_eq!(began.settings.nic.interval.as_secs(), 20, "who asked before has what it asked for");
    let told = live.reload(of("[nic]\ninterval = \"40s\"\nlink_changes = -1"));
    assert!(told.problem.as_ref().unwrap().contains("s.toml:3: nic.link_changes"), "{told:?}");
    assert_eq!((&*live.now(), live.last_reload()), (&*held, told), "nothing is half taken over");
    // A file that is written anew is empty for a moment.
    for gone in [of(""), of("# nothing\n"), Effective::of(None, &[], &[])] {
        let told = live.reload(gone);
        assert!(told.problem.as_ref().is_some_and(|why| why.contains("sets nothing any more")), "{told:?}");
        assert_eq!(live.now(), held);
    }
    assert_eq!(live.reload(of("[page]\nport = 1")).waiting, [""; 0]);
    assert_eq!(live.now().settings, {
        let mut wanted = Settings::default();
        wanted.page.port = 1;
        wanted
    });
}

#[test]
fn only_a_file_that_is_a_file_is_read_and_no_longer_than_its_limit() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    assert_eq!(text_of(&at("none")).unwrap(), None);
    fs::write(at("good"), "[page]\nport = 1\n").unwrap();
    assert!(text_of(&at("good")).unwrap().is_some());
    let error = |name: &str| text_of(&at(name)).unwrap_err().to_string();
    fs::create_dir(at("folder")).unwrap();
    assert!(error("folder").contains("director"), "{}", error("folder"));
    std::os::unix::fs::symlink(at("gone"), at("link")).unwrap();
    assert!(error("link").contains("does not exist"), "{}", error("link"));
    let fifo = at("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    assert!(error("fifo").contains("FIFO"), "{}", error("fifo"));
    fs::write(at("long"), "#".repeat(10 << 20)).unwrap();
    assert!(error("long").contains("larger than 1 MiB"), "{}", error("long"));
    fs::write(at("bytes"), b"a = 1\n\xff\n").unwrap();
    assert!(error("bytes").contains("line 2 is not text"), "{}", error("bytes"));
}

#[test]
fn root_takes_no_file_that_another_user_can_change() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("s.toml");
    fs::write(&file, "").unwrap();
    if surefoot_foreign::way::own_user() != 0 {
        return surefoot_testkit::not_run::not_run("settings of root", "only root is strict with its file");
    }
    let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    for (of_home, of_file, said) in [(0o755, 0o666, "can write to"), (0o777, 0o644, "can create files")] {
        mode(home.path(), of_home);
        mode(&file, of_file);
        let error = text_of(&file).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    mode(home.path(), 0o755);
    mode(&file, 0o644);
    assert!(text_of(&file).is_ok());
    std::os::unix::fs::chown(&file, Some(65_534), None).unwrap();
    assert!(text_of(&file).unwrap_err().to_string().contains("belongs to user 65534"));
}
