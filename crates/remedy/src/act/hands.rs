//! The real hands: each step goes to the file that knows how.

use super::drain::Drainer;
use super::hook::{self, HookRule};
use super::reboot::{self, Times};
use super::redfish::Bmc;
use super::shown::cut;
use super::stress::Stress;
use super::ticket::TicketSystem;
use super::{Act, Found, Order, Outcome, firmware, unit};
use crate::Step;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use surefoot_hostfs::Root;

/// What the hands know of the fleet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HandsConfig {
    /// How hosts are taken out of service, by the name of the service; others have no scheduler.
    pub drainers: BTreeMap<String, Drainer>,
    /// What the owner says of hooks, by their paths.
    pub hooks: BTreeMap<String, HookRule>,
    /// Ticket systems by name.
    pub tickets: BTreeMap<String, TicketSystem>,
    /// Baseboard controllers by host; that of `*` is of every other host, and `{host}` in its address becomes the host's name.
    pub bmcs: BTreeMap<String, Bmc>,
    /// How long restarts take.
    pub reboot: Times,
    /// The name of the host that this runs on: only there units are restarted, and it restarts itself where it has no controller.
    pub own_host: String,
    /// MiB that a stress tests; `None` for what is free.
    pub stress_mebibytes: Option<u64>,
}

/// Does steps for real.
#[derive(Debug, Clone, Default)]
pub struct Hands {
    config: HandsConfig,
}

impl Hands {
    /// Hands for this fleet.
    pub fn new(config: HandsConfig) -> Self {
        Hands { config }
    }

    fn drainer(&self, order: &Order) -> Drainer {
        self.config.drainers.get(&order.service).cloned().unwrap_or_default()
    }

    fn hook(&self, path: &str) -> HookRule {
        self.config.hooks.get(path).cloned().unwrap_or_default()
    }

    /// The host's baseboard controller.
    fn bmc(&self, order: &Order) -> Result<Bmc, String> {
        if let Some(bmc) = self.config.bmcs.get(&order.host) {
            return Ok(bmc.clone());
        }
        let host = &order.host;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
        match self.config.bmcs.get("*") {
            Some(bmc) if host.bytes().all(is_plain) => Ok(Bmc { url: bmc.url.replace("{host}", host), ..bmc.clone() }),
            Some(_) => Err(format!("'{}' is no host's name that could be part of an address", cut(host))),
            None => Err(format!("unsupported: no baseboard controller is configured for {}", cut(host))),
        }
    }

    fn is_here(&self, order: &Order) -> bool {
        !self.config.own_host.is_empty() && order.host == self.config.own_host
    }

    fn reboot(&self, order: &Order, stop: &AtomicBool) -> Outcome {
        match self.bmc(order) {
            Ok(bmc) => reboot::by_bmc(&bmc, &self.config.reboot, order, stop),
            Err(_) if self.is_here(order) => reboot::here(&Root::host(), order, stop),
            Err(why) => failed(why, order),
        }
    }

    fn stress(&self) -> Stress {
        Stress { mebibytes: self.config.stress_mebibytes }
    }
}

fn failed(detail: String, order: &Order) -> Outcome {
    Outcome::Failed { detail, memo: order.memo.clone(), is_passing: false }
}

fn unsupported(step: &Step) -> String {
    format!("unsupported: nothing here can do '{step}'")
}

impl Act for Hands {
    fn dry_run(&self, order: &Order) -> String {
        match &order.step {
            Step::Recheck => "look whether the alert still holds".to_owned(),
            Step::Drain => self.drainer(order).dry_run(order),
            Step::Return => format!("bring {} back into service", order.host),
            Step::Stress(time) => self.stress().dry_run(*time),
            Step::Run(path) => match hook::trusted(std::path::Path::new(path)) {
                Ok(()) => format!("run {path} for {}", order.host),
                Err(why) => why,
            },
            Step::Ticket(name) => match self.config.tickets.get(name) {
                Some(system) => system.dry_run(order),
                None => no_ticket_system(name),
            },
            Step::Firmware { name, value } => match self.bmc(order) {
                Ok(bmc) => format!("set {name} = {value} at {}, from the next restart on", bmc.url),
                Err(why) => why,
            },
            Step::Restore(step) => format!("put back what '{step}' changed"),
            Step::Reboot => match self.bmc(order) {
                Ok(bmc) => format!("restart {} by {}", order.host, bmc.url),
                Err(_) if self.is_here(order) => "systemctl reboot".to_owned(),
                Err(why) => why,
            },
            Step::Restart(name) if self.is_here(order) => format!("systemctl restart {name}"),
            step => unsupported(step),
        }
    }

    fn run(&self, order: &Order, stop: &AtomicBool) -> Outcome {
        match &order.step {
            // The engine has looked at the alert by itself; what is left to do is nothing.
            Step::Recheck => Outcome::Done { detail: "the alert still holds".to_owned(), memo: String::new() },
            Step::Drain => self.drainer(order).drain(order, stop),
            Step::Return => self.drainer(order).restore(order, stop),
            Step::Stress(time) => self.stress().run(*time, order, stop),
            Step::Run(path) => hook::run(path, &self.hook(path), order, stop),
            Step::Ticket(name) => match self.config.tickets.get(name) {
                Some(system) => system.file(order, stop),
                None => failed(no_ticket_system(name), order),
            },
            Step::Firmware { name, value } => match self.bmc(order) {
                Ok(bmc) => firmware::run(&bmc, name, value, order, stop),
                Err(why) => failed(why, order),
            },
            Step::Restore(step) => match (&**step, self.bmc(order)) {
                (Step::Firmware { .. }, Ok(bmc)) => firmware::restore(&bmc, order, stop),
                (Step::Firmware { .. }, Err(why)) => failed(why, order),
                (step, _) => failed(unsupported(step), order),
            },
            Step::Reboot => self.reboot(order, stop),
            Step::Restart(name) if self.is_here(order) => unit::restart(name, order, stop),
            step => failed(unsupported(step), order),
        }
    }

    fn find(&self, order: &Order) -> Found {
        match &order.step {
            // Each looks first at what is there.
            Step::Recheck | Step::Stress(_) | Step::Firmware { .. } | Step::Restore(_) => Found::MayRepeat,
            Step::Reboot => match self.bmc(order) {
                Ok(bmc) => reboot::find_by_bmc(&bmc, order),
                // The boot id tells.
                Err(_) => Found::MayRepeat,
            },
            Step::Restart(name) => unit::find(name, order),
            Step::Drain | Step::Return => self.drainer(order).find(),
            Step::Run(path) => hook::find(path, &self.hook(path), order),
            Step::Ticket(name) => self.config.tickets.get(name).map_or(Found::MayRepeat, TicketSystem::find),
            step => Found::Unknown { why: unsupported(step) },
        }
    }
}

fn no_ticket_system(name: &str) -> String {
    format!("no ticket system is called '{name}'")
}
