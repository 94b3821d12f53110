//! Files on a file system that does not answer: commands say so, and end when they are asked to.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use surefoot_checkpoint::controller::Fixed;
use surefoot_checkpoint::{Alone, Checkpointer, Config, Policy};
use surefoot_e2e::command::{PATIENCE, binary, surefoot};
use surefoot_e2e::http;
use surefoot_e2e::machine::{Need, turn};
use surefoot_testkit::hanging::HangingFileSystem;
use surefoot_testkit::not_run::not_run;

const LINE: &str =
    "[    1.0] EDAC MC0: 1 CE memory read error on A1 (channel:0 slot:0 page:0x1 offset:0x0 grain:32 syndrome:0x0)\n";

/// A file system with a kernel's log in it.
fn mounted(home: &Path, test: &str) -> Option<HangingFileSystem> {
    let log = home.join("log");
    fs::write(&log, LINE).unwrap();
    HangingFileSystem::mount(&log).map_err(|why| not_run(test, &why)).ok()
}

/// Runs the command, whose child may keep its output open for ever: how it ended, and what it said.
fn ended(words: &[&str], file: &Path, home: &Path, mut while_it_runs: impl FnMut(u32)) -> (ExitStatus, String) {
    let said = home.join("said");
    let mut command = Command::new(binary());
    command.args(words).arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&said).unwrap());
    let mut running = command.spawn().unwrap();
    let begun = Instant::now();
    loop {
        if let Some(status) = running.try_wait().unwrap() {
            return (status, fs::read_to_string(said).unwrap());
        }
        assert!(begun.elapsed() < PATIENCE, "{words:?} does not end");
        while_it_runs(running.id());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_file_system_that_does_not_answer_is_named_by_every_command() {
    const TEST: &str = "answering::a_file_system_that_does_not_answer_is_named_by_every_command";
    let Some(_turn) = turn(TEST, Need::Root) else { return };
    let home = tempfile::tempdir().unwrap();
    let Some(mounted) = mounted(home.path(), TEST) else { return };
    let file = mounted.program();
    let (status, said) = ended(&["memory", "import"], &file, home.path(), |_| {});
    assert!(status.success() && said.is_empty(), "{status}: {said}");
    mounted.hang();
    // One that reads and one that goes on for ever.
    let all = [&["memory", "import"][..], &["watch", "--no-page", "--checks"]];
    at_once(all.map(|words| (words, file.clone(), home.path())));
}

/// Each of these commands says that the file system of its file did not answer; all at once, because each takes its patience.
fn at_once<const COUNT: usize>(all: [(&[&str], PathBuf, &Path); COUNT]) {
    std::thread::scope(|scope| {
        for (at, (words, file, home)) in all.into_iter().enumerate() {
            let home = home.join(at.to_string());
            fs::create_dir(&home).unwrap();
            scope.spawn(move || {
                let (status, said) = ended(words, &file, &home, |_| {});
                assert_eq!(status.code(), Some(2), "{words:?}: {said}");
                assert!(
                    said.contains("its file system did not answer") && said.contains("unmount it"),
                    "{words:?}: {said}"
                );
            });
        }
    });
}

/// It answers when it is first looked at, and not when the file is read: the command ends without being asked, and so does whoever reads
/// what it says, though its child hangs.
#[test]
fn a_command_does_not_wait_for_ever_and_neither_do_its_readers() {
    const TEST: &str = "answering::a_command_does_not_wait_for_ever_and_neither_do_its_readers";
    let Some(_turn) = turn(TEST, Need::Root) else { return };
    let homes: Vec<_> = [&["memory", "import"][..], &["stall", "replay"], &["history", "--file"]]
        .into_iter()
        .map(|words| (words, tempfile::tempdir().unwrap()))
        .collect();
    let mut mounts = Vec::new();
    for (_, home) in &homes {
        let Some(mounted) = mounted(home.path(), TEST) else { return };
        mounted.hang_after_opens(1);
        mounts.push(mounted);
    }
    std::thread::scope(|scope| {
        for ((words, _), mounted) in homes.iter().zip(&mounts) {
            let file = mounted.program();
            scope.spawn(move || {
                // Returns at the end of both pipes.
                let output = Command::new(binary()).args(*words).arg(&file).stdin(Stdio::null()).output().unwrap();
                let said = String::from_utf8_lossy(&output.stderr);
                assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
                assert!(said.contains("its file system did not answer for 20 s"), "{words:?}: {said}");
            });
        }
    });
}

#[test]
fn a_file_system_that_stops_answering_later_holds_no_command() {
    const TEST: &str = "answering::a_file_system_that_stops_answering_later_holds_no_command";
    let Some(_turn) = turn(TEST, Need::Root) else { return };
    for words in [&["memory", "import"][..], &["stall", "replay"], &["history", "--file"], &["disturb", "report"]] {
        let home = tempfile::tempdir().unwrap();
        let Some(mounted) = mounted(home.path(), TEST) else { return };
        // It answers when it is first looked at.
        mounted.hang_after_opens(1);
        let mut is_asked = false;
        let (status, said) = ended(words, &mounted.program(), home.path(), |process| {
            if !is_asked && mounted.unanswered() > 0 {
                is_asked = true;
                assert!(Command::new("kill").args(["-TERM", &process.to_string()]).status().unwrap().success());
            }
        });
        assert_eq!(status.signal(), Some(15), "{words:?}: {status}: {said}");
        assert!(said.contains("still waits for a file system that does not answer"), "{words:?}: {said}");
    }
}

#[test]
fn a_directory_that_does_not_answer_holds_no_command_that_reads_it() {
    const TEST: &str = "answering::a_directory_that_does_not_answer_holds_no_command_that_reads_it";
    let Some(_turn) = turn(TEST, Need::Root) else { return };
    let all: [&[&str]; 5] = [
        &["checkpoint", "list"],
        &["checkpoint", "verify"],
        &["status", "--run-directory"],
        &["memory", "status", "--host-root"],
        &["remedy", "cases", "--store"],
    ];
    for words in all {
        let home = tempfile::tempdir().unwrap();
        let Some(mounted) = mounted(home.path(), TEST) else { return };
        mounted.hang();
        let mut is_asked = false;
        let directory = mounted.program().parent().unwrap().to_owned();
        let directory = match words.last() {
            Some(&"--store") => PathBuf::from(format!("sqlite:{}", directory.join("cases.db").display())),
            _ => directory,
        };
        let (status, said) = ended(words, &directory, home.path(), |process| {
            if !is_asked && mounted.unanswered() > 0 {
                is_asked = true;
                assert!(Command::new("kill").args(["-TERM", &process.to_string()]).status().unwrap().success());
            }
        });
        assert_eq!(status.signal(), Some(15), "{words:?}: {status}: {said}");
    }
}

/// A watch reads the tree itself, so that it looks in a child first whether the tree answers.
#[test]
fn a_tree_that_does_not_answer_holds_no_watch_at_its_start() {
    const TEST: &str = "answering::a_tree_that_does_not_answer_holds_no_watch_at_its_start";
    let Some(_turn) = turn(TEST, Need::Root) else { return };
    let home = tempfile::tempdir().unwrap();
    let Some(mounted) = mounted(home.path(), TEST) else { return };
    let directory = mounted.program().parent().unwrap().to_owned();
    mounted.hang();
    let all = [&["watch", "--no-page", "--host-root"][..], &["memory", "watch", "--host-root"]];
    at_once(all.map(|words| (words, directory.clone(), home.path())));
}

#[test]
fn a_watch_of_a_directory_that_does_not_answer_fails_its_source_and_ends() {
    const TEST: &str = "answering::a_watch_of_a_directory_that_does_not_answer_fails_its_source_and_ends";
    let Some(_turn) = turn(TEST, Need::Root) else { return };
    for (option, sign) in [
        ("--experiments", "\"source\":\"disturb\",\"state\":\"failed\""),
        ("--checkpoints", "\"problem\":\"its file system does not answer\""),
    ] {
        let home = tempfile::tempdir().unwrap();
        let Some(mounted) = mounted(home.path(), TEST) else { return };
        mounted.hang();
        let directory = mounted.program().parent().unwrap().to_owned();
        let run = surefoot("watch --json --port 0 --interval 200ms --no-history --run-directory")
            .arg(home.path().join("run"));
        let mut running = run.arg(option).arg(&directory).start();
        let line = running.line_where(|line| line.contains(sign));
        assert!(line.contains("does not answer") && line.contains(directory.to_str().unwrap()), "{line}");
        assert!(mounted.unanswered() > 0, "it was never asked");
        running.ask_to_end();
        running.finish().expect_code(0);
    }
}

/// A mount of one file over another, until it is dropped.
struct Over(PathBuf);

impl Over {
    fn new(file: &Path, over: &Path) -> Self {
        fs::create_dir_all(over.parent().unwrap()).unwrap();
        fs::write(over, "").unwrap();
        assert!(Command::new("mount").arg("--bind").args([file, over]).status().unwrap().success());
        Over(over.to_owned())
    }
}

impl Drop for Over {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Ends a watch while a file system does not answer: its process is gone then, and not a thread of it waits.
fn ends(running: surefoot_e2e::command::Running) {
    let place = PathBuf::from(format!("/proc/{}", running.pid()));
    running.ask_to_end();
    let finished = running.finish();
    finished.expect_code(0);
    assert!(!finished.stderr.contains("left behind"), "{}", finished.stderr);
    assert!(!place.exists(), "its process is still there");
}

#[test]
fn a_tree_that_stops_answering_fails_the_source_of_memory_errors_and_the_watch_ends() {
    const TEST: &str = "answering::a_tree_that_stops_answering_fails_the_source_of_memory_errors_and_the_watch_ends";
    let Some(_turn) = turn(TEST, Need::Root) else { return };
    let home = tempfile::tempdir().unwrap();
    let count = home.path().join("count");
    fs::write(&count, "0\n").unwrap();
    let mounted = match HangingFileSystem::mount(&count) {
        Ok(mounted) => mounted,
        Err(why) => return not_run(TEST, &why),
    };
    let tree = home.path().join("tree");
    let controller = tree.join("sys/devices/system/edac/mc/mc0");
    fs::create_dir_all(&controller).unwrap();
    for (name, text) in [("mc_name", "Skylake Socket#0 IMC#0\n"), ("ue_count", "0\n"), ("seconds_since_reset", "1\n")] {
        fs::write(controller.join(name), text).unwrap();
    }
    let _over = Over::new(&mounted.program(), &controller.join("ce_count"));
    let run = surefoot("watch --json --no-page --interval 200ms --source counters --run-directory");
    let mut running = run.arg(home.path().join("run")).arg("--host-root").arg(&tree).start();
    running.line_where(|line| line.contains("\"mc0\""));
    mounted.hang();
    let failed = running.line_where(|line| line.contains("\"source\":\"memory\",\"state\":\"failed\""));
    assert!(failed.contains("does not answer") && failed.contains(tree.to_str().unwrap()), "{failed}");
    assert!(mounted.unanswered() > 0, "it was never asked");
    ends(running);
}

#[test]
fn files_of_the_page_that_stop_answering_are_a_problem_and_the_watch_ends() {
    const TEST: &str = "answering::files_of_the_page_that_stop_answering_are_a_problem_and_the_watch_ends";
    let Some(_turn) = turn(TEST, Need::Root) else { return };
    for (option, path) in [("--disturb-prediction", "/api/v1/disturb"), ("--nic-campaign", "/api/v1/nic/campaign")] {
        let home = tempfile::tempdir().unwrap();
        let line = home.path().join("line");
        fs::write(&line, "{\"type\":\"stream\"}\n").unwrap();
        let mounted = match HangingFileSystem::mount(&line) {
            Ok(mounted) => mounted,
            Err(why) => return not_run(TEST, &why),
        };
        let run = surefoot("watch --json --port 0 --interval 200ms --no-history --source counters --run-directory");
        let run_directory = home.path().join("run");
        let mut running = run.arg(&run_directory).arg(option).arg(mounted.program()).start();
        running.line_where(|line| line.contains("\"type\":\"window\""));
        let address = fs::read_to_string(run_directory.join("address")).unwrap();
        let address = address.split(' ').next().unwrap().trim().to_owned();
        // It answered when the watch began. It is opened again when somebody asks for it.
        mounted.hang();
        let said = http::get(&address, path).body;
        assert!(said.contains("its file system does not answer"), "{option}: {}", &said[..said.len().min(2_000)]);
        assert!(mounted.unanswered() > 0, "it was never asked");
        ends(running);
    }
}

/// A job with one checkpoint in memory and on the SSD, in directories of that home.
fn with_job(home: &Path, name: &str) -> PathBuf {
    let [memory, ssd] = ["memory", "ssd"].map(|tier| home.join(tier));
    for tier in [&memory, &ssd] {
        fs::create_dir_all(tier).unwrap();
    }
    let mut config = Config::new(name, &memory, Some(ssd));
    config.policy = Policy::Fixed(Fixed::PaperNth(2));
    let mut job = Checkpointer::open(config, Box::new(Alone)).unwrap();
    let state = job.route_file("state.bin").unwrap();
    fs::write(&state, vec![7; 100_000]).unwrap();
    job.checkpoint().unwrap();
    drop(job);
    memory.join(name)
}

/// The one file of that name below a directory.
fn found(directory: &Path, name: &str) -> PathBuf {
    let output = Command::new("find").arg(directory).args(["-name", name]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let first = said.lines().next();
    PathBuf::from(first.unwrap_or_else(|| panic!("no {name} in {}", directory.display())))
}

/// A command that changes files waits for a file system that stops answering as long as it is let: it says what it waits for, and when
/// it is asked to end it ends, and says what was done.
#[test]
fn commands_that_change_checkpoints_say_what_they_wait_for_and_end_with_an_account() {
    const TEST: &str = "answering::commands_that_change_checkpoints_say_what_they_wait_for_and_end_with_an_account";
    let Some(_turn) = turn(TEST, Need::Root) else { return };
    // The command, and its account.
    let all: [(&[&str], &str); 4] = [
        (&["checkpoint", "restore", "--job", "b", "--to", "OUT", "HOME"], "OUT is not known to be there"),
        (
            &["checkpoint", "scrub", "HOME"],
            "nothing is known to be scrubbed; begun, and not known to be scrubbed: HOME/memory/b/",
        ),
        (
            &["checkpoint", "drain", "b", "--durable", "HOME/ssd", "--memory", "HOME/memory"],
            "b is not known to be drained",
        ),
        (&["checkpoint", "remove", "b", "--yes", "--in", "MOUNTED"], "it had not begun to change anything"),
    ];
    let mut homes = Vec::new();
    for _ in all {
        let home = tempfile::tempdir().unwrap();
        let file = found(&with_job(home.path(), "b"), "slot-*.image");
        let mounted = match HangingFileSystem::mount(&file) {
            Ok(mounted) => mounted,
            Err(why) => return not_run(TEST, &why),
        };
        let over = Over::new(&mounted.program(), &file);
        mounted.hang_after_opens(0);
        mounted.hang_at_another_name();
        homes.push((home, file, mounted, over));
    }
    // All at once, because each takes its patience.
    std::thread::scope(|scope| {
        for ((words, account), (home, file, mounted, _over)) in all.into_iter().zip(&homes) {
            scope.spawn(move || {
                let place = |text: &str| {
                    let mounted = mounted.program().parent().unwrap().to_owned();
                    let places =
                        [("HOME", home.path().to_owned()), ("OUT", home.path().join("out")), ("MOUNTED", mounted)];
                    places.iter().fold(text.to_owned(), |text, (name, path)| text.replace(name, path.to_str().unwrap()))
                };
                let words: Vec<String> = words.iter().map(|word| place(word)).collect();
                let (first, rest) = words.split_at(words.len() - 1);
                let first: Vec<&str> = first.iter().map(String::as_str).collect();
                let said = home.path().join("said");
                let mut is_asked = false;
                let (status, said) = ended(&first, Path::new(&rest[0]), home.path(), |process| {
                    let waits = fs::read_to_string(&said).unwrap_or_default().contains("waiting for");
                    if !is_asked && waits {
                        is_asked = true;
                        assert!(Command::new("kill").args(["-TERM", &process.to_string()]).status().unwrap().success());
                    }
                });
                assert!(mounted.unanswered() > 0, "{words:?}: it was never asked: {said}");
                assert_eq!(status.signal(), Some(15), "{words:?}: {status}: {said}");
                let file = if first.contains(&"--in") { mounted.program().with_file_name("b") } else { file.clone() };
                assert!(said.contains(&format!("waiting for {}", file.display())), "{words:?}: {said}");
                assert!(said.contains("ended by SIGTERM") && said.contains(&place(account)), "{words:?}: {said}");
                assert!(said.contains("still waits for a file system"), "{words:?}: {said}");
            });
        }
    });
}

/// Slow is not dead: a command that goes on is not ended, however long it takes in all.
#[test]
fn a_command_that_changes_files_is_not_cut_off_where_they_are_slow() {
    const TEST: &str = "answering::a_command_that_changes_files_is_not_cut_off_where_they_are_slow";
    let Some(_turn) = turn(TEST, Need::Root) else { return };
    let home = tempfile::tempdir().unwrap();
    let job = with_job(home.path(), "b");
    let file = found(&job, "slot-*.image");
    let mounted = match HangingFileSystem::mount(&file) {
        Ok(mounted) => mounted,
        Err(why) => return not_run(TEST, &why),
    };
    let _over = Over::new(&mounted.program(), &file);
    // Some thirty pages are read, one request for each.
    mounted.slow_down(1_000);
    let begun = Instant::now();
    let ssd = home.path().join("ssd");
    let words = ["checkpoint", "drain", "b", "--durable", ssd.to_str().unwrap(), "--memory"];
    let (status, said) = ended(&words, &home.path().join("memory"), home.path(), |_| {});
    assert!(status.success(), "{status}: {said}");
    assert!(begun.elapsed() > Duration::from_secs(20), "it was not slow: {:?}", begun.elapsed());
    assert!(!said.contains("waiting for"), "{said}");
}
