//! Reading a file of any of the formats.

use super::rasdaemon;
use anyhow::{Context, bail};
use clap::ValueEnum;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use surefoot_console::units::counted;
use surefoot_memory::import::{Clock, Format, Host, Import, LINE_BYTES_MAX, Totals, detect, unread_form};
use surefoot_model::{ErrorReport, one_line};

/// Lines needed to tell what kind of log a file is.
const LINES_TO_DETECT: usize = 500;

/// A file with a longer line is none: a disk image, or a hole of terabytes.
const LINE_READ_MAX: u64 = 64 << 20;

/// What a file is, as people name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormatName {
    /// By its first lines
    Auto,
    /// The database of rasdaemon
    Rasdaemon,
    /// dmesg, journalctl -k, syslog
    Kernel,
    /// The log of mcelog
    Mcelog,
    /// ipmitool sel list or sel elist
    Sel,
}

/// Where lines come from.
type Source = Box<dyn BufRead>;

/// What was read of a file, but for the reports.
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
    pub(super) fn new(file: &Path, format: &'static str) -> Reading {
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

    pub(super) fn count(&mut self, report: &ErrorReport) {
        self.error_count = self.error_count.saturating_add(report.count.into());
        self.undated_count += u64::from(report.at_realtime_ns == 0);
    }
}

/// Takes each report as it is read.
pub type Take<'a> = dyn FnMut(&ErrorReport) -> anyhow::Result<()> + 'a;

/// Reads a file to its end, of one host alone.
pub fn read(
    file: &Path,
    format: FormatName,
    clock: Clock,
    host: Option<&str>,
    take: &mut Take<'_>,
) -> anyhow::Result<Reading> {
    let is_stdin = file == Path::new("-");
    let is_database = !is_stdin && (format == FormatName::Rasdaemon || rasdaemon::is_database(file));
    if is_database {
        anyhow::ensure!(
            matches!(format, FormatName::Auto | FormatName::Rasdaemon),
            "{}: this is a database, not a log; leave --format out",
            file.display()
        );
        return rasdaemon::read(file, clock, Reading::new(file, "rasdaemon"), take);
    }
    let source: Source = if is_stdin {
        anyhow::ensure!(
            format != FormatName::Rasdaemon,
            "a database cannot be read from standard input; name its file"
        );
        Box::new(BufReader::new(io::stdin()))
    } else {
        Box::new(BufReader::new(open(file)?))
    };
    log(source, file, format, (clock, host), take)
}

/// Opens a log without waiting for anybody: a pipe in a folder of others may have no writer, ever. Pipes of this process's own, such
/// as a shell's `<(dmesg)`, are read.
fn open(file: &Path) -> anyhow::Result<File> {
    let cannot = || format!("{}: cannot be read", file.display());
    let held = surefoot_foreign::hold(file).with_context(cannot)?;
    if held.about().is_regular() {
        return held.regular().and_then(|regular| regular.open()).with_context(cannot);
    }
    anyhow::ensure!(!held.about().is_directory(), "{}: is a directory; name the files in it", file.display());
    anyhow::ensure!(
        surefoot_foreign::way::leads_to_own_descriptor(file),
        "{}: it is no regular file; to read a pipe, name - and put it to standard input",
        file.display()
    );
    File::open(file).with_context(cannot)
}

fn log(
    mut source: Source,
    file: &Path,
    format: FormatName,
    (clock, host): (Clock, Option<&str>),
    take: &mut Take<'_>,
) -> anyhow::Result<Reading> {
    let unread = |error: io::Error| anyhow::Error::new(error).context(format!("{}: cannot be read", file.display()));
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
        bail!("{}: {why}", file.display());
    }
    let (format, word) = match format {
        FormatName::Auto => match detect(first.iter().map(String::as_str)) {
            Some(format) => (format, word(format)),
            None if first.is_empty() => bail!("{}: there is nothing in it", file.display()),
            None => bail!(
                "{}: none of the first {} lines is one of a kernel log, of mcelog or of ipmitool's event log; \
                 if it is one, name it with --format",
                file.display(),
                first.len()
            ),
        },
        FormatName::Mcelog => (Format::Mcelog, word(Format::Mcelog)),
        FormatName::Sel => (Format::Sel, word(Format::Sel)),
        FormatName::Kernel | FormatName::Rasdaemon => (Format::KernelLog, word(Format::KernelLog)),
    };
    let mut reading = Reading::new(file, word);
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
        import.line(&line, &mut reports);
        if let [_, _, ..] = import.hosts() {
            bail!("{}: {}", file.display(), several(import.hosts()));
        }
        hand_out(&mut reports, &mut reading, take)?;
    }
    reading.hosts = import.hosts().to_vec();
    reading.hosts_instead = import.hosts_instead().to_vec();
    reading.totals = import.end(&mut reports);
    hand_out(&mut reports, &mut reading, take)?;
    if cut_count > 0 {
        reading.totals.notes.push(format!(
            "{} longer than {LINE_BYTES_MAX} bytes and cut there.",
            counted(cut_count, "line was", "lines were")
        ));
    }
    Ok(reading)
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
        None => "choose one with --host NAME or MACHINE ID".to_owned(),
    }
}

fn hand_out(reports: &mut Vec<ErrorReport>, reading: &mut Reading, take: &mut Take<'_>) -> anyhow::Result<()> {
    for report in reports.drain(..) {
        reading.count(&report);
        take(&report)?;
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
fn next_line(source: &mut Source, cut_count: &mut u64) -> io::Result<Option<String>> {
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
    use super::*;

    #[test]
    fn lines_are_cut_at_their_limit_and_none_is_lost() {
        let long = "x".repeat(3 * LINE_BYTES_MAX);
        let text = format!("a\n{long}\n\nb");
        let mut source: Source = Box::new(BufReader::with_capacity(100, io::Cursor::new(text.into_bytes())));
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
        let clock = Clock::default();
        let why =
            |file: &Path| format!("{:#}", read(file, FormatName::Auto, clock, None, &mut |_| Ok(())).unwrap_err());
        assert!(why(&hole).contains("has no end"), "{}", why(&hole));
        assert!(why(&pipe).contains("no regular file"), "{}", why(&pipe));
    }
}
