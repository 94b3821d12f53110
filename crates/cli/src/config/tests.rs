#![allow(clippy::unwrap_used)]

use super::*;
use std::collections::BTreeSet;
use surefoot_settings::Settings;

fn watch(words: &[&str]) -> WatchOptions {
    usage::options_of_watch(&words.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap()
}

fn held(text: &str, options: &WatchOptions) -> Effective {
    Effective::of(Some(("s.toml".as_ref(), text)), &[], &options.given).unwrap()
}

/// Every setting with an option reaches the options of the watch from the file, and does not where the option is given.
#[test]
fn what_is_set_reaches_the_watch_unless_an_option_says_otherwise() {
    let text = "[stall]\ninterval = \"2s\"\nmin_gap = \"1ms\"\nsource = \"plain\"\ncores = \"0-1\"\nworkload = \"none\"\nwho = \"1\"\n\
        sentinel = \"0:20\"\n[memory]\nbmc_timeout = \"7s\"\nredfish = \"https://bmc\"\n[checkpoint]\ndirectories = [\"/c\"]\n\
        [disturb]\njournals = [\"/j\"]\n[remedy]\nchecks = \"/k\"\n[watch]\nrun_directory = \"/r\"\nhealth_users = [\"7\"]\n\
        [history]\nfile = \"/h\"\n[page]\nport = 9\ngroup = \"g\"\n[listen]\naddresses = [\"unix:/s\"]\n\
        certificate = \"/c.pem\"\nkey = \"/k.pem\"\nclient_authority = \"/a.pem\"\nroles = \"/roles\"\n[metrics]\ndetail = \"core\"\n\
        series = 400\nedac = true\n";
    let facts = |of: &WatchOptions| {
        let what = &of.what;
        vec![
            format!("{:?}", of.interval),
            what.min_gap.to_string(),
            format!("{:?}", what.source),
            format!("{:?}", what.cpu),
            format!("{:?}", what.workload),
            format!("{:?}", what.who),
            format!("{:?}", what.sentinel),
            format!("{:?}", what.rooms.checkpoints),
            format!("{:?}", what.rooms.experiments),
            format!("{:?}", what.rooms.checks),
            format!("{:?}", of.run_directory),
            format!("{:?}", of.health_users),
            format!("{:?}", of.history),
            of.port.to_string(),
            format!("{:?}", of.page_group),
            format!("{:?}", of.listen.listen),
            format!("{:?}", of.listen.tls_certificate),
            format!("{:?}", of.listen.tls_key),
            format!("{:?}", of.listen.tls_client_authority),
            format!("{:?}", of.listen.roles),
            of.metrics_detail.as_str().to_owned(),
            format!("{:?}", of.metrics_series),
            of.metrics_edac.to_string(),
        ]
    };
    let plain = watch(&[]);
    let set = applied(&plain, &held(text, &plain)).unwrap();
    let (before, after) = (facts(&plain), facts(&set));
    for (before, after) in before.iter().zip(&after) {
        assert_ne!(before, after, "{before} was not set");
    }
    let words = "--interval 3s --min-gap 2ms --source counters --cpu 2 --workload cores --who 2 --sentinel 1 --checkpoints /x --experiments /y \
        --checks /z --run-directory /v --health-users 9 --history /w --port 8 --page-group u --listen unix:/t \
        --tls-certificate /d.pem --tls-key /l.pem --tls-client-authority /b.pem --roles /r2 --metrics-detail cause --metrics-series 500 \
        --metrics-edac";
    let typed = watch(&words.split_whitespace().collect::<Vec<_>>());
    assert_eq!(facts(&applied(&typed, &held(text, &typed)).unwrap()), facts(&typed));
    let nothing = applied(&plain, &held("", &plain)).unwrap();
    assert_eq!(facts(&nothing), before);
}

#[test]
fn switches_are_set_by_the_file_and_by_options_that_imply_them() {
    let off = "[history]\nkept = false\n[page]\nserved = false\n";
    let plain = watch(&[]);
    let set = applied(&plain, &held(off, &plain)).unwrap();
    assert!(set.no_history && set.no_page);
    let typed = watch(&["--history", "/h", "--port", "0"]);
    let set = applied(&typed, &held(off, &typed)).unwrap();
    assert!(!set.no_history && !set.no_page);
    let typed = watch(&["--no-history", "--no-page"]);
    let of = held("", &typed);
    assert_eq!(of.origin("page.served").to_string(), "option --no-page");
    let set = applied(&typed, &of).unwrap();
    assert!(set.no_history && set.no_page);
}

/// A row that names an option that there is not would never be set by it.
#[test]
fn every_option_that_a_setting_names_exists() {
    let command = <args::Arguments as clap::CommandFactory>::command();
    let command = command.find_subcommand("watch").unwrap();
    let options: BTreeSet<&str> = command.get_arguments().filter_map(|one| one.get_long()).collect();
    for setting in SETTINGS.iter().filter(|setting| !setting.option.is_empty()) {
        assert!(options.contains(setting.option), "--{}", setting.option);
    }
    // What else there is: about one run, and no setting.
    let of_settings: BTreeSet<&str> = SETTINGS.iter().map(|one| one.option).collect();
    let others: Vec<&str> = options.difference(&of_settings).copied().collect();
    let expected = [
        "comm",
        "config",
        "disturb-prediction",
        "duration",
        "host-root",
        "json",
        "nic-campaign",
        "nic-experiment",
        "pid",
        "replay",
    ];
    assert_eq!(others, expected);
}

#[test]
fn a_text_that_its_user_cannot_read_is_wrong_where_it_stands() {
    for (text, said) in [
        ("[stall]\ncores = \"x\"", "s.toml:2: stall.cores: "),
        ("[stall]\nwho = \"\\u0007\"", "s.toml:2: stall.who: "),
        ("[stall]\nsentinel = \"0:300\"", "s.toml:2: stall.sentinel: '300' is not a percentage"),
        ("[watch]\nhealth_users = [\"root\"]", "s.toml:2: watch.health_users: 'root' is not a UID"),
        ("[listen]\naddresses = [\"host\"]", "s.toml:2: listen.addresses: 'host' is no address"),
        ("[metrics]\nseries = 7", "s.toml:2: metrics.series: 7 is under 250"),
    ] {
        let held = Effective::of(Some(("s.toml".as_ref(), text)), &[], &[]);
        let error = held.and_then(|held| Texts::of(&held).map(drop)).unwrap_err().to_string();
        assert!(error.starts_with(said), "{error}");
    }
}

/// `config check` finds what would keep a watch from listening, without listening.
#[test]
fn a_place_where_a_watch_would_not_listen_is_wrong_where_it_stands() {
    for (text, said) in [
        ("addresses = [\"0.0.0.0:0\"]", "s.toml:2: listen.addresses: --listen 0.0.0.0:0: only TLS is spoken"),
        (
            "addresses = [\"unix:/no/such/s\"]",
            "s.toml:2: listen.addresses: --listen unix:/no/such/s: /no/such is no directory",
        ),
        (
            "addresses = [\"127.0.0.1:0\"]\nroles = \"/no/such\"",
            "s.toml:2: listen.addresses, s.toml:3: listen.roles: /no/such: No such file or directory",
        ),
    ] {
        let plain = watch(&[]);
        let options = applied(&plain, &held(&format!("[listen]\n{text}\n"), &plain)).unwrap();
        let error = crate::watch::expect_possible(&options, &Root::host()).unwrap_err();
        assert!(format!("{error:#}").starts_with(said), "{error:#}");
    }
}

#[test]
fn a_file_that_is_named_must_be_there_and_the_default_one_need_not() {
    let question = Question::new(Some("/none/s.toml".as_ref()), true, Vec::new());
    assert_eq!(question.ask().unwrap_err().to_string(), "/none/s.toml: there is no such file");
    let question = Question { is_named: false, environment: Vec::new(), ..question };
    assert_eq!(question.ask().unwrap().settings, Settings::default());
}

/// A watch would find these only at its first push, long after it was started.
#[test]
fn alerts_that_could_not_be_sent_are_wrong_before_the_watch_starts() {
    let folder = tempfile::tempdir().unwrap();
    let token = |name: &str, mode: u32| {
        let file = folder.path().join(name);
        std::fs::write(&file, "0123456789abcdef\n").unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        file.display().to_string()
    };
    let (own, open, gone) =
        (token("own", 0o600), token("open", 0o644), folder.path().join("gone").display().to_string());
    let checked = |alerts: &str| {
        let file = folder.path().join("s.toml");
        std::fs::write(&file, format!("[alerts]\n{alerts}\n")).unwrap();
        check(&CheckOptions { file: Some(file) }).map_err(|error| format!("{error:#}"))
    };
    for (url, token, line, why) in [
        ("http://192.0.2.2:19194", &own, 2, "in clear text over the network; use https"),
        ("https://a/api/v2/alerts", &own, 2, "leave /api/v2/alerts out"),
        ("https://user:word@a", &own, 2, "contains a user name"),
        ("127.0.0.1:9093", &own, 2, "begins with http:// or https://"),
        ("https://a", &open, 3, "change its mode to 600"),
        ("https://a", &gone, 3, "No such file"),
    ] {
        let error = checked(&format!("url = \"{url}\"\ntoken_file = \"{token}\"")).unwrap_err();
        assert!(error.contains(&format!("s.toml:{line}: alerts.")) && error.contains(why), "{url} {token}: {error}");
    }
    for url in ["http://127.0.0.1:9093", "https://a:9093/prefix"] {
        checked(&format!("url = \"{url}\"\ntoken_file = \"{own}\"")).unwrap();
    }
    checked("url = \"http://192.0.2.2:9093\"").unwrap();
}
