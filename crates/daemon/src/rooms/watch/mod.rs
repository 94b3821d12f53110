//! Surefoot's own watch: what it costs, what was lost on the way, which sources fail, how old the data are.

mod deeds;
mod series;

pub use deeds::{SOURCE as DEEDS, source as deeds_source};

use crate::config::{Config, Mode};
use crate::http::metrics::Scrape;
use crate::rooms::{Room, Route};
use crate::sources::Statistics;
use std::sync::{Arc, Mutex};
use surefoot_http::lock;
use surefoot_http::{json_text, parameters};
use surefoot_model::{Event, Finding};
use surefoot_rooms::Taken;
use surefoot_rooms::drops::Drops;
use surefoot_rooms::moment::Moment;
use surefoot_rooms::viewer::Public;
use surefoot_rooms::watch::deeds::{Answer as Deeds, State as DeedState};
use surefoot_rooms::watch::{State, findings};

/// What its route answers, as JSON Schema.
#[cfg(test)]
pub(super) fn schemas(of: &mut schemars::SchemaGenerator) -> Vec<serde_json::Value> {
    vec![crate::schema::answer::<Deeds>(of, "GET /api/v1/deeds", deeds::SAYS)]
}

/// The room of the watch itself.
pub(crate) struct Watch {
    mode: Mode,
    sources: Statistics,
    drops: Arc<Drops>,
    state: Mutex<State>,
    deeds: Mutex<DeedState>,
}

impl Watch {
    pub(crate) fn new(config: &Config, drops: Arc<Drops>) -> Self {
        Watch {
            mode: config.mode.clone(),
            sources: config.sources.clone(),
            drops,
            state: Mutex::default(),
            deeds: Mutex::default(),
        }
    }
}

impl Room for Watch {
    fn room(&self) -> surefoot_model::Room {
        surefoot_model::Room::Watch
    }

    fn take(&self, event: &Arc<Event>) -> Taken {
        lock(&self.state).take(event);
        // What is a deed may also be an event of another room, which keeps it; its own findings tell of the rest.
        let is_deed = lock(&self.deeds).take(event) && matches!(&**event, Event::Deed(_));
        if is_deed { Taken::Kept { is_news: false } } else { Taken::NotMine }
    }

    fn findings(&self, moment: &Moment) -> Vec<Finding> {
        let dropped = self.drops.now(self.sources.dropped());
        let mut state = lock(&self.state);
        // A recording says nothing of what this process drops.
        if self.mode == Mode::Live {
            state.note_dropped(&dropped, moment.now_ns);
        }
        // Nor what it could not read.
        let unread_deeds = if self.mode == Mode::Live { self.sources.unread_lines_of(DEEDS) } else { 0 };
        findings::of(&state, moment, unread_deeds)
    }

    fn series(&self, scrape: &mut Scrape) {
        let totals = lock(&self.state).totals().clone();
        let dropped = self.drops.now(self.sources.dropped());
        // The names are those of our own programs and sources.
        scrape.write(
            Public((totals, dropped, self.sources.sources())),
            |Public((totals, dropped, sources)), moment, series| {
                series::encode(&totals, &dropped, sources, moment, series);
            },
        );
        // They have no names, so they are for everybody.
        let counts = Public(lock(&self.deeds).counts().clone());
        scrape.write(counts, |Public(counts), _, series| deeds::encode(&counts, series));
    }

    fn routes(self: Arc<Self>) -> Vec<Route> {
        vec![Route::new("/api/v1/deeds", deeds::SAYS, move |shared, viewer, uri| {
            parameters(uri, &[])?;
            let is_live = !shared.moment().is_replay();
            let cannot = if is_live { deeds::why_not_read() } else { None };
            let unread_count = self.sources.unread_lines_of(DEEDS);
            let all = (lock(&self.deeds).lists(), Public((cannot, unread_count)));
            Ok(viewer
                .show(all, |(list, Public((cannot, unread_count)))| json_text(&Deeds::of(list, cannot, unread_count))))
        })]
    }
}
