//! A history on a disk that is really full: a small tmpfs in a mount name space of a child process.

use crate::client::{address, get, get_json, wait_for};
use crate::data::{SECOND_NS, busy_window, gap, host};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use surefoot_daemon::{Config, Server};
use surefoot_hostfs::clock::{monotonic_ns, realtime_offset_ns};
use surefoot_model::{Event, Gap, HostDescription};

/// Tells the child which directory is the small disk.
const DIRECTORY: &str = "SUREFOOT_TEST_DIRECTORY";

/// Mounts 4 MiB over the directory and runs the words after it.
const SMALL_DISK: &str = "mount -t tmpfs -o size=4m,mode=700 surefoot-test \"$SUREFOOT_TEST_DIRECTORY\" && exec \"$@\"";

/// The ways to a mount name space: as root, or as root of a user name space.
const WAYS: [&[&str]; 2] = [&["unshare", "--mount"], &["unshare", "--user", "--map-root-user", "--mount"]];

#[test]
fn a_full_disk_under_the_history_stops_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let on_small_disk = |way: &[&str], words: &[&str]| {
        let mut command = Command::new(way[0]);
        command.args(&way[1..]).args(["sh", "-c", SMALL_DISK, "sh"]).args(words);
        command.env(DIRECTORY, directory.path()).output()
    };
    let possible = |way: &&[&str]| on_small_disk(way, &["true"]).is_ok_and(|output| output.status.success());
    let Some(way) = WAYS.into_iter().find(possible) else {
        eprintln!("not run: mounting a tmpfs is not allowed here");
        return;
    };
    let program = std::env::current_exe().unwrap();
    let test = "full_disk::child_with_a_full_disk";
    let words = [program.to_str().unwrap(), "--exact", test, "--ignored", "--nocapture"];
    let output = on_small_disk(way, &words).unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "runs in a child process on a small disk"]
fn child_with_a_full_disk() {
    let directory = PathBuf::from(std::env::var_os(DIRECTORY).unwrap());
    let server =
        Server::start(Config { history: Some(directory.join("history.sqlite")), ..Config::default() }).unwrap();
    server.publish(Event::Host(HostDescription { realtime_offset_ns: realtime_offset_ns(), ..host() }));
    server.publish(Event::Window(busy_window(monotonic_ns())));
    let past = || {
        let answer = get(address(&server), "/api/v1/history?resolution=second");
        (answer.status == 200).then(|| answer.json())
    };
    let count = |past: &serde_json::Value| past["windows"].as_array().unwrap().len();
    wait_for("the first window", || past().filter(|past| count(past) == 1));

    let filler = fill(&directory);
    let long = Gap { evidence: vec!["x".repeat(4_000)], ..gap(0, monotonic_ns(), 30_000) };
    for _ in 0..100 {
        server.publish(Event::Gap(long.clone()));
    }
    let notices = || {
        let kept = get_json(address(&server), "/api/v1/snapshot?range_s=1");
        let texts = kept["notices"].as_array().unwrap().iter();
        texts.map(|notice| notice["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let texts = wait_for("the notice", || Some(notices()).filter(|texts| !texts.is_empty()));
    assert!(texts[0].contains("history.sqlite: cannot be written") && texts[0].contains("full"), "{texts:?}");
    let finding = || {
        let overview = get_json(address(&server), "/api/v1/overview");
        let rooms = overview["rooms"].as_array().unwrap().clone();
        let all: Vec<serde_json::Value> =
            rooms.iter().flat_map(|room| room["findings"].as_array().unwrap().clone()).collect();
        all.into_iter().find(|one| one["key"] == "watch/history/host")
    };
    let told = wait_for("the finding", finding);
    assert!(
        told["severity"] == "warning" && told["sentence"].as_str().unwrap().contains("is not being written"),
        "{told}"
    );
    // Several more commits fail, without another word.
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(notices().len(), 1, "one notice, not one per event");
    assert_eq!(count(&past().unwrap()), 1, "what was written before is still there");

    server.publish(Event::Window(busy_window(monotonic_ns() + SECOND_NS)));
    let sequence = || get_json(address(&server), "/api/v1/snapshot?range_s=1")["sequence"].as_u64();
    wait_for("the window in memory", || sequence().filter(|&sequence| sequence == 103));
    std::fs::remove_file(filler).unwrap();
    wait_for("the window in the history", || past().filter(|past| count(past) == 2));
    let texts = wait_for("the good word", || Some(notices()).filter(|texts| texts.len() == 2));
    assert!(texts[1].contains("written again"), "{texts:?}");
    server.stop();
}

/// Fills the disk of the directory to the last byte.
fn fill(directory: &Path) -> PathBuf {
    let path = directory.join("filler");
    let mut filler = File::create(&path).unwrap();
    for block_bytes in [64 << 10, 4096, 1] {
        while filler.write_all(&vec![0; block_bytes]).is_ok() {}
    }
    path
}

/// The file is begun anew, and it is said what is not in it.
#[test]
fn a_history_that_is_deleted_under_the_watch_is_said_and_begun_anew() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.sqlite");
    let server = Server::start(Config { history: Some(path.clone()), ..Config::default() }).unwrap();
    server.publish(Event::Host(HostDescription { realtime_offset_ns: realtime_offset_ns(), ..host() }));
    server.publish(Event::Window(busy_window(monotonic_ns())));
    let count = || {
        let answer = get(address(&server), "/api/v1/history?resolution=second");
        (answer.status == 200).then(|| answer.json()["windows"].as_array().unwrap().len())
    };
    wait_for("the first window", || count().filter(|count| *count == 1));
    for ending in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(directory.path().join(format!("history.sqlite{ending}")));
    }
    let notices = || {
        let kept = get_json(address(&server), "/api/v1/snapshot?range_s=1");
        kept["notices"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["text"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    wait_for("the notice", || notices().into_iter().find(|text| text.contains("was deleted or moved away")));
    wait_for("a new file", || path.exists().then_some(()));
    // What comes from now on is in it, and the window before is not.
    wait_for("the next window", || {
        server.publish(Event::Window(busy_window(monotonic_ns())));
        count().filter(|count| *count >= 1)
    });
    wait_for("the word that it goes on", || notices().into_iter().find(|text| text.contains("is being written again")));
}
