//! Network interfaces: the state of each with its evidence, health reporters, counters, and what was done for one that hung.

pub mod campaign;
mod series;
pub(crate) mod source;

pub use source::source;
use surefoot_rooms::nic::view::ANSWER_BYTES_MAX;

use crate::config::{Config, Mode};
use crate::http::metrics::Scrape;
use crate::rooms::answer::within;
use crate::rooms::{Chart, NowValue, Room, Route};
use std::sync::{Arc, Mutex};
use surefoot_hostfs::Root;
use surefoot_http::lock;
use surefoot_http::parameters;
use surefoot_interfaces::presence;
use surefoot_model::{Event, Finding};
use surefoot_rooms::Taken;
use surefoot_rooms::moment::Moment;
use surefoot_rooms::nic::{Answer, State, findings};
use surefoot_rooms::viewer::Viewer;
use surefoot_rooms::viewer::{Public, Seen};

/// Why a recording shows none.
const NOT_RECORDED: &str = "this recording holds no network interfaces; the release that made it did not look";
/// Before the first look.
const NOT_YET: &str = "the first look at the network interfaces has not ended yet";

/// What its address answers.
const SAYS: &str = "Network interfaces: state, evidence, health reporters and counters.";

/// What its route answers, as JSON Schema.
#[cfg(test)]
pub(super) fn schemas(of: &mut schemars::SchemaGenerator) -> Vec<serde_json::Value> {
    let own = vec![crate::schema::answer::<Answer>(of, "GET /api/v1/nic", SAYS)];
    [own, campaign::schemas(of)].concat()
}

/// The room of network interfaces.
pub(crate) struct Nic {
    /// Why this host has none to show; `None` where it has, and in a replay.
    unsupported: Option<String>,
    state: Mutex<State>,
    files: Mutex<campaign::Files>,
    movies: campaign::Movies,
}

impl Nic {
    pub(crate) fn new(config: &Config) -> Self {
        let why = || presence::unsupported(&Root::host()).map(|why| why.to_string());
        let unsupported = (config.mode == Mode::Live).then(why).flatten();
        let campaign::Options { files, experiments } = &config.rooms.campaigns;
        let files = Mutex::new(campaign::Files::new(files));
        Nic { unsupported, state: Mutex::default(), files, movies: campaign::Movies::new(experiments) }
    }
}

impl Room for Nic {
    fn room(&self) -> surefoot_model::Room {
        surefoot_model::Room::Nic
    }

    fn take(&self, event: &Arc<Event>) -> Taken {
        let Event::Interface(seen) = &**event else { return Taken::NotMine };
        lock(&self.state).seen(seen);
        // Who looks at interfaces asks for them.
        Taken::Kept { is_news: false }
    }

    fn findings(&self, _: &Moment) -> Vec<Finding> {
        findings::of(&lock(&self.state))
    }

    fn series(&self, scrape: &mut Scrape) {
        let state = lock(&self.state).clone();
        scrape.write(state, |state, moment, series| series::encode(&state, moment.now_realtime_ns, series));
    }

    fn routes(self: Arc<Self>) -> Vec<Route> {
        let campaigns = campaign::routes(&self);
        let own = Route::new("/api/v1/nic", SAYS, move |shared, viewer, uri| {
            parameters(uri, &[])?;
            let why = self.why_not_watched(&shared.moment());
            let all = (lock(&self.state).clone(), Public(why));
            Ok(viewer.show(all, |(state, Public(why))| within(ANSWER_BYTES_MAX, Answer::of(&state, why), Answer::cut)))
        });
        std::iter::once(own).chain(campaigns).collect()
    }

    fn chart(&self, _: &Moment, viewer: Viewer) -> Seen<Option<Chart>> {
        let points: Vec<(u64, f64)> = lock(&self.state).bad.iter().copied().collect();
        viewer.show(Public(points), |Public(points)| {
            // A line at zero says nothing that the findings do not say.
            let is_any = points.iter().any(|(_, bad)| *bad > 0.0);
            is_any.then_some(Chart {
                title: "Network interfaces that are slow, losing or hung",
                unit: "count",
                points,
                now: NowValue::Last,
            })
        })
    }

    fn why_unseen(&self, moment: &Moment) -> Option<String> {
        let look = lock(&self.state).look.as_ref().map(|look| look.unsupported.clone());
        match look {
            Some(unsupported) => unsupported,
            None if moment.is_replay() => Some(NOT_RECORDED.to_owned()),
            None => Some(self.unsupported.clone().unwrap_or_else(|| NOT_YET.to_owned())),
        }
    }
}
