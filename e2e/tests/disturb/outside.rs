//! A guest that is stopped from outside while it tells where it is and what time it thinks it is.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use surefoot_e2e::command::binary;
use surefoot_testkit::guest::{Guest, Ran};

/// What a guest may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(280);

/// What was printed below a heading.
pub fn below<'a>(ran: &'a Ran, heading: &str) -> &'a str {
    let rest = ran.text.split_once(&format!("== {heading}\n"));
    let (_, rest) = rest.unwrap_or_else(|| panic!("{heading}: {}\n{}", ran.text, ran.console));
    rest.split("\n== ").next().unwrap()
}

pub fn lines(text: &str, of_type: &str) -> Vec<Value> {
    let parsed = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    parsed.filter(|line| line["type"] == of_type).collect()
}

/// The fourth serial line: where the guest is, and what time it thinks it is.
pub struct Told(PathBuf);

impl Told {
    fn text(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.0).unwrap_or_default()).into_owned()
    }

    pub fn wait_for(&self, word: &str) -> bool {
        let began = Instant::now();
        while !self.text().contains(word) {
            if began.elapsed() > PATIENCE {
                return false;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        true
    }

    /// Seconds since the guest started, by its own clock, as it has just told.
    pub fn up_s(&self) -> f64 {
        let bytes = self.text().len();
        let began = Instant::now();
        loop {
            let text = self.text();
            let fresh = text.len() > bytes && text.ends_with('\n');
            if let Some(up) = text.lines().filter_map(|line| line.strip_prefix("up ")?.parse().ok()).next_back()
                && fresh
            {
                return up;
            }
            assert!(began.elapsed() < PATIENCE, "the guest tells no time");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// What one kind of stop from outside came to.
pub struct Stopped {
    /// How long each was, seconds.
    pub stops: Vec<f64>,
    /// By how much the guest's clock fell behind meanwhile, seconds.
    pub behind_s: f64,
}

impl Stopped {
    /// Stops the guest again and again, for so many milliseconds in each so many.
    pub fn by(kind: &str, [length_ms, period_ms]: [u64; 2], monitor: &Path, told: &Told) -> Stopped {
        let spec = format!("{kind}:length={length_ms}ms,period={period_ms}ms,qmp={}", monitor.display());
        let (began, up_s) = (Instant::now(), told.up_s());
        let mut command = Command::new(binary());
        command.args([
            "disturb",
            "run",
            "--json",
            "--repetitions",
            "2",
            "--disturbance",
            &spec,
            "--workload",
            "sleep 1.8",
        ]);
        let output = command.output().unwrap();
        let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{text}{errors}");
        let behind_s = began.elapsed().as_secs_f64() - (told.up_s() - up_s);
        let stops = lines(&text, "stall").iter().map(|stall| stall["length_ns"].as_f64().unwrap() / 1e9).collect();
        Stopped { stops, behind_s }
    }
}

/// The guest with two cores, the command, a monitor and a fourth serial line.
pub fn with_command(guest: Guest, folder: &Path) -> (Guest, PathBuf, Told) {
    let small = folder.join("surefoot");
    // What the debugger needs of it would take the guest longer to load than to run.
    let stripped = Command::new("llvm-strip").arg("-o").arg(&small).arg(binary()).status();
    let command = if stripped.is_ok_and(|status| status.success()) { &*small } else { binary() };
    let (monitor, told) = (folder.join("monitor"), Told(folder.join("told")));
    let socket = format!("unix:{},server=on,wait=off", monitor.display());
    let line = format!("file:{}", told.0.display());
    let guest = guest.with_cores(2).with_time_limit(PATIENCE).with_file(command, "/surefoot");
    (guest.with_device(&["-qmp", &socket, "-serial", &line]), monitor, told)
}
