use super::order::order;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use surefoot_model::Observed;
use surefoot_remedy::act::{Act, Hands, HandsConfig, HookRule, Order, Outcome, PriorAttempt};

struct Fixture {
    folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        Fixture { folder: tempfile::tempdir().unwrap() }
    }

    fn hook(&self, script: &str) -> PathBuf {
        let path = self.folder.path().join("hook");
        // By a process of its own: a program that this one had open for writing could not be run while a test beside this one starts
        // a process, which has that descriptor for a moment too.
        let text = format!("#!/bin/sh\n{script}\n");
        let write = ["-c", "printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"", "sh", &text];
        assert!(Command::new("sh").args(write).arg(&path).status().unwrap().success());
        path
    }
}

fn of(path: &std::path::Path) -> Order {
    order(&format!("run:{}", path.display()), "n1")
}

fn run_with(rule: HookRule, order: &Order) -> Outcome {
    let surefoot_remedy::Step::Run(path) = &order.step else { panic!("no hook") };
    let config = HandsConfig { hooks: [(path.clone(), rule)].into(), ..HandsConfig::default() };
    Hands::new(config).run(order, &AtomicBool::new(false))
}

fn run(order: &Order) -> Outcome {
    run_with(HookRule::default(), order)
}

fn unseen(words: &str, memo: &str) -> Outcome {
    let why = "the hook ended with 0 and printed no line 'seen: TEXT'".to_owned();
    Outcome::Done { observed: Observed::Unobserved { why }, remark: words.to_owned(), memo: memo.to_owned() }
}

#[test]
fn a_hook_is_told_the_case_and_nothing_of_the_controllers_environment() {
    let place = Fixture::new();
    let out = place.folder.path().join("out");
    let path = place
        .hook(&format!("echo \"$1\" > {0}; env >> {0}; pwd >> {0}; echo repaired; echo 'memo: row 26'", out.display()));
    let mut order = of(&path);
    order.fault = "a$(touch /tmp/never)\nb".to_owned();
    assert_eq!(run(&order), unseen("repaired", "row 26"));
    // What it says that it saw is what counts; without that nothing was seen.
    let path = place.hook("echo 'seen: spare row 3 of 4 is in use'; echo repaired");
    let observed = Observed::Hook { text: "spare row 3 of 4 is in use".to_owned() };
    assert_eq!(run(&of(&path)), Outcome::Done { observed, remark: "repaired".to_owned(), memo: String::new() });
    let path = place.hook("echo 'seen: '; echo repaired");
    assert_eq!(run(&of(&path)), unseen("repaired", ""));
    order.fault = String::new();
    let seen = fs::read_to_string(out).unwrap();
    assert!(seen.starts_with("run\n"), "{seen}");
    for part in [
        "SUREFOOT_CASE=17\n",
        "SUREFOOT_HOST=n1\n",
        "SUREFOOT_TOKEN=17.2.1\n",
        "SUREFOOT_FAULT=a$(touch /tmp/never)\nb\n",
        "\n/\n",
    ] {
        assert!(seen.contains(part), "{part:?} is not in {seen}");
    }
    assert!(!seen.contains("CARGO") && !seen.contains("HOME="), "{seen}");
}

#[test]
fn the_exit_code_says_what_comes_next() {
    let place = Fixture::new();
    let with = |script: &str| run(&of(&place.hook(script)));
    assert!(matches!(with("exit 75"), Outcome::Failed { is_passing: true, .. }));
    assert!(matches!(with("exit 3"), Outcome::GoesOn { .. }));
    match with("echo half done; echo no spare row >&2; exit 1") {
        Outcome::Failed { detail, is_passing: false, .. } => {
            assert!(detail.contains("ended with 1: half done"), "{detail}")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_hook_that_never_ends_or_never_stops_talking_is_ended() {
    let place = Fixture::new();
    let rule = HookRule { time_limit: Duration::from_millis(300), ..HookRule::default() };
    let begun = Instant::now();
    match run_with(rule, &of(&place.hook("sleep 600"))) {
        Outcome::Failed { detail, is_passing: false, .. } => assert!(detail.contains("took longer"), "{detail}"),
        other => panic!("{other:?}"),
    }
    assert!(begun.elapsed() < Duration::from_secs(60));
    match run(&of(&place.hook("head -c 5000000 /dev/zero | tr '\\0' x; echo; echo end"))) {
        Outcome::Done { remark, .. } => assert!(remark.len() < 500, "{}", remark.len()),
        other => panic!("{other:?}"),
    }
}

/// A controller that is stopped in order has killed the hook half way, as one that crashes has.
#[test]
fn a_hook_that_was_stopped_half_way_is_done_again_only_where_its_rule_allows_that() {
    let place = Fixture::new();
    let path = place.hook("case $1 in run) sleep 600;; find) echo row 26 is spare; exit 0;; esac");
    let stopped = |rule: HookRule| {
        let order = of(&path);
        let config = HandsConfig { hooks: [(path.display().to_string(), rule)].into(), ..HandsConfig::default() };
        Hands::new(config).run(&order, &AtomicBool::new(true))
    };
    match stopped(HookRule::default()) {
        Outcome::Failed { detail, is_passing: false, .. } => {
            assert!(detail.contains("its outcome is unknown"), "{detail}")
        }
        other => panic!("{other:?}"),
    }
    let repeatable = HookRule { is_repeatable: true, ..HookRule::default() };
    assert!(matches!(stopped(repeatable), Outcome::Failed { is_passing: true, .. }));
    let finding = HookRule { can_find: true, ..HookRule::default() };
    let seen = stopped(finding);
    assert!(matches!(seen, Outcome::Done { .. }) && seen.words().contains("row 26"), "{seen:?}");
}

#[test]
fn a_hook_that_others_could_change_is_not_run() {
    let place = Fixture::new();
    let path = place.hook("touch \"$0.ran\"");
    let refused = |part: &str| match run(&of(&path)) {
        Outcome::Failed { detail, is_passing: false, .. } => assert!(detail.contains(part), "{part}: {detail}"),
        other => panic!("{part}: {other:?}"),
    };
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    refused("others may write");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    refused("no executable file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(place.folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    refused("others may write");
    fs::set_permissions(place.folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    if surefoot_hostfs::privilege::effective_user() == 0 {
        std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
        refused("belongs to user 65534");
    }
    fs::remove_file(&path).unwrap();
    refused("cannot be found: No such file or directory");
    symlink("/etc/passwd", &path).unwrap();
    refused("no executable file");
    assert!(!path.with_extension("ran").exists());
}

#[test]
fn after_a_crash_only_a_hook_that_can_bear_it_is_run_again() {
    let place = Fixture::new();
    let path = place.hook("[ \"$1\" = find ] || exit 9; echo spare row is set; exit 0");
    let found = |rule: HookRule| {
        let hooks = [(path.display().to_string(), rule)].into();
        Hands::new(HandsConfig { hooks, ..HandsConfig::default() }).find(&of(&path))
    };
    assert!(matches!(found(HookRule::default()), PriorAttempt::Unknown { .. }));
    assert_eq!(found(HookRule { is_repeatable: true, ..HookRule::default() }), PriorAttempt::MayRepeat);
    match found(HookRule { can_find: true, ..HookRule::default() }) {
        PriorAttempt::Effect { observed, .. } => {
            assert_eq!(observed, Observed::Hook { text: "spare row is set".to_owned() })
        }
        other => panic!("{other:?}"),
    }
}

/// The link may lie where others can replace it between the look and the start.
#[test]
fn what_a_link_leads_to_is_run_and_not_the_link() {
    let place = Fixture::new();
    let path = place.hook("echo \"$0\"");
    let link = place.folder.path().join("link");
    symlink(&path, &link).unwrap();
    match run(&of(&link)) {
        Outcome::Done { remark, .. } => assert_eq!(PathBuf::from(remark), path.canonicalize().unwrap()),
        other => panic!("{other:?}"),
    }
}
