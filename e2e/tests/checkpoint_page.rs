//! The page of checkpoints in a real browser: e2e/browser/checkpoints.mjs drives Chromium against the real command,
//! which looks at the directories of a job that runs.

use crate::browser::{in_a_shell, missing, run_script};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use surefoot_checkpoint::controller::{Fixed, Surefoot};
use surefoot_checkpoint::{Alone, Checkpointer, Config, Policy};
use surefoot_e2e::command::{PATIENCE, surefoot};
use surefoot_e2e::http;
use surefoot_e2e::machine::{Need, turn};
use surefoot_testkit::hanging::HangingFileSystem;
use surefoot_testkit::not_run::not_run;

/// A memory tier on a memory file system where there is one, and an SSD's.
struct Tiers {
    memory: tempfile::TempDir,
    ssd: tempfile::TempDir,
}

impl Tiers {
    fn new() -> Self {
        let memory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        Tiers { memory, ssd: tempfile::tempdir().unwrap() }
    }

    fn open(&self, name: &str, policy: Policy) -> Checkpointer {
        let mut config = Config::new(name, self.memory.path(), Some(self.ssd.path().to_owned()));
        config.policy = policy;
        config.set("drive_file", "none").unwrap();
        config.set("endurance.rated_bytes", "600e12").unwrap();
        config.set("endurance.written_bytes", "90e12").unwrap();
        Checkpointer::open(config, Box::new(Alone)).unwrap()
    }

    /// A job whose newest checkpoint on the SSD is spoilt, and whose name is as odd as one may be.
    fn with_damage(&self) {
        let mut job = self.open("odd:[name]", Policy::Fixed(Fixed::PaperNth(2)));
        fs::write(job.route_file("state").unwrap(), [7; 10_000]).unwrap();
        for _ in 0..4 {
            job.checkpoint().unwrap();
        }
        drop(job);
        let newest = fs::read_dir(self.ssd.path().join("odd:[name]")).unwrap();
        let newest = newest.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).max().unwrap();
        fs::write(newest.join("rank-00000.manifest"), "<img src=x onerror=alert(1)>").unwrap();
    }
}

/// A job that takes a checkpoint now and then, as a program of its own would.
struct Program {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Program {
    fn start(tiers: &Tiers, bytes: usize, staleness_max_s: f64, every: Duration) -> Self {
        let policy = Surefoot { staleness_max_s, ..Surefoot::default() };
        let mut job = tiers.open("cfd/wing", Policy::Surefoot(policy));
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let run = move || {
            let state = job.route_file("state").unwrap();
            job.restart().unwrap();
            for step in 0u8.. {
                fs::write(&state, vec![step; bytes]).unwrap();
                job.checkpoint().unwrap();
                let next = Instant::now() + every;
                while Instant::now() < next && !ends.load(Ordering::Relaxed) {
                    // As a program asks in each of its steps; so it is noticed soon when a copy is durable.
                    job.need_checkpoint().unwrap();
                    std::thread::sleep(Duration::from_millis(20));
                }
                if ends.load(Ordering::Relaxed) || step == u8::MAX {
                    return;
                }
            }
        };
        Program { is_over, thread: Some(std::thread::spawn(run)) }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[test]
fn the_page_shows_a_running_job_s_checkpoints_in_a_browser() {
    const TEST: &str = "the_page_shows_a_running_job_s_checkpoints_in_a_browser";
    let Some(_turn) = turn(TEST, Need::Nothing) else { return };
    if let Some(why) = missing() {
        return not_run(TEST, &why);
    }
    let (tiers, folder) = (Tiers::new(), tempfile::tempdir().unwrap());
    tiers.with_damage();
    // A busy machine keeps a job from writing for seconds.
    let program = Program::start(&tiers, 2 << 20, 10.0, Duration::from_millis(700));
    let watch = surefoot("watch --port 0 --no-history --run-directory").arg(folder.path());
    let watch = watch.arg("--checkpoints").arg(tiers.memory.path()).arg("--checkpoints").arg(tiers.ssd.path());
    let said: Value =
        serde_json::from_str(&run_script("checkpoints.mjs", watch.start(), "live", folder.path())).unwrap();
    // What the page offers to copy does what it says, on what a job has left.
    drop(program);
    let command = said["command"].as_str().unwrap();
    assert!(command.starts_with("surefoot checkpoint verify /"), "{command}");
    let checked = in_a_shell(command, folder.path());
    let text = String::from_utf8_lossy(&checked.stdout);
    assert!(text.contains("cfd/wing") && text.contains("whole") && !text.contains("odd:"), "{text}");
}

#[test]
fn a_directory_that_does_not_answer_hides_no_other_job_and_keeps_no_watch_from_ending() {
    let test = "a_directory_that_does_not_answer_hides_no_other_job_and_keeps_no_watch_from_ending";
    let Some(_turn) = turn(test, Need::Nothing) else { return };
    let mounted = match HangingFileSystem::mount(Path::new("/bin/true")) {
        Ok(mounted) => mounted,
        Err(why) => return not_run(test, &why),
    };
    let (tiers, folder) = (Tiers::new(), tempfile::tempdir().unwrap());
    let program = Program::start(&tiers, 100_000, 5.0, Duration::from_millis(100));
    let silent = mounted.program().parent().unwrap().to_owned();
    mounted.hang();
    let watch = surefoot("watch --port 0 --no-history --run-directory").arg(folder.path());
    let watch = watch.arg("--checkpoints").arg(&silent).arg("--checkpoints").arg(tiers.memory.path());
    let mut running = watch.start();
    let line = running.line_where(|line| line.starts_with("page: "));
    let address = line.trim().strip_prefix("page: http://").and_then(|rest| rest.strip_suffix('/')).unwrap();
    let deadline = Instant::now() + Duration::from_secs(300);
    loop {
        let answer: Value = serde_json::from_str(&http::get(address, "/api/v1/checkpoints").body).unwrap();
        let problem = answer["directories"][0]["problem"].as_str().unwrap_or_default();
        if problem.contains("does not answer") && answer["jobs"][0]["name"] == "cfd/wing" {
            break;
        }
        assert!(Instant::now() < deadline, "{answer:#}");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(mounted.unanswered() > 0, "it was never asked");
    running.ask_to_end();
    running.finish().expect_code(0);
    drop((program, mounted));
}

#[test]
fn the_address_of_checkpoints_needs_no_browser() {
    let Some(_turn) = turn("the_address_of_checkpoints_needs_no_browser", Need::Nothing) else { return };
    let (tiers, folder) = (Tiers::new(), tempfile::tempdir().unwrap());
    let program = Program::start(&tiers, 100_000, 5.0, Duration::from_millis(100));
    let watch = surefoot("watch --port 0 --no-history --run-directory").arg(folder.path());
    let mut running = watch.arg("--checkpoints").arg(tiers.memory.path()).start();
    let line = running.line_where(|line| line.starts_with("page: "));
    let address = line.trim().strip_prefix("page: http://").and_then(|rest| rest.strip_suffix('/')).unwrap();
    let ask = || -> Value { serde_json::from_str(&http::get(address, "/api/v1/checkpoints").body).unwrap() };
    let deadline = Instant::now() + PATIENCE;
    let job = loop {
        let answer = ask();
        if answer["jobs"][0]["is_running"] == true && answer["jobs"][0]["state"].is_object() {
            break answer["jobs"][0].clone();
        }
        assert!(Instant::now() < deadline, "{answer:#}");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert_eq!((&job["name"], &job["state"]["staleness_max_s"]), (&"cfd/wing".into(), &5.0.into()));
    let decision = job["events"].as_array().unwrap().iter().find(|event| event["event"] == "decision").unwrap();
    assert!(decision["reasons"][0].as_str().unwrap().len() > 10, "{decision}");
    let metrics = http::get(address, "/metrics").body;
    assert!(metrics.contains("surefoot_checkpoint_memory_age_seconds{job=\"cfd/wing\"}"), "{metrics}");
    drop(program);
    running.ask_to_end();
    running.finish().expect_code(0);
}

#[test]
fn a_replay_looks_at_no_directories_of_checkpoints() {
    let Some(_turn) = turn("a_replay_looks_at_no_directories_of_checkpoints", Need::Nothing) else { return };
    surefoot("watch --replay x --checkpoints /dev/shm").run().expect_refusal(2, &["--replay", "--checkpoints"]);
}
