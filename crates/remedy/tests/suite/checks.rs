//! Checks that misbehave: none of them ends or holds up the runner, and each is told of.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use surefoot_hostfs::Root;
use surefoot_model::{CheckState, HostCheck};
use surefoot_remedy::checks::{Check, CheckFile, Runner};

fn executable(folder: &Path, name: &str, script: &str) -> PathBuf {
    let path = folder.join(name);
    // By a process of its own, as the hooks of these tests are written.
    let text = format!("#!/bin/sh\n{script}\n");
    let write = ["-c", "printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"", "sh", &text];
    assert!(Command::new("sh").args(write).arg(&path).status().unwrap().success());
    path
}

/// Checks of these scripts beside none that is built in. The one that never ends has a time limit of a second; on a busy machine the
/// others may take that long.
fn checks(folder: &Path, scripts: &[(&str, &str)]) -> Vec<Check> {
    let mut text: String = ["read-only", "clock", "bmc-log"]
        .map(|name| format!("[[check]]\nname = \"{name}\"\nenabled = false\n"))
        .concat();
    for (name, script) in scripts {
        let path = executable(folder, name, script);
        let limit = if *name == "never-ends" { "1s" } else { "60s" };
        text += &format!(
            "[[check]]\nname = \"{name}\"\nrun = \"{}\"\nperiod = \"1s\"\ntime_limit = \"{limit}\"\n",
            path.display()
        );
    }
    let file = CheckFile::parse(&text, "checks.toml").unwrap();
    file.rules.iter().filter_map(|rule| Check::of_rule(rule, &Root::host())).collect()
}

fn of<'a>(results: &'a [HostCheck], name: &str) -> &'a HostCheck {
    results.iter().find(|result| result.name == name).unwrap_or_else(|| panic!("no {name} in {results:?}"))
}

/// A directory that hooks and checks are trusted in.
fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir().unwrap()
}

#[test]
fn a_check_that_never_ends_prints_a_gigabyte_or_rubbish_is_unknown_and_holds_up_no_other() {
    let folder = folder();
    let scripts = [
        (
            "well",
            "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo '{\"state\":\"warning\",\"sentence\":\"Fan 3 is slow.\"}'",
        ),
        ("never-ends", "sleep 600 & sleep 600"),
        ("gigabyte", "exec head -c 1000000000 /dev/zero"),
        ("rubbish", "echo ok"),
        ("fails", "echo 'no such fan' >&2; exit 2"),
        ("hostile", "printf '{\"state\":\"critical\",\"sentence\":\"\\\\u001b[2Jred\\\\nline\"}'"),
    ];
    let mut runner = Runner::new(checks(folder.path(), &scripts), 1);
    let begun = Instant::now();
    let results = runner.once();
    assert!(begun.elapsed() < Duration::from_secs(300), "{:?}", begun.elapsed());
    let well = of(&results, "well");
    assert_eq!((well.state, well.sentence.as_str(), well.is_change), (CheckState::Warning, "Fan 3 is slow.", true));
    assert!(well.processor_ns > 1_000_000 && well.took_ns > 1_000_000, "{well:?}");
    for (name, words) in
        [("never-ends", "longer than 1s"), ("gigabyte", ""), ("rubbish", "no JSON"), ("fails", "ended with 2")]
    {
        let result = of(&results, name);
        assert_eq!(result.state, CheckState::Unknown, "{result:?}");
        assert!(result.sentence.contains(words) && result.sentence.len() < 2_000, "{result:?}");
    }
    assert_eq!(of(&results, "fails").evidence, ["no such fan"]);
    assert_eq!(of(&results, "hostile").sentence, "?[2Jred?line");
    assert_eq!(runner.counts().run_count, 6);
}

#[test]
fn what_others_may_write_to_is_not_run() {
    let folder = folder();
    let made = checks(folder.path(), &[("open", "echo '{\"state\":\"ok\"}'")]);
    fs::set_permissions(folder.path().join("open"), fs::Permissions::from_mode(0o777)).unwrap();
    let results = Runner::new(made, 1).once();
    assert_eq!(results[0].state, CheckState::Unknown);
    assert!(results[0].sentence.contains("others may write"), "{}", results[0].sentence);
}

#[test]
fn a_state_that_stays_keeps_its_beginning_and_is_no_news() {
    let folder = folder();
    let script = format!(
        "if [ -e {0} ]; then echo '{{\"state\":\"warning\",\"sentence\":\"It is.\"}}'; else echo '{{\"state\":\"ok\"}}'; fi",
        folder.path().join("mark").display()
    );
    let mut runner = Runner::new(checks(folder.path(), &[("one", &script)]), 1);
    let (first, second) = (runner.once(), runner.once());
    assert!(first[0].is_change && !second[0].is_change);
    assert_eq!(first[0].since_realtime_ns, second[0].since_realtime_ns);
    fs::write(folder.path().join("mark"), "").unwrap();
    let third = runner.once();
    assert!(third[0].is_change && third[0].since_realtime_ns > first[0].since_realtime_ns);
    assert_eq!(third[0].state, CheckState::Warning);
}

#[test]
fn a_check_that_hangs_in_the_kernel_is_told_of_once_and_not_begun_again() {
    let rule = CheckFile::parse("[[check]]\nname = \"clock\"\nperiod = \"1s\"\ntime_limit = \"1s\"\n", "x").unwrap();
    let rule = rule.rules.iter().find(|rule| rule.name == "clock").unwrap().clone();
    let begun = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = std::sync::Arc::clone(&begun);
    let hangs = Check::new(&rule, move |_| {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        std::thread::sleep(Duration::from_secs(3_600));
        surefoot_remedy::checks::Said::default()
    });
    let mut runner = Runner::new(vec![hangs], 1);
    let results = runner.once();
    assert_eq!(results[0].state, CheckState::Unknown);
    assert!(results[0].sentence.contains("still hangs"), "{}", results[0].sentence);
    let until = Instant::now() + Duration::from_secs(60);
    while runner.counts().left_out_count == 0 && Instant::now() < until {
        assert!(runner.turn().is_empty());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!((begun.load(std::sync::atomic::Ordering::Relaxed), runner.counts().hung_count), (1, 1));
    assert!(runner.counts().left_out_count > 0);
}
