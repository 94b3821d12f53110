//! Policies: which fault of which service leads to which steps, and under which limits. One TOML file for a fleet:
//!
//! ```
//! use surefoot_remedy::policy::Policies;
//! let policies = Policies::parse(
//!     r#"
//!     [[policy]]
//!     service = "web"
//!     match = { room = "memory", severity = "critical" }
//!     steps = ["recheck", "drain", "run:/usr/lib/surefoot/hooks/repair", "return"]
//!     hosts_at_once = 1
//!     share_of_service = 0.05
//!     per_hour = 6
//!     cool_down = "24h"
//!     approve = ["run:/usr/lib/surefoot/hooks/repair"]
//!
//!     [[service]]
//!     name = "web"
//!     size = 400
//!     drain = "slurm"
//!     "#,
//!     "policy.toml",
//! )?;
//! // With the look whether the repair has helped, before the host is returned.
//! assert_eq!(policies.policies[0].steps.len(), 5);
//! # Ok::<(), surefoot_remedy::Error>(())
//! ```

pub mod adapters;
pub(crate) mod doubts;
mod matching;
mod parse;
pub(crate) mod table;
mod window;

pub use adapters::{Bmc, Debug, Drain, Hook, Kubernetes, Reboot, Slurm, TicketSystem, TicketWay};
pub use matching::Match;
pub use window::{Window, utc_text};

use crate::Step;
use std::collections::{BTreeSet, HashMap};
use surefoot_model::Alert;

/// The service of a policy that is for every service.
pub const ANY_SERVICE: &str = "*";

/// Nanoseconds of an hour: the span of [`Policy::per_hour`].
pub const HOUR_NS: u64 = 3_600 * 1_000_000_000;

/// Everything that a policy file says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Policies {
    /// The policies, in the order of the file: the first that matches an alert counts.
    pub policies: Vec<Policy>,
    /// What is known of services.
    pub services: Vec<Service>,
    /// Hosts that have several names, or whose name looks like that of another.
    pub hosts: HostNames,
    /// Windows of maintenance.
    pub windows: Vec<Window>,
    /// Systems that take tickets.
    pub tickets: Vec<TicketSystem>,
    /// What is said of hooks.
    pub hooks: Vec<Hook>,
    /// How much memory a stress tests, MiB; `None` for what is free.
    pub stress_mebibytes: Option<u64>,
    /// How Slurm is reached.
    pub slurm: Slurm,
    /// How Kubernetes is reached; `None` where the file says nothing of it.
    pub kubernetes: Option<Kubernetes>,
    /// How the management controllers of hosts are reached.
    pub bmcs: Vec<Bmc>,
    /// How long restarts take.
    pub reboot: Reboot,
    /// Where the debug mode finds what it needs.
    pub debug: Debug,
}

/// What is done about a fault of a service.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// Its name, which cases keep: that of the file, or its service and place (`web-1`).
    pub name: String,
    /// The service that it is for; [`ANY_SERVICE`] for all.
    pub service: String,
    /// Which alerts it is for.
    pub matching: Match,
    /// What is done, in order, the verification of a repair included.
    pub steps: Vec<Step>,
    /// Whether the policy wants no verification: a host is returned without a look at what its repair did.
    pub is_unverified: bool,
    /// Which of the steps a person is to approve each time.
    pub approve: Vec<Step>,
    /// How many hosts of the service may be out at once, for whichever policy.
    pub hosts_at_once: u64,
    /// Which share of the service's hosts may be out at once, 0 to 1; rounded down, but one host always may.
    pub share_of_service: f64,
    /// How many hosts of the service may be taken up within an hour.
    pub per_hour: u64,
    /// How long a host is left alone after a case that touched it.
    pub cool_down_ns: u64,
    /// Names of the windows of maintenance in which a host may be taken up; none for always.
    pub windows: Vec<String>,
    /// What is done about steps that fail.
    pub retry: Retry,
    /// From how many repairs on a part is to be replaced; `None` for never.
    pub replace_after: Option<ReplaceAfter>,
    /// How long an alert must hold before it becomes a case.
    pub hold_off_ns: u64,
    /// How long an alert must be over before its trouble counts as gone.
    pub clear_after_ns: u64,
    /// How long a drain waits until the host is empty; then it is broken off, and the host is returned.
    pub drain_within_ns: u64,
    /// Whether a step whose outcome cannot be observed counts as done; otherwise a person gets the case.
    pub accepts_unobserved: bool,
    /// How long a recheck after a repair waits for the alert to end, before the repair counts as failed.
    pub recheck_within_ns: u64,
    /// The ticket system that gets what no step repaired; `None` for none.
    pub ticket: Option<String>,
    /// Whether steps are told and not done.
    pub is_dry_run: bool,
    /// Whether its cases begin nothing new.
    pub is_paused: bool,
}

/// How often a step is begun, and how long is waited in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// How often at most, the first time included.
    pub attempts: u32,
    /// How long after the first failure; doubled after each further one, up to an hour.
    pub back_off_ns: u64,
}

/// From how many repairs of a part on it is no more repaired: a person gets it, with a ticket, to replace it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplaceAfter {
    /// So many cases have repaired it.
    pub repairs: u64,
    /// Within this time.
    pub within_ns: u64,
}

impl Default for Retry {
    fn default() -> Self {
        Retry { attempts: 3, back_off_ns: 60 * 1_000_000_000 }
    }
}

impl Retry {
    /// How long to wait after so many attempts.
    pub fn wait_ns(&self, attempt_count: u32) -> u64 {
        let doublings = attempt_count.saturating_sub(1).min(20);
        self.back_off_ns.saturating_mul(1 << doublings).min(HOUR_NS.max(self.back_off_ns))
    }
}

/// What is known of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// How many hosts it has; `None` where only those that tell of themselves are known.
    pub size: Option<u64>,
    /// Names of its hosts, where the file lists them.
    pub hosts: BTreeSet<String>,
    /// Who takes its hosts out and brings them back.
    pub drain: Drain,
    /// Windows of maintenance for all of its policies.
    pub windows: Vec<String>,
}

/// The names of machines: the tables `[[host]]`, each of which is one machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostNames {
    machines: Vec<Vec<String>>,
    of: HashMap<String, usize>,
}

impl HostNames {
    /// Adds a machine with these names; the one that another machine has already, or that stands twice.
    pub(crate) fn add(&mut self, names: Vec<String>) -> Result<(), String> {
        for name in &names {
            if self.of.insert(name.clone(), self.machines.len()).is_some() {
                return Err(name.clone());
            }
        }
        self.machines.push(names);
        Ok(())
    }

    /// All names of the machine that this is a name of, as the file has them; none where the file says nothing of it.
    pub fn of(&self, host: &str) -> &[String] {
        self.of.get(host).and_then(|&place| self.machines.get(place)).map_or(&[], Vec::as_slice)
    }

    /// This name, and the others of its machine.
    pub fn names<'a>(&'a self, host: &'a str) -> impl Iterator<Item = &'a str> {
        [host].into_iter().chain(self.of(host).iter().map(String::as_str).filter(move |name| *name != host))
    }

    /// Each machine with its names.
    pub fn all(&self) -> impl Iterator<Item = &[String]> {
        self.machines.iter().map(Vec::as_slice)
    }
}

impl Policies {
    /// The service of this name, where the file tells of it.
    pub fn service(&self, name: &str) -> Option<&Service> {
        self.services.iter().find(|service| service.name == name)
    }

    /// The policy of this name.
    pub fn policy(&self, name: &str) -> Option<&Policy> {
        self.policies.iter().find(|policy| policy.name == name)
    }

    /// The window of this name.
    pub fn window(&self, name: &str) -> Option<&Window> {
        self.windows.iter().find(|window| window.name == name)
    }

    /// Who drains a service's hosts.
    pub fn drain(&self, service: &str) -> Drain {
        self.service(service).map_or(Drain::None, |service| service.drain)
    }

    /// The service that an alert's host works for: what the alert says, then whose hosts the file lists; where nobody says one and
    /// the file is about a single service, that one. Empty where it stays unknown.
    pub fn service_of<'a>(&'a self, alert: &'a Alert) -> &'a str {
        if !alert.service.is_empty() {
            return &alert.service;
        }
        let is_its = |service: &&Service| self.hosts.names(&alert.host).any(|name| service.hosts.contains(name));
        if let Some(service) = self.services.iter().find(is_its) {
            return &service.name;
        }
        let mut named = self
            .policies
            .iter()
            .map(|policy| policy.service.as_str())
            .chain(self.services.iter().map(|service| service.name.as_str()))
            .filter(|name| *name != ANY_SERVICE);
        match named.next() {
            Some(first) if named.all(|name| name == first) => first,
            _ => "",
        }
    }

    /// The policy that an alert leads to: the first of the file that is for its service and matches.
    pub fn of(&self, alert: &Alert) -> Option<&Policy> {
        let service = self.service_of(alert);
        self.policies
            .iter()
            .find(|policy| (policy.service == ANY_SERVICE || policy.service == service) && policy.matching.holds(alert))
    }

    /// How far back a decision must see closed cases, for the longest cool-down and the rate of an hour.
    pub fn look_back_ns(&self) -> u64 {
        self.policies.iter().map(|policy| policy.cool_down_ns).fold(HOUR_NS, u64::max)
    }
}
