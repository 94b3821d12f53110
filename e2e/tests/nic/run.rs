//! Messages between interfaces that fail: in virtual time, and as real processes that are hung, stopped and killed.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use surefoot_e2e::command::{PATIENCE, binary, surefoot};
use surefoot_e2e::machine::{self, Need, turn};
use surefoot_random::Random;
use surefoot_testkit::not_run::not_run;

/// A run by the clock that goes on, and the directory in which its parts find each other.
struct Running {
    child: Option<Child>,
    directory: PathBuf,
    _base: tempfile::TempDir,
}

impl Running {
    fn start(words: &str) -> Self {
        let base = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let directory = base.path().join("run");
        let mut command = Command::new(binary());
        command.args(["nic", "run", "--json", "--run"]).arg(&directory).args(words.split_whitespace());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Running { child: Some(child), directory, _base: base }
    }

    /// The processes of a kind; their command lines name this run's command and nobody else's.
    fn parts(&self, kind: &str) -> Vec<u32> {
        let owner = format!("owner={}", self.child.as_ref().map_or(0, Child::id));
        let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        ids.filter(|id| {
            let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            words.contains(&kind.as_bytes()) && words.contains(&owner.as_bytes())
        })
        .collect()
    }

    fn is_over(&mut self) -> bool {
        self.child.as_mut().unwrap().try_wait().unwrap().is_some()
    }

    /// The last line and the exit code.
    fn result(mut self) -> (Value, i32) {
        let begun = Instant::now();
        while !self.is_over() {
            assert!(begun.elapsed() < PATIENCE, "the run does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
        let output = self.child.take().unwrap().wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        println!("{text}{}", String::from_utf8_lossy(&output.stderr));
        assert!(!self.directory.exists(), "the run directory is still there");
        for kind in ["interface", "daemon", "application"] {
            assert_eq!(self.parts(kind), Vec::<u32>::new(), "{kind}: still there");
        }
        let last = text.lines().last().unwrap_or("null");
        (serde_json::from_str(last).unwrap(), output.status.code().unwrap_or(-1))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn assert_perfect(result: &Value, count: u64) {
    for name in
        ["lost_count", "duplicated_count", "reordered_count", "corrupted_count", "unexpected_count", "pending_count"]
    {
        assert_eq!(result[name], 0, "{name} of {result}");
    }
    for name in ["sent_count", "delivered_count"] {
        assert_eq!(result[name], count, "{name} of {result}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_loses_nothing() {
    let Some(_turn) = turn("nic::run::the_same_seed_gives_the_same_bytes_and_loses_nothing", Need::Nothing) else {
        return;
    };
    let run = |seed: u32| {
        surefoot(&format!("nic run --messages 600 --size 3000 --hang-at 200 --hang-at 400:0 --seed {seed} --json"))
            .run()
    };
    let (one, again) = (run(5), run(5));
    assert_eq!(one.code, Some(0), "{}", one.stderr);
    assert_eq!(one.stdout, again.stdout);
    let result: Value = serde_json::from_str(one.stdout.lines().last().unwrap()).unwrap();
    assert_perfect(&result, 600);
    assert_eq!((result["failure_count"].as_u64(), result["recovery_count"].as_u64()), (Some(2), Some(2)));
    assert_eq!(result["clock"], "virtual");
    // In virtual time the goals hold whatever else the machine does: 1 ms, and 5 ms plus 0.2 ms for each of two ports.
    assert!(result["detection_ns"]["median"].as_u64().unwrap() <= 1_000_000, "{result}");
    assert!(result["recovery_ns"]["maximum"].as_u64().unwrap() <= 5_400_000, "{result}");
}

#[test]
fn options_that_cannot_be_say_why() {
    let Some(_turn) = turn("nic::run::options_that_cannot_be_say_why", Need::Nothing) else { return };
    for (words, says) in [
        ("--messages 5 --hang-at 5", "past the end: with 5 messages, use 0 to 4"),
        ("--clock virtual --link udp", "--clock virtual has a link within the process"),
        ("--clock wall --link memory", "use --link udp or veth"),
        ("--serve --clock virtual", "--serve: programs run by the clock"),
        ("--serve --messages 5", "cannot be used with"),
        ("--run /dev/shm/never", "add --link udp or veth"),
        ("--link udp --run /dev/shm", "it is there already"),
        ("--size 10MB", "write bytes without a unit"),
        ("--size 70000", "12 to 65536"),
        ("--hang-at 3:7", "use 0, which sends, or 1, which receives"),
        ("--hang-at 3:0 --hang-at 3:0", "--hang-at 3:0 is there twice"),
        ("--link udp --run /proc/1/nowhere", "/proc/1/nowhere"),
    ] {
        let ended = surefoot(&format!("nic run {words}")).run();
        assert_eq!(ended.code, Some(2), "{words}: {}", ended.stderr);
        assert!(ended.stderr.contains(says), "{words}: {}", ended.stderr);
    }
    let ended = surefoot("nic inject --run /tmp --node 1").run();
    assert!(ended.code == Some(2) && ended.stderr.contains("name that of a `nic run`"), "{}", ended.stderr);
}

#[test]
fn a_stream_over_udp_goes_on_while_its_interfaces_are_hung() {
    let Some(_turn) = turn("nic::run::a_stream_over_udp_goes_on_while_its_interfaces_are_hung", Need::Nothing) else {
        return;
    };
    let mut running = Running::start("--messages 15000 --size 700 --link udp --hang-at 2000 --hang-at 4000:0");
    let begun = Instant::now();
    while running.parts("application").len() < 2 && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(200));
    let run = running.directory.display().to_string();
    let injected = surefoot(&format!("nic inject --run {run} --node 1")).run();
    assert!(injected.code == Some(0) || running.is_over(), "{}", injected.stderr);
    let (result, code) = running.result();
    assert_perfect(&result, 15_000);
    assert_eq!(code, 0);
    assert!(result["failure_count"].as_u64() >= Some(2), "{result}");
    assert!(result["recovery_count"].as_u64() >= result["failure_count"].as_u64(), "{result}");
}

#[test]
fn a_run_that_is_told_to_end_leaves_nothing_behind() {
    let Some(_turn) = turn("nic::run::a_run_that_is_told_to_end_leaves_nothing_behind", Need::Nothing) else { return };
    let running = Running::start("--messages 10000000 --link udp");
    let begun = Instant::now();
    while running.parts("application").len() < 2 && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
    }
    machine::signal(running.child.as_ref().unwrap().id(), "TERM");
    let (result, code) = running.result();
    assert_eq!((code, &result["is_complete"], &result["lost_count"]), (1, &false.into(), &0.into()), "{result}");
}

#[test]
fn interfaces_are_served_to_other_programs_and_recover_until_the_command_is_told_to_end() {
    let test = "nic::run::interfaces_are_served_to_other_programs_and_recover_until_the_command_is_told_to_end";
    let Some(_turn) = turn(test, Need::Nothing) else { return };
    let running = Running::start("--serve");
    let begun = Instant::now();
    let run = running.directory.display().to_string();
    while running.parts("interface").len() < 2 && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(running.parts("application").is_empty(), "the programs are others'");
    let injected = surefoot(&format!("nic inject --run {run} --node 0")).run();
    assert_eq!(injected.code, Some(0), "{}", injected.stderr);
    let recovered =
        || std::fs::read_to_string(running.directory.join("steps.0")).unwrap_or_default().contains("recovered");
    while !recovered() && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
    }
    machine::signal(running.child.as_ref().unwrap().id(), "TERM");
    let (result, code) = running.result();
    assert_eq!((code, &result["sent_count"], &result["is_complete"]), (0, &0.into(), &true.into()), "{result}");
    assert_eq!(result["failure_count"], 1, "{result}");
    assert!(result["recovery_count"].as_u64() >= Some(1), "{result}");
    assert!(!Path::new(&run).exists(), "the run directory is gone");
}

/// Stops all parts of a run and lets them go on, as a host that is frozen does. The daemons, which judge the others, stop first and go on
/// last: on a busy machine there is time between the first signal and the last.
fn freeze(running: &Running, length: Duration) {
    let kill = |signal: &str, kinds: &[&str]| {
        let ids: Vec<String> = kinds.iter().flat_map(|kind| running.parts(kind)).map(|id| id.to_string()).collect();
        assert!(Command::new("kill").arg(signal).args(&ids).status().unwrap().success(), "{signal} {ids:?}");
    };
    kill("-STOP", &["daemon", "interface", "application"]);
    std::thread::sleep(length);
    kill("-CONT", &["interface", "application", "daemon"]);
}

#[test]
fn a_host_that_is_frozen_is_not_taken_for_an_interface_that_hangs() {
    let test = "nic::run::a_host_that_is_frozen_is_not_taken_for_an_interface_that_hangs";
    let Some(_turn) = turn(test, Need::Nothing) else { return };
    let running = Running::start("--messages 10000000 --link udp");
    let begun = Instant::now();
    while running.parts("application").len() < 2 && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
    }
    // The programs begin to send.
    std::thread::sleep(Duration::from_secs(1));
    for _ in 0..7 {
        std::thread::sleep(Duration::from_millis(40));
        freeze(&running, Duration::from_millis(300));
    }
    machine::signal(running.child.as_ref().unwrap().id(), "TERM");
    let (result, _) = running.result();
    // Seven stops of 300 ms, each longer than a library waits for a message: by a clock that goes on meanwhile, four of them are enough.
    for by in ["library", "neighbour", "self_test"] {
        assert_eq!(result["detected_by"][by], Value::Null, "{result}");
    }
    assert_eq!(result["recovery_count"], 0, "{result}");
    assert_eq!(result["lost_count"], 0, "{result}");
    assert!(result["delivered_count"].as_u64() > Some(0), "{result}");
}

/// Kills, stops and wakes processes of a run at random, from a seed.
struct Storm(Random);

impl Storm {
    /// One blow; what it was.
    fn strike(&mut self, running: &Running) -> Option<&'static str> {
        let (kind, signal) = match self.0.below(5) {
            0 => ("daemon", "KILL"),
            1 | 2 => ("interface", "KILL"),
            _ => ("interface", "STOP"),
        };
        let parts = running.parts(kind);
        let id = *parts.get(self.0.below(parts.len() as u64) as usize)?;
        // It may have ended since.
        let send = |signal: &str| Command::new("kill").args([&format!("-{signal}"), &id.to_string()]).output().unwrap();
        send(signal);
        if signal == "STOP" && self.0.below(2) == 0 {
            std::thread::sleep(Duration::from_micros(self.0.below(20_000)));
            send("CONT");
        }
        Some(if kind == "daemon" {
            "daemon killed"
        } else if signal == "KILL" {
            "interface killed"
        } else {
            "interface stopped"
        })
    }
}

fn seconds(name: &str, usual: u64) -> Duration {
    Duration::from_secs(std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual))
}

#[test]
fn processes_that_are_killed_and_stopped_between_namespaces_lose_and_double_nothing() {
    const TEST: &str = "nic::run::processes_that_are_killed_and_stopped_between_namespaces_lose_and_double_nothing";
    let Some(_turn) = turn(TEST, Need::Root) else { return };
    if !Path::new("/proc/self/ns/net").exists()
        || !Command::new("ip").arg("-V").output().is_ok_and(|ip| ip.status.success())
    {
        return not_run(TEST, "network namespaces, or ip of iproute2, are missing");
    }
    let length = seconds("SUREFOOT_NIC_STORM_S", 4);
    let seed = std::env::var("SUREFOOT_NIC_STORM_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20_071);
    println!("seed {seed}");
    let mut storm = Storm(Random::new(seed));
    let count = 4_000 * length.as_secs().max(1);
    let mut running = Running::start(&format!("--messages {count} --size 1500 --link veth"));
    let begun = Instant::now();
    while running.parts("application").len() < 2 && !running.is_over() {
        assert!(begun.elapsed() < PATIENCE, "the run does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    if running.parts("application").is_empty() {
        let output = running.child.take().unwrap().wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
        return not_run(TEST, &String::from_utf8_lossy(&output.stderr));
    }
    let mut blows = std::collections::BTreeMap::new();
    let begun = Instant::now();
    while (begun.elapsed() < length || blows.len() < 3) && !running.is_over() {
        if let Some(blow) = storm.strike(&running) {
            *blows.entry(blow).or_insert(0) += 1;
        }
        std::thread::sleep(Duration::from_millis(5 + storm.0.below(60)));
    }
    println!("{blows:?}");
    assert!(blows.len() == 3, "each kind of blow was struck");
    let (result, code) = running.result();
    assert_perfect(&result, count);
    assert_eq!(code, 0);
    assert!(result["recovery_count"].as_u64() > Some(0), "{result}");
}
