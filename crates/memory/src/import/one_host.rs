//! Keeps the errors of several hosts apart: modules of two hosts may have the same name.

use super::file::choose;
use super::{Host, MODULES_MAX, Reading, Take};
use crate::Error;
use std::collections::BTreeSet;

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
        let reading = read(self.wanted.as_deref(), &mut |report| {
            // Further modules than are told apart are in no row.
            if modules.len() < MODULES_MAX {
                modules.extend(report.dimm.clone());
            }
            take(report)
        })?;
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
