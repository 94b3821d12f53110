//! Surefoot's own watch: what it costs, what was lost on the way, which sources fail, how old the data are.

mod findings;
mod series;
mod state;

pub(crate) use findings::is_of_the_start;

use crate::config::{Config, Mode};
use crate::keep::drops::Drops;
use crate::keep::shared::lock;
use crate::keep::stream::Moment;
use crate::rooms::{Room, Route, Taken};
use crate::sources::Statistics;
use prometheus_client::encoding::DescriptorEncoder;
use state::State;
use std::sync::{Arc, Mutex};
use surefoot_model::{Event, Finding};

/// The room of the watch itself.
pub(crate) struct Watch {
    mode: Mode,
    sources: Statistics,
    drops: Arc<Drops>,
    state: Mutex<State>,
}

impl Watch {
    pub(crate) fn new(config: &Config, drops: Arc<Drops>) -> Self {
        Watch { mode: config.mode.clone(), sources: config.sources.clone(), drops, state: Mutex::default() }
    }
}

impl Room for Watch {
    fn room(&self) -> surefoot_model::Room {
        surefoot_model::Room::Watch
    }

    fn take(&self, event: &Arc<Event>) -> Taken {
        lock(&self.state).take(event);
        // Its findings tell of it.
        Taken::NotMine
    }

    fn findings(&self, moment: &Moment) -> Vec<Finding> {
        let dropped = self.drops.now(self.sources.dropped());
        let mut state = lock(&self.state);
        // A recording says nothing of what this process drops.
        if self.mode == Mode::Live {
            state.note_dropped(&dropped, moment.now_ns);
        }
        findings::of(&state, moment)
    }

    fn series(
        &self,
        moment: &Moment,
        _: crate::http::access::Viewer,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> Result<(), std::fmt::Error> {
        let totals = lock(&self.state).totals().clone();
        let dropped = self.drops.now(self.sources.dropped());
        series::encode(&totals, &dropped, self.sources.sources(), moment, encoder)
    }

    fn routes(self: Arc<Self>) -> Vec<Route> {
        Vec::new()
    }
}
