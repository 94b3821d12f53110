//! Keeps the errors of several hosts apart: a module of one is never that of another, whatever their names are.

use super::read::{Reading, Take, choose, read};
use super::{Clock, FormatName};
use anyhow::{bail, ensure};
use std::collections::BTreeSet;
use std::path::Path;
use surefoot_memory::import::Host;

/// The files that were read, and whose they are.
#[derive(Debug, Default)]
pub struct Hosts {
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

impl Hosts {
    pub fn new(wanted: Option<String>) -> Hosts {
        Hosts { wanted, ..Hosts::default() }
    }

    /// Reads a file, which must be of the same host as those before.
    ///
    /// # Errors
    /// Also where it is of several hosts, of another one, or names none and has a module of the same name as another file.
    pub fn read(
        &mut self,
        file: &Path,
        format: FormatName,
        clock: Clock,
        take: &mut Take<'_>,
    ) -> anyhow::Result<Reading> {
        let mut modules = BTreeSet::new();
        let reading = read(file, format, clock, self.wanted.as_deref(), &mut |report| {
            // Further modules than are told apart are in no row.
            if modules.len() < surefoot_memory::import::MODULES_MAX {
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

    /// Refuses a host that nothing is of: a name that is written wrong would otherwise be a host without errors.
    ///
    /// # Errors
    /// Where all files have lines of other hosts alone.
    pub fn is_there(&self) -> anyhow::Result<()> {
        let Some(wanted) = self.wanted.as_deref().filter(|_| !self.has_wanted) else { return Ok(()) };
        let instead: Vec<String> = self.instead.iter().map(|host| host.to_string()).collect();
        ensure!(
            instead.is_empty(),
            "--host: no line is of {}; there are lines of {}",
            surefoot_model::one_line(wanted),
            instead.join(", ")
        );
        Ok(())
    }

    fn compare(&self, one: &Of, two: &Of) -> anyhow::Result<()> {
        if let (Some(host), Some(other)) = (&one.host, &two.host) {
            ensure!(
                host.is(other),
                "{} is of {host}, and {} of {other}; read each alone, or {}",
                one.file,
                two.file,
                choose(&[host.clone(), other.clone()])
            );
            return Ok(());
        }
        if let (None, Some(module)) = (&self.wanted, one.modules.intersection(&two.modules).next()) {
            let silent = if one.host.is_none() { &one.file } else { &two.file };
            bail!(
                "{} and {} both have a module {module}, and {silent} names no host; if both are of one host, say so with --host NAME, \
                 else read each alone",
                one.file,
                two.file
            );
        }
        Ok(())
    }
}
