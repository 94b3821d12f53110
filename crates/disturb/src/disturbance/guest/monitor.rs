//! QEMU's monitor over its socket (QMP): lines of JSON, as QEMU's documentation has it (docs/interop/qmp-spec).
//!
//! Whoever listens at the socket is a stranger until the kernel says whose process it is; what it says has a limit, and a time.

use super::{is_of, shown};
use crate::Fault;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use surefoot_hostfs::Root;
use surefoot_sys::peer;

/// How long QEMU may take for an answer, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// The longest answer.
const LINE_BYTES: u64 = 1 << 20;
/// Events that come before an answer.
const EVENTS_MAX: usize = 10_000;

/// A monitor that listens to us.
#[derive(Debug)]
pub(in crate::disturbance) struct Monitor {
    lines: BufReader<UnixStream>,
    path: PathBuf,
    pid: u32,
}

impl Monitor {
    /// Opens it; with a person, only where that is his guest.
    ///
    /// # Errors
    /// [`Fault::Refused`] when nothing listens there, or nobody who speaks so, or another user.
    pub(super) fn open(path: &Path, root: &Root, person: Option<u32>) -> Result<Monitor, Fault> {
        let no_monitor = |why: String| {
            Fault::Refused(format!(
                "{} is no monitor of QEMU: {why}; start QEMU with -qmp unix:SOCKET,server=on,wait=off",
                shown(path)
            ))
        };
        let stream = UnixStream::connect(path).map_err(|error| no_monitor(error.to_string()))?;
        let peer = peer::credentials(stream.as_fd()).ok_or_else(|| no_monitor("nothing listens there".into()))?;
        if let Some(person) = person {
            is_of(person, peer.pid, root)?;
        }
        let limited = stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
        limited.map_err(|error| no_monitor(error.to_string()))?;
        let mut monitor = Monitor { lines: BufReader::new(stream), path: path.to_owned(), pid: peer.pid };
        let greeting = monitor.line()?;
        if !greeting["QMP"].is_object() {
            return Err(no_monitor("it greets otherwise".into()));
        }
        monitor.tell("qmp_capabilities")?;
        Ok(monitor)
    }

    /// Who listens.
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Gives an order without arguments.
    ///
    /// # Errors
    /// [`Fault::Refused`] with what the monitor said.
    pub(super) fn tell(&mut self, order: &str) -> Result<(), Fault> {
        self.ask(order).map(|_| ())
    }

    /// The threads of the virtual processors.
    pub(super) fn processors(&mut self) -> Result<Vec<u32>, Fault> {
        let found = self.ask("query-cpus-fast")?;
        let threads = found.as_array().into_iter().flatten().map(|one| one["thread-id"].as_u64()?.try_into().ok());
        let threads: Option<Vec<u32>> = threads.collect();
        let mut threads = threads
            .filter(|threads| !threads.is_empty())
            .ok_or_else(|| self.failed("it names no virtual processors"))?;
        // Without MTTCG one thread is all of them.
        threads.sort_unstable();
        threads.dedup();
        Ok(threads)
    }

    fn failed(&self, why: impl std::fmt::Display) -> Fault {
        Fault::Refused(format!("the guest's monitor {}: {why}", shown(&self.path)))
    }

    fn ask(&mut self, order: &str) -> Result<Value, Fault> {
        let words = format!("{}\n", json!({ "execute": order }));
        let written = self.lines.get_mut().write_all(words.as_bytes());
        written.map_err(|error| self.failed(error))?;
        for _ in 0..EVENTS_MAX {
            let said = self.line()?;
            if let Some(answer) = said.get("return") {
                return Ok(answer.clone());
            }
            if let Some(error) = said.get("error") {
                let why = error["desc"].as_str().unwrap_or("it refused").chars().filter(|c| !c.is_control()).take(200);
                return Err(self.failed(format!("{order}: {}", why.collect::<String>())));
            }
        }
        Err(self.failed(format!("{order}: it tells of nothing but events")))
    }

    fn line(&mut self) -> Result<Value, Fault> {
        let (mut bytes, began) = (Vec::new(), Instant::now());
        loop {
            let read = (&mut self.lines).take(LINE_BYTES - bytes.len() as u64).read_until(b'\n', &mut bytes);
            match read {
                Ok(_) if bytes.ends_with(b"\n") => break,
                Ok(0) => return Err(self.failed("it said no whole line")),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
            if began.elapsed() > PATIENCE {
                return Err(self.failed(format!("no answer within {} s", PATIENCE.as_secs())));
            }
        }
        serde_json::from_slice(&bytes).map_err(|error| self.failed(format!("it said what is no JSON: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// Says each of these lines after one of the other side, the first one at once.
    fn with(lines: &[&str], work: impl FnOnce(&Path)) {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("monitor");
        let listener = UnixListener::bind(&path).unwrap();
        let lines: Vec<String> = lines.iter().map(|line| format!("{line}\n")).collect();
        let speaker = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut heard = BufReader::new(stream.try_clone().unwrap());
            for line in lines {
                let mut word = String::new();
                // Who has heard enough has gone.
                if (&stream).write_all(line.as_bytes()).is_err() || heard.read_line(&mut word).unwrap_or(0) == 0 {
                    return;
                }
            }
        });
        work(&path);
        speaker.join().unwrap();
    }

    const GREETING: &str = r#"{"QMP": {"version": {}, "capabilities": []}}"#;

    #[test]
    fn a_monitor_names_its_processors_between_events() {
        let cpus =
            "{\"event\": \"RESUME\"}\n{\"return\": [{\"thread-id\": 72}, {\"thread-id\": 71}, {\"thread-id\": 72}]}";
        with(&[GREETING, "{\"return\": {}}", cpus], |path| {
            let own = surefoot_hostfs::privilege::effective_user();
            let mut monitor = Monitor::open(path, &Root::host(), Some(own)).unwrap();
            assert_eq!(monitor.pid(), std::process::id());
            assert_eq!(monitor.processors().unwrap(), [71, 72]);
        });
    }

    #[test]
    fn who_is_no_monitor_or_refuses_is_told_of() {
        let opened = |path: &Path| Monitor::open(path, &Root::host(), None);
        with(&["220 mail"], |path| assert!(opened(path).unwrap_err().to_string().contains("no JSON")));
        with(&["{}"], |path| assert!(opened(path).unwrap_err().to_string().contains("is no monitor of QEMU")));
        with(&[GREETING, r#"{"return": {}}"#, r#"{"error": {"desc": "not \u001b[31mnow"}}"#], |path| {
            let error = opened(path).unwrap().tell("stop").unwrap_err().to_string();
            assert!(error.contains("stop: not [31mnow"), "{error}");
        });
        let long = "x".repeat(2 << 20);
        with(&[&long], |path| assert!(opened(path).unwrap_err().to_string().contains("no whole line")));
        let error = opened(Path::new("/nowhere/monitor")).unwrap_err().to_string();
        assert!(error.contains("-qmp unix:SOCKET"), "{error}");
    }
}
