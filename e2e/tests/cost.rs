//! What Surefoot itself costs, and what it leaves behind.

use std::collections::BTreeSet;
use std::time::Duration;
use surefoot_e2e::actor;
use surefoot_e2e::command::{Inherited, PATIENCE, surefoot};
use surefoot_e2e::machine::{Need, turn};
use surefoot_e2e::watched::{Watch, watch};

/// What a watch may have resident apart from its code. The goal of 50 MiB is for a release build with its code, which has 29.
const OWN_MAX: u64 = 20 << 20;

/// The same with the code of a debug build, which is what is tested here: how much of its 83 MiB the kernel maps at a fault depends on
/// what the page cache holds.
pub const RESIDENT_MAX: u64 = OWN_MAX + (83 << 20);

/// The eBPF programs that a process holds, by their numbers in the kernel.
fn programs_of(pid: u32) -> BTreeSet<u32> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap().flatten();
    let texts = entries.filter_map(|entry| std::fs::read_to_string(entry.path()).ok());
    let number = |text: String| {
        let line = text.lines().find_map(|line| line.strip_prefix("prog_id:").map(str::to_owned));
        line.and_then(|number| number.trim().parse().ok())
    };
    texts.filter_map(number).collect()
}

/// What a process has resident, bytes: what it maps of its own program, and all else.
fn resident(pid: u32) -> (u64, u64) {
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap();
    let maps = std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    let (mut code, mut own, mut is_code) = (0, 0, false);
    for line in maps.lines() {
        let Some(kilobytes) = line.strip_prefix("Rss:") else {
            // The head of a mapping begins with its addresses, each line of it with a name and a colon.
            if !line.split_whitespace().next().unwrap().ends_with(':') {
                is_code = line.ends_with(program.to_str().unwrap());
            }
            continue;
        };
        let bytes = kilobytes.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10;
        *if is_code { &mut code } else { &mut own } += bytes;
    }
    (code, own)
}

/// Those of these programs that the kernel still has.
fn still_loaded(programs: &BTreeSet<u32>) -> usize {
    let words: Vec<String> = programs.iter().map(u32::to_string).collect();
    actor::run("asker", &format!("loaded {}", words.join(" ")))["loaded"].as_array().unwrap().len()
}

#[test]
fn a_signal_ends_the_watch_and_nothing_stays_behind() {
    let Some(_turn) = turn("a_signal_ends_the_watch_and_nothing_stays_behind", Need::Ebpf) else { return };
    actor::prepare();
    let page = "--port 0 --no-history";
    for (signal, options) in [("INT", "--no-page"), ("TERM", page)] {
        let run_directory = tempfile::tempdir().unwrap();
        let running = surefoot("watch --json").words(options).arg("--run-directory").arg(run_directory.path());
        let running = running.with_signal(signal, Inherited::Ends);
        let mut watch = Watch::over(running.start());
        let pid = watch.running().pid();
        let programs = programs_of(pid);
        assert!(programs.len() >= 10, "{} programs", programs.len());
        assert_eq!(still_loaded(&programs), programs.len(), "all of them are in the kernel");
        watch.catch_up();
        watch.running().signal(signal);
        let asked = std::time::Instant::now();
        let seen = watch.ended();
        // Two seconds, and many more for a machine that does ten other things.
        assert!(asked.elapsed() < PATIENCE / 2, "{signal}: took {:?}", asked.elapsed());
        seen.finished.expect_code(0);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "the process is still there");
        // The kernel frees programs a moment after the last descriptor is closed.
        let deadline = std::time::Instant::now() + PATIENCE;
        while still_loaded(&programs) > 0 {
            assert!(std::time::Instant::now() < deadline, "{signal}: {} programs stay", still_loaded(&programs));
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(!run_directory.path().join("health.json").exists(), "health.json of a watch that has ended");
    }
}

/// A shell script that starts a watch in the background goes on when its user presses Ctrl-C, and so does the watch.
#[test]
fn a_watch_whose_parent_ignores_ctrl_c_ignores_it_too() {
    let Some(_turn) = turn("a_watch_whose_parent_ignores_ctrl_c_ignores_it_too", Need::Nothing) else { return };
    let words = "watch --json --no-page --interval 200ms --source counters";
    let mut watch = Watch::over(surefoot(words).with_signal("INT", Inherited::Ignored).start());
    for _ in 0..2 {
        watch.running().signal("INT");
        watch.catch_up();
    }
    watch.stop().finished.expect_code(0);
}

/// A closed terminal ends a watch that has one (tests of the screen); without one SIGHUP is the wish to read the settings again, and one
/// that `nohup` started ignores it.
#[test]
fn a_watch_without_a_terminal_goes_on_after_sighup() {
    let Some(_turn) = turn("a_watch_without_a_terminal_goes_on_after_sighup", Need::Nothing) else { return };
    for is_ignored in [false, true] {
        let run_directory = tempfile::tempdir().unwrap();
        let words = "watch --json --port 0 --no-history --interval 200ms --source counters --run-directory";
        let running = surefoot(words).arg(run_directory.path());
        let running =
            if is_ignored { running.with_signal("HUP", Inherited::Ignored) } else { running.without_terminal() };
        let mut watch = Watch::over(running.start());
        let health = run_directory.path().join("health.json");
        let deadline = std::time::Instant::now() + PATIENCE;
        while !health.exists() {
            assert!(std::time::Instant::now() < deadline, "no health.json");
            watch.catch_up();
        }
        watch.running().signal("HUP");
        watch.catch_up();
        assert!(health.exists(), "it goes on");
        watch.stop().finished.expect_code(0);
        assert!(!health.exists(), "health.json of a watch that has ended");
    }
}

#[test]
fn killed_without_warning_it_leaves_no_program_behind() {
    let Some(_turn) = turn("killed_without_warning_it_leaves_no_program_behind", Need::Ebpf) else { return };
    actor::prepare();
    let mut watch = watch("");
    let programs = programs_of(watch.running().pid());
    assert!(programs.len() >= 10, "{} programs", programs.len());
    drop(watch);
    let deadline = std::time::Instant::now() + PATIENCE;
    while still_loaded(&programs) > 0 {
        assert!(std::time::Instant::now() < deadline, "{} programs stay", still_loaded(&programs));
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn memory_stays_within_its_limit_with_page_and_all() {
    let Some(_turn) = turn("memory_stays_within_its_limit_with_page_and_all", Need::Ebpf) else { return };
    let folder = tempfile::tempdir().unwrap();
    let running = surefoot("watch --json --interval 200ms --port 0 --run-directory").arg(folder.path());
    let running = running.arg("--history").arg(folder.path().join("history.db"));
    let mut watch = Watch::over(running.start());
    for _ in 0..3 {
        watch.catch_up();
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", watch.running().pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak = peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10;
    assert!(peak < RESIDENT_MAX, "{status}");
    let (code, own) = resident(watch.running().pid());
    assert!(code > 0, "its code is resident while it runs");
    assert!(own < OWN_MAX, "{own} bytes apart from {code} bytes of code");
    watch.stop();
}
