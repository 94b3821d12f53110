use crate::client::{address, get, get_json, wait_for};
use crate::metrics::validate;
use serde_json::Value;
use std::fs;
use std::ops::Deref;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;
use surefoot_checkpoint::controller::{Fixed, Surefoot};
use surefoot_checkpoint::session::journal::{JOURNAL_BYTES_MAX, JOURNAL_NAME, LINE_BYTES_MAX};
use surefoot_checkpoint::{Alone, Checkpointer, Policy};
use surefoot_daemon::rooms::{Options, checkpoint};
use surefoot_daemon::sources::Sources;
use surefoot_daemon::{Config, Mode, Server};
use surefoot_hostfs::Root;
use surefoot_model::{Health, Room, Severity};

/// Length of a job's state.
const STATE_BYTES: usize = 50_000;

/// A memory and a durable tier.
struct Job {
    home: tempfile::TempDir,
}

impl Job {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        for tier in ["memory", "ssd"] {
            fs::create_dir(home.path().join(tier)).unwrap();
        }
        Job { home }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.home.path().join(below)
    }

    fn open(&self, name: &str, policy: Policy) -> Checkpointer {
        let ssd = self.path("ssd");
        let mut config = surefoot_checkpoint::Config::new(name, self.path("memory"), Some(ssd));
        config.policy = policy;
        config.health_file = self.path("health.json");
        config.drive_file = None;
        for (name, value) in [("rated_bytes", "1e15"), ("written_bytes", "1e14"), ("remaining_years", "1")] {
            config.set(&format!("endurance.{name}"), value).unwrap();
        }
        let mut job = Checkpointer::open(config, Box::new(Alone)).unwrap();
        fs::write(job.route_file("state").unwrap(), vec![7; STATE_BYTES]).unwrap();
        job
    }

    /// A session with four checkpoints, of which the second and the fourth are durable.
    fn run(&self, name: &str) -> Checkpointer {
        let mut job = self.open(name, Policy::Fixed(Fixed::PaperNth(2)));
        job.restart().unwrap();
        for _ in 0..4 {
            job.checkpoint().unwrap();
        }
        job
    }
}

/// A server and the source that looks into its directories.
struct Watched {
    server: Arc<Server>,
    stop: &'static AtomicBool,
    source: JoinHandle<()>,
}

impl Deref for Watched {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Watched {
    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.source.join().unwrap();
        Arc::into_inner(self.server).unwrap().stop();
    }
}

fn watched(config: Config, root: &Root) -> Watched {
    let sources = Sources::new()
        .with("checkpoint", checkpoint::source(root, config.rooms.checkpoints.clone(), &config.rooms.settings));
    let statistics = sources.statistics();
    let server = Arc::new(Server::start(Config { sources: statistics.clone(), ..config }).unwrap());
    let stop: &'static AtomicBool = Box::leak(Box::default());
    let running = sources.start(&statistics, stop, None).unwrap();
    let publish = Arc::clone(&server);
    let source = std::thread::spawn(move || {
        while let Some(events) = running.next_turn() {
            events.into_iter().for_each(|event| publish.publish(event));
        }
    });
    Watched { server, stop, source }
}

fn server(directories: &[PathBuf]) -> Watched {
    watched(
        Config { rooms: Options { checkpoints: directories.to_vec(), ..Options::default() }, ..Config::default() },
        &Root::host(),
    )
}

fn ask(server: &Server) -> Value {
    get_json(address(server), "/api/v1/checkpoints")
}

/// The answer of a look that began after this call and that has what is wanted.
fn look(server: &Server, what: &str, has: impl Fn(&Value) -> bool) -> Value {
    let before = ask(server)["looked_realtime_ns"].as_u64();
    wait_for(what, || {
        let answer = ask(server);
        (answer["looked_realtime_ns"].as_u64() > before && has(&answer)).then_some(answer)
    })
}

/// Number, tier and state of each generation.
fn generations(job: &Value) -> Vec<(u64, String, String)> {
    let word = |one: &Value, field: &str| one[field].as_str().unwrap().to_owned();
    let row = |one: &Value| (one["number"].as_u64().unwrap(), word(one, "tier"), word(one, "state"));
    job["generations"].as_array().unwrap().iter().map(row).collect()
}

fn row(number: u64, tier: &str, state: &str) -> (u64, String, String) {
    (number, tier.into(), state.into())
}

#[test]
fn a_job_is_shown_with_its_generations_and_the_reasons_of_its_decisions() {
    let job = Job::new();
    let running = job.run("cfd/wing");
    let server = server(&[job.home.path().to_owned()]);
    let answer = look(&server, "the job", |answer| answer["jobs"][0]["is_running"] == true);
    assert_eq!((&answer["version"], &answer["why"]), (&env!("CARGO_PKG_VERSION").into(), &Value::Null));
    assert_eq!((answer["jobs"].as_array().unwrap().len(), &answer["problems"]), (1, &serde_json::json!([])));
    let found = &answer["jobs"][0];
    assert_eq!((&found["name"], &found["ranks"]), (&"cfd/wing".into(), &1.into()));
    assert_eq!(
        generations(found),
        [
            row(4, "durable", "complete"),
            row(3, "memory", "complete"),
            row(2, "durable", "complete"),
            row(1, "memory", "complete")
        ]
    );
    let newest = &found["generations"][0];
    assert_eq!((&newest["payload_bytes"], &newest["ranks_here"]), (&50_000.into(), &1.into()));
    assert_eq!(found["durable_realtime_ns"], newest["taken_realtime_ns"]);
    assert_eq!(found["memory_realtime_ns"], found["generations"][1]["taken_realtime_ns"]);
    assert_eq!(found["directories"].as_array().unwrap().len(), 2);
    let finding = &found["findings"][0];
    assert_eq!((&finding["severity"], &finding["key"]), (&"ok".into(), &"checkpoint/durable/job/cfd/wing".into()));

    let events = found["events"].as_array().unwrap();
    let kinds: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["opened", "restart", "decision", "decision", "decision", "decision"]);
    assert_eq!(events[3]["place"], "ssd");
    assert_eq!(events[3]["reasons"], serde_json::json!(["number 2 is one of every 2 for the SSD"]));
    let state = &found["state"];
    assert_eq!((&state["policy"], &state["staleness_max_s"]), (&"paper-every:2".into(), &Value::Null));
    assert_eq!(state["decided"], serde_json::json!({ "memory": 2, "ssd": 2 }));
    assert!(state["budget_bytes_per_s"].as_f64().is_some_and(|rate| rate > 2e7 && rate < 4e7), "{state}");

    let directory = &answer["directories"][0];
    assert_eq!(directory["path"], job.home.path().to_str().unwrap());
    assert_eq!(directory["tiers"], serde_json::json!(["memory", "durable"]));
    assert!(directory["free_bytes"].as_u64().unwrap() > 0 && directory["file_system"].is_string(), "{directory}");

    drop(running);
    look(&server, "its end", |answer| answer["jobs"][0]["is_running"] == false);
    server.stop();
}

#[test]
fn what_is_missing_is_said() {
    let job = Job::new();
    drop(job.run("wing"));
    let ssd: Vec<PathBuf> = fs::read_dir(job.path("ssd/wing")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let of = |number: &str| ssd.iter().find(|path| path.to_string_lossy().contains(number)).unwrap();
    fs::remove_file(of("0000000002-").join("commit")).unwrap();
    fs::write(of("0000000004-").join("rank-00000.manifest"), "spoilt").unwrap();
    for name in ["slot-0.manifest", "slot-0.copy"] {
        fs::write(job.path("memory/wing/rank-00000").join(name), "spoilt").unwrap();
    }
    symlink("/dev/zero", job.path("memory/wing").join("link")).unwrap();
    let server = server(&[job.path("memory"), job.path("ssd"), job.path("none"), job.path("memory/wing")]);
    let answer = look(&server, "a look", |_| true);
    let found = &answer["jobs"][0];
    assert_eq!(answer["jobs"].as_array().unwrap().len(), 1, "{answer:#}");
    let words = generations(found);
    assert_eq!(words[0], row(4, "durable", "damaged"));
    assert_eq!(words[2], row(2, "durable", "unfinished"));
    assert_eq!(words.len(), 3, "one in memory cannot be told: {words:?}");
    assert!(found["generations"][0]["missing"].as_str().unwrap().starts_with("rank 0: "), "{found:#}");
    assert_eq!(found["durable_realtime_ns"], Value::Null);
    assert!(answer["problems"].to_string().contains("rank-00000"), "{}", answer["problems"]);
    let none = answer["directories"][2]["problem"].as_str().unwrap();
    assert!(none.contains("none") && none.contains("No such file"), "{none}");
    assert_eq!(answer["directories"][0]["problem"], Value::Null);
    server.stop();
}

#[test]
fn where_no_directory_is_named_it_says_how_to() {
    // As in the watch, no source looks where no directory is named.
    let live = Server::start(Config::default()).unwrap();
    let answer = ask(&live);
    assert!(answer["why"].as_str().unwrap().contains("surefoot watch --checkpoints DIR"), "{answer}");
    assert_eq!((&answer["jobs"], &answer["looked_realtime_ns"]), (&serde_json::json!([]), &Value::Null));
    let refused = get(address(&live), "/api/v1/checkpoints?job=x");
    assert!(refused.status == 400 && refused.error().contains("allowed: none"));
    assert!(!get(address(&live), "/metrics").text().contains("surefoot_checkpoint"));
    live.stop();
    let mode = Mode::Replay { file: "night.surefoot".into() };
    let checkpoints = vec![std::env::temp_dir()];
    let replay =
        Server::start(Config { mode, rooms: Options { checkpoints, ..Options::default() }, ..Config::default() })
            .unwrap();
    assert!(ask(&replay)["why"].as_str().unwrap().contains("this recording holds no checkpoints"));
    replay.stop();
}

#[test]
fn drives_are_shown_where_their_wear_is_published() {
    let job = Job::new();
    drop(job.run("wing"));
    let tree = tempfile::tempdir().unwrap();
    fs::create_dir_all(tree.path().join("run/surefoot")).unwrap();
    fs::create_dir_all(tree.path().join("proc/sys/kernel/random")).unwrap();
    fs::write(tree.path().join("proc/sys/kernel/random/boot_id"), "this-boot\n").unwrap();
    let packed = fs::metadata(job.path("ssd")).unwrap().dev();
    let (major, minor) = ((packed >> 8) & 0xfff, (packed & 0xff) | ((packed >> 12) & 0xfff00));
    let drive = |name: &str, number: &str| {
        serde_json::json!({ "name": name, "device_numbers": [number], "model": "a model", "size_bytes": 1, "is_rotational": false,
            "percent_used": { "value": 12, "source": "nvme_health_log" } })
    };
    let publish = |boot_id: &str| {
        let drives = [drive("nvme0n1", &format!("{major}:{minor}")), drive("nvme1n1", "999:999")];
        let report = serde_json::json!({ "version": 1, "read_realtime_ns": 5, "boot_id": boot_id, "drives": drives, "dropped_count": 0 });
        fs::write(tree.path().join("run/surefoot/drives.json"), report.to_string()).unwrap();
    };
    publish("this-boot");
    let config =
        Config { rooms: Options { checkpoints: vec![job.path("ssd")], ..Options::default() }, ..Config::default() };
    let server = watched(config, &Root::at(tree.path()));
    let answer = look(&server, "a look", |_| true);
    assert_eq!(answer["directories"][0]["drives"], serde_json::json!(["nvme0n1"]), "{answer:#}");
    let drives = answer["drives"]["drives"].as_array().unwrap();
    assert_eq!(drives.len(), 1, "those beneath the directories only");
    assert_eq!(drives[0]["percent_used"]["value"], 12);
    assert_eq!(answer["directories"][0]["file_system"], Value::Null, "this tree has no list of mounts");
    assert_eq!(answer["jobs"][0]["is_running"], Value::Null, "nor of locks");
    publish("an-earlier-boot");
    let answer = look(&server, "another boot", |answer| answer["drives"].is_null());
    assert!(answer["problems"].to_string().contains("earlier start of the machine"), "{}", answer["problems"]);
    fs::write(tree.path().join("run/surefoot/drives.json"), "{}").unwrap();
    look(&server, "a file that is none", |answer| answer["problems"].to_string().contains("missing field"));
    fs::remove_file(tree.path().join("run/surefoot/drives.json")).unwrap();
    look(&server, "no file", |answer| answer["problems"] == serde_json::json!([]));
    server.stop();
}

#[test]
fn metrics_and_health_know_the_age_of_the_durable_copy() {
    let job = Job::new();
    drop(job.run("wing"));
    let policy = Surefoot { staleness_max_s: 0.001, ..Surefoot::default() };
    let mut running = job.open("bound/to-age", Policy::Surefoot(policy));
    running.checkpoint().unwrap();
    running.finish().unwrap();
    let run = tempfile::tempdir().unwrap();
    let config = Config {
        rooms: Options { checkpoints: vec![job.home.path().to_owned()], ..Options::default() },
        run_directory: Some(run.path().to_owned()),
        ..Config::default()
    };
    let server = watched(config, &Root::host());
    look(&server, "both jobs", |answer| answer["jobs"].as_array().unwrap().len() == 2);
    let text = get(address(&server), "/metrics").text().to_owned();
    let samples = validate(&text);
    let is = |series: &str| samples.get(series).copied().unwrap_or_else(|| panic!("no {series} in {text}"));
    assert_eq!(is(r#"surefoot_checkpoint_decisions_total{job="wing",place="ssd"}"#), 2.0);
    assert_eq!(is(r#"surefoot_checkpoint_generations{job="wing",tier="durable",state="complete"}"#), 2.0);
    assert_eq!(is(r#"surefoot_checkpoint_generations{job="wing",tier="durable",state="damaged"}"#), 0.0);
    assert!(is(r#"surefoot_checkpoint_stored_bytes{job="wing",tier="memory"}"#) >= 100_000.0);
    assert!(is(r#"surefoot_checkpoint_durable_age_seconds{job="wing"}"#) < 600.0);
    assert!(is(r#"surefoot_checkpoint_memory_age_seconds{job="wing"}"#) < 600.0);
    assert_eq!(is(r#"surefoot_checkpoint_durable_age_limit_seconds{job="bound/to-age"}"#), 0.001);
    assert!(is(r#"surefoot_checkpoint_written_bytes_total{job="wing"}"#) >= 50_000.0);
    assert!(is("surefoot_checkpoint_look_age_seconds") < 60.0);
    assert_eq!(is("surefoot_checkpoint_problems"), 0.0);

    let health = || fs::read_to_string(run.path().join("health.json")).unwrap_or_default();
    let words = "older than its bound of 1 ms";
    let stale = wait_for("the stale copy in health.json", || health().contains(words).then(health));
    let stale: Health = serde_json::from_str(&stale).unwrap();
    let worst = stale.worst(Room::Checkpoint, Severity::Warning).unwrap();
    // Every user can read the file, and the name of a job is not for every user.
    assert!(worst.subject.name.starts_with("job-") && !health().contains("bound/to-age"), "{worst:?}");
    assert!(!health().contains("'wing'"), "a job without a bound, that runs no more");
    assert_eq!(
        is(
            r#"surefoot_finding{room="checkpoint",rule="durable",subject="job bound/to-age",severity="warning",certainty="certain"}"#
        ),
        1.0
    );
    drop(running);
    wait_for("the end of the job in health.json", || (!health().contains(words) && !health().is_empty()).then_some(()));
    server.stop();
}

#[test]
fn a_shared_directory_is_told_from_the_ssd_by_what_its_job_says() {
    let job = Job::new();
    fs::create_dir(job.path("scratch")).unwrap();
    symlink(job.path("scratch"), job.path("link")).unwrap();
    let mut config = surefoot_checkpoint::Config::new("wing", job.path("memory"), Some(job.path("ssd")));
    config.policy = Policy::Fixed(Fixed::Durable);
    config.set("shared", job.path("link").to_str().unwrap()).unwrap();
    config.set("shared.every", "1").unwrap();
    let mut running = Checkpointer::open(config, Box::new(Alone)).unwrap();
    fs::write(running.route_file("state").unwrap(), vec![7; STATE_BYTES]).unwrap();
    running.checkpoint().unwrap();
    running.finish().unwrap();
    let server = server(&[job.path("memory"), job.path("ssd"), job.path("scratch")]);
    let answer = look(&server, "a look", |_| true);
    let mut found = generations(&answer["jobs"][0]);
    found.sort();
    assert_eq!(found, [row(1, "durable", "complete"), row(1, "shared", "complete")], "{answer:#}");
    assert_eq!(answer["directories"][2]["tiers"], serde_json::json!(["shared"]));
    assert_eq!(answer["directories"][1]["tiers"], serde_json::json!(["durable"]));
    let events = answer["jobs"][0]["events"].as_array().unwrap();
    let shared = events.iter().find(|event| event["event"] == "durable" && event["tier"] == "shared").unwrap();
    assert!(shared["generation"] == 1 && shared["bytes"].as_u64().unwrap() >= 50_000, "{shared}");
    server.stop();
}

/// Fills a tier with what nobody could want to look at.
fn spoil(directory: &Path) {
    for job in 0..300 {
        let path = directory.join(format!("job-{job}"));
        fs::create_dir(&path).unwrap();
        let line = format!(
            "{{\"realtime_ns\":1,\"event\":\"restart\",\"report\":\"{}\"}}\n",
            "x".repeat(LINE_BYTES_MAX - 100)
        );
        let lines = JOURNAL_BYTES_MAX as usize / line.len() / 8;
        fs::write(path.join(JOURNAL_NAME), line.repeat(lines)).unwrap();
    }
    // Behind the jobs in the order of the names.
    let crowd = directory.join("the-crowd");
    fs::create_dir(&crowd).unwrap();
    for generation in 0..400 {
        let path = crowd.join(format!("{generation:010}-{generation:016x}"));
        fs::create_dir(&path).unwrap();
        for rank in 0..60 {
            fs::write(path.join(format!("rank-{rank:05}.manifest")), "").unwrap();
        }
    }
    let pipe = directory.join("pipe");
    fs::create_dir(&pipe).unwrap();
    symlink("/dev/zero", pipe.join(JOURNAL_NAME)).unwrap();
    symlink(directory, directory.join("loop")).unwrap();
}

#[test]
fn a_hostile_directory_costs_a_bounded_answer_and_no_other_route() {
    let tier = tempfile::tempdir().unwrap();
    spoil(tier.path());
    let server = server(&[tier.path().to_owned()]);
    assert_eq!(get(address(&server), "/api/v1/snapshot").status, 200, "nobody waits for a look");
    let answer = look(&server, "a look", |_| true);
    assert_eq!(answer["is_cut"], true, "more copies and journals than are looked at");
    assert!(answer["jobs"].as_array().unwrap().len() <= 64 && answer["jobs_left_out"].as_u64().unwrap() > 100);
    assert!(get(address(&server), "/api/v1/checkpoints").body.len() <= 6 << 20);
    assert!(answer["problems"].as_array().unwrap().len() <= 100 && answer["problems_left_out"].as_u64().is_some());
    assert!(answer["problems"].to_string().contains("left out"));
    validate(get(address(&server), "/metrics").text());
    let begun = Instant::now();
    server.stop();
    assert!(begun.elapsed().as_secs() < 10, "it ends, whatever it looks at");
}
