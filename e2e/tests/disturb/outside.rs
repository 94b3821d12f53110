//! A guest that is stopped from outside while it tells where it is and what time it thinks it is.

use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use surefoot_e2e::command::binary;
use surefoot_testkit::guest::{Guest, Ran, TIME_LIMIT};

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
            if began.elapsed() > TIME_LIMIT {
                return false;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        true
    }

    /// By how many seconds the guest's clock is ahead of the time since `began`, out of several tellings: each reaches us late, by more
    /// where this machine is busy, so the largest difference is the nearest.
    fn ahead_s(&self, began: Instant) -> f64 {
        const TELLINGS: usize = 20;
        let looking = Instant::now();
        let mut ahead = Vec::new();
        let mut bytes = self.text().len();
        while ahead.len() < TELLINGS {
            let text = self.text();
            let up = text.lines().filter_map(|line| line.strip_prefix("up ")?.parse::<f64>().ok()).next_back();
            if let (Some(up), true) = (up, text.len() > bytes && text.ends_with('\n')) {
                ahead.push(up - began.elapsed().as_secs_f64());
                bytes = text.len();
            }
            assert!(looking.elapsed() < TIME_LIMIT, "the guest tells no time");
            std::thread::sleep(Duration::from_millis(5));
        }
        ahead.into_iter().fold(f64::NEG_INFINITY, f64::max)
    }
}

/// Raises an NMI in the guest, whose script waits for the count of them to rise.
pub fn nudge(monitor: &Path) {
    let mut lines = BufReader::new(UnixStream::connect(monitor).unwrap());
    for order in ["qmp_capabilities", "inject-nmi"] {
        writeln!(lines.get_mut(), "{}", json!({ "execute": order })).unwrap();
        let mut line = String::new();
        while !line.contains("\"return\"") {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0 && !line.contains("\"error\""), "{order}: {line}");
        }
    }
}

/// For the guest's shell: waits for an NMI.
pub const AWAIT_NUDGE: &str = r#"
export PATH=/bin
count_nmis() { grep NMI: /proc/interrupts; }
nmis=$(count_nmis)
await_nudge() { while [ "$(count_nmis)" = "$nmis" ]; do sleep 0.1; done; nmis=$(count_nmis); }
"#;

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
        let began = Instant::now();
        let ahead_s = told.ahead_s(began);
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
        let behind_s = ahead_s - told.ahead_s(began);
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
    let guest = guest.with_cores(2).with_file(command, "/surefoot");
    (guest.with_device(&["-qmp", &socket, "-serial", &line]), monitor, told)
}
