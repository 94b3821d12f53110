//! The history that `watch` keeps: two instances, no permission, no room.

use std::path::Path;
use surefoot_e2e::command::{Running, surefoot};
use surefoot_e2e::disk::TinyDisk;
use surefoot_e2e::http;
use surefoot_e2e::machine::{Need, turn};
use surefoot_testkit::not_run::not_run;

/// Starts a watch with a history; returns it and the address of its page.
fn start(history: &Path, run_directory: &Path) -> (Running, String) {
    let words = "watch --port 0 --source counters --interval 100ms --history";
    let mut running = surefoot(words).arg(history).arg("--run-directory").arg(run_directory).start();
    let page = running.line_where(|line| line.starts_with("page: "));
    let address = page.trim().trim_start_matches("page: http://").trim_end_matches('/').to_owned();
    (running, address)
}

/// Waits until the terminal says this.
fn says(running: &mut Running, words: &[&str]) -> String {
    running.line_where(|line| words.iter().all(|word| line.contains(word)))
}

#[test]
fn a_history_has_one_writer_and_the_second_instance_says_so() {
    let Some(_turn) = turn("a_history_has_one_writer_and_the_second_instance_says_so", Need::Nothing) else { return };
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("history.db");
    let (mut first, address) = start(&history, &folder.path().join("first"));
    first.line_where(|line| !line.starts_with("page: ") && !line.starts_with("reduced: "));
    let (mut second, other) = start(&history, &folder.path().join("second"));
    assert_ne!(address, other);
    says(&mut second, &["history", history.to_str().unwrap(), &first.pid().to_string()]);
    assert_eq!(http::get(&other, "/api/v1/snapshot").status, 200, "the second goes on without a history");
    // Long enough for the first to commit.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let past = http::get(&address, "/api/v1/history");
    assert_eq!(past.status, 200, "{}", past.body);
    for running in [first, second] {
        running.ask_to_end();
        running.finish().expect_code(0);
    }
    assert!(std::fs::metadata(&history).unwrap().len() > 0);
}

#[test]
fn a_history_that_cannot_be_kept_is_refused_before_anything_is_made() {
    let Some(_turn) = turn("a_history_that_cannot_be_kept_is_refused_before_anything_is_made", Need::Nothing) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, "no database, and precious").unwrap();
    let (run, below) = (folder.path().join("run"), text.join("below/history.db"));
    for (history, words) in [
        (text.as_path(), ["--history", "no SQLite database"]),
        (folder.path(), ["--history", "other users can create files in"]),
        (Path::new("/dev/null"), ["--history", "is not a regular file"]),
        (&below, ["--history", "not a directory"]),
    ] {
        let watch = surefoot("watch --port 0 --duration 1s --source counters --history").arg(history);
        watch.arg("--run-directory").arg(&run).run().expect_refusal(2, &words);
        assert!(!run.exists(), "nothing is made before {} is refused", history.display());
    }
    assert_eq!(std::fs::read(&text).unwrap(), b"no database, and precious");
    let nowhere = surefoot("watch --port 0 --duration 1s --source counters --history /proc/nothing/history.db").run();
    nowhere.expect_refusal(2, &["/proc/nothing", "create"]);
}

#[test]
fn nobody_cannot_write_into_roots_folder() {
    let Some(_turn) = turn("nobody_cannot_write_into_roots_folder", Need::Root) else { return };
    let folder = tempfile::tempdir().unwrap();
    let refused = |history: &str| {
        surefoot("watch --port 0 --duration 1s --history").arg(folder.path().join(history)).as_nobody().run()
    };
    refused("history.db").expect_refusal(2, &[folder.path().to_str().unwrap(), "Permission denied"]);
    // A name that was typed wrongly makes no directory.
    let typo = surefoot("watch --port 0 --duration 1s --history").arg(folder.path().join("below/history.db")).run();
    typo.expect_refusal(2, &["below does not exist"]);
    assert!(!folder.path().join("below").exists());
    let port = surefoot("watch --port 80 --duration 1s").as_nobody().run();
    port.expect_refusal(2, &["port 80", "privilege", "1024"]);
}

/// Root may listen there, and gives up what a watch does not need only then.
#[test]
fn root_may_have_its_page_on_a_port_below_1024() {
    let Some(_turn) = turn("root_may_have_its_page_on_a_port_below_1024", Need::Root) else { return };
    let is_free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let port = (900..1024).find(is_free).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let watch = surefoot("watch --duration 1s --source counters --no-history --port").arg(port.to_string());
    let finished = watch.arg("--run-directory").arg(folder.path()).run();
    finished.expect_code(0);
    assert!(finished.stdout.contains(&format!("http://127.0.0.1:{port}/")), "{finished:#?}");
}

#[test]
fn a_full_disk_under_the_history_stops_nothing_and_is_told() {
    const TEST: &str = "a_full_disk_under_the_history_stops_nothing_and_is_told";
    let Some(_turn) = turn(TEST, Need::Root) else { return };
    let disk = match TinyDisk::mount(1 << 20) {
        Ok(disk) => disk,
        Err(why) => return not_run(TEST, &format!("no tmpfs can be mounted here: {why}")),
    };
    let filler = disk.fill(300 << 10);
    let run_directory = tempfile::tempdir().unwrap();
    let history = disk.path().join("history.db");
    let (mut running, address) = start(&history, run_directory.path());
    says(&mut running, &["history is not being written", history.to_str().unwrap()]);
    assert_eq!(http::get(&address, "/api/v1/snapshot").status, 200, "everything else goes on");
    assert!(
        http::get(&address, "/api/v1/report").body.contains("history is not being written"),
        "the page says so, too"
    );
    std::fs::remove_file(filler).unwrap();
    says(&mut running, &["history is being written again"]);
    let past = http::get(&address, "/api/v1/history");
    assert_eq!(past.status, 200, "{}", past.body);
    running.ask_to_end();
    running.finish().expect_code(0);
}
