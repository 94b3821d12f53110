//! A watch as a service: this test plays systemd with a socket for notifications, and the journal.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use surefoot_e2e::command::binary;
use surefoot_e2e::machine::{Need, turn};

/// How long anything may take on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// The time that systemd gives here. A sign of life comes three times in it.
const WATCHDOG: Duration = Duration::from_secs(6);

/// A watch that is ended with the test.
struct Watch(Child);

impl Watch {
    fn start(folder: &Path, stdout: OwnedFd, more: &[&str]) -> (Self, UnixDatagram) {
        let socket = folder.join("notify");
        let systemd = UnixDatagram::bind(&socket).unwrap();
        let about = File::from(stdout.try_clone().unwrap()).metadata().unwrap();
        // As a service: no controlling terminal, and SIGHUP as it is by default also where `nohup` started the tests.
        let mut command = Command::new("setsid");
        command.args(["env", "--default-signal=HUP"]).arg(binary());
        command
            .args(["watch", "--source", "counters", "--no-page", "--no-history", "--run-directory"])
            .arg(folder.join("run"));
        command.args(more).env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string());
        command.env("JOURNAL_STREAM", format!("{}:{}", about.dev(), about.ino()));
        (Watch(command.stdout(stdout).stderr(Stdio::inherit()).spawn().unwrap()), systemd)
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.0.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What is told within some time.
fn told(systemd: &UnixDatagram, within: Duration) -> Option<String> {
    systemd.set_read_timeout(Some(within)).unwrap();
    let mut bytes = [0; 4096];
    systemd.recv(&mut bytes).ok().map(|length| String::from_utf8(bytes[..length].to_vec()).unwrap())
}

fn until(systemd: &UnixDatagram, word: &str) -> Vec<String> {
    let mut all = Vec::new();
    let begun = Instant::now();
    while !all.iter().any(|told: &String| told.starts_with(word)) {
        assert!(begun.elapsed() < PATIENCE, "no {word} in {all:?}");
        all.extend(told(systemd, PATIENCE));
    }
    all
}

#[test]
fn systemd_is_told_that_it_is_ready_how_it_is_and_that_it_ends() {
    let Some(_turn) = turn("systemd_is_told_that_it_is_ready_how_it_is_and_that_it_ends", Need::Nothing) else {
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let lines = File::create(home.path().join("lines")).unwrap();
    let (mut watch, systemd) = Watch::start(home.path(), lines.into(), &["--interval", "500ms"]);
    let mut all = until(&systemd, "STATUS=");
    assert_eq!(all.first().map(String::as_str), Some("READY=1"), "{all:?}");
    assert!(all.last().is_some_and(|status| status.ends_with('.')), "{all:?}");
    // Several windows, each of which was a line before.
    for _ in 0..3 {
        all.extend(until(&systemd, "WATCHDOG=1"));
    }
    watch.signal("-HUP");
    let reloading = until(&systemd, "RELOADING=1").pop().unwrap();
    let time = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").and_then(|time| time.parse::<u64>().ok());
    assert!(time.is_some(), "{reloading:?}");
    until(&systemd, "READY=1");
    watch.signal("-TERM");
    until(&systemd, "STOPPING=1");
    assert!(watch.0.wait().unwrap().success());
    let text = fs::read_to_string(home.path().join("lines")).unwrap();
    assert!(!text.is_empty() && text.lines().all(has_priority), "{text}");
    let mut sentences: Vec<&str> = text.lines().collect();
    sentences.sort_unstable();
    let lines = sentences.len();
    sentences.dedup();
    assert_eq!(sentences.len(), lines, "a line is repeated: {text}");
}

/// Whether a line begins with the priority of journal and syslog.
fn has_priority(line: &str) -> bool {
    let number = line.strip_prefix('<').and_then(|rest| rest.split_once('>')).map(|(number, _)| number);
    number.is_some_and(|number| ["2", "4", "5", "6"].contains(&number))
}

/// A room that is not watched, or a window of an hour, keeps nothing of the others back.
#[test]
fn findings_and_status_are_told_without_windows() {
    let Some(_turn) = turn("findings_and_status_are_told_without_windows", Need::Nothing) else { return };
    for setting in ["stall.watched = false", "stall.interval = \"1h\""] {
        let home = tempfile::tempdir().unwrap();
        let settings = home.path().join("s.toml");
        fs::write(&settings, format!("{setting}\nmemory.watched = false\n")).unwrap();
        let path = home.path().join("lines");
        let lines = File::create(&path).unwrap();
        // A directory that is not there is a finding at once.
        let gone = home.path().join("gone");
        let more = ["--config", settings.to_str().unwrap(), "--checkpoints", gone.to_str().unwrap()];
        let (mut watch, systemd) = Watch::start(home.path(), lines.into(), &more);
        until(&systemd, "STATUS=");
        let begun = Instant::now();
        while !fs::read_to_string(&path).unwrap().contains("cannot be looked at") {
            assert!(begun.elapsed() < PATIENCE, "{setting}: {}", fs::read_to_string(&path).unwrap());
            std::thread::sleep(Duration::from_millis(50));
        }
        watch.signal("-TERM");
        assert!(watch.0.wait().unwrap().success());
    }
}

#[test]
fn a_watch_that_hangs_gives_no_sign_of_life() {
    let Some(_turn) = turn("a_watch_that_hangs_gives_no_sign_of_life", Need::Nothing) else { return };
    let home = tempfile::tempdir().unwrap();
    let (mut reader, writer) = std::io::pipe().unwrap();
    // Its loop waits for a reader of its lines that stopped reading; its other threads go on.
    let (_watch, systemd) = Watch::start(home.path(), writer.into(), &["--json", "--interval", "100ms"]);
    until(&systemd, "WATCHDOG=1");
    let begun = Instant::now();
    while told(&systemd, WATCHDOG).is_some() {
        assert!(begun.elapsed() < PATIENCE, "it gives signs of life for ever");
    }
    // It lives when it can go on.
    std::thread::spawn(move || while reader.read(&mut [0; 65536]).is_ok_and(|bytes| bytes > 0) {});
    until(&systemd, "WATCHDOG=1");
}
