//! Reading a log to its end.

use super::export::{Export, KEPT_BYTES, is_export};
use super::{Clock, Format, Host, Import, LINE_BYTES_MAX, Totals, detect, unread_form};
use crate::{Error, counted};
use std::fs::File;
use std::io::{self, BufRead};
use std::path::Path;
use surefoot_model::{ErrorReport, one_line};

/// Lines needed to tell what kind of log a file is.
const LINES_TO_DETECT: usize = 500;

/// A file with a longer line is none: a disk image, or a hole of terabytes.
const LINE_READ_MAX: u64 = 64 << 20;

/// The result of a file, without its reports.
#[derive(Debug)]
pub struct Reading {
    /// The file as it was named.
    pub file: String,
    /// What it is, in the word of the JSON.
    pub format: &'static str,
    /// The result of its lines.
    pub totals: Totals,
    /// Errors that its reports stand for.
    pub error_count: u64,
    /// Reports without a time.
    pub undated_count: u64,
    /// Errors that no module is named for.
    pub unknown_module_count: u64,
    /// The hosts whose errors it has, as far as it names them.
    pub hosts: Vec<Host>,
    /// The first of the hosts whose lines it has, where none is of the host that was chosen.
    pub hosts_instead: Vec<Host>,
}

impl Reading {
    /// Begins a file of this format.
    pub fn new(file: &Path, format: &'static str) -> Reading {
        Reading {
            file: file.display().to_string(),
            format,
            totals: Totals::default(),
            error_count: 0,
            undated_count: 0,
            unknown_module_count: 0,
            hosts: Vec::new(),
            hosts_instead: Vec::new(),
        }
    }

    /// Counts a report.
    pub fn count(&mut self, report: &ErrorReport) {
        self.error_count = self.error_count.saturating_add(report.count.into());
        self.undated_count += u64::from(report.at_realtime_ns == 0);
    }
}

/// Takes each report as it is read, with the host that its log names.
pub type Take<'a> = dyn FnMut(&ErrorReport, Option<&Host>) -> io::Result<()> + 'a;

/// Opens a log, and waits for nobody: a pipe in a directory of another user may never have a writer. Pipes of this process's own, such
/// as a shell's `<(dmesg)`, are read.
///
/// # Errors
/// [`Error::Read`]; [`Error::Import`] for a directory, a pipe or a device.
pub fn open_log(file: &Path) -> Result<File, Error> {
    let unread = |source| Error::Read { path: file.to_owned(), source };
    let held = surefoot_foreign::hold(file).map_err(unread)?;
    if held.about().is_regular() {
        return held.regular().and_then(|regular| regular.open()).map_err(unread);
    }
    if held.about().is_directory() {
        return Err(no_log(file, "is a directory; name the files in it"));
    }
    if !surefoot_foreign::way::leads_to_own_descriptor(file) {
        return Err(no_log(file, "it is no regular file; to read a pipe, name - and put it to standard input"));
    }
    File::open(file).map_err(unread)
}

fn no_log(file: &Path, why: impl Into<String>) -> Error {
    Error::Import { path: file.to_owned(), why: why.into() }
}

/// Reads a log to its end; `file` is its name for messages. Without a format it is told by the first lines. With a host, by its name or
/// machine ID, the lines of other hosts are left out.
///
/// # Errors
/// [`Error::Read`]; [`Error::Import`] where it is no log, or has errors of several hosts; [`Error::Take`] where `take` failed.
pub fn read_log(
    mut source: impl BufRead,
    file: &Path,
    format: Option<Format>,
    (clock, host): (Clock, Option<&str>),
    take: &mut Take<'_>,
) -> Result<Reading, Error> {
    let unread = |source: io::Error| Error::Read { path: file.to_owned(), source };
    let may_be_export = format.is_none_or(|format| format == Format::KernelLog);
    if may_be_export && is_export(source.fill_buf().map_err(unread)?) {
        return read_export(source, file, (clock, host), take);
    }
    let mut first = Vec::new();
    let mut cut_count = 0;
    while first.len() < LINES_TO_DETECT {
        match next_line(&mut source, &mut cut_count).map_err(unread)? {
            Some(line) => first.push(line),
            None => break,
        }
    }
    // Editors put a mark of byte order before the first line.
    if let Some(rest) = first.first().and_then(|line| line.strip_prefix('\u{feff}').map(str::to_owned)) {
        first[0] = rest;
    }
    if let Some(why) = unread_form(first.iter().map(String::as_str)) {
        return Err(no_log(file, why));
    }
    let format = match format.or_else(|| detect(first.iter().map(String::as_str))) {
        Some(format) => format,
        None if first.is_empty() => return Err(no_log(file, "there is nothing in it")),
        None => {
            let lines = first.len();
            return Err(no_log(
                file,
                format!(
                    "none of the first {lines} lines is one of a kernel log, of mcelog or of ipmitool's event log; if it is one, name \
                     it with --format"
                ),
            ));
        }
    };
    let mut reading = Reading::new(file, word(format));
    let mut import = Import::new(format, clock).of_host(host.map(str::to_owned));
    let mut reports = Vec::new();
    let mut first = first.into_iter();
    loop {
        let line = match first.next() {
            Some(line) => line,
            None => match next_line(&mut source, &mut cut_count).map_err(unread)? {
                Some(line) => line,
                None => break,
            },
        };
        take_line(&mut import, &line, file, &mut reports, &mut reading, take)?;
    }
    end(import, reports, &mut reading, take)?;
    if cut_count > 0 {
        reading.totals.notes.push(format!(
            "{} longer than {LINE_BYTES_MAX} bytes and cut there.",
            counted(cut_count, "line was", "lines were")
        ));
    }
    Ok(reading)
}

/// Reads the journal's export form to its end.
fn read_export(
    mut source: impl BufRead,
    file: &Path,
    (clock, host): (Clock, Option<&str>),
    take: &mut Take<'_>,
) -> Result<Reading, Error> {
    let mut reading = Reading::new(file, word(Format::KernelLog));
    let mut import = Import::new(Format::KernelLog, clock).of_host(host.map(str::to_owned));
    let (mut export, mut reports) = (Export::default(), Vec::new());
    let unread = |source: io::Error| Error::Read { path: file.to_owned(), source };
    while let Some(line) = export.next(&mut source).map_err(unread)? {
        take_line(&mut import, &line, file, &mut reports, &mut reading, take)?;
    }
    end(import, reports, &mut reading, take)?;
    if export.cut_count > 0 {
        reading.totals.notes.push(format!(
            "{} longer than {KEPT_BYTES} bytes and cut there.",
            counted(export.cut_count, "field was", "fields were")
        ));
    }
    if let Some(why) = export.ended {
        let why = format!("The export is damaged: {why}. Export the journal again, or use `journalctl -k -o json`.");
        reading.totals.note(&why);
    }
    Ok(reading)
}

fn take_line(
    import: &mut Import,
    line: &str,
    file: &Path,
    reports: &mut Vec<ErrorReport>,
    reading: &mut Reading,
    take: &mut Take<'_>,
) -> Result<(), Error> {
    import.line(line, reports);
    if let [_, _, ..] = import.hosts() {
        return Err(no_log(file, several(import.hosts())));
    }
    hand_out(reports, import.hosts().first(), reading, take)
}

fn end(import: Import, mut reports: Vec<ErrorReport>, reading: &mut Reading, take: &mut Take<'_>) -> Result<(), Error> {
    reading.hosts = import.hosts().to_vec();
    reading.hosts_instead = import.hosts_instead().to_vec();
    reading.totals = import.end(&mut reports);
    let hosts = reading.hosts.clone();
    hand_out(&mut reports, hosts.first(), reading, take)?;
    Ok(())
}

fn several(hosts: &[Host]) -> String {
    let names: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    format!("it has memory errors of several hosts ({}, perhaps more); {}", names.join(", "), choose(hosts))
}

/// How to choose one of several hosts: by its name only where no two have the same.
pub(super) fn choose(hosts: &[Host]) -> String {
    let has_name_of_another = |(at, one): (usize, &Host)| hosts[..at].iter().any(|other| other.name == one.name);
    let id = hosts.iter().find_map(|host| host.machine.as_deref());
    match id.filter(|_| hosts.iter().enumerate().any(has_name_of_another)) {
        Some(id) => {
            format!("their names are the same, so choose one by its machine ID, such as --host {}", one_line(id))
        }
        None => match of_one_machine(hosts) {
            Some(id) => {
                format!(
                    "choose one with --host NAME; if it is one host that was renamed, --host {} reads all",
                    one_line(id)
                )
            }
            None => "choose one with --host NAME or MACHINE ID".to_owned(),
        },
    }
}

/// The ID of a machine that has several of these names.
fn of_one_machine(hosts: &[Host]) -> Option<&str> {
    let has_another = |(at, one): &(usize, &Host)| hosts[..*at].iter().any(|other| other.machine == one.machine);
    hosts.iter().enumerate().filter(has_another).find_map(|(_, host)| host.machine.as_deref())
}

fn hand_out(
    reports: &mut Vec<ErrorReport>,
    host: Option<&Host>,
    reading: &mut Reading,
    take: &mut Take<'_>,
) -> Result<(), Error> {
    for report in reports.drain(..) {
        reading.count(&report);
        take(&report, host).map_err(Error::Take)?;
    }
    Ok(())
}

fn word(format: Format) -> &'static str {
    match format {
        Format::KernelLog => "kernel_log",
        Format::Mcelog => "mcelog",
        Format::Sel => "sel",
    }
}

/// The next line, made valid UTF-8; what is beyond the limit is read and left out.
fn next_line(source: &mut impl BufRead, cut_count: &mut u64) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let mut is_cut = false;
    let mut length = 0;
    loop {
        let room = source.fill_buf()?;
        if room.is_empty() {
            break;
        }
        let end = room.iter().position(|&byte| byte == b'\n');
        let taken = end.unwrap_or(room.len());
        let fits = taken.min(LINE_BYTES_MAX - line.len());
        is_cut |= fits < taken;
        line.extend_from_slice(&room[..fits]);
        length += taken as u64;
        if length > LINE_READ_MAX {
            let why = format!("a line of more than {} MiB has no end, so this is no log", LINE_READ_MAX >> 20);
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let used = end.map_or(taken, |end| end + 1);
        source.consume(used);
        if end.is_some() {
            *cut_count += u64::from(is_cut);
            return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
        }
    }
    *cut_count += u64::from(is_cut);
    Ok((!line.is_empty()).then(|| String::from_utf8_lossy(&line).into_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::BufReader;

    #[test]
    fn lines_are_cut_at_their_limit_and_none_is_lost() {
        let long = "x".repeat(3 * LINE_BYTES_MAX);
        let text = format!("a\n{long}\n\nb");
        let mut source = BufReader::with_capacity(100, io::Cursor::new(text.into_bytes()));
        let mut cut_count = 0;
        let mut lengths = Vec::new();
        while let Some(line) = next_line(&mut source, &mut cut_count).unwrap() {
            lengths.push(line.len());
        }
        assert_eq!((lengths, cut_count), (vec![1, LINE_BYTES_MAX, 0, 1], 1));
    }

    #[test]
    fn what_has_no_lines_is_no_log_and_no_pipe_is_waited_for() {
        let home = tempfile::tempdir().unwrap();
        let [hole, pipe] = ["hole", "pipe"].map(|name| home.path().join(name));
        File::create(&hole).unwrap().set_len(1 << 40).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let read = |file: &Path| {
            let source = BufReader::new(open_log(file)?);
            read_log(source, file, None, (Clock::default(), None), &mut |_, _| Ok(()))
        };
        let why = |file: &Path| read(file).unwrap_err().to_string();
        assert!(why(&hole).contains("has no end"), "{}", why(&hole));
        assert!(why(&pipe).contains("no regular file"), "{}", why(&pipe));
    }
}
