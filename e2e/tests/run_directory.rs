//! The directory in which a running watch tells of itself: one watch at a time does, a full disk keeps none from going
//! on, and the process that reads names for a watch does nothing for anybody else.

use crate::strangers::wait_for;
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use surefoot_e2e::command::{Running, binary, surefoot};
use surefoot_e2e::disk::TinyDisk;
use surefoot_e2e::http;
use surefoot_e2e::machine::{Need, turn};
use surefoot_testkit::not_run::not_run;

fn watch(directory: &Path) -> (Running, String) {
    let run = surefoot("watch --port 0 --interval 200ms --no-history --run-directory").arg(directory);
    let mut running = run.start();
    let line = running.line_where(|line| line.starts_with("page: "));
    let address = line.trim().strip_prefix("page: http://").and_then(|rest| rest.strip_suffix('/')).unwrap().to_owned();
    (running, address)
}

#[test]
fn a_second_watch_leaves_the_run_directory_to_the_first_until_that_one_ends() {
    let test = "a_second_watch_leaves_the_run_directory_to_the_first_until_that_one_ends";
    let Some(_turn) = turn(test, Need::Root) else { return };
    let folder = tempfile::tempdir().unwrap();
    let said = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    let tells = |address: &str| said("address").contains(address) && said("page-url").contains(address);
    let (first, first_address) = watch(folder.path());
    wait_for("the first watch's files", || (tells(&first_address) && !said("health.json").is_empty()).then_some(()));
    let (mut second, second_address) = watch(folder.path());
    // It says whose the directory is.
    let owner = format!("Process {} publishes in", first.pid());
    second.line_where(|line| line.contains(&owner));
    assert!(tells(&first_address), "{} {}", said("address"), said("page-url"));
    // A third one that ends takes nothing of the first one's away.
    let (third, _) = watch(folder.path());
    third.ask_to_end();
    third.finish().expect_code(0);
    assert!(tells(&first_address) && !said("health.json").is_empty());
    assert!(!said("page-url").contains(&second_address));
    first.ask_to_end();
    first.finish().expect_code(0);
    wait_for("the second watch's files", || (tells(&second_address) && !said("health.json").is_empty()).then_some(()));
    second.ask_to_end();
    second.finish().expect_code(0);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing stays");
}

#[test]
fn a_full_disk_is_said_and_counted_and_filled_when_there_is_room_again() {
    let test = "a_full_disk_is_said_and_counted_and_filled_when_there_is_room_again";
    let Some(_turn) = turn(test, Need::Root) else { return };
    let disk = match TinyDisk::mount(1 << 20) {
        Ok(disk) => disk,
        Err(why) => return not_run(test, &why),
    };
    let filler = disk.fill(0);
    let history = disk.path().join("history.db");
    let run = surefoot("watch --port 0 --interval 200ms --run-directory").arg(disk.path()).arg("--history");
    let mut running = run.arg(&history).start();
    let line = running.line_where(|line| line.starts_with("page: "));
    let address = line.trim().strip_prefix("page: http://").and_then(|rest| rest.strip_suffix('/')).unwrap().to_owned();
    running.line_where(|line| line.contains("health.json cannot be written") && line.contains("No space left"));
    wait_for("two failures", || {
        let kept: Value = serde_json::from_str(&http::get(&address, "/api/v1/snapshot").body).unwrap();
        (kept["dropped"]["health"].as_u64().unwrap() >= 2).then_some(())
    });
    let names = || -> Vec<String> {
        // A socket takes no room.
        let files = fs::read_dir(disk.path()).unwrap().map(|entry| entry.unwrap());
        let files = files.filter(|entry| entry.file_type().unwrap().is_file());
        let names = files.map(|entry| entry.file_name().into_string().unwrap());
        names.filter(|name| name != "filler" && !name.ends_with(".lock")).collect()
    };
    assert!(names().is_empty(), "nothing that is empty or half: {:?}", names());
    fs::remove_file(filler).unwrap();
    wait_for("the files", || {
        let whole = |name: &str| fs::metadata(disk.path().join(name)).is_ok_and(|found| found.len() > 0);
        ["health.json", "address", "page-url"].into_iter().all(whole).then_some(())
    });
    running.ask_to_end();
    running.finish().expect_code(0);
}

#[test]
fn a_history_that_finds_the_disk_full_leaves_no_empty_file() {
    let test = "a_history_that_finds_the_disk_full_leaves_no_empty_file";
    let Some(_turn) = turn(test, Need::Root) else { return };
    let disk = match TinyDisk::mount(1 << 20) {
        Ok(disk) => disk,
        Err(why) => return not_run(test, &why),
    };
    disk.fill(0);
    let history = disk.path().join("history.db");
    let run = surefoot("watch --no-page --duration 2s --run-directory").arg(disk.path()).arg("--history");
    let finished = run.arg(&history).run();
    finished.expect_code(0);
    assert!(finished.stdout.contains("The history is not being written"), "{finished:#?}");
    assert!(!history.exists());
    // An empty file of somebody's own stays.
    fs::write(&history, "").unwrap();
    let run = surefoot("watch --no-page --duration 1s --run-directory").arg(disk.path()).arg("--history");
    run.arg(&history).run().expect_code(0);
    assert!(history.exists());
}

#[test]
fn who_reads_names_for_nobody_says_so() {
    let Some(_turn) = turn("who_reads_names_for_nobody_says_so", Need::Nothing) else { return };
    let folder = tempfile::tempdir().unwrap();
    // Standard error is a file: a process that is confined may write to none.
    for (input, closed) in [(Stdio::null(), ""), (Stdio::piped(), ""), (Stdio::null(), "<&-")] {
        let said = fs::File::create(folder.path().join("said")).unwrap();
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("exec \"$0\" read-names {closed}")).arg(binary()).stdin(input).stderr(said);
        let status = shell.status().unwrap();
        let mut text = String::new();
        fs::File::open(folder.path().join("said")).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(status.code(), Some(2), "{status}: {text}");
        assert!(text.contains("cannot read names") && text.contains("started by 'surefoot' itself"), "{text}");
    }
}
