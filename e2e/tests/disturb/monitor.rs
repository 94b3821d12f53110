//! A guest of QEMU that is stopped from outside, and goes on when whoever stops it is killed. It needs no kernel: its firmware looks
//! for one.

use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use surefoot_e2e::command::binary;
use surefoot_testkit::not_run::not_run;

const PATIENCE: Duration = Duration::from_secs(60);

/// A guest, with a monitor for Surefoot and one for the test.
struct Guest {
    child: Child,
    folder: tempfile::TempDir,
}

impl Guest {
    fn start() -> Option<Guest> {
        let folder = tempfile::tempdir().unwrap();
        let monitor = |name: &str| format!("unix:{},server=on,wait=off", folder.path().join(name).display());
        let mut command = Command::new("qemu-system-x86_64");
        command.args(["-nodefaults", "-no-user-config", "-display", "none", "-accel", "tcg", "-m", "64", "-smp", "2"]);
        command.args(["-machine", "q35", "-name", "disturbed,debug-threads=on"]);
        command.args(["-qmp", &monitor("monitor"), "-qmp", &monitor("own")]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().ok()?;
        let guest = Guest { child, folder };
        until("QEMU listens", || guest.monitor().exists() && guest.folder.path().join("own").exists());
        Some(guest)
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn monitor(&self) -> PathBuf {
        self.folder.path().join("monitor")
    }

    /// Whether QEMU says that it runs.
    fn runs(&self) -> bool {
        let mut lines = BufReader::new(UnixStream::connect(self.folder.path().join("own")).unwrap());
        let mut answer = Value::Null;
        for order in ["qmp_capabilities", "query-status"] {
            writeln!(lines.get_mut(), "{}", json!({ "execute": order })).unwrap();
            answer = Value::Null;
            while answer.get("return").is_none() {
                let mut line = String::new();
                lines.read_line(&mut line).unwrap();
                answer = serde_json::from_str(&line).unwrap();
            }
        }
        answer["return"]["running"] == true
    }

    /// The groups of its threads that are not QEMU's own.
    fn groups(&self) -> Vec<String> {
        let group = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("cgroup")).unwrap_or_default();
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        let all: Vec<String> = threads.filter_map(Result::ok).map(group).collect();
        all.iter().flat_map(|text| text.lines()).filter(|line| line.contains("surefoot-")).map(str::to_owned).collect()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn disturb(spec: &str, workload: &str) -> Command {
    let mut command = Command::new(binary());
    command.args(["disturb", "run", "--json", "--repetitions", "2", "--seed", "7"]);
    command.args(["--disturbance", spec, "--workload", workload]);
    command
}

fn lines(command: &mut Command) -> Vec<Value> {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn is_root(name: &str) -> bool {
    let is_root = fs::metadata("/proc/self").is_ok_and(|about| std::os::unix::fs::MetadataExt::uid(&about) == 0);
    if !is_root {
        not_run(name, "making control groups needs root");
    }
    is_root
}

#[test]
fn a_guest_stands_still_by_each_way_and_goes_on() {
    const NAME: &str = "disturb::monitor::a_guest_stands_still_by_each_way_and_goes_on";
    if !is_root(NAME) {
        return;
    }
    let Some(guest) = Guest::start() else { return not_run(NAME, "qemu-system-x86_64 is not installed") };
    let (monitor, pid) = (format!("qmp={}", guest.monitor().display()), format!("pid={}", guest.pid()));
    for (kind, target) in [("guest-freeze", &monitor), ("guest-freeze", &pid), ("guest-stop", &monitor)] {
        let found = lines(&mut disturb(&format!("{kind}:length=60ms,period=200ms,{target}"), "sleep 0.5"));
        let effect = found.last().unwrap();
        assert_eq!(
            (&effect["type"], &effect["method"], &effect["cores"]),
            (&"effect".into(), &kind.into(), &json!([]))
        );
        assert!(effect["method_words"].as_str().unwrap().contains("unlike"), "{effect}");
        let stalls: Vec<&Value> = found.iter().filter(|line| line["type"] == "stall").collect();
        assert!(stalls.len() >= 2 && stalls.len() as u64 == effect["stall_count"], "{effect}");
        assert!(stalls.iter().all(|stall| stall["core"].is_null()), "{stalls:?}");
        let ns = |stall: &Value, name: &str| stall[name].as_u64().unwrap();
        assert!(stalls.iter().any(|stall| ns(stall, "length_ns") >= 30_000_000), "{stalls:?}");
        // The last one of a run ends with the run. One that begins late on a busy machine ends when it should.
        for (stall, next) in stalls.iter().zip(&stalls[1..]).filter(|(stall, next)| stall["run"] == next["run"]) {
            let late_ns = ns(stall, "start_ns").saturating_sub(ns(stall, "target_ns"));
            assert!(late_ns + ns(stall, "length_ns") >= 30_000_000, "{stall} {next}");
        }
        assert!(guest.runs(), "{kind} {target}");
        assert_eq!(guest.groups(), [""; 0], "{kind} {target}");
    }
    let refused = disturb("guest-stop:length=100ms,period=400ms,pid=1", "true").output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", String::from_utf8_lossy(&refused.stderr));
    let missing = format!("guest-freeze:length=1ms,period=1s,qmp={}", Path::new("/nowhere").display());
    let refused = disturb(&missing, "true").output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("-qmp unix:SOCKET"));
}

#[test]
fn a_guest_goes_on_when_whoever_stops_it_is_killed() {
    const NAME: &str = "disturb::monitor::a_guest_goes_on_when_whoever_stops_it_is_killed";
    if !is_root(NAME) {
        return;
    }
    let Some(guest) = Guest::start() else { return not_run(NAME, "qemu-system-x86_64 is not installed") };
    for kind in ["guest-freeze", "guest-stop"] {
        // The first run is none that is disturbed, nor is one of two that follow.
        let spec = format!("{kind}:length=400ms,period=900ms,qmp={}", guest.monitor().display());
        let command = &mut disturb(&spec, "sleep 1");
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        if kind == "guest-stop" {
            until("it is stopped", || !guest.runs());
        } else {
            let mut groups = Vec::new();
            until("its processors are in a group", || {
                groups = guest.groups();
                !groups.is_empty()
            });
            let group = PathBuf::from(groups[0].rsplit_once(':').unwrap().1.trim_start_matches('/'));
            let places = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/freezer"]
                .map(|at| Path::new(at).join(&group));
            let files = places.iter().flat_map(|at| ["cgroup.events", "freezer.state"].map(|name| at.join(name)));
            let files: Vec<PathBuf> = files.filter(|file| file.exists()).collect();
            let is_frozen = |text: String| text.contains("frozen 1") || text.trim() == "FROZEN";
            until("they are frozen", || {
                files.iter().any(|file| is_frozen(fs::read_to_string(file).unwrap_or_default()))
            });
        }
        child.kill().unwrap();
        child.wait().unwrap();
        until("it goes on", || guest.groups().is_empty() && guest.runs());
    }
}
