//! The source of network interfaces: a poll of small files, and one question to devlink.

use crate::sources::{End, Source, Start};
use std::time::Duration;
use surefoot_hostfs::Root;
use surefoot_interfaces::judge::Limits;
use surefoot_interfaces::look::Looker;
use surefoot_model::Event;
use surefoot_settings::{Live, Nic};

/// A look that takes long, on a host of a thousand interfaces, is followed by a rest of so many times that.
const REST_FACTOR: u32 = 99;

/// The source of the network interfaces of a host.
pub fn source(root: &Root, settings: &Live) -> Start {
    let (root, settings) = (root.clone(), settings.clone());
    Box::new(move || Ok(Box::new(Interfaces { looker: Looker::new(root), settings })))
}

/// What is borne of an interface, as it is set.
pub(crate) fn limits_of(of: &Nic) -> Limits {
    Limits {
        bad_share: of.damaged_share,
        bad_count: of.damaged_packets,
        carrier_changes: of.link_changes,
        ..Limits::default()
    }
}

struct Interfaces {
    looker: Looker,
    settings: Live,
}

impl Source for Interfaces {
    fn turn(&mut self, _: &End) -> Result<Vec<Event>, String> {
        let held = self.settings.now();
        let of = &held.settings.nic;
        self.looker.set_carried_for(of.use_interval);
        self.looker.set_limits(limits_of(of));
        let look = self.looker.look();
        Ok(self.looker.events(look).into_iter().map(Event::Interface).collect())
    }

    fn rest(&self, took: Duration) -> Duration {
        self.settings.now().settings.nic.interval.max(took * REST_FACTOR)
    }
}
