//! Lines of the systemd journal: by its own protocol, with fields, and with a priority in front on standard output where its socket
//! is not there.

use super::changes::{Change, Changes, LogLine};
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Instant;
use surefoot_console::units;
use surefoot_hostfs::Root;
use surefoot_model::{Finding, Severity, one_line};
use surefoot_sys::stdout::stdout;

/// Where the journal listens, below the root.
const SOCKET: &str = "/run/systemd/journal/socket";

/// syslog's numbers, as journalctl -p takes them.
const CRITICAL: u8 = 2;
const WARNING: u8 = 4;
pub const NOTICE: u8 = 5;
pub const INFO: u8 = 6;

/// The journal of a service.
#[derive(Debug)]
pub struct Journal {
    /// `None`: lines go to standard output.
    socket: Option<(UnixDatagram, PathBuf)>,
    changes: Changes,
    start: Instant,
    /// Lines for which its socket had no room.
    lost: u64,
}

impl Journal {
    /// The journal, if it is what standard output leads to.
    pub fn of_stdout(root: &Root) -> Option<Self> {
        let stream = std::env::var_os("JOURNAL_STREAM")?;
        let stdout = io::stdout().as_fd().try_clone_to_owned().ok()?;
        let about = std::fs::File::from(stdout).metadata().ok()?;
        if !is_stream(&stream, about.dev(), about.ino()) {
            return None;
        }
        Some(Self::at(&root.path(SOCKET)))
    }

    fn at(socket: &Path) -> Self {
        let connected = || {
            let opened = UnixDatagram::unbound()?;
            UnixDatagram::unbound()?.connect(socket)?;
            // A journal that takes nothing must not hold up the watch.
            opened.set_nonblocking(true)?;
            // Not connected: a journal that starts again has another socket there.
            io::Result::Ok((opened, socket.to_owned()))
        };
        Journal { socket: connected().ok(), changes: Changes::default(), start: Instant::now(), lost: 0 }
    }

    /// Writes what changed in these findings.
    ///
    /// # Errors
    /// What standard output cannot take.
    pub fn findings(&mut self, findings: &[Finding]) -> io::Result<()> {
        let lines = self.changes.of(findings, self.start.elapsed());
        lines.iter().try_for_each(|line| match line {
            LogLine::Finding { change, finding, lasted } => {
                let lasted = units::duration(u64::try_from(lasted.as_nanos()).unwrap_or(u64::MAX));
                let (priority, text) = match change {
                    Change::Began => (priority(finding.severity), finding.sentence.clone()),
                    Change::Worse | Change::Better => {
                        let text = format!("Now {}, after {lasted}: {}", finding.severity, finding.sentence);
                        (priority(finding.severity), text)
                    }
                    Change::Ended => (INFO, format!("Ended after {lasted}: {}", finding.sentence)),
                };
                self.write(priority, &text, &fields(*change, finding))
            }
            LogLine::LeftOut(lines) => {
                let text = format!("{lines} more changes of findings in the last minute; surefoot history shows all.");
                self.write(NOTICE, &text, &[])
            }
        })
    }

    /// Writes a line of the watch itself.
    ///
    /// # Errors
    /// What standard output cannot take.
    pub fn line(&mut self, priority: u8, text: &str) -> io::Result<()> {
        self.write(priority, text, &[])
    }

    fn write(&mut self, priority: u8, text: &str, fields: &[(&str, String)]) -> io::Result<()> {
        let Some(socket) = &self.socket else {
            return stdout().write_all(format!("<{priority}>{}\n", one_line(text)).as_bytes());
        };
        let lost = std::mem::take(&mut self.lost);
        if lost > 0 {
            let text = format!("{lost} lines were lost: the journal had no room for them, or was not there.");
            self.lost += u64::from(!sent(socket, NOTICE, &text, &[])) * lost;
        }
        self.lost += u64::from(!sent(socket, priority, text, fields));
        Ok(())
    }
}

fn sent((socket, path): &(UnixDatagram, PathBuf), priority: u8, text: &str, fields: &[(&str, String)]) -> bool {
    let mut entry = format!("PRIORITY={priority}\nSYSLOG_IDENTIFIER=surefoot\nMESSAGE={}\n", one_line(text));
    for (name, value) in fields {
        // On one line, so that no value can begin a field of its own.
        entry += &format!("{name}={}\n", one_line(value));
    }
    socket.send_to(entry.as_bytes(), path).is_ok()
}

fn fields(change: Change, finding: &Finding) -> [(&'static str, String); 7] {
    let severity = if change == Change::Ended { Severity::Ok } else { finding.severity };
    [
        ("SUREFOOT_CHANGE", change.as_str().to_owned()),
        ("SUREFOOT_ROOM", finding.room.as_str().to_owned()),
        ("SUREFOOT_RULE", finding.rule.clone()),
        ("SUREFOOT_SEVERITY", severity.as_str().to_owned()),
        ("SUREFOOT_SUBJECT", finding.subject.to_string()),
        ("SUREFOOT_CERTAINTY", finding.certainty.label().to_owned()),
        ("SUREFOOT_KEY", finding.key.clone()),
    ]
}

fn priority(severity: Severity) -> u8 {
    match severity {
        Severity::Critical => CRITICAL,
        Severity::Warning => WARNING,
        Severity::Notice => NOTICE,
        Severity::Ok => INFO,
    }
}

/// Whether `JOURNAL_STREAM` names a file by its device and inode.
fn is_stream(variable: &OsStr, device: u64, inode: u64) -> bool {
    variable.to_str().is_some_and(|text| text == format!("{device}:{inode}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_model::{Room, Subject, SubjectKind};

    fn entries(socket: &UnixDatagram) -> Vec<String> {
        socket.set_nonblocking(true).unwrap();
        let mut bytes = [0; 65536];
        std::iter::from_fn(|| {
            socket.recv(&mut bytes).ok().map(|length| String::from_utf8(bytes[..length].to_vec()).unwrap())
        })
        .collect()
    }

    fn finding() -> Finding {
        let subject = Subject::new(SubjectKind::Interface, "eth0\nPRIORITY=0");
        Finding::new(Room::Nic, "link-down", subject, Severity::Critical, "eth0 is\ndown.")
    }

    #[test]
    fn an_entry_has_its_priority_and_fields_and_no_value_makes_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let socket = UnixDatagram::bind(&path).unwrap();
        let mut journal = Journal::at(&path);
        journal.line(INFO, "page: http://127.0.0.1:7077/").unwrap();
        journal.findings(&[finding()]).unwrap();
        journal.findings(&[finding()]).unwrap();
        let entries = entries(&socket);
        assert_eq!(entries.len(), 2, "the second time nothing has changed: {entries:?}");
        let first = "PRIORITY=6\nSYSLOG_IDENTIFIER=surefoot\nMESSAGE=page: http://127.0.0.1:7077/\n";
        assert_eq!(entries[0], first);
        let lines: Vec<&str> = entries[1].lines().collect();
        for expected in [
            "PRIORITY=2",
            "MESSAGE=eth0 is?down.",
            "SUREFOOT_CHANGE=began",
            "SUREFOOT_ROOM=nic",
            "SUREFOOT_RULE=link-down",
            "SUREFOOT_SEVERITY=critical",
            "SUREFOOT_SUBJECT=interface eth0?PRIORITY=0",
            "SUREFOOT_CERTAINTY=certain",
        ] {
            assert!(lines.contains(&expected), "{expected}: {lines:?}");
        }
        let priorities = lines.iter().filter(|line| line.starts_with("PRIORITY=")).count();
        assert_eq!(priorities, 1, "{lines:?}");
    }

    #[test]
    fn a_journal_that_takes_nothing_holds_nothing_up_and_what_was_lost_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let socket = UnixDatagram::bind(&path).unwrap();
        let mut journal = Journal::at(&path);
        let mut lines = 0;
        while journal.lost == 0 {
            journal.line(NOTICE, "The clock was set.").unwrap();
            lines += 1;
        }
        assert_eq!(entries(&socket).len(), lines - 1);
        journal.line(NOTICE, "There is room again.").unwrap();
        let told = entries(&socket);
        assert!(told[0].contains("MESSAGE=1 lines were lost") && told[1].contains("There is room again"), "{told:?}");
    }

    #[test]
    fn a_journal_that_started_again_gets_its_lines_and_is_told_of_those_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let socket = UnixDatagram::bind(&path).unwrap();
        let mut journal = Journal::at(&path);
        drop(socket);
        journal.line(NOTICE, "Nobody listens.").unwrap();
        std::fs::remove_file(&path).unwrap();
        journal.line(NOTICE, "Nor is there a socket.").unwrap();
        let socket = UnixDatagram::bind(&path).unwrap();
        journal.line(NOTICE, "It is back.").unwrap();
        let told = entries(&socket);
        assert!(told[0].contains("MESSAGE=2 lines were lost") && told[1].contains("It is back."), "{told:?}");
    }

    #[test]
    fn only_the_file_that_is_named_is_the_journal() {
        for (variable, is_it) in [("8:77", true), ("8:78", false), ("9:77", false), ("", false), ("8:77:1", false)] {
            assert_eq!(is_stream(OsStr::new(variable), 8, 77), is_it, "{variable}");
        }
    }
}
