//! Record and replay: equal to the byte, and honest about what is damaged.

use std::path::{Path, PathBuf};
use surefoot_e2e::command::{Finished, surefoot};
use surefoot_e2e::disk::TinyDisk;
use surefoot_e2e::machine::{Need, turn};
use surefoot_model::Event;
use surefoot_store::recording::{End, Reader};
use surefoot_testkit::not_run::not_run;

/// Nothing of the host's own experiments, which may be many.
const ALONE: &str = "--experiments /var/empty/surefoot";

fn record(file: &Path, options: &str) -> Finished {
    let finished = surefoot("stall record --output").arg(file).words(ALONE).words(options).run();
    finished.expect_code(0);
    assert!(finished.stderr.contains(file.to_str().unwrap()), "the file is named: {}", finished.stderr);
    finished
}

fn replay(file: &Path, options: &str) -> Finished {
    surefoot("stall replay").arg(file).words(options).run()
}

/// Whatever the machine and the privilege: from the counters if there is nothing better.
#[test]
fn a_replay_equals_the_live_report_to_the_byte() {
    let Some(_turn) = turn("a_replay_equals_the_live_report_to_the_byte", Need::Nothing) else { return };
    let folder = tempfile::tempdir().unwrap();
    for (name, options) in [
        ("text", "--duration 3s"),
        ("json", "--duration 2s --json"),
        ("filtered", "--duration 1s --json --kinds timer,softirq"),
        ("counters", "--duration 1s --source counters"),
    ] {
        let file = folder.path().join(name);
        let live = record(&file, options);
        assert!(!live.stdout.is_empty());
        let options: Vec<&str> =
            options.split(' ').filter(|word| word.starts_with("--") || word.contains(',')).collect();
        let options = options.join(" ").replace("--duration", "").replace("--source", "");
        let replayed = replay(&file, &options);
        replayed.expect_code(0);
        assert_eq!(replayed.stdout, live.stdout, "{name}");
        assert_eq!(replayed.stderr, "", "{name}");
        // The same file says the same as JSON, whoever reads it.
        let nobody = surefoot("watch --no-page --replay").arg(&file).words("--json").run();
        nobody.expect_code(0);
        assert_eq!(nobody.stdout, replay(&file, "--json --rooms all").stdout, "{name}");
    }
}

/// A short recording, and the events in it.
fn short_recording(folder: &Path) -> (PathBuf, Vec<u8>, Vec<Event>) {
    let file = folder.join("short");
    record(&file, "--duration 400ms --interval 100ms --min-gap 1s");
    let mut reader = Reader::open(&file).unwrap();
    let events: Vec<Event> = reader.by_ref().collect();
    assert_eq!(reader.end(), End::Complete);
    assert!(events.len() >= 5, "{} events", events.len());
    let bytes = std::fs::read(&file).unwrap();
    (file, bytes, events)
}

#[test]
fn a_recording_that_is_cut_gives_its_intact_prefix() {
    let Some(_turn) = turn("a_recording_that_is_cut_gives_its_intact_prefix", Need::Nothing) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes, events) = short_recording(folder.path());
    let file = folder.path().join("cut");
    let mut most = 0;
    // Each byte of the first frames and of the last ones, and every hundredth or so between: a busy machine's recording is long.
    let is_tried = |cut: &usize| *cut < 8 << 10 || cut + (2 << 10) > bytes.len() || cut.is_multiple_of(101);
    for cut in (0..bytes.len()).filter(is_tried) {
        std::fs::write(&file, &bytes[..cut]).unwrap();
        let Ok(mut reader) = Reader::open(&file) else {
            assert!(cut < 14, "cut at {cut}: the header is whole");
            continue;
        };
        let prefix: Vec<Event> = reader.by_ref().collect();
        assert!(events.starts_with(&prefix), "cut at {cut}: not what was recorded");
        assert!(prefix.len() >= most, "cut at {cut}: a longer file gives less");
        most = prefix.len();
        match reader.end() {
            End::Torn { intact_events, .. } => assert_eq!(intact_events, prefix.len() as u64, "cut at {cut}"),
            end => panic!("cut at {cut}: {end:?}"),
        }
    }
    assert_eq!(most, events.len(), "all but the closing frame is all of the events");
}

#[test]
fn the_command_says_what_a_cut_has_left() {
    let Some(_turn) = turn("the_command_says_what_a_cut_has_left", Need::Nothing) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (whole, bytes, events) = short_recording(folder.path());
    let complete = replay(&whole, "").stdout;
    let file = folder.path().join("cut");
    let step = bytes.len() / 40;
    let mut texts = Vec::new();
    for cut in (0..bytes.len()).step_by(step).chain([14, bytes.len() - 1]) {
        std::fs::write(&file, &bytes[..cut]).unwrap();
        let finished = replay(&file, "");
        let path = file.to_str().unwrap();
        if cut < 14 {
            finished.expect_refusal(2, &[path]);
            continue;
        }
        finished.expect_code(1);
        assert!(finished.stderr.contains(path) && finished.stderr.contains("cut off at byte"), "{finished:#?}");
        assert_eq!(finished.stderr.lines().count(), 1, "{finished:#?}");
        texts.push(finished.stdout);
    }
    assert_eq!(*texts.last().unwrap(), complete, "only the closing frame is missing: all {} events", events.len());
    assert!(texts.iter().any(|text| *text != complete && text.contains("windows")), "no cut left a part");
}

#[test]
fn a_damaged_recording_gives_what_is_before_the_damage() {
    let Some(_turn) = turn("a_damaged_recording_gives_what_is_before_the_damage", Need::Nothing) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes, events) = short_recording(folder.path());
    let file = folder.path().join("damaged");
    for at in (0..bytes.len()).step_by(7) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        std::fs::write(&file, &damaged).unwrap();
        let Ok(mut reader) = Reader::open(&file) else {
            assert!(at < 14, "damaged at {at}: the header is whole");
            continue;
        };
        let prefix: Vec<Event> = reader.by_ref().collect();
        assert!(events.starts_with(&prefix), "damaged at {at}: not what was recorded");
        let skipped = reader.skipped();
        assert!(reader.end() != End::Complete || !skipped.is_empty(), "damage at {at} went unnoticed");
    }
    let mut damaged = bytes.clone();
    let middle = bytes.len() / 2;
    damaged[middle] ^= 0xFF;
    std::fs::write(&file, &damaged).unwrap();
    let finished = replay(&file, "--json");
    finished.expect_code(1);
    assert!(finished.stderr.contains("damaged at byte"), "{finished:#?}");
    finished.json();
}

#[test]
fn what_is_no_recording_is_refused_by_name() {
    let Some(_turn) = turn("what_is_no_recording_is_refused_by_name", Need::Nothing) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("text"), "no recording at all, but long enough for a header").unwrap();
    std::fs::write(path("empty"), "").unwrap();
    let fifo = path("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for (file, why) in [
        (path("text"), "not a recording"),
        (path("empty"), "empty"),
        (path("missing"), "No such file"),
        (folder.path().to_path_buf(), "directory"),
        (fifo, "FIFO"),
        (PathBuf::from("/dev/zero"), "device"),
    ] {
        let name = file.to_str().unwrap();
        replay(&file, "").expect_refusal(2, &[name, why]);
        surefoot("watch --no-page --replay").arg(&file).run().expect_refusal(2, &[name, why]);
    }
}

#[test]
fn a_recording_replaces_no_file_unasked() {
    let Some(_turn) = turn("a_recording_replaces_no_file_unasked", Need::Nothing) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("precious");
    std::fs::write(&file, "precious").unwrap();
    let short = "--duration 200ms --interval 100ms";
    let refused = surefoot("stall record").words(short).arg("--output").arg(&file).run();
    refused.expect_refusal(2, &[file.to_str().unwrap(), "exists"]);
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    let forced = surefoot("stall record --force").words(short).arg("--output").arg(&file).run();
    forced.expect_code(0);
    replay(&file, "").expect_code(0);
    for (bad, why) in [(folder.path().to_path_buf(), "directory"), (folder.path().join("no/where"), "No such file")] {
        let refused = surefoot("stall record").words(short).arg("--output").arg(&bad).run();
        refused.expect_refusal(2, &[bad.to_str().unwrap(), why]);
    }
}

#[test]
fn a_full_disk_ends_a_recording_with_what_was_seen() {
    const TEST: &str = "a_full_disk_ends_a_recording_with_what_was_seen";
    let Some(_turn) = turn(TEST, Need::Root) else { return };
    let disk = match TinyDisk::mount(256 << 10) {
        Ok(disk) => disk,
        Err(why) => return not_run(TEST, &format!("no tmpfs can be mounted here: {why}")),
    };
    // Room for the first windows, also where many gaps come before them; no machine keeps a minute in it.
    disk.fill(64 << 10);
    let file = disk.path().join("recording");
    let words = "stall record --duration 600s --interval 100ms --min-gap 1s --json --output";
    let recording = surefoot(words).arg(&file).words(ALONE).run();
    assert_eq!(recording.code, Some(2), "{recording:#?}");
    assert!(recording.took.as_secs() < 500, "it went on without a disk for {:?}", recording.took);
    let message = recording.stderr.lines().find(|line| line.contains(file.to_str().unwrap()));
    let message = message.unwrap_or_else(|| panic!("the file is named: {}", recording.stderr));
    assert!(message.contains("space") || message.contains("full"), "the reason is named: {message}");
    let told = recording.json().iter().filter(|line| line["type"] == "core").count();
    assert!(told > 0, "what was seen is told although it could not be kept: {recording:#?}");
    let replayed = replay(&file, "--json");
    assert!(matches!(replayed.code, Some(0 | 1)), "{replayed:#?}");
    let cores = replayed.json().iter().filter(|line| line["type"] == "core").count();
    assert!(cores > 0, "what was seen before is gone: {replayed:#?}");
}
