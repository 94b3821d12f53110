//! The real hands: each step goes to the file that knows how.

use super::debug_mode::{self, Adapter, Reported};
use super::drain::Drainer;
use super::hook::{self, HookRule};
use super::ipmi::Ipmi;
use super::reboot::{self, Times};
use super::redfish::Bmc;
use super::shown::cut;
use super::stress::Stress;
use super::ticket::TicketSystem;
use super::{Act, Order, Outcome, PriorAttempt, firmware, own, pages, recheck, unit};
use crate::Step;
use crate::policy::HostNames;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use surefoot_hostfs::{Root, usage};
use surefoot_outside::address::shown;
use surefoot_outside::host_name::in_address;
use surefoot_outside::http::redfish::MachineIdentity;

/// Where adapters of the debug mode are looked for. `make install` puts examples into share/surefoot/adapters.
pub const ADAPTERS: &str = "/etc/surefoot/adapters";
/// Where Surefoot is installed, unless told otherwise.
const SUREFOOT: &str = "/usr/bin/surefoot";

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
    /// Those that speak IPMI alone, which restart their hosts and do nothing else; that of `*` as of `bmcs`.
    pub ipmis: BTreeMap<String, Ipmi>,
    /// Hosts that have several names.
    pub hosts: HostNames,
    /// How long restarts take.
    pub reboot: Times,
    /// Where the adapters of the debug mode lie; `None` for `/etc/surefoot/adapters`.
    pub adapters: Option<PathBuf>,
    /// The program that tells a host's history: Surefoot itself; `None` for where it is installed.
    pub surefoot: Option<PathBuf>,
    /// The history that errors are read from; `None` for that of the host's watch.
    pub history: Option<PathBuf>,
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

    /// Whether a controller is configured that restarts this host, whichever language it speaks.
    pub fn has_controller(&self, host: &str) -> bool {
        let (bmcs, ipmis) = (&self.config.bmcs, &self.config.ipmis);
        [host, "*"].iter().any(|name| bmcs.contains_key(*name) || ipmis.contains_key(*name))
    }

    /// Whether the step reaches its host through a system that may mean another machine by the host's name: then [`Order::machine`] counts.
    pub fn asks_which_machine(&self, order: &Order) -> bool {
        match &order.step {
            Step::Drain | Step::Return => matches!(self.drainer(order), Drainer::Kubernetes(_)),
            Step::Restore(step) => matches!(**step, Step::Firmware { .. } | Step::Debug(_)),
            Step::Firmware { .. } | Step::Debug(_) | Step::SoftRepair(_) | Step::HardRepair(_) => true,
            Step::Reboot => self.has_controller(&order.host),
            _ => false,
        }
    }

    /// Whether the step does something to the machine that has the host's name now, and is not what gives the host back.
    pub fn acts_on_machine(&self, order: &Order) -> bool {
        match &order.step {
            Step::Drain => !matches!(self.drainer(order), Drainer::None),
            Step::Return | Step::Restore(_) => false,
            step => step.touches_host(),
        }
    }

    /// Whether the host of a step that may stop its work is as empty as its drain left it. Work may come back at any moment after that: people
    /// resume nodes and start jobs.
    ///
    /// # Errors
    /// The outcome of the step, which is not begun.
    pub fn still_empty(&self, order: &Order, stop: &AtomicBool) -> Result<(), Outcome> {
        if !order.is_after_drain || !order.step.needs_empty_host() {
            return Ok(());
        }
        let is_way_back = matches!(order.step, Step::Restore(_));
        self.drainer(order).still_empty(order, stop).map_err(|stopped| match stopped {
            Outcome::Failed { detail, is_passing, .. } => Outcome::Failed {
                detail: format!(
                    "{detail}. Nothing was done to the host: drain it by hand and approve the case, or cancel the case"
                ),
                memo: order.memo.clone(),
                is_passing: is_passing || is_way_back,
            },
            other => other,
        })
    }

    /// The host's name and its others, as the policy file gives them.
    pub fn names<'a>(&'a self, host: &'a str) -> impl Iterator<Item = &'a str> {
        self.config.hosts.names(host)
    }

    /// The host's baseboard controller.
    fn bmc(&self, order: &Order) -> Result<Bmc, String> {
        let host = &order.host;
        let own =
            if self.is_here(order) { MachineIdentity::of_host(&Root::host()) } else { MachineIdentity::default() };
        let reported = order.machine.clone();
        let of = |bmc: &Bmc, url: String| Bmc {
            url,
            host: host.clone(),
            own: own.clone(),
            reported: reported.clone(),
            ..bmc.clone()
        };
        if let Some(bmc) = self.config.bmcs.get(host) {
            return Ok(of(bmc, bmc.url.clone()));
        }
        match self.config.bmcs.get("*") {
            Some(bmc) => {
                let is_for_every_host = !bmc.url.contains("{host}");
                Ok(Bmc { is_for_every_host, ..of(bmc, put_in(&bmc.url, host)?) })
            }
            None if self.ipmi(order).is_some() => Err(format!(
                "unsupported: the controller of {} is reached by IPMI, which has no settings of the firmware; its Redfish address is needed",
                cut(host)
            )),
            None => Err(format!("unsupported: no baseboard controller is configured for {}", cut(host))),
        }
    }

    /// The host's controller where it speaks IPMI alone; `None` where it does not.
    fn ipmi(&self, order: &Order) -> Option<Result<Ipmi, String>> {
        let own = self.config.ipmis.get(&order.host);
        let every = self.config.ipmis.get("*").filter(|_| !self.config.bmcs.contains_key(&order.host));
        let of = |ipmi: &Ipmi, url: String| Ipmi { url, ..ipmi.clone() };
        match (own, every) {
            (Some(ipmi), _) => Some(Ok(of(ipmi, ipmi.url.clone()))),
            (None, Some(ipmi)) => Some(put_in(&ipmi.url, &order.host).map(|url| of(ipmi, url))),
            (None, None) => None,
        }
    }

    fn is_here(&self, order: &Order) -> bool {
        !self.config.own_host.is_empty() && order.host == self.config.own_host
    }

    fn adapter(&self, name: &str) -> Result<Adapter, String> {
        let folder = self.config.adapters.clone().unwrap_or_else(|| PathBuf::from(ADAPTERS));
        Adapter::read(&folder, name).map_err(|error| error.to_string())
    }

    /// What a step of the debug mode needs: the adapter, and the host's controller.
    fn debugging(&self, adapter: &str, order: &Order) -> Result<(Adapter, Bmc), String> {
        Ok((self.adapter(adapter)?, self.bmc(order)?))
    }

    fn debug(&self, order: &Order, stop: &AtomicBool) -> Outcome {
        let times = &self.config.reboot;
        let (Step::Debug(name) | Step::SoftRepair(name) | Step::HardRepair(name)) = &order.step else {
            return failed(unsupported(&order.step), order);
        };
        let (adapter, bmc) = match self.debugging(name, order) {
            Ok(both) => both,
            Err(why) => return failed(why, order),
        };
        match &order.step {
            Step::SoftRepair(_) | Step::HardRepair(_) => debug_mode::repair(&bmc, times, &adapter, order, stop),
            _ => debug_mode::debug(&bmc, times, &adapter.debug, order, stop),
        }
    }

    fn surefoot(&self) -> PathBuf {
        self.config.surefoot.clone().unwrap_or_else(|| PathBuf::from(SUREFOOT))
    }

    /// What the history of this host tells of the case's errors.
    fn reported(&self, order: &Order, stop: &AtomicBool) -> Result<Reported, Outcome> {
        Reported::ask(&self.surefoot(), self.config.history.as_deref(), order, stop)
    }

    /// A step that only the host itself can do.
    fn here(&self, order: &Order, stop: &AtomicBool) -> Outcome {
        if !self.is_here(order) {
            let why = format!(
                "unsupported: '{}' is done on the host itself, and no agent of {} is known",
                order.step,
                cut(&order.host)
            );
            return failed(why, order);
        }
        match &order.step {
            Step::Restart(name) => unit::restart(name, order, stop),
            Step::ResetInterface(name) => own::reset_interface(&self.surefoot(), name, order, stop),
            Step::TuneReporting(interval) => own::tune_reporting(&self.surefoot(), *interval, order, stop),
            Step::OfflinePage => match self.reported(order, stop) {
                Ok(reported) => pages::offline(&Root::host(), &reported, usage::page_bytes(), order),
                Err(failed) => failed,
            },
            step => failed(unsupported(step), order),
        }
    }

    fn restore(&self, step: &Step, order: &Order, stop: &AtomicBool) -> Outcome {
        match (step, self.bmc(order)) {
            (Step::Firmware { .. }, Ok(bmc)) => firmware::restore(&bmc, order, stop),
            (Step::Debug(_), Ok(bmc)) => debug_mode::restore(&bmc, &self.config.reboot, order, stop),
            (Step::Firmware { .. } | Step::Debug(_), Err(why)) => failed(why, order),
            (Step::TuneReporting(_), _) if self.is_here(order) => own::restore_reporting(order),
            (step, _) => failed(unsupported(step), order),
        }
    }

    fn find_switch(&self, order: &Order) -> PriorAttempt {
        match self.bmc(order) {
            Ok(bmc) if matches!(order.step, Step::SoftRepair(_) | Step::HardRepair(_)) => {
                debug_mode::find_repair(&bmc, order)
            }
            Ok(bmc) => debug_mode::find(&bmc, order),
            Err(why) => PriorAttempt::Unknown { why },
        }
    }

    fn reboot(&self, order: &Order, stop: &AtomicBool) -> Outcome {
        match self.ipmi(order) {
            Some(Ok(ipmi)) => return ipmi.restart(&self.config.reboot, order, stop),
            Some(Err(why)) => return failed(why, order),
            None => {}
        }
        match self.bmc(order) {
            Ok(bmc) => reboot::by_bmc(&bmc, &self.config.reboot, order, stop),
            Err(_) if self.is_here(order) => reboot::here(&Root::host(), order, stop),
            Err(why) => failed(why, order),
        }
    }

    fn stress(&self, order: &Order) -> Stress {
        Stress { mebibytes: self.config.stress_mebibytes.or(order.stress_mebibytes) }
    }
}

/// An address of every host with this one's name in it.
fn put_in(url: &str, host: &str) -> Result<String, String> {
    if url.contains("{host}") { Ok(url.replace("{host}", &in_address(host)?)) } else { Ok(url.to_owned()) }
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
            Step::Stress(time) => self.stress(order).dry_run(*time),
            Step::Run(path) => match hook::trusted(std::path::Path::new(path)) {
                Ok(_) => format!("run {path} for {}", order.host),
                Err(why) => why,
            },
            Step::Ticket(name) => match self.config.tickets.get(name) {
                Some(system) => system.dry_run(order),
                None => no_ticket_system(name),
            },
            Step::Firmware { name, value } => match self.bmc(order) {
                Ok(bmc) => format!("set {name} = {value} at {}, from the next restart on", shown(&bmc.url)),
                Err(why) => why,
            },
            Step::Restore(step) => format!("put back what '{step}' changed"),
            Step::Debug(name) => match self.debugging(name, order) {
                Ok((adapter, bmc)) => format!("at {}: set {:?} and restart", shown(&bmc.url), adapter.debug),
                Err(why) => why,
            },
            Step::SoftRepair(name) | Step::HardRepair(name) => match self.debugging(name, order) {
                Ok((_, bmc)) => format!("repair the rows that were collected, by {}", shown(&bmc.url)),
                Err(why) => why,
            },
            Step::Collect(_) => "read the rows of the errors since from the host's history".to_owned(),
            Step::Reboot if self.ipmi(order).is_some() => {
                format!("switch {} off and on by its controller's IPMI", order.host)
            }
            Step::Reboot => match self.bmc(order) {
                Ok(bmc) => format!("restart {} by {}", order.host, shown(&bmc.url)),
                Err(_) if self.is_here(order) => "systemctl reboot".to_owned(),
                Err(why) => why,
            },
            Step::Restart(name) => format!("systemctl restart {name}, on {}", order.host),
            Step::ResetInterface(_) => format!("surefoot nic health --recover --yes, on {}", order.host),
            Step::TuneReporting(time) => {
                format!("surefoot memory tune --apply, an interval of {} s, on {}", time.as_secs(), order.host)
            }
            Step::OfflinePage => format!(
                "soft-offline the pages with corrected errors and hard-offline those that lost bits, on {}",
                order.host
            ),
        }
    }

    fn run(&self, order: &Order, stop: &AtomicBool) -> Outcome {
        if let Err(stopped) = self.still_empty(order, stop) {
            return stopped;
        }
        match &order.step {
            Step::Recheck => recheck::judge(order.readings.clone()),
            Step::Drain => self.drainer(order).drain(order, stop),
            Step::Return => self.drainer(order).restore(order, stop),
            Step::Stress(time) => self.stress(order).run(*time, order, stop),
            Step::Run(path) => hook::run(path, &self.hook(path), order, stop),
            Step::Ticket(name) => match self.config.tickets.get(name) {
                Some(system) => system.file(order, stop),
                None => failed(no_ticket_system(name), order),
            },
            Step::Firmware { name, value } => match self.bmc(order) {
                Ok(bmc) => firmware::run(&bmc, name, value, order, stop),
                Err(why) => failed(why, order),
            },
            Step::Restore(step) => self.restore(step, order, stop),
            Step::Debug(_) | Step::SoftRepair(_) | Step::HardRepair(_) => self.debug(order, stop),
            Step::Collect(_) => {
                self.reported(order, stop).map_or_else(|failed| failed, |reported| debug_mode::collect(reported, order))
            }
            Step::Reboot => self.reboot(order, stop),
            Step::Restart(_) | Step::ResetInterface(_) | Step::TuneReporting(_) | Step::OfflinePage => {
                self.here(order, stop)
            }
        }
    }

    fn find(&self, order: &Order) -> PriorAttempt {
        match &order.step {
            // Each looks first at what is there.
            Step::Recheck | Step::Stress(_) | Step::Firmware { .. } | Step::Collect(_) => PriorAttempt::MayRepeat,
            Step::ResetInterface(_) | Step::TuneReporting(_) | Step::OfflinePage => PriorAttempt::MayRepeat,
            Step::Debug(_) | Step::SoftRepair(_) | Step::HardRepair(_) => self.find_switch(order),
            Step::Restore(step) if matches!(**step, Step::Debug(_)) => self.find_switch(order),
            Step::Restore(_) => PriorAttempt::MayRepeat,
            Step::Reboot if self.ipmi(order).is_some() => Ipmi::find(),
            Step::Reboot => match self.bmc(order) {
                Ok(bmc) => reboot::find_by_bmc(&bmc, order),
                // The boot id tells.
                Err(_) => PriorAttempt::MayRepeat,
            },
            Step::Restart(name) => unit::find(name, order),
            Step::Drain | Step::Return => self.drainer(order).find(),
            Step::Run(path) => hook::find(path, &self.hook(path), order),
            Step::Ticket(name) => self.config.tickets.get(name).map_or(PriorAttempt::MayRepeat, TicketSystem::find),
        }
    }
}

fn no_ticket_system(name: &str) -> String {
    format!("no ticket system is called '{name}'")
}
