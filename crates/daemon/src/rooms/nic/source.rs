//! The source of network interfaces: a poll of small files every ten seconds, and one question to devlink.

use crate::sources::{End, Source, Start};
use std::time::Duration;
use surefoot_hostfs::Root;
use surefoot_interfaces::look::Looker;
use surefoot_model::Event;

/// The time between two looks.
const PERIOD: Duration = Duration::from_secs(10);
/// The time between two looks at what goes through the interfaces.
const CARRIED_FOR: Duration = Duration::from_secs(60);
/// A look that takes long, on a host of a thousand interfaces, is followed by a rest of so many times that.
const REST_FACTOR: u32 = 99;

/// The source of the network interfaces of a host.
pub fn source(root: &Root) -> Start {
    let root = root.clone();
    Box::new(move || Ok(Box::new(Interfaces { looker: Looker::new(root).with_carried_for(CARRIED_FOR) })))
}

struct Interfaces {
    looker: Looker,
}

impl Source for Interfaces {
    fn turn(&mut self, _: &End) -> Result<Vec<Event>, String> {
        let look = self.looker.look();
        Ok(self.looker.events(look).into_iter().map(Event::Interface).collect())
    }

    fn rest(&self, took: Duration) -> Duration {
        PERIOD.max(took * REST_FACTOR)
    }
}
