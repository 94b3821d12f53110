//! Every address by who asks: what a user without rights is shown beside root, from the server's own list of addresses.
//!
//! Words that are root's are planted in every room; an address that is not in the table fails, and so does a word that gets out.

use crate::client::{PATIENCE, address, get, get_json, wait_for};
use crate::data::{SECOND_NS, busy_window, host, interrupt, lost, notice, raiser, who};
use serde_json::json;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use surefoot_daemon::rooms::nic::campaign::{CampaignFile, Options};
use surefoot_daemon::{Config, Server, rooms};
use surefoot_hostfs::clock::{monotonic_ns, realtime_offset_ns};
use surefoot_model::{
    CauseKind, Certainty, CheckState, CheckpointEvent, CheckpointJob, CheckpointLook, CheckpointProblem,
    CheckpointTier, DisturbEvent, Event, ExperimentBegan, Generation, GenerationState, Health, HostCheck,
    HostDescription, Interface, InterfaceEvent, InterfaceLook, MemoryEvent, MemoryLook, WhoReport,
};
use surefoot_testkit::not_run::not_run;

/// In every word that only root and who sees everything may read.
const PRIVATE: &str = "PRIVATE-";
/// Of series without names, which are for everybody.
const DEEDS_SERIES: &str = "surefoot_watch_deeds_total{room=\"remedy\"";
/// In words that everybody may read: modules and interfaces are the host's.
const PUBLIC: &str = "PUBLIC-";
const NOBODY: u32 = 65_534;
/// The history as it was just kept.
const HISTORY: &str = "/api/v1/history?resolution=second";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// Everybody gets the same; nothing private is behind it.
    Same,
    /// Everybody gets the same, and the room's public word was planted there.
    Everything,
    /// Root sees private words, others do not.
    WithoutPrivate,
    /// Nobody else gets an answer: 403 or 404, whatever is asked for. Root sees private words.
    Refused,
    /// The same where root must say more to see anything.
    RefusedFirst,
}

/// What a user other than root is shown at each address.
const TABLE: &[(&str, Shown)] = &[
    ("/", Shown::Same),
    ("/open", Shown::RefusedFirst),
    ("/metrics", Shown::WithoutPrivate),
    ("/api/v1", Shown::Same),
    ("/api/v1/overview", Shown::WithoutPrivate),
    ("/api/v1/capabilities", Shown::Same),
    ("/api/v1/history", Shown::Refused),
    ("/api/v1/events", Shown::WithoutPrivate),
    ("/api/v1/snapshot", Shown::WithoutPrivate),
    ("/api/v1/report", Shown::WithoutPrivate),
    ("/api/v1/who", Shown::WithoutPrivate),
    ("/api/v1/memory", Shown::Everything),
    ("/api/v1/memory/interval", Shown::Same),
    ("/api/v1/checkpoints", Shown::WithoutPrivate),
    ("/api/v1/nic", Shown::Everything),
    ("/api/v1/nic/campaign", Shown::WithoutPrivate),
    ("/api/v1/nic/movie", Shown::RefusedFirst),
    ("/api/v1/disturb", Shown::WithoutPrivate),
    ("/api/v1/remedy", Shown::WithoutPrivate),
    ("/api/v1/deeds", Shown::WithoutPrivate),
];

/// A word that is root's, told apart by where it was planted.
fn private(place: &str) -> String {
    format!("{PRIVATE}{place}")
}

fn planted() -> Vec<Event> {
    // Of now, so that the history shows it.
    let mut window = busy_window(monotonic_ns());
    let of_task = lost(CauseKind::Preemption, &private("task"), 3, 50_000);
    window.cores[0].user_ns -= of_task.total_ns;
    window.cores[0].lost.push(of_task);
    let raisers = vec![raiser(Certainty::Certain, &private("raiser"), 71, 40)];
    let report = who(9 * SECOND_NS);
    let interrupts = vec![interrupt(1, CauseKind::TlbShootdown, "flush_tlb_func", raisers)];
    let report = WhoReport { interrupts, ..report };
    let check = HostCheck {
        name: "keys".into(),
        state: CheckState::Critical,
        sentence: format!("{} is gone.", private("check-sentence")),
        evidence: vec![private("check-evidence")],
        ..HostCheck::default()
    };
    let of_root = ExperimentBegan {
        experiment: "2026-1".into(),
        uid: Some(0),
        is_of_cores: true,
        disturbance: "freeze".into(),
        workload: private("workload"),
        ..ExperimentBegan::default()
    };
    let of_another = ExperimentBegan {
        experiment: private("experiment"),
        uid: Some(4242),
        is_of_cores: true,
        disturbance: private("disturbance"),
        method: private("method"),
        period_ns: 1_000,
        ..ExperimentBegan::default()
    };
    let job = CheckpointJob { name: private("job"), uid: Some(4242), ..CheckpointJob::default() };
    // Root's and the daemon's own jobs are in health.json; a recording does not say whose a job is.
    let job_of = |name: &str, uid| {
        let problem = CheckpointProblem { path: private("problem-path"), why: private("problem"), uid };
        (CheckpointJob { name: private(name), uid, generations: vec![damaged()], ..CheckpointJob::default() }, problem)
    };
    let (job_of_root, problem) = job_of("roots-job", Some(0));
    let (job_of_nobody, _) = job_of("nobodys-job", None);
    let deed = json!({
        "at_realtime_ns": 1, "begun_realtime_ns": 1, "room": "remedy", "subject": {"kind": "host", "name": ""},
        "actor": {"kind": "controller", "name": private("actor")}, "action": "run_hook",
        "target": {"kind": "hook", "path": private("hook")},
        "reason": {"kind": "case", "case": 3, "fault": private("fault"), "service": private("service")},
        "outcome": {"kind": "failed", "error": private("error")},
    });
    let modules = MemoryLook { unsupported: Some(format!("{PUBLIC}modules")), ..MemoryLook::default() };
    let interface = Interface { name: format!("{PUBLIC}nic"), ..Interface::default() };
    vec![
        Event::Memory(MemoryEvent::Look(modules)),
        Event::Interface(InterfaceEvent::Look(InterfaceLook {
            interfaces: vec![interface],
            ..InterfaceLook::default()
        })),
        Event::Host(HostDescription { realtime_offset_ns: realtime_offset_ns(), ..host() }),
        Event::Window(window),
        Event::Who(Box::new(report)),
        notice(&private("notice")),
        Event::Check(Box::new(check)),
        Event::Disturb(DisturbEvent::Began(of_root.into())),
        Event::Disturb(DisturbEvent::Began(of_another.into())),
        Event::Checkpoint(CheckpointEvent::Job(job)),
        Event::Checkpoint(CheckpointEvent::Job(job_of_root)),
        Event::Checkpoint(CheckpointEvent::Job(job_of_nobody)),
        Event::Checkpoint(CheckpointEvent::Look(CheckpointLook {
            looked_realtime_ns: 1,
            problems: vec![problem],
            ..CheckpointLook::default()
        })),
        Event::Deed(Box::new(serde_json::from_value(deed.clone()).unwrap())),
        Event::Deed(Box::new(serde_json::from_value(of_another_host(deed)).unwrap())),
    ]
}

/// The same as a controller does it on another host of its fleet.
fn of_another_host(mut deed: serde_json::Value) -> serde_json::Value {
    deed["subject"]["name"] = json!(private("host"));
    deed
}

/// A checkpoint that is damaged, in a place that is root's to know.
fn damaged() -> Generation {
    Generation {
        number: 1,
        nonce: String::new(),
        tier: CheckpointTier::Durable,
        state: GenerationState::Damaged,
        missing: private("missing"),
        taken_realtime_ns: Some(1),
        ranks_here: 1,
        ranks: 1,
        payload_bytes: Some(1),
        stored_bytes: 1,
        protection: "shard".into(),
        directory: private("directory"),
    }
}

/// Status and answer as this user gets them. Of a stream root is given the first line with a private word, and others what comes within
/// a moment once it has begun.
fn as_user(uid: u32, address: SocketAddr, path: &str) -> (u16, String) {
    let (ip, port, patience) = (address.ip(), address.port(), PATIENCE.as_secs());
    let first = format!("IFS= read -r -t {patience} line <&3; printf '%s\\n' \"$line\"");
    let read = match (path.ends_with("/events"), uid) {
        (false, _) => format!("timeout {patience} cat <&3"),
        (true, 0) => format!("{first}; timeout {patience} grep -m 1 {PRIVATE} <&3"),
        (true, _) => format!("{first}; timeout 1 cat <&3"),
    };
    let script = format!(
        "exec 3<>/dev/tcp/{ip}/{port}; printf 'GET {path} HTTP/1.0\\r\\nHost: {address}\\r\\n\\r\\n' >&3; {read}"
    );
    let output = Command::new("bash").args(["-c", &script]).uid(uid).gid(uid).current_dir("/").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("HTTP/1."), "{path}: {text}{}", String::from_utf8_lossy(&output.stderr));
    (text.split(' ').nth(1).unwrap().parse().unwrap(), text)
}

/// A server in which every room knows something that is root's, and its run directory.
fn server() -> (Server, tempfile::TempDir) {
    let run = tempfile::tempdir().unwrap();
    let campaign = run.path().join(private("campaign"));
    std::fs::write(&campaign, "no line of a campaign\n").unwrap();
    let files = vec![Arc::new(CampaignFile::open(&campaign).unwrap())];
    let campaigns = Options { files, experiments: Vec::new() };
    let config = Config {
        run_directory: Some(run.path().join("run")),
        history: Some(run.path().join("history.db")),
        rooms: rooms::Options { campaigns, ..rooms::Options::default() },
        ..Config::default()
    };
    std::fs::create_dir(run.path().join("run")).unwrap();
    let server = Server::start(config).unwrap();
    planted().into_iter().for_each(|event| server.publish(event));
    let address = address(&server);
    wait_for("the newest event", || {
        let deeds = get_json(address, "/api/v1/deeds")["deeds"].as_array().map_or(0, Vec::len);
        (deeds > 2).then_some(())
    });
    wait_for("the history of it", || get(address, HISTORY).text().contains(PRIVATE).then_some(()));
    (server, run)
}

/// What this user gets while notices of root's come.
fn while_told(server: &Server, uid: u32, path: &str) -> (u16, String) {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                server.publish(notice(&private("live")));
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let answer = as_user(uid, address(server), path);
        is_done.store(true, Ordering::Relaxed);
        answer
    })
}

#[test]
fn every_address_shows_each_viewer_what_the_table_says() {
    const TEST: &str = "viewers::every_address_shows_each_viewer_what_the_table_says";
    if !surefoot_hostfs::privilege::effective_user().eq(&0) {
        return not_run(TEST, "asking as another user needs root");
    }
    let (server, _run) = server();
    let address = address(&server);
    let index = get_json(address, "/api/v1");
    let listed: Vec<&str> =
        index["addresses"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap()).collect();
    let mut faults = Vec::new();
    for (path, _) in TABLE {
        if !listed.contains(path) {
            faults.push(format!("{path}: the table has it, the server does not"));
        }
    }
    for path in listed {
        let Some((_, shown)) = TABLE.iter().find(|(known, _)| *known == path) else {
            faults.push(format!("{path}: no expectation; say in the table what a user without rights is shown"));
            continue;
        };
        let asked = if HISTORY.starts_with(&format!("{path}?")) { HISTORY } else { path };
        let (of_root, told) = while_told(&server, 0, asked);
        let (status, answer) = while_told(&server, NOBODY, asked);
        if let Some((_, word)) = answer.split_once(PRIVATE) {
            faults.push(format!("{path}: shows {}", word.chars().take(20).collect::<String>()));
        }
        match shown {
            Shown::Same | Shown::Everything if told.contains(PRIVATE) => {
                faults.push(format!("{path}: has private words; it is not the same"))
            }
            Shown::Same | Shown::Everything if status != of_root => {
                faults.push(format!("{path}: {status}, for root {of_root}"));
            }
            Shown::Everything if !(told.contains(PUBLIC) && answer.contains(PUBLIC)) => {
                faults.push(format!("{path}: the planted word is missing, for root: {}", !told.contains(PUBLIC)));
            }
            Shown::Refused | Shown::RefusedFirst if !matches!(status, 403 | 404) => {
                faults.push(format!("{path}: {status}"));
            }
            Shown::WithoutPrivate if path == "/metrics" && !answer.contains(DEEDS_SERIES) => {
                faults.push(format!("{path}: {DEEDS_SERIES} is missing"));
            }
            Shown::WithoutPrivate if status != 200 => faults.push(format!("{path}: {status}")),
            Shown::WithoutPrivate | Shown::Refused if !told.contains(PRIVATE) => {
                faults.push(format!("{path}: root is shown nothing private, so this shows nothing"));
            }
            _ => {}
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    server.stop();
}

#[test]
fn health_json_tells_everybody_nothing_private_of_roots_checks_and_jobs() {
    let (server, run) = server();
    let file = run.path().join("run").join(Health::FILE_NAME);
    let text = wait_for("health.json with the check", || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let has_both = text.contains("Check keys: critical.") && text.contains("checkpoint/damaged/job/job-");
        has_both.then_some(text)
    });
    assert!(!text.contains(PRIVATE), "{text}");
    // The daemon's own user is shown everything on the page.
    assert!(get(address(&server), "/api/v1/remedy").text().contains("PRIVATE-check-sentence is gone."));
    server.stop();
}
