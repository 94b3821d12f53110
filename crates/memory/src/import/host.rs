//! Which hosts the lines of a log are of: collected logs hold those of many, whose modules may have the same names.

use super::{journal, kernel_time};

/// Hosts that are told apart; nobody needs a longer list to see that there are several.
const HOSTS_MAX: usize = 64;

/// A host, as a line names it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Host {
    /// Its name; empty where only the machine is told.
    pub name: String,
    /// Its `/etc/machine-id`, which the journal tells.
    pub machine: Option<String>,
}

impl Host {
    /// The host that a line names.
    pub(super) fn of(line: &str) -> Option<Host> {
        match journal::host(line) {
            Some(host) => Some(host).filter(|host| !host.name.is_empty() || host.machine.is_some()),
            None => kernel_time::host(line).map(|name| Host { name: name.to_owned(), machine: None }),
        }
    }

    /// Whether both can be the same host: two machines are two, and a short name may be that of a long one. Hosts that were cloned from one
    /// image have one machine ID, so two names of one are two hosts; a host that was renamed looks the same, and a person chooses.
    pub fn is(&self, other: &Host) -> bool {
        if let (Some(one), Some(two)) = (&self.machine, &other.machine) {
            let is_unnamed = self.name.is_empty() || other.name.is_empty();
            if one != two || is_unnamed {
                return one == two;
            }
        }
        let is_short_of = |short: &str, long: &str| {
            let rest = long.get(..short.len()).filter(|start| start.eq_ignore_ascii_case(short));
            !short.is_empty() && rest.is_some() && matches!(long.as_bytes().get(short.len()), None | Some(b'.'))
        };
        is_short_of(&self.name, &other.name) || is_short_of(&other.name, &self.name)
    }

    /// Whether a person who names a host means this one, by its name or its machine.
    fn is_named(&self, word: &str) -> bool {
        self.machine.as_deref().is_some_and(|machine| machine.eq_ignore_ascii_case(word))
            || self.is(&Host { name: word.to_owned(), machine: None })
    }
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = surefoot_model::one_line(&self.name);
        match &self.machine {
            None => f.write_str(&name),
            Some(machine) if name.is_empty() => write!(f, "machine {}", surefoot_model::one_line(machine)),
            Some(machine) => write!(f, "{name} (machine {})", surefoot_model::one_line(machine)),
        }
    }
}

/// The hosts whose errors a log tells.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    /// The only one that is wanted.
    wanted: Option<String>,
    pub found: Vec<Host>,
    /// Lines of others.
    pub left_out_count: u64,
    /// The first of these others.
    pub others: Vec<Host>,
    /// Whether a line names the one that is wanted.
    pub is_wanted_there: bool,
}

impl Hosts {
    pub fn only(wanted: Option<String>) -> Hosts {
        Hosts { wanted, ..Hosts::default() }
    }

    /// Whether a line is of another host than the one that is wanted. One that names no host is of it.
    pub fn leave_out(&mut self, line: &str) -> bool {
        let Some(wanted) = &self.wanted else { return false };
        let Some(host) = Host::of(line) else { return false };
        if host.is_named(wanted) {
            self.is_wanted_there = true;
            return false;
        }
        self.left_out_count += 1;
        if self.others.len() < HOSTS_MAX && !self.others.iter().any(|other| other.is(&host)) {
            self.others.push(host);
        }
        true
    }

    /// Takes the host of a line that tells of an error.
    pub fn add(&mut self, line: &str) {
        let Some(host) = Host::of(line) else { return };
        // Who names a machine by its ID says that all of its names are one host's.
        let is_chosen = |of: &Host| {
            of.machine
                .as_ref()
                .zip(self.wanted.as_ref())
                .is_some_and(|(machine, word)| machine.eq_ignore_ascii_case(word))
        };
        let is_known = |known: &&mut Host| known.is(&host) || is_chosen(known) && is_chosen(&host);
        let Some(known) = self.found.iter_mut().find(is_known) else {
            if self.found.len() < HOSTS_MAX {
                self.found.push(host);
            }
            return;
        };
        // What tells more tells more of the next one apart.
        let is_longer = host.machine == known.machine && host.name.len() > known.name.len();
        if is_longer || host.machine.is_some() && known.machine.is_none() {
            *known = host;
        }
    }
}

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
