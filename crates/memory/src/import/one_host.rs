//! Keeps the errors of several hosts apart: modules of two hosts may have the same name.

use super::file::choose;
use super::{Host, MODULES_MAX, Reading, Take};
use crate::Error;
use std::collections::{BTreeSet, HashMap};
use surefoot_model::{ErrorReport, ErrorSeverity};

/// The files that were read, which must all be of one host.
#[derive(Debug, Default)]
pub struct OneHost {
    /// The host that `--host` chose.
    wanted: Option<String>,
    files: Vec<Of>,
    /// Whether a file may be that host's.
    has_wanted: bool,
    /// The hosts whose lines the other files have, the first of each.
    instead: Vec<Host>,
    /// The errors of the files before.
    told: Told,
}

/// Errors that are remembered, to tell which another file tells again. Of further ones both are counted.
const TOLD_MAX: usize = 1 << 20;

/// What makes two reports of one second the same: severity, count, address, label, row and column.
type Same = (ErrorSeverity, u32, Option<u64>, String, Option<u32>, Option<u32>);

/// The errors of files, by what they are and their second, and how many of each.
#[derive(Debug, Default)]
struct Told(HashMap<(Same, u64), u32>);

impl Told {
    /// `None` for a report without a time: nothing says that it is one of another file.
    fn key(report: &ErrorReport) -> Option<(Same, u64)> {
        let place = &report.location;
        let same = (report.severity, report.count, place.address, report.label.clone(), place.row, place.column);
        let second = report.at_realtime_ns / 1_000_000_000;
        (second > 0).then_some((same, second))
    }

    fn add(&mut self, report: &ErrorReport) {
        let Some(key) = Told::key(report) else { return };
        if self.0.len() < TOLD_MAX || self.0.contains_key(&key) {
            *self.0.entry(key).or_default() += 1;
        }
    }

    /// Takes one of these errors away, where there is one of the same second or of the one beside it.
    fn take(&mut self, report: &ErrorReport) -> bool {
        let Some((same, second)) = Told::key(report) else { return false };
        let mut key = (same, second);
        for near in [second, second.saturating_sub(1), second.saturating_add(1)] {
            key.1 = near;
            if let Some(left) = self.0.get_mut(&key).filter(|left| **left > 0) {
                *left -= 1;
                return true;
            }
        }
        false
    }

    /// All errors of the files until now: those of the file that were new, and those that it has not told again.
    fn merge(&mut self, file: Told) {
        for (key, count) in file.0 {
            if self.0.len() < TOLD_MAX || self.0.contains_key(&key) {
                *self.0.entry(key).or_default() += count;
            }
        }
    }
}

/// The reports of a file that a file before has told.
#[derive(Debug, Default)]
struct Repeated {
    report_count: u64,
    error_count: u64,
}

impl Repeated {
    fn add(&mut self, report: &ErrorReport) {
        self.report_count += 1;
        self.error_count = self.error_count.saturating_add(report.count.into());
    }

    fn leave_out_of(self, reading: &mut Reading) {
        if self.report_count == 0 {
            return;
        }
        reading.error_count = reading.error_count.saturating_sub(self.error_count);
        reading.totals.report_count = reading.totals.report_count.saturating_sub(self.report_count);
        reading.totals.repeated_count += self.report_count;
        reading.totals.note("Errors that another file tells as well are counted once.");
    }
}

#[derive(Debug)]
struct Of {
    file: String,
    /// `None` where the file names none.
    host: Option<Host>,
    modules: BTreeSet<String>,
}

impl OneHost {
    /// Of the host of this name or machine ID, or of any one.
    pub fn new(wanted: Option<String>) -> OneHost {
        OneHost { wanted, ..OneHost::default() }
    }

    /// Reads a file, which must be of the same host as those before. `read` gets the host that is wanted and what takes its reports.
    ///
    /// # Errors
    /// Those of `read`; also where the file is of several hosts, of another one, or names none and has a module of the same name as
    /// another file.
    pub fn read<E: From<Error>>(
        &mut self,
        read: impl FnOnce(Option<&str>, &mut Take<'_>) -> Result<Reading, E>,
        take: &mut Take<'_>,
    ) -> Result<Reading, E> {
        let mut modules = BTreeSet::new();
        let wanted = self.wanted.as_ref().map(|name| Host { name: name.clone(), machine: None });
        let (told, mut own) = (&mut self.told, Told::default());
        let mut repeated = Repeated::default();
        let mut reading = read(self.wanted.as_deref(), &mut |report, host| {
            own.add(report);
            // An error that a file before told as well; two in one file are two.
            if told.take(report) {
                repeated.add(report);
                return Ok(());
            }
            // Further modules than are told apart are in no row.
            if modules.len() < MODULES_MAX {
                modules.extend(report.dimm.clone());
            }
            take(report, host.or(wanted.as_ref()))
        })?;
        self.told.merge(own);
        repeated.leave_out_of(&mut reading);
        self.has_wanted |= reading.hosts_instead.is_empty() || reading.error_count > 0;
        for host in &reading.hosts_instead {
            if !self.instead.iter().any(|other| other.is(host)) {
                self.instead.push(host.clone());
            }
        }
        let of = Of { file: reading.file.clone(), host: reading.hosts.first().cloned(), modules };
        for other in &self.files {
            self.compare(other, &of)?;
        }
        self.files.push(of);
        Ok(reading)
    }

    /// Refuses a wanted host that no line is of: a misspelt name would otherwise be a host without errors.
    ///
    /// # Errors
    /// Where all files have lines of other hosts alone.
    pub fn is_there(&self) -> Result<(), Error> {
        let Some(wanted) = self.wanted.as_deref().filter(|_| !self.has_wanted) else { return Ok(()) };
        let instead: Vec<String> = self.instead.iter().map(|host| host.to_string()).collect();
        if instead.is_empty() {
            return Ok(());
        }
        let wanted = surefoot_model::one_line(wanted);
        let why = format!("no line is of {wanted}; there are lines of {}", instead.join(", "));
        Err(Error::Option { option: "--host", why })
    }

    /// The host that each file names; `None` for one that names none.
    pub fn hosts(&self) -> impl Iterator<Item = Option<&Host>> {
        self.files.iter().map(|of| of.host.as_ref())
    }

    fn compare(&self, one: &Of, two: &Of) -> Result<(), Error> {
        if let (Some(host), Some(other)) = (&one.host, &two.host) {
            if host.is(other) {
                return Ok(());
            }
            return Err(Error::SeveralHosts(format!(
                "{} is of {host}, and {} of {other}; read each alone, or {}",
                one.file,
                two.file,
                choose(&[host.clone(), other.clone()])
            )));
        }
        if let (None, Some(module)) = (&self.wanted, one.modules.intersection(&two.modules).next()) {
            let silent = if one.host.is_none() { &one.file } else { &two.file };
            return Err(Error::SeveralHosts(format!(
                "{} and {} both have a module {module}, and {silent} names no host; if both are of one host, say so with --host NAME, \
                 else read each alone",
                one.file, two.file
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::import::{Clock, Format, read_log};
    use std::path::Path;

    /// The same kernel's log as two programs wrote it down, a second apart: each error is one, and two of one file are two.
    #[test]
    fn an_error_in_two_files_is_one() {
        let clock = Clock { now_realtime_ns: 1_795_500_000_000_000_000, booted_realtime_ns: None };
        let line = |stamp: &str, row: u32| {
            format!(
                "{stamp} n1 kernel: EDAC MC0: 1 CE memory read error on A1 (channel:0 slot:0 page:0x12345 offset:0x40 grain:32 \
                 syndrome:0x0 - err_code:0x0101:0x0090 Row:{row:#x} Column:0x8 Bank:0x2)\n"
            )
        };
        let mut files = OneHost::new(None);
        let mut taken = 0;
        let mut read = |name: &str, text: &str| {
            let read = |host: Option<&str>, take: &mut Take<'_>| {
                read_log(text.as_bytes(), Path::new(name), Some(Format::KernelLog), (clock, host), take)
            };
            let reading = files.read(read, &mut |_, host| {
                assert_eq!(host.map(|host| host.name.as_str()), Some("n1"));
                taken += 1;
                Ok(())
            });
            let totals = reading.unwrap().totals;
            (totals.report_count, totals.repeated_count)
        };
        let at = ["Nov 23 08:00:00", "2026-11-23T08:00:01+00:00"];
        let twice = line(at[0], 1).repeat(2);
        assert_eq!(read("messages", &format!("{twice}{}", line(at[0], 2))), (3, 0));
        // The journal has them, and one more of the same second.
        assert_eq!(read("journal", &format!("{}{}", line(at[1], 1).repeat(3), line(at[1], 2))), (1, 3));
        // A third copy of all of it, and an error of another row.
        assert_eq!(read("copy", &format!("{}{}", line(at[0], 1).repeat(2), line(at[0], 3))), (1, 2));
        // Without a time nothing says that it is the same.
        assert_eq!(read("undated", &line("[    1.5]", 1)), (1, 0));
        assert_eq!(taken, 6);
    }
}
