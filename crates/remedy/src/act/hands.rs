//! The real hands: each step goes to the file that knows how.

use super::drain::Drainer;
use super::hook::{self, HookRule};
use super::stress::Stress;
use super::ticket::TicketSystem;
use super::{Act, Found, Order, Outcome};
use crate::Step;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// What the hands know of the fleet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HandsConfig {
    /// How hosts are taken out of service, by the name of the service; others have no scheduler.
    pub drainers: BTreeMap<String, Drainer>,
    /// What the owner says of hooks, by their paths.
    pub hooks: BTreeMap<String, HookRule>,
    /// Ticket systems by name.
    pub tickets: BTreeMap<String, TicketSystem>,
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

    fn stress(&self) -> Stress {
        Stress { mebibytes: self.config.stress_mebibytes }
    }
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
            step => unsupported(step),
        }
    }

    fn run(&self, order: &Order, stop: &AtomicBool) -> Outcome {
        let failed = |detail: String| Outcome::Failed { detail, memo: order.memo.clone(), is_passing: false };
        match &order.step {
            // The engine has looked at the alert by itself; what is left to do is nothing.
            Step::Recheck => Outcome::Done { detail: "the alert still holds".to_owned(), memo: String::new() },
            Step::Drain => self.drainer(order).drain(order, stop),
            Step::Return => self.drainer(order).restore(order, stop),
            Step::Stress(time) => self.stress().run(*time, order, stop),
            Step::Run(path) => hook::run(path, &self.hook(path), order, stop),
            Step::Ticket(name) => match self.config.tickets.get(name) {
                Some(system) => system.file(order, stop),
                None => failed(no_ticket_system(name)),
            },
            step => failed(unsupported(step)),
        }
    }

    fn find(&self, order: &Order) -> Found {
        match &order.step {
            Step::Recheck | Step::Stress(_) => Found::MayRepeat,
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
